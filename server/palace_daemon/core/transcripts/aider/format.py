"""Aider: the chat history that it keeps in a project's root.

Invariant: times in the history are local and name no zone. They are kept as if they were UTC, as the time of the
session and never as an exact one.
"""

from __future__ import annotations

from collections.abc import Mapping

from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.aider.sessions import AGENT, HEADER, read_session
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.document_parser import TextParser, decode_text
from palace_daemon.core.transcripts.reading.text_lines import TextLines
from palace_daemon.core.transcripts.reading.words import path_parts
from palace_daemon.core.turns import Reading

_SUFFIXES = (".md",)
_HISTORY_NAME = ".aider.chat.history.md"


class AiderFormat:
    """``.aider.chat.history.md``. Stateless and thread-safe."""

    name = "aider-history"
    agent = AGENT
    version = 1
    shape: Shape = "document"
    suffixes: tuple[str, ...] = _SUFFIXES
    is_secondary = False

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:  # noqa: ARG002
        """Return nothing: the history lies in each project, and projects lie anywhere."""
        return ()

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` can be a history by its name."""
        return path_parts(path)[-1] == _HISTORY_NAME

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is one: the first line that is not blank opens a session."""
        text, _ = decode_text(head)
        return bool(HEADER.match(text.lstrip()))

    def open(
        self,
        path: str,
        redact: Redactor,
        state: bytes | None = None,
        beside: Beside = NOTHING_BESIDE,  # noqa: ARG002 - the text says everything
    ) -> TextParser:
        """Return a parser for the source at ``path``, whose folder is the project."""
        return TextParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            reader=AiderReader(path),
            redact=redact,
            state=state,
        )


class AiderReader:
    """A history to events."""

    def __init__(self, path: str) -> None:
        """Take the source's path, which tells the project where the history lies at its usual place."""
        *folders, name = path_parts(path)
        self._project = folders[-1] if folders else ""
        self._cwd = path[: -len(name) - 1] if name == _HISTORY_NAME and "!/" not in path else ""

    def read(self, text: str) -> list[Reading]:
        """Return what the history yields, session by session."""
        lines = TextLines(text)
        headers = [
            index
            for index, line in enumerate(lines.lines)
            if line.startswith("# aider") and HEADER.fullmatch(line) and lines.is_blank(index - 1)
        ]
        readings = []
        known: dict[str, int] = {}
        for first, end in zip([0, *headers], [*headers, len(lines.lines)], strict=True):
            if not lines.text(first, end):
                continue
            header = HEADER.fullmatch(lines.lines[first]) if first or headers[:1] == [0] else None
            start = header[1] if header else ""
            known[start] = known.get(start, 0) + 1
            name = f"{self._project}@{start.replace(' ', 'T')}"
            name = name if known[start] == 1 else f"{name}#{known[start]}"
            readings.append(read_session(lines, first + bool(header), end, session=name, start=start, cwd=self._cwd))
        return readings
