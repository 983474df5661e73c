"""GitHub Copilot CLI: the sessions below ``~/.copilot/session-state``.

Invariant: the user's words are ``content``. ``transformedContent`` repeats them between injected context.
"""

from __future__ import annotations

from collections.abc import Mapping

from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.copilot_cli.reader import CopilotReader
from palace_daemon.core.transcripts.copilot_cli.records import (
    AGENT,
    CopilotRecord,
    Workspace,
    begins_record,
    decoder,
    read_workspace,
    sniff,
)
from palace_daemon.core.transcripts.reading.homes import below, below_home
from palace_daemon.core.transcripts.reading.joined_lines import JoiningLineParser
from palace_daemon.core.transcripts.reading.words import path_parts

SUFFIXES = (".jsonl",)

_EVENTS = "events.jsonl"
_WORKSPACE = "workspace.yaml"
_NO_SESSION = frozenset({"history.jsonl"})


class CopilotCliFormat:
    """JSON lines of Copilot CLI 0.0.35x to 1.0: one folder a session, in the first releases one file."""

    name = "copilot-cli-jsonl"
    agent = AGENT
    version = 1
    shape: Shape = "lines"
    suffixes: tuple[str, ...] = SUFFIXES
    is_secondary = False

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the sessions below ``COPILOT_HOME``, else below ``~/.copilot``."""
        root = environ.get("COPILOT_HOME") or below_home(environ, home, platform, ".copilot")
        return (below(root, platform, "session-state"),)

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` can be a session's events."""
        name = path_parts(path)[-1]
        return name.endswith(SUFFIXES) and name not in _NO_SESSION

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is one."""
        return sniff(head)

    def open(
        self, path: str, redact: Redactor, state: bytes | None = None, beside: Beside = NOTHING_BESIDE
    ) -> JoiningLineParser[CopilotRecord]:
        """Return a parser for the source at ``path``; the path names the session where the events do not."""
        *folders, name = path_parts(path)
        is_folder = name == _EVENTS and bool(folders)
        workspace = read_workspace(beside.read(path.removesuffix(_EVENTS) + _WORKSPACE)) if is_folder else Workspace()
        return JoiningLineParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            decoder=decoder(),
            reader=CopilotReader(folders[-1] if is_folder else name.removesuffix(".jsonl"), workspace, redact),
            redact=redact,
            begins_record=begins_record,
            state=state,
        )
