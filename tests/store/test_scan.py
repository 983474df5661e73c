from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import NoReturn

import pytest

from palace_daemon.store import scan
from palace_daemon.store.scan import Helpers, Piece, Scan


def scan_of(pieces: Sequence[Piece]) -> Scan[str]:
    return Scan(lambda: "made", lambda _: pieces)


def helper_of(piece: Piece) -> str:
    """Return the name of the thread that does a piece while whoever asks does other things."""
    helped, names = threading.Event(), []

    def make() -> str:
        names.append(threading.current_thread().name)
        return "made"

    def told() -> None:
        piece()
        helped.set()

    begun = Scan(make, lambda _: [told])
    assert helped.wait(10)
    begun.finish()
    (name,) = names
    return name


def fail() -> NoReturn:
    raise ValueError("broken")


def test_each_piece_is_done_once_and_what_was_made_is_told() -> None:
    for count in (0, 1, 2, 200):
        done: list[int] = []
        begun = scan_of([functools.partial(done.append, at) for at in range(count)])
        assert [begun.finish(), begun.finish()] == ["made", "made"]
        assert sorted(done) == list(range(count))


def test_pieces_use_what_was_made_and_it_is_made_once() -> None:
    made: list[int] = []
    done: list[int] = []

    def make() -> int:
        made.append(1)
        return 7

    begun = Scan(make, lambda number: [functools.partial(done.append, number)])
    assert begun.finish() == 7
    assert (made, done) == ([1], [7])


def test_a_scan_waits_for_no_helper_that_is_busy_elsewhere() -> None:
    is_over = threading.Event()

    def wait() -> None:
        is_over.wait(30)

    busy = [scan_of([wait, wait, wait]) for _ in range(64)]
    assert not scan.HELPERS.begin(lambda: None, lambda: None)
    done: list[int] = []
    scan_of([lambda: done.append(1), lambda: done.append(2)]).finish()
    assert done == [1, 2]
    is_over.set()
    for one in busy:
        one.finish()


def test_without_a_thread_to_be_had_whoever_asks_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(scan, "HELPERS", Helpers(1))
    for _ in range(3):
        done: list[int] = []
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            begun = scan_of([functools.partial(done.append, at) for at in (1, 2)])
        begun.finish()
        assert done == [1, 2]
    assert helper_of(lambda: None)


def test_a_helper_that_comes_when_all_is_done_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[Callable[[], None]] = []

    def put_off(work: Callable[[], None], _: Callable[[], None]) -> bool:
        late.append(work)
        return True

    monkeypatch.setattr(scan.HELPERS, "begin", put_off)
    done: list[int] = []
    assert scan_of([functools.partial(done.append, 1)]).finish() == "made"
    late[0]()
    assert done == [1]


def test_helpers_stay_and_are_no_more_than_were_needed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "HELPERS", Helpers(3))
    begun_before = set(threading.enumerate())
    for _ in range(20):
        assert helper_of(lambda: None)
    assert len([one for one in threading.enumerate() if one not in begun_before]) <= 2


def test_what_a_piece_raises_is_raised_to_whoever_asks() -> None:
    for pieces in ([fail], [fail, fail, fail]):
        begun = scan_of(pieces)
        with pytest.raises(ValueError, match="broken"):
            begun.finish()


@pytest.mark.parametrize("helps", [True, False])
def test_what_the_making_raises_is_raised_to_whoever_asks(monkeypatch: pytest.MonkeyPatch, *, helps: bool) -> None:
    if not helps:
        monkeypatch.setattr(scan, "HELPERS", Helpers(0))
    begun = Scan(fail, lambda _: [])
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            begun.finish()


def test_a_helper_makes_and_does_its_part_while_the_one_who_asks_does_other_things() -> None:
    assert helper_of(lambda: None) == "palace-scan"
