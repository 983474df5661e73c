"""Reads the records of a Kimi Code wire log one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from palace_daemon.core.drafts import digest
from palace_daemon.core.transcripts.kimi.records import (
    AGENT,
    KimiRecord,
    attachments_of,
    is_slash,
    origin_kind,
    texts_of,
)
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.targets import target_of
from palace_daemon.core.transcripts.reading.words import as_text, reason_word
from palace_daemon.core.turns import (
    Event,
    Facts,
    Place,
    Reading,
    ReplyText,
    Rollback,
    ToolCall,
    TurnContext,
    TurnEnd,
    UserTurn,
)
from palace_daemon.model import ExchangeStatus, SessionFacts, UserKind

_FAMILIES = frozenset(
    {
        *("metadata", "forked", "config", "tools", "llm", "usage", "permission", "plan_mode", "swarm_mode", "goal"),
        *("full_compaction", "micro_compaction", "mcp", "context", "turn", "prompt", "step", "plan"),
    }
)
"""First words of record types; what else such a record is, it holds no words of a person or an agent."""

_MAX_EXPECTED = 16
"""Prompts whose repetition in the context may still come: those that were typed into one running turn."""

_LOOP, _CONTEXT = 1, 2
"""Stores of the same reply in one file."""

_ENDS: dict[str, ExchangeStatus] = {"completed": "complete", "cancelled": "interrupted", "failed": "error"}


class _ReaderState(Struct, array_like=True):
    model: str = ""
    expected: list[int] = field(default_factory=list)
    """Digests of prompts that were taken and stand once more in the context."""
    opened: int = 0
    turns: list[tuple[int, bool]] = field(default_factory=list)
    """Number of each turn since the last compaction that stands, and whether a person typed it: an undo counts these.
    """
    cwd: str = ""
    """The first directory that a tool call told; nothing else tells the project."""


class KimiReader:
    """A :class:`~palace_daemon.core.transcripts.line_parser.RecordReader` of a wire log.

    Args:
        path: Parts of the source's path: ``…/<session>/agents/<agent>/wire.jsonl``.
    """

    def __init__(self, path: Sequence[str]) -> None:
        self._session, self._parent = _session_of(path)
        self._state = _ReaderState()
        self._is_told = False
        self._place = Place(0, 0, 0)
        self._at: int | None = None
        self._handlers: dict[str, Callable[[KimiRecord], Reading]] = {
            "turn.prompt": lambda record: self._read_input(record, "prompt"),
            "turn.steer": lambda record: self._read_input(record, "queued"),
            "turn.cancel": lambda _: self._read_end("interrupted"),
            "turn.ended": self._read_turn_end,
            "llm.request": self._read_request,
            "context.append_message": self._read_message,
            "context.append_loop_event": self._read_loop_event,
            "context.undo": self._read_undo,
            "context.clear": self._read_boundary,
            "context.apply_compaction": self._read_boundary,
        }

    def snapshot(self) -> bytes:
        """Return the reader's state."""
        return msgspec.msgpack.encode(self._state)

    def restore(self, state: bytes) -> None:
        """Continue from :meth:`snapshot`."""
        self._state = msgspec.msgpack.decode(state, type=_ReaderState)

    def read(self, record: KimiRecord, place: Place, payload: bytes) -> list[Reading]:  # noqa: ARG002
        """Return what a record yields."""
        self._place, self._at = place, to_epoch_ms(record.time)
        kind = as_text(record.type)
        handler = self._handlers.get(kind)
        if handler:
            return [*self._facts(), handler(record)]
        is_known = kind.split(".", 1)[0] in _FAMILIES
        return [Reading(skipped=(reason_word(kind) if is_known else f"unknown_type:{reason_word(kind)}",))]

    def _facts(self, *, is_again: bool = False) -> list[Reading]:
        """Return once, or when there is news, a reading of what is known of the session."""
        if self._is_told and not is_again:
            return []
        self._is_told = True
        facts = SessionFacts(
            agent=AGENT,
            session_id=self._session,
            parent_session_id=self._parent,
            relation="subagent" if self._parent else "none",
            cwd=self._state.cwd,
            is_automated=bool(self._parent),
        )
        return [self._told(Facts(session=self._session, facts=facts))]

    def _directory(self, event: dict[str, Any]) -> list[Event]:
        """Return once what the first call that names a directory says of the project, for the turn at hand, too."""
        told = next(
            (
                cwd
                for name in ("display", "args")
                if isinstance(held := event.get(name), dict) and (cwd := as_text(held.get("cwd")).strip())
            ),
            "",
        )
        if self._state.cwd or not told:
            return []
        self._state.cwd = told
        context = TurnContext(session=self._session, cwd=told)
        return [event for reading in self._facts(is_again=True) for event in reading.events] + [context]

    # ---------------------------------------------------------------------------------------------------------- users

    def _read_input(self, record: KimiRecord, kind: UserKind) -> Reading:
        if is_slash(record.origin):
            # The record holds the skill's own text; what was typed after its name stands beside it, if anywhere.
            words = as_text(record.origin.get("args")) or as_text(record.origin.get("skillArgs"))
            return self._told(self._turn(words, "slash_args", ()))
        text = "\n\n".join(texts_of(record.input))
        who = origin_kind(record.origin)
        if not text.strip() or who == "injection":
            return Reading(skipped=("injected_context" if who == "injection" else "empty",))
        self._state.expected = [*self._state.expected, digest(text)][-_MAX_EXPECTED:]
        return self._told(self._turn(text, kind if who == "user" else "automated", record.input))

    def _turn(self, text: str, kind: UserKind, content: Any) -> UserTurn:
        self._state.opened += 1
        self._state.turns.append((self._state.opened, kind != "automated"))
        return UserTurn(
            session=self._session,
            place=self._place,
            text=text,
            kind="automated" if self._parent else kind,
            at=self._at,
            turn_id=str(self._state.opened),
            attachments=attachments_of(content),
            cwd=self._state.cwd,
            model=self._state.model,
        )

    def _read_message(self, record: KimiRecord) -> Reading:
        """Read a message of the model's context; a prompt that was taken from its own record stands here again."""
        message = record.message if isinstance(record.message, dict) else {}
        text = "\n\n".join(texts_of(message.get("content")))
        role, who = as_text(message.get("role")), origin_kind(message.get("origin"))
        if role == "assistant" and text.strip():
            return self._told(self._reply(text, "", _CONTEXT))
        if role != "user" or who != "user" or not text.strip():
            return Reading(skipped=("injected_context" if role == "user" else f"message:{reason_word(role)}",))
        if digest(text) in self._state.expected:
            self._state.expected.remove(digest(text))
            return Reading(skipped=("repeated_prompt",))
        return self._told(self._turn(text, "prompt", message.get("content")))

    def _read_undo(self, record: KimiRecord) -> Reading:
        """Undo so many prompts, with all that came after; where there are fewer the program undoes nothing."""
        turns = self._state.turns
        typed = [index for index, (_, is_typed) in enumerate(turns) if is_typed]
        if not isinstance(record.count, int) or not 0 < record.count <= len(typed):
            return Reading(skipped=("context_undo",))
        first = typed[-record.count]
        undone = tuple(str(number) for number, _ in turns[first:])
        del turns[first:]
        return self._told(Rollback(session=self._session, turn_ids=undone))

    def _read_boundary(self, record: KimiRecord) -> Reading:
        """Read the end of what an undo can reach; it retracts nothing."""
        self._state.turns.clear()
        return Reading(skipped=(reason_word(as_text(record.type)),))

    # -------------------------------------------------------------------------------------------------------- replies

    def _read_request(self, record: KimiRecord) -> Reading:
        self._state.model = as_text(record.model) or self._state.model
        return Reading(skipped=("llm_request",))

    def _read_loop_event(self, record: KimiRecord) -> Reading:
        event = record.event if isinstance(record.event, dict) else {}
        kind = as_text(event.get("type"))
        if kind == "content.part":
            return self._read_part(event)
        if kind == "tool.call":
            return self._told(
                *self._directory(event),
                ToolCall(
                    session=self._session,
                    place=self._place,
                    name=as_text(event.get("name")),
                    target=target_of(event.get("args")),
                    call_id=f"{as_text(event.get('stepUuid'))}:{as_text(event.get('toolCallId'))}",
                    at=self._at,
                ),
            )
        if kind == "step.end" and event.get("finishReason") == "end_turn":
            return self._read_end("complete")
        return Reading(skipped=("tool_result" if kind == "tool.result" else reason_word(kind),))

    def _read_part(self, event: dict[str, Any]) -> Reading:
        part = event.get("part")
        text = as_text(part.get("text")) if isinstance(part, dict) else ""
        if not isinstance(part, dict) or part.get("type") != "text" or not text.strip():
            is_thought = isinstance(part, dict) and part.get("type") == "think"
            return Reading(skipped=("thinking" if is_thought else "empty",))
        return self._told(self._reply(text, as_text(event.get("stepUuid")), _LOOP))

    def _reply(self, text: str, message_id: str, channel: int) -> ReplyText:
        return ReplyText(
            session=self._session,
            place=self._place,
            text=text,
            message_id=message_id,
            at=self._at,
            model=self._state.model,
            channel=channel,
        )

    def _read_turn_end(self, record: KimiRecord) -> Reading:
        return self._read_end(_ENDS.get(as_text(record.reason), "complete"))

    def _read_end(self, status: ExchangeStatus) -> Reading:
        return self._told(TurnEnd(session=self._session, status=status))

    def _told(self, *events: Event) -> Reading:
        return Reading(events=events, session=self._session)


def _session_of(path: Sequence[str]) -> tuple[str, str]:
    """Return the session's id and, for a sub-agent, that of its parent; without such folders the file names it."""
    *folders, name = path
    stem = name.removesuffix(".jsonl")
    if stem != "wire" or not folders:
        return stem, ""
    if len(folders) < 3 or folders[-2] != "agents":
        return folders[-1], ""
    session, agent = folders[-3], folders[-1]
    return (session, "") if agent == "main" else (f"{session}/{agent}", session)
