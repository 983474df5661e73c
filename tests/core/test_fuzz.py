"""Damaged transcripts of every format: nothing raises, memory is bounded, what is undamaged still comes out.

``PALACE_FUZZ_RUNS`` sets how many are made (2,000 in the test command, 20,000 in ``make soak``).
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable

import pytest
from support.corpus import Sample, samples
from support.mutators import MUTATORS

from palace_daemon.core.redaction import redact
from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.reading.stamps import EARLIEST_MS, LATEST_MS
from palace_daemon.model import Exchange, ParseResult

RUNS = int(os.environ.get("PALACE_FUZZ_RUNS", "2000"))
WINDOW_BYTES = 60_000
"""Larger samples are fuzzed in windows, so that many runs fit into the test command."""
STATE_BYTES_MAX = 256_000
DAMAGE_IN_A_LINE = ("flip_bytes", "invalid_utf8", "nul_bytes", "huge_values", "cut_end")


def runs_of(name: str) -> range:
    return range(list(MUTATORS).index(name), RUNS, len(MUTATORS))


def window(sample: Sample, chance: random.Random) -> bytes:
    """Return the sample, or its first line and a piece of it of whole lines."""
    data = sample.data
    if len(data) <= WINDOW_BYTES or sample.known.shape == "document":
        return data[: 10 * WINDOW_BYTES]
    lines = data.splitlines(keepends=True) if b"\r" not in data else data.split(b"\n")
    start = chance.randrange(1, len(lines)) if len(lines) > 1 else 0
    piece = [lines[0]]
    while start < len(lines) and sum(map(len, piece)) + len(lines[start]) < WINDOW_BYTES:
        piece.append(lines[start])
        start += 1
    return b"".join(piece)


def read(sample: Sample, data: bytes, chance: random.Random, *, restarts: bool) -> tuple[list[ParseResult], int]:
    """Feed ``data`` in random cuts; return the results and the size of the last stored state."""
    parser = sample.known.open(sample.path, redact)
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randint(0, 4)))
    results = []
    position = 0
    for cut in [*cuts, len(data)]:
        results.append(parser.feed(data[position:cut]))
        position = cut
        if restarts:
            parser = sample.known.open(sample.path, redact, parser.snapshot())
            position = parser.offset
    results += [parser.feed(data[position:]), parser.take_tail(), parser.finish()]
    return results, len(parser.snapshot())


def told(results: Iterable[ParseResult]) -> list[Exchange]:
    last = {exchange.key: exchange for result in results for exchange in result.exchanges}
    return list(last.values())


def check(exchanges: list[Exchange], size: int) -> None:
    for one in exchanges:
        (one.user_text + one.reply_text + one.session_id + one.cwd + one.model).encode("utf-8")
        assert one.user_text or one.reply_text or one.attachments
        assert 0 <= one.byte_start <= one.byte_end <= size
        assert 0 <= one.line_start <= one.line_end
        assert 0 <= one.reply_final_start <= max(len(one.reply_text), 0)
        for stamp in (one.started_at, one.ended_at):
            assert stamp is None or EARLIEST_MS <= stamp < LATEST_MS


SAME_READER = {"opencode-entries-db", "kilo-db", "kilo-entries-db", "kilo-code-task", "roo-code-task-moved"}
"""Formats that share the code of another agent's, of which there are samples."""


def test_there_is_a_sample_of_every_format() -> None:
    seen = {sample.format_name for sample in samples()} | SAME_READER
    assert {known.name for known in registry.formats()} - seen == set()


@pytest.mark.parametrize("name", MUTATORS)
@pytest.mark.timeout(3_600)
def test_no_damage_makes_a_parser_fail(name: str) -> None:
    corpus = samples()
    for run in runs_of(name):
        chance = random.Random(run)
        sample = chance.choice(corpus)
        damaged = MUTATORS[name](window(sample, chance), chance)
        try:
            results, state_bytes = read(sample, damaged, chance, restarts=run % 3 == 0)
            check(told(results), len(damaged))
        except Exception as exc:  # name the case, so that it can be run again
            raise AssertionError(f"run {run}, {name}, {sample.path}") from exc
        assert state_bytes < STATE_BYTES_MAX + 4 * len(damaged), f"run {run}, {sample.path}"


@pytest.mark.timeout(3_600)
def test_damage_to_one_line_leaves_the_others() -> None:
    corpus = [sample for sample in samples() if sample.known.shape == "lines" and sample.data.count(b"\n") > 4]
    for run in range(RUNS // 8):
        chance = random.Random(run)
        sample = chance.choice(corpus)
        lines = window(sample, chance).split(b"\n")
        index = chance.randrange(min(2, len(lines) - 1), len(lines))  # the first lines say whose session it is
        name = chance.choice(DAMAGE_IN_A_LINE)
        damaged = [*lines]
        damaged[index] = MUTATORS[name](lines[index], chance).replace(b"\n", b" ")
        before = told(read(sample, b"\n".join(lines), chance, restarts=False)[0])
        after = told(read(sample, b"\n".join(damaged), chance, restarts=False)[0])
        words = "\n\n".join(f"{one.user_text}\n\n{one.reply_text}" for one in after)
        number = index + 1
        for one in before:
            if one.line_start <= number <= one.line_end or one.user_kind == "queued":
                continue  # a queued prompt takes a second record that says what became of it
            for text in (one.user_text, *one.reply_text.split("\n\n")):
                assert text in words, f"run {run}, {name} in line {number} of {sample.path}: lost {text[:80]!r}"
