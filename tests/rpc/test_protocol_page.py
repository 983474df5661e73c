"""``docs/protocol.md`` says what the daemon does: each example is sent, each key, error and method is there."""

from __future__ import annotations

import json
import re
import shutil
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rpc import protocol_page
from rpc.fake_daemon import DEADLINE_S, Running, Wire
from rpc.protocol_page import HOME, Example, differences, moved

from palace_daemon.config import Config
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.rpc import errors, gate, wire, wire_session
from palace_daemon.service.build import build
from palace_daemon.watch.scripted import ScriptedNotifier

TRANSCRIPT = Path(__file__).resolve().parents[1] / "data" / "transcripts" / "claude-code" / "plain.jsonl"
SESSION = "5e551000-0000-4000-8000-000000000001"
UNKNOWN = "palace/dream"
"""Stands on the page for a method that the daemon does not know."""
ENVELOPE = {"parse", "invalidRequest", "unknownMethod", "internal"}
"""Kinds of errors that are no :class:`PalaceError`."""


@pytest.fixture
def known(isolated_home: Path, start_daemon: Callable[..., Running], wait_until: Callable[..., None]) -> Iterator[Wire]:
    """A client of a real daemon that holds one transcript."""
    directory = isolated_home / ".claude" / "projects" / "-home-kim-atlas"
    directory.mkdir(parents=True)
    shutil.copy(TRANSCRIPT, directory / f"{SESSION}.jsonl")
    running = start_daemon(
        lambda config: build(config, embedder=HashingEmbedder(), notifier=ScriptedNotifier()),
        data_dir=Config().data_dir,
    )
    wire = running.dial()

    def is_done() -> bool:
        status = wire.call("palace/status")["result"]
        return bool(status["exchanges"] and not status["sourcesPending"] and not status["vectorsPending"])

    wait_until(is_done)
    yield wire
    wire.close()


class Player:
    """Sends the page's requests and holds what came back against what the page shows."""

    def __init__(self, wire: Wire, home: str) -> None:
        self.wire = wire
        self.home = home
        self.notifications: list[dict[str, Any]] = []
        self.answer: dict[str, Any] = {}

    def play(self, example: Example) -> list[str]:
        """Return what is wrong."""
        if example.is_request:
            self.wire.send(moved(example.message, HOME, self.home))
            while "method" in (message := self.read()):
                self.notifications.append(message)
            self.answer = message
            return []
        if example.is_answer:
            return list(differences(example.message, self.answer))
        return self.find(example.message)

    def read(self) -> dict[str, Any]:
        message: dict[str, Any] = moved(self.wire.read(), self.home, HOME)
        return message

    def find(self, shown: dict[str, Any]) -> list[str]:
        """Return the differences to the nearest notification; waits for one that is yet to come."""
        closest = [f"no {shown['method']} came in {DEADLINE_S} s"]
        while True:
            for number, seen in enumerate(self.notifications):
                if seen["method"] != shown["method"]:
                    continue
                found = list(differences(shown, seen))
                if not found:
                    del self.notifications[: number + 1]
                    return []
                closest = found if len(closest) == 1 else min(closest, found, key=len)
            try:
                self.notifications.append(self.read())
            except TimeoutError:
                return closest


def test_every_example_is_answered_as_the_page_shows(known: Wire, isolated_home: Path) -> None:
    player = Player(known, str(isolated_home))
    wrong = []
    for example in protocol_page.examples():
        wrong += [f"line {example.line}: {text}" for text in player.play(example)]
    assert wrong == [], "\n".join(wrong)


def test_every_request_on_the_page_has_its_answer_behind_it() -> None:
    waiting: Any = None
    for example in protocol_page.examples():
        if example.is_request:
            assert waiting is None, f"line {example.line}: the request before has no answer"
            waiting = example.message["id"]
        elif example.is_answer:
            assert example.message["id"] == waiting, f"line {example.line}"
            waiting = None
    assert waiting is None


