"""Pi: the sessions below ``~/.pi/agent/sessions``.

Invariant: entries form a tree. One that follows another entry than the one before it begins a new branch, and the
turns of the branch that it leaves are superseded.
"""

from __future__ import annotations

from collections.abc import Mapping

from palace_daemon.core.jsonl import sniff_lines
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.line_parser import LineParser
from palace_daemon.core.transcripts.pi.reader import AGENT, PiEntry, PiReader, decoder, session_of
from palace_daemon.core.transcripts.reading.homes import below, below_home
from palace_daemon.core.transcripts.reading.words import as_text, path_parts

SUFFIXES = (".jsonl",)

_HEADS = decoder()


class PiFormat:
    """JSON lines of Pi, session versions 1 to 3. Stateless and thread-safe."""

    name = "pi-jsonl"
    agent = AGENT
    version = 1
    shape: Shape = "lines"
    suffixes: tuple[str, ...] = SUFFIXES
    is_secondary = False

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the sessions below ``PI_CODING_AGENT_DIR``, else below ``~/.pi/agent``."""
        root = environ.get("PI_CODING_AGENT_DIR") or below_home(environ, home, platform, ".pi", "agent")
        return (below(root, platform, "sessions"),)

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` can be a session by its name."""
        return path_parts(path)[-1].endswith(SUFFIXES)

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is one: its first entry tells of the session."""
        return sniff_lines(head, _HEADS, _is_ours, lambda _: False)

    def open(
        self,
        path: str,
        redact: Redactor,
        state: bytes | None = None,
        beside: Beside = NOTHING_BESIDE,  # noqa: ARG002 - its lines say everything
    ) -> LineParser[PiEntry]:
        """Return a parser for the source at ``path``; the path names the session where the lines do not."""
        return LineParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            decoder=decoder(),
            reader=PiReader(session_of(path)),
            redact=redact,
            state=state,
        )


def _is_ours(entry: PiEntry) -> bool:
    is_header = entry.type == "session" and isinstance(entry.cwd, str) and isinstance(entry.timestamp, str)
    return is_header and bool(as_text(entry.id))
