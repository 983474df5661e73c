"""Whatever the cuts in which a transcript arrives, and wherever the daemon restarts, the same exchanges come out."""

from __future__ import annotations

import functools
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct, field, structs

from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.base import SourceParser, TranscriptFormat
from palace_daemon.core.transcripts.line_parser import LineParser
from palace_daemon.core.turns import Place, Reading
from palace_daemon.model import Exchange, ExchangeKey, ParseResult, SessionFacts

ROOT = Path(__file__).parents[2]
OWN = ROOT / "tests" / "data" / "transcripts"
SHARED = ROOT.parent / "shared" / "transcripts"
BYTEWISE_BYTES = 16_000
LARGE_BYTES = 1_000_000
"""Larger files are read fewer times, to keep the suite short."""

CHOSEN = ("mempalace-3de77ea9",)
"""Larger files that are fed byte by byte all the same."""

FIELDS = (
    *("type", "subtype", "uuid", "parentUuid", "sessionId", "agentId", "timestamp", "cwd", "isSidechain", "message"),
    *("content", "operation", "attachment", "prompt", "summary", "leafUuid", "origin", "kind", "id", "model", "text"),
    *(
        "stop_reason",
        "source",
        "title",
        "name",
        "input",
        "payload",
        "role",
        "ordinal",
        "turn_id",
        "arguments",
        "action",
    ),
    *("last_agent_message", "num_turns", "images", "git", "record_type", "subagent_history_start_ordinal", "command"),
)
TYPE_WORDS = (
    *("user", "assistant", "system", "attachment", "queue-operation", "summary", "custom-title", "enqueue", "remove"),
    *("text", "tool_use", "tool_result", "image", "queued_command", "session_meta", "event_msg", "response_item"),
    *("turn_context", "user_message", "agent_message", "task_complete", "thread_rolled_back", "message", "popAll"),
)
NOT_TRANSCRIPTS = ("codex-history.jsonl",)


def shared_files(agent: str) -> list[Path]:
    found = sorted((SHARED / agent).rglob("*.jsonl")) if SHARED.is_dir() else []
    return [path for path in found if path.name not in NOT_TRANSCRIPTS]


def is_line_file(path: Path) -> bool:
    found = registry.detect(str(path), path.read_bytes()[: registry.HEAD_BYTES])
    return found is not None and found.shape == "lines"


OWN_FILES = [path for path in sorted(OWN.rglob("*.jsonl")) if is_line_file(path)]
LINE_FORMATS = [known for known in registry.formats() if isinstance(known.open("x.jsonl", str), LineParser)]
SHARED_FILES = shared_files("claude-code") + shared_files("codex")


def _params() -> Iterator[object]:
    yield from (pytest.param(path, id=path.name) for path in OWN_FILES)
    yield from (pytest.param(path, id=path.name, marks=pytest.mark.shared) for path in SHARED_FILES)
    if not SHARED_FILES:
        reason = f"the real transcripts are not at {SHARED}"
        yield pytest.param(SHARED, id="shared", marks=[pytest.mark.shared, pytest.mark.skip(reason=reason)])


PARAMS = list(_params())


class Outcome(Struct):
    """What a consumer holds after all results."""

    exchanges: dict[int, Exchange] = field(default_factory=dict)
    sessions: dict[str, SessionFacts] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    problems: list[object] = field(default_factory=list)
    lines: int = 0


def gather(results: Iterable[ParseResult]) -> Outcome:
    told = Outcome()
    superseded: set[ExchangeKey] = set()
    for result in results:
        withdrawn = [ordinal for ordinal, one in told.exchanges.items() if one.key in result.withdrawn_keys]
        for ordinal in withdrawn:
            del told.exchanges[ordinal]
        told.exchanges.update((one.ordinal, one) for one in result.exchanges)
        told.sessions.update((one.session_id, one) for one in result.sessions)
        told.skipped.update(result.lines_skipped)
        told.problems += result.problems
        told.lines += result.lines_read
        superseded.update(result.superseded_keys)
    for ordinal, one in told.exchanges.items():
        if one.key in superseded:
            told.exchanges[ordinal] = structs.replace(one, is_superseded=True)
    return told


