"""Kimi Code: the wire logs below ``~/.kimi-code/sessions``, one for each agent of a session.

Invariant: a prompt stands in the log twice, as the turn's input and as a message of the model's context; it is taken
once.
"""

from __future__ import annotations

from collections.abc import Mapping

from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.kimi.reader import KimiReader
from palace_daemon.core.transcripts.kimi.records import AGENT, KimiRecord, decoder, sniff
from palace_daemon.core.transcripts.line_parser import LineParser
from palace_daemon.core.transcripts.reading.homes import below, below_home
from palace_daemon.core.transcripts.reading.words import path_parts

SUFFIXES = (".jsonl",)

_NO_SESSION = frozenset({"session_index.jsonl"})


class KimiFormat:
    """Wire logs of Kimi Code, protocol 1.3 and 1.4. Stateless and thread-safe."""

    name = "kimi-wire-jsonl"
    agent = AGENT
    version = 1
    shape: Shape = "lines"
    suffixes: tuple[str, ...] = SUFFIXES
    is_secondary = False

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the sessions below ``KIMI_CODE_HOME``, else below ``~/.kimi-code``."""
        root = environ.get("KIMI_CODE_HOME") or below_home(environ, home, platform, ".kimi-code")
        return (below(root, platform, "sessions"),)

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` can be a wire log by its name."""
        name = path_parts(path)[-1]
        return name.endswith(SUFFIXES) and name not in _NO_SESSION

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is one."""
        return sniff(head)

    def open(
        self,
        path: str,
        redact: Redactor,
        state: bytes | None = None,
        beside: Beside = NOTHING_BESIDE,  # noqa: ARG002 - what lies beside it was not seen in any sample
    ) -> LineParser[KimiRecord]:
        """Return a parser for the source at ``path``; the path names the session."""
        return LineParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            decoder=decoder(),
            reader=KimiReader(path_parts(path)),
            redact=redact,
            state=state,
        )
