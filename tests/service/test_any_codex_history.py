"""Codex threads, forks of them and forks of these: whatever order files came in, the store holds each turn once.

And it holds what mining the final files once would give, with the same times.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st
from support import histories
from support.claude import append
from support.day_sessions import CodexSession, Day, Session

USUAL = 25


class World(histories.World):
    """Threads below one home, and what people and programs do to their files."""

    def __init__(self, directory: Path, open_palace: Callable[[], Any], seed: int) -> None:
        super().__init__(directory, open_palace, seed)
        self.day = Day(self.chance)
        self.threads: list[Session] = []
        self.begin()

    def _some(self) -> Session | None:
        there = [one for one in self.threads if one.path.is_file() and one.path.stat().st_size]
        return self.chance.choice(there) if there else None

    # -- what can happen

    def begin(self) -> None:
        self.threads.append(CodexSession.new(self.day, self.directory))
        self.append()

    def append(self) -> None:
        session = self.chance.choice(self.threads)
        for _ in range(self.chance.randint(1, 6)):
            append(session.path, session.more())

    def half_line(self) -> None:
        session = self.chance.choice(self.threads)
        append(session.path, session.half())
        self.mine()

    def fork(self) -> None:
        if session := self._some():
            data = session.path.read_text()
            other, text = session.copy(data[: data.rfind("\n") + 1])
            append(other.path, text)
            if self.chance.random() < 0.7:
                append(other.path, other.more())
            self.threads.append(other)

    def fork_the_newest(self) -> None:
        if self.threads[-1].path.is_file():
            self.threads, others = self.threads[-1:], self.threads[:-1]
            self.fork()
            self.threads = others + self.threads

    def rewrite(self) -> None:
        if session := self._some():
            session.torn = ""
            text = self._rewritten(session.path, lines_min=1)
            session.path.write_text(text if text.endswith("\n") else text + "\n")

    def archive(self) -> None:
        if session := self._some():
            folder = self.directory / ".codex" / "archived_sessions"
            folder.mkdir(parents=True, exist_ok=True)
            session.path = session.path.rename(folder / session.path.name)

    def compress(self) -> None:
        if session := self._some():
            session.path.with_suffix(".jsonl.zst").write_bytes(zstandard.compress(session.path.read_bytes()))
            self._end(session)

    def delete(self) -> None:
        if session := self._some():
            self._end(session)

    def _end(self, session: Session) -> None:
        session.path.unlink()
        self.threads.remove(session)
        if not self.threads:
            self.begin()


@histories.tried(USUAL)
@given(steps=histories.steps_of(World), seed=st.integers(0, 10**6))
@example(steps=["append", "mine", "fork_the_newest", "mine", "fork_the_newest", "mine"], seed=1)
@pytest.mark.timeout(histories.timeout_s(USUAL))
def test_the_history_of_threads_and_their_forks_does_not_matter(
    make_palace: Any, tmp_path_factory: pytest.TempPathFactory, steps: list[str], seed: int
) -> None:
    lived, once = histories.lived_and_fresh(World, make_palace, tmp_path_factory.mktemp("history"), steps, seed)
    assert lived == once
    threads = {(rest[1], key.split(":")[1]) for key, (rest, *_) in once.items()}
    assert len(threads) == len({question for question, _ in threads}), "a turn is told as one of two threads"


@pytest.mark.parametrize("order", range(6))
def test_a_fork_of_a_fork_tells_of_each_turn_once_and_keeps_its_time(
    make_palace: Any, tmp_path: Path, order: int
) -> None:
    day = Day(random.Random(3))
    threads: list[Session] = [CodexSession.new(day, tmp_path / "home")]
    for number in range(3):
        if number:
            other, text = threads[-1].copy(threads[-1].path.read_text())
            threads.append(other)
            append(other.path, text)
        for _ in range(7):
            append(threads[-1].path, threads[-1].more())
    palace = make_palace(tmp_path / "data")
    files = [str(one.path) for one in threads]
    random.Random(order).shuffle(files)
    for file in files:
        palace.mine([file], wait=True)
    for thread in threads:
        alone = make_palace(tmp_path / f"alone-{thread.name}")
        alone.mine([str(thread.path)], wait=True)
        told = [(one.exchange_id, one.started_at) for one in alone.timeline(thread.name)]
        assert [(one.exchange_id, one.started_at) for one in palace.timeline(thread.name)] == told
    asked = [one.user_text for thread in threads for one in palace.timeline(thread.name)]
    assert len(asked) == len(set(asked)) == len(day.told)