def test_every_method_has_a_request_and_an_answer_of_each_kind() -> None:
    asked = [example.message for example in protocol_page.examples() if "method" in example.message]
    assert {message["method"] for message in asked if message["method"].startswith("palace/")} == {
        *wire.METHODS,
        *wire.NOTIFICATIONS,
        UNKNOWN,
    }
    sections = protocol_page.sections()
    for method in (*wire.METHODS, *wire.NOTIFICATIONS):
        assert method in sections, method


@pytest.mark.parametrize("method", sorted(wire.METHODS))
def test_every_parameter_is_explained_where_its_method_is(method: str) -> None:
    names = set(wire.METHODS[method].params.__struct_encode_fields__) - {"timeoutMs"}
    section = protocol_page.sections()[method]
    missing = [name for name in names if not re.search(rf"`{name}`", section)]
    assert missing == []


def result_structs() -> Iterator[type[msgspec.Struct]]:
    """Yield every struct that a result or a notification is made of."""
    waiting: list[Any] = [kind for method in wire.METHODS.values() for kind in method.results]
    waiting += [*wire.NOTIFICATIONS.values(), wire.ProgressValue, wire.ErrorData]
    seen: set[Any] = set()
    while waiting:
        kind = waiting.pop()
        if kind in seen:
            continue
        seen.add(kind)
        waiting += typing.get_args(kind)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            waiting += typing.get_type_hints(kind).values()
            yield kind


def test_every_key_of_a_result_is_on_the_page() -> None:
    structs = list(result_structs())
    assert wire_session.HelloResult in structs
    missing = [
        f"{kind.__name__}.{name}"
        for kind in structs
        for name in kind.__struct_encode_fields__
        if not re.search(rf'[`"]{name}[`"]', protocol_page.TEXT)
    ]
    assert missing == []


def test_the_table_of_errors_is_that_of_the_code() -> None:
    rows = dict(re.findall(r"^\| (-\d+) \| `(\w+)` \|", protocol_page.TEXT, re.MULTILINE))
    codes = {str(code): kind for kind, code in errors.CODES.items()}
    envelope = {errors.PARSE_ERROR, errors.INVALID_REQUEST, errors.METHOD_NOT_FOUND, errors.INTERNAL_ERROR}
    expected = {**codes, **dict(zip(map(str, sorted(envelope, reverse=True)), ENVELOPE, strict=True))}
    assert set(rows) == {*expected, str(gate.CODE)}
    assert {rows[str(code)] for code in envelope} == ENVELOPE
    assert {code: rows[code] for code in codes} == codes
    assert rows[str(gate.CODE)] == gate.KIND


def test_the_page_is_of_this_version_of_the_protocol() -> None:
    assert f"version {wire.PROTOCOL_VERSION} of the protocol" in protocol_page.TEXT


# -------------------------------------------------------------------------------------------------------- the reader


@pytest.mark.parametrize(
    ("shown", "seen"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {}),
        ({}, {"a": 1}),
        ([1], [1, 2]),
        ([1, 2], [1]),
        ([1, 2, "..."], [1]),
        ("<number>", "1"),
        ("<number>", True),
        ("<time>", "2026-03-04"),
        ({"a": ["<string>"]}, {"a": [None]}),
        (None, 0),
    ],
)
def test_the_reader_sees_a_difference(shown: Any, seen: Any) -> None:
    assert list(differences(shown, seen))


def test_the_reader_sees_what_is_alike() -> None:
    shown = {"a": ["<number>", "..."], "b": "<string>", "c": "<time>", "d": None, "e": "<object>"}
    seen: dict[str, Any] = {"a": [1.5, "x"], "b": "", "c": "2026-03-04T10:00:00.000Z", "d": None, "e": {}}
    assert list(differences(shown, seen)) == []
    assert json.loads(json.dumps(moved({f"{HOME}/a": [f"{HOME}/b"]}, HOME, "/tmp"))) == {"/tmp/a": ["/tmp/b"]}
