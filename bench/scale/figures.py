"""What real transcripts look like, in figures: measured once, so that the synthetic store needs no transcript.

Taken from 285 exchanges of 46 Claude Code sessions (public samples, parsed by the product's own parsers), the shares of
terms from 413 exchanges of all 20 agents whose samples there are, 84,777 terms after the product's own analysis. A
sentence ends at a stop before white space or at a line end. Lengths are tables of quantiles, nearest rank; between two
of them a length is interpolated on a logarithmic scale.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_right
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SHARES = (0.0, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99, 1.0)
"""The shares of which the tables below give the quantiles."""


class Lengths(NamedTuple):
    """A distribution of lengths, as quantiles."""

    quantiles: tuple[float, ...]

    def at(self, shares: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the length below which ``shares`` of all lengths lie, at least 1."""
        logarithms = np.interp(shares, _shares(), _logarithms(self.quantiles))
        return np.maximum(1, np.round(np.exp(logarithms))).astype(np.int64)

    def one(self, share: float) -> int:
        """Return what :meth:`at` does for one share, in a tenth of the time."""
        logarithms = _logarithms(self.quantiles)
        at = min(bisect_right(SHARES, share), len(SHARES) - 1) - 1
        slope = (logarithms[at + 1] - logarithms[at]) / (SHARES[at + 1] - SHARES[at])
        return max(1, round(math.exp(slope * (share - SHARES[at]) + logarithms[at])))


@functools.cache
def _shares() -> NDArray[np.float64]:
    return np.array(SHARES)


@functools.cache
def _logarithms(quantiles: tuple[float, ...]) -> list[float]:
    found: list[float] = np.log(quantiles).tolist()
    return found


SESSION_EXCHANGES = Lengths((1, 1, 1, 1, 2, 4, 9, 26, 80, 80))
USER_CHARS = Lengths((1, 6, 11, 28, 60, 151, 429, 1_651, 4_622, 22_026))
REPLY_CHARS = Lengths((2, 25, 56, 222, 759, 1_428, 2_421, 3_282, 6_210, 8_317))
PARAGRAPH_CHARS = Lengths((2, 16, 25, 51, 101, 197, 288, 355, 567, 1_871))
"""Paragraphs of replies."""
USER_SENTENCE_WORDS = Lengths((1, 1, 1, 2, 5, 9, 14, 17, 28, 59))
REPLY_SENTENCE_WORDS = Lengths((1, 1, 1, 3, 7, 11, 17, 20, 30, 46))
GAP_SECONDS = Lengths((1, 1, 1, 24, 96, 246, 678, 1_716, 78_780, 78_780))
"""Between two user turns of a session. The longest gap, of months, is left out."""

NO_USER_TURN = 0.025
NO_REPLY = 0.11
FIRST_QUESTIONS = 0.30
"""User turns whose first sentence is a question."""
LATER_QUESTIONS = 0.08
"""Further sentences of user turns that are questions."""
TYPED_CHARS = 250
PASTED_TURNS = 0.75
"""Longer user turns of which all but the first characters are pasted, logs and code: with these two shares an exchange
has 2.2 statements, as in the samples. Longer turns are rare, but have most of the statements where all is prose."""
CODE_REPLIES = 0.20
"""Replies with a fenced block."""
CODE_CHARS = 0.5
"""Of such a reply: a tenth of all characters of replies is code."""

TERM_RANKS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000)
TERM_SHARES = (0.0344, 0.0141, 0.0136, 0.0092, 0.0063, 0.0049, 0.0029, 0.00166, 0.0010, 0.00038, 0.00015, 0.00006)
"""Share of all terms that the term of each rank has."""
HEAPS_EXPONENT = 0.62
"""In the samples n terms hold 6.35 n^0.62 distinct ones, measured from 1,000 to 85,000. So beyond the last of the ranks
above, shares fall with the rank to the power -1/0.62; what is drawn has 1.0 to 0.75 of that up to 650,000."""
