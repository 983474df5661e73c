"""What the model of Cline, Roo Code or Kilo Code said in a text, and its calls, which are tags in it.

Invariant: a call stands on a line of its own and begins with an argument. What only looks like one, in fenced code or
in a sentence, is prose.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from palace_daemon.core.transcripts.cline.history_words import SPOKEN
from palace_daemon.core.transcripts.reading.closed_blocks import Closings, skip_blanks
from palace_daemon.core.transcripts.reading.targets import target_of
from palace_daemon.core.transcripts.reading.text_lines import Fence

_CALLS = (
    "execute_command|read_file|write_to_file|replace_in_file|apply_diff|edit_file|insert_content|search_and_replace"
    "|search_files|list_files|list_code_definition_names|codebase_search|browser_action|use_mcp_tool"
    "|access_mcp_resource|ask_followup_question|attempt_completion|plan_mode_respond|plan_mode_response|new_task"
    "|switch_mode|update_todo_list|fetch_instructions|load_mcp_documentation|new_rule|condense|report_bug|web_fetch"
    "|web_search|run_slash_command|generate_image|summarize_task"
)
_THINKING = "thinking"
_OPENING = re.compile(rf"[ \t]*<({_CALLS}|{_THINKING})>")
_LAST_CLOSING = re.compile(r"</(\w+)>\Z")
_ARGUMENT_OPENING = re.compile(r"\s*<([a-z_]+)>")
_ARGUMENT = re.compile(r"<([a-z_]+)>([^<]*)</\1>")
_INTERRUPTED = "[Response interrupted by "
_MAX_TAG = 64


class Spoken(NamedTuple):
    """A piece of a reply: words, or a call (of a call that speaks, both), or reasoning that is left out."""

    text: str
    call: str = ""
    target: str = ""
    is_thought: bool = False


def reply_of(text: str) -> list[Spoken]:
    """Return the pieces of a model's text, in order."""
    scan = _Scan(_without_interruption(text))
    scan.run()
    return scan.pieces


def _without_interruption(text: str) -> str:
    """Return ``text`` without the note with which the program ends a reply that it cut."""
    end = text.rstrip()
    begin = end.rfind(_INTERRUPTED)
    is_note = begin >= 0 and end.find("]", begin) == len(end) - 1 and "\n" not in end[begin:]
    return end[:begin].rstrip() if is_note else text


class _Scan:
    """Goes through a model's text once."""

    def __init__(self, text: str) -> None:
        self.pieces: list[Spoken] = []
        self._text = text
        self._size = len(text.rstrip())
        self._said: list[str] = []
        self._closings = Closings(text)
        last = _LAST_CLOSING.search(text[max(0, self._size - _MAX_TAG) : self._size])
        self._last_tag = last[1] if last else ""

    def run(self) -> None:
        """Fill :attr:`pieces`."""
        text, fence = self._text, Fence()
        start = position = 0
        while position < len(text):
            opening = _OPENING.match(text, position)
            end = self._end_of(opening, is_fenced=fence.is_open) if opening else 0
            if opening and end:
                self._said.append(text[start:position])
                start = position = self._take(opening[1], opening.end(), end)
                fence = Fence()
                continue
            line_end = text.find("\n", position)
            line_end = len(text) if line_end < 0 else line_end
            fence.feed(text[position:line_end])
            position = line_end + 1
        self._said.append(text[start:])
        self._end_words()

    def _end_of(self, opening: re.Match[str], *, is_fenced: bool) -> int:
        """Return where the call or the reasoning that seems to begin here ends; 0 where none does."""
        tag, begin = opening[1], opening.end()
        closing = self._closings.after(tag, begin)
        end = closing + len(f"</{tag}>")
        if is_fenced:  # the program cuts a reply behind its call: such a one was made, and a fence before it left open
            return end if closing >= 0 and tag == self._last_tag and end == self._size else 0
        if tag == _THINKING:
            return end if closing >= 0 else 0
        is_bare = closing >= 0 and skip_blanks(self._text, begin) == closing
        if not is_bare and not _ARGUMENT_OPENING.match(self._text, begin):
            return 0
        return end if closing >= 0 else self._end_of_arguments(begin)

    def _end_of_arguments(self, position: int) -> int:
        """Return where a call ends whose own closing tag is missing: with its last argument."""
        while argument := _ARGUMENT_OPENING.match(self._text, position):
            closing = self._closings.after(argument[1], argument.end())
            if closing < 0:
                return len(self._text)
            position = closing + len(f"</{argument[1]}>")
        return position

    def _take(self, tag: str, begin: int, end: int) -> int:
        """Take what stands between two offsets; return where the text goes on."""
        if tag == _THINKING:
            self.pieces.append(Spoken("", is_thought=True))
            return skip_blanks(self._text, end)
        self._end_words()
        body = self._text[begin:end].removesuffix(f"</{tag}>")
        field = SPOKEN.get(tag)
        if field is None:
            arguments = dict(_ARGUMENT.findall(body))
            called = arguments.get("tool_name") or tag
            self.pieces.append(Spoken("", called, target_of(arguments) or arguments.get("server_name", "")))
        else:
            self.pieces.append(Spoken(_argument(body, field), tag))
        return end

    def _end_words(self) -> None:
        words = "".join(self._said).strip()
        self._said = []
        if words:
            self.pieces.append(Spoken(words))


def _argument(body: str, name: str) -> str:
    """Return a named argument, which may hold anything, its own closing tag cut off included."""
    _, _, rest = body.partition(f"<{name}>")
    return rest.rpartition(f"</{name}>")[0].strip() or rest.strip()
