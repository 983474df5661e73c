"""What a source's path leads to; all of it is read as one stream of bytes with a stat.

A file, a compressed file, a member of an archive, a conversation in a database, a session of many small files.
A path below a container is ``<container>!/<member>``. Nothing is ever unpacked to disk: transcripts hold secrets.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat as stat_module
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from palace_daemon.core.documents import decode_value
from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.base import DatabaseFormat, FolderFormat
from palace_daemon.core.transcripts.reading import stamps
from palace_daemon.errors import SourceError
from palace_daemon.model import FileStat
from palace_daemon.service.archives import ZIP_MAGIC, Archives, Stream, unpacked
from palace_daemon.store.foreign import ForeignDatabase
from palace_daemon.watch.discover import file_stat

MEMBER = "!/"
"""Divides a container's path from the member's name."""

BESIDE_BYTES_MAX = 16 << 20
"""Largest file that is read beside a source; the largest known is an index of titles with some megabytes."""

FOLDER_BYTES_MAX = 512 << 20
"""Most bytes of a session that lies in many files or in a database; it is held in memory while it is read."""

_CONTAINER = re.compile(r"(.+?\.(?:zip|db|vscdb|sqlite3?))!/(.+)", re.IGNORECASE | re.DOTALL)
_SQLITE_MAGIC = b"SQLite format 3\x00"
_STILL_WRITTEN_S = 120.0
"""A file that makes no sense counts as half-written for so long after its last change, then as damaged."""


class StillWrittenError(SourceError):
    """A part of the source makes no sense yet; what was read of it before stands."""


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
    """Return the file that holds the source, and the member's name in it or an empty string.

    Where nothing stands at the path any more, the endings of archives and databases tell.
    """
    at = path.find(MEMBER)
    if at < 0 or os.path.lexists(path):
        return path, ""
    while at >= 0:
        if os.path.isfile(path[:at]):
            return path[:at], path[at + len(MEMBER) :]
        at = path.find(MEMBER, at + 1)
    match = _CONTAINER.fullmatch(path)
    return (match[1], match[2]) if match else (path, "")


def file_of(path: str) -> str:
    """Return the file on disk that holds the source at ``path``."""
    return split(path)[0]


@contextmanager
def opened(path: str, archives: Archives, stamp: str = "") -> Iterator[Material]:
    """Open the source at ``path``: a file, a compressed file, an archive's member or a database's conversation.

    Args:
        path: As the store has it.
        archives: Opens archives.
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
            stream, size = archives.member(container, member)
            yield Material(stream, msgspec.structs.replace(stat, size=size), has_identity=False)
        elif compressed := unpacked(lambda: _from_start(raw), magic):
            yield Material(compressed, msgspec.structs.replace(stat, size=compressed.size()))
        else:
            yield Material(raw, stat)


def _from_start(raw: io.FileIO) -> io.FileIO:
    raw.seek(0)
    return raw


@contextmanager
def _plain(path: str) -> Iterator[tuple[io.FileIO, FileStat]]:
    """Open a regular file without ever blocking on a pipe."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb", buffering=0) as raw:
        found = os.fstat(raw.fileno())
        if not stat_module.S_ISREG(found.st_mode):
            raise SourceError("not a regular file")
        yield raw, file_stat(found)


def unpacked_twin(path: str) -> str:
    """Return the path of the uncompressed file that a compressed one repeats, if it is there; else an empty string."""
    plain = registry.plain_name(path)
    return plain if plain != path and os.path.isfile(plain) else ""


# ------------------------------------------------------------------------------------------------------- containers


def is_container(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` holds sources."""
    return head.startswith((ZIP_MAGIC, _SQLITE_MAGIC))


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


def list_container(path: str, archives: Archives) -> Listing:
    """Return the sources in the archive or database at ``path``.

    Raises:
        SourceError: It cannot be read, or holds no transcript.
        OSError: It cannot be opened.
    """
    with _plain(path) as (raw, stat):
        head = raw.read(len(_SQLITE_MAGIC)) or b""
    return _list_database(path, stat) if head == _SQLITE_MAGIC else _list_archive(path, stat, archives)


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


def _list_archive(path: str, stat: FileStat, archives: Archives) -> Listing:
    found = []
    for item in archives.get(path).infolist():
        name = f"{path}{MEMBER}{item.filename}"
        if item.is_dir() or not item.file_size or not registry.has_known_suffix(item.filename):
            continue
        try:
            head = archives.member(path, item.filename)[0]
            head.seek(0)
            is_one = registry.detect(registry.plain_name(name), head.read(registry.HEAD_BYTES) or b"") is not None
        except SourceError:
            is_one = True  # it tells its own reason when it is read, and keeps no other member back
        if is_one:
            found.append(Found(name, stat.mtime_ns))
    return Listing(found=tuple(found))


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


def gathered(path: str, known: FolderFormat, archives: Archives, last: FileStat | None) -> Material | None:
    """Return the session that the file at ``path`` stands for, as lines of JSON, one for each of its files.

    None where no file changed since ``last``.

    Raises:
        StillWrittenError: One of the files is half-written.
        SourceError: The session is too large to be held.
    """
    beside = FilesBeside(archives)
    members = list(dict.fromkeys(known.members(path, beside)))
    stats = [(member, *found) for member in members if (found := beside.stamp(member))]
    stamp = msgspec.json.encode(stats).decode()
    if last is not None and is_same_stamp(last, stamp):
        return None
    data = _joined(_member_lines([row[0] for row in stats], beside))
    newest = max((row[2] for row in stats), default=0)
    return Material(io.BytesIO(data), _made_up_stat(len(data), stamp, newest), has_identity=False)


def _member_lines(members: list[str], beside: FilesBeside) -> Iterator[bytes]:
    for member in members:
        data = beside.read(member)
        if data is None:
            continue
        decoded = decode_value(data)
        if decoded.problem and _is_fresh(member):
            raise StillWrittenError(f"{os.path.basename(member)} is still being written")
        yield msgspec.json.encode({"path": member, "value": decoded.value}) + b"\n"


def _is_fresh(path: str) -> bool:
    try:
        return time.time() - os.stat(path).st_mtime < _STILL_WRITTEN_S
    except (OSError, ValueError):
        return False


class FilesBeside:
    """The files around a source, on disk or in its archive; see :class:`~palace_daemon.core.ports.Beside`."""

    def __init__(self, archives: Archives) -> None:
        """Take what opens archives."""
        self._archives = archives

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes, or None."""
        container, member = split(path)
        if member:
            return self._archives.read(container, member, BESIDE_BYTES_MAX)
        try:
            with _plain(path) as (raw, stat):
                return raw.read(stat.size) if stat.size <= BESIDE_BYTES_MAX else None
        except (OSError, ValueError, SourceError):
            return None

    def names(self, directory: str) -> tuple[str, ...]:
        """Return the names in a directory, sorted."""
        inside = directory.rstrip("/") + "/"
        container, folder = (inside[: -len(MEMBER)], "") if inside.endswith(MEMBER) else split(inside)
        if container != inside:
            return self._archives.names(container, folder)
        try:
            return tuple(sorted(os.listdir(directory)))
        except (OSError, ValueError):
            return ()

    def stamp(self, path: str) -> tuple[int, int] | None:
        """Return two numbers that change with a file, its size and its mtime (in an archive its checksum), or None."""
        container, member = split(path)
        if member:
            return self._archives.stamp(container, member)
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            return None
        return found.st_size, found.st_mtime_ns


def database_of(path: str) -> str:
    """Return the database that a changed file belongs to: its write-ahead log tells of it first."""
    return path.removesuffix("-wal")
