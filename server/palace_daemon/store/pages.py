"""Reading a database file page by page, without SQLite: what a damaged file still holds.

SQLite gives up at the first page that makes no sense, and at once where that is the first one. But every leaf of a
table holds whole rows, whatever became of the pages above it, and rows tell by the number and kinds of their values
which table they are of. Removed rows do not come back this way: ``secure_delete`` overwrites them.

The format is SQLite's documented one: pages of one size, B-trees of tables and of indexes, overflow pages for long
rows, and a write-ahead log whose frames up to the last commit stand for newer pages.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

PAGE_BYTES = 4_096
"""The page size of every database that Palace has written."""
INDEX_INTERIOR, TABLE_INTERIOR, INDEX_LEAF, TABLE_LEAF = 2, 5, 10, 13
_HEADER_BYTES = 100
_LOG_HEADER, _FRAME_HEADER = 32, 24
_INTEGER_BYTES = (0, 1, 2, 3, 4, 6, 8)
_REAL, _ZERO, _ONE, _BLOB, _TEXT = 7, 8, 9, 12, 13
Value = int | float | str | bytes | None


class Row(NamedTuple):
    """One record. ``rowid`` is None in trees of indexes, of which tables ``WITHOUT ROWID`` are."""

    rowid: int | None
    values: tuple[Value, ...]


class BadPageError(ValueError):
    """The page, or a part of it, makes no sense."""


class PageFile:
    """A database file with its write-ahead log, read whole into memory only page by page."""

    def __init__(self, path: Path) -> None:
        """Open the file and find the newest committed state of each page."""
        self._file = path.open("rb")
        self._newer, size = _committed_pages(path.with_name(f"{path.name}-wal"))
        self.count = size or -(-path.stat().st_size // PAGE_BYTES)
        self._chained: set[int] = set()

    def close(self) -> None:
        """Close; idempotent."""
        self._file.close()

    def page(self, number: int) -> bytes:
        """Return a page, counted from 1."""
        if not 1 <= number <= self.count:
            raise BadPageError(f"there is no page {number}")
        if number in self._newer:
            return self._newer[number]
        self._file.seek((number - 1) * PAGE_BYTES)
        return self._file.read(PAGE_BYTES).ljust(PAGE_BYTES, b"\0")

    def kind(self, number: int) -> int:
        """Return the kind of B-tree page, or 0."""
        page, start = self.page(number), _start(number)
        kind = page[start]
        cells = int.from_bytes(page[start + 3 : start + 5])
        is_tree = kind in {INDEX_INTERIOR, TABLE_INTERIOR, INDEX_LEAF, TABLE_LEAF}
        return kind if is_tree and _pointers_end(start, kind, cells) <= PAGE_BYTES else 0

    def rows(self, number: int) -> Iterator[Row | None]:
        """Yield the rows of a page that holds any, in its order; None for one that cannot be read."""
        kind = self.kind(number)
        if kind in {0, TABLE_INTERIOR}:
            return
        page = self.page(number)
        for offset in self._cells(number, page, kind):
            try:
                yield self._row(page, offset, kind)
            except (IndexError, ValueError, struct.error):
                yield None

    def is_whole(self, root: int) -> bool:
        """Return whether every page of the tree at ``root`` makes sense, and every row in it."""
        seen: set[int] = set()
        waiting = [root]
        while waiting:
            number = waiting.pop()
            try:
                kind = self.kind(number)
                if kind == 0 or number in seen:
                    return False
                seen.add(number)
                if any(row is None for row in self.rows(number)):
                    return False
                if kind in {INDEX_INTERIOR, TABLE_INTERIOR}:
                    waiting += self._children(number, kind)
            except (IndexError, ValueError, struct.error):
                return False
        return True

    def unreadable(self) -> int:
        """Return how many pages are neither of a tree, nor the rest of a row, nor free; call when all were read.

        Pages of zeros are among them: SQLite uses every page, or lists it as free.
        """
        known = self._chained | (self._free_pages() if self.count else set())
        return sum(number not in known and self.kind(number) == 0 for number in range(1, self.count + 1))

    def _cells(self, number: int, page: bytes, kind: int) -> Sequence[int]:
        start = _start(number)
        count = int.from_bytes(page[start + 3 : start + 5])
        first = _pointers_end(start, kind, 0)
        return struct.unpack_from(f">{count}H", page, first)

    def _children(self, number: int, kind: int) -> list[int]:
        page, start = self.page(number), _start(number)
        last = int.from_bytes(page[start + 8 : start + 12])
        return [*(int.from_bytes(page[cell : cell + 4]) for cell in self._cells(number, page, kind)), last]

    def _row(self, page: bytes, offset: int, kind: int) -> Row:
        if kind == INDEX_INTERIOR:
            offset += 4
        size, offset = _varint(page, offset)
        rowid = None
        if kind == TABLE_LEAF:
            rowid, offset = _varint(page, offset)
        return Row(rowid, _record(self._payload(page, offset, size, is_table=kind == TABLE_LEAF)))

    def _payload(self, page: bytes, offset: int, size: int, *, is_table: bool) -> bytes:
        """Return the record, cut short where its further pages cannot be read."""
        if size > self.count * PAGE_BYTES:
            raise BadPageError("a row is longer than the file")
        usable = PAGE_BYTES
        most = usable - 35 if is_table else (usable - 12) * 64 // 255 - 23
        if size <= most:
            return page[offset : offset + size]
        least = (usable - 12) * 32 // 255 - 23
        local = least + (size - least) % (usable - 4)
        local = local if local <= most else least
        found = bytearray(page[offset : offset + local])
        following = int.from_bytes(page[offset + local : offset + local + 4])
        visited: set[int] = set()
        while following and len(found) < size:
            if following in visited or not 1 < following <= self.count:
                break
            visited.add(following)
            rest = self.page(following)
            found += rest[4:]
            following = int.from_bytes(rest[:4])
        self._chained |= visited
        return bytes(found[:size])

    def _free_pages(self) -> set[int]:
        """Return the pages of the list of free ones, as far as it can be followed."""
        found: set[int] = set()
        trunk = int.from_bytes(self.page(1)[32:36])
        while 1 < trunk <= self.count and trunk not in found:
            found.add(trunk)
            page = self.page(trunk)
            count = min(int.from_bytes(page[4:8]), PAGE_BYTES // 4 - 2)
            found |= set(struct.unpack_from(f">{count}I", page, 8))
            trunk = int.from_bytes(page[:4])
        return found


def _start(number: int) -> int:
    """Return where a page's own header begins: the first page holds that of the file before it."""
    return _HEADER_BYTES if number == 1 else 0


