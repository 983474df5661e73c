"""Claude Code: the transcripts below ``~/.claude/projects``, sub-agents included.

Invariant: file order is conversation order. ``parentUuid`` tells rewinds only: walking the tree by its last child
would lose the text beside parallel tool calls.
"""

from __future__ import annotations

import ntpath
import posixpath
from collections.abc import Mapping

from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.claude_code.reader import ClaudeReader
from palace_daemon.core.transcripts.claude_code.records import AGENT, ClaudeRecord, decoder, sniff
from palace_daemon.core.transcripts.line_parser import LineParser
from palace_daemon.core.transcripts.reading.words import path_parts

SUFFIXES = (".jsonl",)
"""Endings of transcripts, without that of a compression."""

_NO_TRANSCRIPT = frozenset({"history.jsonl", "journal.jsonl"})
_COMPACTION_PREFIX = "agent-acompact-"
_TOOL_RESULTS = "tool-results"


class ClaudeCodeFormat:
    """JSON lines of Claude Code 1.0 to 2.1. Stateless and thread-safe."""

    name = "claude-code-jsonl"
    agent = AGENT
    version = 1
    shape: Shape = "lines"
    suffixes: tuple[str, ...] = SUFFIXES
    is_secondary = False

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the ``projects`` directories; ``CLAUDE_CONFIG_DIR`` (a comma list) replaces the usual places."""
        paths = ntpath if platform == "win32" else posixpath
        configured = [part.strip() for part in environ.get("CLAUDE_CONFIG_DIR", "").split(",") if part.strip()]
        if not configured:
            if platform == "win32":
                home = environ.get("USERPROFILE") or home
            xdg = environ.get("XDG_CONFIG_HOME") or paths.join(home, ".config")
            configured = [paths.join(home, ".claude"), paths.join(xdg, "claude")]
        return tuple(dict.fromkeys(paths.join(root, "projects") for root in configured))

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` can be a transcript: no prompt history, tool output or compaction helper."""
        *folders, name = path_parts(path)
        if not name.endswith(SUFFIXES) or name in _NO_TRANSCRIPT or name.startswith(_COMPACTION_PREFIX):
            return False
        return _TOOL_RESULTS not in folders

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is one."""
        return sniff(head)

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
            reader=ClaudeReader(path_parts(path), redact),
            redact=redact,
            state=state,
        )
