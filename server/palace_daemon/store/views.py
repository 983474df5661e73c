"""Read-only questions to the store: exchanges, sessions, sources, counts. Each takes a connection in a transaction."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import msgspec

from palace_daemon.core import chunking
from palace_daemon.model import ExchangeView, Provenance, SessionView, SourceView, ToolUse
from palace_daemon.store import redactions, session_order, spaces
from palace_daemon.store.spans import columns_of, span_of
from palace_daemon.store.sqlite import Connection, batches

_TITLE_CHARS = 80


class DrawerText(NamedTuple):
    """A drawer with what a hit shows of it."""

    drawer_id: int
    public_id: str
    key: str
    ordinal: int
    text: str
    session_id: str
    session_title: str
    project: str
    agent: str
    started_at: int | None
    ended_at: int | None
    path: str
    line_start: int
    line_end: int


def title_of(text: str) -> str:
    """Return the first line of ``text``, at most 80 characters, for lists."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= _TITLE_CHARS else line[: _TITLE_CHARS - 1].rstrip() + "…"


def public_drawer_id(public_id: str, ordinal: int) -> str:
    """Return the id of a drawer: exchange id, a point, its number in the exchange."""
    return f"{public_id}.{ordinal}"


def drawer_texts(connection: Connection, drawer_ids: Sequence[int]) -> dict[int, DrawerText]:
    """Return the drawers that exist among ``drawer_ids``."""
    found: dict[int, DrawerText] = {}
    for batch in batches(list(drawer_ids)):
        rows = connection.execute(
            "SELECT d.id, e.public_id, e.key, e.user_text, e.reply_text, s.native_id, s.id,"
            " e.project, s.agent, e.started_at, e.ended_at, o.path, p.line_start, p.line_end,"
            f" {columns_of('d')} FROM drawers d JOIN exchanges e ON e.id=d.exchange_id"
            " JOIN sessions s ON s.id=e.session_id JOIN sources o ON o.id=e.owner_source_id"
            " JOIN provenance p ON p.exchange_id=e.id AND p.source_id=e.owner_source_id"
            f" WHERE d.id IN ({_marks(batch)})",
            batch,
        ).fetchall()
        titles = session_order.titles(connection, {row[6] for row in rows})
        for (
            drawer_id,
            public,
            key,
            user,
            reply,
            session,
            session_row,
            project,
            agent,
            start,
            end,
            path,
            first,
            last,
            *span,
        ) in rows:
            cut = span_of(tuple(span))
            text = chunking.render(user, reply, cut)
            found[drawer_id] = DrawerText(
                drawer_id, public, key, cut.ordinal, text, session, title_of(titles[session_row]), project, agent,
                start, end, path, first, last,
            )  # fmt: skip
    return found


def exchange_ids(connection: Connection, item_id: str) -> list[int]:
    """Return the exchanges that ``item_id`` names: an exchange id, a drawer id, or its first eight digits or more."""
    public = item_id.strip().split(".", 1)[0].lower()
    exact = connection.execute("SELECT DISTINCT exchange_id FROM exchange_keys WHERE public_id=?", (public,)).fetchall()
    if not exact and len(public) >= 8 and all(c in "0123456789abcdef" for c in public):
        exact = connection.execute(
            "SELECT DISTINCT exchange_id FROM exchange_keys WHERE public_id>=? AND public_id<? LIMIT 2",
            (public, public + "g"),
        ).fetchall()
    return [row[0] for row in exact]


def drawer_ids(connection: Connection, exchanges: Collection[int]) -> list[int]:
    """Return the drawers of exchanges."""
    found: list[int] = []
    for batch in batches(sorted(exchanges)):
        rows = connection.execute(f"SELECT id FROM drawers WHERE exchange_id IN ({_marks(batch)})", batch)
        found += [row[0] for row in rows]
    return found


