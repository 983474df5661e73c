"""What transcript readers tell the assembler: small frozen facts in file order.

Invariant: a reader decides what words are and whose they are; the assembler decides what becomes of them. Events
carry text as the transcript holds it: the assembler redacts before anything is kept.
"""

from __future__ import annotations

from msgspec import Struct

from palace_daemon.model import Attachment, ExchangeStatus, SessionFacts, TimeQuality, UserKind


class Place(Struct, frozen=True, array_like=True, gc=False):
    """Where in its source a record stands: line from 1, byte offsets, and what had to be done to read it."""

    line: int
    byte_start: int
    byte_end: int
    flags: tuple[str, ...] = ()


class Event(Struct, frozen=True, kw_only=True):
    """Base of the events. ``session`` is the full id, ``parent/agent`` for a sub-agent."""

    session: str


class UserTurn(Event, frozen=True, kw_only=True):
    """User words that open an exchange.

    With neither words nor attachments it is a turn without text (a bare slash command): it becomes an exchange only
    if a reply follows, so that the reply is not counted to the turn before.
    """

    place: Place
    text: str
    kind: UserKind = "prompt"
    at: int | None = None
    utc_offset_minutes: int | None = None
    """The person's zone in minutes east of UTC, where the transcript tells it."""
    time_quality: TimeQuality | None = None
    """What ``at`` is where it is not the turn's own time: that of its session or file."""
    key: str = ""
    """Identity from the record's ids; empty where the format has none."""
    former_keys: tuple[str, ...] = ()
    """Under which the same words waited: who forgot them then has forgotten this turn."""
    record_ids: tuple[str, ...] = ()
    is_pending: bool = False
    """Whether the words wait to be delivered: the open turn goes on. A turn with the same key delivers them, a
    :class:`Withdrawal` takes them back; where neither comes, the agent ended before."""
    parent_id: str = ""
    """The record that this one follows. A second turn after the same record is a rewind."""
    turn_id: str = ""
    """What a rollback counts by."""
    repeats_aborted: bool = False
    """Whether the same words may have been written again after an abort without any reply."""
    attachments: tuple[Attachment, ...] = ()
    cwd: str = ""
    branch: str = ""
    agent_version: str = ""
    model: str = ""
    flags: tuple[str, ...] = ()


class ReplyText(Event, frozen=True, kw_only=True):
    """One text block of a reply.

    Blocks of one ``message_id`` stand together, each in the order in which it was told. ``channel`` tells stores of the
    same words apart (bit set): a text is repeated only if one channel repeats it.
    """

    place: Place
    text: str
    message_id: str = ""
    key: str = ""
    """Identity for an exchange that begins with this reply."""
    at: int | None = None
    model: str = ""
    cwd: str = ""
    branch: str = ""
    agent_version: str = ""
    channel: int = 0
    may_be_retold: bool = False
    """Whether several records may tell the message while it streams, each with more of it: a block that another record
    told is the same block, and the last one may have grown. Blocks of one reading are different blocks."""
    is_whole: bool = False
    """Whether this is all of its message: it takes the place of what the message said before."""


class ToolCall(Event, frozen=True, kw_only=True):
    """A tool call: its name and what it was aimed at."""

    place: Place
    name: str
    target: str = ""
    call_id: str = ""
    message_id: str = ""
    at: int | None = None


class Attached(Event, frozen=True, kw_only=True):
    """Something attached to the open turn by a record of its own."""

    attachment: Attachment


class TurnContext(Event, frozen=True, kw_only=True):
    """Circumstances of the open turn that were written after its words."""

    cwd: str = ""
    model: str = ""


class TurnEnd(Event, frozen=True, kw_only=True):
    """A completion mark."""

    status: ExchangeStatus


class Rollback(Event, frozen=True, kw_only=True):
    """Turns of the session were undone: the last ``turns``, or those with one of ``turn_ids``."""

    turns: int = 0
    turn_ids: tuple[str, ...] = ()


class Withdrawal(Event, frozen=True, kw_only=True):
    """Pending words will not be delivered under ``key``: they were pulled back, or come as a turn of their own."""

    key: str


class Facts(Event, frozen=True, kw_only=True):
    """What a record says of its session."""

    facts: SessionFacts


class Title(Event, frozen=True, kw_only=True):
    """A session title; higher ``rank`` wins, then the later one.

    With ``leaf_id`` it belongs to the session that holds this record, if the source holds it at all.
    """

    text: str
    rank: int
    leaf_id: str = ""


class Reading(Struct, frozen=True, kw_only=True):
    """What one record yielded: events, or the reasons why it yielded none.

    ``record_id`` identifies the record inside its source: a second record with the same id is passed over, unless
    its ``message_id`` is at hand: a message that is written again while it streams may have grown.
    """

    events: tuple[Event, ...] = ()
    skipped: tuple[str, ...] = ()
    session: str = ""
    record_id: str = ""
    message_id: str = ""
    leaf_id: str = ""
    """The id by which titles may name this record."""
