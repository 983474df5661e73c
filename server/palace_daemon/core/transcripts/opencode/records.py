"""Whose words the messages and parts of an opencode session are, wherever they are kept.

opencode (and Kilo, which is built on its core) kept a tree of JSON files first and a database since. The objects are
the same: a message ``{id, role, time, ...}`` and its parts ``{id, type, ...}``. Both readers hand them over in raw
form, one message with all its parts at a time, ordered by :func:`message_order` and part id, and so get equal keys.

Invariant: a compaction is passed over whole: the user part ``compaction``, the summary that answers it, and the
synthetic request to go on, which is no words of a person.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.targets import target_of
from palace_daemon.core.transcripts.reading.words import as_text, reason_word
from palace_daemon.core.turns import Event, Facts, Place, Reading, ReplyText, Rollback, ToolCall, TurnEnd, UserTurn
from palace_daemon.model import Attachment, ExchangeStatus, SessionFacts, UserKind

AGENT = "opencode"

SHELL_NOTE = "The following tool was executed by the user"
"""What the program writes where a person ran a shell command; the command stands in the tool call of the reply."""

_REJECTED = "The user rejected permission to use this specific tool call with the following feedback: "
_GOES_ON = frozenset({"tool-calls", "unknown"})
"""Finish reasons after which the same turn continues with another message."""

_ABORTED = "MessageAbortedError"
_REASONING = "reasoning"


class SessionInfo(Struct, frozen=True, kw_only=True):
    """What a session's own record tells; no texts."""

    id: str
    parent_id: str = ""
    cwd: str = ""
    agent_version: str = ""
    reverted_from: str = ""
    """Id of the message from which on the person undid the session (``revert.messageID``)."""

    @property
    def name(self) -> str:
        """The full session id: ``parent/id`` for a sub-agent."""
        return f"{self.parent_id}/{self.id}" if self.parent_id else self.id

    def facts(self, agent: str) -> Facts:
        """Return the event that tells the session's circumstances. Its title is an event of its own."""
        told = SessionFacts(
            agent=agent,
            session_id=self.name,
            parent_session_id=self.parent_id,
            relation="subagent" if self.parent_id else "none",
            cwd=self.cwd,
            agent_version=self.agent_version,
            is_automated=bool(self.parent_id),
        )
        return Facts(session=self.name, facts=told)


def message_order(message: dict[str, Any]) -> tuple[int, str]:
    """Return what messages are sorted by: the time of creation, then the id, as the program itself does."""
    return to_epoch_ms(_object(message.get("time")).get("created")) or 0, as_text(message.get("id"))


class _State(Struct, array_like=True):
    shell_message_id: str = ""
    """The message that says that a person ran a command, until the next message tells which."""


class OpencodeMessages:
    """Reads the messages of one session, in order.

    Args:
        agent: ``opencode`` or ``kilo``; keys begin with it.
    """

    def __init__(self, agent: str = AGENT) -> None:
        self._agent = agent
        self._state = _State()

    def snapshot(self) -> bytes:
        """Return the state; it holds ids only."""
        return msgspec.msgpack.encode(self._state)

    def restore(self, state: bytes) -> None:
        """Continue from :meth:`snapshot`."""
        self._state = msgspec.msgpack.decode(state, type=_State)

    def read(self, session: SessionInfo, message: dict[str, Any], parts: Sequence[Any], place: Place) -> Reading:
        """Return what one message and its parts yield; ``parts`` in their order, of any type."""
        told = _Message(self._agent, session, message, place)
        known = [part for part in parts if isinstance(part, dict)]
        role = as_text(message.get("role"))
        if role == "user":
            reading = self._read_user(told, known)
        elif role == "assistant":
            reading = self._read_assistant(told, known)
        else:
            reading = Reading(skipped=(f"role:{reason_word(role)}",), session=session.name)
        odd = len(parts) - len(known)
        return (
            reading if not odd else msgspec.structs.replace(reading, skipped=(*reading.skipped, *["malformed"] * odd))
        )

    def _read_user(self, told: _Message, parts: list[dict[str, Any]]) -> Reading:
        kinds = {as_text(part.get("type")) for part in parts}
        texts = [part for part in parts if part.get("type") == "text"]
        words = [as_text(part.get("text")) for part in texts if not _is_injected(part)]
        skipped = ["synthetic" for part in texts if _is_injected(part)]
        skipped += [f"part:{reason_word(kind)}" for kind in sorted(kinds - {"text", "file", "compaction"})]
        if "compaction" in kinds:
            return told.reading(skipped=("compaction", *skipped))
        text = "\n\n".join(word for word in words if word.strip())
        files = tuple(_attachment(part) for part in parts if part.get("type") == "file")
        self._state.shell_message_id = ""
        if any(_is_injected(part) and as_text(part.get("text")).startswith(SHELL_NOTE) for part in texts):
            self._state.shell_message_id = told.id
        # A message without any part was written for words that are lost; its reply is no part of the turn before.
        if not text and not files and parts:
            return told.reading(skipped=tuple(skipped) or ("empty",))
        return told.reading(told.turn(text, "prompt", told.key, files), skipped=tuple(skipped))

    def _read_assistant(self, told: _Message, parts: list[dict[str, Any]]) -> Reading:
        shell, self._state.shell_message_id = self._state.shell_message_id, ""
        if told.is_summary:
            return told.reading(skipped=("compaction_summary",))
        events: list[Event] = []
        skipped: list[str] = []
        for part in parts:
            kind = as_text(part.get("type"))
            if kind == "text" and not _is_injected(part):
                events.append(told.reply(as_text(part.get("text"))))
            elif kind == "tool" and shell:
                command = as_text(_object(_object(part.get("state")).get("input")).get("command"))
                events += told.turn(command, "shell", f"{self._agent}:{shell}")
                shell = ""
            elif kind == "tool":
                events.append(told.tool_call(part))
                events += told.words_in_tool(part)
            elif kind == "text":
                skipped.append("synthetic")
            else:
                skipped.append("thinking" if kind == _REASONING else f"part:{reason_word(kind)}")
        return told.reading((*events, *told.end()), tuple(skipped))


