"""The values that layers hand to each other: frozen, typed, free of behaviour.

Invariant: times are UTC epoch **milliseconds** (``*_at``, ``int``) or ``None`` where the transcript gives none;
never the time of mining. Offsets into files are bytes (``byte_*``), offsets into texts are characters.
Nothing here knows SQLite, JSON-RPC or ONNX.
"""

from __future__ import annotations

from typing import Literal, NewType, dataclass_transform

from msgspec import Struct, field

ExchangeKey = NewType("ExchangeKey", str)
"""Identity of an exchange: ``agent:record id``, or ``agent:sha256`` where the format has no ids."""

UserKind = Literal["prompt", "queued", "rejection", "answer", "slash_args", "shell", "plan_handoff", "automated"]
"""How the user's words reached the agent. ``automated`` marks words that no person typed."""

ExchangeStatus = Literal["open", "complete", "interrupted", "error"]
TimeQuality = Literal["exact", "turn", "session", "file", "none"]
Relation = Literal["none", "resume", "fork", "subagent", "branch", "compaction"]
SourceState = Literal["pending", "ok", "failed", "gone", "skipped"]
CutMode = Literal["exchange", "paragraph"]
"""``exchange``: drawers of about 2,000 characters. ``paragraph``: about 800, for sessions with few user turns."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Value(Struct, frozen=True, kw_only=True):
    """Base of the values below: immutable, keyword-only."""


# ---------------------------------------------------------------------------------------------- what parsers yield


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


# ------------------------------------------------------------------------------------------------------ chunking


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


# ---------------------------------------------------------------------------------------------------------- files


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


# ---------------------------------------------------------------------------------------------------------- recall


class RecallQuery(Value):
    """A question to the store. Filters apply before any cut; empty ones filter nothing."""

    text: str
    now: int
    """The caller's now; the only clock that recall knows."""
    utc_offset_minutes: int = 0
    project: str = ""
    agent: str = ""
    session: str = ""
    since: int | None = None
    """Inclusive."""
    until: int | None = None
    """Exclusive."""
    limit: int = 10
    max_chars: int | None = None
    """Budget over all hit texts; the first hit is always whole."""
    include_superseded: bool = False


class Hit(Value):
    """One drawer that answers a query, with its provenance and the parts of its score."""

    drawer_id: str
    exchange_id: str
    session_id: str
    session_title: str
    project: str
    agent: str
    started_at: int | None
    ended_at: int | None
    text: str
    path: str
    line_start: int
    line_end: int
    score: float
    parts: dict[str, float]
    """Signal name to weighted contribution; they add up to ``score``."""
    matched_terms: tuple[str, ...]


class Freshness(Value):
    """How current and how complete an answer is."""

    sources_pending: int
    vectors_pending: int
    drawers: int
    vectors_used: bool
    vectors_reason: str
    """Why vectors took no part, or did so only in part; empty when all drawers have one."""
    model: str
    last_mined_at: int | None


class RecallAnswer(Value):
    """Ranked hits, totals and freshness."""

    hits: tuple[Hit, ...]
    in_scope: int
    matched: int
    """Drawers in scope with a BM25 score above zero."""
    freshness: Freshness
    took_ms: float


# ----------------------------------------------------------------------------------------------------------- views


class Provenance(Value):
    """One place in which an exchange stands."""

    path: str
    line_start: int
    line_end: int
    byte_start: int
    byte_end: int
    is_owner: bool
    """Whether the stored text was taken from here."""


class ExchangeView(Value):
    """A stored exchange, whole."""

    exchange_id: str
    session_id: str
    session_title: str
    agent: str
    project: str
    cwd: str
    branch: str
    model: str
    user_text: str
    user_kind: str
    reply_text: str
    reply_final_start: int
    started_at: int | None
    ended_at: int | None
    time_quality: str
    status: str
    is_superseded: bool
    tools: tuple[ToolUse, ...]
    flags: tuple[str, ...]
    drawer_ids: tuple[str, ...]
    provenance: tuple[Provenance, ...]
    previous_id: str = ""
    next_id: str = ""


class SessionView(Value):
    """A stored session in a list."""

    session_id: str
    agent: str
    project: str
    title: str
    parent_session_id: str
    relation: str
    started_at: int | None
    ended_at: int | None
    exchanges: int
    is_automated: bool


class SourceView(Value):
    """A transcript file in a list."""

    path: str
    agent: str
    state: SourceState
    size_bytes: int
    read_bytes: int
    exchanges: int
    lines_skipped: dict[str, int]
    error: str


class WatchedDir(Value):
    """A directory that the daemon watches, or would watch if it existed."""

    path: str
    agent: str
    origin: Literal["default", "config", "request"]
    exists: bool
    files: int = 0
    size_bytes: int = 0


class MineReport(Value):
    """What one mining run did."""

    files: int = 0
    files_failed: int = 0
    sessions: int = 0
    exchanges_added: int = 0
    exchanges_replaced: int = 0
    exchanges_superseded: int = 0
    drawers_added: int = 0
    drawers_removed: int = 0
    vectors_added: int = 0
    lines_read: int = 0
    lines_skipped: dict[str, int] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    """Path to reason."""
    files_skipped: dict[str, str] = field(default_factory=dict)
    """Path to reason, of files that are no transcripts."""
    seconds: float = 0.0
    """Until everything was searchable by words."""
    seconds_to_vectors: float = 0.0
    """Until everything was searchable by meaning; 0 when the run did not wait for it, or could not."""
    vectors_reason: str = ""
    """Why the run did not end with every drawer embedded; empty when it did, or did not wait."""


class Progress(Value):
    """A step of long work. ``total`` may still grow."""

    stage: Literal["scan", "mine", "embed", "model"]
    done: int
    total: int
    unit: str
    eta_s: float | None = None


class ModelView(Value):
    """A model in the registry, installed or not."""

    model_id: str
    dim: int
    max_tokens: int
    is_installed: bool
    is_active: bool
    path: str
    size_bytes: int
    note: str = ""


class Status(Value):
    """What the daemon holds and does."""

    version: str
    pid: int
    data_dir: str
    uptime_s: float
    started_at: int
    sessions: int
    exchanges: int
    exchanges_superseded: int
    drawers: int
    vectors: int
    vectors_pending: int
    sources: dict[str, int]
    """Source state to count."""
    sources_pending: int
    lines_skipped: dict[str, int]
    failures: dict[str, str]
    watched: tuple[WatchedDir, ...]
    notifier: str
    model: str
    model_state: str
    """``ready``, ``loading``, ``installing``, ``missing`` or ``failed: reason``."""
    database_bytes: int
    rss_bytes: int
    last_error: str
    last_mined_at: int | None
