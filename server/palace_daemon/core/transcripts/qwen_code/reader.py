"""Reads Qwen Code records one after the other into events."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from palace_daemon.core.transcripts.base import Redactor
from palace_daemon.core.transcripts.qwen_code.records import AGENT, Content, QwenRecord, read_content
from palace_daemon.core.transcripts.reading.branches import TurnLedger
from palace_daemon.core.transcripts.reading.record_keys import payload_identity, turn_key
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.targets import target_of
from palace_daemon.core.transcripts.reading.words import as_text, reason_word
from palace_daemon.core.turns import Event, Facts, Place, Reading, ReplyText, Rollback, Title, ToolCall, UserTurn
from palace_daemon.model import Attachment, SessionFacts, UserKind

_NOTICES = frozenset({"notification", "goal_runtime"})
"""Subtypes of user records that the program wrote to keep the agent going."""

_TITLE_RANK = 1


class _AtCommand(Struct, array_like=True):
    """Words with ``@file`` in them; the record that follows holds the files' content in place of the mention."""

    text: str
    files: list[str]


class _ReaderState(Struct, array_like=True):
    session: str = ""
    model: str = ""
    at_commands: list[_AtCommand] = field(default_factory=list)
    ledgers: dict[str, TurnLedger] = field(default_factory=dict)
    answered: str = ""
    """The last turn's record, if anything was said since."""


