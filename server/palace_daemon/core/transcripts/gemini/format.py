"""Gemini CLI: the sessions below ``~/.gemini/tmp``, in lines since 0.39 and as whole documents before.

Invariant: a session that was resumed across that change stands in both forms, and both give the same keys.
"""

from __future__ import annotations

from collections.abc import Mapping

from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.document_parser import DocumentParser
from palace_daemon.core.transcripts.gemini.project import CHATS, Location
from palace_daemon.core.transcripts.gemini.reader import GeminiDocumentReader, GeminiReader
from palace_daemon.core.transcripts.gemini.records import AGENT, GeminiRecord, decoder, sniff_json, sniff_jsonl
from palace_daemon.core.transcripts.line_parser import LineParser
from palace_daemon.core.transcripts.reading.homes import below, below_home
from palace_daemon.core.transcripts.reading.words import path_parts

_PREFIX = "session-"
_TMP = (".gemini", "tmp")


def _default_dirs(environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
    """Return the folder above all projects' chats; ``GEMINI_CLI_HOME`` stands for the home directory."""
    moved = environ.get("GEMINI_CLI_HOME", "")
    return (below(moved, platform, *_TMP) if moved else below_home(environ, home, platform, *_TMP),)


class GeminiLinesFormat:
    """JSON lines of Gemini CLI since 0.39. Stateless and thread-safe."""

    name = "gemini-jsonl"
    agent = AGENT
    version = 1
    shape: Shape = "lines"
    suffixes: tuple[str, ...] = (".jsonl",)
    is_secondary = False

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the folder above all projects' chats."""
        return _default_dirs(environ, home, platform)

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` has the ending; the program keeps nothing else in this grammar."""
        return path.endswith(self.suffixes)

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is one."""
        return sniff_jsonl(head)

    def open(
        self, path: str, redact: Redactor, state: bytes | None = None, beside: Beside = NOTHING_BESIDE
    ) -> LineParser[GeminiRecord]:
        """Return a parser for the source at ``path``; the path names the parent, what lies beside it the project."""
        return LineParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            decoder=decoder(),
            reader=GeminiReader(Location(path), beside),
            redact=redact,
            state=state,
        )


class GeminiDocumentFormat:
    """Whole JSON documents of Gemini CLI before 0.39. Stateless and thread-safe."""

    name = "gemini-json"
    agent = AGENT
    version = 1
    shape: Shape = "document"
    suffixes: tuple[str, ...] = (".json",)
    is_secondary = True  # a resumed session goes on in a .jsonl that holds all of it

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the folder above all projects' chats."""
        return _default_dirs(environ, home, platform)

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` is that of a session or a sub-agent's: no prompt log, checkpoint or tool output."""
        *folders, name = path_parts(path)
        is_session = folders[-1:] == [CHATS] and name.startswith(_PREFIX)
        return name.endswith(self.suffixes) and (is_session or folders[-2:-1] == [CHATS])

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is one."""
        return sniff_json(head)

    def open(
        self, path: str, redact: Redactor, state: bytes | None = None, beside: Beside = NOTHING_BESIDE
    ) -> DocumentParser:
        """Return a parser for the source at ``path``; the path names the parent, what lies beside it the project."""
        return DocumentParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            reader=GeminiDocumentReader(Location(path), beside),
            redact=redact,
            state=state,
        )
