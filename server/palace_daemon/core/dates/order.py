"""Whether a question asks for the first or for the latest of several: "did we first", "the most recent one"."""

from __future__ import annotations

from typing import Literal

from palace_daemon.core.dates.words import UNITS, Words, listed

Order = Literal["", "first", "latest"]

_PRONOUNS = frozenset({"i", "we", "you", "they", "he", "she", "it", "anyone", "anybody", "someone", "somebody"})
_AUXILIARIES = frozenset({"did", "do", "does", "had", "have", "has", "was", "were", "is", "are"})
_MEETINGS = listed("conversation session chat discussion talk meeting call exchange")
_SAID = listed("thing one decision question message attempt change bug problem topic")
_CLAUSE_WORDS_MAX = 12
_PUBLISHED = listed(
    "version versions release releases build builds tag tags image images commit commits master main stable lts "
    "snapshot nightly patch patches driver drivers sdk api docs documentation model models tech technology edition "
    "and package packages dependency dependencies firmware kernel browser browsers "
    "toolchain supported compatible"
)
"""What is "latest" by itself, whoever asks and whenever: nothing that the asker said or did."""
_ATTRIBUTIVE_TIMES = listed(
    "setup user users login install installation run contributor contributors visitor visitors buyer startup step "
    "steps "
    "stamp stamps series zone zones slot slots slice frame limit"
)
"""After "first time" or "last time": the name of a thing, as in "first time setup", "last time step"."""
_IRREGULAR = listed(
    "seen built sent set made done run gone met spoken written broken bought sold read held kept left lost put told "
    "taken given shown hit cut spent begun chosen"
)


def order_of(text: str) -> Order:
    """Return what the text asks for, or an empty string, also where it asks for both."""
    words = Words(text)
    found = {kind for at in range(len(words)) if (kind := _order_at(words, at))}
    return found.pop() if len(found) == 1 else ""


def _order_at(words: Words, at: int) -> Order:
    """Return the order that the word at ``at`` names."""
    word = words.word(at)
    if word in ("first", "last"):
        is_asked = _is_time(words, at) or _is_adverb(words, at) or _is_of_ours(words, at)
        return ("first" if word == "first" else "latest") if is_asked else ""
    if word == "earliest":
        return "first" if _is_asked_for(words, at, at + 1) else ""
    if word == "latest" or (word == "most" and words.word(at + 1) in ("recent", "recently")):
        end = at + 1 + (word == "most")
        return "latest" if _is_asked_for(words, at, end) else ""
    if word in ("originally", "initially"):
        return "first" if _follows_question(words, at) else ""
    return ""


def _is_time(words: Words, at: int) -> bool:
    """Return whether "first time" or "last time" stands there and no idiom or name of a thing."""
    if words.word(at + 1) not in ("time", "occasion") or words.word(at + 2) in _ATTRIBUTIVE_TIMES:
        return False
    return not (words.word(at) == "last" and words.word(at - 1) == "the" and words.word(at - 2) == "for")


def _is_adverb(words: Words, at: int) -> bool:
    """Return whether "first" or "last" says when something was done: "did we last talk", "was it last changed"."""
    following = words.word(at + 1)
    if not following or following in UNITS:
        return False
    if _follows_question(words, at):
        return True
    is_participle = (following.endswith("ed") and len(following) > 3) or following in _IRREGULAR
    return is_participle and any(_is_when(words, place) for place in range(max(0, at - _CLAUSE_WORDS_MAX), at))


def _is_of_ours(words: Words, at: int) -> bool:
    """Return whether it is said of what asker and agent did: "our last session", "the first thing we tried"."""
    if words.word(at + 1) in _MEETINGS:
        return words.word(at - 1) in ("our", "my", "the", "your") and words.is_free(at + 2)
    return words.word(at + 1) in _SAID and words.word(at + 2) in ("i", "we")


def _is_when(words: Words, at: int) -> bool:
    return words.word(at) == "when" and words.word(at + 1) in _AUXILIARIES


def _follows_question(words: Words, at: int) -> bool:
    """Return whether "did we" stands before ``at``."""
    return words.word(at - 1) in _PRONOUNS and words.word(at - 2) in _AUXILIARIES


def _is_asked_for(words: Words, at: int, end: int) -> bool:
    """Return whether a superlative is what is asked for, and not what software is called or an idiom."""
    following = words[end]
    is_published = following.kind == "word" and (following.text in _PUBLISHED or following.text in ("used", "call"))
    is_product = following.kind == "word" and following.is_capital
    is_final = following.kind == "mark" and words.word(at - 2) == "to"  # "upgrade to the latest"
    is_idiom = words.word(at - 1) == "the" and (is_final or words.word(at - 2) == "at")
    return not (is_published or is_product or is_idiom)
