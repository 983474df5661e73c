"""Reads the events of a GitHub Copilot CLI session one after the other."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct, field

from palace_daemon.core.transcripts.base import Redactor
from palace_daemon.core.transcripts.copilot_cli.records import AGENT, CopilotRecord, Workspace, attachments_of
from palace_daemon.core.transcripts.reading.branches import TurnLedger
from palace_daemon.core.transcripts.reading.record_keys import record_identity, turn_key
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
    Title,
    ToolCall,
    TurnEnd,
    UserTurn,
)
from palace_daemon.model import ExchangeStatus, SessionFacts, UserKind

_FAMILIES = frozenset(
    {
        *("session", "assistant", "tool", "hook", "system", "subagent", "skill", "permission", "user_input", "model"),
        *("elicitation", "mcp", "command", "commands", "external_tool", "exit_plan_mode", "pending_messages"),
        *("capabilities", "sampling", "abort"),
    }
)
"""First words of event types; what else such an event is, it holds no words of a person or an agent."""

_REASONS = {"assistant.reasoning": "thinking", "system.message": "system", "tool.execution_complete": "tool_result"}

_WORKSPACE_RANK, _TITLE_RANK = 1, 2

_ASK_TOOL = "ask_user"
_ANSWER = re.compile(r"User (?:selected|responded|answered|chose)\b[^:\n]*:\s*(.+)", re.DOTALL)


class _Call(Struct, array_like=True):
    """A tool call whose end was not read yet."""

    session: str
    question: str = ""
    """What ``ask_user`` asked, redacted."""


class _ReaderState(Struct, array_like=True):
    session: str = ""
    cwd: str = ""
    branch: str = ""
    version: str = ""
    model: str = ""
    calls: dict[str, _Call] = field(default_factory=dict)
    ledger: TurnLedger = field(default_factory=TurnLedger)


class CopilotReader:
    """A :class:`~palace_daemon.core.transcripts.line_parser.RecordReader` of Copilot CLI events.

    Args:
        session: The session's id as the path tells it, for files without their first event.
        workspace: What the file beside the events says.
        redact: Applied to questions that wait here for their answer.
    """

    def __init__(self, session: str, workspace: Workspace, redact: Redactor) -> None:
        self._state = _ReaderState(session=session, cwd=workspace.cwd, branch=workspace.branch)
        self._workspace = workspace
        self._redact = redact
        self._told: set[str] = set()
        self._record = CopilotRecord()
        self._place = Place(0, 0, 0)
        self._data: dict[str, Any] = {}
        self._payload = b""
        self._handlers: dict[str, Callable[[], Reading]] = {
            "session.start": self._read_start,
            "session.resume": self._read_start,
            "session.context_changed": self._read_context,
            "session.model_change": self._read_model,
            "session.title_changed": self._read_title,
            "session.snapshot_rewind": self._read_rewind,
            "session.error": lambda: self._read_end("error"),
            "session.shutdown": self._read_pause,
            "session.idle": self._read_pause,
            "session.task_complete": self._read_pause,
            "abort": lambda: self._read_end("interrupted"),
            "user.message": self._read_user,
            "assistant.message": self._read_assistant,
            "assistant.turn_end": self._read_pause,
            "tool.execution_start": self._read_tool_start,
            "tool.execution_complete": self._read_tool_end,
        }

    def snapshot(self) -> bytes:
        """Return the reader's state."""
        return msgspec.msgpack.encode(self._state)

    def restore(self, state: bytes) -> None:
        """Continue from :meth:`snapshot`."""
        self._state = msgspec.msgpack.decode(state, type=_ReaderState)

    def read(self, record: CopilotRecord, place: Place, payload: bytes) -> list[Reading]:
        """Return what an event yields."""
        self._record, self._place, self._payload = record, place, payload
        self._data = record.data if isinstance(record.data, dict) else {}
        kind = as_text(record.type)
        handler = self._handlers.get(kind)
        if handler is None:
            self._state.ledger.note(self._id)
            return [Reading(skipped=(_reason(kind),))]
        reading = handler()
        self._state.ledger.note(self._id)
        return [reading, *self._session_readings()]

    # ------------------------------------------------------------------------------------------------------- sessions

    @property
    def _id(self) -> str:
        return as_text(self._record.id)

    @property
    def _agent(self) -> str:
        """The sub-agent that an event belongs to, empty for the session's own agent."""
        return as_text(self._record.agent_id) or as_text(self._data.get("parentToolCallId"))

    @property
    def _session(self) -> str:
        return f"{self._state.session}/{self._agent}" if self._agent else self._state.session

    def _session_readings(self) -> list[Reading]:
        """Return what is told once a reading of the session that the event belongs to."""
        session, workspace = self._session, self._workspace
        if session in self._told:
            return []
        self._told.add(session)
        if self._agent:
            parent = self._state.session
            facts = SessionFacts(
                agent=AGENT,
                session_id=session,
                parent_session_id=parent,
                relation="subagent",
                cwd=self._state.cwd,
                is_automated=True,
            )
            return [Reading(events=(Facts(session=session, facts=facts),), session=session)]
        # Comes after the event itself: what a session says of itself counts more, and the first to tell wins.
        facts = SessionFacts(agent=AGENT, session_id=session, cwd=workspace.cwd, branch=workspace.branch)
        events: list[Event] = [Facts(session=session, facts=facts)]
        if workspace.title:
            events.append(Title(session=session, text=workspace.title, rank=_WORKSPACE_RANK))
        return [Reading(events=tuple(events), session=session)]

    def _read_start(self) -> Reading:
        state, data = self._state, self._data
        state.session = as_text(data.get("sessionId")) or state.session
        state.version = as_text(data.get("copilotVersion")) or state.version
        state.model = as_text(data.get("selectedModel")) or state.model
        context = data.get("context")
        return self._read_place(context if isinstance(context, dict) else {})

    def _read_context(self) -> Reading:
        return self._read_place(self._data)

    def _read_place(self, context: dict[str, Any]) -> Reading:
        state = self._state
        state.cwd = as_text(context.get("cwd")) or state.cwd
        state.branch = as_text(context.get("branch")) or state.branch
        facts = SessionFacts(
            agent=AGENT, session_id=state.session, cwd=state.cwd, branch=state.branch, agent_version=state.version
        )
        return Reading(events=(Facts(session=state.session, facts=facts),), session=state.session)

    def _read_model(self) -> Reading:
        self._state.model = as_text(self._data.get("newModel")) or self._state.model
        return Reading(skipped=("model_change",))

    def _read_title(self) -> Reading:
        text = as_text(self._data.get("title"))
        if not text:
            return Reading(skipped=("empty",))
        return self._told_by(Title(session=self._session, text=text, rank=_TITLE_RANK))

    def _read_rewind(self) -> Reading:
        turns = self._state.ledger.back_before(as_text(self._data.get("upToEventId")))
        if not turns:
            return Reading(skipped=("rewind",))
        return self._told_by(Rollback(session=self._state.session, turn_ids=turns))

    # ---------------------------------------------------------------------------------------------- users and replies

    def _read_user(self) -> Reading:
        text, source = as_text(self._data.get("content")), as_text(self._data.get("source"))
        if source.startswith("skill-"):
            return Reading(skipped=("skill_body",))
        attachments = attachments_of(self._data)
        if not text.strip() and not attachments:
            return Reading(skipped=("empty",))
        if not self._agent:
            self._state.calls.clear()
            self._state.ledger.note(self._id, opens=True)
        return self._told_by(self._turn(text, self._kind(source), attachments))

    def _kind(self, source: str) -> UserKind:
        if self._agent or source not in ("", "user", "immediate-prompt"):
            return "automated"
        if self._data.get("agentMode") == "shell":
            return "shell"
        return "queued" if self._data.get("delivery") in ("steering", "queued") else "prompt"

    def _turn(self, text: str, kind: UserKind, attachments: tuple[Any, ...] = ()) -> UserTurn:
        return UserTurn(
            session=self._session,
            place=self._place,
            text=text,
            kind=kind,
            at=to_epoch_ms(self._record.timestamp),
            key=turn_key(AGENT, self._id, self._record.timestamp, text),
            record_ids=(self._id,) if self._id else (),
            turn_id=self._id,
            attachments=attachments,
            cwd=self._state.cwd,
            branch=self._state.branch,
            agent_version=self._state.version,
            model=self._state.model,
        )

    def _read_assistant(self) -> Reading:
        text = as_text(self._data.get("content"))
        events: list[Event] = [self._reply(text)] if text.strip() else []
        requests = self._data.get("toolRequests")
        events += [
            self._tool_call(request, as_text(request.get("name")), request.get("arguments"))
            for request in (requests if isinstance(requests, list) else ())
            if isinstance(request, dict)
        ]
        if not events:
            return Reading(skipped=("thinking" if self._data.get("reasoningText") else "empty",))
        return self._told_by(*events, message_id=as_text(self._data.get("messageId")))

    def _reply(self, text: str) -> ReplyText:
        return ReplyText(
            session=self._session,
            place=self._place,
            text=text,
            message_id=as_text(self._data.get("messageId")) or self._id,
            key=turn_key(AGENT, self._id, self._record.timestamp, text),
            at=to_epoch_ms(self._record.timestamp),
            model=as_text(self._data.get("model")) or self._state.model,
            cwd=self._state.cwd,
            branch=self._state.branch,
            agent_version=self._state.version,
            may_be_retold=True,
        )

    # ---------------------------------------------------------------------------------------------------------- tools

    def _read_tool_start(self) -> Reading:
        name = as_text(self._data.get("toolName")) or as_text(self._data.get("mcpToolName"))
        return self._told_by(self._tool_call(self._data, name, self._data.get("arguments")))

    def _tool_call(self, call: dict[str, Any], name: str, arguments: Any) -> ToolCall:
        call_id = as_text(call.get("toolCallId"))
        if call_id:
            question = _question(arguments) if name == _ASK_TOOL else ""
            self._state.calls[call_id] = _Call(self._session, self._redact(question) if question else "")
        return ToolCall(
            session=self._session,
            place=self._place,
            name=name,
            target=target_of(arguments),
            call_id=call_id,
            at=to_epoch_ms(self._record.timestamp),
        )

    def _read_tool_end(self) -> Reading:
        """Read a tool's end; what a person answered to the agent's question stands in its result."""
        call = self._state.calls.pop(as_text(self._data.get("toolCallId")), None)
        result = self._data.get("result")
        if call is None or not call.question or not isinstance(result, dict):
            return Reading(skipped=("tool_result",))
        answer = _ANSWER.fullmatch(as_text(result.get("content")).strip())
        if answer is None:
            return Reading(skipped=("tool_result",))
        if not self._agent:
            self._state.ledger.note(self._id, opens=True)
        return self._told_by(self._turn(f"{call.question}\n{answer[1]}", "answer"))

    # ----------------------------------------------------------------------------------------------------------- ends

    def _read_pause(self) -> Reading:
        """Read a mark that the agent is done, unless a tool still runs."""
        if any(call.session == self._session for call in self._state.calls.values()):
            return Reading(skipped=("turn_end",))
        return self._read_end("complete")

    def _read_end(self, status: ExchangeStatus) -> Reading:
        return self._told_by(TurnEnd(session=self._session, status=status))

    def _told_by(self, *events: Event, message_id: str = "") -> Reading:
        return Reading(
            events=events,
            session=self._session,
            record_id=record_identity(self._id, self._payload),
            message_id=message_id,
        )


def _question(arguments: Any) -> str:
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments)
        except (msgspec.DecodeError, RecursionError):
            return ""
    return as_text(arguments.get("question")) if isinstance(arguments, dict) else ""


def _reason(kind: str) -> str:
    if kind.split(".", 1)[0] in _FAMILIES:
        return _REASONS.get(kind, reason_word(kind))
    return f"unknown_type:{reason_word(kind)}"
