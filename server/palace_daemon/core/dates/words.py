"""The words of which dates are made: a text as tokens, and the tables of month names, units, numbers and the like.

Code between backticks or in closed fences is no text here. A word that is joined to something that no date contains
(``may_fail``, ``src/march``, ``v2024.1``, ``release-2024-03-05``) is *other* and never part of a date. Everything runs
in linear time, and no text raises.
"""

from __future__ import annotations

import functools
import re
from datetime import date
from typing import Literal, NamedTuple

from palace_daemon.core.boundaries import fences

TokenKind = Literal["word", "number", "ordinal", "date", "stamp", "yearMonth", "year", "quarter", "mark", "other"]

MONTHS = {
    name: number
    for number, names in enumerate(
        (
            ("january", "jan"),
            ("february", "feb"),
            ("march", "mar"),
            ("april", "apr"),
            ("may",),
            ("june", "jun"),
            ("july", "jul"),
            ("august", "aug"),
            ("september", "sept", "sep"),
            ("october", "oct"),
            ("november", "nov"),
            ("december", "dec"),
        ),
        start=1,
    )
    for name in names
}
DOUBTFUL_MONTHS = frozenset({"may", "march", "mar", "sep", "oct", "dec"})
"""Words that in small letters are something else more often: verbs, separators, octal, decrement."""

WEEKDAYS = {
    name: number
    for number, names in enumerate(
        (
            ("monday", "mon"),
            ("tuesday", "tue", "tues"),
            ("wednesday", "wed"),
            ("thursday", "thu", "thur", "thurs"),
            ("friday", "fri"),
            ("saturday", "sat"),
            ("sunday", "sun"),
        )
    )
    for name in names
}
DOUBTFUL_WEEKDAYS = frozenset({"mon", "wed", "sat", "sun"})

PARTS_OF_DAY = {"morning": (4, 12), "afternoon": (12, 18), "evening": (17, 24), "night": (18, 30)}
"""Hours of the day, first and after; the night ends at six on the next day."""


class Unit(NamedTuple):
    """A unit of distance; exactly one of the first three is not 0."""

    months: int = 0
    days: int = 0
    minutes: int = 0
    slack_days: int = 0
    """Half the width that "one ... ago" has at least: people who count in months do not mean a certain day."""


_UNIT_NAMES = {
    Unit(minutes=1): ("minute", "minutes", "min", "mins"),
    Unit(minutes=60): ("hour", "hours", "hr", "hrs", "h"),
    Unit(days=1): ("day", "days", "d"),
    Unit(days=7, slack_days=3): ("week", "weeks", "wk", "wks", "w"),
    Unit(days=14, slack_days=4): ("fortnight", "fortnights"),
    Unit(months=1, slack_days=10): ("month", "months", "mo", "mos"),
    Unit(months=3, slack_days=30): ("quarter", "quarters"),
    Unit(months=12, slack_days=60): ("year", "years", "yr", "yrs", "y"),
    Unit(months=120, slack_days=730): ("decade", "decades"),
}
UNITS = {name: unit for unit, names in _UNIT_NAMES.items() for name in names}