class _Message:
    """One message, with what every event of it needs."""

    def __init__(self, agent: str, session: SessionInfo, message: dict[str, Any], place: Place) -> None:
        self._agent, self._session, self._place = agent, session, place
        self._message = message
        self._turns = 0
        self.id = as_text(message.get("id"))
        time = _object(message.get("time"))
        self._at = to_epoch_ms(time.get("created"))
        self._completed_at = to_epoch_ms(time.get("completed"))
        model = message.get("model")
        self._model = as_text(message.get("modelID")) or as_text(_object(model).get("modelID")) or as_text(model)
        self._cwd = as_text(_object(message.get("path")).get("cwd")) or session.cwd

    @property
    def key(self) -> str:
        return f"{self._agent}:{self.id}" if self.id else ""

    @property
    def is_summary(self) -> bool:
        mode = as_text(self._message.get("mode")) or as_text(self._message.get("agent"))
        return self._message.get("summary") is True or mode == "compaction"

    @property
    def _is_undone(self) -> bool:
        return bool(self._session.reverted_from) and self.id >= self._session.reverted_from

    def reading(self, events: Sequence[Event] = (), skipped: Sequence[str] = ()) -> Reading:
        return Reading(events=tuple(events), skipped=tuple(skipped), session=self._session.name)

    def turn(
        self, text: str, kind: UserKind, key: str, attachments: tuple[Attachment, ...] = (), at: int | None = None
    ) -> list[Event]:
        self._turns += 1
        turn = UserTurn(
            session=self._session.name,
            place=self._place,
            text=text,
            kind="automated" if self._session.parent_id and kind == "prompt" else kind,
            at=at or self._at,
            key=key,
            record_ids=(self.id,) if self.id else (),
            attachments=attachments,
            cwd=self._cwd,
            agent_version=self._session.agent_version,
            model=self._model,
        )
        # An undone message stays until the next prompt replaces it; its reply follows it, and is undone with it.
        return [turn, Rollback(session=self._session.name, turns=1)] if self._is_undone and text else [turn]

    def reply(self, text: str) -> Event:
        return ReplyText(
            session=self._session.name,
            place=self._place,
            text=text,
            # What follows an answer inside the same message belongs to the answer.
            message_id=f"{self.id}#{self._turns}" if self._turns else self.id,
            key=self.key,
            at=self._completed_at or self._at,
            model=self._model,
            cwd=self._cwd,
            agent_version=self._session.agent_version,
        )

    def tool_call(self, part: dict[str, Any]) -> Event:
        return ToolCall(
            session=self._session.name,
            place=self._place,
            name=as_text(part.get("tool")) or as_text(part.get("name")),
            target=target_of(_object(part.get("state")).get("input")),
            call_id=as_text(part.get("callID")) or as_text(part.get("id")),
            at=self._at,
        )

    def words_in_tool(self, part: dict[str, Any]) -> list[Event]:
        """Return the turn that a person's answer or rejection opens."""
        state = _object(part.get("state"))
        key = f"{self._agent}:{as_text(part.get('id'))}" if part.get("id") else ""
        ended_at = to_epoch_ms(_object(state.get("time")).get("end"))
        error = as_text(state.get("error"))
        if error.startswith(_REJECTED) and error != _REJECTED:
            return self.turn(error.removeprefix(_REJECTED), "rejection", key, at=ended_at)
        answers = _answers(state)
        return self.turn(answers, "answer", key, at=ended_at) if answers else []

    def end(self) -> list[Event]:
        error = _object(self._message.get("error"))
        status: ExchangeStatus = "complete"
        if error:
            name = as_text(error.get("name")) or as_text(error.get("type"))
            status = "interrupted" if name in (_ABORTED, "aborted") else "error"
        elif self._completed_at is None or as_text(self._message.get("finish")) in _GOES_ON:
            return []
        return [TurnEnd(session=self._session.name, status=status)]


def _is_injected(part: dict[str, Any]) -> bool:
    # Databases tell a truth value as 1.
    return bool(part.get("synthetic")) or bool(part.get("ignored"))


def _attachment(part: dict[str, Any]) -> Attachment:
    mime = as_text(part.get("mime"))
    return Attachment(kind="image" if mime.startswith("image/") else "file", name=as_text(part.get("filename")))


def _answers(state: dict[str, Any]) -> str:
    """Return each question of the question tool with its answer below."""
    answers = _object(state.get("metadata")).get("answers")
    questions = _object(state.get("input")).get("questions")
    if not isinstance(answers, list) or not isinstance(questions, list):
        return ""
    told = []
    for question, answer in zip(questions, answers, strict=False):
        chosen = [text for text in answer if isinstance(text, str)] if isinstance(answer, list) else []
        if chosen:
            told.append(f"{as_text(_object(question).get('question'))}\n{', '.join(chosen)}")
    return "\n\n".join(told)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
