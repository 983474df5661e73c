"""Antigravity: the logs of its conversations below ``~/.gemini/antigravity*/brain``.

Invariant: a step's number is its identity inside its conversation. The full log and the shortened one beside it tell
the same steps; where both are there the shortened one yields nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from palace_daemon.core.jsonl import LineDecoder, sniff_lines
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.line_parser import LineParser
from palace_daemon.core.transcripts.reading.homes import below_home
from palace_daemon.core.transcripts.reading.record_keys import payload_identity
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.targets import target_of
from palace_daemon.core.transcripts.reading.words import as_text, path_parts, reason_word
from palace_daemon.core.turns import Event, Place, Reading, ReplyText, ToolCall, UserTurn

AGENT = "antigravity"

SUFFIXES = (".jsonl",)

_EDITIONS = ("antigravity", "antigravity-cli", "antigravity-ide")
_FULL, _SHORT = "transcript_full.jsonl", "transcript.jsonl"
_REQUEST, _REQUEST_END = "<USER_REQUEST>", "</USER_REQUEST>"
"""What newer versions put around the words; metadata follows."""


class AntigravityStep(Struct):
    """A step of a conversation."""

    step_index: Any = None
    source: Any = None
    type: Any = None
    status: Any = None
    created_at: Any = None
    content: Any = None
    thinking: Any = None
    tool_calls: Any = None


def _is_step(value: dict[str, Any]) -> bool:
    return isinstance(value.get("step_index"), int) and isinstance(value.get("type"), str)


_STEPS = LineDecoder(AntigravityStep, _is_step)


def _is_ours(step: AntigravityStep) -> bool:
    has_names = isinstance(step.type, str) and isinstance(step.source, str) and isinstance(step.status, str)
    return isinstance(step.step_index, int) and has_names


class AntigravityReader:
    """A :class:`~palace_daemon.core.transcripts.line_parser.RecordReader` of Antigravity steps.

    Args:
        session: The conversation's id as the path tells it.
        is_told_elsewhere: Whether a fuller log of the same conversation lies beside this one.
    """

    def __init__(self, session: str, *, is_told_elsewhere: bool) -> None:
        self._session = session
        self._is_told_elsewhere = is_told_elsewhere

    def snapshot(self) -> bytes:
        """Return nothing: no step needs another."""
        return b""

    def restore(self, state: bytes) -> None:
        """Do nothing."""

    def read(self, step: AntigravityStep, place: Place, payload: bytes) -> list[Reading]:
        """Return what a step yields."""
        if self._is_told_elsewhere:
            return [Reading(skipped=("told_by_full_log",))]
        kind = as_text(step.type)
        events: list[Event] = []
        if kind == "USER_INPUT":
            events.append(self._turn(step, place))
        elif kind == "PLANNER_RESPONSE" and as_text(step.content).strip():
            events.append(self._reply(step, place))
        events += self._tool_calls(step, place)
        if not events:
            return [Reading(skipped=("thinking" if step.thinking else reason_word(kind),))]
        index = str(step.step_index) if isinstance(step.step_index, int) else ""
        return [
            Reading(
                events=tuple(events),
                session=self._session,
                record_id=payload_identity(index, payload),
                message_id=self._message_id(step),
            )
        ]

    def _message_id(self, step: AntigravityStep) -> str:
        return f"step {step.step_index}" if isinstance(step.step_index, int) else ""

    def _key(self, step: AntigravityStep) -> str:
        return f"{AGENT}:{self._session}:{step.step_index}" if isinstance(step.step_index, int) else ""

    def _turn(self, step: AntigravityStep, place: Place) -> UserTurn:
        text = as_text(step.content)
        head, _, rest = text.partition(_REQUEST)
        request, closing, _ = rest.rpartition(_REQUEST_END)
        is_wrapped = bool(closing) and not head.strip()
        return UserTurn(
            session=self._session,
            place=place,
            text=request.strip() if is_wrapped else text,
            at=to_epoch_ms(step.created_at),
            key=self._key(step),
        )

    def _reply(self, step: AntigravityStep, place: Place) -> ReplyText:
        return ReplyText(
            session=self._session,
            place=place,
            text=step.content,
            message_id=self._message_id(step),
            key=self._key(step),
            at=to_epoch_ms(step.created_at),
            may_be_retold=True,
        )

    def _tool_calls(self, step: AntigravityStep, place: Place) -> list[ToolCall]:
        calls = step.tool_calls if isinstance(step.tool_calls, list) else []
        return [
            ToolCall(
                session=self._session,
                place=place,
                name=as_text(call.get("name")),
                target=target_of(call.get("args")),
                at=to_epoch_ms(step.created_at),
            )
            for call in calls
            if isinstance(call, dict)
        ]


class AntigravityFormat:
    """JSON lines of Antigravity's conversations. Stateless and thread-safe."""

    name = "antigravity-jsonl"
    agent = AGENT
    version = 1
    shape: Shape = "lines"
    suffixes: tuple[str, ...] = SUFFIXES
    is_secondary = False

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the folders of all conversations of the editor, the command line and the older editor."""
        return tuple(below_home(environ, home, platform, ".gemini", edition, "brain") for edition in _EDITIONS)

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` can be a conversation's log by its name."""
        return path_parts(path)[-1].endswith(SUFFIXES)

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is one."""
        return sniff_lines(head, _STEPS, _is_ours, lambda _: False)

    def open(
        self, path: str, redact: Redactor, state: bytes | None = None, beside: Beside = NOTHING_BESIDE
    ) -> LineParser[AntigravityStep]:
        """Return a parser for the source at ``path``: ``brain/<conversation>/.system_generated/logs/<log>``."""
        *folders, name = path_parts(path)
        is_log = name in (_FULL, _SHORT) and len(folders) > 2 and folders[-2:] == [".system_generated", "logs"]
        has_full = name == _SHORT and _FULL in beside.names(path.removesuffix(_SHORT).rstrip("/\\"))
        return LineParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            decoder=_STEPS,
            reader=AntigravityReader(
                folders[-3] if is_log else name.removesuffix(".jsonl"), is_told_elsewhere=has_full
            ),
            redact=redact,
            state=state,
        )
