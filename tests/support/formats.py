"""Reads samples through a format's own parser, whole and in every kind of cut."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import msgspec

from palace_daemon.core.ports import Beside
from palace_daemon.core.redaction import redact
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, SourceParser, TranscriptFormat
from palace_daemon.model import Exchange, ParseResult, SessionFacts


class Files:
    """The real files around a sample, as :class:`~palace_daemon.core.ports.Beside`."""

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes."""
        return Path(path).read_bytes() if Path(path).is_file() else None

    def names(self, directory: str) -> tuple[str, ...]:
        """Return the names in a directory, sorted."""
        return tuple(sorted(item.name for item in Path(directory).iterdir())) if Path(directory).is_dir() else ()


class Whole(msgspec.Struct, frozen=True):
    """All that a source came to: the last telling of each exchange and session."""

    exchanges: tuple[Exchange, ...]
    sessions: tuple[SessionFacts, ...]
    lines_skipped: dict[str, int]
    superseded_keys: tuple[str, ...]
    is_whole: bool

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """User text and reply text of each exchange that stands."""
        return [(one.user_text, one.reply_text) for one in self.exchanges if not one.is_superseded]


def read_file(known: TranscriptFormat, path: Path, beside: Beside | None = None) -> Whole:
    """Read the file at ``path`` in one go, its last line without line end included."""
    return read_bytes(known, path.read_bytes(), str(path), beside or Files())


def read_bytes(
    known: TranscriptFormat, data: bytes, path: str = "/home/sam/sample", beside: Beside = NOTHING_BESIDE
) -> Whole:
    """Read ``data`` in one go."""
    parser = known.open(path, redact, None, beside)
    return _summed([parser.feed(data), parser.take_tail(), parser.finish()], parser)


def assert_cuts_do_not_matter(known: TranscriptFormat, data: bytes, path: str, beside: Beside | None = None) -> None:
    """Feed in random cuts, and with a restart from a snapshot after each, and compare with one pass."""
    near = beside or Files()
    once = read_bytes(known, data, path, near)
    for seed in range(4):
        chance = random.Random(seed)
        cuts = sorted({chance.randrange(len(data) + 1) for _ in range(chance.choice((3, 12, 40)))})
        parser = known.open(path, redact, None, near)
        results = [parser.feed(data[start:end]) for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        results += [parser.take_tail(), parser.finish()]
        assert _summed(results, parser) == once, f"cuts {cuts}"
        parser = known.open(path, redact, None, near)
        results = []
        for cut in [*cuts, len(data)]:
            results.append(parser.feed(data[parser.offset : cut]))
            parser = known.open(path, redact, parser.snapshot(), near)
        results += [parser.feed(data[parser.offset :]), parser.take_tail(), parser.finish()]
        assert _summed(results, parser) == once, f"restarts at {cuts}"


def _summed(results: Iterable[ParseResult], parser: SourceParser) -> Whole:
    exchanges: dict[str, Exchange] = {}
    sessions: dict[str, SessionFacts] = {}
    skipped: dict[str, int] = {}
    superseded: dict[str, None] = {}
    for result in results:
        exchanges = {key: one for key, one in exchanges.items() if key not in result.withdrawn_keys}
        exchanges |= {one.key: one for one in result.exchanges}
        sessions |= {one.session_id: one for one in result.sessions}
        superseded |= dict.fromkeys(result.superseded_keys)
        for reason, count in result.lines_skipped.items():
            skipped[reason] = skipped.get(reason, 0) + count
    for key in superseded:
        if key in exchanges:
            exchanges[key] = msgspec.structs.replace(exchanges[key], is_superseded=True)
    ordered = sorted(exchanges.values(), key=lambda one: one.ordinal)
    return Whole(tuple(ordered), tuple(sessions.values()), skipped, tuple(superseded), parser.is_whole)
