"""The sentences in which a person says something: what is asked for later is mostly one of them.

A statement is a sentence of a user turn that is no question, or what a question says before it asks ("I moved the queue
to Redis, can you check the settings?"). Told among other things, in a long exchange, it is lost in the vector of the
whole; with a vector of its own it is found. Where people talk to each other, both sides say statements, and the
speaker's name stands before each. A standing wish that names its occasion ("short answers when I ask about SQL") gives
one statement more, the occasion alone: that is what later requests resemble.

Pure functions, safe from any thread; the same exchange gives the same statements in the same order.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from palace_daemon.core.boundaries import fences
from palace_daemon.core.sentences import label_of
from palace_daemon.core.wishes import is_wish, occasion_of
from palace_daemon.model import UserKind

STATEMENTS_VERSION = 2
"""Raised when :func:`statements` gives others for the same exchange: stored ones are then made anew."""

STATEMENTS_MAX = 32
"""Most statements of one exchange, the first and the last ones: people begin with the matter and end with the wish;
what lies between in a longer turn is mostly pasted."""

STATEMENT_CHARS_MAX = 400
"""A longer sentence is shortened to its beginning, counted in characters that are decomposed as the tokeniser does: at
one token for each it fits the model."""

_WORDS_MIN = 3
_UNSPACED_MIN = 6
_LETTERS_SHARE_MIN = 0.7
"""Share of letters and spaces: below it a line is a path, a log, a diff or a table. "Use 2.4.1, not 2.3." has 0.5 and
is no loss: its words are found by words."""

_BETWEEN_LETTERS = " '\u2019,."
_NO_LETTERS = bytes(code for code in range(128) if not chr(code).isalpha() and chr(code) not in _BETWEEN_LETTERS)

_STOPS = ".!?\u3002\uff01\uff1f\uff61"
_ENDS = ")\\]\"'\u201d\u2019\u00bb*_`"  # what may stand behind the last stop of a sentence
_SENTENCE = re.compile(rf"[^\n{_STOPS}]+(?:[.!?](?![\s{_ENDS}]|$)[^\n{_STOPS}]*)*[{_STOPS}]*[{_ENDS}]*")
_MARKER = re.compile(r"[ \t]*(?:(?:[-*•+]|\d{1,3}[.)]|#{1,6}|\[[ xX]\])[ \t]+)*")
_NOT_SAID = re.compile(r"[ \t]*(?:>|\||[$%] |@@|\+\+\+|---|at [\w$.<>]+ ?\(|File \")")
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")
_UNSPACED = re.compile("[\u0e01-\u0e4e\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
_QUESTION_ENDS = ("?", "\uff1f")
_ASKING = (
    r"(?:can(?:'t)?|could(?:n't)?|will|won't|would(?:n't)?|do(?:n't)?|does(?:n't)?|did(?:n't)?|is(?:n't)?|are(?:n't)?"
    r"|was(?:n't)?|were(?:n't)?|should(?:n't)?|shall|have|haven't|has|had|may|might|what(?:'s)?|how(?:'s)?|why|which"
    r"|when|where|who|whose|whom|any)\b"
)
_JOINING = r"(?:and|so|but|or|then|also|please|perhaps|maybe)\s+"
_BEGINS_TO_ASK = re.compile(
    rf"[,;:]\s+(?:{_JOINING})?(?={_ASKING})"
    rf"|(?<!\s)\s+(?:and|so|but)\s+(?={_ASKING}\s+(?:i|we|you|they|he|she|it|there|this|that|the|my|our|your)\b)",
    re.IGNORECASE,
)
_ASKS_AT_ONCE = re.compile(rf"(?:(?:and|so|but|or|then|also|ok|okay|hey|hi|well|please)[, ]+)*{_ASKING}", re.IGNORECASE)
_BEFORE_ASKING_WORDS_MIN = 4
_CLOSING = "\"'\u201d\u2019\u00bb*_`)] \t"


class Statement(NamedTuple):
    """A sentence that somebody said."""

    text: str
    """As it is embedded."""
    is_wish: bool
    """Whether it tells a standing wish, see :mod:`palace_daemon.core.wishes`."""


def statements(user_text: str, reply_text: str, kind: UserKind) -> tuple[Statement, ...]:
    """Return the statements of an exchange.

    Args:
        user_text: The user turn.
        reply_text: The whole reply; read only where other people speak in it.
        kind: Of the user turn. What no person typed, ``automated`` and ``shell``, holds none.

    Returns:
        At most :data:`STATEMENTS_MAX`, each of :data:`STATEMENT_CHARS_MAX` characters at most and the speaker's name.
    """
    if kind in {"automated", "shell"}:
        return ()
    if kind == "speaker":
        spoken = _spoken(f"{user_text}\n\n{reply_text}")
    else:
        spoken = (("", said) for said in _sentences(user_text))
    found = list(dict.fromkeys(statement for name, said in spoken for statement in _statements_of(name, said)))
    if len(found) > STATEMENTS_MAX:
        half = STATEMENTS_MAX // 2
        found = found[:half] + found[-half:]
    return tuple(found)


def _statements_of(name: str, said: str) -> Iterator[Statement]:
    """Yield a sentence as it is embedded, and behind a standing wish its occasion, if it names one."""
    before = f"{name}: " if name else ""
    wish = is_wish(said)
    yield Statement(before + said, wish)
    if wish and (occasion := occasion_of(said)):
        yield Statement(before + occasion, is_wish=True)


def _spoken(text: str) -> Iterator[tuple[str, str]]:
    """Yield speaker and sentence of a conversation in which each one's words begin with the name."""
    name = ""
    for block in text.split("\n\n"):
        label, begin = label_of(block)
        name = label or name
        for sentence in _sentences(block[begin:]):
            yield name, sentence


