"""What is stored, as lists and pages show it."""

from __future__ import annotations

from typing import Literal

from palace_daemon.model.base import SourceState, Value
from palace_daemon.model.recall import Coverage, Neighbour
from palace_daemon.model.transcripts import ToolUse


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
    utc_offset_minutes: int | None
    status: str
    is_superseded: bool
    tools: tuple[ToolUse, ...]
    flags: tuple[str, ...]
    drawer_ids: tuple[str, ...]
    provenance: tuple[Provenance, ...]
    previous_id: str = ""
    next_id: str = ""
    neighbours: tuple[Neighbour, ...] = ()
    """In the order of the session, where they were asked for."""


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


class ProjectView(Value):
    """What recall can find of a project."""

    path: str
    """Empty for what belongs to no project."""
    name: str
    sessions: int
    exchanges: int
    agents: tuple[str, ...]
    newest_at: int | None
    """When its newest exchange began."""


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
    machine: str = ""
    """The mark of the machine that it was imported from; empty for a file of this one."""


class NoteView(Value):
    """A text that somebody asked to remember."""

    note_id: str
    text: str
    project: str
    tags: tuple[str, ...]
    author: str
    created_at: int
    edited_at: int | None = None
    superseded_by: str = ""
    """The note that took its place, if one did."""


class WatchedDir(Value):
    """A directory that the daemon watches, or would watch if it existed."""

    path: str
    agent: str
    origin: Literal["default", "config", "request"]
    exists: bool
    files: int = 0
    size_bytes: int = 0
    found_at: int | None = None
    """When the directory appeared, if it did so while the daemon ran."""


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


class Embedding(Value):
    """How the stored texts get their vectors, and how far that is."""

    is_switching: bool = False
    """Whether the model that is chosen does not answer yet."""
    coverage: tuple[Coverage, ...] = ()
    """By role: the model that answers first."""
    texts_per_s: float = 0.0
    """Over the last minute, pauses left out."""
    eta_s: float | None = None
    """Until nothing is queued, at that pace; None while there is none."""
    threads: int = 0
    truncated: int = 0
    """Texts that a model did not see whole."""
    windowed: int = 0
    """Texts longer than the model takes, which got the mean of their windows since it was loaded."""
    model_load_ms: float | None = None
    """From the start of loading until the chosen model was ready; None before that."""
    is_paused: bool = False
    """Whether mining and embedding rest because somebody said so."""


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
    redactions: dict[str, int]
    """Secrets replaced in what is stored, by kind; ``private`` for ``<private>`` blocks."""
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
    embedding: Embedding = Embedding()
