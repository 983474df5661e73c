"""Taking out of a damaged database what can still be read, and putting it into a new one.

What cannot be rebuilt comes first and is what is taken: exchanges, sessions, sources, ids that were given out, notes,
tombstones, and vectors, since they cost time. Drawers, words and queues follow from the exchanges and are made anew.

The damaged file is never written to. It is kept aside under another name, with its log.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from palace_daemon.errors import StoreError
from palace_daemon.store import backups, migrations, packing, pages, repair, spaces, sqlite
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.variants import content_hash

TAKEN = (
    "exchanges",
    "sessions",
    "sources",
    "exchange_keys",
    "provenance",
    "notes",
    "tombstones",
    "held_back",
    "vectors",
)
"""Tables whose rows are taken, besides the one row of ``state``."""
_STATE_KEPT = ("model", "next_model", "previous_model", "machine", "ignore_rules", "last_mined_at")
_BUILDING, _BUILT = ".rebuilding", ".rebuilt-"
_KINDS: dict[str, tuple[type, ...]] = {"INTEGER": (int,), "TEXT": (str,), "BLOB": (bytes,)}


class Salvage(NamedTuple):
    """What was found."""

    rows: dict[str, int]
    """Rows taken, by table."""
    unreadable_pages: int
    unreadable_rows: int
    garbled: int
    """Exchanges whose text is not what it was: the transcript, if it is there, puts it right."""
    mended: tuple[repair.Step, ...]
    """What was done about references to rows that could not be read."""
    sources_to_read: int
    """Transcripts that are read anew."""
    forgotten_is_known: bool
    """Whether all tombstones were read. If not, no transcript is read anew: it might tell what was forgotten."""
    kept_as: Path
    """Where the damaged file is now."""


class _Table(NamedTuple):
    name: str
    columns: tuple[str, ...]
    kinds: tuple[tuple[type, ...], ...]
    least: int
    """Values of the oldest rows: columns that were added later stand last, and have a default."""
    rowid_column: int | None
    has_rowid: bool


def salvage(database: Path, stamp: str) -> Salvage:
    """Replace a damaged database by a new one with all that could be read; nobody may have it open.

    Args:
        database: Its file.
        stamp: Goes into the name of the damaged file.

    Raises:
        StoreError: A file cannot be written; then the database is as it was.
    """
    building = database.with_name(database.name + _BUILDING)
    try:
        _remove(building)
        found = _fill(database, building)
        built = database.with_name(f"{database.name}{_BUILT}{stamp}")
        building.replace(built)
        backups.sync_directory(database.parent)
        kept = _swap(database, built)
    except (OSError, StoreError) as exc:
        with contextlib.suppress(OSError):
            _remove(building)  # on a full disk it would be in the way
        if isinstance(exc, StoreError):
            raise
        raise StoreError(f"cannot write beside {database}: {exc.strerror}", hint="the database is as it was") from exc
    return found._replace(kept_as=kept)


def finish(database: Path) -> bool:
    """Finish what a killed repair had nearly done, and drop what it had only begun; returns whether it was done.

    To be called before anybody writes: the new file stands for the old one from the moment on at which it was whole.

    Raises:
        StoreError: A file cannot be moved.
    """
    try:
        if any(database.parent.glob(f"{database.name}{_BUILDING}*")):
            _remove(database.with_name(database.name + _BUILDING))
        found = sorted(database.parent.glob(f"{database.name}{_BUILT}*"))
        for built in found:
            _swap(database, built)
    except OSError as exc:
        raise StoreError(f"cannot finish the repair of {database}: {exc.strerror}") from exc
    return bool(found)


def _swap(database: Path, built: Path) -> Path:
    """Keep the damaged file aside and put the new one in its place; can be called again after a kill anywhere."""
    stamp = built.name.removeprefix(database.name + _BUILT)
    kept = database.with_name(f"{database.name}{backups.DAMAGED}{stamp}")
    log, shared = (database.with_name(f"{database.name}-{ending}") for ending in ("wal", "shm"))
    _keep(database, kept)
    if log.exists():  # it must not be taken for the log of the new file
        _keep(log, kept.with_name(f"{kept.name}-wal"))
        log.unlink()
    shared.unlink(missing_ok=True)
    built.replace(database)
    backups.sync_directory(database.parent)
    return kept


def _keep(path: Path, kept: Path) -> None:
    """Give a file a second name, or copy it where there are no links."""
    if kept.exists() or not path.exists():
        return
    try:
        kept.hardlink_to(path)
    except OSError:
        partial = kept.with_name(f"{kept.name}.partial")
        shutil.copyfile(path, partial)
        partial.replace(kept)
    kept.chmod(0o600)
    backups.sync_directory(kept.parent)


def _remove(path: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def _fill(database: Path, building: Path) -> Salvage:
    connection = sqlite.open_writer(building)
    try:
        with sqlite.mapped_errors(building):
            migrations.migrate(connection)
            connection.execute("PRAGMA foreign_keys=OFF")
            connection.execute("BEGIN IMMEDIATE")
            found = _take(connection, database)
            connection.execute("COMMIT")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()
    return found


def _take(connection: Connection, database: Path) -> Salvage:
    tables = [_table(connection, name) for name in (*TAKEN, "state")]
    inserts = {
        table.name: f"INSERT OR IGNORE INTO {table.name}({','.join(table.columns)})"
        f" VALUES ({','.join('?' * len(table.columns))})"
        for table in tables
    }
    taken: Counter[str] = Counter()
    damaged_rows = tombstones_root = 0
    file = pages.PageFile(database)
    try:
        for number in range(1, file.count + 1):
            is_table = file.kind(number) == pages.TABLE_LEAF
            for found in file.rows(number):
                row = _as_now(found)
                if row is None:
                    damaged_rows += 1
                elif is_table and row.values[:2] == ("table", "tombstones") and isinstance(row.values[3], int):
                    tombstones_root = row.values[3]
                elif (table := _of(row, tables, is_table=is_table)) is not None:
                    values = _complete(connection, table, row)
                    if table.name == "state":
                        _keep_state(connection, table, values)
                    else:
                        taken[table.name] += connection.execute(inserts[table.name], values).rowcount
        unreadable = file.unreadable()
        is_known = file.is_whole(tombstones_root) if tombstones_root else not (unreadable or damaged_rows)
    finally:
        file.close()
    garbled = _mark_garbled(connection)
    connection.execute("UPDATE state SET index_version=''")
    steps = repair.mend_references(connection, reads_anew=False)
    to_read = repair.read_anew(connection, None) if is_known else 0
    return Salvage(dict(taken), unreadable, damaged_rows, garbled, tuple(steps), to_read, is_known, database)


def _table(connection: Connection, name: str) -> _Table:
    """Return what rows of a table look like, as its own definition says."""
    info = connection.execute(f"PRAGMA table_info({name})").fetchall()
    (without_rowid,) = connection.execute("SELECT wr FROM pragma_table_list WHERE name=?", (name,)).fetchone()
    rowid_column = None
    kinds: list[tuple[type, ...]] = []
    for index, (_, _, declared, is_required, _, key) in enumerate(info):
        if key and not without_rowid and declared == "INTEGER":
            rowid_column = index
            kinds.append((type(None),))
        else:
            kinds.append(_KINDS[declared] if is_required or key else (*_KINDS[declared], type(None)))
    least = max(index + 1 for index, column in enumerate(info) if column[4] is None)
    return _Table(name, tuple(column[1] for column in info), tuple(kinds), least, rowid_column, not without_rowid)


def _as_now(row: pages.Row | None) -> pages.Row | None:
    """Return a vector of schemas 1 and 2 as this version keeps it, and any other row as it is."""
    if row is not None:
        match row.values:
            case (None, bytes(text_hash), str(model), bytes(vector), int(generation)):
                packed = packing.pack_former([vector])[0]
                return row._replace(values=(None, text_hash, spaces.number(model), packed, generation))
    return row


def _of(row: pages.Row, tables: list[_Table], *, is_table: bool) -> _Table | None:
    """Return the table that a row can only be of."""
    for table in tables:
        if (
            table.has_rowid == is_table
            and table.least <= len(row.values) <= len(table.kinds)
            and all(isinstance(value, kind) for value, kind in zip(row.values, table.kinds, strict=False))
        ):
            return table
    return None


def _complete(connection: Connection, table: _Table, row: pages.Row) -> list[pages.Value]:
    """Return a value for each column: the row's, its id, and the defaults of columns that were added later."""
    values = list(row.values)
    if table.rowid_column is not None:
        values[table.rowid_column] = row.rowid
    if len(values) < len(table.columns):
        rest = connection.execute(f"PRAGMA table_info({table.name})").fetchall()[len(values) :]
        values += [connection.execute(f"SELECT {column[4]}").fetchone()[0] for column in rest]
    return values


def _keep_state(connection: Connection, table: _Table, values: list[pages.Value]) -> None:
    held = dict(zip(table.columns, values, strict=True))
    connection.execute(
        f"UPDATE state SET {', '.join(f'{name}=?' for name in _STATE_KEPT)}, scrub_due=?, generation=?+1",
        (*(held[name] for name in _STATE_KEPT), held["scrub_due"], held["generation"]),
    )
    for name in ("model", "next_model", "previous_model"):
        spaces.add(connection, str(held[name]))


def _mark_garbled(connection: Connection) -> int:
    """Have the transcripts put right what is not what it was; returns how many exchanges that are."""
    rows = connection.execute("SELECT id, content_hash, user_text, reply_text FROM exchanges")
    wrong = [(exchange_id,) for exchange_id, held, user, reply in rows if content_hash(user, reply) != held]
    connection.executemany("UPDATE exchanges SET content_hash=x'' WHERE id=?", wrong)
    return len(wrong)
