"""What a transcript format is: the seam that every agent's module fills.

To add a format: write one module with a class that satisfies :class:`TranscriptFormat`, name it in
:mod:`palace_daemon.core.transcripts.registry`, add its samples under ``tests/data``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Literal, Protocol, runtime_checkable

from palace_daemon.core.ports import Beside
from palace_daemon.model import ParseResult

Redactor = Callable[[str], str]
"""Takes a text, returns it with secrets replaced by labelled placeholders."""


Shape = Literal["lines", "document"]
"""``lines``: the file grows at its end, and is read on from where reading stopped. ``document``: the file is written
anew as a whole, so that any change has it read from its start."""


class _NothingBeside:
    """A source that stands alone."""

    def read(self, path: str) -> bytes | None:  # noqa: ARG002
        return None

    def names(self, directory: str) -> tuple[str, ...]:  # noqa: ARG002
        return ()


NOTHING_BESIDE: Beside = _NothingBeside()


class SourceParser(Protocol):
    """Reads one source incrementally. Single-threaded; holds no file.

    Feeding the same bytes in any cuts gives the same exchanges, and so does a parser restored from a snapshot that is
    fed from :attr:`offset` on.
    """

    @property
    def offset(self) -> int:
        """Bytes consumed: up to and including the last complete line or value."""
        ...

    @property
    def is_whole(self) -> bool:
        """Whether what was fed can be all of the source: false inside a document that is still open.

        What an earlier reading knew and this one did not meet has vanished only if this is true at the end.
        """
        ...

    def feed(self, data: bytes) -> ParseResult:
        """Consume the next bytes. An incomplete last line is held back. Never raises for what the bytes hold."""
        ...

    def take_tail(self) -> ParseResult:
        """Consume the held-back last line if it is one whole record; otherwise leave it."""
        ...

    def finish(self) -> ParseResult:
        """Note that the source ends here, for now; nothing for formats that need no end to be read."""
        ...

    def snapshot(self) -> bytes:
        """Return the state at :attr:`offset`; the held-back bytes are not part of it. Redacted text only."""
        ...

    def drop(self, keys: Collection[str], untitled: Collection[str]) -> None:
        """Let go of the texts of exchanges by key, and of the titles of sessions by id: they must not be stored."""
        ...


class TranscriptFormat(Protocol):
    """One file format of one agent. Stateless and thread-safe."""

    name: str
    """Stable, such as ``claude-code-jsonl``; stored with each source."""
    agent: str
    """Such as ``claude-code``; what ``--agent`` takes."""
    version: int
    """Raised when parsing changes: sources of an older version are read anew."""
    shape: Shape
    suffixes: tuple[str, ...]
    """Endings of its files, such as ``(".json",)``, without that of a compression. Below a directory that a person
    named, a file with such an ending is looked into, whatever else its name is."""
    is_secondary: bool
    """Whether its sessions may be copies of what another format tells better (an export of a native transcript, an
    older store that was left behind): it steps back where the other tells the same session."""

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return where this agent writes, existing or not; ``platform`` is a value of ``sys.platform``."""
        ...

    def may_hold(self, path: str) -> bool:
        """Return whether a path below a watched directory can be such a transcript (by its name alone)."""
        ...

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` (up to 64 KiB) is one."""
        ...

    def open(
        self, path: str, redact: Redactor, state: bytes | None = None, beside: Beside = NOTHING_BESIDE
    ) -> SourceParser:
        """Return a parser for the source at ``path``, fresh or restored from :meth:`SourceParser.snapshot`.

        Raises:
            ValueError: ``state`` is of another version; read the source anew.
        """
        ...


@runtime_checkable
class PlacedFormat(TranscriptFormat, Protocol):
    """A format with files that only their name in the agent's own folder tells from other data."""

    def sniff_in_place(self, path: str, head: bytes) -> bool:
        """Return whether the file at ``path``, which :meth:`~TranscriptFormat.may_hold` let pass, is one."""
        ...


@runtime_checkable
class DatabaseFormat(TranscriptFormat, Protocol):
    """An agent's SQLite database: each conversation in it is a source of its own.

    The store runs the queries read-only and hands each row over as one line of JSON, an object with the columns as
    keys (a blob that is compressed with zstandard is unpacked; bytes that are no UTF-8 become ``{"base64": …}``). So a
    conversation is a line file like any other: :meth:`~TranscriptFormat.open` gets the path ``<database>!/<id>``.
    Queries name the columns that they need and nothing else: such databases hold secrets.
    """

    tables: Mapping[str, tuple[str, ...]]
    """Table to columns without which a database is not of this format."""
    conversations: str
    """SQL without parameters: ``id`` (text) and ``stamp`` (anything that changes whenever the conversation does) of
    each conversation, in any order."""
    records: str
    """SQL with the parameter ``:id``: the rows of one conversation in their order. May be one of several statements
    divided by lines that hold ``;`` alone: their rows follow each other."""


class SealedStore(Protocol):
    """A store of an agent that cannot be read, so that its files are shown with the reason, not passed over."""

    agent: str
    reason: str
    """Why not, and what can be done."""

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return where it lies, as :meth:`TranscriptFormat.default_dirs` does."""
        ...

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` is a file of it."""
        ...


@runtime_checkable
class FolderFormat(TranscriptFormat, Protocol):
    """A session that lies in many small files below a folder; the file that names the session stands for it."""

    def members(self, path: str, beside: Beside) -> Iterator[str]:
        """Yield the paths of the files that belong to the session of the file at ``path``, that one first.

        Each is handed to the parser as one line of JSON: ``{"path": …, "value": …}``.
        """
        ...
