"""Slack: the day files of an export, and bare arrays of direct messages.

Invariant: many speak here, none is the agent. A thread is an exchange, and so is a run of messages of the channel
without a long pause; what the first one said opens it, what the others said is the reply, each with the name in front.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from palace_daemon.core.documents import Places, decode_prefix
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.document_parser import DocumentParser
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.words import as_text, path_parts, reason_word
from palace_daemon.core.transcripts.slack.words import Names, attachments_of, plain_words
from palace_daemon.core.turns import Event, Facts, Place, Reading, ReplyText, Title, TurnEnd, UserTurn
from palace_daemon.model import Attachment, SessionFacts

AGENT = "slack"

PAUSE_MS = 30 * 60 * 1000
"""A longer pause ends a run of messages outside threads."""

_SUFFIXES = (".json",)
_DAY_NAME = re.compile(r"\d{4}-\d{2}-\d{2}\.json")
_STAMP = re.compile(r"\d{9,11}\.\d{1,6}")
_SPOKEN = frozenset({"", "thread_broadcast", "me_message", "file_share", "file_comment"})
"""Subtypes that people's words come under; all others are notices."""


class SlackFormat:
    """``<channel>/YYYY-MM-DD.json`` of an export. Stateless and thread-safe."""

    name = "slack-export"
    agent = AGENT
    version = 1
    shape: Shape = "document"
    suffixes: tuple[str, ...] = _SUFFIXES
    is_secondary = False

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:  # noqa: ARG002
        """Return nothing: an export lies where a person put it."""
        return ()

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` can be a channel's day by its name."""
        *folders, name = path_parts(path)
        return bool(_DAY_NAME.fullmatch(name)) and bool(folders) and not folders[-1].startswith(".")

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is one."""
        value = decode_prefix(head)
        if not isinstance(value, list) or not value:
            return False
        first = value[:16]
        return all(isinstance(record, dict) for record in first) and any(_is_message(record) for record in first)

    def open(
        self, path: str, redact: Redactor, state: bytes | None = None, beside: Beside = NOTHING_BESIDE
    ) -> DocumentParser:
        """Return a parser for the source at ``path``, which names the channel; names of people lie beside it."""
        return DocumentParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            reader=SlackReader(path, beside),
            redact=redact,
            state=state,
        )


def _is_message(record: dict[str, Any]) -> bool:
    """Return whether a record is a message of Slack and of no other program."""
    if record.get("type") != "message" or not isinstance(record.get("text"), str):
        return False
    if not {"role", "content", "sender", "message", "uuid"}.isdisjoint(record):
        return False
    if isinstance(record.get("ts"), str):
        return bool(_STAMP.fullmatch(record["ts"]))
    return bool(as_text(record.get("user")) or as_text(record.get("bot_id")) or as_text(record.get("username")))


class _Said(Struct, frozen=True, kw_only=True):
    """One message: who said what, when, and in which thread."""

    ts: str
    thread: str
    text: str
    at: int | None
    place: Place
    attachments: tuple[Attachment, ...] = ()


class SlackReader:
    """The messages of one file to events."""

    def __init__(self, path: str, beside: Beside) -> None:
        """Take the source's path and what lies around it."""
        *folders, name = path_parts(path)
        self._is_day = bool(_DAY_NAME.fullmatch(name)) and bool(folders)
        self._channel = folders[-1] if self._is_day else name.removesuffix(".json")
        self._root = path.rstrip("/\\")[: -len(name) - 1].removesuffix(self._channel) if self._is_day else ""
        self._beside = beside

    def read(self, value: Any, places: Places) -> list[Reading]:
        """Return what the messages of the file yield."""
        if not isinstance(value, list):
            return [Reading(skipped=("unknown_shape",))]
        names = Names(self._root, self._beside)
        said: dict[str, _Said] = {}
        skipped: list[str] = []
        for number, record in enumerate(value):
            one = self._read(record, places, names)
            if isinstance(one, str):
                skipped.append(one)
            elif one.ts and one.ts in said:
                skipped.append("duplicate")
            else:
                said[one.ts or f"#{number}"] = one
        title = names.title_of(self._channel)
        readings = [self._exchange(group, title) for group in _grouped(list(said.values()))]
        return [*readings, Reading(skipped=tuple(skipped))] if skipped else readings

    def _read(self, record: Any, places: Places, names: Names) -> _Said | str:
        """Return the message, or why the record is none."""
        if not isinstance(record, dict):
            return "unknown_shape"
        ts = as_text(record.get("ts"))
        place = places.of(ts or as_text(record.get("text")))
        kind, subtype = as_text(record.get("type")), as_text(record.get("subtype"))
        if kind != "message" or subtype not in _SPOKEN:
            return reason_word(subtype or kind)
        words = plain_words(as_text(record.get("text")), names).strip()
        attachments = attachments_of(record)
        if not words and not attachments:
            return "empty"
        return _Said(
            ts=ts,
            thread=_thread_of(record, ts),
            text=f"{names.speaker_of(record)}: {words}" if words else "",
            at=to_epoch_ms(ts),
            place=place,
            attachments=attachments,
        )

    def _exchange(self, group: Sequence[_Said], title: str) -> Reading:
        first, *others = group
        session = f"{self._channel}:{first.thread}" if first.thread else self._channel
        events: list[Event] = [
            Facts(session=session, facts=SessionFacts(agent=AGENT, session_id=session)),
            Title(session=session, text=title, rank=1),
            UserTurn(
                session=session,
                place=first.place,
                text=first.text,
                kind="speaker",
                at=first.at,
                key=f"{AGENT}:{self._channel}:{first.ts}" if first.ts else "",
                record_ids=(first.ts,) if first.ts else (),
                attachments=tuple(file for one in group for file in one.attachments),
            ),
        ]
        for number, one in enumerate(others):
            if one.text:
                message_id = one.ts or f"{first.place.byte_start}#{number}"
                events.append(
                    ReplyText(session=session, place=one.place, text=one.text, message_id=message_id, at=one.at)
                )
        return Reading(events=(*events, TurnEnd(session=session, status="complete")), session=session)


def _thread_of(record: dict[str, Any], ts: str) -> str:
    """Return the time of the thread that the message is in: the one it answers, or its own if it was answered."""
    thread = as_text(record.get("thread_ts"))
    is_answered = thread == ts and bool(record.get("reply_count") or record.get("replies"))
    return thread if thread != ts or is_answered else ""


def _grouped(said: list[_Said]) -> list[list[_Said]]:
    """Return the messages of each thread and of each run outside threads, each in the order of time."""
    if all(one.at is not None for one in said):
        said = sorted(said, key=lambda one: one.at or 0)
    opened = {one.thread for one in said if one.thread}
    threads: dict[str, list[_Said]] = {}
    groups: list[list[_Said]] = []
    run: list[_Said] = []
    for one in said:
        thread = one.thread or (one.ts if one.ts in opened else "")
        if thread:
            if thread not in threads:
                threads[thread] = []
                groups.append(threads[thread])
            threads[thread].append(structs.replace(one, thread=thread))
        elif run and (one.at is None or run[-1].at is None or one.at - run[-1].at <= PAUSE_MS):
            run.append(one)
        else:
            run = [one]
            groups.append(run)
    return groups
