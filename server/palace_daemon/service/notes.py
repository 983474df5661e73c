"""Remembering on request: notes are stored, edited and superseded here, and answered for as exchanges are."""

from __future__ import annotations

import ntpath
import os
import posixpath
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from palace_daemon.errors import NotFoundError, RequestError
from palace_daemon.model import MineReport, NoteView
from palace_daemon.service.recall import as_stored, is_project
from palace_daemon.store import notes, views
from palace_daemon.store.drawers import DrawerStore
from palace_daemon.store.exchanges import SaveReport
from palace_daemon.store.notes import Note
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.store import ReadOnlyStore, Store
from palace_daemon.store.variants import public_id

T = TypeVar("T")


class NoteKeeper:
    """Stores notes. Thread-safe: each call is one transaction."""

    def __init__(
        self,
        store: Store,
        project_of: Callable[[str], str],
        on_changed: Callable[[MineReport], None],
        wipe_soon: Callable[[], None],
    ) -> None:
        """Take the store, the rule that turns a directory into a project, and whom to tell of changes and edits."""
        self._store = store
        self._project_of = project_of
        self._on_changed = on_changed
        self._wipe_soon = wipe_soon

    def remember(self, text: str, *, project: str, tags: Sequence[str], author: str, now: int) -> tuple[NoteView, bool]:
        """Store a note; see :meth:`palace_daemon.service.api.Palace.remember`."""
        clean, is_redacted = _clean(text)
        note = Note(
            text=clean,
            created_at=now,
            author=_clean_word(author),
            tags=tuple(sorted({word for tag in tags if (word := _clean_word(tag))})),
            is_redacted=is_redacted,
        )
        named = as_stored(project.strip())

        def work(connection: Connection, drawers: DrawerStore, report: SaveReport) -> tuple[NoteView, bool]:
            placed = msgspec.structs.replace(note, project=self._project(connection, named))
            exchange_id, is_new = notes.remember(connection, drawers, placed, report)
            return notes.view(connection, exchange_id), is_new

        return self._change(work)

    def edit(self, note_id: str, text: str, *, now: int) -> NoteView:
        """Replace a note's text; see :meth:`palace_daemon.service.api.Palace.edit_note`."""
        clean, is_redacted = _clean(text)

        def work(connection: Connection, drawers: DrawerStore, report: SaveReport) -> NoteView:
            exchange_id, note = _named(connection, note_id)
            other = notes.find(connection, note.project, clean)
            if other not in {None, exchange_id} and not notes.successor(connection, exchange_id):
                raise RequestError("another note says this already", hint="supersede this one with the same text")
            if clean != note.text:
                notes.let_go(connection, drawers, exchange_id, public_id(note.key), report)
                edited = msgspec.structs.replace(note, text=clean, edited_at=now, is_redacted=is_redacted)
                notes.save(connection, drawers, edited, report)
            return notes.view(connection, exchange_id)

        edited = self._change(work)
        self._wipe_soon()
        return edited

    def supersede(self, note_id: str, text: str, *, now: int) -> tuple[NoteView, bool]:
        """Put a new note in the place of one; see :meth:`palace_daemon.service.api.Palace.supersede_note`."""
        clean, is_redacted = _clean(text)

        def work(connection: Connection, drawers: DrawerStore, report: SaveReport) -> tuple[NoteView, bool]:
            exchange_id, note = _named(connection, note_id)
            if successor_id := notes.successor(connection, exchange_id):
                raise RequestError(f"the note was superseded by {successor_id}", hint="supersede that one")
            fresh = Note(
                project=note.project,
                text=clean,
                created_at=now,
                author=note.author,
                tags=notes.view(connection, exchange_id).tags,
                is_redacted=is_redacted,
            )
            new_id, is_new = notes.remember(connection, drawers, fresh, report)
            if new_id == exchange_id:
                raise RequestError("the note says this already", hint="nothing was changed")
            successor = notes.view(connection, new_id)
            notes.let_go(connection, drawers, exchange_id, successor.note_id, report)
            notes.save(connection, drawers, msgspec.structs.replace(note, superseded_by=successor.note_id), report)
            return successor, is_new

        return self._change(work)

    def _change(self, work: Callable[[Connection, DrawerStore, SaveReport], T]) -> T:
        report = SaveReport()
        result = self._store.edit(lambda connection, drawers: work(connection, drawers, report))
        self._on_changed(report_of(report))
        return result

    def _project(self, connection: Connection, named: str) -> str:
        """Return the project that ``named`` stands for: a directory's, a known one of this last name, or a new name."""
        if not named or posixpath.isabs(named) or ntpath.splitdrive(named)[0]:
            return self._project_of(named) if named else ""
        rows = connection.execute("SELECT DISTINCT project FROM sessions WHERE project<>''").fetchall()
        known = [row[0] for row in rows if os.path.isabs(row[0]) and is_project(row[0], named)]
        if len(known) > 1:
            raise RequestError(
                f"several projects are called so: {', '.join(sorted(known))}", hint="give the whole path"
            )
        return known[0] if known else named


def listed(
    store: Store | ReadOnlyStore,
    *,
    project: str,
    tags: Sequence[str],
    include_superseded: bool,
    limit: int,
    offset: int,
) -> tuple[NoteView, ...]:
    """Return notes, newest first; see :meth:`palace_daemon.service.api.Palace.notes`."""
    named = as_stored(project.strip())
    with store.read() as connection:
        among = [known for known in notes.projects(connection) if is_project(known, named)] if named else None
        return notes.views(
            connection,
            among=among,
            tags=[as_stored(tag.strip()) for tag in tags],
            include_superseded=include_superseded,
            limit=limit,
            offset=offset,
        )


def report_of(saved: SaveReport) -> MineReport:
    """Return what was saved as those learn it who follow the store's changes."""
    return MineReport(
        sessions=len(saved.sessions),
        exchanges_added=saved.added,
        exchanges_replaced=saved.replaced,
        exchanges_superseded=saved.superseded,
        drawers_added=saved.drawers_added,
        drawers_removed=saved.drawers_removed,
    )


def _named(connection: Connection, note_id: str) -> tuple[int, Note]:
    """Return the note that an id, or eight or more digits of one, names; where several count as one, the one.

    Raises:
        NotFoundError: None is so named.
        RequestError: Several are, or it is no note.
    """
    found = views.exchange_ids(connection, as_stored(note_id))
    if not found:
        raise NotFoundError("no note has this id", hint="`palace-daemon notes` lists them")
    if len(found) > 1:
        raise RequestError("several exchanges begin with this id", hint="give more digits")
    if not notes.is_note(connection, found[0]):
        raise RequestError("this is an exchange of a transcript, and no note", hint="`palace-daemon notes` lists them")
    exchange_id = notes.standing(connection, found[0])
    return exchange_id, notes.load(connection, exchange_id)


def _clean(text: str) -> tuple[str, bool]:
    """Return ``text`` without secrets, and whether there were any.

    Raises:
        RequestError: There is no text.
    """
    given = as_stored(text)
    if not given.strip():
        raise RequestError("the note has no text", hint="say what to remember")
    clean = _redacted(given)
    return clean, clean != given


def _clean_word(word: str) -> str:
    return _redacted(as_stored(" ".join(word.split())))


def _redacted(text: str) -> str:
    from palace_daemon.core import redaction  # noqa: PLC0415 - first answers need not wait for its patterns

    return redaction.redact(text)
