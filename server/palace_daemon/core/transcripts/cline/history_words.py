"""Whose words a text in the model history of Cline, Roo Code or Kilo Code is.

The program wraps a person's words in tags and sends them together with tool output and its own reminders, all under
the role ``user``. The model's calls are tags in its text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from palace_daemon.core.transcripts.reading.targets import target_of
from palace_daemon.model import UserKind

_ENVIRONMENT = re.compile(r"\s*<environment_details>.*?</environment_details>\s*", re.DOTALL)
_WORDS = re.compile(r"<(task|user_message|feedback|answer)>\n?(.*?)\n?</\1>", re.DOTALL)
_KINDS: dict[str, UserKind] = {"task": "prompt", "user_message": "prompt", "feedback": "prompt", "answer": "answer"}
_WHOLE = re.compile(r"\s*<(task|user_message|feedback|answer)>\n?(.*?)\n?</\1>\s*", re.DOTALL)
_CALL_RESULT = re.compile(r"\[([a-z_]+)(?: for .*?)?\] Result:\s*", re.DOTALL)
_REPLY_TO_CALL = re.compile(
    r"\s*The user (?:approved this operation|denied this operation|has provided feedback)[^\n]*\n+(?=<feedback>)"
)
_DENIED = "The user denied this operation"
_PROGRAM = ("[ERROR] You did not", "[TASK RESUMPTION] ", "[new_task completed]", "[Response interrupted")


class Words(NamedTuple):
    """A person's words, and how they reached the agent."""

    text: str
    kind: UserKind


def without_environment(text: str) -> str:
    """Return ``text`` without the closed blocks in which the program describes the editor."""
    return _ENVIRONMENT.sub("", text) if "<environment_details>" in text else text


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
    is_asked = (head.group(1) if head else call) in SPOKEN
    found = _WORDS.match(text, reply.end() if reply else start) if reply or is_asked else None
    if found is None:
        return []
    is_denied = text.startswith(_DENIED, start)
    return [Words(found.group(2), "rejection" if is_denied else _KINDS[found.group(1)])]


def words_of(text: str) -> list[Words]:
    """Return a person's words in a text block that is no output: what stands in tags, else all of it."""
    whole = _WHOLE.fullmatch(text)
    if whole and f"<{whole.group(1)}>" not in whole.group(2):
        return [Words(whole.group(2), _KINDS[whole.group(1)])]
    found = [Words(match.group(2), _KINDS[match.group(1)]) for match in _WORDS.finditer(text)]
    if found or text.startswith(_PROGRAM):
        return found
    return [Words(text, "prompt")] if text.strip() else []


# ----------------------------------------------------------------------------------------------------- the model's text

_CALLS = (
    "execute_command|read_file|write_to_file|replace_in_file|apply_diff|edit_file|insert_content|search_and_replace"
    "|search_files|list_files|list_code_definition_names|codebase_search|browser_action|use_mcp_tool"
    "|access_mcp_resource|ask_followup_question|attempt_completion|plan_mode_respond|plan_mode_response|new_task"
    "|switch_mode|update_todo_list|fetch_instructions|load_mcp_documentation|new_rule|condense|report_bug|web_fetch"
    "|web_search|run_slash_command|generate_image|summarize_task"
)
_CALL = re.compile(rf"^[ \t]*<({_CALLS})>(.*?)(?:</\1>|\Z)", re.DOTALL | re.MULTILINE)
_THINKING = re.compile(r"<thinking>.*?</thinking>\s*", re.DOTALL)
_INTERRUPTED = re.compile(r"\s*\[Response interrupted by [^\]\n]*\]\s*\Z")
_ARGUMENT = re.compile(r"<([a-z_]+)>([^<]*)</\1>")

SPOKEN = {
    "attempt_completion": "result",
    "ask_followup_question": "question",
    "plan_mode_respond": "response",
    "plan_mode_response": "response",
}
"""Calls that speak to the person, and the argument that holds the words."""


class Spoken(NamedTuple):
    """A piece of a reply: words, or a call; of a call that speaks, both."""

    text: str
    call: str = ""
    target: str = ""


def reply_of(text: str) -> list[Spoken]:
    """Return the pieces of a model's text, in order."""
    text = _INTERRUPTED.sub("", _THINKING.sub("", text))
    pieces = []
    end = 0
    for match in _CALL.finditer(text):
        pieces.append(Spoken(text[end : match.start()].strip()))
        name, body = match.groups()
        end = match.end()
        field = SPOKEN.get(name)
        if field is None:
            arguments = dict(_ARGUMENT.findall(body))
            called = arguments.get("tool_name") or name
            pieces.append(Spoken("", called, target_of(arguments) or arguments.get("server_name", "")))
        else:
            pieces.append(Spoken(_argument(body, field), name))
    pieces.append(Spoken(text[end:].strip()))
    return [piece for piece in pieces if piece.text or piece.call]


def _argument(body: str, name: str) -> str:
    """Return a named argument, which may hold anything, its own closing tag cut off included."""
    _, _, rest = body.partition(f"<{name}>")
    return rest.rpartition(f"</{name}>")[0].strip() or rest.strip()
