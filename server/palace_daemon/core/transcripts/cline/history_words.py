"""Whose words a text in the model history of Cline, Roo Code or Kilo Code is.

The program wraps a person's words in tags and sends them together with tool output and its own reminders, all under
the role ``user``. Invariant: words may speak of such tags, so that a wrapper ends with its last closing tag.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from palace_daemon.core.transcripts.reading.closed_blocks import skip_blanks, without_blocks
from palace_daemon.model import UserKind

_KINDS: dict[str, UserKind] = {"task": "prompt", "user_message": "prompt", "feedback": "prompt", "answer": "answer"}
_OPENING = re.compile(rf"<({'|'.join(_KINDS)})>")
_OWN_LINE = re.compile(rf"^<({'|'.join(_KINDS)})>\n", re.MULTILINE)
_CLOSED_AT_END = re.compile(rf"</(?:{'|'.join(_KINDS)})>\Z")
_ATTACHED = "file_content|folder_content|workspace_diagnostics|git_working_state|git_commit|terminal_output|url_content"
"""Tags of what the program puts behind the words for the mentions in them."""

_CALL_RESULT = re.compile(r"\[([a-z_]+)(?: for .*?)?\] Result:\s*", re.DOTALL)
_REPLY_TO_CALL = re.compile(
    r"\s*The user (approved this operation|denied this operation|has provided feedback)[^\n]*\n+(?=<feedback>)"
)
_APPROVED, _DENIED = "approved this operation", "denied this operation"
_PROGRAM = ("[ERROR] You did not", "[TASK RESUMPTION] ", "[new_task completed]", "[Response interrupted")

SPOKEN = {
    "attempt_completion": "result",
    "ask_followup_question": "question",
    "plan_mode_respond": "response",
    "plan_mode_response": "response",
}
"""Calls that speak to the person, and the argument that holds the words."""


class Words(NamedTuple):
    """A person's words, and how they reached the agent."""

    text: str
    kind: UserKind


def without_environment(text: str) -> str:
    """Return ``text`` without the closed blocks in which the program describes the editor."""
    opening, closing = "<environment_details>", "</environment_details>"
    return without_blocks(text, opening, closing, has_blanks_before=True, has_blanks_after=True)[0]


def announced_call(text: str) -> str:
    """Return the call whose output ``text`` announces; the output is the rest of it, or else the next block."""
    head = _CALL_RESULT.match(text)
    return head.group(1) if head else ""


def is_announcement(text: str) -> bool:
    """Return whether ``text`` announces an output and holds none of it."""
    return _CALL_RESULT.fullmatch(text) is not None


def words_in_output(text: str, call: str = "") -> list[Words]:
    """Return what a person said to a call, at the head of its output; the output itself may quote such tags."""
    head = _CALL_RESULT.match(text)
    start = head.end() if head else 0
    reply = _REPLY_TO_CALL.match(text, start)
    decision = reply[1] if reply else ""
    is_asked = (head.group(1) if head else call) in SPOKEN
    opening = _OPENING.match(text, reply.end() if reply else start) if reply or is_asked else None
    if opening is None:
        return []
    if decision == _APPROVED and not is_asked:
        end = _end_before_output(text, opening)
    else:
        end = text.rfind(f"</{opening[1]}>", opening.end())
    if end < 0:
        return []
    return [Words(_inside(text, opening, end), "rejection" if decision == _DENIED else _KINDS[opening[1]])]


def words_of(text: str) -> list[Words]:
    """Return a person's words in a text block that is no output: what stands in the program's tags, else all of it."""
    start = _first_wrapper(text)
    found = list(_wrapped(text, start)) if start >= 0 else []
    if found or text.startswith(_PROGRAM):
        return found
    return [Words(text, "prompt")] if text.strip() else []


def _first_wrapper(text: str) -> int:
    """Return where the first tag of the program's own stands, -1 where there is none.

    It begins the text, or stands behind a sentence of the program: on a line of its own, and nothing follows it.
    """
    start = skip_blanks(text, 0)
    if opening := _OPENING.match(text, start):
        end = text.rfind(f"</{opening[1]}>") + len(f"</{opening[1]}>")
        rest = skip_blanks(text, end)
        is_wrapper = text.startswith("\n", opening.end()) or rest == len(text) or text[rest] == "<"
        return start if is_wrapper else -1
    found = _OPENING.search(text) if text.startswith(_PROGRAM) else _OWN_LINE.search(text)
    is_wrapper = text.startswith(_PROGRAM) or _CLOSED_AT_END.search(text.rstrip()[-20:]) is not None
    return found.start() if found and is_wrapper else -1


def _wrapped(text: str, start: int) -> Iterator[Words]:
    """Yield what the program wrapped, from ``start`` on; of each tag there is one wrapper, or a run of them."""
    done: set[str] = set()
    while opening := _OPENING.search(text, start):
        tag = opening[1]
        start = opening.end()
        if tag in done:
            continue
        done.add(tag)
        attached = re.compile(rf"</{tag}>\s*<(?:{_ATTACHED})\b").search(text, start)
        end = attached.start() if attached else text.rfind(f"</{tag}>", start)
        if end < 0:
            continue
        yield from (Words(one, _KINDS[tag]) for one in _run(_inside(text, opening, end), tag))
        start = end


def _run(inside: str, tag: str) -> list[str]:
    """Return the wrappers of one tag that follow each other, each with its tags on lines of their own."""
    return re.split(rf"\n</{tag}>\s*\n<{tag}>\n", inside)


def _end_before_output(text: str, opening: re.Match[str]) -> int:
    """Return where a wrapper ends behind which the call's output may stand: the program gives its tags own lines."""
    tag = opening[1]
    own = re.compile(rf"^</{tag}>$", re.MULTILINE).search(text, opening.end())
    return own.start() if own else text.find(f"</{tag}>", opening.end())


def _inside(text: str, opening: re.Match[str], end: int) -> str:
    return text[opening.end() : end].removeprefix("\n").removesuffix("\n")
