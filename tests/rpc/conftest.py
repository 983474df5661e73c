"""A daemon over an in-memory Palace, and raw clients of it; see :mod:`rpc.fake_daemon`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rpc.fake_daemon import FakePalace, Running, Wire

from palace_daemon.config import Config


@pytest.fixture
def palace() -> FakePalace:
    return FakePalace()


@pytest.fixture
def start_daemon() -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start(open_palace: Callable[[Config], Any], **changed: Any) -> Running:
        config = msgspec.structs.replace(Config(), **changed)
        started.append(Running(config, open_palace))
        return started[-1]

    yield start
    for running in started:
        running.stop()


@pytest.fixture
def running(start_daemon: Callable[..., Running], palace: FakePalace) -> Running:
    return start_daemon(lambda _config: palace)


@pytest.fixture
def transport() -> str:
    """How clients reach the daemon; a module that runs over each of the three says so with a fixture of this name."""
    return "unix"


@pytest.fixture
def connect(running: Running, transport: str) -> Iterator[Callable[[], Wire]]:
    wires: list[Wire] = []

    def connect_one() -> Wire:
        wires.append(running.dial(transport))
        return wires[-1]

    yield connect_one
    for wire in wires:
        wire.close()


@pytest.fixture
def wire(connect: Callable[[], Wire]) -> Wire:
    return connect()


@pytest.fixture
def open_wire() -> Iterator[Callable[[Path], Wire]]:
    wires: list[Wire] = []

    def open_one(path: Path) -> Wire:
        wires.append(Wire.unix(path))
        return wires[-1]

    yield open_one
    for wire in wires:
        wire.close()
