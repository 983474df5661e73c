"""What the layers above may ask of a running Palace.

The RPC layer, the command line and the bench see this Protocol only; :func:`palace_daemon.service.build.build`
returns the real thing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from palace_daemon.core.ports import StopSignal
from palace_daemon.model import (
    Embedding,
    ExchangeView,
    ExportReport,
    ForgetReport,
    ForgetRequest,
    ImportReport,
    MineReport,
    ModelView,
    NoteView,
    Progress,
    ProjectView,
    RecallAnswer,
    RecallQuery,
    SessionView,
    SourceView,
    Status,
)

ProgressListener = Callable[[Progress], None]
MineListener = Callable[[MineReport], None]


class Palace(Protocol):
    """The one service object. Every method may be called from any thread and blocks until it has its answer.

    All raise :class:`~palace_daemon.errors.ClosedError` after :meth:`close`, :class:`~palace_daemon.errors.StoreError`
    when the database fails, and :class:`~palace_daemon.errors.CancelledError` when ``stop`` is set.
    """

    def start(self) -> None:
        """Begin to watch, mine and embed in the background; returns at once."""
        ...

    def recall(self, query: RecallQuery, stop: StopSignal | None = None) -> RecallAnswer:
        """Answer a question; never waits for mining or embedding.

        Raises:
            RequestError: A filter names an agent that does not exist, or a number is out of range.
        """
        ...

    def get(self, item_id: str, *, neighbours: int = 0) -> ExchangeView:
        """Return the exchange that ``item_id`` (an exchange id or a drawer id) names.

        ``neighbours`` exchanges before and after it in its session come with it, in short.

        Raises:
            NotFoundError: No such exchange.
            RequestError: Several begin with ``item_id``, or so many neighbours cannot be had.
        """
        ...

    def sessions(
        self, *, agent: str = "", project: str = "", since: int | None = None, limit: int = 50, offset: int = 0
    ) -> tuple[SessionView, ...]:
        """Return sessions, newest first."""
        ...

    def timeline(self, session_id: str) -> tuple[ExchangeView, ...]:
        """Return one session's exchanges in order.

        Raises:
            NotFoundError: No such session.
        """
        ...

    def projects(self, *, limit: int = 50, offset: int = 0) -> tuple[ProjectView, ...]:
        """Return the projects that recall can find something of, the one with the newest exchange first."""
        ...

    def sources(self, *, agent: str = "", state: str = "") -> tuple[SourceView, ...]:
        """Return the known transcript files, those that failed first."""
        ...

    def status(self) -> Status:
        """Return what is indexed, pending, skipped and why."""
        ...

    def mine(
        self,
        paths: Sequence[str] = (),
        *,
        wait: bool = False,
        newest: int | None = None,
        on_progress: ProgressListener | None = None,
        stop: StopSignal | None = None,
    ) -> MineReport:
        """Mine ``paths`` (files or directories; none means everything that is watched).

        With ``wait`` the report comes when all of it is stored and embedded; without, at once, and the work goes on
        in the background. ``newest`` bounds the waiting to the newest so many files; the rest follows later.

        Raises:
            SourceError: A path does not exist or cannot be read.
            RequestError: It is to be waited for, and Palace is paused.
        """
        ...

    def remember(
        self, text: str, *, project: str = "", tags: Sequence[str] = (), author: str = "", now: int
    ) -> tuple[NoteView, bool]:
        """Store a note, and return it and whether it is new: the same text in the same project is one note.

        ``project`` is a directory, or the last name of a known project. Secrets are redacted. ``now`` dates the note.

        Raises:
            RequestError: There is no text, or several projects have the name.
        """
        ...

    def notes(
        self,
        *,
        project: str = "",
        tags: Sequence[str] = (),
        include_superseded: bool = False,
        limit: int = 50,
        offset: int = 0,
    ) -> tuple[NoteView, ...]:
        """Return notes with every one of ``tags``, newest first."""
        ...

    def edit_note(self, note_id: str, text: str, *, now: int) -> NoteView:
        """Replace the text of a note, which keeps its id.

        Raises:
            NotFoundError: No such note.
            RequestError: There is no text, another note has it, or ``note_id`` names no note.
        """
        ...

    def supersede_note(self, note_id: str, text: str, *, now: int) -> tuple[NoteView, bool]:
        """Store a note in the place of another, which leaves recall; return the new one and whether it was unknown.

        Raises:
            NotFoundError: No such note.
            RequestError: There is no text, it is that of the note, or the note was superseded before.
        """
        ...

    def export(
        self, path: str, *, on_progress: ProgressListener | None = None, stop: StopSignal | None = None
    ) -> ExportReport:
        """Write everything to one file, atomically; see ``docs/export-format.md``.

        Raises:
            RequestError: The file cannot be written.
        """
        ...

    def import_file(
        self, path: str, *, on_progress: ProgressListener | None = None, stop: StopSignal | None = None
    ) -> ImportReport:
        """Merge what an export holds; can be repeated, also after it was interrupted.

        Raises:
            RequestError: The file cannot be read, is no export, or is of a newer version.
        """
        ...

    def forget(self, request: ForgetRequest, *, dry_run: bool = False, stop: StopSignal | None = None) -> ForgetReport:
        """Forget what ``request`` names, for good, or list it with ``dry_run``; the transcript files are left as is.

        It stays forgotten when its files are read anew, copied, forked or grow; what is said later is kept. Returns
        when the bytes are gone from the disk, or says why they are not yet: then it is tried again.

        Raises:
            NotFoundError: There is no such exchange, session, project or file.
            RequestError: There is no such agent, or an id is short of one.
        """
        ...

    def models(self) -> tuple[ModelView, ...]:
        """Return the known models, installed or not."""
        ...

    def use_model(self, model_id: str) -> None:
        """Choose a model for good: the settings file is written, then it is loaded and gives every text its vector.

        Returns at once. The former model answers until the new one covers as much; :meth:`embedding` tells how far that
        is. Naming the one that answers gives up a switch.

        Raises:
            ModelError: There is no such model.
            ConfigError: The settings cannot be written, or the environment decides about the model.
        """
        ...

    def embedding(self) -> Embedding:
        """Return which models' vectors there are, how far each is, and at what pace."""
        ...

    def pause(self) -> None:
        """Let mining and embedding rest until :meth:`resume`, or until Palace is started anew; recall goes on."""
        ...

    def resume(self) -> None:
        """Go on with what waited."""
        ...

    def subscribe(self, on_mined: MineListener) -> Callable[[], None]:
        """Call ``on_mined`` from a background thread after each change; returns the way to end it."""
        ...

    def close(self) -> None:
        """Stop all work, commit or roll back, close the database; idempotent.

        Takes about a second, and longer only where a write that is under way does.
        """
        ...
