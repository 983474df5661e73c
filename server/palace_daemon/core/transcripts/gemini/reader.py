"""Reads both forms of a Gemini CLI session into events.

In the form of lines nothing is ever taken back from the file: a message that grew is written again under its id, a
rewind names the first message that it drops, and after a compression all messages are written anew, the oldest of
them summed up. So the reader remembers the ids of all messages and the order of those that still count.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from palace_daemon.core.documents import Places
from palace_daemon.core.drafts import digest
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.gemini.messages import Session, begin, read_message, titled, turn_name
from palace_daemon.core.transcripts.gemini.project import Location
from palace_daemon.core.transcripts.gemini.records import PROMPT, REPLIES, GeminiRecord, to_record
from palace_daemon.core.transcripts.gemini.words import prompt_of, text_of
from palace_daemon.core.transcripts.reading.words import as_text
from palace_daemon.core.turns import Place, Reading, Rollback, UserTurn


class _State(Struct, array_like=True):
    """About 30 bytes a message; digests, no text."""

    session: Session = field(default_factory=Session)
    has_begun: bool = False
    seen: dict[int, int] = field(default_factory=dict)
    """Every message to the turn that it opens, or 0."""
    live: dict[int, int] = field(default_factory=dict)
    """The same of the messages that count now, in their order."""
    texts: dict[int, int] = field(default_factory=dict)
    """Texts to the turn that they open, or 0: a history that was written anew may carry them under other ids."""


class GeminiReader:
    """A :class:`~palace_daemon.core.transcripts.line_parser.RecordReader` of Gemini CLI lines.

    Args:
        location: Names the session where no line does, and its parent.
        beside: Tells the project.
    """

    def __init__(self, location: Location, beside: Beside) -> None:
        self._location = location
        self._beside = beside
        self._state = _State()

    def snapshot(self) -> bytes:
        """Return the reader's state."""
        return msgspec.msgpack.encode(self._state)

    def restore(self, state: bytes) -> None:
        """Continue from :meth:`snapshot`."""
        self._state = msgspec.msgpack.decode(state, type=_State)

    def read(self, record: GeminiRecord, place: Place, payload: bytes) -> list[Reading]:  # noqa: ARG002
        """Return what ``record`` yields."""
        if isinstance(record.rewind_to, str):
            return [self._rewind(record.rewind_to)]
        if isinstance(record.id, str) or isinstance(record.type, str):
            return [*self._begin(GeminiRecord()), self._read_message(record, place)]
        if isinstance(record.changed, dict):
            return self._read_change(record.changed, place)
        return self._begin(record) or [Reading(skipped=("metadata",))]

    def _begin(self, record: GeminiRecord) -> list[Reading]:
        if self._state.has_begun:
            return []
        self._state.session, reading = begin(record, self._location, self._beside)
        self._state.has_begun = True
        return [reading]

    # ------------------------------------------------------------------------------------------------------- messages

    def _read_message(self, record: GeminiRecord, place: Place) -> Reading:
        number = _number(record)
        if number and number in self._state.live:
            return self._read_again(record, number, place)
        reading = read_message(record, place, self._state.session)
        self._note(record, number, number if _opens_turn(reading) else 0)
        if record.speaker in REPLIES:
            return msgspec.structs.replace(reading, record_id=as_text(record.id))
        return reading

    def _note(self, record: GeminiRecord, number: int, turn: int) -> None:
        if number:
            self._state.seen[number] = self._state.live[number] = turn
        for text in _texts(record):
            self._state.texts[text] = turn

    def _read_again(self, record: GeminiRecord, number: int, place: Place) -> Reading:
        """Read a message that stands above already: its last telling counts, at its first place."""
        session = self._state.session
        if record.speaker in REPLIES:
            reading = read_message(record, place, session)
            # The assembler takes more of an earlier turn only as long as it has that turn at hand.
            message = "" if self._is_in_open_turn(number) else as_text(record.id)
            return msgspec.structs.replace(reading, skipped=(), record_id=message, message_id=message)
        texts = _texts(record)
        if record.speaker != PROMPT or not texts or any(one in self._state.texts for one in texts):
            return Reading(skipped=("duplicate",), session=session.session_id)
        if next(reversed(self._state.live)) != number:
            return Reading(skipped=("changed_prompt",), session=session.session_id)
        reading = read_message(record, place, session)
        self._note(record, number, number if _opens_turn(reading) else 0)
        undone = Rollback(session=session.session_id, turn_ids=(turn_name(number),))
        return msgspec.structs.replace(reading, events=(undone, *reading.events))

    def _is_in_open_turn(self, number: int) -> bool:
        for one, turn in reversed(self._state.live.items()):
            if one == number:
                return True
            if turn:
                return False
        return False

    # -------------------------------------------------------------------------------------------------------- changes

    def _rewind(self, message: str) -> Reading:
        state, number = self._state, digest(message)
        if number not in state.live:
            return Reading(skipped=("rewind_unknown",), session=state.session.session_id)
        order = list(state.live)
        dropped = [(one, state.live.pop(one)) for one in order[order.index(number) :]]
        turns = tuple(turn_name(turn) for _, turn in dropped if turn)
        undone = (Rollback(session=state.session.session_id, turn_ids=turns),) if turns else ()
        return Reading(events=undone, skipped=("rewind",), session=state.session.session_id)

    def _read_change(self, changed: dict[str, Any], place: Place) -> list[Reading]:
        told = to_record(changed) or GeminiRecord()
        readings = self._begin(told)
        title = titled(told.summary, self._state.session)
        if isinstance(told.messages, list):
            readings += self._read_history(told.messages, place)
        if title:
            readings.append(Reading(events=title, session=self._state.session.session_id))
        return readings or [Reading(skipped=("metadata",))]

    def _read_history(self, messages: list[Any], place: Place) -> list[Reading]:
        """Take the messages as those that count from now on; what is not among them was summed up, not taken back."""
        state = self._state
        state.live = {}
        readings = [Reading(skipped=("compression",), session=state.session.session_id)]
        is_after_summary = False
        for record in (to_record(message) for message in messages):
            if record is None or not isinstance(record.type, str):
                readings.append(Reading(skipped=("unknown_shape",)))
                continue
            number = _number(record)
            if number and number in state.seen:
                state.live[number] = state.seen[number]
            elif known := [state.texts[text] for text in _texts(record) if text in state.texts]:
                self._note(record, number, known[0])
            elif record.speaker in REPLIES and (not _texts(record) or is_after_summary):
                self._note(record, number, 0)
            else:
                readings.append(self._read_message(record, place))
            is_after_summary = record.speaker == PROMPT and prompt_of(record).is_summary
        return readings


