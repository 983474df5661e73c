"""The command line in this process, over a daemon with an in-memory Palace."""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from rpc.fake_daemon import FakePalace, Running

from palace_daemon.cli import main
from palace_daemon.config import Config


class Outcome(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def palace() -> FakePalace:
    return FakePalace()


@pytest.fixture
def running(palace: FakePalace) -> Iterator[Running]:
    started = Running(Config(), lambda _config: palace)
    yield started
    started.stop()


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run the test in UTC, wherever the machine stands."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """``cli(*words, stdin=...)``: run one command line."""

    def run(*words: str, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capsys.readouterr()
        code = main.run(words)
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return run
