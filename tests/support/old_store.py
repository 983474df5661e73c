"""A store as a former version of the schema had it, made from one of now."""

from __future__ import annotations

from pathlib import Path

from palace_daemon.store import migrations, packing, sqlite

_COPIED = (
    *("state", "sources", "sessions", "exchanges", "exchange_keys", "provenance", "notes", "tombstones"),
    *("held_back", "drawers", "statements", "postings"),
)


def make_schema_1(new: Path, old: Path, *, without_vectors: int = 0) -> None:
    """Write what ``new`` holds as a store of schema 1; the first vectors are left out, and their texts queued."""
    connection = _begin(new, old, 1)
    _copy(connection, _COPIED)
    _copy_vectors(connection)
    connection.execute(
        "INSERT INTO pending_texts SELECT v.text_hash, 0, max(e.started_at) FROM vectors v JOIN drawers d"
        " ON d.text_hash=v.text_hash JOIN exchanges e ON e.id=d.exchange_id GROUP BY 1 ORDER BY 1 LIMIT ?",
        (without_vectors,),
    )
    connection.execute("DELETE FROM vectors WHERE text_hash IN (SELECT text_hash FROM pending_texts)")
    _end(connection)


def make_schema_2(new: Path, old: Path) -> None:
    """Write what ``new`` holds, all of its spaces and queues, as a store of schema 2."""
    connection = _begin(new, old, 2)
    connection.execute("DELETE FROM spaces")
    connection.execute("INSERT INTO spaces(model) SELECT model FROM new.spaces")
    _copy(connection, (*_COPIED, "pending_texts"))
    _copy_vectors(connection)
    _end(connection)


def _begin(new: Path, old: Path, schema: int) -> sqlite.Connection:
    connection = sqlite.open_writer(old)
    for migration in migrations.MIGRATIONS[:schema]:
        migration(connection)
    connection.execute(f"PRAGMA user_version={schema}")
    connection.execute("PRAGMA foreign_keys=OFF")
    connection.execute("ATTACH ? AS new", (str(new),))
    connection.execute("BEGIN")
    connection.execute("DELETE FROM state")
    return connection


def _copy(connection: sqlite.Connection, tables: tuple[str, ...]) -> None:
    for table in tables:
        columns = ",".join(row[1] for row in connection.execute(f"PRAGMA main.table_info({table})"))
        connection.execute(f"INSERT INTO main.{table}({columns}) SELECT {columns} FROM new.{table}")


def _copy_vectors(connection: sqlite.Connection) -> None:
    rows = connection.execute(
        "SELECT v.id, v.text_hash, s.model, v.vector, v.generation FROM new.vectors v JOIN new.spaces s"
        " ON s.number=v.space ORDER BY v.id"
    ).fetchall()
    connection.executemany(
        "INSERT INTO main.vectors VALUES (?,?,?,?,?)",
        [(*row[:3], packing.unpack([row[3]]).astype("<f4").tobytes(), row[4]) for row in rows],
    )


def _end(connection: sqlite.Connection) -> None:
    connection.execute("COMMIT")
    connection.execute("DETACH new")
    connection.close()