_EXCHANGE = (
    "SELECT e.id, e.public_id, s.id, s.native_id, s.agent, e.project, e.cwd, e.branch, e.model,"
    " e.user_text, e.user_kind, e.reply_text, e.reply_final_start, e.started_at, e.ended_at, e.time_quality,"
    " e.utc_offset_minutes, e.status, e.is_superseded, e.tools, e.flags"
    " FROM exchanges e JOIN sessions s ON s.id=e.session_id"
)


def exchange(connection: Connection, exchange_id: int) -> ExchangeView:
    """Return one exchange whole, with its neighbours in the session."""
    (view,) = _exchange_views(connection, [connection.execute(f"{_EXCHANGE} WHERE e.id=?", (exchange_id,)).fetchone()])
    (session,) = connection.execute("SELECT session_id FROM exchanges WHERE id=?", (exchange_id,)).fetchone()
    ids = [
        place.public_id
        for place in session_order.of_sessions(connection, [session])
        if place.exchange_id == exchange_id or not place.is_superseded
    ]
    at = ids.index(view.exchange_id)
    return msgspec.structs.replace(
        view, previous_id=ids[at - 1] if at else "", next_id=ids[at + 1] if at + 1 < len(ids) else ""
    )


def timeline(connection: Connection, session_id: str) -> tuple[ExchangeView, ...]:
    """Return a session's exchanges in order; ``session_id`` may be a beginning of eight or more characters."""
    native = session_ids(connection, session_id)
    if len(native) != 1:
        return ()
    rows = {row[0]: row for row in connection.execute(f"{_EXCHANGE} WHERE s.native_id=?", (native[0],))}
    order = session_order.of_sessions(connection, {row[2] for row in rows.values()})
    return _exchange_views(connection, [rows[place.exchange_id] for place in order])


def session_ids(connection: Connection, session_id: str) -> list[str]:
    """Return the native ids that ``session_id`` (whole, or eight or more characters of it) names."""
    exact = connection.execute("SELECT native_id FROM sessions WHERE native_id=?", (session_id,)).fetchall()
    if not exact and len(session_id) >= 8:
        exact = connection.execute(
            "SELECT native_id FROM sessions WHERE substr(native_id,1,?)=? AND parent_native_id='' ORDER BY native_id",
            (len(session_id), session_id),
        ).fetchall()
    return sorted({row[0] for row in exact})


class _Parts(NamedTuple):
    """What views of exchanges show from other tables."""

    titles: dict[int, str]
    """By the row of the session."""
    ordinals: defaultdict[int, list[int]]
    """The drawers' ordinals by the row of the exchange."""
    provenance: defaultdict[int, list[Provenance]]
    """By the row of the exchange, the owner's first."""


