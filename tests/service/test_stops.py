"""A stop that comes at any moment of a question ends it there; mining stops being waited for, and goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.claude import append, turn

from palace_daemon.errors import CancelledError
from palace_daemon.model import RecallQuery

NOW = 1_800_000_000_000


class StopAt:
    """Is set from the given look at it on."""

    def __init__(self, look: int) -> None:
        self.left = look
        self.looks = 0

    def is_set(self) -> bool:
        self.looks += 1
        self.left -= 1
        return self.left < 0


@pytest.fixture
def mined(palace: Any, transcripts: Path) -> Any:
    append(transcripts / "a.jsonl", "".join(turn(n, f"Where is walrus {n}?", f"In harbour {n}.") for n in range(4)))
    palace.mine([str(transcripts)], wait=True)
    return palace


def test_a_question_looks_whether_it_should_stop_between_all_its_steps(mined: Any) -> None:
    query = RecallQuery(text="walrus harbour", now=NOW, neighbours=1, by_session=True)
    never = StopAt(10_000)
    expected = mined.recall(query, never)
    assert expected.hits
    # Before reading, for each word, when the vectors are there as well, before choosing and showing.
    assert never.looks >= 6
    for look in range(never.looks):
        stop = StopAt(look)
        with pytest.raises(CancelledError):
            mined.recall(query, stop)
        assert stop.looks == look + 1, "it stops at the first look that tells it to"
    assert mined.recall(query).hits == expected.hits, "nothing is left of those that were stopped"


def test_mining_that_is_no_longer_waited_for_goes_on(
    palace: Any, transcripts: Path, wait_until: Callable[..., None]
) -> None:
    for number in range(200):  # so many that it is not done before anybody looks
        append(
            transcripts / f"{number}.jsonl",
            turn(number, f"Where is {number}?", "In the harbour.", session=f"s{number}"),
        )
    with pytest.raises(CancelledError, match="goes on in the background"):
        palace.mine([str(transcripts)], wait=True, stop=StopAt(1))
    wait_until(lambda: palace.status().exchanges == 200)
