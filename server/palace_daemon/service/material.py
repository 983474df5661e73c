"""What a source's path leads to; all of it is read as one stream of bytes with a stat.

A file, a compressed file, a member of an archive, a conversation in a database, a session of many small files.
A path below a container is ``<container>!/<member>``. Nothing is ever unpacked to disk: transcripts hold secrets.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import re
import stat as stat_module
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import msgspec
import zstandard

from palace_daemon.core.documents import decode_value
from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.base import DatabaseFormat, FolderFormat
from palace_daemon.core.transcripts.reading import stamps
from palace_daemon.errors import SourceError
from palace_daemon.model import FileStat
from palace_daemon.store.foreign import ForeignDatabase
from palace_daemon.watch.discover import file_stat

MEMBER = "!/"
"""Divides a container's path from the member's name."""

BESIDE_BYTES_MAX = 16 << 20
"""Largest file that is read beside a source; the largest known is an index of titles with some megabytes."""

FOLDER_BYTES_MAX = 512 << 20
"""Most bytes of a session that lies in many files or in a database; it is held in memory while it is read."""

_CONTAINER = re.compile(r"(.+?\.(?:zip|db|vscdb|sqlite3?))!/(.+)", re.IGNORECASE | re.DOTALL)
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_GZIP_MAGIC = b"\x1f\x8b"
_ZIP_MAGIC = b"PK\x03\x04"
_SQLITE_MAGIC = b"SQLite format 3\x00"
_COUNT_BYTES = 1 << 20


class Stream(Protocol):
    """The part of a binary file that mining needs."""

    def read(self, size: int = -1, /) -> bytes | None:
        """Return up to ``size`` bytes; fewer only at the end."""
        ...

    def seek(self, position: int, /) -> int:
        """Go to ``position`` from the start."""
        ...

    def tell(self) -> int:
        """Return the position."""
        ...


class Material:
    """An opened source."""

    def __init__(self, file: Stream, stat: FileStat, *, has_identity: bool = True) -> None:
        """Take the stream, its stat (``size`` is that of the stream), and whether the inode is the source's own."""
        self.file = file
        self.stat = stat
        self.has_identity = has_identity

    def head(self, size: int) -> bytes:
        """Return the first ``size`` bytes."""
        self.file.seek(0)
        return self.file.read(size) or b""


def split(path: str) -> tuple[str, str]:
    """Return the file that holds the source, and the member's name in it or an empty string."""
    match = _CONTAINER.fullmatch(path)
    return (match[1], match[2]) if match else (path, "")


def file_of(path: str) -> str:
    """Return the file on disk that holds the source at ``path``."""
    return split(path)[0]


@contextmanager
def opened(path: str, stamp: str = "") -> Iterator[Material]:
    """Open the source at ``path``: a file, a compressed file, an archive's member or a database's conversation.

    Args:
        path: As the store has it.
        stamp: What the database's list says of the conversation, see
            :attr:`~palace_daemon.core.transcripts.base.DatabaseFormat.conversations`.

    Raises:
        SourceError: It is no regular file, or cannot be unpacked.
        OSError: It cannot be opened.
    """
    container, member = split(path)
    with _plain(container) as (raw, stat):
        magic = raw.read(len(_SQLITE_MAGIC)) or b""
        raw.seek(0)
        if member and magic == _SQLITE_MAGIC:
            yield _conversation(container, member, stamp)
        elif member:
            with _archive(container) as archive:
                yield _archive_member(archive, path, stat)
        elif magic.startswith((_ZSTD_MAGIC, _GZIP_MAGIC)):
            yield _unpacked(raw, magic, stat)
        else:
            yield Material(raw, stat)


