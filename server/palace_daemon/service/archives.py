"""Archives of transcripts: one is kept open while its members are read, and nothing of it is unpacked to disk."""

from __future__ import annotations

import contextlib
import gzip
import lzma
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

import zstandard

from palace_daemon.errors import SourceError

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
GZIP_MAGIC = b"\x1f\x8b"
ZIP_MAGIC = b"PK\x03\x04"

_COUNT_BYTES = 1 << 20
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, gzip.BadGzipFile, zstandard.ZstdError, EOFError),
    *(NotImplementedError, RuntimeError, ValueError),  # unknown methods, passwords, names and numbers out of range
)
"""What the libraries raise for damaged, encrypted or unusual archives."""


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


class Unpacked:
    """A stream that can only be read forward, made seekable by beginning anew."""

    def __init__(self, begin: Callable[[], Stream]) -> None:
        """Take the way to the stream's beginning.

        Raises:
            SourceError: It cannot be unpacked.
        """
        self._begin = begin
        with _explained():
            self._stream = begin()
        self._position = 0

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes; fewer only at the end.

        Raises:
            SourceError: It cannot be unpacked.
        """
        parts: list[bytes] = []
        left = size
        while left:
            with _explained():
                part = self._stream.read(left)
            if not part:
                break
            parts.append(part)
            self._position += len(part)
            left = left - len(part) if size >= 0 else -1
        return b"".join(parts)

    def seek(self, position: int, /) -> int:
        """Go to ``position`` from the start."""
        if position < self._position:
            with _explained():
                self._stream, self._position = self._begin(), 0
        while self._position < position and self.read(min(_COUNT_BYTES, position - self._position)):
            pass
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def size(self) -> int:
        """Return the unpacked size; reads all that is left."""
        while self.read(_COUNT_BYTES):
            pass
        return self._position


def unpacked(begin: Callable[[], Stream], magic: bytes) -> Unpacked | None:
    """Return the unpacked form of a stream that begins with ``magic``; None where it is not compressed."""
    if magic.startswith(GZIP_MAGIC):
        return Unpacked(lambda: gzip.GzipFile(fileobj=begin()))  # type: ignore[call-overload]
    if magic.startswith(ZSTD_MAGIC):
        decompressor = zstandard.ZstdDecompressor()
        return Unpacked(
            lambda: decompressor.stream_reader(begin(), read_across_frames=True, closefd=False)  # type: ignore[arg-type]
        )
    return None


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except (*_BROKEN, OSError) as exc:  # bz2 raises the latter
        told = str(exc) or type(exc).__name__
        reason = "it is encrypted" if "encrypted" in told or "password" in told else told
        hint = "the file is damaged, encrypted or still being written"
        raise SourceError(f"it cannot be unpacked: {reason}", hint=hint) from exc


class Archives:
    """Opens archives and keeps the last one open, since each opening reads its whole directory. Single-threaded."""

    def __init__(self) -> None:
        """Begin with none open."""
        self._identity: tuple[object, ...] = ()
        self._archive: zipfile.ZipFile | None = None

    def get(self, path: str) -> zipfile.ZipFile:
        """Return the archive at ``path``, open for reading.

        Raises:
            SourceError: It cannot be read.
            OSError: It cannot be opened.
        """
        found = os.stat(path)
        identity = (path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if self._archive is None or identity != self._identity:
            self.close()
            try:
                self._archive = zipfile.ZipFile(path)
            except _BROKEN as exc:
                raise SourceError(f"the archive cannot be read: {exc}", hint="download or pack it again") from exc
            self._identity = identity
        return self._archive

    def close(self) -> None:
        """Close what is open; idempotent."""
        if self._archive is not None:
            self._archive.close()
        self._archive = None

    def member(self, path: str, name: str) -> tuple[Stream, int]:
        """Return a member of the archive at ``path`` and its size, unpacked where it is compressed once more.

        Raises:
            FileNotFoundError: There is no such member.
            SourceError: It cannot be unpacked.
        """
        archive = self.get(path)
        try:
            size = archive.getinfo(name).file_size
        except KeyError as exc:
            raise FileNotFoundError(f"{path}!/{name}") from exc
        stream = Unpacked(lambda: archive.open(name))
        inner = unpacked(lambda: archive.open(name), stream.read(len(ZSTD_MAGIC)))
        if inner is not None:
            return inner, inner.size()
        return stream, size

    def read(self, path: str, name: str, most_bytes: int) -> bytes | None:
        """Return a whole member, or None: no such member, larger than ``most_bytes``, or unreadable."""
        with contextlib.suppress(OSError, SourceError, KeyError, *_BROKEN):
            archive = self.get(path)
            item = archive.getinfo(name)
            return archive.read(item) if item.file_size <= most_bytes else None
        return None

    def names(self, path: str, folder: str) -> tuple[str, ...]:
        """Return the names in ``folder`` (empty, or with a slash at its end), sorted."""
        with contextlib.suppress(OSError, SourceError):
            inside = (name.removeprefix(folder) for name in self.get(path).namelist() if name.startswith(folder))
            return tuple(sorted({name.split("/", 1)[0] for name in inside if name}))
        return ()

    def stamp(self, path: str, name: str) -> tuple[int, int] | None:
        """Return size and checksum of a member, which change with it; None where there is none."""
        with contextlib.suppress(OSError, SourceError, KeyError):
            item = self.get(path).getinfo(name)
            return item.file_size, item.CRC
        return None
