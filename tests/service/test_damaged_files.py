"""A directory of damaged transcripts of every format: none of them blocks another, and none brings the daemon down."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from support.claude import append, turn
from support.corpus import samples
from support.mutators import MUTATORS

from palace_daemon.model import RecallQuery

FILES = max(60, int(os.environ.get("PALACE_FUZZ_RUNS", "0")) // 20)


@pytest.mark.timeout(3_600)
def test_no_damaged_file_blocks_another(make_palace: Any, tmp_path: Path, transcripts: Path) -> None:
    chance = random.Random(7)
    corpus = [sample for sample in samples() if "!/" not in sample.path and len(sample.data) < 200_000]
    for number in range(FILES):
        sample = chance.choice(corpus)
        mutate = MUTATORS[chance.choice(sorted(MUTATORS))]
        path = transcripts / str(number) / Path(sample.path).name
        path.parent.mkdir()
        path.write_bytes(mutate(Path(sample.path).read_bytes(), chance))
        append(transcripts / str(number) / "whole.jsonl", turn(1, f"Which harbour is {number}?", f"Port w{number}w."))
    palace = make_palace(tmp_path / "data")
    report = palace.mine([str(transcripts)], wait=True)
    assert not [reason for reason in report.failures.values() if "internal error" in reason]
    for number in range(FILES):
        hits = palace.recall(RecallQuery(text=f"w{number}w", now=0)).hits
        assert f"Port w{number}w." in hits[0].text
    again = palace.mine([str(transcripts)], wait=True)
    assert (again.exchanges_added, again.exchanges_replaced, again.exchanges_superseded) == (0, 0, 0)
