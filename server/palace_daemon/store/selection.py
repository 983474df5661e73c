"""Which exchanges a request to forget names, and how they are shown to the one who asks."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from palace_daemon.errors import NotFoundError, RequestError
from palace_daemon.model import ForgetItem, ForgetRequest
from palace_daemon.store import notes, views
from palace_daemon.store.sqlite import Connection, batches

LISTED_MAX = 1_000
"""Exchanges that are shown of a selection; all are counted."""
_TITLE_CHARS = 400


def select(connection: Connection, request: ForgetRequest, hits: Sequence[str] | None) -> list[int]:
    """Return the exchanges that every selector of ``request`` names, oldest first.

    An exchange belongs to every session and file that tells it; notes that count as one go together.

    Args:
        connection: In a transaction.
        request: At least one selector.
        hits: Exchange ids of the hits of ``request.query``; those that are not stored any more are passed over.

    Raises:
        NotFoundError: There is no such exchange, session, project or file.
        RequestError: An id is short of one, there is no such agent, or several projects have the last name.
    """
    named: list[set[int]] = []
    if request.drawers:
        named.append(_exchanges(connection, request.drawers))
    if request.exchanges:
        named.append(_exchanges(connection, request.exchanges))
    if request.sessions:
        named.append(_of_sessions(connection, request.sessions))
    if request.project:
        named.append(_of_project(connection, request.project))
    if request.source:
        named.append(_of_source(connection, request.source))
    if request.agent:
        named.append(_of_agent(connection, request.agent))
    if request.since is not None or request.until is not None:
        named.append(_of_time(connection, request.since, request.until))
    if hits is not None:
        named.append({row for hit in hits for row in views.exchange_ids(connection, hit)})
    found = set.intersection(*named) if named else set()
    return _in_order(connection, notes.united(connection, found))


def items(connection: Connection, exchange_ids: Sequence[int]) -> tuple[ForgetItem, ...]:
    """Return the first of the exchanges as they are shown."""
    shown: dict[int, ForgetItem] = {}
    for batch in batches(list(exchange_ids[:LISTED_MAX])):
        rows = connection.execute(
            "SELECT e.id, e.public_id, s.native_id, s.agent, coalesce(nullif(e.project,''), s.project), e.started_at,"
            f" substr(e.user_text,1,{_TITLE_CHARS}), substr(e.reply_text,1,{_TITLE_CHARS})"
            f" FROM exchanges e JOIN sessions s ON s.id=e.session_id WHERE e.id IN ({','.join('?' * len(batch))})",
            batch,
        )
        for exchange_id, public_id, session_id, agent, project, started_at, user, reply in rows:
            shown[exchange_id] = ForgetItem(
                exchange_id=public_id,
                session_id=session_id,
                agent=agent,
                project=project,
                started_at=started_at,
                title=views.title_of(user) or views.title_of(reply),
            )
    return tuple(shown[exchange_id] for exchange_id in exchange_ids[:LISTED_MAX])


def count_drawers(connection: Connection, exchange_ids: Sequence[int]) -> int:
    """Return how many drawers the exchanges have."""
    total = 0
    for batch in batches(list(exchange_ids)):
        marks = ",".join("?" * len(batch))
        row = connection.execute(f"SELECT count(*) FROM drawers WHERE exchange_id IN ({marks})", batch).fetchone()
        total += int(row[0])
    return total


def _exchanges(connection: Connection, ids: Iterable[str]) -> set[int]:
    found: set[int] = set()
    for item_id in ids:
        rows = views.exchange_ids(connection, item_id)
        if not rows:
            raise NotFoundError("no exchange has one of these ids", hint="it may be forgotten already")
        if len(rows) > 1:
            raise RequestError("several exchanges begin with one of these ids", hint="give more digits")
        found.update(rows)
    return found


def _of_sessions(connection: Connection, sessions: Iterable[str]) -> set[int]:
    found: set[int] = set()
    for session in sessions:
        named = views.session_ids(connection, session)
        if not named:
            raise NotFoundError("no session has one of these ids", hint="`palace-daemon sessions` lists them")
        if len(named) > 1:
            raise RequestError("several sessions begin with one of these ids", hint="give more characters")
        for row in views.session_rows(connection, named[0]):
            found |= _ids(
                connection,
                "SELECT exchange_id FROM provenance WHERE session_id=?1"
                " UNION SELECT id FROM exchanges WHERE session_id=?1",
                row,
            )
    return found


_PROJECT = "coalesce(nullif(e.project,''), s.project)"
"""Of an exchange; where it names none, its session's counts."""