@contextmanager
def _plain(path: str) -> Iterator[tuple[io.FileIO, FileStat]]:
    """Open a regular file without ever blocking on a pipe."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb", buffering=0) as raw:
        found = os.fstat(raw.fileno())
        if not stat_module.S_ISREG(found.st_mode):
            raise SourceError("not a regular file")
        yield raw, file_stat(found)


# ------------------------------------------------------------------------------------------------------- compressed


class _Unpacked:
    """A stream that can only be read forward, made seekable by beginning anew."""

    def __init__(self, begin: Callable[[], Stream]) -> None:
        self._begin = begin
        self._stream = begin()
        self._position = 0

    def read(self, size: int = -1, /) -> bytes:
        parts: list[bytes] = []
        left = size
        while left:
            try:
                part = self._stream.read(left)
            except (zstandard.ZstdError, zipfile.BadZipFile, zlib.error, gzip.BadGzipFile, EOFError) as exc:
                raise SourceError(f"it cannot be unpacked: {exc}", hint="the file is damaged or still written") from exc
            if not part:
                break
            parts.append(part)
            self._position += len(part)
            left = left - len(part) if size >= 0 else -1
        return b"".join(parts)

    def seek(self, position: int, /) -> int:
        if position < self._position:
            self._stream, self._position = self._begin(), 0
        while self._position < position and self.read(min(_COUNT_BYTES, position - self._position)):
            pass
        return self._position

    def tell(self) -> int:
        return self._position

    def size(self) -> int:
        """Return the unpacked size; reads all of it."""
        while self.read(_COUNT_BYTES):
            pass
        return self._position


def _unpacked(raw: io.FileIO, magic: bytes, stat: FileStat) -> Material:
    def begin() -> Stream:
        raw.seek(0)
        if magic.startswith(_GZIP_MAGIC):
            return gzip.GzipFile(fileobj=raw)
        return zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True, closefd=False)

    stream = _Unpacked(begin)
    size = stream.size()
    return Material(stream, msgspec.structs.replace(stat, size=size))


def unpacked_twin(path: str) -> str:
    """Return the path of the uncompressed file that a compressed one repeats, if it is there; else an empty string."""
    plain = registry.plain_name(path)
    return plain if plain != path and os.path.isfile(plain) else ""


# ------------------------------------------------------------------------------------------------------- containers


def is_container(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` holds sources."""
    return head.startswith((_ZIP_MAGIC, _SQLITE_MAGIC))


class Found(msgspec.Struct, frozen=True):
    """A source in a container."""

    path: str
    mtime_ns: int
    stamp: str = ""


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """What a container holds; ``agent`` and ``format_name`` of a database, which is of one format."""

    found: tuple[Found, ...] = ()
    agent: str = ""
    format_name: str = ""


def list_container(path: str) -> Listing:
    """Return the sources in the archive or database at ``path``.

    Raises:
        SourceError: It cannot be read, or holds no transcript.
        OSError: It cannot be opened.
    """
    with _plain(path) as (raw, stat):
        head = raw.read(len(_SQLITE_MAGIC)) or b""
    return _list_database(path, stat) if head == _SQLITE_MAGIC else _list_archive(path, stat)


def _list_database(path: str, stat: FileStat) -> Listing:
    with ForeignDatabase(path) as database:
        known = registry.detect_database(database.tables(), path)
        if known is None and registry.may_hold(path):
            raise SourceError(
                "its tables are not those that this version knows",
                hint="its agent has changed them: upgrade palace-daemon",
            )
        if known is None:
            return Listing()
        rows = database.conversations(known.conversations)
    found = tuple(Found(f"{path}{MEMBER}{name}", _newest_ns(stamp, stat), stamp) for name, stamp in rows)
    return Listing(found=found, agent=known.agent, format_name=known.name)


def database_format(path: str) -> DatabaseFormat | None:
    """Return the format of the database that holds the conversation at ``path``; None where it is in no database.

    Raises:
        SourceError: The database cannot be read.
    """
    container, member = split(path)
    if not member or not _begins_with(container, _SQLITE_MAGIC):
        return None
    with ForeignDatabase(container) as database:
        return registry.detect_database(database.tables(), container)


def _begins_with(path: str, magic: bytes) -> bool:
    with _plain(path) as (raw, _):
        return raw.read(len(magic)) == magic


def _newest_ns(stamp: str, stat: FileStat) -> int:
    """Return when a conversation changed last: what its stamp says if it begins with a time, else the database."""
    when = stamps.to_epoch_ms(stamp.split("|", 1)[0])
    return stat.mtime_ns if when is None else when * 1_000_000


def _list_archive(path: str, stat: FileStat) -> Listing:
    found = []
    with _archive(path) as archive:
        for item in archive.infolist():
            name = f"{path}{MEMBER}{item.filename}"
            if item.is_dir() or not item.file_size or not registry.has_known_suffix(item.filename):
                continue
            if item.flag_bits & 1:
                raise SourceError("the archive is encrypted", hint="unpack it and mine the files")
            with archive.open(item) as member:
                if registry.detect(name, member.read(registry.HEAD_BYTES)):
                    found.append(Found(name, stat.mtime_ns))
    return Listing(found=tuple(found))


@contextmanager
def _archive(path: str) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as exc:
        raise SourceError(f"the archive cannot be read: {exc}", hint="download or pack it again") from exc


