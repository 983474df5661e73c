r"""Which texts say the same, and which of a ranking are shown: one place for each thing said, several for a session.

Two texts say the same where nothing but spelling differs: case, white space, marks of a list or a heading, dashes and
quotes, a full stop. A text that another holds whole, but for a tenth, says nothing beside it either.

Vectors take no part. On 75 real drawers of 40 to 2,100 characters, each changed in one place, a cosine of 0.995 with
an overlap of terms of 0.95 would have folded most of those from 200 characters on in which a number was another one
(80 to 100 of 100), a third to a half with another word, and 85 of 100 that said "not" where the original did not: just
the texts that must not be hidden behind each other. No bound parts them from mere respellings (cosine 0.997 to 1).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import NamedTuple

HELD_SHARE_MIN = 0.9
"""Share of a text that another must make up to be folded into it."""

# Each begins with what must stand there, so that most of a text is passed over at once.
_LINE_MARKS = re.compile(r"\n[ \t]*(?:(?:>|#{1,6}|[-*\u2022])[ \t]+)+")
_EMPHASIS = re.compile(r"\*\*(?<!\w\*\*)(?=\S)([^*\n]+)(?<=\S)\*\*(?!\w)")  # in pairs, and no power: 2**3
_STOPS = re.compile(r"(?<![.,;:\u2026])[.,;:\u2026]++(?=\s|$)")
_TYPOGRAPHY = (
    ("\u2018\u2019", "'"),
    ("\u201c\u201d", '"'),
    ("\u2010\u2011\u2012\u2013\u2014", "-"),
)


class Entry(NamedTuple):
    """One drawer in a ranking."""

    group: int
    """What is listed once: a session, or the drawer itself."""
    exchange: int


class Chosen(NamedTuple):
    """One drawer that is shown."""

    at: int
    """Its place in the ranking."""
    folded: list[int]
    """The places of those that say the same, best first."""


class Shortlist(NamedTuple):
    """What is shown."""

    groups: dict[int, list[Chosen]]
    """By group, the group of the best drawer first."""
    is_settled: bool
    """Whether no drawer that ranks below all those given can open a group or fold into what is shown."""


def said(text: str) -> str:
    """Return ``text`` without what may differ between two texts that say the same."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        for variants, plain in _TYPOGRAPHY:
            for variant in variants:
                text = text.replace(variant, plain)
    text = _LINE_MARKS.sub("\n", "\n" + text.replace("`", ""))
    text = _EMPHASIS.sub(r"\1", text)
    return " ".join(_STOPS.sub("", text).casefold().split())


def holds(whole: str, part: str) -> bool:
    """Return whether ``whole`` holds all of ``part`` in one piece, and little else; both from :func:`said`."""
    return len(part) >= HELD_SHARE_MIN * len(whole) and f" {part} " in f" {whole} "


def shortlist(
    ranking: Sequence[Entry], said_at: Callable[[int], str] | None, *, limit: int, per_group: int
) -> Shortlist:
    """Go down a ranking and choose what is shown of it.

    A drawer that says what one of another exchange above it says is folded into that. Drawers of one exchange are
    never folded: they repeat the same lead. What ranks below the last group's beginning is shown or folded only where
    it would have a place; so the outcome does not depend on how much of the ranking below that is given.

    Args:
        ranking: Drawers, best first.
        said_at: Returns what :func:`said` makes of the text at a place in the ranking, empty where it is to be compared
            with nothing; None folds nothing. Is asked in the order of the ranking, and only where it matters.
        limit: Groups at most.
        per_group: Drawers of one group at most.
    """
    walk = _Walk(ranking)
    is_closed = False
    for at, entry in enumerate(ranking):
        own = walk.groups.get(entry.group)
        if len(own) >= per_group if own is not None else is_closed:
            continue
        text = said_at(at) if said_at is not None else ""
        if (twin := walk.twin_of(entry, text)) is not None:
            twin.folded.append(at)
        elif own is not None or len(walk.groups) < limit:
            walk.show(at, text)
        else:
            is_closed = True
        if said_at is None and len(walk.groups) == limit:
            is_closed = True
    return Shortlist(walk.groups, is_closed)


class _Walk:
    """What was chosen so far."""

    def __init__(self, ranking: Sequence[Entry]) -> None:
        self.groups: dict[int, list[Chosen]] = {}
        self._ranking = ranking
        self._by_text: dict[str, list[Chosen]] = {}

    def show(self, at: int, text: str) -> None:
        chosen = Chosen(at, [])
        self.groups.setdefault(self._ranking[at].group, []).append(chosen)
        self._by_text.setdefault(text, []).append(chosen)

    def twin_of(self, entry: Entry, text: str) -> Chosen | None:
        """Return the best drawer of another exchange that says the same as ``entry``, whose text is ``text``."""
        if not text:
            return None
        for shown, chosen in ((text, self._by_text.get(text, ())), *self._by_text.items()):
            if shown == text or holds(shown, text):
                twin = next((one for one in chosen if self._ranking[one.at].exchange != entry.exchange), None)
                if twin is not None:
                    return twin
        return None
