"""The lines of an export: what each holds, and how a line becomes a value. ``docs/export-format.md`` tells it all.

A key that is left out has its default, so that lines stay short. Unknown keys are passed over: keys may be added
without a new version of the format.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from palace_daemon.model import (
    Exchange,
    ExchangeKey,
    ExchangeStatus,
    Relation,
    SourceState,
    TimeQuality,
    ToolUse,
    UserKind,
)
from palace_daemon.store.notes import AGENT
from palace_daemon.store.tombstones import Kind

VERSION = 1
"""Raised when a line changes its meaning; keys may be added without."""

Count = Annotated[int, Meta(ge=0, le=2**53)]
Time = Annotated[int, Meta(ge=-62_135_596_800_000, le=253_402_300_799_999)]
"""UTC epoch milliseconds of the years 1 to 9999."""
Name = Annotated[str, Meta(min_length=1)]
Machine = Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
Digest = Annotated[str, Meta(pattern="^([0-9a-f]{2}){0,64}$")]


class _Line(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of what stands in a line."""


class Header(_Line, frozen=True, kw_only=True, tag_field="type", tag="palace-export"):
    """The first line. ``version`` is that of the format."""

    version: Annotated[int, Meta(ge=1)]
    app: str = ""
    machine: Machine
    exported_at: Time
    records: dict[str, Count] = {}
    """How many lines of each type follow, for a reader's progress."""


class SourceLine(_Line, frozen=True, kw_only=True, tag_field="type", tag="source"):
    """A transcript file, and how far it was read."""

    machine: Machine
    path: Name
    agent: str = ""
    format: str = ""
    format_version: Count = 0
    secondary: bool = False
    state: SourceState
    error: str = ""
    size_bytes: Count = 0
    read_bytes: Count = 0
    reading: Count = 0
    lines_read: Count = 0
    lines_skipped: dict[str, Count] = {}


class Place(_Line, frozen=True, kw_only=True):
    """One place in which an exchange stands."""

    machine: Machine
    path: Name
    session: Name
    owner: bool = False
    """Whether the text was taken from here: so it is for one place of each exchange."""
    reading: Count = 0
    line_start: Count = 0
    line_end: Count = 0
    byte_start: Count = 0
    byte_end: Count = 0
    chars: Count = 0
    closed: bool = False
    """Whether the place tells how the exchange ended: a copy that was made in the middle does not."""
    superseded: bool = False


class Attached(_Line, frozen=True, kw_only=True):
    """Something attached to a user turn; its bytes are never kept."""

    kind: Literal["image", "file", "selection"]
    name: str = ""
    size_bytes: Count = 0


class ExchangeLine(_Line, frozen=True, kw_only=True, tag_field="type", tag="exchange"):
    """An exchange with all its keys and places."""

    key: Name
    keys: tuple[Name, ...] = ()
    """Further keys of the same exchange."""
    agent: Name
    session: Name
    ordinal: Annotated[int, Meta(ge=-(2**53), le=2**53)] = 0
    user_text: str = ""
    user_kind: UserKind
    reply_text: str = ""
    reply_final_start: Count = 0
    model: str = ""
    started_at: Time | None = None
    ended_at: Time | None = None
    time_quality: TimeQuality
    utc_offset_minutes: Annotated[int, Meta(ge=-24 * 60, le=24 * 60)] | None = None
    status: ExchangeStatus
    project: str = ""
    cwd: str = ""
    branch: str = ""
    agent_version: str = ""
    tools: tuple[ToolUse, ...] = ()
    attachments: tuple[Attached, ...] = ()
    flags: tuple[str, ...] = ()
    places: Annotated[tuple[Place, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        """Refuse what the store could not hold."""
        if sum(place.owner for place in self.places) != 1:
            raise ValueError("exactly one place is the owner")
        if self.agent == AGENT or any(key.startswith(f"{AGENT}:") for key in self.all_keys):
            raise ValueError("a note is no exchange")
        if self.reply_final_start > len(self.reply_text):
            raise ValueError("the last message begins behind the reply")

    @property
    def all_keys(self) -> tuple[str, ...]:
        """Every key, the exchange's own first."""
        return tuple(dict.fromkeys((self.key, *self.keys)))

    @property
    def owner(self) -> Place:
        """Where the text was taken from."""
        return next(place for place in self.places if place.owner)

    def told(self) -> Exchange:
        """Return the exchange as a parser would tell it."""
        return Exchange(
            key=ExchangeKey(self.key),
            agent=self.agent,
            session_id=self.session,
            ordinal=self.ordinal,
            user_text=self.user_text,
            user_kind=self.user_kind,
            reply_text=self.reply_text,
            started_at=self.started_at,
            time_quality=self.time_quality,
            utc_offset_minutes=self.utc_offset_minutes,
            cwd=self.cwd,
        )


class NoteLine(_Line, frozen=True, kw_only=True, tag_field="type", tag="note"):
    """A note."""

    key: Annotated[str, Meta(pattern=f"^{AGENT}:.")]
    text: Name
    project: str = ""
    tags: tuple[Name, ...] = ()
    author: str = ""
    created_at: Time
    edited_at: Time | None = None
    superseded_by: str = ""
    redacted: bool = False


class SessionLine(_Line, frozen=True, kw_only=True, tag_field="type", tag="session"):
    """What is known of a session."""

    agent: Name
    id: Name
    parent: str = ""
    relation: Relation = "none"
    title: str = ""
    project: str = ""
    cwd: str = ""
    branch: str = ""
    agent_version: str = ""
    entrypoint: str = ""
    automated: bool = False


class TombstoneLine(_Line, frozen=True, kw_only=True, tag_field="type", tag="tombstone"):
    """A digest of something that was forgotten."""

    kind: Kind
    digest: Digest
    reply_chars: Count = 0
    reply_digest: Digest = ""
    forgotten_at: Time = 0


class End(_Line, frozen=True, kw_only=True, tag_field="type", tag="end"):
    """The last line: without it, the file was cut off."""

    records: Count


Line = Header | SourceLine | ExchangeLine | NoteLine | SessionLine | TombstoneLine | End
TYPE_OF: dict[type[Struct], str] = {
    SourceLine: "source",
    ExchangeLine: "exchange",
    NoteLine: "note",
    SessionLine: "session",
    TombstoneLine: "tombstone",
}
"""The types that the header counts."""


class BadLineError(ValueError):
    """A line that cannot be used; the message is a reason word."""


class _First(Struct):
    """As much of a first line as is the same in all versions."""

    type: Literal["palace-export"]
    version: int


_FIRST = msgspec.json.Decoder(_First)
_LINE: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)
_ENCODER = msgspec.json.Encoder()


def version_of(line: bytes) -> int:
    """Return the version of the format that the first line of a file names; 0 where it is no export."""
    try:
        return _FIRST.decode(line).version
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return 0


def decode(line: bytes) -> Line:
    """Return what a line holds.

    Raises:
        BadLineError: Nothing that can be used.
    """
    try:
        return _LINE.decode(line)
    except msgspec.ValidationError as exc:
        is_unknown = str(exc).endswith("`$.type`")
        raise BadLineError("unknown_type" if is_unknown else "bad_field") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise BadLineError("not_json") from None


def encode(line: Line) -> bytes:
    """Return the line, with its line end."""
    return _ENCODER.encode(line) + b"\n"
