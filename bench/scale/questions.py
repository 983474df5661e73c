"""Seeded questions of which it is known what they ask for: each is made of a sentence that some drawer holds.

A third of the words of the sentence is left out, as people remember some of them; what stands before is one of the ways
in which people and agents ask. Answers are checked for that sentence only to see that the bench asks real questions:
how well the product finds things is measured by ``--bench recall``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from palace_daemon.bench.scale.vectors import Texts

_FORMS = (
    "{}",
    "{}",
    "{}?",
    "what did we say about {}?",
    "why did we choose {}?",
    "how do I {}?",
    "what did we do last month about {}?",
    "what should I use for {}?",
)
"""Two of eight are mere words, as agents ask; one has a date, one asks for a wish: those cost more."""
_WORDS_MIN = 5
_WORDS_MAX = 24
_LEFT_OUT = 1 / 3
_SENTENCE = re.compile(r"[^.?\n]+[.?]")


class Question(Struct, frozen=True):
    """A question, and the sentence that it asks for."""

    text: str
    sentence: str


def draw_questions(texts: Texts, seed: int) -> Iterator[Question]:
    """Yield questions without end, about the real part of a store; the same for the same seed.

    Raises:
        ValueError: No text holds a sentence to ask for.
    """
    chance = np.random.Generator(np.random.PCG64([seed, 3]))
    sentences = sorted({sentence for text in texts.drawers for sentence in _sentences(text)})
    if not sentences:
        raise ValueError("no text holds a sentence to ask for")
    while True:
        sentence = sentences[int(chance.random() * len(sentences))]
        words = sentence.rstrip(".?").split()
        kept = [word for word, drawn in zip(words, chance.random(len(words)), strict=True) if drawn > _LEFT_OUT]
        form = _FORMS[int(chance.random() * len(_FORMS))]
        yield Question(form.format(" ".join(kept or words).lower()), sentence)


def _sentences(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        for match in _SENTENCE.finditer(line):
            sentence = match.group().strip().removeprefix("> ")
            if _WORDS_MIN <= len(sentence.split()) <= _WORDS_MAX:
                yield sentence
