"""Reads ``api_conversation_history.json``: what the model of a Cline, Roo Code or Kilo Code task got and said.

The second choice: condensing removes its beginning. Messages are ``{role, content: [blocks], ts?}``.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from palace_daemon.core.documents import Places
from palace_daemon.core.transcripts.cline.facts import Task
from palace_daemon.core.transcripts.cline.history_words import (
    SPOKEN,
    Words,
    announced_call,
    is_announcement,
    without_environment,
    words_in_output,
    words_of,
)
from palace_daemon.core.transcripts.cline.spoken import reply_of
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.targets import target_of
from palace_daemon.core.transcripts.reading.words import as_text, reason_word
from palace_daemon.core.turns import Event, Place, Reading, ReplyText, ToolCall, TurnEnd, UserTurn
from palace_daemon.model import Attachment


class HistoryReader:
    """Reads the messages of one task, in order."""

    def __init__(self, agent: str, task: Task) -> None:
        self._agent, self._task = agent, task
        self._has_begun = False
        self._calls: dict[str, str] = {}
        """Id of a native call to its name."""

    def read(self, messages: list[dict[str, Any]], places: Places) -> list[Reading]:
        """Return what the messages yield."""
        return [self._read_message(index, message, places) for index, message in enumerate(messages)]

    def _read_message(self, index: int, message: dict[str, Any], places: Places) -> Reading:
        if message.get("isSummary") is True or message.get("isTruncationMarker") is True:
            return Reading(skipped=("compaction_summary",), session=self._task.id)
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        known = [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
        role = as_text(message.get("role"))
        if role == "user":
            return self._read_user(message, known, places)
        if role == "assistant":
            return self._read_assistant(index, message, known, places)
        return Reading(skipped=(f"role:{reason_word(role)}",), session=self._task.id)

    # ---------------------------------------------------------------------------------------------------------- user

    def _read_user(self, message: dict[str, Any], blocks: list[dict[str, Any]], places: Places) -> Reading:
        found: list[tuple[Words, Place]] = []
        skipped: list[str] = []
        images: list[Attachment] = []
        call = ""
        for block in blocks:
            kind = as_text(block.get("type"))
            if kind == "image":
                images.append(Attachment(kind="image"))
            elif kind == "text":
                raw = as_text(block.get("text"))
                text = without_environment(raw)
                words, reason = _words(text, call)
                found += [(one, places.of(raw)) for one in words]
                skipped += [word for word in ("environment" if text != raw else "", reason) if word]
                call = announced_call(text) if is_announcement(text) else ""
            else:
                words = self._words_in_result(block)
                found += [(one, places.of(as_text(block.get("tool_use_id")))) for one in words]
                skipped.append("tool_output" if kind == "tool_result" else f"block:{reason_word(kind)}")
        turns = [self._turn(message, one, place, number) for number, (one, place) in enumerate(found)]
        if turns and images:
            turns[0] = structs.replace(turns[0], attachments=tuple(images))
        return Reading(events=tuple(turns), skipped=tuple(skipped), session=self._task.id)

    def _words_in_result(self, block: dict[str, Any]) -> list[Words]:
        name = self._calls.get(as_text(block.get("tool_use_id")), "")
        return [one for text in _output_texts(block.get("content")) for one in words_in_output(text, name)]

    def _turn(self, message: dict[str, Any], words: Words, place: Place, number: int) -> UserTurn:
        stamp = message.get("ts")
        has_stamp = isinstance(stamp, int) and not isinstance(stamp, bool)
        suffix = f":{number}" if number else ""
        is_ordered = bool(self._task.parent_id) and not self._has_begun
        self._has_begun = True
        return UserTurn(
            session=self._task.id,
            place=place,
            text=words.text,
            kind="automated" if is_ordered else words.kind,
            at=to_epoch_ms(stamp),
            key=f"{self._agent}:{self._task.id}:{stamp}{suffix}" if has_stamp else "",
            record_ids=(str(stamp),) if has_stamp else (),
            cwd=self._task.cwd,
        )

    # --------------------------------------------------------------------------------------------------------- agent

    def _read_assistant(
        self, index: int, message: dict[str, Any], blocks: list[dict[str, Any]], places: Places
    ) -> Reading:
        events: list[Event] = []
        skipped: list[str] = []
        for block in blocks:
            kind = as_text(block.get("type"))
            if kind == "text":
                text = as_text(block.get("text"))
                place = places.of(text)
                for piece in reply_of(text):
                    skipped += ["thinking"] if piece.is_thought else []
                    if piece.text:
                        events.append(self._reply(index, message, piece.text, place))
                    if piece.call:
                        events += self._call(message, piece.call, piece.target, f"{index}:{len(events)}", place)
            elif kind == "tool_use":
                events += self._native_call(index, message, block, places)
            else:
                skipped.append("thinking" if kind in ("thinking", "reasoning") else f"block:{reason_word(kind)}")
        return Reading(events=tuple(events), skipped=tuple(skipped), session=self._task.id)

    def _native_call(self, index: int, message: dict[str, Any], block: dict[str, Any], places: Places) -> list[Event]:
        name, arguments = as_text(block.get("name")), block.get("input")
        call_id = as_text(block.get("id"))
        place = places.of(call_id)
        self._calls[call_id] = name
        spoken = as_text(arguments.get(SPOKEN.get(name, ""))) if isinstance(arguments, dict) else ""
        said: list[Event] = [self._reply(index, message, spoken, place)] if spoken.strip() else []
        return [*said, *self._call(message, name, target_of(arguments), call_id, place)]

    def _reply(self, index: int, message: dict[str, Any], text: str, place: Place) -> ReplyText:
        return ReplyText(
            session=self._task.id,
            place=place,
            text=text,
            message_id=f"{index}",
            at=to_epoch_ms(message.get("ts")),
            model=as_text(message.get("model")),
            cwd=self._task.cwd,
        )

    def _call(self, message: dict[str, Any], name: str, target: str, call_id: str, place: Place) -> list[Event]:
        if name == "attempt_completion":
            return [TurnEnd(session=self._task.id, status="complete")]
        if name in SPOKEN:
            return []
        at = to_epoch_ms(message.get("ts"))
        return [ToolCall(session=self._task.id, place=place, name=name, target=target, call_id=call_id, at=at)]


def _words(text: str, call: str) -> tuple[list[Words], str]:
    """Return a person's words in a text block that may be the output of ``call``, or why there are none."""
    said = words_in_output(text, call)
    if said or not text.strip() or is_announcement(text):
        return said, ""
    if call or announced_call(text):
        return [], "tool_output"
    found = words_of(text)
    return found, "" if found else "injected_context"


def _output_texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    blocks = content if isinstance(content, list) else []
    return [as_text(block.get("text")) for block in blocks if isinstance(block, dict)]
