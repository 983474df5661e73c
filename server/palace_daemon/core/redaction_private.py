"""``<private>`` blocks: what a person marked as not to be remembered.

Invariant: where a mark is in doubt, more is hidden, not less. Inside a block every tag counts, and a block without an
end hides the rest of the text. Only an opening tag in closed Markdown code is kept: there somebody talks about the tag.
Time is linear in the text, but for a logarithm.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict

_TAG = re.compile(r"<\s{0,4}(/?)\s{0,4}private\s{0,4}>", re.IGNORECASE)
_FENCE = re.compile(r"^[ \t>*+-]{0,16}(`{3,}+|~{3,}+)([^\r\n]*+)", re.MULTILINE)
_TICKS = re.compile(r"(?<![\\`])`+")

Span = tuple[int, int]


def private_blocks(text: str) -> list[Span]:
    """Return where the private blocks of ``text`` begin and end, their tags included."""
    tags = list(_TAG.finditer(text))
    if not any(not tag[1] for tag in tags):
        return []
    code = _code_ends(text) if "`" in text or "~~~" in text else {}
    blocks: list[Span] = []
    start, told, depth, resume = 0, -1, 0, 0
    for at, tag in sorted(
        [*((tag.start(), tag) for tag in tags), *((at, None) for at in code)], key=lambda one: one[0]
    ):
        is_code = at < resume
        if tag is None:
            resume = resume if depth or is_code else code[at]
        elif is_code:
            told = -1 if tag[1] else at
        elif depth == 0 and tag[1]:
            if told >= 0:  # opened in what looks like code, closed outside: a stray backtick, and no talk about tags
                blocks.append((told, tag.end()))
            told = -1
        else:
            start = at if depth == 0 else start
            depth += -1 if tag[1] else 1
            told = -1
            if depth == 0:
                blocks.append((start, tag.end()))
    return [*blocks, (start, len(text))] if depth else blocks


def _code_ends(text: str) -> dict[int, int]:
    """Return the start of each mark that can open code, with the end of that code.

    Which of them do open code shows from the front: a mark inside code, or inside a private block, opens none.
    """
    ends = _inline_ends(text)
    open_marks: dict[str, list[re.Match[str]]] = {"`": [], "~": []}
    for mark in _FENCE.finditer(text):
        if mark[1][0] == "`" and "`" in mark[2]:
            continue  # inline code that begins a line
        ends.pop(mark.start(1), None)
        waiting = open_marks[mark[1][0]]
        while waiting and mark[1].startswith(waiting[-1][1]):
            # With words after it this mark opens another fence, and the one that waited was stray.
            opening = waiting.pop()
            if not mark[2].strip():
                ends[opening.start(1)] = mark.end()
        waiting.append(mark)
    return ends


def _inline_ends(text: str) -> dict[int, int]:
    """Return the start of each run of backticks with the end of the next run as long as that on the same line."""
    runs = [match.span() for match in _TICKS.finditer(text)]
    alike: defaultdict[Span, list[int]] = defaultdict(list)
    places: list[Span] = []
    line = done = 0
    for start, end in runs:
        line += text.count("\n", done, start)
        done = start
        places.append((line, end - start))
        alike[places[-1]].append(end)
    ends: dict[int, int] = {}
    for (start, end), place in zip(runs, places, strict=True):
        following = bisect_right(alike[place], end)
        if following < len(alike[place]):
            ends[start] = alike[place][following]
    return ends
