"""One SQLite file that holds everything: sources, sessions, exchanges, drawers, words, vectors.

Invariant: this is the only package that imports SQLite. One thread writes (:mod:`.writer`); readers have their own
read-only connections (:mod:`.reader`). A transaction that stores a drawer also stores its words and the cursor of the
source it came from, so that a kill at any point leaves a store that is right up to some line.

Invariant: words and vectors can be rebuilt from the exchanges; the exchanges are never derived from anything here.
"""
