"""What parsers yield, how exchanges are cut, and how far a file was read."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from palace_daemon.model.base import ExchangeKey, ExchangeStatus, Relation, TimeQuality, UserKind, Value


class ToolUse(Value):
    """One tool call inside a reply: its name and its target (a path or a command's head), never its output."""

    name: str
    target: str = ""


class Attachment(Value):
    """Something attached to a user turn. The bytes are never kept."""

    kind: Literal["image", "file", "selection"]
    name: str = ""
    size_bytes: int = 0


class Exchange(Value):
    """A user turn and the whole reply to it, as one source tells it.

    ``user_text`` may be empty when a session begins with the agent. ``reply_text`` is all text blocks in order,
    joined by a blank line.
    """

    key: ExchangeKey
    agent: str
    session_id: str
    """The agent's own session id; for a sub-agent ``<parent session id>/<agent id>``."""
    ordinal: int
    """Position in its source, from 0; order inside a session."""
    user_text: str
    user_kind: UserKind
    reply_text: str
    reply_final_start: int = 0
    """Where the last message of the reply begins in ``reply_text``; what stands before is commentary."""
    user_record_ids: tuple[str, ...] = ()
    model: str = ""
    started_at: int | None = None
    ended_at: int | None = None
    time_quality: TimeQuality = "none"
    utc_offset_minutes: int | None = None
    """The person's zone in minutes east of UTC, where the transcript tells it; most write UTC and do not."""
    status: ExchangeStatus = "open"
    cwd: str = ""
    branch: str = ""
    agent_version: str = ""
    tools: tuple[ToolUse, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    line_start: int = 0
    """First line of the source (from 1) that holds a part of this exchange."""
    line_end: int = 0
    byte_start: int = 0
    byte_end: int = 0
    is_superseded: bool = False
    flags: tuple[str, ...] = ()
    """Sorted words such as ``redacted``, ``lossy_unicode``, ``payload_dropped``, ``recovered``."""
    former_keys: tuple[ExchangeKey, ...] = ()
    """Keys of exchanges that its words were while they waited to be delivered."""


class SessionFacts(Value):
    """What a source says of a session. Empty fields are unknown and never overwrite known ones."""

    agent: str
    session_id: str
    parent_session_id: str = ""
    relation: Relation = "none"
    title: str = ""
    """The session's own title; where empty, lists show its first prompt."""
    cwd: str = ""
    branch: str = ""
    agent_version: str = ""
    entrypoint: str = ""
    is_automated: bool = False


class Problem(Value):
    """A place in a source that could not be used. Never holds text of the transcript."""

    line: int
    byte_start: int
    reason: str


class ParseResult(Value):
    """What a parser learned from the bytes fed since the last result.

    ``exchanges`` holds each exchange that is new or changed, whole, once, in source order; ``lines_skipped`` counts
    lines by reason, ``malformed`` and ``torn`` among them.
    """

    exchanges: tuple[Exchange, ...] = ()
    sessions: tuple[SessionFacts, ...] = ()
    lines_read: int = 0
    lines_skipped: dict[str, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    superseded_keys: tuple[ExchangeKey, ...] = ()
    """Exchanges of this source that a rewind or rollback undid. The recent ones also stand in ``exchanges``, with
    ``is_superseded`` set; of older ones the parser holds no text any more, so that their key alone is told."""
    withdrawn_keys: tuple[ExchangeKey, ...] = ()
    """Exchanges of earlier results that never came to be: a queued prompt that was pulled back, or that came as a turn
    of its own."""


class DrawerSpan(Value):
    """Which characters of an exchange make one drawer.

    The user pieces of all drawers of an exchange tile its user text, the reply pieces tile its reply text: joining
    them gives the exchange back. A drawer that holds no user piece repeats the user turn as its lead: the first
    ``lead_head`` and the last ``lead_tail`` characters of it.
    """

    ordinal: int
    user_start: int
    user_end: int
    reply_start: int
    reply_end: int
    lead_head: int = 0
    lead_tail: int = 0


class FileStat(Value):
    """What ``stat`` says of a source."""

    size: int
    mtime_ns: int
    ctime_ns: int
    device: int
    inode: int


class Cursor(Value):
    """How far a source was read, and how to recognise what was read.

    ``block_hashes`` are BLAKE2b digests (16 bytes each, concatenated) of the 1 MiB blocks of ``[0, offset)``, the
    last one over the partial block.
    """

    offset: int = 0
    """Bytes up to and including the last complete line."""
    stat: FileStat | None = None
    block_hashes: bytes = b""
    rotating_block: int = 0
    """Which block the next append check compares besides the first and the last."""
    tail_taken_at: int = -1
    """Offset at which a last line without LF was taken as whole, or -1."""
