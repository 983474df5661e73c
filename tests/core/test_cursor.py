"""The cursor's decisions, checked against real bytes held in memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from palace_daemon.core.cursor import (
    BLOCK_BYTES,
    DIGEST_BYTES,
    BlockHasher,
    Verdict,
    advance,
    block_count,
    block_hash,
    block_span,
    follows_taken_tail,
    judge,
    partial_start,
    plan,
)
from palace_daemon.model import Cursor, FileStat

MIB = BLOCK_BYTES


def stat_of(data: bytes, *, mtime: int = 1, ctime: int = 1, inode: int = 7) -> FileStat:
    return FileStat(size=len(data), mtime_ns=mtime, ctime_ns=ctime, device=1, inode=inode)


def cursor_over(data: bytes, offset: int | None = None, stat: FileStat | None = None) -> Cursor:
    hasher = BlockHasher()
    hasher.feed(data[: len(data) if offset is None else offset])
    return advance(Cursor(), stat or stat_of(data), hasher)


def look(cursor: Cursor, data: bytes, stat: FileStat, *, verify: bool = False) -> tuple[Verdict, tuple[int, ...]]:
    """Do what the caller of the core does, with ``data`` as the file."""
    blocks = plan(cursor, stat, verify=verify).blocks
    hashes = {}
    for index in blocks:
        start, end = block_span(index, cursor.offset)
        hashes[index] = block_hash(data[start:end])
    return judge(cursor, stat, hashes), blocks


def changed_at(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


LONG = b"".join(i.to_bytes(4, "big") for i in range(5 * MIB // 4 + 100))
"""Six blocks, all different, the last one partial."""


def test_first_look_reads_from_the_beginning() -> None:
    verdict, blocks = look(Cursor(), b"a\n", stat_of(b"a\n"))
    assert (verdict.kind, verdict.cursor.offset, blocks) == ("appended", 0, ())


def test_empty_new_file_is_unchanged() -> None:
    assert look(Cursor(), b"", stat_of(b""))[0].kind == "unchanged"


def test_equal_stat_hashes_nothing() -> None:
    verdict, blocks = look(cursor_over(LONG), LONG, stat_of(LONG))
    assert (verdict.kind, verdict.cursor.offset, blocks) == ("unchanged", len(LONG), ())


def test_append_checks_first_last_and_one_rotating_block() -> None:
    cursor = cursor_over(LONG)
    data = LONG
    seen = []
    for now in range(2, 6):
        data += b"more\n"
        verdict, blocks = look(cursor, data, stat_of(data, mtime=now, ctime=now))
        assert (verdict.kind, verdict.cursor.offset) == ("appended", len(LONG))
        assert blocks[0] == 0
        assert blocks[-1] == 5
        seen.append(blocks[1])
        cursor = verdict.cursor
    assert sorted(seen) == [1, 2, 3, 4], "each middle block has its turn"


def test_bytes_that_an_interrupted_reading_left_are_read_although_the_stat_is_equal() -> None:
    old = b"one\n"
    new = b"one\ntwo\n"
    first, _ = look(cursor_over(old), new, stat_of(new, mtime=2, ctime=2))
    again, blocks = look(first.cursor, new, stat_of(new, mtime=2, ctime=2))
    assert (again.kind, again.cursor.offset, blocks) == ("appended", 4, ())
    in_slices, _ = look(cursor_over(LONG, offset=3 * MIB), LONG, stat_of(LONG))
    assert (in_slices.kind, in_slices.cursor.offset) == ("appended", 3 * MIB)


@pytest.mark.parametrize("position", [0, MIB + 3, 5 * MIB + 1, len(LONG) - 1])
def test_same_size_with_only_another_ctime_finds_a_changed_byte_anywhere(position: int) -> None:
    verdict, blocks = look(cursor_over(LONG), changed_at(LONG, position), stat_of(LONG, ctime=2))
    assert blocks == (0, 1, 2, 3, 4, 5)
    assert (verdict.kind, verdict.cursor.offset, verdict.must_reread) == ("rewritten", 0, True)


def test_chmod_or_touch_verifies_and_goes_on() -> None:
    verdict, blocks = look(cursor_over(LONG), LONG, stat_of(LONG, mtime=5, ctime=9))
    assert (verdict.kind, verdict.cursor.offset, len(blocks)) == ("unchanged", len(LONG), 6)
    assert plan(verdict.cursor, stat_of(LONG, mtime=5, ctime=9)).blocks == (), "the new stat is remembered"


def test_same_content_at_another_inode_is_not_read_again() -> None:
    data = LONG + b"more\n"
    same, _ = look(cursor_over(LONG), LONG, stat_of(LONG, inode=8))
    longer, blocks = look(cursor_over(LONG), data, stat_of(data, inode=8, mtime=2))
    assert (same.kind, same.cursor.offset) == ("unchanged", len(LONG))
    assert (longer.kind, longer.cursor.offset) == ("appended", len(LONG))
    assert blocks == (0, 1, 2, 3, 4, 5), "a rename-over may hide a changed middle: look at all"


def test_other_content_at_another_inode_is_replaced() -> None:
    other = changed_at(LONG, 2 * MIB) + b"more"
    assert look(cursor_over(LONG), other, stat_of(other, inode=8, mtime=2))[0].kind == "replaced"
    assert look(cursor_over(LONG), b"new\n", stat_of(b"new\n", inode=8, mtime=2))[0].kind == "replaced"


def test_truncated_file_is_read_anew() -> None:
    verdict, blocks = look(cursor_over(b"one\ntwo\n"), b"one\n", stat_of(b"one\n", mtime=2))
    assert (verdict.kind, verdict.cursor.offset, blocks) == ("truncated", 0, ())


def test_truncated_and_rewritten_to_a_larger_size_is_noticed() -> None:
    other = b"x" * (len(LONG) + 50)
    assert look(cursor_over(LONG), other, stat_of(other, mtime=2, ctime=2))[0].kind == "rewritten"


def test_insertion_in_the_middle_shifts_the_last_block_and_is_noticed() -> None:
    other = LONG[: 2 * MIB + 10] + b"!" + LONG[2 * MIB + 10 :]
    assert look(cursor_over(LONG), other, stat_of(other, mtime=2, ctime=2))[0].kind == "rewritten"


def test_growth_with_an_older_mtime_checks_everything() -> None:
    data = LONG + b"more\n"
    cursor = cursor_over(LONG, stat=stat_of(LONG, mtime=10))
    assert len(look(cursor, data, stat_of(data, mtime=9, ctime=9))[1]) == 6


def test_half_line_that_was_cut_off_leaves_the_lines_before_it() -> None:
    cursor = cursor_over(b"one\nhal", offset=4)
    verdict, blocks = look(cursor, b"one\n", stat_of(b"one\n", mtime=2))
    assert (verdict.kind, verdict.cursor.offset, blocks) == ("unchanged", 4, (0,))


def test_half_line_is_looked_at_each_time() -> None:
    """It may be taken as whole by now, or have been rewritten at equal size."""
    cursor = cursor_over(b"one\nhal", offset=4)
    assert look(cursor, b"one\nhal", stat_of(b"one\nhal"))[0].kind == "appended"
    verdict, _ = look(cursor, b"one\ntw\n", stat_of(b"one\ntw\n", mtime=2))
    assert (verdict.kind, verdict.cursor.offset) == ("appended", 4)


def test_verify_finds_what_an_equal_stat_hides() -> None:
    other = changed_at(LONG, 3 * MIB)
    assert look(cursor_over(LONG), other, stat_of(LONG), verify=True)[0].kind == "rewritten"
    assert look(cursor_over(LONG), LONG, stat_of(LONG), verify=True)[0].kind == "unchanged"


def test_block_that_can_no_longer_be_read_counts_as_changed() -> None:
    assert judge(cursor_over(b"one\n"), stat_of(b"one\ntwo\n", mtime=2), {}).kind == "rewritten"


@pytest.mark.parametrize(
    "odd",
    [
        Cursor(offset=-1, stat=stat_of(b"one\n"), block_hashes=b""),
        Cursor(offset=4, stat=None, block_hashes=block_hash(b"one\n")),
        Cursor(offset=4, stat=stat_of(b"one\n"), block_hashes=b""),
        Cursor(offset=4, stat=stat_of(b"one\n"), block_hashes=b"\0" * 2 * DIGEST_BYTES),
        Cursor(offset=0, stat=stat_of(b"one\n"), block_hashes=b"\0" * DIGEST_BYTES),
    ],
)
def test_senseless_cursor_rereads(odd: Cursor) -> None:
    verdict, blocks = look(odd, b"one\n", stat_of(b"one\n"))
    assert (verdict.kind, verdict.cursor.offset, blocks) == ("rewritten", 0, ())
    with pytest.raises(ValueError, match="cursor"):
        BlockHasher.resume(odd, b"")


def test_reader_that_ran_past_the_stat_goes_on_as_an_append() -> None:
    """The writer added a line between stat and read; the stored stat is then older than the offset."""
    cursor = cursor_over(b"one\ntwo\n", stat=stat_of(b"one\n"))
    data = b"one\ntwo\nthree\n"
    verdict, _ = look(cursor, data, stat_of(data, mtime=2))
    assert (verdict.kind, verdict.cursor.offset) == ("appended", 8)


@given(
    text=st.binary(max_size=60),
    offset=st.integers(-3, 70),
    size=st.integers(0, 80),
    hashes=st.binary(max_size=40),
    mtime=st.integers(0, 2),
    inode=st.integers(0, 2),
    has_stat=st.booleans(),
)
def test_verdict_never_points_past_the_file(
    text: bytes, offset: int, size: int, hashes: bytes, mtime: int, inode: int, has_stat: bool
) -> None:
    cursor = Cursor(offset=offset, stat=stat_of(text) if has_stat else None, block_hashes=hashes)
    data = bytes(size)
    verdict, _ = look(cursor, data, stat_of(data, mtime=mtime, inode=inode))
    assert 0 <= verdict.cursor.offset <= size


@given(data=st.data())
def test_hasher_gives_the_same_digests_in_any_cuts(data: st.DataObject) -> None:
    size = data.draw(st.sampled_from([0, 1, MIB - 1, MIB, MIB + 1, 2 * MIB, 2 * MIB + 7]))
    cuts = sorted(data.draw(st.lists(st.integers(0, size), max_size=4)))
    stop = data.draw(st.integers(0, size))
    content = LONG[:size]
    expected = b"".join(block_hash(content[slice(*block_span(i, size))]) for i in range(block_count(size)))
    hasher = BlockHasher()
    for start, end in zip([0, *cuts], [*cuts, size], strict=True):
        hasher.feed(content[start:end])
    assert (hasher.offset, hasher.digests()) == (size, expected)
    cursor = cursor_over(content, offset=stop)
    resumed = BlockHasher.resume(cursor, content[partial_start(stop) : stop])
    resumed.feed(memoryview(content)[stop:])
    assert (resumed.offset, resumed.digests()) == (size, expected)


def test_resume_refuses_another_partial_block() -> None:
    cursor = cursor_over(b"one\ntwo\n")
    for wrong in (b"", b"one\n", b"one\nTWO\n", b"one\ntwo\nthree\n"):
        with pytest.raises(ValueError, match="partial block"):
            BlockHasher.resume(cursor, wrong)


def test_taken_tail_stands_only_if_a_line_end_follows() -> None:
    hasher = BlockHasher()
    hasher.feed(b'{"a":1}')
    taken = advance(Cursor(), stat_of(b'{"a":1}'), hasher, tail_taken=True)
    assert follows_taken_tail(taken, b"")
    assert follows_taken_tail(taken, b"\n{}")
    assert follows_taken_tail(taken, b"\r\n")
    assert not follows_taken_tail(taken, b',"b":2}')
    assert follows_taken_tail(replace(taken, tail_taken_at=-1), b"x")