def opened(path: Path, data: bytes, state: bytes | None = None) -> SourceParser:
    known = registry.detect(str(path), data[: registry.HEAD_BYTES])
    assert known is not None
    return known.open(str(path), lambda text: text.replace("e", "3"), state)


def fed(path: Path, data: bytes, cuts: Sequence[int]) -> Outcome:
    parser = opened(path, data)
    results = [parser.feed(data[start:end]) for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    return gather([*results, parser.take_tail()])


@functools.cache
def whole_of(path: Path) -> Outcome:
    return fed(path, path.read_bytes(), [])


def restarted(path: Path, data: bytes, cuts: Sequence[int]) -> Outcome:
    """Feed with a restart at each cut: a fresh parser, the saved state, and the bytes from its offset on."""
    parser, results = opened(path, data), []
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        results.append(parser.feed(data[start:end]))
        before = parser.offset
        parser = opened(path, data, parser.snapshot())
        assert parser.offset == before
        results.append(parser.feed(data[before:end]))
    return gather([*results, parser.take_tail()])


def line_ends(data: bytes) -> list[int]:
    return [index + 1 for index, byte in enumerate(data) if byte == 0x0A]


@pytest.mark.parametrize("path", PARAMS)
def test_random_cuts(path: Path) -> None:
    data = path.read_bytes()
    whole = whole_of(path)
    rng = random.Random(len(data))
    for count in (1, 7, 60) if len(data) <= LARGE_BYTES else (30,):
        cuts = sorted(rng.randrange(len(data) + 1) for _ in range(count))
        assert fed(path, data, cuts) == whole


@pytest.mark.parametrize("path", PARAMS)
def test_byte_by_byte(path: Path) -> None:
    data = path.read_bytes()
    if len(data) > BYTEWISE_BYTES and not path.name.startswith(CHOSEN):
        # Large files: single bytes around some line ends, which is where cuts can matter.
        rng = random.Random(len(data))
        ends = line_ends(data)
        ends = rng.sample(ends, min(12, len(ends)))
        cuts = sorted({place for end in ends for place in range(end - 40, end + 40) if 0 < place < len(data)})
    else:
        cuts = list(range(1, len(data)))
    assert fed(path, data, cuts) == whole_of(path)


@pytest.mark.parametrize("path", PARAMS)
def test_restart_at_every_cut(path: Path) -> None:
    data = path.read_bytes()
    rng = random.Random(len(data))
    ends = line_ends(data)
    ends = ends if len(ends) <= 120 else rng.sample(ends, 40)
    cuts = sorted({*ends, *(min(len(data), end + rng.randrange(200)) for end in ends[:30])})
    assert restarted(path, data, cuts) == whole_of(path)


@pytest.mark.parametrize("path", PARAMS)
def test_a_torn_tail_is_held_back(path: Path) -> None:
    data = path.read_bytes()
    ends = line_ends(data)
    whole = whole_of(path)
    for end in random.Random(len(data)).sample(ends, min(6 if len(data) <= LARGE_BYTES else 2, len(ends))):
        parser = opened(path, data)
        complete = parser.feed(data[:end])
        torn = data[end : end + max(1, data.find(b"\n", end) - end) // 2]
        assert parser.feed(torn) == ParseResult()
        assert parser.offset == end
        rest = [parser.feed(data[end + len(torn) :]), parser.take_tail()]
        assert gather([complete, *rest]) == whole


@pytest.mark.parametrize(
    "path", [path for path in OWN_FILES if path.read_bytes().endswith(b"\n")], ids=lambda p: p.name
)
def test_a_whole_tail_is_taken_without_its_line_end(path: Path) -> None:
    data = path.read_bytes()
    parser = opened(path, data)
    results = [parser.feed(data[:-1]), parser.take_tail()]
    whole = gather([opened(path, data).feed(data)])
    told = gather(results)
    assert [one.reply_text for one in told.exchanges.values()] == [one.reply_text for one in whole.exchanges.values()]
    assert told.lines == whole.lines
    assert parser.feed(b"\n") == ParseResult()
    assert parser.offset == len(data)


@pytest.mark.parametrize("path", PARAMS)
def test_state_holds_only_redacted_text(path: Path) -> None:
    data = path.read_bytes()
    parser = opened(path, data)
    results = [parser.feed(data)]
    for one in results[0].exchanges:
        assert "e" not in one.user_text + one.reply_text
        assert all("e" not in tool.target for tool in one.tools)


@pytest.mark.parametrize("path", PARAMS)
def test_every_record_is_used_or_counted(path: Path) -> None:
    data = path.read_bytes()
    parser = opened(path, data)
    assert isinstance(parser, LineParser)
    read = parser._reader.read
    silent: list[str] = []

    def watched(record: Any, place: Place, payload: bytes) -> list[Reading]:
        readings = read(record, place, payload)
        if not readings or not all(one.events or one.skipped for one in readings):
            silent.append(f"line {place.line}")
        return readings

    parser._reader.read = watched  # type: ignore[method-assign]
    result = parser.feed(data if data.endswith(b"\n") else data + b"\n")
    # An item of a Codex rollout waits for the next line: it becomes a turn, or is counted as repeated by its event.
    waiting = result.lines_skipped.get("repeated_prompt", 0) + len(result.exchanges)
    assert len(silent) <= (waiting if "codex" in str(path) else 0), silent


@pytest.mark.shared
@pytest.mark.skipif(not SHARED_FILES, reason=f"the real transcripts are not at {SHARED}")
def test_a_file_that_grew_equals_the_file_read_at_once() -> None:
    before = SHARED / "claude-code" / "entire-51a26504-grow-a.jsonl"
    after = SHARED / "claude-code" / "entire-51a26504-grow-b.jsonl"
    data = after.read_bytes()
    assert data.startswith(before.read_bytes())
    assert restarted(after, data, [before.stat().st_size]) == whole_of(after)


@pytest.mark.shared
@pytest.mark.skipif(not SHARED_FILES, reason=f"the real transcripts are not at {SHARED}")
def test_one_session_in_two_files_gives_no_exchange_twice() -> None:
    told = []
    for name in ("entire-0e3fdc07-1.8MB.jsonl", "entire-432b48f6-3.6MB.jsonl"):
        exchanges = whole_of(SHARED / "claude-code" / name).exchanges.values()
        told.append({one.key: one for one in exchanges})
    first, second = told
    shared_keys = first.keys() & second.keys()
    assert len(shared_keys) == len(first)
    assert len(second) > len(first)
    same = [key for key in shared_keys if first[key].user_text == second[key].user_text]
    assert len(same) == len(shared_keys)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=12,
)
TYPES = st.sampled_from(TYPE_WORDS)


@pytest.mark.parametrize("known", LINE_FORMATS, ids=lambda known: known.name)
@settings(max_examples=60)
@given(st.lists(st.tuples(TYPES, st.dictionaries(st.sampled_from(FIELDS), JUNK | TYPES, max_size=8)), max_size=6))
def test_no_record_makes_a_reader_fail(known: TranscriptFormat, records: list[tuple[str, dict[str, Any]]]) -> None:
    lines = [json.dumps({"type": kind, **fields}).encode() for kind, fields in records]
    parser = known.open("some/where.jsonl", str)
    told = gather([parser.feed(line + b"\n") for line in lines])
    assert told.lines == len(lines)
    known.sniff(b"\n".join(lines))
    restored = known.open("some/where.jsonl", str, parser.snapshot())
    assert restored.snapshot() == parser.snapshot()


def test_a_path_that_is_no_utf8_names_a_session_all_the_same() -> None:
    line = b'{"type":"user","message":"hello","timestamp":"2026-01-01T00:00:00Z"}\n'
    for known in registry.formats():
        parser = known.open("dir/\udcff.jsonl", str)
        parser.feed(line)
        assert parser.snapshot()
