"""A store as the first version of the schema had it, made from one of now."""

from __future__ import annotations

from pathlib import Path

from palace_daemon.store import migrations, sqlite

_COPIED = (
    *("state", "sources", "sessions", "exchanges", "exchange_keys", "provenance", "notes", "tombstones"),
    *("held_back", "drawers", "statements", "postings", "vectors"),
)


def make_schema_1(new: Path, old: Path, *, without_vectors: int = 0) -> None:
    """Write what ``new`` holds as a store of schema 1; the first vectors are left out, and their texts queued."""
    connection = sqlite.open_writer(old)
    migrations.MIGRATIONS[0](connection)
    connection.execute("PRAGMA user_version=1")
    connection.execute("PRAGMA foreign_keys=OFF")
    connection.execute("ATTACH ? AS new", (str(new),))
    connection.execute("BEGIN")
    connection.execute("DELETE FROM state")
    for table in _COPIED:
        columns = ",".join(row[1] for row in connection.execute(f"PRAGMA main.table_info({table})"))
        connection.execute(f"INSERT INTO main.{table}({columns}) SELECT {columns} FROM new.{table}")
    connection.execute(
        "INSERT INTO pending_texts SELECT v.text_hash, 0, max(e.started_at) FROM vectors v JOIN drawers d"
        " ON d.text_hash=v.text_hash JOIN exchanges e ON e.id=d.exchange_id GROUP BY 1 ORDER BY 1 LIMIT ?",
        (without_vectors,),
    )
    connection.execute("DELETE FROM vectors WHERE text_hash IN (SELECT text_hash FROM pending_texts)")
    connection.execute("COMMIT")
    connection.execute("DETACH new")
    connection.close()
