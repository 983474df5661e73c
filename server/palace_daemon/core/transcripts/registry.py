"""All transcript formats, and which of them a file is."""

from __future__ import annotations

from collections.abc import Mapping

from palace_daemon.core.transcripts.aider.format import AiderFormat
from palace_daemon.core.transcripts.amp import AmpFormat
from palace_daemon.core.transcripts.antigravity import AntigravityFormat
from palace_daemon.core.transcripts.base import DatabaseFormat, PlacedFormat, SealedStore, TranscriptFormat
from palace_daemon.core.transcripts.chatgpt.format import ChatGptFormat
from palace_daemon.core.transcripts.claude_ai import ClaudeAiFormat
from palace_daemon.core.transcripts.claude_code.format import ClaudeCodeFormat
from palace_daemon.core.transcripts.cline.messages import ClineMessagesFormat
from palace_daemon.core.transcripts.cline.tasks import TASK_FORMATS
from palace_daemon.core.transcripts.codex.format import CodexFormat
from palace_daemon.core.transcripts.continue_sessions import ContinueFormat
from palace_daemon.core.transcripts.copilot_cli.format import CopilotCliFormat
from palace_daemon.core.transcripts.cursor.database import CursorDatabase
from palace_daemon.core.transcripts.cursor.lines import CursorLinesFormat
from palace_daemon.core.transcripts.cursor.markdown import CursorMarkdownFormat
from palace_daemon.core.transcripts.cursor.store import CursorStore
from palace_daemon.core.transcripts.cursor.text import CursorTextFormat
from palace_daemon.core.transcripts.gemini.format import GeminiDocumentFormat, GeminiLinesFormat
from palace_daemon.core.transcripts.goose.format import GooseDatabase, GooseFormat
from palace_daemon.core.transcripts.iflow.format import IflowFormat
from palace_daemon.core.transcripts.kimi.format import KimiFormat
from palace_daemon.core.transcripts.opencode.database import OPENCODE_DATABASES
from palace_daemon.core.transcripts.opencode.tree import OpencodeTreeFormat
from palace_daemon.core.transcripts.pi.format import PiFormat
from palace_daemon.core.transcripts.plain_text.format import PlainTextFormat
from palace_daemon.core.transcripts.qwen_code.format import QwenCodeFormat
from palace_daemon.core.transcripts.slack.format import SlackFormat
from palace_daemon.core.transcripts.specstory.format import SpecStoryFormat
from palace_daemon.core.transcripts.vscode_chat.format import VsCodeChatExportFormat, VsCodeChatFormat
from palace_daemon.core.transcripts.vscode_chat.log import VsCodeChatLogFormat
from palace_daemon.core.transcripts.windsurf import WindsurfCascade, WindsurfFormat
from palace_daemon.core.transcripts.zed.format import ZedDatabase

FORMATS: tuple[TranscriptFormat, ...] = (
    ClaudeCodeFormat(),
    CodexFormat(),
    CopilotCliFormat(),
    GeminiLinesFormat(),
    GeminiDocumentFormat(),
    CursorLinesFormat(),
    CursorTextFormat(),
    CursorMarkdownFormat(),
    QwenCodeFormat(),
    IflowFormat(),
    KimiFormat(),
    WindsurfFormat(),
    PiFormat(),
    AntigravityFormat(),
    VsCodeChatLogFormat(),
    VsCodeChatFormat(),
    VsCodeChatExportFormat(),
    *TASK_FORMATS,
    ClineMessagesFormat(),
    ContinueFormat(),
    AmpFormat(),
    OpencodeTreeFormat(),
    *OPENCODE_DATABASES,
    GooseDatabase(),
    GooseFormat(),
    ZedDatabase(),
    CursorDatabase(),
    CursorStore(),
    ChatGptFormat(),
    ClaudeAiFormat(),
    SlackFormat(),
    AiderFormat(),
    SpecStoryFormat(),
    PlainTextFormat(),
)
"""In the order in which a file is tried. A new format joins here and nowhere else."""

SEALED: tuple[SealedStore, ...] = (WindsurfCascade(),)
"""Stores that are shown with the reason why they cannot be read."""

COMPRESSED_SUFFIXES = (".zst", ".gz")
"""Endings that compression adds to a transcript's name."""

