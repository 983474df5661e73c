"""Puts a data directory's database right, as ``doctor --fix`` asks; whoever calls it holds the directory's lock.

A file whose pages are damaged is never written to: what can be read goes into a new one. A file that is sound but does
not agree with itself is mended in place, after a backup.
"""

from __future__ import annotations

import time
from pathlib import Path

from palace_daemon.config import Config
from palace_daemon.core.ports import Embedder
from palace_daemon.errors import ModelError, StoreDamagedError
from palace_daemon.service import build, diagnosis
from palace_daemon.store import backups, check, migrations, repair, salvage, schema, spaces, sqlite, values
from palace_daemon.store.repair import Step
from palace_daemon.store.store import Store

_REBUILDABLE = {"drawers", "word index"}
"""Checks that building the index anew puts right."""


def mend(config: Config, *, embedder: Embedder | None = None) -> list[Step]:
    """Repair what :func:`palace_daemon.service.diagnosis.check` finds; returns what was done, in counts.

    Args:
        config: The effective settings.
        embedder: Stands in for the configured model.

    Raises:
        StoreDamagedError: Nothing can be read out of the file.
        StoreError: The store is of a newer version, locked, or a file cannot be written.
    """
    path = sqlite.database_path(config.data_dir)
    done: list[Step] = []
    if salvage.finish(path):
        done.append(Step("repair that had been broken off is finished", 1))
    if not path.exists():
        return done
    if _must_be_salvaged(config):
        done += _salvage(config)
    elif all(finding.level != "fail" for finding in diagnosis.check(config, embedder=embedder)):
        return done
    else:
        backups.take(path, "repair")
        done.append(Step("backup made of the database as it was", 1))
    done += _migrate(path)
    done += repair.mend_schema(path)
    store = build.open_store(config)
    try:
        return done + _mend_store(store, config, embedder)
    finally:
        store.close()


def _migrate(path: Path) -> list[Step]:
    """Bring an older store up to this version first: its parts are missing for a reason."""
    connection = sqlite.open_writer(path)
    try:
        with sqlite.mapped_errors(path):
            is_corrected = migrations.correct_version(connection)
            if migrations.schema_version(connection) < migrations.SCHEMA_VERSION:
                migrations.migrate(connection)
    finally:
        connection.close()
    return [Step("number of the schema put right", 1)] if is_corrected else []


def _must_be_salvaged(config: Config) -> bool:
    """Return whether pages or texts are damaged, or what cannot be made in place: columns, and row numbers."""
    path = sqlite.database_path(config.data_dir)
    try:
        connection = sqlite.open_reader(path)
        try:
            with sqlite.mapped_errors(path):
                version = migrations.schema_version(connection)
                if version > migrations.SCHEMA_VERSION:
                    migrations.check_version(connection)
                lacks = schema.missing(connection) if version == migrations.SCHEMA_VERSION else []
                has_lost_columns = any(part.startswith("column ") for part in lacks)
                if has_lost_columns or not check.pages(connection).is_ok:
                    return True
                return not values.read_texts(connection) or _has_odd_numbers(connection)
        finally:
            connection.close()
    except StoreDamagedError:
        return True


def _has_odd_numbers(connection: sqlite.Connection) -> bool:
    names = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema")}
    return names.issuperset(values.NUMBERED) and values.odd_numbers(connection) > 0


def _salvage(config: Config) -> list[Step]:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    found = salvage.salvage(sqlite.database_path(config.data_dir), stamp)
    done = [Step(f"damaged database kept as {found.kept_as.name}", 1)]
    done += [Step(f"{table} read from it", number) for table, number in found.rows.items()]
    done += [
        Step("pages of it could not be read", found.unreadable_pages),
        Step("rows of it could not be read", found.unreadable_rows),
        Step("rows of it left out: another row stands for the same", found.left_out),
        Step("exchanges whose text is not whole: their transcripts put them right", found.garbled),
    ]
    done += found.mended
    done.append(Step("transcripts to be read anew", found.sources_to_read))
    if not found.forgotten_is_known:
        done.append(Step("list of what was forgotten is not whole: no transcript is read anew", 1))
        if found.lost_sources:
            done.append(
                Step("sources are lost as well: the next start reads their transcripts, what was forgotten too", 1)
            )
    return [step for step in done if step.number]


def _mend_store(store: Store, config: Config, embedder: Embedder | None) -> list[Step]:
    done = store.edit(lambda connection, _: repair.mend_references(connection))
    done += store.edit(lambda connection, _: repair.mend_values(connection))
    with store.read() as connection:
        found = check.check(connection, is_deep=True)
        (exchanges,) = connection.execute("SELECT count(*) FROM exchanges").fetchone()
    if any(finding.name in _REBUILDABLE and not finding.is_ok for finding in found):
        store.rebuild_index()
        done.append(Step("exchanges cut and indexed anew", exchanges))
    broken = store.edit(lambda connection, _: repair.mend_vectors(connection))
    return done + broken + _mend_differing(store, config, embedder)


def _mend_differing(store: Store, config: Config, embedder: Embedder | None) -> list[Step]:
    """Drop all vectors of a model that now makes others; in the sample one is enough."""
    with store.read() as connection:
        space = spaces.read(connection).answering.model
        try:
            made_by = embedder or (diagnosis.open_embedder(config, space) if space else None)
        except ModelError:
            return []
        if made_by is None:
            return []
        try:
            _, wrong = diagnosis.differing(connection, made_by, space)
        finally:
            if embedder is None:
                made_by.close()
    return store.edit(lambda connection, _: repair.mend_vectors(connection, (space,))) if wrong else []
