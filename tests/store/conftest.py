from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from palace_daemon.embed.tokens import MiniLmTokenCounter
from palace_daemon.model import Cursor, Exchange, ExchangeKey, FileStat, ParseResult, SessionFacts
from palace_daemon.store import sources
from palace_daemon.store.exchanges import SaveReport
from palace_daemon.store.sqlite import database_path
from palace_daemon.store.store import SourceBatch, Store

Opener = Callable[..., Store]
Saver = Callable[..., SaveReport]


@pytest.fixture(scope="session")
def counter() -> MiniLmTokenCounter:
    return MiniLmTokenCounter()


@pytest.fixture
def open_store(tmp_path: Path, counter: MiniLmTokenCounter) -> Iterator[Opener]:
    opened: list[Store] = []

    def open_(directory: Path = tmp_path / "data", min_user_turns: int = 3) -> Store:
        store = Store(
            database_path(directory),
            counter=counter,
            max_chars={"exchange": 2_000, "paragraph": 800},
            min_user_turns=min_user_turns,
            project_of=lambda cwd: cwd,
        )
        opened.append(store)
        return store

    yield open_
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Opener) -> Store:
    return open_store()


def save_all(
    store: Store,
    path: str,
    *exchanges: Exchange,
    reading: int | None = None,
    is_at_end: bool = True,
    sessions: tuple[SessionFacts, ...] = (),
    lines_skipped: dict[str, int] | None = None,
    superseded_keys: tuple[str, ...] = (),
    withdrawn_keys: tuple[str, ...] = (),
) -> SaveReport:
    """Save exchanges as if ``path`` had told them in one pass; ``reading`` None begins the first pass or goes on."""

    def begin(connection: object) -> tuple[int, int]:
        known = sources.find(connection, path)  # type: ignore[arg-type]
        source_id = sources.ensure(connection, path)  # type: ignore[arg-type]
        if known is None or (reading is not None and known.reading < reading):
            number = sources.begin_reading(
                connection,  # type: ignore[arg-type]
                source_id,
                agent="claude-code",
                format_name="test",
                format_version=1,
            )
            return source_id, number
        return source_id, known.reading

    source_id, number = store.write(begin)
    batch = SourceBatch(
        source_id=source_id,
        reading=number,
        cursor=Cursor(offset=10, stat=FileStat(size=10, mtime_ns=1, ctime_ns=1, device=1, inode=source_id)),
        parser_state=b"",
        result=ParseResult(
            exchanges=exchanges,
            sessions=sessions,
            lines_read=1,
            lines_skipped=lines_skipped or {},
            superseded_keys=tuple(map(ExchangeKey, superseded_keys)),
            withdrawn_keys=tuple(map(ExchangeKey, withdrawn_keys)),
        ),
        is_at_end=is_at_end,
    )
    return store.save(batch, mined_at=1)


@pytest.fixture
def save() -> Saver:
    return save_all
