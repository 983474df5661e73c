"""Codex (command line, editor, desktop): the rollouts below ``~/.codex``.

Invariant: a user's words stand in the file twice, as event and as item; each is taken once.
"""

from __future__ import annotations

import ntpath
import posixpath
from collections.abc import Mapping

from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.codex.reader import CodexReader
from palace_daemon.core.transcripts.codex.records import AGENT, CodexRecord, decoder, sniff
from palace_daemon.core.transcripts.line_parser import LineParser
from palace_daemon.core.transcripts.reading.words import path_parts

SUFFIXES = (".jsonl",)
"""Endings of rollouts, without that of a compression: cold ones become ``.jsonl.zst``; where both exist, the plain file
is read."""

_FOLDERS = ("sessions", "archived_sessions")
_NO_ROLLOUT = frozenset({"history.jsonl", "session_index.jsonl"})


class CodexFormat:
    """JSON lines of Codex 0.2x to 0.14x, and the bare logs before. Stateless and thread-safe."""

    name = "codex-jsonl"
    agent = AGENT
    version = 2
    shape: Shape = "lines"
    suffixes: tuple[str, ...] = SUFFIXES
    is_secondary = False

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the live and the archived sessions below ``CODEX_HOME`` (a comma list), else ``~/.codex``."""
        paths = ntpath if platform == "win32" else posixpath
        roots = [part.strip() for part in environ.get("CODEX_HOME", "").split(",") if part.strip()]
        if not roots:
            if platform == "win32":
                home = environ.get("USERPROFILE") or home
            roots = [paths.join(home, ".codex")]
        return tuple(dict.fromkeys(paths.join(root, folder) for root in roots for folder in _FOLDERS))

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` can be a rollout by its name."""
        name = path_parts(path)[-1]
        return name.endswith(SUFFIXES) and name not in _NO_ROLLOUT

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is one."""
        return sniff(head)

    def open(
        self,
        path: str,
        redact: Redactor,
        state: bytes | None = None,
        beside: Beside = NOTHING_BESIDE,  # noqa: ARG002 - its lines say everything
    ) -> LineParser[CodexRecord]:
        """Return a parser for the source at ``path``; the path names the thread where the lines do not."""
        return LineParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            decoder=decoder(),
            reader=CodexReader(path_parts(path)[-1], redact),
            redact=redact,
            state=state,
        )
