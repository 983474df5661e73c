"""All transcript formats, and which of them a file is."""

from __future__ import annotations

from palace_daemon.core.transcripts.base import TranscriptFormat
from palace_daemon.core.transcripts.claude_code import ClaudeCodeFormat
from palace_daemon.core.transcripts.codex import CodexFormat

FORMATS: tuple[TranscriptFormat, ...] = (ClaudeCodeFormat(), CodexFormat())
"""In the order in which a file is tried. A new format joins here and nowhere else."""

HEAD_BYTES = 64 * 1024
"""How much of a file's start :func:`detect` wants to see."""


def detect(path: str, head: bytes) -> TranscriptFormat | None:
    """Return the format of the file at ``path`` that begins with ``head``, or ``None``.

    The content decides. The name only rules out what an agent keeps beside its transcripts in the same grammar, such
    as compaction helpers; a transcript under a foreign name is still one.
    """
    for known in FORMATS:
        if known.sniff(head):
            return known if known.may_hold(path) or not path.endswith(known.suffixes) else None
    return None


def by_name(name: str) -> TranscriptFormat | None:
    """Return the format with this stored name, or ``None`` for one that this version does not know."""
    return next((known for known in FORMATS if known.name == name), None)


def agents() -> tuple[str, ...]:
    """Return the agents whose transcripts can be read, sorted."""
    return tuple(sorted({known.agent for known in FORMATS}))


def may_hold(path: str) -> bool:
    """Return whether a file below a watched directory can be a transcript of any format, by its name alone."""
    return any(known.may_hold(path) for known in FORMATS)
