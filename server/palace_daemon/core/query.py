"""Reads a question as people and agents send it: what to embed, what to look up by words.

Agents send more than a question: labels, JSON, code fences, whole logs with a question at the end, memories that Palace
gave them earlier. Each step below removes one kind of that, says so in a note, and is undone where it would leave
nothing. A line of a pasted config looks like the label that announces a question (``query: up``): where words above it
ask, nothing is taken off. What a label, a fence or the length took off is still looked up by words. Invariant: no input
raises, and a query with a visible character never becomes empty.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence

from msgspec import Struct

from palace_daemon.core import analysis
from palace_daemon.core.boundaries import fences
from palace_daemon.core.budget import estimated_tokens

TEXT_WEIGHT_MAX = 300
"""Bound of the text to embed, in estimated tokens; below the model's 512, since a longer text has a vaguer vector."""

TERMS_MAX = 256
"""Most distinct terms that are looked up. Those of the question itself come first; the ranker decides which matter."""

RAW_CHARS_MAX = 100_000
"""Of a longer raw query only the first and the last half of this are read."""

_RECALL_OPEN, _RECALL_CLOSE = "<palace-recall", "</palace-recall>"
_LABELS = r"(?:search[ _]?query|user[ _]?(?:question|query|prompt)|query|question|search(?:[ _]for)?|q)"
_LABEL = re.compile(rf"^[^\w\n]{{0,8}}{_LABELS}[*_\"' ]{{0,4}}:[*_]{{0,4}}\s*+(?=\S)", re.IGNORECASE | re.MULTILINE)
_OTHER_LABEL = re.compile(r"^[*_#\"' ]{0,4}[A-Za-z][A-Za-z_ ]{1,24}:(?:\s|$)", re.MULTILINE)
_OPENING_LABEL = re.compile(r"[^\w\n]{0,8}[A-Za-z]{1,24}(?:[ _][A-Za-z]{1,24})?[*_\"' ]{0,4}:\s")
_JSON_KEYS = ("query", "question", "search", "prompt", "text", "q")
_HIDDEN = "\0"  # stands in no cleaned text
_NOT_LINE_END = re.compile(r"[^\n]+")
_FENCE_MARK = re.compile(r"^[ \t]*(?:```+|~~~+)[^\n`]*$|```+|~~~+", re.MULTILINE)
_SENTENCE = re.compile(r"[^.!?。\uff01\uff1f\n]+(?:[.!?](?!\s|$)[^.!?。\uff01\uff1f\n]*)*[.!?。\uff01\uff1f]*")
_QUESTION_END = ("?", "\uff1f", '?"', "?'", "?”", "?)", "?*")
_QUOTES = "\"'`“”„«»"
_QUESTION_WORDS_MIN = 3
_CONTEXT_WEIGHT = 60  # a shorter last question ("Why is that?") leans on the sentences before it
_HEAD_SHARE = 0.6
_ELLIPSIS = " … "


