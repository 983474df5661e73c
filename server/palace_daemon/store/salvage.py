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

import msgspec
from msgspec import Struct

from palace_daemon.errors import StoreDamagedError, StoreError
from palace_daemon.store import backups, migrations, packing, pages, repair, spaces, sqlite, values
from palace_daemon.store.sqlite import Connection

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
_WIDE_COLUMNS = 12
"""From so many on the number of values alone tells the table, so that a text may be stored as no text."""
_REFERENCES = {
    "exchanges": ("exchange_keys.exchange_id", "provenance.exchange_id", "notes.exchange_id"),
    "sessions": ("exchanges.session_id", "provenance.session_id"),
    "sources": ("exchanges.owner_source_id", "provenance.source_id", "held_back.source_id"),
    "vectors": (),
}
"""Tables whose rows may get another number, and what refers to them: no new row may get what was said of a lost one."""


class Salvage(NamedTuple):
    """What was found."""

    rows: dict[str, int]
    """Rows taken, by table."""
    unreadable_pages: int
    unreadable_rows: int
    left_out: int
    """Rows that were read, but say of something what another row says of it, too."""
    garbled: int
    """Exchanges whose text is not what it was: the transcript, if it is there, puts it right."""
    mended: tuple[repair.Step, ...]
    """What was done about references to rows that could not be read."""
    sources_to_read: int
    """Transcripts that are read anew."""
    lost_sources: bool
    """Whether rows of sources may be lost: their transcripts are new to the store, and read by whoever mines next."""
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

    @property
    def is_wide(self) -> bool:
        """Whether the number of values alone tells the table."""
        return self.least >= _WIDE_COLUMNS


class _Row(NamedTuple):
    """A row with a value for each column."""

    table: _Table
    values: list[pages.Value]

    @property
    def has_odd_number(self) -> bool:
        """Whether its number is one that no row can have."""
        number = 1 if self.table.rowid_column is None else self.values[self.table.rowid_column]
        return not (isinstance(number, int) and 1 <= number <= values.MOST_ROWS)

    def insert(self, connection: Connection) -> int:
        """Store it, unless another row stands in its way; returns how many rows were stored."""
        marks = ",".join("?" * len(self.values))
        statement = f"INSERT OR IGNORE INTO {self.table.name}({','.join(self.table.columns)}) VALUES ({marks})"
        return connection.execute(statement, self.values).rowcount


class _Found(Struct):
    """What reading the file came to."""

    taken: Counter[str] = msgspec.field(default_factory=Counter)
    """Rows stored, by table."""
    left: list[_Row] = []
    """Rows whose own number another one has, or none can have."""
    unreadable: int = 0
    left_out: int = 0
    roots: dict[str, int] = {}
    """Root pages of the tables whose rows of the schema could be read."""


