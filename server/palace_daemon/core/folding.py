r"""Which texts say the same, and which of a ranking are shown: one place for each thing said, several for a session.

Two texts say the same where nothing but the spelling of their prose differs: white space, the capital that begins a
word, marks of a list or a heading, emphasis, dashes and quotes, a full stop. Code, in a fence, in backticks or indented
by four spaces, is compared to the letter, but for the ends of its lines. In prose, too, a capital inside a word or
behind a dash counts ("-D" is not "-d"), and so does a mark before a number ("- 5"), or a single "#", since it begins a
comment as well.

A text that another holds nearly whole is not folded into it: two words more may turn it round ("do not merge ...", said
of what the other says to merge), and no list of such words is complete. So a text that was said again with a word more
is listed twice.

Vectors take no part. On 75 real drawers of 40 to 2,100 characters, each changed in one place, a cosine of 0.995 with
an overlap of terms of 0.95 would have folded most of those from 200 characters on in which a number was another one
(80 to 100 of 100), a third to a half with another word, and 85 of 100 that said "not" where the original did not: just
the texts that must not be hidden behind each other. No bound parts them from mere respellings (cosine 0.997 to 1).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

from palace_daemon.core.boundaries import fences

_QUOTE = "> "  # with which a drawer begins
_HIDDEN = "\0"  # stands for code in prose
_SPACED = f" {_HIDDEN} "
# Each begins with what must stand there, so that most of a text is passed over at once.
_CODE = re.compile(r"`([^`\n]+)`|\n(?: {4}|\t)[ \t]*+\S[^\n]*")
_LINE_MARKS = re.compile(r"\n[ \t]*(?:(?:>|#{2,6}|[-*\u2022])[ \t]++(?![^\w\s]?\d))+")
_EMPHASIS = re.compile(r"\*\*(?<!\w\*\*)(?=\S)([^*\n]+)(?<=\S)\*\*(?!\w)")  # in pairs, and no power: 2**3
_STOP = re.compile(r"\.(?<=\w\.)(?!\S)")
_ENDS = r"(?:(?<=\s.)|(?<=\s[\"'(\[].))(?=[^\W\d_A-Z]+(?:['-][^\W\d_A-Z]+)*+[^\w\s]*+(?!\S))"
_CAPITAL = re.compile(rf"[A-Z]{_ENDS}")
_LETTER = re.compile(rf"[A-Z\u00c0-\uffff]{_ENDS}")
_TYPOGRAPHY = (
    ("\u2018\u2019", "'"),
    ("\u201c\u201d", '"'),
    ("\u2010\u2011\u2012\u2013\u2014", "-"),
    ("\u2026", "..."),
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
        text = unicodedata.normalize("NFC", text)
    if _HIDDEN in text:
        text = text.replace(_HIDDEN, " ")
    code: list[str] = []
    prose = _prose(_without_code("\n" + text.removeprefix(_QUOTE), code))
    if not code:
        return prose
    between = prose.split(_HIDDEN)
    return between[0] + "".join(chain.from_iterable(zip(code, between[1:], strict=True)))


def _without_code(text: str, code: list[str]) -> str:
    """Return ``text`` with a mark for each piece of code, all of which are added to ``code``."""

    def hide(found: re.Match[str]) -> str:
        code.append(found[1] or found.group().rstrip())
        return _HIDDEN if found[1] else _SPACED

    kept: list[str] = []
    done = 0
    if "```" in text or "~~~" in text:
        for start, end in fences(text):
            kept += [_CODE.sub(hide, text[done:start]), _SPACED]
            code.append("\n".join(map(str.rstrip, text[start:end].rstrip().split("\n"))))
            done = end
    return "".join([*kept, _CODE.sub(hide, text[done:])])


def _prose(text: str) -> str:
    text = _LINE_MARKS.sub("\n", text)
    text = _STOP.sub("", _EMPHASIS.sub(r"\1", text))
    if not text.isascii():
        for variants, plain in _TYPOGRAPHY:
            for variant in variants:
                text = text.replace(variant, plain)
    return " ".join((_CAPITAL if text.isascii() else _LETTER).sub(_lower, text).split())


def _lower(found: re.Match[str]) -> str:
    return found.group().lower()


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
        shown = self._by_text.get(text, ())
        return next((one for one in shown if self._ranking[one.at].exchange != entry.exchange), None)