def _archive_member(archive: zipfile.ZipFile, path: str, stat: FileStat) -> Material:
    member = split(path)[1]
    try:
        size = archive.getinfo(member).file_size
    except KeyError as exc:
        raise FileNotFoundError(path) from exc
    return Material(
        _Unpacked(lambda: archive.open(member)), msgspec.structs.replace(stat, size=size), has_identity=False
    )


def _conversation(path: str, name: str, stamp: str) -> Material:
    with ForeignDatabase(path) as database:
        known = registry.detect_database(database.tables(), path)
        if known is None:
            raise SourceError("the database is of no known format any more", hint="its schema may have changed")
        data = _joined(database.lines(known.records, name))
    if not data:
        raise FileNotFoundError(f"{path}{MEMBER}{name}")
    return Material(io.BytesIO(data), _made_up_stat(len(data), stamp, 0), has_identity=False)


def _joined(lines: Iterator[bytes]) -> bytes:
    buffer = bytearray()
    for line in lines:
        buffer += line
        if len(buffer) > FOLDER_BYTES_MAX:
            raise SourceError(f"a session of over {FOLDER_BYTES_MAX >> 20} MiB in one piece is not read")
    return bytes(buffer)


def _made_up_stat(size: int, stamp: str, mtime_ns: int) -> FileStat:
    """Return a stat that changes with ``stamp``; device and inode 0 are nobody's."""
    digest = int.from_bytes(hashlib.blake2b(stamp.encode("utf-8", "replace"), digest_size=7).digest(), "big")
    return FileStat(size=size, mtime_ns=mtime_ns, ctime_ns=digest, device=0, inode=0)


def is_same_stamp(stat: FileStat | None, stamp: str) -> bool:
    """Return whether a conversation's stored stat was made from this stamp."""
    return stat is not None and stat.ctime_ns == _made_up_stat(0, stamp, 0).ctime_ns


# ---------------------------------------------------------------------------------------------------------- folders


def gathered(path: str, known: FolderFormat, last: FileStat | None) -> Material:
    """Return the session that the file at ``path`` stands for, as lines of JSON, one for each of its files.

    Where no file changed since ``last``, nothing is read and the stat is that one.

    Raises:
        SourceError: The session is too large to be held.
    """
    beside = FilesBeside()
    members = list(dict.fromkeys(known.members(path, beside)))
    stats = [(member, found.st_size, found.st_mtime_ns) for member in members if (found := _stat(member))]
    stamp = msgspec.json.encode(stats).decode()
    if last is not None and is_same_stamp(last, stamp):
        return Material(io.BytesIO(), last, has_identity=False)
    data = _joined(_member_lines([member for member, _, _ in stats], beside))
    newest = max((mtime for _, _, mtime in stats), default=0)
    return Material(io.BytesIO(data), _made_up_stat(len(data), stamp, newest), has_identity=False)


def _member_lines(members: list[str], beside: FilesBeside) -> Iterator[bytes]:
    for member in members:
        data = beside.read(member)
        if data is None:
            continue
        value = decode_value(data).value
        yield msgspec.json.encode({"path": member, "value": value}) + b"\n"


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


class FilesBeside:
    """The files around a source, on disk or in its archive; see :class:`~palace_daemon.core.ports.Beside`."""

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes, or None."""
        container, member = split(path)
        try:
            if member:
                with _archive(container) as archive:
                    item = archive.getinfo(member)
                    return archive.read(item) if item.file_size <= BESIDE_BYTES_MAX else None
            with _plain(path) as (raw, stat):
                return raw.read(stat.size) if stat.size <= BESIDE_BYTES_MAX else None
        except (OSError, ValueError, KeyError, SourceError, RuntimeError):
            return None

    def names(self, directory: str) -> tuple[str, ...]:
        """Return the names in a directory, sorted."""
        inside = directory.rstrip("/") + "/"
        container, folder = (inside[: -len(MEMBER)], "") if inside.endswith(MEMBER) else split(inside)
        if container == inside:
            try:
                return tuple(sorted(os.listdir(directory)))
            except (OSError, ValueError):
                return ()
        with contextlib.suppress(OSError, SourceError), _archive(container) as archive:
            names = (name.removeprefix(folder) for name in archive.namelist() if name.startswith(folder))
            return tuple(sorted({name.split("/", 1)[0] for name in names if name}))
        return ()


def database_of(path: str) -> str:
    """Return the database that a changed file belongs to: its write-ahead log tells of it first."""
    return path.removesuffix("-wal")
