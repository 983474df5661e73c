from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

from palace_daemon.core.remembered import Remembered


def test_what_is_met_again_is_not_worked_out_again() -> None:
    asked: list[str] = []

    def work_out(text: str) -> int:
        asked.append(text)
        return len(text)

    known = Remembered(work_out, entries=4, longest=3)
    assert [known[text] for text in ("a", "bb", "a", "bb")] == [1, 2, 1, 2]
    assert asked == ["a", "bb"]
    assert [known["long"], known["long"]] == [4, 4]
    assert asked == ["a", "bb", "long", "long"]


def test_what_is_met_often_stays_however_much_else_comes() -> None:
    asked: list[str] = []

    def work_out(text: str) -> str:
        asked.append(text)
        return text.upper()

    known = Remembered(work_out, entries=20, longest=8)
    for number in range(500):
        assert known[str(number)] == str(number)
        assert known["often"] == "OFTEN"
    assert asked.count("often") == 1
    assert len(known) + len(known._elder) <= 20


def test_threads_get_the_values_of_their_own_texts_while_entries_come_and_go() -> None:
    known = Remembered(len, entries=6, longest=40)
    texts = ["x" * random.Random(at).randrange(40) for at in range(4_000)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(known.__getitem__, texts)) == [len(text) for text in texts]


def test_nothing_is_known_after_forgetting() -> None:
    asked: list[str] = []

    def work_out(text: str) -> int:
        asked.append(text)
        return 0

    known = Remembered(work_out, entries=2, longest=9)
    for text in ("a", "b", "a"):
        assert known[text] == 0
    known.forget()
    assert known["a"] == 0
    assert asked == ["a", "b", "a"]
