"""Reads ``ui_messages.json``: what a person saw and typed in a Cline, Roo Code or Kilo Code task.

Entries are ``{ts, type: "say"|"ask", say|ask: kind, text}``. The first text is the task. ``partial`` marks an entry
that was still streaming; finished tasks keep some for ever, so one is left out only where the whole one follows.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec import structs

from palace_daemon.core.documents import Places
from palace_daemon.core.transcripts.cline.facts import Task
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.targets import target_of
from palace_daemon.core.transcripts.reading.words import as_text, reason_word
from palace_daemon.core.turns import Event, Place, Reading, ReplyText, ToolCall, TurnEnd, UserTurn
from palace_daemon.model import Attachment, ExchangeStatus, UserKind

_WORDS = ("user_feedback", "task")
_REPLIES = frozenset({"text", "completion_result"})
_QUESTIONS = {"followup": "question", "plan_mode_respond": "response", "act_mode_respond": "response"}
"""Questions and answers that are JSON, and the field that holds the words."""

_HAS_CHANGES = "HAS_CHANGES"
"""What the program appends to a result whose task changed files; it shows a button for it."""

_TOOLS = frozenset({"tool", "use_mcp_server", "command", "browser_action_launch"})
_PAUSES: dict[str, ExchangeStatus] = {"resume_task": "interrupted", "resume_completed_task": "complete"}


def first_text(messages: list[dict[str, Any]]) -> str | None:
    """Return the text of the entry that is the task where nothing says otherwise; None where there is no such entry."""
    for message in messages:
        side = as_text(message.get("type"))
        kind = as_text(message.get(side)) if side in ("say", "ask") else ""
        if kind == "text" and side == "say":
            return as_text(message.get("text"))
        if kind in _REPLIES | _TOOLS or kind in _WORDS:
            return None
    return None


def has_words(messages: list[dict[str, Any]]) -> bool:
    """Return whether a person says something in the entries, apart from the first text."""
    return any(message.get("type") == "say" and message.get("say") in _WORDS for message in messages)


class UiReader:
    """Reads the entries of one task, in order.

    Args:
        agent: Whose.
        task: What is known of the task.
        begins_with_task: Whether the first text is the person's; where the task is known to be another it is not.
    """

    def __init__(self, agent: str, task: Task, *, begins_with_task: bool = True) -> None:
        self._agent, self._task = agent, task
        self._begins_with_task = begins_with_task
        self._turns = 0
        self._is_complete = False
        self._is_asked = False

    def read(self, messages: list[dict[str, Any]], places: Places) -> list[Reading]:
        """Return what the entries yield."""
        whole = {_stamp(message) for message in messages if message.get("partial") is not True} - {""}
        readings = []
        for message in messages:
            if message.get("partial") is True and _stamp(message) in whole:
                readings.append(Reading(skipped=("partial",), session=self._task.id))
                continue
            readings.append(self._read_message(message, places))
        return readings

    def _read_message(self, message: dict[str, Any], places: Places) -> Reading:
        side = as_text(message.get("type"))
        kind = as_text(message.get(side)) if side in ("say", "ask") else ""
        text = as_text(message.get("text"))
        is_first_text = kind == "text" and not self._turns and side == "say"
        if kind in _WORDS or (is_first_text and self._begins_with_task):
            return self._turn(message, text, places.of(text))
        self._turns = self._turns or (1 if kind in _REPLIES | _TOOLS else 0)
        if kind in _REPLIES:
            return self._reply(message, kind, text, places)
        if kind in _QUESTIONS:
            return self._question(message, kind, text, places)
        if kind in _TOOLS:
            return self._tool(message, kind, text, places)
        if side == "ask":
            self._is_asked = False
        if kind in _PAUSES:
            status = "complete" if self._is_complete else _PAUSES[kind]
            return self._told(TurnEnd(session=self._task.id, status=status))
        return Reading(
            skipped=("thinking" if kind == "reasoning" else f"{reason_word(side)}:{reason_word(kind)}",),
            session=self._task.id,
        )

    def _told(self, *events: Event) -> Reading:
        return Reading(events=events, session=self._task.id)

    # ---------------------------------------------------------------------------------------------------------- user

    def _turn(
        self, message: dict[str, Any], text: str, place: Place, kind: UserKind | None = None, suffix: str = ""
    ) -> Reading:
        if kind is None:
            kind = "answer" if self._is_asked else "automated" if self._is_ordered else "prompt"
        self._turns += 1
        self._is_complete = self._is_asked = False
        stamp = _stamp(message)
        turn = UserTurn(
            session=self._task.id,
            place=place,
            text=text,
            kind=kind,
            at=to_epoch_ms(message.get("ts")),
            key=f"{self._agent}:{self._task.id}:{stamp}{suffix}" if stamp else "",
            record_ids=(stamp,) if stamp else (),
            attachments=() if suffix else _attachments(message),
            cwd=self._task.cwd,
            model=_model(message),
        )
        return self._told(turn)

    @property
    def _is_ordered(self) -> bool:
        """Whether the words are those of the task that began this one."""
        return bool(self._task.parent_id) and not self._turns

    # --------------------------------------------------------------------------------------------------------- agent

    def _reply(self, message: dict[str, Any], kind: str, text: str, places: Places) -> Reading:
        is_end = kind == "completion_result"
        text = text.removesuffix(_HAS_CHANGES) if is_end else text
        # A completion is said, and then asked about with the same words or none.
        message_id = f"completion of {self._turns}" if is_end else _stamp(message)
        events: tuple[Event, ...] = ()
        if text.strip():
            told = self._reply_text(message, text, places.of(text), message_id)
            events = (structs.replace(told, may_be_retold=is_end),)
        if is_end:
            self._is_complete = True
            events += (TurnEnd(session=self._task.id, status="complete"),)
        if not events:
            return Reading(skipped=("empty",), session=self._task.id)
        return self._told(*events)

    def _reply_text(self, message: dict[str, Any], text: str, place: Place, message_id: str) -> ReplyText:
        return ReplyText(
            session=self._task.id,
            place=place,
            text=text,
            message_id=message_id,
            at=to_epoch_ms(message.get("ts")),
            model=_model(message),
            cwd=self._task.cwd,
        )

    def _question(self, message: dict[str, Any], kind: str, text: str, places: Places) -> Reading:
        value = _object(text)
        words = as_text(value.get(_QUESTIONS[kind])) if value else text
        if not value and text.lstrip().startswith("{"):  # cut while it streamed
            return Reading(skipped=("malformed",), session=self._task.id)
        place = places.of(text)
        events: tuple[Event, ...] = ()
        if words.strip():
            events = (self._reply_text(message, words, place, _stamp(message)),)
        self._is_asked = kind == "followup"
        chosen = as_text(value.get("selected"))
        if chosen.strip():  # a click on one of the offered answers leaves no entry of its own
            events += self._turn(message, chosen, place, "answer", ":selected").events
        return self._told(*events) if events else Reading(skipped=("empty",), session=self._task.id)

    def _tool(self, message: dict[str, Any], kind: str, text: str, places: Places) -> Reading:
        self._is_asked = False
        value = _object(text)
        name, target = kind, target_of(text)
        if kind == "tool":
            name = as_text(value.get("tool")) or kind
            target = target_of(value) or as_text(value.get("regex"))
        elif kind == "use_mcp_server":
            name = as_text(value.get("toolName")) or as_text(value.get("type")) or kind
            target = as_text(value.get("uri")) or as_text(value.get("serverName"))
        elif kind == "command":
            name, target = "execute_command", target_of({"command": text})
        call = ToolCall(
            session=self._task.id,
            place=places.of(text),
            name=name,
            target=target,
            call_id=f"{stamp}:{kind}" if (stamp := _stamp(message)) else "",
            at=to_epoch_ms(message.get("ts")),
        )
        return self._told(call)


def _stamp(message: dict[str, Any]) -> str:
    """Return what identifies an entry inside its task, or an empty string."""
    stamp = message.get("ts")
    return str(stamp) if isinstance(stamp, int) and not isinstance(stamp, bool) else ""


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _model(message: dict[str, Any]) -> str:
    info = message.get("modelInfo")
    return as_text(info.get("modelId")) if isinstance(info, dict) else ""


def _attachments(message: dict[str, Any]) -> tuple[Attachment, ...]:
    images, files = message.get("images"), message.get("files")
    sizes = [len(image) * 3 // 4 for image in images if isinstance(image, str)] if isinstance(images, list) else []
    names = [name for name in files if isinstance(name, str)] if isinstance(files, list) else []
    return (
        *(Attachment(kind="image", size_bytes=size) for size in sizes),
        *(Attachment(kind="file", name=name) for name in names),
    )
