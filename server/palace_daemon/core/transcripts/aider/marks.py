"""How the lines look that only Aider itself writes into a history, and where reasoning begins and ends in it."""

from __future__ import annotations

import re
from bisect import bisect_left

from palace_daemon.core.transcripts.reading.text_lines import Fence

_ENDS = (
    *(r"Tokens: .* sent\b", r"\^C\b", "Applied edit to ", "Did not apply edit to ", r"Commit [0-9a-f]{7} "),
    *("Skipping edits to ", "Creating empty file ", "Failed to apply edit to ", "Allow edits to file that "),
    *(r"(?:litellm|openai|anthropic)\.\w+", r"(?:API|RateLimit|Timeout|Connection|Authentication)\w*Error\b"),
    *(r"Retrying in [\d.]+ seconds?", r"(?:The )?API provider\b", r"Model .* has hit a token limit"),
    *("Empty response received from LLM", "The LLM did not conform", r"(?:# )?\d+ SEARCH/REPLACE blocks? "),
    *(r"Only \d+ reflections allowed", "Malformed response", r"Traceback \(most recent call last\)"),
    *("KeyboardInterrupt", r"Fix lint errors in ", r"Attempt to fix (?:lint|test) errors\?", r"Add file to the chat\?"),
    *(r"Add command output to the chat\?", r"Run shell commands?\?", r"Summarization failed"),
)
"""What Aider says once a reply has ended, or was cut: edits, errors, a retry, the questions that follow."""

_OTHERS = (
    *(r"Aider v\d", "Main model: ", "Models?: ", "Weak model: ", "Editor model: ", "Git repo: ", "Repo-map: "),
    *(r"Added .* to the chat", r"Added .* to \.gitignore", r"Removed .* from the chat", r"Dropping all files"),
    *(r"https://aider\.chat/", r"Warning for ", r"Warning: .* expects these", r"Cost: \$", "You can skip this check"),
    *(r"You can use /\w", "Use /help", "Restored previous conversation", "Cur working dir: ", "Git working dir: "),
    *("Newer aider version", "No changes made to ", "Your estimated chat context", "VSCode terminal detected"),
    *("All chat history cleared", "Initial repo scan", r".*\(Y\)es/\(N\)o"),
)

_AFTER_REPLY = re.compile("|".join(_ENDS))
_OWN = re.compile("|".join((*_ENDS, *_OTHERS)))

_START = re.compile(r"<thinking-content-[0-9a-f]+>|\u25ba \*\*THINKING\*\*")
_HASHED_START = re.compile(r"<thinking-content-[0-9a-f]+>")
_HASHED_END = re.compile(r"</thinking-content-[0-9a-f]+>[ \t]*")
_SHOWN_END = re.compile(r"\u25ba \*\*ANSWER\*\*[ \t]*")
_RULE = re.compile(r"-{3,}")


def ends_reply(text: str) -> bool:
    """Return whether a tool line comes only after a reply: what is open there was never closed."""
    return _AFTER_REPLY.match(text) is not None


def is_own(text: str) -> bool:
    """Return whether a tool line is one of Aider's own, by its words."""
    return _OWN.match(text) is not None


def begins_thinking(line: str) -> bool:
    """Return whether reasoning begins on this line."""
    return _START.match(line) is not None


def ends_thinking(line: str) -> bool:
    """Return whether reasoning ends on this line."""
    return _end_mark(line) is not None


def without_thinking(text: str) -> tuple[str, int]:
    """Return a reply without its reasoning, and how many times it reasoned; what stands in fenced code is words."""
    lines = text.split("\n")
    hashed = [index for index, line in enumerate(lines) if _HASHED_END.match(line)]
    shown = [index for index, line in enumerate(lines) if _SHOWN_END.match(line)]
    kept: list[str] = []
    fence = Fence()
    index = count = 0
    while index < len(lines):
        line = lines[index]
        end = -1
        if not fence.is_open and begins_thinking(line):
            is_hashed = _HASHED_START.match(line) is not None
            end = _next(hashed, index + 1, len(lines)) if is_hashed else _next(shown, index + 1, -1)
        index += 1
        if end < 0:
            fence.feed(line)
            kept.append(line)
            continue
        count += 1
        if not line.startswith("<") and kept and _RULE.fullmatch(kept[-1]):
            kept.pop()
        mark = _end_mark(lines[end]) if end < len(lines) else None
        if mark and (rest := lines[end][mark.end() :]):
            kept.append(rest)
        index = end + 1
    return "\n".join(kept), count


def _end_mark(line: str) -> re.Match[str] | None:
    return _HASHED_END.match(line) or _SHOWN_END.match(line)


def _next(places: list[int], start: int, otherwise: int) -> int:
    """Return the first of ``places`` from ``start`` on."""
    found = bisect_left(places, start)
    return places[found] if found < len(places) else otherwise