def _pointers_end(start: int, kind: int, cells: int) -> int:
    return start + (12 if kind in {INDEX_INTERIOR, TABLE_INTERIOR} else 8) + 2 * cells


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    """Return a number of 1 to 9 bytes, and where it ends."""
    number = 0
    for count in range(8):
        byte = data[offset + count]
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number, offset + count + 1
    number = number << 8 | data[offset + 8]
    return (number - (1 << 64) if number >> 63 else number), offset + 9


def _record(payload: bytes) -> tuple[Value, ...]:
    """Return the values of a record; those that a cut payload lacks are empty or cut."""
    header_end, offset = _varint(payload, 0)
    if not offset <= header_end <= len(payload):
        raise BadPageError("a row's header is longer than the row")
    values: list[Value] = []
    place = header_end
    while offset < header_end:
        kind, offset = _varint(payload, offset)
        value, place = _value(payload, place, kind)
        values.append(value)
    return tuple(values)


def _value(payload: bytes, place: int, kind: int) -> tuple[Value, int]:
    if kind < _REAL:
        end = place + _INTEGER_BYTES[kind]
        if end > len(payload):
            raise BadPageError("a number is cut")
        return (int.from_bytes(payload[place:end], signed=True) if kind else None), end
    if kind == _REAL:
        return struct.unpack_from(">d", payload, place)[0], place + 8
    if kind in {_ZERO, _ONE}:
        return kind - _ZERO, place
    if kind < _BLOB:
        raise BadPageError("a reserved kind of value")
    end = place + (kind - _BLOB) // 2
    data = payload[place:end]
    return (data.decode("utf-8", "replace") if kind % 2 else data), end


def _committed_pages(log: Path) -> tuple[dict[int, bytes], int]:
    """Return the pages in the write-ahead log, as the last whole transaction left them, and how many pages there are.

    0 where there is no such transaction.
    """
    try:
        data = log.read_bytes()
    except FileNotFoundError:
        return {}, 0
    if len(data) < _LOG_HEADER or int.from_bytes(data[:4]) & ~1 != 0x377F0682:
        return {}, 0
    order = ">" if data[3] & 1 else "<"
    sums = _checksum(order, data[:24], (0, 0))
    if int.from_bytes(data[8:12]) != PAGE_BYTES or sums != struct.unpack_from(">2I", data, 24):
        return {}, 0
    committed: dict[int, bytes] = {}
    waiting: dict[int, bytes] = {}
    pages = 0
    for start in range(_LOG_HEADER, len(data) - _FRAME_HEADER - PAGE_BYTES + 1, _FRAME_HEADER + PAGE_BYTES):
        number, size, *salts_and_sums = struct.unpack_from(">6I", data, start)
        page = data[start + _FRAME_HEADER : start + _FRAME_HEADER + PAGE_BYTES]
        sums = _checksum(order, page, _checksum(order, data[start : start + 8], sums))
        if (*struct.unpack_from(">2I", data, 16), *sums) != tuple(salts_and_sums):
            break
        waiting[number] = page
        if size:  # the last frame of a transaction
            committed |= waiting
            waiting = {}
            pages = size
    return committed, pages


def _checksum(order: str, data: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second