def _of_project(connection: Connection, project: str) -> set[int]:
    rows = connection.execute(f"SELECT DISTINCT {_PROJECT} FROM exchanges e JOIN sessions s ON s.id=e.session_id")
    path = _the_project(project, sorted(row[0] for row in rows if row[0]))
    return _ids(
        connection, f"SELECT e.id FROM exchanges e JOIN sessions s ON s.id=e.session_id WHERE {_PROJECT}=?", path
    )


def _the_project(named: str, known: list[str]) -> str:
    """Return the one project that ``named``, its path or its last name, stands for."""
    path = named.rstrip("/\\") or named
    found = [one for one in known if one == path]
    if "/" not in path and "\\" not in path:
        found = [one for one in known if _last_name(one) == path]
    if len(found) > 1:
        raise RequestError(f"several projects are called so: {', '.join(found)}", hint="give the whole path")
    if not found:
        raise NotFoundError("nothing is stored of this project", hint=_near(path, known))
    return found[0]


def _last_name(project: str) -> str:
    return project.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]


def _near(project: str, known: list[str]) -> str:
    """Name what may be meant by a path that is none."""
    same = [path for path in known if _last_name(path) == _last_name(project)]
    near = same or difflib.get_close_matches(project, known, n=1)
    return f"did you mean {' or '.join(near[:3])}?" if near else "name it as `palace-daemon sessions` shows it"


def _of_source(connection: Connection, path: str) -> set[int]:
    """Return what a file tells; of an archive or a database, what all that is in it tells."""
    rows = connection.execute(
        "SELECT id FROM sources WHERE path=?1 OR (path>=?2 AND path<?3)", (path, f"{path}!/", f"{path}!/\U0010ffff")
    ).fetchall()
    if not rows:
        raise NotFoundError("no such transcript file is known", hint="`palace-daemon sources` lists them")
    found: set[int] = set()
    for (source_id,) in rows:
        found |= _ids(connection, "SELECT exchange_id FROM provenance WHERE source_id=?", source_id)
    return found


def _of_agent(connection: Connection, agent: str) -> set[int]:
    known = views.agents(connection)
    if agent not in known:
        raise RequestError("nothing is stored of this agent", hint=f"known are {', '.join(sorted(known)) or 'none'}")
    return _ids(connection, "SELECT e.id FROM exchanges e JOIN sessions s ON s.id=e.session_id WHERE s.agent=?", agent)


def _of_time(connection: Connection, since: int | None, until: int | None) -> set[int]:
    """Return what began in ``[since, until)``; what has no date is in no span."""
    rows = connection.execute(
        "SELECT id FROM exchanges WHERE started_at IS NOT NULL AND (?1 IS NULL OR started_at>=?1)"
        " AND (?2 IS NULL OR started_at<?2)",
        (since, until),
    )
    return {row[0] for row in rows}


def _ids(connection: Connection, query: str, value: str | int) -> set[int]:
    return {row[0] for row in connection.execute(query, (value,))}


def _in_order(connection: Connection, exchange_ids: set[int]) -> list[int]:
    keyed: list[tuple[int, int, str, int]] = []
    for batch in batches(sorted(exchange_ids)):
        marks = ",".join("?" * len(batch))
        rows = connection.execute(
            f"SELECT coalesce(started_at, 0), ordinal, key, id FROM exchanges WHERE id IN ({marks})", batch
        )
        keyed += [tuple(row) for row in rows]
    return [exchange_id for _, _, _, exchange_id in sorted(keyed)]
