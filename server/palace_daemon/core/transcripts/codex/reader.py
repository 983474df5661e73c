"""Reads Codex records one after the other into events.

A prompt is written as a ``response_item`` and, right after it, as a ``user_message`` event. Old files hold items only,
and items hold the program's context beside the prompts. So an item waits until the next line tells: the event takes
its place, or the agent begins to work on it and it was the prompt itself.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct, field

from palace_daemon.core.transcripts.base import Redactor
from palace_daemon.core.transcripts.codex.records import AGENT, CodexRecord
from palace_daemon.core.transcripts.codex.threads import Thread, read_meta
from palace_daemon.core.transcripts.codex.words import (
    NEW_TASK,
    images_of,
    is_context,
    reply_of,
    request_of,
    texts_of,
    tool_name,
    tool_target,
)
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
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
    TurnContext,
    TurnEnd,
    UserTurn,
)
from palace_daemon.model import Attachment, ExchangeStatus, UserKind

_EVENT, _ITEM, _COMPLETION = 1, 2, 4
"""The stores of a reply's text; see :class:`~palace_daemon.core.turns.ReplyText`."""

_THREAD_IN_NAME = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_TOOL_CALLS = frozenset(
    {"function_call", "custom_tool_call", "local_shell_call", "web_search_call", "mcp_tool_call", "tool_call"}
)
_AGENT_ITEMS = _TOOL_CALLS | {"message", "reasoning"}
_TURN_ENDS = frozenset({"task_complete", "turn_complete", "turn.completed"})
_AGENT_EVENTS = _TURN_ENDS | {
    "agent_message",
    "agent_reasoning",
    "agent_reasoning_raw_content",
    "turn_aborted",
    "error",
}
"""Events that show that the agent took the prompt up."""

_TURN_STARTS = frozenset({"task_started", "turn_started"})
_NAME_RANK = 3
"""A name that the person gave beats any other title."""


class _Candidate(Struct, array_like=True):
    """A user item that is a prompt unless an event repeats it. The text is redacted."""

    text: str
    is_redacted: bool
    at: int | None
    place: Place


class _ReaderState(Struct, array_like=True):
    thread: Thread = field(default_factory=Thread)
    turn_id: str = ""
    turns: int = 0
    """User turns under the current turn id; a second one is a remark typed while the agent worked."""
    has_ended: bool = False
    """Whether the agent is done with the current turn id."""
    cwd: str = ""
    model: str = ""
    candidates: list[_Candidate] = field(default_factory=list)
    event_session: str = ""
    """The session in which an event opened the turn, as long as the agent did nothing since."""
    is_item_only: bool = False
    """Whether prompts of this file are known to have no events."""
    has_any_event: bool = False
    ancestors: list[Thread] = field(default_factory=list)
    """What copied metas tell of the threads that this one was forked from: the parent first, then its parent."""
    item_prompt: str = ""
    """The prompt, redacted, that an item opened by itself, as long as nothing came after it."""


