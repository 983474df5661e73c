"""What ``doctor`` says of a data directory's database, of its vectors, and of the model that makes them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from palace_daemon import places
from palace_daemon.config import Config
from palace_daemon.core.ports import Embedder
from palace_daemon.errors import ModelError, PalaceError, StoreError
from palace_daemon.service import build
from palace_daemon.store import backups, forgetting, migrations, packing, schema, spaces, vectors, views
from palace_daemon.store import check as checks
from palace_daemon.store.sqlite import DRIVER, Connection, Error, database_path
from palace_daemon.store.store import ReadOnlyStore

if TYPE_CHECKING:
    from palace_daemon.embed.arithmetic import IntegerArithmetic

Level = Literal["ok", "warn", "fail"]
FIX = "run `palace-daemon doctor --fix`"
SAMPLED = 8
"""Texts that are embedded again and compared: a fifth of a second."""
COSINE_MIN = 0.999
"""Between a stored vector and the same text embedded again; batches and CPUs differ by less than a hundredth of it."""


class Finding(NamedTuple):
    """One line of the report."""

    name: str
    level: Level
    detail: str
    advice: str = ""
    """What to do about it; empty where nothing is to be done."""


def check(config: Config, *, embedder: Embedder | None = None) -> list[Finding]:
    """Look at everything in the database; never raises for what it holds, and never quotes it.

    Args:
        config: The effective settings.
        embedder: Stands in for the configured model.
    """
    path = database_path(config.data_dir)
    found = [Finding("sqlite", "ok", DRIVER)]
    kept = [*_backups(config), *_damaged(config)]
    if not path.exists():
        return [*found, Finding("database", "ok", f"none yet at {path}"), *kept]
    try:
        store = ReadOnlyStore(path)
    except StoreError as exc:
        return [*found, _broken(exc), *kept]
    try:
        with store.read() as connection:
            found += _look(connection, config, embedder)
    except StoreError as exc:
        found.append(_broken(exc))
    finally:
        store.close()
    return [*found, *kept]


def _broken(exc: StoreError) -> Finding:
    return Finding("database", "fail", Exception.__str__(exc), exc.hint or FIX)


def _look(connection: Connection, config: Config, embedder: Embedder | None) -> list[Finding]:
    path = database_path(config.data_dir)
    version = migrations.schema_version(connection)
    if (of := migrations.true_version(connection)) != version:
        return [Finding("database", "fail", f"{path} says that it has schema {version}, but it has {of}", FIX)]
    if version < migrations.SCHEMA_VERSION:
        detail = f"{path}, schema {version}: it is brought up to {migrations.SCHEMA_VERSION} at the next start"
        return [Finding("database", "warn", detail, "start the daemon; a backup is made first")]
    size = path.stat().st_size / 1e6
    found = [Finding("database", "ok", f"{path} ({size:,.1f} MB, schema {version})")]
    if missing := schema.missing(connection):
        return [*found, Finding("schema", "fail", f"lacks {', '.join(missing)}", FIX), _told(checks.pages(connection))]
    found.append(Finding("schema", "ok", "all tables, indexes and triggers are there"))
    found += [_told(finding) for finding in checks.check(connection, is_deep=True)]
    looks: tuple[tuple[str, Callable[[], Finding]], ...] = (
        ("vector sample", lambda: _sample(connection, config, embedder)),
        ("forgotten texts", lambda: _wiping(connection)),
        ("transcripts", lambda: _sources(connection)),
    )
    return [*found, *(_looked(name, look) for name, look in looks)]


def _looked(name: str, look: Callable[[], Finding]) -> Finding:
    """Look at one thing; where a row is too odd for that, say so, but not in foreign words, which may quote it."""
    try:
        return look()
    except (Error, PalaceError):
        raise
    except Exception as exc:  # noqa: BLE001 - whatever a row provokes, the rest is to be looked at
        return Finding(name, "fail", f"cannot be looked at: {type(exc).__name__}", FIX)


def _told(finding: checks.Finding) -> Finding:
    if finding.is_ok:
        return Finding(finding.name, "ok", finding.detail)
    return Finding(finding.name, "fail", finding.detail, FIX)


def _sample(connection: Connection, config: Config, embedder: Embedder | None) -> Finding:
    name = "vector sample"
    space = spaces.read(connection).answering.model
    if not space:
        return Finding(name, "ok", "no vectors yet")
    try:
        made_by = embedder or open_embedder(config, space)
    except ModelError as exc:
        return Finding(name, "warn", f"not compared: {exc}", "install the model, then look again")
    if made_by is None:
        return Finding(name, "ok", f"not compared: {space} is not the configured model's; it is being replaced")
    try:
        return _compared(connection, made_by, space)
    finally:
        if embedder is None:
            made_by.close()


def _compared(connection: Connection, embedder: Embedder, space: str) -> Finding:
    compared, wrong = differing(connection, embedder, space)
    if not compared:
        return Finding("vector sample", "ok", "no vectors yet")
    if wrong:
        detail = f"{wrong} of {compared} texts have another vector than {space} makes of them"
        return Finding("vector sample", "fail", detail, FIX)
    return Finding("vector sample", "ok", f"{compared} texts embedded again have the same vectors")


def open_embedder(config: Config, space: str) -> Embedder | None:
    """Return the configured model, if it is installed and the one that made the vectors of ``space``.

    Raises:
        ModelError: It is not installed, or broken.
    """
    if build.open_model(config, config.embed.model).space != space:
        return None
    return build.loader(config, config.embed.model, may_install=False)(threading.Event())


def differing(connection: Connection, embedder: Embedder, space: str) -> tuple[int, int]:
    """Embed a few stored texts again; return how many, and how many came out differently."""
    rows = _spread(connection, space)
    texts = vectors.with_texts(connection, [text_hash for text_hash, _ in rows])
    if not texts:
        return 0, 0
    made = embedder.embed_passages([text for _, text in texts])
    wrong = 0
    for (_, stored), vector in zip(rows, made, strict=True):
        is_whole = packing.is_packed(stored) and packing.dim_of(stored) == embedder.dim
        held = packing.unpack([stored])[0] if is_whole else np.zeros(embedder.dim, np.float32)
        wrong += not float(held @ vector) >= COSINE_MIN  # "not a number" is wrong, too
    return len(rows), wrong


def _spread(connection: Connection, space: str) -> list[tuple[bytes, bytes]]:
    """Return up to :data:`SAMPLED` vectors from all over the table, always the same ones."""
    of = spaces.number(space)
    first, last = connection.execute("SELECT min(id), max(id) FROM vectors WHERE space=?", (of,)).fetchone()
    if first is None:
        return []
    found = {}
    after = first - 1
    for number in range(SAMPLED):
        row = connection.execute(
            "SELECT v.id, v.text_hash, CAST(v.vector AS BLOB) FROM vectors v WHERE v.id>=? AND v.space=? AND"
            " (v.text_hash IN (SELECT text_hash FROM drawers) OR v.text_hash IN (SELECT text_hash FROM statements))"
            " ORDER BY v.id LIMIT 1",
            (max(after + 1, first + (last - first) * number // SAMPLED), of),
        ).fetchone()
        if row is not None:
            after, text_hash, vector = row
            found[text_hash] = vector
    return list(found.items())


def _wiping(connection: Connection) -> Finding:
    if forgetting.has_traces(connection):
        advice = "start the daemon, which does it within a minute"
        return Finding("forgotten texts", "warn", "are gone from recall, but not from the file yet", advice)
    return Finding("forgotten texts", "ok", "none is left in the file")


def _sources(connection: Connection) -> Finding:
    totals = views.totals(connection)
    states = ", ".join(f"{number:,} {state}" for state, number in sorted(totals.sources.items())) or "none yet"
    if failed := totals.sources.get("failed", 0):
        return Finding("transcripts", "warn", states, f"`palace-daemon sources` says why {failed:,} could not be read")
    return Finding("transcripts", "ok", states)


def _backups(config: Config) -> list[Finding]:
    held = backups.newest_first(database_path(config.data_dir))
    if not held:
        return []
    size = sum(one.size_bytes for one in held) / 1e6
    return [
        Finding(
            "backups", "ok", f"{len(held)} in {held[0].path.parent} ({size:,.1f} MB), the newest {held[0].path.name}"
        )
    ]


def _damaged(config: Config) -> list[Finding]:
    held = backups.damaged(database_path(config.data_dir))
    if not held:
        return []
    advice = "delete them when nothing is missed; forgetting deletes them, too"
    return [Finding("damaged files", "warn", f"kept aside: {', '.join(path.name for path in held)}", advice)]


def model(config: Config) -> list[Finding]:
    """Look at the configured model: known, installed, its files as they were built; and at this CPU's arithmetic."""
    from palace_daemon.embed import arithmetic, registry  # noqa: PLC0415 - not needed for the rest

    found: list[Finding] = []
    try:
        folder = registry.check_installed(config.embed.model, places.models_dir(), hashes=True)
    except ModelError as exc:
        advice = exc.hint or registry.INSTALL_HINT
        found.append(Finding("model", "fail", Exception.__str__(exc), advice))
    else:
        found.append(Finding("model", "ok", f"{config.embed.model} in {folder}, files as they were built"))
    found.append(_arithmetic(arithmetic.integer_arithmetic()))
    return found


def _arithmetic(found: IntegerArithmetic) -> Finding:
    if found.products != "exact":
        advice = "choose the fp32 model: `palace-daemon model use all-minilm-l6-v2-fp32`"
        return Finding("arithmetic", "warn", "integer products saturate on this CPU: int8 vectors differ", advice)
    return Finding(
        "arithmetic", "ok", "integer products are exact" + (", in the slower kernels" if found.precise_kernels else "")
    )
