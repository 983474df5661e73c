"""Everything that a store holds, as the lines of an export. Reads row by row, so that memory stays small."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from palace_daemon.model import Attachment, ToolUse
from palace_daemon.store import notes, tombstones
from palace_daemon.store.portable import (
    VERSION,
    Attached,
    End,
    ExchangeLine,
    Header,
    Line,
    NoteLine,
    Place,
    SessionLine,
    SourceLine,
    TombstoneLine,
)
from palace_daemon.store.sqlite import Connection

_TOOLS = msgspec.json.Decoder(tuple[ToolUse, ...])
_ATTACHMENTS = msgspec.json.Decoder(tuple[Attachment, ...])
_SKIPPED = msgspec.json.Decoder(dict[str, int])


def header(connection: Connection, app: str, exported_at: int) -> Header:
    """Return the first line, with how many lines of each type :func:`lines` yields in the same transaction."""
    (machine,) = connection.execute("SELECT machine FROM state").fetchone()
    sources, exchanges, note_count, sessions, buried = connection.execute(
        "SELECT (SELECT count(*) FROM sources WHERE origin<>?), (SELECT count(*) FROM exchanges),"
        " (SELECT count(*) FROM notes), (SELECT count(*) FROM sessions),"
        " (SELECT count(*) FROM tombstones)",
        (notes.ORIGIN,),
    ).fetchone()
    return Header(
        version=VERSION,
        app=app,
        machine=machine,
        exported_at=exported_at,
        records={
            "source": sources,
            "exchange": exchanges - note_count,
            "note": note_count,
            "session": sessions,
            "tombstone": buried,
        },
    )


def lines(connection: Connection, head: Header) -> Iterator[Line]:
    """Yield all lines after the header.

    Sessions follow exchanges, and tombstones come last: an import compares both with what is there by then.
    """
    yield from _sources(connection, head.machine)
    yield from _exchanges(connection, head.machine)
    yield from _notes(connection)
    yield from _sessions(connection)
    for row in tombstones.dump(connection):
        yield TombstoneLine(
            kind=row.kind,
            digest=row.digest,
            reply_chars=row.reply_chars,
            reply_digest=row.reply_digest,
            forgotten_at=row.forgotten_at,
        )
    yield End(records=sum(head.records.values()))


def _sources(connection: Connection, machine: str) -> Iterator[Line]:
    rows = connection.execute(
        "SELECT origin, path, agent, format, format_version, is_secondary, state, error, size_bytes, read_bytes,"
        " reading, lines_read, lines_skipped FROM sources WHERE origin<>? ORDER BY id",
        (notes.ORIGIN,),
    )
    for origin, path, agent, name, version, secondary, state, error, size, read, reading, count, skipped in rows:
        yield SourceLine(
            machine=origin or machine,
            path=path,
            agent=agent,
            format=name,
            format_version=version,
            secondary=bool(secondary),
            state=state,
            error=error,
            size_bytes=size,
            read_bytes=read,
            reading=reading,
            lines_read=count,
            lines_skipped=_SKIPPED.decode(skipped),
        )


def _exchanges(connection: Connection, machine: str) -> Iterator[Line]:
    rows = connection.execute(
        "SELECT e.id, e.owner_source_id, e.key, s.agent, s.native_id, e.ordinal, e.user_text, e.user_kind,"
        " e.reply_text, e.reply_final_start, e.model, e.started_at, e.ended_at, e.time_quality,"
        " e.utc_offset_minutes, e.status, e.project, e.cwd, e.branch, e.agent_version, e.tools,"
        " e.attachments, e.flags"
        " FROM exchanges e JOIN sessions s ON s.id=e.session_id"
        " WHERE e.id NOT IN (SELECT exchange_id FROM notes) ORDER BY e.id"
    )
    for row in rows:
        (exchange_id, owner, key, agent, session, ordinal, user, kind, reply, final, model, start, end, quality, zone,
         status, project, cwd, branch, version, tools, attachments, flags) = row  # fmt: skip
        keys = connection.execute("SELECT key FROM exchange_keys WHERE exchange_id=? ORDER BY key", (exchange_id,))
        yield ExchangeLine(
            key=key,
            keys=tuple(other for (other,) in keys if other != key),
            agent=agent,
            session=session,
            ordinal=ordinal,
            user_text=user,
            user_kind=kind,
            reply_text=reply,
            reply_final_start=final,
            model=model,
            started_at=start,
            ended_at=end,
            time_quality=quality,
            utc_offset_minutes=zone,
            status=status,
            project=project,
            cwd=cwd,
            branch=branch,
            agent_version=version,
            tools=_TOOLS.decode(tools),
            attachments=tuple(
                Attached(kind=item.kind, name=item.name, size_bytes=item.size_bytes)
                for item in _ATTACHMENTS.decode(attachments)
            ),
            flags=tuple(flag for flag in flags.split(",") if flag),
            places=tuple(_places(connection, exchange_id, owner, machine)),
        )


def _places(connection: Connection, exchange_id: int, owner: int, machine: str) -> Iterator[Place]:
    rows: Iterator[tuple[Any, ...]] = connection.execute(
        "SELECT p.source_id, o.origin, o.path, s.native_id, p.reading, p.line_start, p.line_end, p.byte_start,"
        " p.byte_end, p.chars, p.is_closed, p.is_superseded FROM provenance p JOIN sources o ON o.id=p.source_id"
        " JOIN sessions s ON s.id=p.session_id WHERE p.exchange_id=? ORDER BY o.path, o.origin",
        (exchange_id,),
    )
    for source_id, origin, path, session, reading, first, last, start, end, chars, closed, superseded in rows:
        yield Place(
            machine=origin or machine,
            path=path,
            session=session,
            owner=source_id == owner,
            reading=reading,
            line_start=first,
            line_end=last,
            byte_start=start,
            byte_end=end,
            chars=chars,
            closed=bool(closed),
            superseded=bool(superseded),
        )


def _notes(connection: Connection) -> Iterator[Line]:
    for (exchange_id,) in connection.execute("SELECT exchange_id FROM notes ORDER BY exchange_id"):
        note = notes.load(connection, exchange_id)
        yield NoteLine(
            key=note.key,
            text=note.text,
            project=note.project,
            tags=note.tags,
            author=note.author,
            created_at=note.created_at,
            edited_at=note.edited_at,
            superseded_by=note.superseded_by,
            redacted=note.is_redacted,
        )


def _sessions(connection: Connection) -> Iterator[Line]:
    rows = connection.execute(
        "SELECT agent, native_id, parent_native_id, relation, title, project, cwd, branch, agent_version, entrypoint,"
        " is_automated FROM sessions ORDER BY id"
    )
    for agent, native, parent, relation, title, project, cwd, branch, version, entrypoint, automated in rows:
        yield SessionLine(
            agent=agent,
            id=native,
            parent=parent,
            relation=relation,
            title=title,
            project=project,
            cwd=cwd,
            branch=branch,
            agent_version=version,
            entrypoint=entrypoint,
            automated=bool(automated),
        )
