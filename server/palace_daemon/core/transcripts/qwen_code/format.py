"""Qwen Code: the chats below ``~/.qwen``.

Invariant: the file keeps abandoned branches. A ``rewind`` record tells which record the conversation goes on from.
"""

from __future__ import annotations

from collections.abc import Mapping

from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.line_parser import LineParser
from palace_daemon.core.transcripts.qwen_code.reader import QwenReader
from palace_daemon.core.transcripts.qwen_code.records import AGENT, QwenRecord, decoder, sniff
from palace_daemon.core.transcripts.reading.homes import below, below_home
from palace_daemon.core.transcripts.reading.words import path_parts

SUFFIXES = (".jsonl",)

_FOLDERS = ("projects", "tmp")
"""Chats of today, and of versions that named projects by a hash."""


class QwenCodeFormat:
    """JSON lines of Qwen Code 0.1 to 0.21. Stateless and thread-safe."""

    name = "qwen-code-jsonl"
    agent = AGENT
    version = 1
    shape: Shape = "lines"
    suffixes: tuple[str, ...] = SUFFIXES
    is_secondary = False

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the folders below ``QWEN_RUNTIME_DIR`` or ``QWEN_HOME``, else below ``~/.qwen``."""
        root = environ.get("QWEN_RUNTIME_DIR") or environ.get("QWEN_HOME")
        root = root or below_home(environ, home, platform, ".qwen")
        return tuple(below(root, platform, folder) for folder in _FOLDERS)

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` can be a chat by its name."""
        return path_parts(path)[-1].endswith(SUFFIXES)

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is one."""
        return sniff(head)

    def open(
        self,
        path: str,
        redact: Redactor,
        state: bytes | None = None,
        beside: Beside = NOTHING_BESIDE,  # noqa: ARG002 - its lines say everything
    ) -> LineParser[QwenRecord]:
        """Return a parser for the source at ``path``; the path names the session where the lines do not."""
        return LineParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            decoder=decoder(),
            reader=QwenReader(path_parts(path)[-1].removesuffix(".jsonl"), redact),
            redact=redact,
            state=state,
        )
