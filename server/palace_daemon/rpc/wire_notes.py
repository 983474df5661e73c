"""``palace/remember`` and ``palace/notes`` on the wire; see :mod:`palace_daemon.rpc.wire`."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from palace_daemon.rpc.wire_base import Count, Limit, Name, Params, Result, WireTime


class RememberParams(Params, frozen=True):
    """A text to remember."""

    text: Name
    project: str = ""
    """An absolute directory, or the last name of a known project; left out, the note belongs to none."""
    tags: tuple[Name, ...] = ()
    author: str = ""
    now: WireTime | UnsetType = UNSET
    """The caller's clock, which dates the note; left out, the daemon's own."""


class NotesParams(Params, frozen=True):
    """Lists notes, replaces the text of one, or puts a new one in the place of one."""

    action: Literal["list", "edit", "supersede"] = "list"
    id: str = ""
    """Which note to edit or supersede."""
    text: str = ""
    """Its new text, or that of the note in its place."""
    now: WireTime | UnsetType = UNSET
    project: str = ""
    """Filters the list, as ``tags`` do: a note must have each of them."""
    tags: tuple[Name, ...] = ()
    all: bool = False
    """Whether superseded notes are listed, too."""
    limit: Limit = 50
    offset: Count = 0


class WireNote(Result, frozen=True):
    """A note. Its id is that of an exchange, too: ``palace/get`` takes it."""

    note_id: str
    text: str
    project: str
    tags: tuple[str, ...]
    author: str
    created_at: str | None
    edited_at: str | None
    superseded_by: str


class RememberResult(Result, frozen=True):
    """The note that holds the text now, and whether there was none before."""

    note: WireNote
    is_new: bool


class NotesResult(Result, frozen=True):
    """Notes, newest first."""

    notes: tuple[WireNote, ...]