def salvage(database: Path, stamp: str) -> Salvage:
    """Replace a damaged database by a new one with all that could be read; nobody may have it open.

    Args:
        database: Its file.
        stamp: Goes into the name of the damaged file.

    Raises:
        StoreDamagedError: Nothing can be read out of it; then it is as it was.
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
    file = pages.PageFile(database)
    try:
        found = _read(connection, file)
        unreadable = file.unreadable()
        # Without the schema's row of it nobody can say whether there were any: then none is known.
        is_known, has_sources = (
            name in found.roots and file.is_whole(found.roots[name]) for name in ("tombstones", "sources")
        )
    finally:
        file.close()
    if not (is_known or found.taken["exchanges"] or found.taken["sources"]):
        raise StoreDamagedError(f"nothing can be read out of {database}", hint=sqlite.START_ANEW_HINT)
    added = _add_left(connection, found.left)
    garbled = values.changed_texts(connection)
    values.mark_changed(connection, garbled)
    connection.execute("UPDATE state SET index_version=''")
    steps = repair.mend_references(connection, reads_anew=False)
    return Salvage(
        rows=dict(found.taken + added),
        unreadable_pages=unreadable,
        unreadable_rows=found.unreadable,
        left_out=found.left_out + len(found.left) - added.total(),
        garbled=len(garbled),
        mended=tuple(steps),
        sources_to_read=repair.read_anew(connection, None) if is_known else 0,
        lost_sources=not has_sources,
        forgotten_is_known=is_known,
        kept_as=database,
    )


def _read(connection: Connection, file: pages.PageFile) -> _Found:
    """Store each row that can be read under its own number, if it has one that no other row has."""
    tables = [_table(connection, name) for name in (*TAKEN, "state")]
    read = _Found()
    for number in range(1, file.count + 1):
        is_table = file.kind(number) == pages.TABLE_LEAF
        for row in map(_as_now, file.rows(number)):
            if row is None:
                read.unreadable += 1
            elif is_table and len(row.values) == 5 and row.values[0] == "table" and isinstance(row.values[3], int):
                read.roots[str(row.values[1])] = row.values[3]
            elif (table := _of(row, tables, is_table=is_table)) is not None:
                _store(connection, _Row(table, _complete(connection, table, row)), read)
    return read


def _store(connection: Connection, row: _Row, read: _Found) -> None:
    name = row.table.name
    if name == "state":
        _keep_state(connection, row.table, row.values)
    elif not row.has_odd_number and row.insert(connection):
        read.taken[name] += 1
    elif name in _REFERENCES:
        read.left.append(row)
    else:
        read.left_out += 1


def _add_left(connection: Connection, left: list[_Row]) -> Counter[str]:
    """Add the rows whose own number is taken, or none, under another; returns how many, by table.

    An exchange gets the number that its key leads to, if that is free, so that its places and its note stay with it.
    """
    _return_to_own(connection)
    added: Counter[str] = Counter()
    for row in left:
        table = row.table
        number = _number_of(connection, row.values[table.columns.index("key")]) if table.name == "exchanges" else None
        if table.rowid_column is not None:
            row.values[table.rowid_column] = number or _free_number(connection, table.name)
        added[table.name] += row.insert(connection)
    return added


def _return_to_own(connection: Connection) -> None:
    """Give exchanges the number that their key leads to and that has a place, if no other exchange has it."""
    rows = connection.execute(
        "SELECT e.id, k.exchange_id FROM exchanges e JOIN exchange_keys k ON k.key=e.key WHERE k.exchange_id<>e.id"
        " AND k.exchange_id NOT IN (SELECT id FROM exchanges) AND k.exchange_id IN (SELECT exchange_id FROM provenance)"
    ).fetchall()
    connection.executemany("UPDATE OR IGNORE exchanges SET id=?2 WHERE id=?1", rows)


def _number_of(connection: Connection, key: pages.Value) -> int | None:
    """Return the number that a key leads to, if it can be one and no exchange has it."""
    row = connection.execute(
        f"SELECT exchange_id FROM exchange_keys WHERE key=? AND exchange_id BETWEEN 1 AND {values.MOST_ROWS}"
        " AND exchange_id NOT IN (SELECT id FROM exchanges)",
        (key,),
    ).fetchone()
    return None if row is None else int(row[0])


def _free_number(connection: Connection, table: str) -> int:
    """Return a number that no row of a table has, and that nothing refers to."""
    highest = 0
    for column in (f"{table}.id", *_REFERENCES[table]):
        named, name = column.split(".")
        limit = f"{name} BETWEEN 1 AND {values.MOST_ROWS}"
        (found,) = connection.execute(f"SELECT coalesce(max({name}), 0) FROM {named} WHERE {limit}").fetchone()
        highest = max(highest, found)
    return highest + 1


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
            and all(
                isinstance(value, kind) or (isinstance(value, bytes) and str in kind and table.is_wide)
                for value, kind in zip(row.values, table.kinds, strict=False)
            )
        ):
            return table
    return None


def _complete(connection: Connection, table: _Table, row: pages.Row) -> list[pages.Value]:
    """Return a value for each column: the row's, its id, and the defaults of columns that were added later."""
    found = [
        value.decode("utf-8", "replace") if isinstance(value, bytes) and bytes not in kind else value
        for value, kind in zip(row.values, table.kinds, strict=False)
    ]
    if table.rowid_column is not None:
        found[table.rowid_column] = row.rowid
    if len(found) < len(table.columns):
        rest = connection.execute(f"PRAGMA table_info({table.name})").fetchall()[len(found) :]
        found += [connection.execute(f"SELECT {column[4]}").fetchone()[0] for column in rest]
    return found


def _keep_state(connection: Connection, table: _Table, row: list[pages.Value]) -> None:
    held = dict(zip(table.columns, row, strict=True))
    connection.execute(
        f"UPDATE state SET {', '.join(f'{name}=?' for name in _STATE_KEPT)}, scrub_due=?, generation=?+1",
        (*(held[name] for name in _STATE_KEPT), held["scrub_due"], held["generation"]),
    )
    for name in ("model", "next_model", "previous_model"):
        spaces.add(connection, str(held[name]))
