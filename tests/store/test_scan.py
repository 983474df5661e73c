from __future__ import annotations

import functools
import threading

import pytest

from palace_daemon.store import scan
from palace_daemon.store.scan import Scan


def test_each_piece_is_done_once() -> None:
    for count in (0, 1, 2, 200):
        done: list[int] = []
        Scan([functools.partial(done.append, at) for at in range(count)]).finish()
        assert sorted(done) == list(range(count))


def test_a_scan_waits_for_no_helper_that_is_busy_elsewhere() -> None:
    is_over = threading.Event()

    def wait() -> None:
        is_over.wait(30)

    busy = [Scan([wait, wait, wait]) for _ in range(64)]
    assert not scan._FREE.acquire(blocking=False)
    done: list[int] = []
    Scan([lambda: done.append(1), lambda: done.append(2)]).finish()
    assert done == [1, 2]
    is_over.set()
    for one in busy:
        one.finish()


def test_without_a_thread_to_be_had_whoever_asks_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    for _ in range(64):  # more than may help at once: none of them may count as one that does
        done: list[int] = []
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            begun = Scan([functools.partial(done.append, at) for at in (1, 2)])
        begun.finish()
        assert done == [1, 2]
    assert scan._FREE.acquire(blocking=False)
    scan._FREE.release()


def test_what_a_piece_raises_is_raised_to_whoever_asks() -> None:
    def fail() -> None:
        raise ValueError("broken")

    for pieces in ([fail], [fail, fail, fail]):
        begun = Scan(pieces)
        with pytest.raises(ValueError, match="broken"):
            begun.finish()


def test_a_helper_does_its_part_while_the_one_who_asks_does_other_things() -> None:
    helped = threading.Event()
    begun = Scan([helped.set, lambda: None])
    assert helped.wait(10)
    begun.finish()