_FRAME = re.compile(
    r"""
    (?:(?:in|from)\s+)?(?:which|what)\s+(?:session|chat|conversation|thread|transcript)s?\s+
        (?:(?:was|is|were)\s+(?:about\s+)?|(?:covers?|covered|had|has)\s+|(?:did|do)\s+(?:i|we)\s+)
    | (?:when|where)\s+(?:did|do|have|had)\s+(?:i|we)\s+
    | (?:do\s+you|can\s+you)\s+(?:still\s+)?(?:remember|recall|find)\s+
        (?:(?:when|where|how|that)\s+|the\s+(?:session|chat|conversation|time)\s+(?:about|when|where)\s+)?
    | (?:find|show\s+me)\s+(?:the|that|our|my)\s+(?:session|chat|conversation)s?\s+(?:about|on|where|when)\s+
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""How people address the memory itself: those words say nothing of what was said, and in transcripts of agents
"session" and "chat" are everywhere."""
_FRAMED_TERMS_MIN = 2
_FRAME_TERMS = frozenset(
    analysis.terms(
        "what which who where how did do does done have has had was were is are be been i we you me us my our it that"
        " this the a an on in at of to for from with about and any all anything everything something happen happened"
        " talk talked discuss discussed say said ask asked work worked working go going up list show tell give"
    )
)
"""Words that ask for whatever there is."""
_DATE_IN_DIGITS = re.compile(
    r"(?<![\w./-])(?:[0-9]{4}([-/.])[0-9]{1,2}(?:\1[0-9]{1,2})?|[0-9]{1,2}([-/.])[0-9]{1,2}\2[0-9]{2,4})(?![\w/-])"
)
_NAMED_YEAR = re.compile(r"(?:the\s+)?year[\s-]([0-9]{4})", re.IGNORECASE)
"""Without a preposition it is no time: "the year 2038 problem"."""


class ReadQuery(Struct, frozen=True):
    """A question, read."""

    text: str
    """For the embedder; empty only if the raw text has no visible character. About 300 tokens at most."""
    terms: tuple[str, ...]
    """Distinct terms for BM25 in order, the question's own first; at most :data:`TERMS_MAX`."""
    surfaces: dict[str, str]
    """Term to the words that the asker typed."""
    notes: tuple[str, ...] = ()
    """What was taken off: ``recallBlock``, ``json``, ``label``, ``frame``, ``codeFence``, ``longText``, ``terms``."""

    def surface(self, term: str) -> str:
        """Return ``term`` as the asker typed it, or the term itself where it is none of this query's."""
        return self.surfaces.get(term, term)


def terms_outside(question: ReadQuery, places: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    """Return the terms of a question without those that stand only in ``places`` of its text, where others are left.

    Words that name a date say when, not what: "march" and "4" stand in many drawers that are of no 4th of March. A date
    in digits may also be a name, as of a release ("pinned to 2023-06-01"): the whole is kept, without its parts. Where
    nothing else but frame words is left ("what did we do on March 4?"), there is nothing to look up.
    """
    if not places:
        return question.terms
    named = [question.text[start:end] for start, end in places]
    inside = {term for words in named for term in analysis.terms(words)}
    names = {name for words in named for name in _names_in(words)}
    left = question.text
    for start, end in sorted(set(places), reverse=True):
        left = f"{left[:start]} {left[end:]}"
    outside = set(analysis.terms(left))
    kept = {term for term in question.terms if term in outside or term not in inside}
    if not kept:
        return question.terms
    return () if kept <= _FRAME_TERMS else tuple(term for term in question.terms if term in kept or term in names)


def names_inside(question: ReadQuery, places: Sequence[tuple[int, int]]) -> frozenset[str]:
    """Return the terms in ``places`` that are kept as possible names: one that no drawer holds was none, but a date."""
    return frozenset(name for start, end in places for name in _names_in(question.text[start:end]))


def _names_in(words: str) -> list[str]:
    """Return the terms in words that name a date by which something else may be called."""
    if year := _NAMED_YEAR.fullmatch(words):
        return [year[1]]
    return [analysis.terms(match.group())[0] for match in _DATE_IN_DIGITS.finditer(words)]


def read(raw: str) -> ReadQuery:
    """Read a raw query; see the module for what is taken off. Thread-safe, deterministic, never raises."""
    notes: list[str] = []
    half = RAW_CHARS_MAX // 2
    cleaned = _cleaned(raw if len(raw) <= RAW_CHARS_MAX else f"{raw[:half]}\n{raw[-half:]}")
    asked = _step(cleaned, _without_recall_blocks(cleaned), "recallBlock", notes)
    asked = _step(asked, _from_json(asked), "json", notes)
    announced, around = _after_label(asked)
    asked = _step(asked, announced, "label", notes)
    asked = _step(asked, _without_frame(asked), "frame", notes)
    prose = _step(asked, _without_fences(asked), "codeFence", notes)
    pieces = _question_of(prose)
    text = _step(prose, _ELLIPSIS.join(pieces), "longText", notes)
    # What stood in a fence, around a label or far from the question is still looked up by words, after the question's
    # own; the end of a long text is likelier to hold the question than its beginning.
    surfaces: dict[str, str] = {}
    for source in (*reversed(pieces), asked, around):
        for term, surface in analysis.surfaces(source).items():
            surfaces.setdefault(term, surface)
    if len(surfaces) > TERMS_MAX:
        notes.append("terms")
        surfaces = dict(list(surfaces.items())[:TERMS_MAX])
    return ReadQuery(text=text, terms=tuple(surfaces), surfaces=surfaces, notes=tuple(notes))


def _cleaned(raw: str) -> str:
    """Replace what no tokeniser or encoder can take: lone surrogates and control characters."""
    if raw.isascii() and raw.isprintable():
        return raw.strip()
    kept = (char if char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs") else " " for char in raw)
    return "".join(kept).strip()


def _step(before: str, after: str, note: str, notes: list[str]) -> str:
    """Take a step unless it leaves nothing visible; note it if it changed more than the outer whitespace."""
    after = after.strip()
    if not _is_visible(after) or after == before.strip():
        return before.strip()
    notes.append(note)
    return after


def _is_visible(text: str) -> bool:
    return any(unicodedata.category(char)[0] not in "ZC" for char in text)


def _without_recall_blocks(text: str) -> str:
    """Drop closed blocks of what Palace itself put into an agent's context; an open tag is somebody's words."""
    kept: list[str] = []
    done = 0
    while (start := text.find(_RECALL_OPEN, done)) >= 0 and (end := text.find(_RECALL_CLOSE, start)) >= 0:
        kept.append(text[done:start])
        done = end + len(_RECALL_CLOSE)
    return " ".join([*kept, text[done:]])


def _from_json(text: str) -> str:
    """Return the question inside a JSON object, or ``text``."""
    if not (text.startswith("{") and text.endswith("}")):
        return text
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(parsed, dict):
        return text
    values = (_cleaned(parsed[key]) for key in _JSON_KEYS if isinstance(parsed.get(key), str))
    return next(filter(_is_visible, values), text)


def _after_label(text: str) -> tuple[str, str]:
    """Return what a ``query:`` label announces, up to the next label, without quotes around it; and what is around it.

    A label in a fence announces nothing, nor does one that was pasted below or above the question.
    """
    prose = _with_fences_hidden(text)
    labels = list(_LABEL.finditer(prose))
    if not labels:
        return _unquoted(text), ""
    start = labels[-1].end()
    following = _OTHER_LABEL.search(prose, start)
    end = following.start() if following and following.start() > start else len(text)
    if not _announces(prose, labels, start, end):
        return text, ""
    return _unquoted(text[start:end]), f"{_LABEL.sub('', text[: labels[-1].start()])}\n{text[end:]}"


def _announces(prose: str, labels: list[re.Match[str]], start: int, end: int) -> bool:
    """Return whether the last label announces the question, which then stands from ``start`` to ``end``."""
    before, asked, rest = prose[: labels[-1].start()], prose[start:end], prose[end:]
    if _asks(prose[: labels[0].start()]):
        return False
    if analysis.terms(before) and not _OPENING_LABEL.match(before.replace(_HIDDEN, " ").lstrip()):
        return _asks(asked.partition("\n")[0])  # else it may be a line of what those words speak of
    return _asks(asked) or not (_asks(before) or _asks(rest))


def _with_fences_hidden(text: str) -> str:
    """Return ``text`` with as many other characters for closed fences, unless they are all of it."""
    kept: list[str] = []
    done = 0
    for start, end in _closed_fences(text):
        kept += [text[done:start], _NOT_LINE_END.sub(lambda line: _HIDDEN * len(line.group()), text[start:end])]
        done = end
    hidden = "".join([*kept, text[done:]])
    return hidden if _is_visible(hidden) else text


def _without_frame(text: str) -> str:
    """Return what is asked about, without a beginning that asks for the place where it stands."""
    frame = _FRAME.match(text)
    rest = text[frame.end() :] if frame else ""
    return rest if len(analysis.terms(rest)) >= _FRAMED_TERMS_MIN else text


def _unquoted(text: str) -> str:
    """Drop quotes that enclose the whole text."""
    text = text.strip()
    if len(text) > 2 and text[0] in _QUOTES and text[-1] in _QUOTES and not set(_QUOTES) & set(text[1:-1]):
        return text[1:-1]
    return text


def _without_fences(text: str) -> str:
    """Return the prose around closed fenced blocks; where that says next to nothing, the code without its fences."""
    if "```" not in text and "~~~" not in text:
        return text
    kept: list[str] = []
    done = 0
    for start, end in _closed_fences(text):
        kept.append(text[done:start])
        done = end
    prose = _FENCE_MARK.sub("", "\n".join([*kept, text[done:]]))
    is_saying = len(prose.split()) >= _QUESTION_WORDS_MIN or _is_question(prose.strip())
    return prose if is_saying else _FENCE_MARK.sub("", text)


def _closed_fences(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each fenced block lies; one that is never closed may hold the question."""
    return ((start, end) for start, end in fences(text) if end <= len(text))


def _question_of(text: str) -> list[str]:
    """Return ``text``, or where it is long its last question, or where it asks none its head and its tail."""
    if estimated_tokens(text) <= TEXT_WEIGHT_MAX:
        return [text]
    sentences = [match.group().strip() for match in _SENTENCE.finditer(text)]
    asked = [here for here, sentence in enumerate(sentences) if _is_question(sentence)]
    if asked and estimated_tokens(sentences[asked[-1]]) <= TEXT_WEIGHT_MAX:
        return [_with_context(sentences, asked[-1])]
    head = _cut_to(text, int(TEXT_WEIGHT_MAX * _HEAD_SHARE))
    tail = _cut_to(text[::-1], TEXT_WEIGHT_MAX - estimated_tokens(head))[::-1]
    return [head.strip(), tail.strip()]


def _asks(text: str) -> bool:
    return any(_is_question(match.group().strip()) for match in _SENTENCE.finditer(text))


def _is_question(sentence: str) -> bool:
    return sentence.endswith(_QUESTION_END) and bool(analysis.terms(sentence))


def _with_context(sentences: list[str], here: int) -> str:
    """Return a question with the sentences before it, until it says enough to stand alone."""
    chosen = sentences[here]
    while here > 0 and estimated_tokens(chosen) < _CONTEXT_WEIGHT:
        here -= 1
        longer = f"{sentences[here]} {chosen}".strip()
        if estimated_tokens(longer) > TEXT_WEIGHT_MAX:
            break
        chosen = longer
    return chosen


def _cut_to(text: str, weight: int) -> str:
    """Return the longest beginning of ``text`` within ``weight``, up to a space where one is near."""
    quarters, end = 0, 0
    while end < len(text) and quarters < 4 * weight:
        quarters += 1 if text[end].isascii() else 4
        end += 1
    space = text.rfind(" ", end - 40 if end > 40 else 0, end)
    return text[:space] if space > 0 else text[:end]