class CodexReader:
    """A :class:`~palace_daemon.core.transcripts.line_parser.RecordReader` of Codex records.

    Args:
        file_name: Names the thread where no line does.
        redact: Applied to words that wait here before they open an exchange.
    """

    def __init__(self, file_name: str, redact: Redactor) -> None:
        self._redact = redact
        self._state = _ReaderState()
        named = _THREAD_IN_NAME.findall(file_name)
        self._file_thread = named[-1] if named else file_name.split(".", 1)[0]
        self._place = Place(0, 0, 0)
        self._at: int | None = None
        self._ordinal: Any = None

    def snapshot(self) -> bytes:
        """Return the reader's state."""
        return msgspec.msgpack.encode(self._state)

    def restore(self, state: bytes) -> None:
        """Continue from :meth:`snapshot`."""
        self._state = msgspec.msgpack.decode(state, type=_ReaderState)

    def read(self, record: CodexRecord, place: Place, payload: bytes) -> list[Reading]:  # noqa: ARG002
        """Return what ``record`` yields."""
        kind, body = record.unwrap()
        self._place, self._at = place, to_epoch_ms(record.stamp)
        self._ordinal = record.ordinal
        match kind:
            case "session_meta":
                return self._read_meta(body)
            case "turn_context":
                return self._read_context(body)
            case "event_msg":
                return self._read_event(body)
            case "response_item":
                return self._read_item(body)
            case "compacted" | "world_state" | "state":
                return [Reading(skipped=(kind,))]
            case _:
                return [Reading(skipped=(f"unknown_type:{reason_word(kind)}",))]

    @property
    def _is_inherited(self) -> bool:
        return self._state.thread.inherits(self._ordinal, self._state.turn_id)

    @property
    def _owner(self) -> Thread:
        """The thread in which the present turn was made: this one, or one whose history it begins with."""
        if not self._is_inherited:
            thread = self._state.thread
            return thread if thread.thread_id else msgspec.structs.replace(thread, thread_id=self._file_thread)
        oldest = self._state.thread
        for ancestor in self._state.ancestors:
            # A fork of a fork copies what its parent had copied. Ordinals count the lines of this file alone.
            if not ancestor.inherits(None, self._state.turn_id):
                return ancestor
            oldest = ancestor
        return Thread(thread_id=oldest.parent_id)

    @property
    def _session(self) -> str:
        return self._owner.session

    # ------------------------------------------------------------------------------------------------- circumstances

    def _read_meta(self, body: dict[str, Any]) -> list[Reading]:
        if self._state.thread.thread_id:
            # Copies of a fork's parent, and marks of a resumption.
            self._note_ancestor(body)
            return [Reading(skipped=("session_meta_copy",))]
        thread, facts = read_meta(body, self._file_thread)
        self._state.thread = thread
        self._state.cwd = facts.cwd
        return [Reading(events=(Facts(session=facts.session_id, facts=facts),), session=facts.session_id)]

    def _note_ancestor(self, body: dict[str, Any]) -> None:
        *_, oldest = (self._state.thread, *self._state.ancestors)
        if oldest.parent_id and as_text(body.get("id")) == oldest.parent_id:
            ancestor, _ = read_meta(body, "")
            known = {self._state.thread.thread_id, *(one.thread_id for one in self._state.ancestors)}
            if ancestor.thread_id not in known:  # damaged lines may lead in a circle
                self._state.ancestors.append(ancestor)

    def _read_context(self, body: dict[str, Any]) -> list[Reading]:
        self._state.cwd = as_text(body.get("cwd")) or self._state.cwd
        self._state.model = as_text(body.get("model")) or self._state.model
        self._begin_turn(as_text(body.get("turn_id")))
        told = TurnContext(session=self._session, cwd=self._state.cwd, model=self._state.model)
        return [Reading(events=(told,), session=self._session)]

    def _begin_turn(self, turn_id: str) -> None:
        if turn_id and turn_id != self._state.turn_id:
            self._state.turn_id, self._state.turns, self._state.has_ended = turn_id, 0, False

    # --------------------------------------------------------------------------------------------------------- events

    def _read_event(self, body: dict[str, Any]) -> list[Reading]:
        kind = as_text(body.get("type"))
        if kind in _TURN_STARTS:
            self._begin_turn(as_text(body.get("turn_id")))
            self._state.event_session = self._state.item_prompt = ""
            return [Reading(skipped=("turn_start",))]
        if kind == "user_message":
            return self._read_user_event(body)
        if kind not in _AGENT_EVENTS:
            return [self._read_notice(kind, body)]
        # The agent is at work, or done: whatever prompt there is stands above.
        self._state.event_session = self._state.item_prompt = ""
        return [*self._settle(), self._read_agent_event(kind, body)]

    def _read_agent_event(self, kind: str, body: dict[str, Any]) -> Reading:
        if kind == "agent_message":
            return self._reply(as_text(body.get("message")), _EVENT)
        if kind in _TURN_ENDS:
            final = reply_of(as_text(body.get("last_agent_message")))
            texts = [self._reply_text(final, _COMPLETION)] if final.strip() else []
            return self._told(*texts, self._end("complete"))
        if kind in ("turn_aborted", "error"):
            return self._told(self._end("interrupted" if kind == "turn_aborted" else "error"))
        return Reading(skipped=("thinking",))

    def _read_notice(self, kind: str, body: dict[str, Any]) -> Reading:
        if kind == "thread_rolled_back":
            turns = body.get("num_turns")
            return self._told(Rollback(session=self._session, turns=turns if isinstance(turns, int) else 0))
        name = as_text(body.get("thread_name"))
        if kind == "thread_name_updated" and name:
            return self._told(Title(session=self._session, text=name, rank=_NAME_RANK))
        return Reading(skipped=(kind if kind == "token_count" else f"event:{reason_word(kind)}",))

    def _read_user_event(self, body: dict[str, Any]) -> list[Reading]:
        dropped = [Reading(skipped=("repeated_prompt",)) for _ in self._state.candidates]
        self._state.candidates = []
        kind = as_text(body.get("kind")) or "plain"
        text = request_of(as_text(body.get("message")))
        if kind != "plain" or is_context(text):
            return [*dropped, Reading(skipped=("injected_context",))]
        self._state.event_session, self._state.has_any_event = self._session, True
        self._state.is_item_only = False
        opened, self._state.item_prompt = self._state.item_prompt, ""
        if opened and opened == self._redact(text):  # an earlier prompt had lost its event, so items were believed
            return [*dropped, Reading(skipped=("repeated_prompt",))]
        return [*dropped, self._told(self._turn(text, self._at, self._place, images_of(body)))]

    def _turn(self, text: str, at: int | None, place: Place, attachments: tuple[Attachment, ...]) -> UserTurn:
        state = self._state
        state.turns += 1
        owner = self._owner
        ids = f"{AGENT}:{owner.thread_id}:{state.turn_id}"
        key = ids if state.turns == 1 else f"{ids}:{state.turns}"
        return UserTurn(
            session=owner.session,
            place=place,
            text=text,
            kind=self._kind(),
            at=at,
            key=key if state.turn_id else "",
            record_ids=(state.turn_id,) if state.turn_id else (),
            turn_id=state.turn_id,
            repeats_aborted=True,
            attachments=attachments,
            cwd=state.cwd,
            branch=state.thread.branch,
            agent_version=state.thread.agent_version,
            model=state.model,
        )

    def _kind(self) -> UserKind:
        """Return the kind of the turn that was just counted."""
        state = self._state
        if state.thread.is_subagent and not self._is_inherited:
            return "automated"
        return "queued" if state.turn_id and state.turns > 1 and not state.has_ended else "prompt"

    def _end(self, status: ExchangeStatus) -> TurnEnd:
        self._state.has_ended = True
        return TurnEnd(session=self._session, status=status)

    def _told(self, *events: Event) -> Reading:
        return Reading(events=events, session=self._session)

    # ---------------------------------------------------------------------------------------------------------- items

    def _read_item(self, body: dict[str, Any]) -> list[Reading]:
        kind = as_text(body.get("type")) or "message"
        role = as_text(body.get("role")) if kind == "message" else ""
        if role == "user":
            return self._read_user_item(body)
        if role in ("developer", "system"):
            return [Reading(skipped=("injected_context",))]
        if kind == "agent_message":
            return [*self._settle(), self._read_task(body)]
        if kind not in _AGENT_ITEMS:
            return [Reading(skipped=(_item_reason(kind),))]
        self._state.event_session = self._state.item_prompt = ""
        return [*self._settle(), *self._read_agent_item(kind, role, body)]

    def _read_agent_item(self, kind: str, role: str, body: dict[str, Any]) -> list[Reading]:
        if role == "assistant":
            self._state.model = as_text(body.get("model")) or self._state.model
            texts = [reply_of(text) for text in texts_of(body.get("content"))]
            return [self._reply(text, _ITEM) for text in texts] or [Reading(skipped=("empty",))]
        if kind in _TOOL_CALLS:
            return [self._told(self._tool_call(body))]
        return [Reading(skipped=(_item_reason(kind),))]

    def _read_user_item(self, body: dict[str, Any]) -> list[Reading]:
        texts = [text for text in texts_of(body.get("content")) if not is_context(text)]
        text = request_of("\n\n".join(texts))
        if not text.strip():
            return [Reading(skipped=("injected_context",))]
        if self._state.event_session == self._session:
            return [Reading(skipped=("repeated_prompt",))]
        self._state.model = as_text(body.get("model")) or self._state.model
        redacted = self._redact(text)
        self._state.candidates.append(_Candidate(redacted, redacted != text, self._at, self._place))
        is_sure = self._state.is_item_only or (self._state.thread.is_subagent and not self._is_inherited)
        if not is_sure:
            return []
        self._state.item_prompt = redacted
        return self._settle()

    def _settle(self) -> list[Reading]:
        """Open the items that wait: the line read now shows that no event repeats them."""
        if not self._state.candidates:
            return []
        waiting, self._state.candidates = self._state.candidates, []
        self._state.is_item_only = not self._state.has_any_event
        turns = []
        for one in waiting:
            turn = self._turn(one.text, one.at, one.place, ())
            turns.append(msgspec.structs.replace(turn, flags=("redacted",) if one.is_redacted else ()))
        return [self._told(*turns)]

    def _read_task(self, body: dict[str, Any]) -> Reading:
        """Read a message between agents: a sub-agent's task is its user turn, typed by no person."""
        text = as_text(body.get("message")) or "\n\n".join(texts_of(body.get("content"))) or as_text(body.get("text"))
        if not self._state.thread.is_subagent or self._is_inherited or NEW_TASK not in text:
            return Reading(skipped=("agent_to_agent",))
        return self._told(self._turn(text, self._at, self._place, ()))

    def _reply(self, text: str, channel: int) -> Reading:
        return self._told(self._reply_text(reply_of(text), channel))

    def _reply_text(self, text: str, channel: int) -> ReplyText:
        return ReplyText(
            session=self._session,
            place=self._place,
            text=text,
            at=self._at,
            model=self._state.model,
            cwd=self._state.cwd,
            branch=self._state.thread.branch,
            agent_version=self._state.thread.agent_version,
            channel=channel,
        )

    def _tool_call(self, body: dict[str, Any]) -> ToolCall:
        return ToolCall(
            session=self._session,
            place=self._place,
            name=tool_name(body),
            target=tool_target(body),
            call_id=as_text(body.get("call_id")),
            at=self._at,
        )


def _item_reason(kind: str) -> str:
    if kind.endswith(("_output", "_result")):
        return "tool_result"
    return "thinking" if kind == "reasoning" else f"item:{reason_word(kind)}"
