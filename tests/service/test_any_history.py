"""Whatever happened to the files on the way, the store holds what mining the final files once would give."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st
from support import histories
from support.claude import queue_line, reply, turn, user

SESSIONS = ("s1", "s2", "s3")
USUAL = 40


class World(histories.World):
    """A directory of transcripts, and a person and programs who work on it."""

    def __init__(self, directory: Path, open_palace: Callable[[], Any], seed: int) -> None:
        super().__init__(directory, open_palace, seed)
        self.second = 0
        self.files: dict[str, str] = {}
        """Path to the session id that its writer uses."""

    def _path(self) -> Path | None:
        names = sorted(self.files)
        return Path(self.chance.choice(names)) if names else None

    def _new(self) -> Path:
        path = self.directory / f"f{len(list(self.directory.iterdir()))}-{self.chance.randrange(10**6)}.jsonl"
        self.files[str(path)] = self.chance.choice(SESSIONS)
        return path

    def _lines(self, session: str, count: int) -> str:
        text = ""
        for _ in range(count):
            self.second += 10
            name = f"{session}-{self.second}"
            long = "A paragraph of the answer. " * self.chance.choice((1, 1, 60, 200))
            match self.chance.randrange(9):
                case 0:
                    text += user(f"u{name}", f"Question {name}?", session=session, at=self.second)
                case 1:
                    text += reply(f"a{name}", f"More {name}. {long}", session=session, at=self.second)
                case 2:
                    text += '{"type": "user", broken\n'
                case 3:
                    text += queue_line("enqueue", f"Queued {name}.", self.second, session=session)
                case 4:
                    fate = self.chance.choice(("remove", "dequeue", "popAll"))
                    text += queue_line(fate, at=self.second, session=session)
                case _:
                    text += turn(self.second // 10, f"Question {name}?", f"Answer {name}. {long}", session=session)
        return text

    # -- what can happen

    def append(self) -> None:
        path = self._path() if self.files and self.chance.random() < 0.8 else self._new()
        assert path is not None
        with path.open("a") as file:
            file.write(self._lines(self.files[str(path)], self.chance.randint(1, 4)))

    def write_half_a_line(self) -> None:
        if path := self._path():
            line = self._lines(self.files[str(path)], 1)
            cut = self.chance.randrange(1, len(line))
            with path.open("a") as file:
                file.write(line[:cut])
            self.mine()
            with path.open("a") as file:
                file.write(line[cut:])

    def resume_in_a_copy(self) -> None:
        if path := self._path():
            session = self.files[str(path)]
            shutil.copyfile(path, copy := self._new())
            self.files[str(copy)] = session

    def fork(self) -> None:
        if path := self._path():
            copy = self._new()
            copy.write_text(path.read_text().replace(f'"{self.files[str(path)]}"', f'"{self.files[str(copy)]}"'))

    def rewrite(self) -> None:
        if path := self._path():
            path.write_text(self._rewritten(path, lines_min=0))

    def replace(self) -> None:
        if path := self._path():
            other = path.with_suffix(".tmp")
            other.write_text(path.read_text() + self._lines(self.files[str(path)], 2))
            other.replace(path)

    def rename(self) -> None:
        if path := self._path():
            session = self.files.pop(str(path))
            path.rename(moved := self._new())
            self.files[str(moved)] = session

    def compress(self) -> None:
        if path := self._path():
            del self.files[str(path)]
            path.with_suffix(".jsonl.zst").write_bytes(zstandard.compress(path.read_bytes()))
            path.unlink()


@histories.tried(USUAL)
@given(steps=histories.steps_of(World), seed=st.integers(0, 10**6))
@example(steps=["write_half_a_line"] * 3, seed=927)  # a line without its line feed is taken, and gets it later
@pytest.mark.timeout(histories.timeout_s(USUAL))
def test_the_history_of_the_files_does_not_matter(
    make_palace: Any, tmp_path_factory: pytest.TempPathFactory, steps: list[str], seed: int
) -> None:
    lived, once = histories.lived_and_fresh(World, make_palace, tmp_path_factory.mktemp("history"), steps, seed)
    assert lived == once
