"""What a transcript format is: the seam that every agent's module fills.

To add a format: write one module with a class that satisfies :class:`TranscriptFormat`, name it in
:mod:`palace_daemon.core.transcripts.registry`, add its samples under ``tests/data``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from palace_daemon.model import ParseResult

Redactor = Callable[[str], str]
"""Takes a text, returns it with secrets replaced by labelled placeholders."""


class SourceParser(Protocol):
    """Reads one source incrementally. Single-threaded; holds no file.

    Feeding the same bytes in any cuts gives the same exchanges, and so does a parser restored from a snapshot that is
    fed from :attr:`offset` on.
    """

    @property
    def offset(self) -> int:
        """Bytes consumed: up to and including the last complete line."""
        ...

    def feed(self, data: bytes) -> ParseResult:
        """Consume the next bytes. An incomplete last line is held back. Never raises for what the bytes hold."""
        ...

    def take_tail(self) -> ParseResult:
        """Consume the held-back last line if it is one whole record; otherwise leave it."""
        ...

    def snapshot(self) -> bytes:
        """Return the state at :attr:`offset`; the held-back bytes are not part of it. Redacted text only."""
        ...


class TranscriptFormat(Protocol):
    """One file format of one agent."""

    name: str
    """Stable, such as ``claude-code-jsonl``; stored with each source."""
    agent: str
    """Such as ``claude-code``; what ``--agent`` takes."""
    version: int
    """Raised when parsing changes: sources of an older version are read anew."""

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return where this agent writes, existing or not; ``platform`` is a value of ``sys.platform``."""
        ...

    def may_hold(self, path: str) -> bool:
        """Return whether a path below a watched directory can be such a transcript (by its name alone)."""
        ...

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` (up to 64 KiB) is one."""
        ...

    def open(self, path: str, redact: Redactor, state: bytes | None = None) -> SourceParser:
        """Return a parser for the source at ``path``, fresh or restored from :meth:`SourceParser.snapshot`.

        Raises:
            ValueError: ``state`` is of another version; read the source anew.
        """
        ...