_SMALL = (
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen"),
    *("fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
NUMBERS = {name: number for number, name in enumerate(_SMALL, start=1)}
TENS = {
    name: 10 * number
    for number, name in enumerate(
        ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"), start=2
    )
}
ORDINALS = {
    name: number
    for number, name in enumerate(
        (
            *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"),
            *("eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth"),
            *("eighteenth", "nineteenth", "twentieth"),
        ),
        start=1,
    )
}


def listed(text: str) -> frozenset[str]:
    """Return the words of a list in one string."""
    return frozenset(text.split())


_SUBJECTS = listed(
    "i we you they he she it did do does was were had have has when where what which who whom how why and or but the a "
    "an our my your his her their there someone somebody anyone anybody everyone"
)
_LINKS = listed(
    "about on for with at in to of by from that this if so then as after before until till because while since via "
    "into using during between also already only around regarding concerning is are"
)

_KNOWN = frozenset(
    (
        *(*MONTHS, *WEEKDAYS, *PARTS_OF_DAY, *UNITS, *NUMBERS, *TENS, *ORDINALS),
        *("spring", "summer", "autumn", "fall", "winter", "weekend", "last", "past", "this", "ago", "early", "mid"),
        *("late", "yesterday", "today", "half", "a", "couple", "few", "of", "the", "to"),
    )
)
"""Parts of hyphenated words that are read one by one, where all parts are known: "mid-March", "two-weeks-ago"."""


class Token(NamedTuple):
    """A word, a number, a date in digits, or a mark that separates."""

    kind: TokenKind
    text: str
    """Lower case, without a possessive ``'s``. Of a mark: ``,`` or ``-``, or ``.`` for all that end a thought."""
    start: int
    end: int
    number: float = 0.0
    days: tuple[date, ...] = ()
    """The readings of a date in digits, the likelier first; of a year with a month, its first day."""
    is_capital: bool = False


_END = Token("mark", ".", 0, 0)

_INLINE_CODE = re.compile(r"``[^\n]*?``|`[^`\n]*`")
_PIECE = re.compile(
    r"[^\s,;()\[\]{}<>|\"\u201c\u201d\u201e\u00ab\u00bb!?\u2013\u2014\u2026]+"
    r"|[,;()\[\]{}<>|\"\u201c\u201d\u201e\u00ab\u00bb!?\u2013\u2014\u2026]"
)
_LEADING, _TRAILING = "*_'\u2018\u2019~", "*_'\u2018\u2019~.:"
_SHORT_YEAR = re.compile(r"[*_]*['\u2018\u2019]([0-9]{2})(?:['\u2019][sS])?")
_SHORT_YEARS_FROM = 1970
_WORD = re.compile(r"([A-Za-z]+)(?:['\u2019][sS])?")
_NUMBER = re.compile(r"[0-9]{1,6}(?:\.[0-9])?")
_ORDINAL = re.compile(r"([0-9]{1,2})(?:st|nd|rd|th)", re.IGNORECASE)
_QUARTER = re.compile(r"[qQ]([1-4])")
_COUNTED = re.compile(r"([0-9]{1,4})([A-Za-z]{1,7})")
_DATE = re.compile(r"([0-9]{4})([-/])([0-9]{1,2})\2([0-9]{1,2})")
_STAMP = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt][0-9]{2}[0-9:.,Zz+-]{0,24}")
_YEAR_MONTH = re.compile(r"((?:19|20|21)[0-9]{2})-([01][0-9])")
_SLASHED = re.compile(r"([0-9]{1,2})/([0-9]{1,2})/([0-9]{4}|[0-9]{2})")
_TIME = re.compile(r"[0-9]{1,2}:[0-9]{2}:[0-9]{2}[0-9.,Zz+-]{0,12}")


class Words:
    """The tokens of a text, safe to ask beyond their end. Immutable."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._words = [token.text if token.kind == "word" else "" for token in self._tokens]

    def __len__(self) -> int:
        return len(self._tokens)

    def __getitem__(self, at: int) -> Token:
        """Return a token; before the first and after the last one, a mark."""
        return self._tokens[at] if 0 <= at < len(self._tokens) else _END

    def word(self, at: int) -> str:
        """Return the word there, or an empty string if it is no word."""
        return self._words[at] if 0 <= at < len(self._words) else ""

    def mark(self, at: int) -> str:
        """Return the mark there, or an empty string if it is none."""
        token = self[at]
        return token.text if token.kind == "mark" else ""

    def after(self, at: int, phrase: str) -> int:
        """Return the place after the words of ``phrase`` if they stand at ``at``, else 0."""
        parts = _split(phrase)
        if self.word(at) != parts[0]:
            return 0
        end = at + len(parts)
        return end if self._words[at:end] == parts else 0

    def after_any(self, at: int, phrases: tuple[str, ...]) -> int:
        """Return the place after the first of the phrases that stands at ``at``, else 0."""
        first = self.word(at)
        if not first:
            return 0
        for phrase in phrases:
            if phrase.startswith(first) and (end := self.after(at, phrase)):
                return end
        return 0

    def skip(self, at: int, *words: str) -> int:
        """Return the place after one of these words or marks if it stands at ``at``, else ``at``."""
        token = self[at]
        return at + (token.kind in ("word", "mark") and at < len(self) and token.text in words)

    def is_free(self, at: int) -> bool:
        """Return whether what stands before ``at`` is complete: a mark, a little word or a name follows, no noun.

        "in 2023 we moved" and "in 2023, users" are about a year, "in 2000 lines" is not.
        """
        token = self[at]
        return token.kind != "word" or token.is_capital or token.text in _SUBJECTS or token.text in _LINKS

    def begins_clause(self, at: int) -> bool:
        """Return whether a mark stands at ``at``, or a word with which a clause of its own begins."""
        token = self[at]
        return token.kind == "mark" or token.text in _SUBJECTS


@functools.cache
def _split(phrase: str) -> list[str]:
    return phrase.split()


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    for piece in _PIECE.finditer(_without_code(text)):
        _add(tokens, piece.group(), piece.start())
    return tokens


def _without_code(text: str) -> str:
    """Return ``text`` with code replaced by as many characters that are part of no date."""
    if "`" not in text and "~~~" not in text:
        return text
    kept: list[str] = []
    done = 0
    for start, end in fences(text):
        if end <= len(text):  # one that is never closed may hold the question
            kept += [text[done:start], "\0" * (end - start)]
            done = end
    outside = "".join([*kept, text[done:]])
    return _INLINE_CODE.sub(lambda match: "\0" * len(match.group()), outside)


def _add(tokens: list[Token], piece: str, start: int) -> None:
    """Add the tokens of one piece between spaces and brackets."""
    if len(piece) == 1 and not piece.isalnum():
        mark = {",": ",", "\u2013": "-", "-": "-"}.get(piece, ".")
        tokens.append(Token("mark", mark, start, start + 1))
        return
    core = piece.rstrip(_TRAILING)
    tail = piece[len(core) :]
    if (match := _SHORT_YEAR.fullmatch(core)) and tail[:1] not in ("'", "\u2018", "\u2019"):
        year = _SHORT_YEARS_FROM + (int(match[1]) - _SHORT_YEARS_FROM) % 100
        tokens.append(Token("year", "", start + match.start(1) - 1, start + len(core), number=float(year)))
        core, start = "", start + len(core)
    stripped = core.lstrip(_LEADING)
    start += len(core) - len(stripped)
    if tokens and tokens[-1].kind == "date" and _TIME.fullmatch(stripped):
        tokens[-1] = tokens[-1]._replace(kind="stamp")
    if stripped:
        _close_quote(tokens, stripped)
        tokens += _hyphenated(stripped, start, tokens[-1:]) if "-" in stripped else [_token(stripped, start)]
    if "." in tail or ":" in tail:
        tokens.append(Token("mark", ".", start + len(stripped), start + len(stripped) + 1))


def _close_quote(tokens: list[Token], following: str) -> None:
    """Make the last token a number where its apostrophe opened a quotation: "'10 days ago'", "'24 March 2025'"."""
    if not tokens or tokens[-1].kind != "year":
        return
    is_counted = following in UNITS and following.endswith("s")
    is_dated = following[:1].isupper() and following.lower() in MONTHS
    if (is_counted or is_dated) and not (len(tokens) > 1 and tokens[-2].text in MONTHS):
        year = tokens[-1]
        text = f"{int(year.number) % 100:02}"
        tokens[-1] = Token("number", text, year.start + 1, year.start + 3, number=float(text))


def _hyphenated(piece: str, start: int, before: list[Token]) -> list[Token]:
    """Return the parts of a hyphenated piece if a date may contain each of them, else one token.

    A hyphen that makes a range is a mark of its own. What stands before the piece says whether it does so between a
    number and a month: in "March 31-April 2" and "30 March-2 April", not in "5-March" and "March-5".
    """
    whole = _token(piece, start)
    if whole.kind != "other":
        return [whole]
    parts: list[Token] = []
    for part in re.finditer(r"[^-]+", piece):
        token = _token(part.group(), start + part.start())
        if token.kind in ("other", "stamp", "date") or (token.kind == "word" and token.text not in _KNOWN):
            return [whole]
        if parts and (_makes_range(parts[-1], token) or (len(parts) == 1 and _ends_date(before, parts[0], token))):
            parts.append(Token("mark", "-", token.start - 1, token.start))
        parts.append(token)
    return parts or [whole]


def _makes_range(one: Token, other: Token) -> bool:
    """Return whether a hyphen makes a range of two tokens by themselves: "March-May", "5-7"."""
    return _class(one) == _class(other) != "word"


def _ends_date(before: list[Token], one: Token, other: Token) -> bool:
    """Return whether ``one`` ends a date that began in the word before, and ``other`` begins the next."""
    classes = (_class(before[0]) if before else "", _class(one), _class(other))
    if len(one.text) == len("2024") and classes[1] == "number":  # "March 2024-May 2024", "March 5, 2024-April 2, 2024"
        return classes[2] == classes[0] == "quarter" or (classes[2] == "month" and classes[0] != "number")
    if classes == ("number", "month", "number"):
        return len(other.text) <= len("31")
    return classes == ("month", "number", "month")


def _class(token: Token) -> str:
    """Return what a hyphen between two tokens of the same class makes a range of, or ``word``."""
    if token.text in MONTHS:
        return "month"
    return "number" if token.kind in ("number", "ordinal") else token.kind


def _token(piece: str, start: int) -> Token:
    """Return a piece without spaces as a token."""
    end = start + len(piece)
    if match := _WORD.fullmatch(piece):
        word = match[1]
        return Token("word", word.lower(), start, end, is_capital=word[0].isupper())
    if not piece[:1].isascii() or not (piece[:1].isdigit() or piece[:1] in "qQ"):
        return Token("other", "", start, end)
    return _number(piece, start, end) or _in_digits(piece, start, end)


def _number(piece: str, start: int, end: int) -> Token | None:
    """Return a number, an ordinal, a quarter, or a number with its unit ("10d") as a token."""
    if _NUMBER.fullmatch(piece):
        return Token("number", piece, start, end, number=float(piece))
    if match := _ORDINAL.fullmatch(piece):
        return Token("ordinal", "", start, end, number=float(match[1]))
    if match := _QUARTER.fullmatch(piece):
        return Token("quarter", "", start, end, number=float(match[1]))
    if (match := _COUNTED.fullmatch(piece)) and match[2].lower() in UNITS:
        return Token("number", match[2].lower(), start, end, number=float(match[1]))
    return None


def _in_digits(piece: str, start: int, end: int) -> Token:
    """Return a date in digits as a token, or one that is *other*."""
    if match := _DATE.fullmatch(piece):
        return _dated("date", [(match[1], match[3], match[4])], start, end)
    if match := _STAMP.fullmatch(piece):
        return _dated("stamp", [(match[1], match[2], match[3])], start, end)
    if match := _YEAR_MONTH.fullmatch(piece):
        return _dated("yearMonth", [(match[1], match[2], "1")], start, end)
    if match := _SLASHED.fullmatch(piece):
        year = match[3] if len(match[3]) == 4 else f"20{match[3]}"
        return _dated("date", [(year, match[1], match[2]), (year, match[2], match[1])], start, end)
    return Token("other", "", start, end)


def _dated(kind: TokenKind, readings: list[tuple[str, str, str]], start: int, end: int) -> Token:
    found: list[date] = []
    for year, month, day in readings:
        try:
            found.append(date(int(year), int(month), int(day)))
        except ValueError:
            continue
    return Token(kind if found else "other", "", start, end, days=tuple(dict.fromkeys(found)))
