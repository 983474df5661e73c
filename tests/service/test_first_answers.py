"""A large store answers by its words while its vectors are still being read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.claude import append, turn

from palace_daemon.model import RecallAnswer, RecallQuery
from palace_daemon.store import mirror


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a handful of drawers a large store."""
    monkeypatch.setattr(mirror, "_FEW_ROWS", 4)


@pytest.fixture
def mined(make_palace: Any, transcripts: Path) -> None:
    palace = make_palace()
    for number, topic in enumerate(["tides and moon", "queue in redis", "deploy to harbour"]):
        lines = (turn(n, f"Tell me of {topic}, part {n}?", f"Part {n}.", session=f"s{number}") for n in range(4))
        append(transcripts / f"{number}.jsonl", "".join(lines))
    palace.mine([str(transcripts)], wait=True)
    palace.close()


def ask(palace: Any) -> RecallAnswer:
    answer: RecallAnswer = palace.recall(RecallQuery(text="the queue in redis", now=1_800_000_000_000))
    return answer


@pytest.mark.usefixtures("mined")
def test_first_answers_are_by_words_and_say_so_and_the_next_ones_are_whole(
    make_palace: Any, wait_until: Callable[..., None]
) -> None:
    palace = make_palace()
    palace.warm_up()
    early = ask(palace)
    assert early.hits[0].text.count("queue in redis") == 1
    assert not early.freshness.vectors_used
    assert early.freshness.vectors_reason == "the vectors are being read"
    assert early.freshness.vectors_pending == 0
    assert not {"cosine", "meaning"} & early.hits[0].parts.keys()
    palace.start()
    wait_until(lambda: ask(palace).freshness.vectors_used)
    assert ask(palace).freshness.vectors_reason == ""


@pytest.mark.usefixtures("mined")
def test_without_a_daemon_the_first_answer_is_whole(make_palace: Any) -> None:
    palace = make_palace()
    assert ask(palace).freshness.vectors_used


@pytest.mark.usefixtures("mined")
def test_a_palace_that_was_closed_before_it_could_start_stays_closed(make_palace: Any) -> None:
    palace = make_palace()
    palace.warm_up()
    palace.close()
    with pytest.raises(Exception, match="Palace is closed"):
        palace.start()
