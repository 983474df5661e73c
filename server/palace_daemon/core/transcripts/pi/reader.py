"""Reads the entries of a Pi session one after the other."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from palace_daemon.core.jsonl import LineDecoder
from palace_daemon.core.transcripts.reading.branches import TurnLedger
from palace_daemon.core.transcripts.reading.record_keys import record_identity, turn_key
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.targets import target_of
from palace_daemon.core.transcripts.reading.words import as_text, path_parts, reason_word
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
from palace_daemon.model import Attachment, ExchangeStatus, SessionFacts, UserKind

AGENT = "pi"

_TITLE_RANK = 1
_ENDS: dict[str, ExchangeStatus] = {"stop": "complete", "aborted": "interrupted", "error": "error"}


class PiEntry(Struct, rename="camel"):
    """The fields that are read; the first entry tells of the session."""

    type: Any = None
    id: Any = None
    parent_id: Any = msgspec.UNSET
    """Absent in files of the first version, which have no branches."""
    timestamp: Any = None
    version: Any = None
    cwd: Any = None
    parent_session: Any = None
    name: Any = None
    message: Any = None


def is_entry(value: dict[str, Any]) -> bool:
    """Return whether an object found after a torn piece is a whole entry."""
    return isinstance(value.get("type"), str) and "id" in value and "timestamp" in value


def decoder() -> LineDecoder[PiEntry]:
    """Return a decoder of entries."""
    return LineDecoder(PiEntry, is_entry)


class _ReaderState(Struct, array_like=True):
    session: str = ""
    cwd: str = ""
    last: str = ""
    """The entry before; one that follows another entry begins a new branch."""
    ledger: TurnLedger = field(default_factory=TurnLedger)


class PiReader:
    """A :class:`~palace_daemon.core.transcripts.line_parser.RecordReader` of Pi entries.

    Args:
        session: The session's id as the file's name tells it.
    """

    def __init__(self, session: str) -> None:
        self._state = _ReaderState(session=session)
        self._entry = PiEntry()
        self._message: dict[str, Any] = {}
        self._place = Place(0, 0, 0)
        self._payload = b""

    def snapshot(self) -> bytes:
        """Return the reader's state."""
        return msgspec.msgpack.encode(self._state)

    def restore(self, state: bytes) -> None:
        """Continue from :meth:`snapshot`."""
        self._state = msgspec.msgpack.decode(state, type=_ReaderState)

    def read(self, entry: PiEntry, place: Place, payload: bytes) -> list[Reading]:
        """Return what an entry yields."""
        self._entry, self._place, self._payload = entry, place, payload
        self._message = entry.message if isinstance(entry.message, dict) else {}
        kind = as_text(entry.type)
        if kind == "session":
            return [self._read_session()]
        undone = self._follow()
        reading = self._read_entry(kind)
        self._state.ledger.note(self._id)
        return [*undone, reading]

    def _read_entry(self, kind: str) -> Reading:
        if kind == "message":
            return self._read_message(as_text(self._message.get("role")))
        if kind == "session_info" and as_text(self._entry.name):
            return self._told(Title(session=self._state.session, text=self._entry.name, rank=_TITLE_RANK))
        return Reading(skipped=(reason_word(kind),))

    @property
    def _id(self) -> str:
        return as_text(self._entry.id)

    def _follow(self) -> list[Reading]:
        """Return the undoing of the turns between the entry that this one follows and the entry before."""
        state, parent = self._state, as_text(self._entry.parent_id)
        if not self._id or state.ledger.knows(self._id):
            return []
        has_moved = bool(state.last) and parent != state.last and self._entry.parent_id is not msgspec.UNSET
        state.last = self._id
        if not has_moved:
            return []
        turns = state.ledger.back_to(parent) if parent else state.ledger.back_to_start()
        return [Reading(events=(Rollback(session=state.session, turn_ids=turns),))] if turns else []

    def _read_session(self) -> Reading:
        state, parent = self._state, as_text(self._entry.parent_session)
        state.session = self._id or state.session
        state.cwd = as_text(self._entry.cwd) or state.cwd
        facts = SessionFacts(
            agent=AGENT,
            session_id=state.session,
            parent_session_id=session_of(parent) if parent else "",
            relation="fork" if parent else "none",
            cwd=state.cwd,
        )
        events: list[Event] = [Facts(session=state.session, facts=facts)]
        if as_text(self._entry.name):
            events.append(Title(session=state.session, text=self._entry.name, rank=_TITLE_RANK))
        return Reading(events=tuple(events), session=state.session)

    # -------------------------------------------------------------------------------------------------------- messages

    def _read_message(self, role: str) -> Reading:
        if role == "user":
            texts, attachments, _ = _content(self._message.get("content"))
            return self._read_user("\n\n".join(texts), "prompt", attachments)
        if role == "bashExecution":
            return self._read_user(as_text(self._message.get("command")), "shell", ())
        if role == "assistant":
            return self._read_assistant()
        return Reading(skipped=("tool_result" if role == "toolResult" else f"message:{reason_word(role)}",))

    def _read_user(self, text: str, kind: UserKind, attachments: tuple[Attachment, ...]) -> Reading:
        if not text.strip() and not attachments:
            return Reading(skipped=("empty",))
        self._state.ledger.note(self._id, opens=True)
        return self._told(
            UserTurn(
                session=self._state.session,
                place=self._place,
                text=text,
                kind=kind,
                at=self._at,
                key=turn_key(AGENT, self._id, self._entry.timestamp, text),
                record_ids=(self._id,) if self._id else (),
                turn_id=self._id,
                attachments=attachments,
                cwd=self._state.cwd,
            )
        )

    def _read_assistant(self) -> Reading:
        texts, _, calls = _content(self._message.get("content"))
        events: list[Event] = [self._reply(text) for text in texts]
        events += [self._tool_call(call) for call in calls]
        status = _ENDS.get(as_text(self._message.get("stopReason")))
        if status:
            events.append(TurnEnd(session=self._state.session, status=status))
        return self._told(*events) if events else Reading(skipped=("thinking",))

    def _reply(self, text: str) -> ReplyText:
        return ReplyText(
            session=self._state.session,
            place=self._place,
            text=text,
            message_id=self._id,
            key=turn_key(AGENT, self._id, self._entry.timestamp, text),
            at=self._at,
            model=as_text(self._message.get("model")),
            cwd=self._state.cwd,
        )

    def _tool_call(self, call: dict[str, Any]) -> ToolCall:
        return ToolCall(
            session=self._state.session,
            place=self._place,
            name=as_text(call.get("name")),
            target=target_of(call.get("arguments")),
            call_id=as_text(call.get("id")),
            message_id=self._id,
            at=self._at,
        )

    @property
    def _at(self) -> int | None:
        return to_epoch_ms(self._entry.timestamp)

    def _told(self, *events: Event) -> Reading:
        return Reading(events=events, session=self._state.session, record_id=record_identity(self._id, self._payload))


def session_of(path: str) -> str:
    """Return the id in a file's name, ``<time>_<id>.jsonl``."""
    return path_parts(path)[-1].removesuffix(".jsonl").rpartition("_")[2]


def _content(content: Any) -> tuple[list[str], tuple[Attachment, ...], list[dict[str, Any]]]:
    """Return the texts, the images and the tool calls of a message's content."""
    if isinstance(content, str):
        return [content], (), []
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [part["text"] for part in parts if part.get("type") == "text" and isinstance(part.get("text"), str)]
    images = tuple(
        Attachment(kind="image", name=as_text(part.get("mimeType")), size_bytes=len(as_text(part.get("data"))) * 3 // 4)
        for part in parts
        if part.get("type") == "image"
    )
    return texts, images, [part for part in parts if part.get("type") == "toolCall"]
