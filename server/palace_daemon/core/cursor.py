"""Deciding what happened to a source since it was last read: nothing, an append, or something that takes a re-read.

The caller takes a :class:`~palace_daemon.model.FileStat`, asks :func:`plan` which blocks it must hash, hashes them,
and asks :func:`judge` where to read on::

    todo = plan(cursor, stat)
    hashes = {index: block_hash(read(*block_span(index, cursor.offset))) for index in todo.blocks}
    verdict = judge(cursor, stat, hashes)
    ...read from verdict.cursor.offset, parse, feed what was consumed to a BlockHasher...
    cursor = advance(verdict.cursor, stat, hasher)

Invariant: whatever the file system says, the cursor of a verdict never points past the file, and a cursor that makes
no sense leads to a re-read from the beginning, never to skipped bytes. Take the stat *before* reading: what is written
in between then shows as a change at the next look.

What is not seen: a change of a middle block in the very moment of an append, until the rotating check reaches that
block; and a rewrite at equal size within one tick of the file system's clock after the stat (about 4 ms on Linux before
6.13), for which ``verify`` exists.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal

from msgspec.structs import replace

from palace_daemon.model import Cursor, FileStat, Value

BLOCK_BYTES = 1 << 20
"""Size of the hashed blocks; three of them (first, last, rotating) take about 5 ms to hash on one core."""

DIGEST_BYTES = 16
"""128 bits: chance collisions are out of reach, and a cursor over 1 GiB stays at 16 KiB."""

ChangeKind = Literal["unchanged", "appended", "truncated", "replaced", "rewritten"]


class Plan(Value):
    """What must be hashed before :func:`judge` can decide."""

    blocks: tuple[int, ...]
    """Ascending indexes of 1 MiB blocks of ``[0, cursor.offset)``; empty when the stat alone decides."""


class Verdict(Value):
    """What happened, and the cursor to go on from."""

    kind: ChangeKind
    """``unchanged``: what was read still stands, and nothing stands behind it. ``appended``: as before, but more bytes
    stand behind it: new ones, ones that an interrupted reading left, or a half line. ``truncated``: shorter than the
    cursor. ``replaced``: another file with other content stands at the path. ``rewritten``: the same file with other
    content."""
    cursor: Cursor
    """Where to go on; safe to store as it is."""

    @property
    def must_reread(self) -> bool:
        """Whether the source must be read anew, from 0."""
        return self.kind in {"truncated", "replaced", "rewritten"}


def plan(cursor: Cursor, stat: FileStat, *, verify: bool = False) -> Plan:
    """Name the blocks whose hashes decide what happened to a file.

    None when nothing changed or the size alone decides; the first, the last and one rotating block for a plain append;
    all of them otherwise (equal size with another time, another inode, a time that ran backwards).

    Args:
        cursor: Where reading stopped; a fresh ``Cursor()`` for a source never read.
        stat: What ``stat`` says now.
        verify: Hash all blocks even when the stat is equal.
    """
    if not _is_sound(cursor) or cursor.offset == 0 or stat.size < cursor.offset:
        return Plan(blocks=())
    if stat == cursor.stat and not verify:
        return Plan(blocks=())
    count = block_count(cursor.offset)
    if verify or not _looks_appended(cursor.stat, stat):
        return Plan(blocks=tuple(range(count)))
    return Plan(blocks=tuple(sorted({0, _rotating(cursor.rotating_block, count), count - 1})))


def judge(cursor: Cursor, stat: FileStat, hashes: Mapping[int, bytes]) -> Verdict:
    """Decide what happened, given the hashes that :func:`plan` asked for.

    Args:
        cursor: The same as was given to :func:`plan`.
        stat: The same as was given to :func:`plan`.
        hashes: Block index to :func:`block_hash` of what stands there now. A block of the plan that is missing here
            (it could no longer be read) counts as changed.
    """
    if not _is_sound(cursor):
        return _anew("rewritten")
    if stat.size < cursor.offset:
        return _anew("truncated" if _is_same_file(cursor.stat, stat) else "replaced")
    wanted = plan(cursor, stat).blocks
    if any(hashes.get(index) != _stored_hash(cursor, index) for index in {*wanted, *hashes}):
        return _anew("rewritten" if _is_same_file(cursor.stat, stat) else "replaced")
    # Equal stats do not mean that there is nothing to read: the reader may have stopped, or died, in mid-file.
    return Verdict(
        kind="unchanged" if stat.size == cursor.offset else "appended",
        cursor=replace(cursor, stat=stat, rotating_block=_next_rotating(cursor, wanted)),
    )


def advance(cursor: Cursor, stat: FileStat, hasher: BlockHasher, *, tail_taken: bool = False) -> Cursor:
    """Return the cursor to store after reading.

    Args:
        cursor: The verdict's cursor.
        stat: What :func:`judge` was given, taken before reading.
        hasher: Fed all bytes that were consumed, from 0 or resumed from ``cursor``.
        tail_taken: Whether the last consumed line had no LF.
    """
    return replace(
        cursor,
        offset=hasher.offset,
        stat=stat,
        block_hashes=hasher.digests(),
        tail_taken_at=hasher.offset if tail_taken else cursor.tail_taken_at,
    )


def block_hash(data: bytes) -> bytes:
    """Return the 16-byte BLAKE2b digest of one block."""
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES, usedforsecurity=False).digest()


def block_count(offset: int) -> int:
    """Return how many blocks ``[0, offset)`` has, the partial last one included."""
    return -(-offset // BLOCK_BYTES)


def block_span(index: int, offset: int) -> tuple[int, int]:
    """Return the byte range ``(start, end)`` that block ``index`` of ``[0, offset)`` covers."""
    return index * BLOCK_BYTES, min((index + 1) * BLOCK_BYTES, offset)


def partial_start(offset: int) -> int:
    """Return where the partial last block of ``[0, offset)`` begins; ``offset`` itself when there is none."""
    return offset - offset % BLOCK_BYTES


def follows_taken_tail(cursor: Cursor, following: bytes) -> bool:
    """Return whether a last line that was taken without its LF was indeed whole.

    Args:
        cursor: A cursor whose ``tail_taken_at`` equals its ``offset``; any other gives true.
        following: What stands behind the cursor now; the first byte is enough. Empty gives true: nothing was added.
    """
    return cursor.tail_taken_at != cursor.offset or not following or following[:1] in {b"\n", b"\r"}


class BlockHasher:
    """Hashes the consumed bytes of a source block by block, in constant memory. Not thread-safe.

    Fed in any cuts, the same bytes give the same digests.
    """

    def __init__(self, digests: bytes = b"", block: hashlib.blake2b | None = None, offset: int = 0) -> None:
        """Begin at 0, or at ``offset``: with the digests of the blocks before it, and the hash of the open one."""
        self._digests = bytearray(digests)
        self._block = block or _new_hash()
        self._offset = offset

    @classmethod
    def resume(cls, cursor: Cursor, partial: bytes) -> BlockHasher:
        """Return a hasher that stands at ``cursor.offset``.

        Args:
            cursor: A cursor that :func:`judge` found good.
            partial: The bytes of ``[partial_start(cursor.offset), cursor.offset)``.

        Raises:
            ValueError: ``partial`` is not what the cursor was made over; read the source anew.
        """
        if not _is_sound(cursor):
            raise ValueError("cursor is inconsistent")
        whole = cursor.offset // BLOCK_BYTES
        hasher = cls(cursor.block_hashes[: whole * DIGEST_BYTES], offset=whole * BLOCK_BYTES)
        hasher.feed(partial)
        if hasher.offset != cursor.offset or hasher.digests() != cursor.block_hashes:
            raise ValueError("the partial block differs from the cursor")
        return hasher

    @property
    def offset(self) -> int:
        """Bytes hashed so far."""
        return self._offset

    def feed(self, data: bytes | memoryview) -> None:
        """Hash the next consumed bytes."""
        view = memoryview(data)
        while view:
            room = BLOCK_BYTES - self._offset % BLOCK_BYTES
            piece = view[:room]
            self._block.update(piece)
            self._offset += len(piece)
            view = view[room:]
            if self._offset % BLOCK_BYTES == 0:
                self._digests += self._block.digest()
                self._block = _new_hash()

    def copy(self) -> BlockHasher:
        """Return a hasher that stands where this one does."""
        return BlockHasher(bytes(self._digests), self._block.copy(), self._offset)

    def digests(self) -> bytes:
        """Return ``Cursor.block_hashes`` for ``[0, offset)``; feeding may go on afterwards."""
        partial = self._block.digest() if self._offset % BLOCK_BYTES else b""
        return bytes(self._digests) + partial


def _new_hash() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=DIGEST_BYTES, usedforsecurity=False)


def _is_sound(cursor: Cursor) -> bool:
    """Return whether a stored cursor is one that this module could have made."""
    if cursor.stat is None:
        return cursor.offset == 0
    return cursor.offset >= 0 and len(cursor.block_hashes) == block_count(cursor.offset) * DIGEST_BYTES


def _is_same_file(old: FileStat | None, new: FileStat) -> bool:
    return old is not None and (old.device, old.inode) == (new.device, new.inode)


def _looks_appended(old: FileStat | None, new: FileStat) -> bool:
    """Return whether the stat alone suggests a plain append: the same file, longer, not older."""
    return old is not None and _is_same_file(old, new) and new.size > old.size and new.mtime_ns >= old.mtime_ns


def _stored_hash(cursor: Cursor, index: int) -> bytes:
    return cursor.block_hashes[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES]


def _rotating(position: int, count: int) -> int:
    """Return the middle block whose turn it is, or the last block when there is no middle one."""
    middle = count - 2
    return 1 + (position - 1) % middle if middle > 0 else count - 1


def _next_rotating(cursor: Cursor, checked: tuple[int, ...]) -> int:
    count = block_count(cursor.offset)
    if not checked or count <= 2:  # first and last are checked every time
        return cursor.rotating_block
    return _rotating(_rotating(cursor.rotating_block, count) + 1, count)


def _anew(kind: ChangeKind) -> Verdict:
    return Verdict(kind=kind, cursor=Cursor())
