"""What ``doctor`` says of a data directory's database."""

from __future__ import annotations

from palace_daemon.config import Config
from palace_daemon.errors import StoreError
from palace_daemon.store import check as checks
from palace_daemon.store.sqlite import DRIVER, database_path
from palace_daemon.store.store import ReadOnlyStore


def check(config: Config) -> list[tuple[str, bool, str]]:
    """Return each check as (name, passed, detail); never raises for what the database holds."""
    path = database_path(config.data_dir)
    found: list[tuple[str, bool, str]] = [("sqlite", True, DRIVER)]
    if not path.exists():
        return [*found, ("database", True, f"none yet at {path}")]
    try:
        store = ReadOnlyStore(path)
    except StoreError as exc:
        return [*found, ("database", False, str(exc))]
    try:
        with store.read() as connection:
            found.append(("database", True, str(path)))
            found += [
                (finding.name, finding.is_ok, finding.detail) for finding in checks.check(connection, is_deep=True)
            ]
    except StoreError as exc:
        found.append(("database", False, str(exc)))
    finally:
        store.close()
    return found