def _exchange_views(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> tuple[ExchangeView, ...]:
    """Turn rows of :data:`_EXCHANGE` into views, with a few queries for all of them."""
    titles = session_order.titles(connection, {row[2] for row in rows})
    parts = _Parts({row: title_of(title) for row, title in titles.items()}, defaultdict(list), defaultdict(list))
    for batch in batches([row[0] for row in rows]):
        _add_drawers(connection, batch, parts)
        _add_provenance(connection, batch, parts)
    return tuple(_exchange_view(row, parts) for row in rows)


def _marks(batch: list[int | str | bytes]) -> str:
    return ",".join("?" * len(batch))


def _add_drawers(connection: Connection, batch: list[int | str | bytes], parts: _Parts) -> None:
    for exchange_id, ordinal in connection.execute(
        f"SELECT exchange_id, ordinal FROM drawers WHERE exchange_id IN ({_marks(batch)})"
        " ORDER BY exchange_id, ordinal",
        batch,
    ):
        parts.ordinals[exchange_id].append(ordinal)


def _add_provenance(connection: Connection, batch: list[int | str | bytes], parts: _Parts) -> None:
    for exchange_id, path, first, last, start, end, is_owner in connection.execute(
        "SELECT p.exchange_id, o.path, p.line_start, p.line_end, p.byte_start, p.byte_end,"
        " p.source_id=e.owner_source_id AS is_owner"
        " FROM provenance p JOIN sources o ON o.id=p.source_id JOIN exchanges e ON e.id=p.exchange_id"
        f" WHERE p.exchange_id IN ({_marks(batch)}) ORDER BY p.exchange_id, is_owner DESC, o.path",
        batch,
    ):
        parts.provenance[exchange_id].append(
            Provenance(
                path=path, line_start=first, line_end=last, byte_start=start, byte_end=end, is_owner=bool(is_owner)
            )
        )


_TOOLS = msgspec.json.Decoder(tuple[ToolUse, ...])


def _exchange_view(row: tuple[Any, ...], parts: _Parts) -> ExchangeView:
    (exchange_id, public, session_row, session, agent, project, cwd, branch, model, user, kind, reply, final, start,
     end, quality, zone, status, superseded, tools, flags) = row  # fmt: skip
    return ExchangeView(
        exchange_id=public,
        session_id=session,
        session_title=parts.titles[session_row],
        agent=agent,
        project=project,
        cwd=cwd,
        branch=branch,
        model=model,
        user_text=user,
        user_kind=kind,
        reply_text=reply,
        reply_final_start=final,
        started_at=start,
        ended_at=end,
        time_quality=quality,
        utc_offset_minutes=zone,
        status=status,
        is_superseded=bool(superseded),
        tools=_TOOLS.decode(tools),
        flags=tuple(flag for flag in flags.split(",") if flag),
        drawer_ids=tuple(public_drawer_id(public, ordinal) for ordinal in parts.ordinals[exchange_id]),
        provenance=tuple(parts.provenance[exchange_id]),
    )


def sessions(
    connection: Connection,
    *,
    agent: str,
    is_wanted: Callable[[str], bool] | None,
    since: int | None,
    limit: int,
    offset: int,
) -> tuple[SessionView, ...]:
    """Return sessions that hold an exchange, newest first.

    ``is_wanted`` (None: all are) tells of a project whether it is meant. A session is listed where one exchange is of
    such a project: it may go through several, as recall and the list of projects have it.
    """
    among = None if is_wanted is None else msgspec.json.encode(_sessions_of(connection, is_wanted)).decode()
    rows = connection.execute(
        "SELECT s.id, s.native_id, s.agent, s.project, s.parent_native_id, s.relation, min(e.started_at),"
        " max(coalesce(e.ended_at, e.started_at)) AS latest, count(*), s.is_automated"
        " FROM sessions s JOIN exchanges e ON e.session_id=s.id"
        " WHERE (?='' OR s.agent=?) AND (? IS NULL OR s.id IN (SELECT value FROM json_each(?)))"
        " GROUP BY s.id HAVING ? IS NULL OR latest>=? ORDER BY latest DESC, s.native_id LIMIT ? OFFSET ?",
        (agent, agent, among, among, since, since, limit, offset),
    ).fetchall()
    titles = session_order.titles(connection, {row[0] for row in rows})
    return tuple(
        SessionView(
            session_id=native,
            agent=name,
            project=where,
            title=title_of(titles[row]),
            parent_session_id=parent,
            relation=relation,
            started_at=start,
            ended_at=end,
            exchanges=count,
            is_automated=bool(automated),
        )
        for row, native, name, where, parent, relation, start, end, count, automated in rows
    )


def _sessions_of(connection: Connection, is_wanted: Callable[[str], bool]) -> list[int]:
    """Return the sessions that have an exchange of a project that is meant."""
    of_project: defaultdict[str, set[int]] = defaultdict(set)
    for project, session in connection.execute("SELECT DISTINCT project, session_id FROM exchanges"):
        of_project[project].add(session)
    return sorted({session for project, among in of_project.items() if is_wanted(project) for session in among})


def sources(connection: Connection, *, agent: str, state: str) -> tuple[SourceView, ...]:
    """Return transcript files, those that failed first, then by path; of other machines, what was imported."""
    rows = connection.execute(
        "SELECT o.path, o.agent, o.state, o.size_bytes, o.read_bytes,"
        " (SELECT count(*) FROM provenance p WHERE p.source_id=o.id), o.lines_skipped, o.error, o.origin"
        " FROM sources o WHERE o.origin<>'palace' AND (?='' OR o.agent=?) AND (?='' OR o.state=?)"
        " ORDER BY o.state<>'failed', o.path, o.origin",
        (agent, agent, state, state),
    )
    return tuple(
        SourceView(
            path=path,
            agent=name,
            state=what,
            size_bytes=size,
            read_bytes=read,
            exchanges=count,
            lines_skipped=msgspec.json.decode(skipped, type=dict[str, int]),
            error=error,
            machine=machine,
        )
        for path, name, what, size, read, count, skipped, error, machine in rows
    )


class Totals(NamedTuple):
    """Counts for ``status``."""

    sessions: int
    exchanges: int
    exchanges_superseded: int
    drawers: int
    vectors: int
    vectors_pending: int
    sources: dict[str, int]
    lines_skipped: dict[str, int]
    redactions: dict[str, int]
    failures: dict[str, str]
    last_mined_at: int | None


def totals(connection: Connection) -> Totals:
    """Count what the store holds; vectors are those of the active model."""
    counts = connection.execute(
        "SELECT"
        " (SELECT count(*) FROM sessions s WHERE EXISTS (SELECT 1 FROM exchanges e WHERE e.session_id=s.id)),"
        " (SELECT count(*) FROM exchanges),"
        " (SELECT count(*) FROM exchanges INDEXED BY exchanges_superseded WHERE is_superseded),"
        " (SELECT count(*) FROM drawers)"
    ).fetchone()
    answering = spaces.read(connection).answering
    skipped: Counter[str] = Counter()
    for (stored,) in connection.execute("SELECT lines_skipped FROM sources WHERE lines_skipped<>'{}' AND origin=''"):
        skipped.update(msgspec.json.decode(stored, type=dict[str, int]))
    session_count, exchange_count, superseded, drawer_count = counts
    return Totals(
        sessions=session_count,
        exchanges=exchange_count,
        exchanges_superseded=superseded,
        drawers=drawer_count,
        vectors=answering.vectors,
        vectors_pending=answering.pending,
        sources=dict(
            connection.execute(
                "SELECT iif(origin='', state, 'imported') AS what, count(*) FROM sources WHERE origin<>'palace'"
                " GROUP BY what ORDER BY what"
            ).fetchall()
        ),
        lines_skipped=dict(sorted(skipped.items())),
        redactions=redactions.by_kind(connection),
        failures=dict(
            connection.execute(
                "SELECT path, error FROM sources WHERE state='failed' AND origin='' ORDER BY path"
            ).fetchall()
        ),
        last_mined_at=last_mined_at(connection),
    )


def session_rows(connection: Connection, session_id: str) -> list[int]:
    """Return the row ids of the sessions that ``session_id`` names, their sub-agents included."""
    rows: list[int] = []
    for native in session_ids(connection, session_id):
        rows += [
            row[0]
            for row in connection.execute(
                "SELECT id FROM sessions WHERE native_id=? OR parent_native_id=?", (native, native)
            )
        ]
    return rows


def last_mined_at(connection: Connection) -> int | None:
    """Return when the store last changed, UTC epoch ms."""
    value = connection.execute("SELECT last_mined_at FROM state").fetchone()[0]
    return None if value is None else int(value)


def agents(connection: Connection) -> set[str]:
    """Return the agents that have a session in the store."""
    return {row[0] for row in connection.execute("SELECT DISTINCT agent FROM sessions")}
