"""The turns of a plain text, and whether it has any."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from msgspec import Struct

from palace_daemon.core.transcripts.reading.text_lines import Fence, TextLines

_USER = ("User", "Human", "Me", "You", "You said")
_ASSISTANT = ("Assistant", "AI", "Claude", "ChatGPT", "Bot", "Claude said", "ChatGPT said")
_LABELS = dict.fromkeys(_USER, True) | dict.fromkeys(_ASSISTANT, False)
_LABELS |= {label.upper(): is_user for label, is_user in _LABELS.items()}
_ANY = "|".join(sorted(map(re.escape, _LABELS), key=len, reverse=True))
_FORMS = {
    "plain": re.compile(rf"({_ANY}):(?:[ \t]+(.*)|[ \t]*)$"),
    "bold": re.compile(rf"\*\*({_ANY})(?::\*\*|\*\*:)(?:[ \t]+(.*)|[ \t]*)$"),
    "heading": re.compile(rf"#{{1,4}} ({_ANY}):?[ \t]*()$"),
}
"""How a label can stand. Small letters are left out: ``user:`` is a key of many a settings file."""

_MIN_LABELS = 3
_MIN_PAIRS = 2
_MAX_LEAD_LINES = 30
"""Lines that may stand before the first label, such as a title and the date of a download."""

_ATTRIBUTION = re.compile(
    r"(?:On|Am|Le|El|Il|Den|W dniu) .{4,200} (?:wrote|schrieb|a \u00e9crit|escribi\u00f3|ha scritto|skrev)\b.*:\s*$"
)
_NO_ANSWER = re.compile(r"#{1,6} |!\[|\[!|\[\^?\w+\]: |<[a-z!]|={3,}$|-{3,}$")
"""What the first line below a quotation begins with in a page that is no conversation."""

_NESTED = re.compile(r">[ \t]*>")
_CALLOUT = re.compile(r"> ?\[!\w+\]")


Form = Literal["labelled", "quoted", ""]


class Turn(Struct, frozen=True):
    """One turn and its lines."""

    is_user: bool
    text: str
    first: int
    end: int


def form_of(text: str) -> Form:
    """Return how the turns of a text stand out; empty where it is no conversation beyond doubt.

    ``text`` is its beginning: what a reply holds later cannot undo what the beginning showed.
    """
    lines = TextLines(text)
    first = next((line for line in lines.lines if line.strip()), "")
    if first.startswith(("{", "[", "<")) or "\ufffd\ufffd" in first:
        return ""
    if _is_dialogue(_labels(lines)):
        return "labelled"
    return "quoted" if _is_interview(lines) else ""


def turns_of(lines: TextLines, form: Form) -> list[Turn]:
    """Return the turns of a text of this form."""
    if form == "quoted":
        return _runs(lines)
    found = _labels(lines) if form == "labelled" else []
    turns = []
    for number, (index, is_user, rest) in enumerate(found):
        end = found[number + 1][0] if number + 1 < len(found) else len(lines.lines)
        text = "\n".join((rest, *lines.lines[index + 1 : end])).strip("\n").rstrip()
        turns.append(Turn(is_user, _without_rule(text), index, end))
    return turns


def _is_dialogue(found: Sequence[tuple[int, bool, str]]) -> bool:
    """Return whether labels are many enough, of both sides, and take turns."""
    sides = [is_user for _, is_user, _ in found]
    if len(sides) < _MIN_LABELS or len(set(sides)) < 2 or found[0][0] > _MAX_LEAD_LINES:
        return False
    return sum(before != after for before, after in pairwise(sides)) * 3 >= (len(sides) - 1) * 2


def _is_interview(lines: TextLines) -> bool:
    """Return whether quoted paragraphs from the start on are answered by what stands below them."""
    runs = _runs(lines)
    answers = [run for run in runs if not run.is_user]
    if len(answers) < 2 or not runs[0].is_user or len(runs) < 2 * _MIN_PAIRS or _NO_ANSWER.match(answers[0].text):
        return False
    return not any(_NESTED.match(line) or _CALLOUT.match(line) or _ATTRIBUTION.match(line) for line in lines.lines)


def _labels(lines: TextLines) -> list[tuple[int, bool, str]]:
    """Return the lines with a label outside code, in the form that the first of them has."""
    found: list[tuple[int, bool, str]] = []
    forms: Sequence[re.Pattern[str]] = tuple(_FORMS.values())
    sign = ""
    fence = Fence()
    for index, line in enumerate(lines.lines):
        if not fence.is_open:
            for form in forms:
                if (match := form.match(line)) and line.startswith(sign):
                    found.append((index, _LABELS[match[1]], (match[2] or "").strip()))
                    forms, sign = (form,), line[: match.start(1)]
                    break
        fence.feed(line)
    return found


def _without_rule(text: str) -> str:
    """Return ``text`` without a rule at its end, which divides turns."""
    head, _, last = text.rpartition("\n")
    return head.rstrip() if last.strip() in ("---", "***", "___") else text


def _runs(lines: TextLines) -> list[Turn]:
    """Return quoted paragraphs, which begin after an empty line, and what stands between them."""
    runs: list[Turn] = []
    fence = Fence()
    first = 0
    is_user = False
    for index, line in enumerate(lines.lines):
        is_quote = line.startswith(">") and not fence.is_open
        starts = is_quote and not is_user and lines.is_blank(index - 1)
        ends = is_user and not is_quote
        if starts or ends:
            _add(runs, lines, first, index, is_user=is_user)
            first, is_user = index, starts
        if not is_user:
            fence.feed(line)
    _add(runs, lines, first, len(lines.lines), is_user=is_user)
    return runs


def _add(runs: list[Turn], lines: TextLines, first: int, end: int, *, is_user: bool) -> None:
    if is_user:
        text = "\n".join(line.removeprefix(">").removeprefix(" ") for line in lines.lines[first:end]).strip()
    else:
        text = lines.text(first, end)
    if text:
        while lines.is_blank(first):
            first += 1
        runs.append(Turn(is_user, text, first, end))
