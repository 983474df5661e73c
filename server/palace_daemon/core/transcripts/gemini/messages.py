"""From one message of a Gemini CLI session to its events; the same for both forms, so that both give the same keys."""

from __future__ import annotations

import re

from msgspec import Struct

from palace_daemon.core.drafts import digest
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.gemini.project import Location
from palace_daemon.core.transcripts.gemini.records import AGENT, PROMPT, REPLIES, GeminiRecord
from palace_daemon.core.transcripts.gemini.words import calls_of, prompt_of, text_of
from palace_daemon.core.transcripts.reading.loose_files import record_key
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.words import as_text, reason_word
from palace_daemon.core.turns import Event, Facts, Place, Reading, ReplyText, Title, ToolCall, TurnEnd, UserTurn
from palace_daemon.model import SessionFacts

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CANCELLED = "Request cancelled."
_SUMMARY_RANK = 1


class Session(Struct, array_like=True):
    """The session that messages belong to."""

    session_id: str = ""
    """The full id, ``parent/agent`` for a sub-agent."""
    cwd: str = ""
    is_subagent: bool = False


def begin(record: GeminiRecord, location: Location, beside: Beside) -> tuple[Session, Reading]:
    """Return the session that a first line, or a root, tells of, and what it says."""
    is_named = record.kind == "subagent" or _UUID.fullmatch(location.parent)
    parent = location.parent if is_named else ""
    own = as_text(record.session_id) or location.stem
    session = Session(
        session_id=f"{parent}/{own}" if parent else own,
        cwd=location.directory(beside, record.project_hash, record.directories),
        is_subagent=record.kind == "subagent" or bool(parent),
    )
    facts = SessionFacts(
        agent=AGENT,
        session_id=session.session_id,
        parent_session_id=parent,
        relation="subagent" if session.is_subagent else "none",
        cwd=session.cwd,
        is_automated=session.is_subagent,
    )
    events: tuple[Event, ...] = (Facts(session=session.session_id, facts=facts), *titled(record.summary, session))
    return session, Reading(events=events, session=session.session_id)


def titled(summary: object, session: Session) -> tuple[Event, ...]:
    """Return the title that a session's summary gives, if there is one."""
    text = as_text(summary)
    return (Title(session=session.session_id, text=text, rank=_SUMMARY_RANK),) if text.strip() else ()


def turn_id(record: GeminiRecord) -> str:
    """Return what a rewind to this message names."""
    return turn_name(digest(as_text(record.id))) if as_text(record.id) else ""


def turn_name(number: int) -> str:
    """Return the name of the turn that the message with this digest opens."""
    return f"{number:016x}"


def read_message(record: GeminiRecord, place: Place, session: Session) -> Reading:
    """Return what a message yields."""
    kind = record.speaker
    if kind == PROMPT:
        return _read_prompt(record, place, session)
    if kind in REPLIES:
        return _read_reply(record, place, session)
    name = session.session_id
    if kind == "info" and text_of(record).strip() == _CANCELLED:
        return Reading(events=(TurnEnd(session=name, status="interrupted"),), skipped=(kind,), session=name)
    known = kind in ("info", "warning", "error")
    return Reading(skipped=(kind if known else f"unknown_type:{reason_word(kind)}",), session=name)


def _read_prompt(record: GeminiRecord, place: Place, session: Session) -> Reading:
    prompt = prompt_of(record)
    skipped = (prompt.reason,) if prompt.reason else ()
    if not prompt.is_turn:
        return Reading(skipped=skipped, session=session.session_id)
    is_task = session.is_subagent and prompt.kind == "prompt"
    turn = UserTurn(
        session=session.session_id,
        place=place,
        text=prompt.text,
        kind="automated" if is_task else prompt.kind,
        at=to_epoch_ms(record.timestamp),
        key=_key(record, session),
        record_ids=(as_text(record.id),) if as_text(record.id) else (),
        turn_id=turn_id(record),
        attachments=prompt.attachments,
        cwd=session.cwd,
    )
    return Reading(events=(turn,), skipped=skipped, session=session.session_id)


def _read_reply(record: GeminiRecord, place: Place, session: Session) -> Reading:
    name, at, message = session.session_id, to_epoch_ms(record.timestamp), as_text(record.id)
    events: list[Event] = []
    text = text_of(record)
    if text.strip():
        events.append(
            ReplyText(
                session=name,
                place=place,
                text=text,
                message_id=message,
                key=_key(record, session),
                at=at,
                model=as_text(record.model),
                cwd=session.cwd,
                is_whole=bool(message),
            )
        )
    events += [
        ToolCall(session=name, place=place, name=tool, target=target, call_id=call_id, message_id=message, at=at)
        for tool, target, call_id in calls_of(record)
    ]
    skipped: tuple[str, ...] = ("thinking",) if record.thoughts else ()
    if any(isinstance(call, dict) and call.get("result") for call in _listed(record.tool_calls)):
        skipped += ("tool_result",)
    return Reading(events=tuple(events), skipped=skipped or (() if events else ("empty",)), session=name)


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _key(record: GeminiRecord, session: Session) -> str:
    """Return the exchange's identity; an id that is no UUID counts inside its session only."""
    return record_key(AGENT, session.session_id, as_text(record.id))