def _sentences(text: str) -> Iterator[str]:
    """Yield what sentences of prose say and do not ask, outside fenced blocks and quotations."""
    for line in _without_fences(text).split("\n"):
        if _NOT_SAID.match(line):
            continue
        marker = _MARKER.match(line)
        for match in _SENTENCE.finditer(line, marker.end() if marker else 0):
            said = _said_in(match.group().strip())
            if _is_statement(said):
                yield _beginning(said)


def _said_in(sentence: str) -> str:
    """Return the sentence, of a question what stands before it begins to ask: mostly nothing."""
    if not sentence.rstrip(_CLOSING).endswith(_QUESTION_ENDS):
        return sentence
    plain = sentence.replace("\u2019", "'")
    asks = None if _ASKS_AT_ONCE.match(plain) else _BEGINS_TO_ASK.search(plain)
    said = sentence[: asks.start()] if asks else ""
    return said if len(said.split()) >= _BEFORE_ASKING_WORDS_MIN else ""


def _without_fences(text: str) -> str:
    if "```" not in text and "~~~" not in text:
        return text
    kept: list[str] = []
    done = 0
    for start, end in fences(text):
        kept.append(text[done:start])
        done = max(done, end)
    return "\n".join([*kept, text[done:]])


def _is_statement(sentence: str) -> bool:
    """Return whether a text says something in words."""
    if sentence.isascii():
        letters = len(sentence.encode().translate(None, _NO_LETTERS))
    else:
        letters = sum(char.isalpha() or char in _BETWEEN_LETTERS for char in sentence)
    if letters < _LETTERS_SHARE_MIN * len(sentence):
        return False
    return len(_WORD.findall(sentence)) >= _WORDS_MIN or len(_UNSPACED.findall(sentence)) >= _UNSPACED_MIN


def _beginning(sentence: str) -> str:
    """Return the sentence, or as much of it as a statement may have."""
    if len(sentence) <= STATEMENT_CHARS_MAX and sentence.isascii():
        return sentence
    room, end = STATEMENT_CHARS_MAX, 0
    while end < len(sentence) and room >= (size := len(unicodedata.normalize("NFKD", sentence[end]))):
        room, end = room - size, end + 1
    if end == len(sentence):
        return sentence
    cut = sentence.rfind(" ", end // 2, end)
    return sentence[: cut if cut > 0 else end]
