"""What must survive a restart of an :class:`~palace_daemon.core.exchanges.Assembler`; plain msgspec data."""

from __future__ import annotations

from msgspec import Struct, field

from palace_daemon.core.drafts import Draft
from palace_daemon.model import SessionFacts


class Entry(Struct, array_like=True, gc=False):
    """What is kept of every exchange of the source."""

    key: str
    session: int
    turn: int
    is_superseded: bool = False


class Held(Struct, array_like=True, gc=False):
    """Where an exchange stands whose words wait to be delivered, and the digest of its key with its words."""

    ordinal: int
    words: int


class SessionState(Struct, array_like=True):
    """What is known of a session in this source."""

    facts: SessionFacts
    index: int
    exchanges: int = 0
    title_rank: int = 0


class AssemblerState(Struct, array_like=True):
    """Everything that must survive a restart. Grows by about 100 bytes an exchange and 10 bytes a record."""

    sessions: dict[str, SessionState] = field(default_factory=dict)
    drafts: list[Draft] = field(default_factory=list)
    """The open draft of each session and the recent closed ones, oldest first."""
    current: dict[str, int] = field(default_factory=dict)
    """Session to the index of its open draft in ``drafts``."""
    entries: list[Entry] = field(default_factory=list)
    children: dict[int, int] = field(default_factory=dict)
    """Digest of a record to the ordinal of the turn that follows it."""
    seen: dict[int, int] = field(default_factory=dict)
    """Digest of a record id to the index of its session."""
    waiting_titles: dict[int, str] = field(default_factory=dict)
    """Digest of a record not seen yet to the title of its session."""
    pending: dict[int, Held] = field(default_factory=dict)
    """Digest of an exchange's key to what is held of it until its words are delivered or taken back."""
