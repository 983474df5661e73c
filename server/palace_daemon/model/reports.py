"""What long work did, and how far it is."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from palace_daemon.model.base import Value
from palace_daemon.model.recall import RecallQuery
from palace_daemon.model.transcripts import Problem


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
    exchanges_left_out: dict[str, int] = field(default_factory=dict)
    """Tellings that were not stored, by reason: ``forgotten``, ``ignored_project``."""
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


class ExportReport(Value):
    """What an export wrote: records by type."""

    path: str
    records: dict[str, int]
    size_bytes: int
    seconds: float


class ImportReport(Value):
    """What an import read (records by type) and what that changed."""

    records: dict[str, int]
    changes: dict[str, int]
    """Counts of ``exchanges_added``, ``exchanges_replaced``, ``notes_added``, ``notes_changed`` and ``forgotten``."""
    malformed: int
    problems: tuple[Problem, ...]
    """The first hundred of the malformed lines."""
    is_complete: bool
    """Whether the file had its last line; without it, it was cut off."""
    seconds: float
    wipe_due: str = ""
    """Why bytes of what it removed still stand in the database file; empty when they are gone."""


class ForgetRequest(Value):
    """What to forget: the exchanges that each selector given here names. One at least must be given."""

    drawers: tuple[str, ...] = ()
    """A drawer stands for its whole exchange."""
    exchanges: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    project: str = ""
    """Its path as stored, or its last name where one project alone has that."""
    source: str = ""
    """The path of a transcript file, as stored."""
    agent: str = ""
    since: int | None = None
    until: int | None = None
    query: RecallQuery | None = None
    """The exchanges of its hits among what all other selectors name."""


class ForgetItem(Value):
    """One exchange that goes."""

    exchange_id: str
    session_id: str
    agent: str
    project: str
    started_at: int | None
    title: str
    """Its first line."""


class ForgetReport(Value):
    """What is forgotten now, or would be."""

    is_dry_run: bool
    exchanges: int
    drawers: int
    items: tuple[ForgetItem, ...]
    """The first thousand, oldest first."""
    sources_pending: int
    """Files whose newest text is not read yet, and so is not among it."""
    wipe_due: str
    """Why bytes of it still stand in the database file; empty when they are gone."""


class Progress(Value):
    """A step of long work. ``total`` may still grow."""

    stage: Literal["scan", "mine", "embed", "model", "export", "import"]
    done: int
    total: int
    unit: str
    eta_s: float | None = None
    share: float | None = None
    """How much of the work is done, where ``done`` of ``total`` does not say: files are of many sizes."""
