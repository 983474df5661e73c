"""The values that layers hand to each other: frozen, typed, free of behaviour.

Invariant: times are UTC epoch **milliseconds** (``*_at``, ``int``) or ``None`` where the transcript gives none;
never the time of mining. Offsets into files are bytes (``byte_*``), offsets into texts are characters.
Nothing here knows SQLite, JSON-RPC or ONNX.
"""

from __future__ import annotations

from palace_daemon.model.base import (
    CutMode,
    ExchangeKey,
    ExchangeStatus,
    Relation,
    SourceState,
    TimeQuality,
    UserKind,
    Value,
)
from palace_daemon.model.recall import (
    NEIGHBOURS_MAX,
    AlsoIn,
    Coverage,
    Freshness,
    Hit,
    Neighbour,
    RecallAnswer,
    RecallQuery,
    SessionHits,
)
from palace_daemon.model.reports import (
    ExportReport,
    ForgetItem,
    ForgetReport,
    ForgetRequest,
    ImportReport,
    MineReport,
    Progress,
)
from palace_daemon.model.transcripts import (
    Attachment,
    Cursor,
    DrawerSpan,
    Exchange,
    FileStat,
    ParseResult,
    Problem,
    SessionFacts,
    ToolUse,
)
from palace_daemon.model.views import (
    Embedding,
    ExchangeView,
    ModelView,
    NoteView,
    ProjectView,
    Provenance,
    SessionView,
    SourceView,
    Status,
    WatchedDir,
)

__all__ = [
    "NEIGHBOURS_MAX",
    "AlsoIn",
    "Attachment",
    "Coverage",
    "Cursor",
    "CutMode",
    "DrawerSpan",
    "Embedding",
    "Exchange",
    "ExchangeKey",
    "ExchangeStatus",
    "ExchangeView",
    "ExportReport",
    "FileStat",
    "ForgetItem",
    "ForgetReport",
    "ForgetRequest",
    "Freshness",
    "Hit",
    "ImportReport",
    "MineReport",
    "ModelView",
    "Neighbour",
    "NoteView",
    "ParseResult",
    "Problem",
    "Progress",
    "ProjectView",
    "Provenance",
    "RecallAnswer",
    "RecallQuery",
    "Relation",
    "SessionFacts",
    "SessionHits",
    "SessionView",
    "SourceState",
    "SourceView",
    "Status",
    "TimeQuality",
    "ToolUse",
    "UserKind",
    "Value",
    "WatchedDir",
]