class QwenReader:
    """A :class:`~palace_daemon.core.transcripts.line_parser.RecordReader` of Qwen Code records.

    Args:
        stem: Name of the file without its ending, the session of records that name none.
        redact: Applied to words that wait here.
    """

    def __init__(self, stem: str, redact: Redactor) -> None:
        self._redact = redact
        self._state = _ReaderState(session=stem)
        self._told: SessionFacts | None = None
        self._record = QwenRecord()
        self._place = Place(0, 0, 0)
        self._payload = b""

    def snapshot(self) -> bytes:
        """Return the reader's state."""
        return msgspec.msgpack.encode(self._state)

    def restore(self, state: bytes) -> None:
        """Continue from :meth:`snapshot`."""
        self._state = msgspec.msgpack.decode(state, type=_ReaderState)

    def read(self, record: QwenRecord, place: Place, payload: bytes) -> list[Reading]:
        """Return what a record yields."""
        self._record, self._place, self._payload = record, place, payload
        self._state.session = as_text(record.session_id) or self._state.session
        facts = self._facts()
        reading = self._read_record(as_text(record.type))
        self._ledger.note(self._uuid)
        return [Reading(events=(facts,), session=self._session), reading] if facts else [reading]

    def _read_record(self, kind: str) -> Reading:
        match kind:
            case "user":
                return self._read_user()
            case "assistant":
                return self._read_assistant()
            case "system":
                return self._read_system(as_text(self._record.subtype))
            case "tool_result":
                return Reading(skipped=("tool_result",))
            case _:
                return Reading(skipped=(f"unknown_type:{reason_word(kind)}",))

    # ------------------------------------------------------------------------------------------------------- sessions

    @property
    def _uuid(self) -> str:
        return as_text(self._record.uuid)

    @property
    def _session(self) -> str:
        agent = as_text(self._record.agent_id)
        return f"{self._state.session}/{agent}" if agent else self._state.session

    @property
    def _ledger(self) -> TurnLedger:
        return self._state.ledgers.setdefault(self._session, TurnLedger())

    def _facts(self) -> Facts | None:
        """Return what the record says of its session, unless it was just said."""
        session, record = self._session, self._record
        parent = session.rpartition("/")[0]
        told = SessionFacts(
            agent=AGENT,
            session_id=session,
            parent_session_id=parent,
            relation="subagent" if parent else "none",
            cwd=as_text(record.cwd),
            branch=as_text(record.git_branch),
            agent_version=as_text(record.version),
            is_automated=bool(parent),
        )
        if told == self._told:
            return None
        self._told = told
        return Facts(session=session, facts=told)

    # ---------------------------------------------------------------------------------------------- users and replies

    def _read_user(self) -> Reading:
        subtype = as_text(self._record.subtype)
        if subtype in _NOTICES:
            return Reading(skipped=(subtype,))
        content = read_content(self._record.message)
        text, files = self._words(content, subtype)
        attachments = (*content.attachments, *(Attachment(kind="file", name=name) for name in files))
        if not text.strip() and not attachments:
            return Reading(skipped=("injected_context" if content.has_context else "empty",))
        turn = self._turn(text, self._kind(subtype), attachments)
        self._ledger.note(self._uuid, opens=True)
        self._state.answered = ""
        return self._told_by(turn)

    def _words(self, content: Content, subtype: str) -> tuple[str, list[str]]:
        """Return what the person typed, and the files that it mentioned."""
        shown = as_text(self._record.payload.get("displayText"))
        if not subtype and self._state.at_commands:
            command = self._state.at_commands.pop(0)
            return command.text or shown or "\n\n".join(content.texts), command.files
        return shown or "\n\n".join(content.texts), []

    def _kind(self, subtype: str) -> UserKind:
        provenance = as_text(self._record.provenance) or "real_user"
        if provenance != "real_user" or self._record.agent_id:
            return "automated"
        if subtype == "mid_turn_user_message":
            return "queued"
        return "automated" if subtype else "prompt"

    def _turn(self, text: str, kind: UserKind, attachments: tuple[Attachment, ...]) -> UserTurn:
        record = self._record
        return UserTurn(
            session=self._session,
            place=self._place,
            text=text,
            kind=kind,
            at=to_epoch_ms(record.timestamp),
            key=turn_key(AGENT, self._uuid, record.timestamp, text),
            record_ids=(self._uuid,) if self._uuid else (),
            turn_id=self._uuid,
            attachments=attachments,
            cwd=as_text(record.cwd),
            branch=as_text(record.git_branch),
            agent_version=as_text(record.version),
            model=self._state.model,
        )

    def _read_assistant(self) -> Reading:
        self._state.model = as_text(self._record.model) or self._state.model
        self._state.at_commands = []  # the prompt that one belonged to stood before this reply, or was lost
        content = read_content(self._record.message)
        events: list[Event] = [self._reply(text) for text in content.texts]
        events += [self._tool_call(*call) for call in content.calls]
        if not events:
            return Reading(skipped=("thinking" if content.has_thoughts else "empty",))
        self._state.answered = self._ledger.turns[-1] if self._ledger.turns else ""
        return self._told_by(*events)

    def _reply(self, text: str) -> ReplyText:
        record = self._record
        return ReplyText(
            session=self._session,
            place=self._place,
            text=text,
            message_id=self._uuid,
            key=turn_key(AGENT, self._uuid, record.timestamp, text),
            at=to_epoch_ms(record.timestamp),
            model=self._state.model,
            cwd=as_text(record.cwd),
            branch=as_text(record.git_branch),
            agent_version=as_text(record.version),
        )

    def _tool_call(self, name: str, call_id: str, arguments: Any) -> ToolCall:
        return ToolCall(
            session=self._session,
            place=self._place,
            name=name,
            target=target_of(arguments),
            call_id=call_id,
            message_id=self._uuid,
            at=to_epoch_ms(self._record.timestamp),
        )

    # ----------------------------------------------------------------------------------------------------- the system

    def _read_system(self, subtype: str) -> Reading:
        payload = self._record.payload
        if subtype == "custom_title" and as_text(payload.get("customTitle")):
            # The program takes the last title, whoever gave it, from whatever branch.
            return self._told_by(Title(session=self._session, text=payload["customTitle"], rank=_TITLE_RANK))
        if subtype == "rewind":
            return self._read_rewind()
        if subtype == "at_command" and not self._ledger.knows(self._uuid):
            files = payload.get("filesRead")
            names = [self._redact(name) for name in files if isinstance(name, str)] if isinstance(files, list) else []
            self._state.at_commands.append(_AtCommand(self._redact(as_text(payload.get("userText"))), names))
        return Reading(skipped=(reason_word(subtype or "system"),))

    def _read_rewind(self) -> Reading:
        """Undo what came after the record that a rewind follows: the one before the abandoned prompt.

        A rewind to a prompt itself abandons its reply, and what was asked and answered there goes with it: an
        exchange stands or falls as a whole.
        """
        if self._ledger.knows(self._uuid):
            return Reading(skipped=("duplicate",))
        parent = as_text(self._record.parent_uuid)
        is_reply_undone = bool(parent) and parent == self._state.answered
        self._state.at_commands, self._state.answered = [], ""
        if is_reply_undone:
            turns = self._ledger.back_before(parent)
        else:
            turns = self._ledger.back_to(parent) if parent else self._ledger.back_to_start()
        return self._told_by(Rollback(session=self._session, turn_ids=turns)) if turns else Reading(skipped=("rewind",))

    def _told_by(self, *events: Event) -> Reading:
        return Reading(events=events, session=self._session, record_id=payload_identity(self._uuid, self._payload))