class GeminiDocumentReader:
    """A :class:`~palace_daemon.core.transcripts.document_parser.DocumentReader` of Gemini CLI documents."""

    def __init__(self, location: Location, beside: Beside) -> None:
        self._location = location
        self._beside = beside

    def read(self, value: Any, places: Places) -> list[Reading]:
        """Return what the session yields."""
        root = to_record(value)
        if root is None or not isinstance(root.messages, list):
            return [Reading(skipped=("unknown_shape",))]
        session, reading = begin(root, self._location, self._beside)
        readings = [reading]
        last: dict[str, GeminiRecord] = {}
        for index, record in enumerate(to_record(message) for message in root.messages):
            if record is None or not isinstance(record.type, str):
                readings.append(Reading(skipped=("unknown_shape",)))
                continue
            last[as_text(record.id) or f"#{index}"] = record
        for record in last.values():
            place = places.of(as_text(record.id) or as_text(record.timestamp))
            readings += [read_message(record, place, session)]
        return readings


def _opens_turn(reading: Reading) -> bool:
    return any(isinstance(event, UserTurn) for event in reading.events)


def _number(record: GeminiRecord) -> int:
    return digest(record.id) if isinstance(record.id, str) and record.id else 0


def _texts(record: GeminiRecord) -> list[int]:
    """Return the digests by which a message's words are known again: as shown, and as sent."""
    kind = record.speaker
    shown = prompt_of(record).text if kind == PROMPT else ""
    return [digest(f"{kind}\0{text.strip()}") for text in {shown, text_of(record)} if text.strip()]
