"""iFlow: the sessions below ``~/.iflow/projects``, in Claude Code's grammar.

Invariant: its reader is Claude Code's. Ids of sessions (``session-<uuid>``) and messages (``response-<ms>``) tell the
files apart.
"""

from __future__ import annotations

from collections.abc import Mapping

from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.claude_code.reader import ClaudeReader
from palace_daemon.core.transcripts.claude_code.records import ClaudeRecord, decoder
from palace_daemon.core.transcripts.iflow import records as iflow_records
from palace_daemon.core.transcripts.line_parser import LineParser
from palace_daemon.core.transcripts.reading.homes import below_home
from palace_daemon.core.transcripts.reading.words import path_parts

AGENT = "iflow"

SUFFIXES = (".jsonl",)


class IflowFormat:
    """JSON lines of iFlow CLI. Stateless and thread-safe."""

    name = "iflow-jsonl"
    agent = AGENT
    version = 1
    shape: Shape = "lines"
    suffixes: tuple[str, ...] = SUFFIXES
    is_secondary = False

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the folder of all projects' sessions."""
        return (below_home(environ, home, platform, ".iflow", "projects"),)

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` can be a session by its name."""
        return path_parts(path)[-1].endswith(SUFFIXES)

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is one."""
        return iflow_records.sniff(head)

    def open(
        self,
        path: str,
        redact: Redactor,
        state: bytes | None = None,
        beside: Beside = NOTHING_BESIDE,  # noqa: ARG002 - its lines say everything
    ) -> LineParser[ClaudeRecord]:
        """Return a parser for the source at ``path``; the path names the session where the lines do not."""
        return LineParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            decoder=decoder(),
            reader=ClaudeReader(path_parts(path), redact, self.agent),
            redact=redact,
            state=state,
        )
