"""Numbered migrations: each runs with its record in one transaction; a shipped one is never edited.

``PRAGMA user_version`` holds the number of the last one that was applied. Before the first of a store's pending
migrations a backup is made, see :mod:`palace_daemon.store.backups`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from palace_daemon.errors import StoreDamagedError, StoreTooNewError
from palace_daemon.store import backups, packing, spaces, sqlite
from palace_daemon.store.sqlite import Connection

if sys.platform != "win32":
    import fcntl

_M001 = (
    # One row. `generation` grows with each transaction that changes drawers or vectors; mirrors follow it.
    """CREATE TABLE state(
        only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
        generation INTEGER NOT NULL DEFAULT 0,
        pruned_generation INTEGER NOT NULL DEFAULT 0,
        model TEXT NOT NULL DEFAULT '',
        index_version TEXT NOT NULL DEFAULT '',
        last_mined_at INTEGER,
        machine TEXT NOT NULL DEFAULT (lower(hex(randomblob(8)))),
        ignore_rules TEXT NOT NULL DEFAULT '',
        scrub_due INTEGER NOT NULL DEFAULT 0
    )""",
    "INSERT INTO state(only_row) VALUES (1)",
    # `reading` counts the passes from offset 0: a provenance of an older pass is text that the file no longer holds.
    # Here and in `exchanges` what can be long stands last: a row is read from its front, page by page.
    # `origin` is empty for what lies on this machine, the `machine` of the store it was imported from, or `palace`.
    """CREATE TABLE sources(
        id INTEGER PRIMARY KEY,
        path TEXT NOT NULL,
        origin TEXT NOT NULL DEFAULT '',
        agent TEXT NOT NULL DEFAULT '',
        format TEXT NOT NULL DEFAULT '',
        format_version INTEGER NOT NULL DEFAULT 0,
        is_secondary INTEGER NOT NULL DEFAULT 0,
        state TEXT NOT NULL,
        error TEXT NOT NULL DEFAULT '',
        device INTEGER,
        inode INTEGER,
        size_bytes INTEGER NOT NULL DEFAULT 0,
        read_bytes INTEGER NOT NULL DEFAULT 0,
        reading INTEGER NOT NULL DEFAULT 0,
        lines_read INTEGER NOT NULL DEFAULT 0,
        lines_skipped TEXT NOT NULL DEFAULT '{}',
        cursor BLOB,
        parser_state BLOB,
        UNIQUE(path, origin)
    )""",
    "CREATE INDEX sources_identity ON sources(device, inode)",
    "CREATE INDEX sources_secondary ON sources(is_secondary) WHERE is_secondary=1",
    """CREATE TABLE sessions(
        id INTEGER PRIMARY KEY,
        agent TEXT NOT NULL,
        native_id TEXT NOT NULL,
        parent_native_id TEXT NOT NULL DEFAULT '',
        relation TEXT NOT NULL DEFAULT 'none',
        title TEXT NOT NULL DEFAULT '',
        project TEXT NOT NULL DEFAULT '',
        cwd TEXT NOT NULL DEFAULT '',
        branch TEXT NOT NULL DEFAULT '',
        agent_version TEXT NOT NULL DEFAULT '',
        entrypoint TEXT NOT NULL DEFAULT '',
        is_automated INTEGER NOT NULL DEFAULT 0,
        UNIQUE(agent, native_id)
    )""",
    """CREATE TABLE exchanges(
        id INTEGER PRIMARY KEY,
        session_id INTEGER NOT NULL REFERENCES sessions(id),
        owner_source_id INTEGER NOT NULL REFERENCES sources(id),
        ordinal INTEGER NOT NULL,
        started_at INTEGER,
        ended_at INTEGER,
        is_superseded INTEGER NOT NULL,
        reply_final_start INTEGER NOT NULL,
        cut TEXT NOT NULL DEFAULT '',
        time_quality TEXT NOT NULL,
        utc_offset_minutes INTEGER,
        status TEXT NOT NULL,
        user_kind TEXT NOT NULL,
        public_id TEXT NOT NULL UNIQUE,
        key TEXT NOT NULL UNIQUE,
        user_hash BLOB NOT NULL,
        content_hash BLOB NOT NULL,
        model TEXT NOT NULL,
        project TEXT NOT NULL,
        cwd TEXT NOT NULL,
        branch TEXT NOT NULL,
        agent_version TEXT NOT NULL,
        flags TEXT NOT NULL,
        redactions TEXT NOT NULL DEFAULT '',
        tools TEXT NOT NULL,
        attachments TEXT NOT NULL,
        user_text TEXT NOT NULL,
        reply_text TEXT NOT NULL
    )""",
    # The order of a session; the rest is for lists of sessions and for neighbours, which then read no rows.
    """CREATE INDEX exchanges_session ON exchanges(
        session_id, started_at, ordinal, key, ended_at, is_superseded, public_id
    )""",
    "CREATE INDEX exchanges_cut ON exchanges(session_id, cut)",
    # The turns of a session that stand, and all of them, for queries that say just this of user_text.
    "CREATE INDEX exchanges_turns ON exchanges(session_id, started_at, ordinal) WHERE user_text<>''",
    "CREATE INDEX exchanges_standing ON exchanges(session_id) WHERE user_text<>'' AND is_superseded=0",
    "CREATE INDEX exchanges_superseded ON exchanges(session_id) WHERE is_superseded",
    "CREATE INDEX exchanges_redactions ON exchanges(redactions) WHERE redactions<>''",
    "CREATE INDEX exchanges_user ON exchanges(user_hash, started_at)",
    "CREATE INDEX exchanges_owner ON exchanges(owner_source_id)",
    # Forks give one exchange several keys, and so several public ids: one that was given out is answered for ever.
    """CREATE TABLE exchange_keys(
        key TEXT PRIMARY KEY,
        exchange_id INTEGER NOT NULL REFERENCES exchanges(id) ON DELETE CASCADE,
        public_id TEXT NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX exchange_keys_public ON exchange_keys(public_id)",
    "CREATE INDEX exchange_keys_exchange ON exchange_keys(exchange_id)",
    """CREATE TABLE provenance(
        exchange_id INTEGER NOT NULL REFERENCES exchanges(id) ON DELETE CASCADE,
        source_id INTEGER NOT NULL REFERENCES sources(id),
        session_id INTEGER NOT NULL REFERENCES sessions(id),
        reading INTEGER NOT NULL,
        line_start INTEGER NOT NULL,
        line_end INTEGER NOT NULL,
        byte_start INTEGER NOT NULL,
        byte_end INTEGER NOT NULL,
        chars INTEGER NOT NULL,
        is_closed INTEGER NOT NULL,
        is_superseded INTEGER NOT NULL,
        PRIMARY KEY(exchange_id, source_id)
    ) WITHOUT ROWID""",
    "CREATE INDEX provenance_source ON provenance(source_id, reading)",
    # What a note has beside its exchange. `superseded_by` is the public id of the note that took its place.
    """CREATE TABLE notes(
        exchange_id INTEGER PRIMARY KEY REFERENCES exchanges(id) ON DELETE CASCADE,
        created_at INTEGER NOT NULL,
        edited_at INTEGER,
        superseded_by TEXT NOT NULL DEFAULT '',
        author TEXT NOT NULL DEFAULT '',
        tags TEXT NOT NULL DEFAULT '[]'
    )""",
    # What was forgotten, as digests: see tombstones.py. `reply_digest` covers the first `reply_chars` of a reply.
    """CREATE TABLE tombstones(
        digest BLOB NOT NULL,
        reply_digest BLOB NOT NULL,
        reply_chars INTEGER NOT NULL,
        kind TEXT NOT NULL,
        forgotten_at INTEGER NOT NULL,
        PRIMARY KEY(digest, reply_digest)
    ) WITHOUT ROWID""",
    # Sources of which a rule of `ignore_projects` kept something out: they are read anew when the rules change.
    "CREATE TABLE held_back(source_id INTEGER PRIMARY KEY REFERENCES sources(id) ON DELETE CASCADE)",
    # A drawer is a span of its exchange: the text stands once. `length` is the number of terms, for BM25.
    """CREATE TABLE drawers(
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        exchange_id INTEGER NOT NULL REFERENCES exchanges(id),
        ordinal INTEGER NOT NULL,
        user_start INTEGER NOT NULL,
        user_end INTEGER NOT NULL,
        reply_start INTEGER NOT NULL,
        reply_end INTEGER NOT NULL,
        lead_head INTEGER NOT NULL,
        lead_tail INTEGER NOT NULL,
        text_hash BLOB NOT NULL,
        length INTEGER NOT NULL,
        generation INTEGER NOT NULL,
        UNIQUE(exchange_id, ordinal)
    )""",
    "CREATE INDEX drawers_text ON drawers(text_hash)",
    "CREATE INDEX drawers_generation ON drawers(generation)",
    "CREATE TABLE removed_drawers(drawer_id INTEGER PRIMARY KEY, generation INTEGER NOT NULL)",
    # What a person says in an exchange, sentence by sentence: the text follows from the exchange, see statements.py.
    """CREATE TABLE statements(
        exchange_id INTEGER NOT NULL REFERENCES exchanges(id) ON DELETE CASCADE,
        ordinal INTEGER NOT NULL,
        text_hash BLOB NOT NULL,
        is_wish INTEGER NOT NULL,
        PRIMARY KEY(exchange_id, ordinal)
    ) WITHOUT ROWID""",
    "CREATE INDEX statements_text ON statements(text_hash)",
    # For each term and each block of 4,096 drawer ids: uint16 offsets, then uint16 term frequencies.
    """CREATE TABLE postings(
        term TEXT NOT NULL,
        block INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY(term, block)
    ) WITHOUT ROWID""",
    # float32, little-endian, L2 = 1. Keyed by text: equal texts are embedded once.
    """CREATE TABLE vectors(
        id INTEGER PRIMARY KEY,
        text_hash BLOB NOT NULL,
        model TEXT NOT NULL,
        vector BLOB NOT NULL,
        generation INTEGER NOT NULL,
        UNIQUE(text_hash, model)
    )""",
    "CREATE INDEX vectors_generation ON vectors(model, generation)",
    # Texts of the active model that still lack a vector: drawers before statements, the newest first.
    """CREATE TABLE pending_texts(
        text_hash BLOB PRIMARY KEY,
        is_statement INTEGER NOT NULL,
        started_at INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX pending_newest ON pending_texts(is_statement, started_at DESC, text_hash)",
)


def _m001_create_tables(connection: Connection) -> None:
    for statement in _M001:
        connection.execute(statement)


_M002 = (
    # Spaces of vectors, see spaces.py: `model` answers, `next_model` is being filled, `previous_model` is kept.
    "ALTER TABLE state ADD COLUMN next_model TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE state ADD COLUMN previous_model TEXT NOT NULL DEFAULT ''",
    # Counts, kept by triggers, so that every answer can tell them; '' counts what waits while there is no model.
    """CREATE TABLE spaces(
        model TEXT PRIMARY KEY,
        vectors INTEGER NOT NULL DEFAULT 0,
        pending INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID""",
    "INSERT INTO spaces(model) VALUES ('')",
    "INSERT OR IGNORE INTO spaces(model) SELECT model FROM state",
    "INSERT OR IGNORE INTO spaces(model) SELECT DISTINCT model FROM vectors",
    "UPDATE spaces SET vectors=(SELECT count(*) FROM vectors v WHERE v.model=spaces.model)",
    # Texts that lack a vector, by space. `is_left`: what the answering model leaves to the next one.
    "ALTER TABLE pending_texts RENAME TO pending_before",
    "DROP INDEX pending_newest",
    """CREATE TABLE pending_texts(
        text_hash BLOB NOT NULL,
        model TEXT NOT NULL,
        is_statement INTEGER NOT NULL,
        started_at INTEGER NOT NULL,
        is_left INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY(text_hash, model)
    ) WITHOUT ROWID""",
    "CREATE INDEX pending_newest ON pending_texts(model, is_left, is_statement, started_at DESC, text_hash)",
    """CREATE TRIGGER vectors_added AFTER INSERT ON vectors BEGIN
        UPDATE spaces SET vectors=vectors+1 WHERE model=NEW.model; END""",
    """CREATE TRIGGER vectors_gone AFTER DELETE ON vectors BEGIN
        UPDATE spaces SET vectors=vectors-1 WHERE model=OLD.model; END""",
    """CREATE TRIGGER pending_added AFTER INSERT ON pending_texts BEGIN
        UPDATE spaces SET pending=pending+1 WHERE model=NEW.model; END""",
    """CREATE TRIGGER pending_gone AFTER DELETE ON pending_texts BEGIN
        UPDATE spaces SET pending=pending-1 WHERE model=OLD.model; END""",
    """INSERT INTO pending_texts(text_hash, model, is_statement, started_at)
        SELECT text_hash, (SELECT model FROM state), is_statement, started_at FROM pending_before""",
    "DROP TABLE pending_before",
)


def _m002_hold_several_spaces(connection: Connection) -> None:
    for statement in _M002:
        connection.execute(statement)


_M003_BEFORE = (
    "DROP TRIGGER IF EXISTS vectors_added",
    "DROP TRIGGER IF EXISTS vectors_gone",
    "DROP INDEX IF EXISTS vectors_generation",
    "ALTER TABLE vectors RENAME TO vectors_before",
    # Five rows of 384 dimensions fill a page, see packing.py; `space` is the number of spaces.py.
    """CREATE TABLE vectors(
        id INTEGER PRIMARY KEY,
        text_hash BLOB NOT NULL,
        space INTEGER NOT NULL,
        vector BLOB NOT NULL,
        generation INTEGER NOT NULL,
        UNIQUE(text_hash, space)
    )""",
    "ALTER TABLE spaces ADD COLUMN number INTEGER NOT NULL DEFAULT 0",
)
_M003_AFTER = (
    "CREATE INDEX vectors_generation ON vectors(space, generation)",
    """CREATE TRIGGER vectors_added AFTER INSERT ON vectors BEGIN
        UPDATE spaces SET vectors=vectors+1 WHERE number=NEW.space; END""",
    """CREATE TRIGGER vectors_gone AFTER DELETE ON vectors BEGIN
        UPDATE spaces SET vectors=vectors-1 WHERE number=OLD.space; END""",
)
_M003_ROWS = 2_048


def _m003_pack_vectors(connection: Connection) -> None:
    for statement in _M003_BEFORE:
        connection.execute(statement)
    models = connection.execute("SELECT model FROM spaces UNION SELECT DISTINCT model FROM vectors_before").fetchall()
    numbers = {model: spaces.number(model) for (model,) in models}
    connection.executemany("UPDATE spaces SET number=? WHERE model=?", [(of, model) for model, of in numbers.items()])
    rows = connection.execute("SELECT id, text_hash, model, CAST(vector AS BLOB), generation FROM vectors_before")
    while part := rows.fetchmany(_M003_ROWS):
        connection.executemany(
            "INSERT INTO vectors VALUES (?,?,?,?,?)",
            [
                (row_id, hash_, numbers[model], packed, generation)
                for (row_id, hash_, model, _, generation), packed in zip(
                    part, packing.pack_former([row[3] for row in part]), strict=True
                )
            ],
        )
    (had_vectors,) = connection.execute("SELECT EXISTS (SELECT 1 FROM vectors)").fetchone()
    # Overwriting the former rows would write as much again: nobody forgot them, and rewriting the file drops them.
    (overwrites,) = connection.execute("PRAGMA secure_delete").fetchone()
    connection.execute("PRAGMA secure_delete=FAST").fetchone()
    connection.execute("DROP TABLE vectors_before")
    connection.execute(f"PRAGMA secure_delete={overwrites}").fetchone()
    for statement in _M003_AFTER:
        connection.execute(statement)
    if had_vectors:
        connection.execute("UPDATE state SET scrub_due=2 WHERE scrub_due=0")  # to give the room back: scrubbing.py


_M004 = (
    # A copy of what mirrors hold, see kept_columns.py: whatever changes drawers without a generation empties it.
    "CREATE TABLE kept_columns(name TEXT PRIMARY KEY, data BLOB NOT NULL)",
)


def _m004_keep_columns(connection: Connection) -> None:
    for statement in _M004:
        connection.execute(statement)


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (
    _m001_create_tables,
    _m002_hold_several_spaces,
    _m003_pack_vectors,
    _m004_keep_columns,
)
SCHEMA_VERSION = len(MIGRATIONS)

_TABLES = frozenset(
    {
        "state", "sources", "sessions", "exchanges", "exchange_keys", "provenance", "drawers", "removed_drawers",
        "postings", "vectors", "pending_texts", "statements", "notes", "tombstones", "held_back",
        "spaces", "kept_columns",
    }
)  # fmt: skip


def schema_version(connection: Connection) -> int:
    """Return the number of the last migration that the file saw; 0 for a new one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def true_version(connection: Connection) -> int:
    """Return the number that the file says, or that of a later schema if its tables and columns are just that one's.

    A file that was taken out of a damaged one by other tools has lost its number.
    """
    stated = schema_version(connection)
    shape = _shape(connection) if stated < SCHEMA_VERSION else {}
    return next((number for number in range(SCHEMA_VERSION, stated, -1) if shape == _shape_after(number)), stated)


def correct_version(connection: Connection) -> bool:
    """Write down the number of the schema that the file has; returns whether it had another one."""
    stated, version = schema_version(connection), true_version(connection)
    connection.execute(f"PRAGMA user_version={version}")
    return version != stated


def _shape(connection: Connection) -> dict[str, frozenset[str]]:
    """Return the columns of each table."""
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type='table' AND name NOT LIKE 'sqlite_%'")
    return {
        name: frozenset(row[1] for row in connection.execute(f'PRAGMA table_info("{name}")'))
        for (name,) in tables.fetchall()
    }


@functools.cache
def _shape_after(number: int) -> dict[str, frozenset[str]]:
    """Return what :func:`_shape` is after so many migrations."""
    with contextlib.closing(sqlite.open_scratch()) as connection:
        for migration in MIGRATIONS[:number]:
            migration(connection)
        return _shape(connection)


def check_version(connection: Connection) -> None:
    """Refuse a store that this version cannot read.

    Raises:
        StoreTooNewError: A newer Palace wrote it.
        StoreDamagedError: It says that it is migrated, but tables are missing.
    """
    version = schema_version(connection)
    if version > SCHEMA_VERSION:
        raise StoreTooNewError(
            f"the store has schema {version}, this version knows {SCHEMA_VERSION}", hint="upgrade palace-daemon"
        )
    if version == SCHEMA_VERSION:
        names = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        if missing := _TABLES - names:
            lacking = ", ".join(sorted(missing))
            raise StoreDamagedError(f"the store lacks {lacking}", hint="run `palace-daemon doctor --fix`")


def migrate(connection: Connection) -> int:
    """Apply what is pending, each migration in one transaction with its number; a backup is made before the first.

    Without room for that backup nothing is migrated: what cannot be rebuilt, notes and exchanges whose transcripts are
    gone, is worth more than an early start.

    Returns:
        How many were applied.

    Raises:
        StoreTooNewError: A newer Palace wrote the store.
        StoreDamagedError: It is of a later schema than it says.
        StoreFullError: There is no room for a backup.
        StoreError: The backup cannot be written, or not be read whole.
    """
    check_version(connection)
    if schema_version(connection) == SCHEMA_VERSION:
        return 0
    with _alone(_file_of(connection).parent):
        return _migrate(connection)


def _migrate(connection: Connection) -> int:
    applied = 0
    if (version := true_version(connection)) != (stated := schema_version(connection)):
        raise StoreDamagedError(
            f"the store says that it has schema {stated}, but it has {version}", hint="run `palace-daemon doctor --fix`"
        )
    is_new = schema_version(connection) == 0
    for number in range(schema_version(connection) + 1, SCHEMA_VERSION + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            if schema_version(connection) < number:  # another process may have been first
                if not applied and not is_new:  # under the lock, so that nobody writes after the copy
                    backups.take(_file_of(connection), f"schema-{number - 1}")
                MIGRATIONS[number - 1](connection)
                connection.execute(f"PRAGMA user_version={number}")
                applied += 1
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # a full disk can have rolled back already: the cause is to be told
                connection.execute("ROLLBACK")
            raise
    check_version(connection)
    return applied


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Wait until nobody else migrates a store in ``directory``: between two steps of another a backup would be made."""
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _file_of(connection: Connection) -> Path:
    # As bytes: a directory may have a name that is not UTF-8.
    (name,) = connection.execute("SELECT CAST(file AS BLOB) FROM pragma_database_list WHERE name='main'").fetchone()
    return Path(os.fsdecode(name))
