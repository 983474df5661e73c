"""One source while it is read: the parser, the hashes of what it consumed, and the comparison with what is there."""

from __future__ import annotations

from collections import Counter

from palace_daemon.core import cursor as cursors
from palace_daemon.core.jsonl import drop_payload_runs
from palace_daemon.core.transcripts.base import SourceParser
from palace_daemon.core.transcripts.reading import leftovers
from palace_daemon.model import Cursor, ParseResult
from palace_daemon.service.archives import Stream
from palace_daemon.service.material import Material
from palace_daemon.store.exchanges import Unwanted

HEAD_BYTES = 1 << 16
"""Bytes from which a format is recognised, where the first line ends within them."""
HEAD_BYTES_MAX = 32 << 20
"""Bytes of text that a first line may have: an opening prompt can hold a whole log. Pasted images are left out."""
_MORE_BYTES = 1 << 20


class Reading:
    """One source being read: the parser, and the hashes of what it consumed.

    Inside a long line nothing is consumed block after block. These bytes are hashed ahead, not kept.
    """

    def __init__(
        self, source_id: int, number: int, parser: SourceParser, hasher: cursors.BlockHasher, cursor: Cursor
    ) -> None:
        """Begin where ``hasher``, ``cursor`` and ``parser`` stand, which is one and the same place."""
        self.source_id = source_id
        self.number = number
        self.parser = parser
        self.hasher = hasher
        """Over what was consumed."""
        self.cursor = cursor
        self.has_taken_tail = False
        self._ahead = hasher.copy()
        """Over all that was fed."""

    def feed(self, block: bytes) -> ParseResult:
        """Parse and hash the next bytes."""
        result = self.parser.feed(block)
        consumed = self.parser.offset
        if consumed > self.hasher.offset:  # what was consumed ends in this block: it took this block to complete it
            end = consumed - self._ahead.offset
            self._ahead.feed(block[:end])
            self.hasher = self._ahead.copy()
            block = block[end:]
        self._ahead.feed(block)
        return result

    def end(self, *, take_tail: bool) -> ParseResult:
        """Tell the parser that the source ends here for now; ``take_tail`` lets it take a whole last line."""
        result = ParseResult()
        if take_tail:
            before = self.parser.offset
            result = self.parser.take_tail()
            self.has_taken_tail = self.parser.offset > before
        result = joined(result, self.parser.finish())
        if self.parser.offset > self.hasher.offset:  # a tail or a text is consumed whole
            self.hasher = self._ahead.copy()
        return result

    def state_without(self, unwanted: Unwanted) -> bytes | None:
        """Return the parser's state without what is not kept; None where the format holds it elsewhere, too."""
        self.parser.drop({one.key for one in unwanted.exchanges}, unwanted.titles.keys())
        texts = [text for one in unwanted.exchanges for text in (one.user_text, one.reply_text)]
        state = self.parser.snapshot()
        return None if leftovers.holds(state, [*texts, *unwanted.titles.values()]) else state


def head_of(file: Stream) -> bytes:
    """Return the file's beginning up to the end of its first line, at least, without pasted binary payloads."""
    file.seek(0)
    head = file.read(HEAD_BYTES) or b""
    while b"\n" not in head and len(head) < HEAD_BYTES_MAX and (more := file.read(_MORE_BYTES)):
        head, _ = drop_payload_runs(head + more)
    return head


def is_same_content(source: Material, cursor: Cursor | None) -> bool:
    """Return whether the file still holds what was read up to ``cursor``."""
    return cursor is not None and cursor.offset > 0 and not judge(source, cursor).must_reread


def judge(source: Material, cursor: Cursor) -> cursors.Verdict:
    """Compare the source with what was read of it, reading the blocks that decide."""
    hashes: dict[int, bytes] = {}
    # Rows of a conversation change anywhere, and the stat of one is made up: what grew is compared in whole.
    is_any = not source.has_identity and cursor.stat != source.stat
    for index in cursors.plan(cursor, source.stat, verify=is_any).blocks:
        start, end = cursors.block_span(index, cursor.offset)
        source.file.seek(start)
        hashes[index] = cursors.block_hash(source.file.read(end - start) or b"")
    return cursors.judge(cursor, source.stat, hashes)


def joined(first: ParseResult, second: ParseResult) -> ParseResult:
    """Return both results as one; a later telling of an exchange takes the place of the earlier."""
    exchanges = {exchange.key: exchange for exchange in first.exchanges if exchange.key not in second.withdrawn_keys}
    exchanges |= {exchange.key: exchange for exchange in second.exchanges}
    return ParseResult(
        exchanges=tuple(exchanges.values()),
        sessions=first.sessions + second.sessions,
        lines_read=first.lines_read + second.lines_read,
        lines_skipped=dict(Counter(first.lines_skipped) + Counter(second.lines_skipped)),
        problems=first.problems + second.problems,
        superseded_keys=first.superseded_keys + second.superseded_keys,
        withdrawn_keys=first.withdrawn_keys + second.withdrawn_keys,
    )
