"""Questions whose answer is known, made of what a store holds: a sentence of an exchange with some words left out.

Invariant: the same store, seed and share give the same questions. Which sentence of an exchange is taken, and what of
it is dropped, depends on nothing but the seed and that exchange.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from palace_daemon.core import sentences

WORDS_MIN = 6
"""Shorter sentences say too little to know an exchange by."""
WORDS_MAX = 40
"""Longer ones, lists and logs without a stop among them, are asked by their beginning."""
READ_PER_PROBE = 4
"""Exchanges that are read for each question that is wanted: many hold no sentence that can be used."""

_UNIT = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]\s*|[^\s\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+\s*")
"""A word with the space behind it; a character where words are written without spaces."""
_SAID = re.compile(r"[^\W\d_]{2}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""What a unit of language has, and a number, a path mark or a bracket has not."""

Side = Literal["user", "reply"]


class Told(NamedTuple):
    """What was said in an exchange."""

    row: int
    public_id: str
    user_text: str
    reply_text: str


class Probe(NamedTuple):
    """One question and the exchange that it was made of."""

    row: int
    public_id: str
    side: Side
    """Who said it."""
    text: str
    """The question. It is never shown."""


def sample(rows: Sequence[int], read: Callable[[int], Told], *, count: int, seed: int, drop: float) -> list[Probe]:
    """Return up to ``count`` questions, each about another exchange.

    A sentence that stands in several of the exchanges that are read is not asked: it names none of them.

    Args:
        rows: All exchanges that may be asked about.
        read: Returns what is said in one.
        count: Questions that are wanted.
        seed: Of the choice.
        drop: Share of a sentence's words that are left out, from 0 to below 1.
    """
    order = sorted(rows, key=lambda row: hashlib.blake2b(f"{seed}:{row}".encode(), digest_size=8).digest())
    candidates = [read(row) for row in order[: count * READ_PER_PROBE]]
    spread = Counter(text for told in candidates for text in {*_usable(told.user_text), *_usable(told.reply_text)})
    found: list[Probe] = []
    for told in candidates:
        if len(found) == count:
            break
        probe = _probe(told, lambda text: spread[text] == 1, random.Random(f"{seed}:{told.row}"), drop)  # noqa: S311
        if probe is not None:
            found.append(probe)
    return found


def without_words(sentence: str, drop: float, chance: random.Random) -> str:
    """Return the beginning of ``sentence`` without a share of its words, the others in their order."""
    units = _UNIT.findall(sentence)[:WORDS_MAX]
    gone = set(chance.sample(range(len(units)), min(round(drop * len(units)), len(units) - 1)))
    return "".join(unit for at, unit in enumerate(units) if at not in gone).strip()


def _probe(told: Told, is_own: Callable[[str], bool], chance: random.Random, drop: float) -> Probe | None:
    """Return a question about an exchange; what the user said and what was replied are as likely."""
    texts: dict[Side, str] = {"user": told.user_text, "reply": told.reply_text}
    sides = {side: own for side, text in texts.items() if (own := [one for one in _usable(text) if is_own(one)])}
    if not sides:
        return None
    side = chance.choice(list(sides))
    text = without_words(chance.choice(sides[side]), drop, chance)
    return Probe(told.row, told.public_id, side, text)


def _usable(text: str) -> list[str]:
    """Return the sentences with enough words, in order, each once."""
    pieces = (piece.strip() for piece in sentences.pieces(text))
    return list(dict.fromkeys(piece for piece in pieces if _words(piece) >= WORDS_MIN))


def _words(piece: str) -> int:
    return sum(_SAID.search(unit) is not None for unit in _UNIT.findall(piece))
