"""The transcripts of a working day, and what agents and people do to them."""

from __future__ import annotations

from pathlib import Path

import zstandard

from support.claude import append
from support.day_sessions import BEGINNINGS, Day, Session

LIVE = 20
TURNS_MAX = 24
"""After which a session has ended, and another begins."""


class Desk:
    """Twenty live sessions, and the files of those that have ended. Each method is one thing that can happen."""

    def __init__(self, home: Path, day: Day) -> None:
        self.home = home
        self.day = day
        self.chance = day.chance
        self.live = [self._begin(number) for number in range(LIVE)]
        self.ended: list[Path] = []
        """Plain files that nobody writes to any more."""
        self.deleted: list[Path] = []

    @property
    def folders(self) -> list[Path]:
        """What agents write to and archive in."""
        claude, codex = self.home / ".claude" / "projects", self.home / ".codex"
        return [claude, codex / "sessions", codex / "archived_sessions"]

    def files(self) -> list[Path]:
        """Return all files that are there."""
        return sorted(path for folder in self.folders for path in folder.rglob("*") if path.is_file())

    def _begin(self, number: int) -> Session:
        return BEGINNINGS[number % len(BEGINNINGS)](self.day, self.home)

    def _some(self) -> Session:
        return self.chance.choice(self.live)

    def _written(self) -> Session | None:
        there = [session for session in self.live if session.path.is_file() and session.path.stat().st_size]
        return self.chance.choice(there) if there else None

    def _plain(self) -> Path | None:
        """Return an ended file, else that of a live session, which ends it."""
        if self.ended:
            return self.ended.pop(self.chance.randrange(len(self.ended)))
        session = self._written()
        if session is None:
            return None
        self._replace(session)
        return self.ended.pop()

    def _replace(self, session: Session, other: Session | None = None) -> None:
        """End a session and put another in its place."""
        place = self.live.index(session)
        if session.path.is_file():
            if session.torn:
                append(session.path, session.torn)
            self.ended.append(session.path)
        self.live[place] = other or self._begin(place)

    # -- what can happen

    def append(self) -> None:
        """A session goes on by a few lines."""
        session = self._some()
        if session.turns > TURNS_MAX:
            self._replace(session)
        else:
            append(session.path, session.more())

    def half_line(self) -> None:
        """A session goes on, and is seen in the middle of a line."""
        session = self._some()
        append(session.path, session.half())

    def burst(self) -> None:
        """Several sessions go on at once."""
        for session in self.chance.sample(self.live, 6):
            append(session.path, session.more())

    def copy(self) -> None:
        """A session is resumed in another file, under its id or a new one; the old one may go on, too."""
        session = self._written()
        if session is None:
            return
        data = session.path.read_text()
        other, text = session.copy(data[: data.rfind("\n") + 1])
        append(other.path, text)
        self._replace(session if self.chance.random() < 0.5 else self._some(), other)

    def rewrite(self) -> None:
        """A file is written anew in its place, with fewer lines, or other words in one of them."""
        session = self._written()
        if session is None:
            return
        lines = session.path.read_text().splitlines(keepends=True)
        if self.chance.random() < 0.5:
            lines = lines[: self.chance.randint(1, len(lines))]
        index = self.chance.randrange(len(lines))
        lines[index] = lines[index].replace("Answer", "Another answer").replace("Question", "Other question")
        session.torn = ""
        text = "".join(lines)
        session.path.write_text(text if text.endswith("\n") else text + "\n")

    def swap(self) -> None:
        """A file is replaced by a longer one at once."""
        session = self._written()
        if session is None:
            return
        other = session.path.with_suffix(".tmp")
        other.write_text(session.path.read_text() + session.more())
        other.replace(session.path)

    def truncate(self) -> None:
        """A file loses its end, in the middle of a line, too."""
        session = self._written()
        if session is None:
            return
        data = session.path.read_bytes()
        size = self.chance.randrange(len(data))
        if self.chance.random() < 0.7:
            size = data.rfind(b"\n", 0, size) + 1
        session.torn = ""
        with session.path.open("rb+") as file:
            file.truncate(size)

    def rename(self) -> None:
        """A transcript is moved to the archive."""
        path = self._plain()
        if path is None:
            return
        folder = self.folders[2] if ".codex" in path.parts else self.folders[0] / "-nowhere-archive"
        folder.mkdir(parents=True, exist_ok=True)
        path.rename(folder / path.name)

    def compress(self) -> None:
        """A transcript is compressed."""
        path = self._plain()
        if path is None:
            return
        path.with_suffix(".jsonl.zst").write_bytes(zstandard.compress(path.read_bytes()))
        path.unlink()

    def delete(self) -> None:
        """A transcript is deleted."""
        path = self._plain()
        if path is None:
            return
        self.deleted.append(path)
        path.unlink()

    def finish_lines(self) -> None:
        """Let every live session end the line that it began."""
        for session in self.live:
            if session.torn and session.path.is_file():
                append(session.path, session.torn)
            session.torn = ""