CONTAINER_SUFFIXES = (".zip",)
"""Endings of archives that can hold transcripts."""

LINE_SUFFIX = ".jsonl"
"""Ending of files that grow line by line: what is there may be the beginning of a first line."""

_LINES_LOOKED_AT = 64
_DOCUMENT_HEAD_BYTES = 1 << 20

HEAD_BYTES = 64 * 1024
"""How much of a file's start :func:`detect` wants to see."""


def detect(path: str, head: bytes) -> TranscriptFormat | None:
    """Return the format of the file at ``path`` that begins with ``head``, or ``None``.

    The content decides. Where formats of several agents share a grammar, that one is taken whose place and name it
    is. A transcript in a foreign place is still one; but in line files the name rules out what an agent keeps beside
    its transcripts in the same grammar, such as compaction helpers.
    """
    candidates = [known for known in FORMATS if known.shape == "document" or may_be_lines(head)]
    for known in candidates:
        if known.may_hold(path) and _is_in_place(known, path, _head_for(known, head)):
            return known
    for known in candidates:
        if (known.shape == "document" or not path.endswith(known.suffixes)) and known.sniff(_head_for(known, head)):
            return known
    return None


def _is_in_place(known: TranscriptFormat, path: str, head: bytes) -> bool:
    return known.sniff(head) or (isinstance(known, PlacedFormat) and known.sniff_in_place(path, head))


def _head_for(known: TranscriptFormat, head: bytes) -> bytes:
    """Return what a format looks at: of a document its beginning, however long its first line is."""
    return head if known.shape == "lines" else head[:_DOCUMENT_HEAD_BYTES]


def may_be_lines(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` can hold a JSON object on each line.

    Spares the line formats the look into every line of a document that is written over many lines.
    """
    lines = head.split(b"\n", _LINES_LOOKED_AT)
    if len(lines) == 1:
        return True
    return any(b"{" in line and line.rstrip().endswith(b"}") and not line.startswith((b" ", b"\t")) for line in lines)


def detect_database(tables: Mapping[str, frozenset[str]], path: str = "") -> DatabaseFormat | None:
    """Return the format of the database with these tables and their columns, or ``None``.

    Where the programs of several agents keep the same tables, the name of the database tells whose it is.
    """
    fitting = [
        known
        for known in FORMATS
        if isinstance(known, DatabaseFormat)
        and all(set(columns) <= tables.get(name, frozenset()) for name, columns in known.tables.items())
    ]
    name = path.rsplit("/", 1)[-1]
    named = [known for known in fitting if known.may_hold(path)] or [known for known in fitting if known.agent in name]
    return next(iter(named or fitting), None)


def by_name(name: str) -> TranscriptFormat | None:
    """Return the format with this stored name, or ``None`` for one that this version does not know."""
    return next((known for known in FORMATS if known.name == name), None)


def agents() -> tuple[str, ...]:
    """Return the agents whose transcripts can be read, sorted."""
    return tuple(sorted({known.agent for known in FORMATS}))


def may_hold(path: str) -> bool:
    """Return whether a file below an agent's directory can be a transcript of any format, by its name alone."""
    plain = plain_name(path)
    return any(known.may_hold(plain) for known in FORMATS) or any(store.may_hold(plain) for store in SEALED)


def why_unreadable(path: str, head: bytes) -> str:
    """Return why a file that should hold transcripts, by where it lies, holds none that can be read; else nothing."""
    for store in SEALED:
        if store.may_hold(path):
            return store.reason
    for known in FORMATS:
        if isinstance(known, DatabaseFormat) and known.may_hold(path) and head:
            return f"{known.agent} keeps a database here, and this is none: it is encrypted or damaged"
    return ""


def has_known_suffix(path: str) -> bool:
    """Return whether a file below a directory that a person named is worth a look into it."""
    plain = plain_name(path)
    return plain.lower().endswith(_SUFFIXES) or may_hold(plain)


def plain_name(path: str) -> str:
    """Return ``path`` without the ending that a compression adds."""
    for suffix in COMPRESSED_SUFFIXES:
        if path.lower().endswith(suffix):
            path = path[: -len(suffix)]
    return path


_SUFFIXES = (*CONTAINER_SUFFIXES, *sorted({suffix for known in FORMATS for suffix in known.suffixes}))
