"""A working day against the real daemon: whatever agents, people and clients do, it stays well and loses nothing.

``PALACE_DAY_S`` sets its seconds, and so the number of events; their order depends on that number alone. ``make soak``
runs two hours. ``PALACE_DAY_RECORD`` names a file that gets what was seen, as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.day_clients import Asker, Burst, Question, Tally, percentile
from support.day_daemon import DayDaemon, Sample
from support.day_files import Desk
from support.day_sessions import FIRST_TIME, PROJECTS, Day
from support.footprint import assert_no_leak
from support.standing import remembered, standing
from support.traces import traces

from palace_daemon import places
from palace_daemon.client import Client, NotRunningError
from palace_daemon.config import Config, WatchConfig
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.errors import NotFoundError
from palace_daemon.service.build import build
from palace_daemon.store import check, sqlite, tombstones
from palace_daemon.store.variants import public_id
from palace_daemon.watch.scripted import ScriptedNotifier

DAY_S = float(os.environ.get("PALACE_DAY_S", "10"))
RECORD = os.environ.get("PALACE_DAY_RECORD", "")
"""Read before a test clears the variables."""
EVENTS_PER_S = 6
SAMPLES = 30
CLIENTS = 4
EVENTS_PER_END = 400
"""Restarts and kills come in the first half of the day, so that one process lives through the second."""
PAUSED_EVENTS = 8
GROWTH_MB_MAX = 60
KB_PER_EXCHANGE = 20
"""What memory may grow by for each exchange that is stored, as in the load test."""
WAL_MB_MAX = 32
"""Beside the size of the database: forgetting writes the whole of it anew."""
TRACES_MAX = 20

FILE_EVENTS = {
    "append": 46.0, "burst": 6.0, "half_line": 8.0, "copy": 2.0, "rewrite": 2.0, "swap": 1.0, "truncate": 1.0,
    "rename": 1.0, "compress": 1.0, "delete": 1.0,
}  # fmt: skip
"""What happens to files: methods of the desk; how often each comes."""
CLIENT_EVENTS = {
    "recall": 22.0, "cancelled": 2.5, "dying": 2.0, "no_tcp": 0.5, "browse": 1.0, "remember": 2.0, "supersede": 0.5,
    "forget_exchange": 0.6, "forget_session": 0.15, "pause": 0.5, "mine": 0.5,
}  # fmt: skip
"""What people and programs ask: methods of the test's `Office`."""
ENDS = ("restart", "kill")

pytestmark = [pytest.mark.model, pytest.mark.timeout(3 * DAY_S + 300)]


def plan(count: int) -> list[str]:
    """Return the events of a day: by their weights, each at least once, and the ends of the daemon in between."""
    chance = random.Random(count)
    weights = FILE_EVENTS | CLIENT_EVENTS
    events = chance.choices(list(weights), list(weights.values()), k=count)
    for place, kind in zip(chance.sample(range(count), len(weights)), weights, strict=True):
        events[place] = kind
    places_of_ends = sorted(chance.sample(range(count // 8, count // 2), max(2, count // 2 // EVENTS_PER_END)))
    for number, place in enumerate(places_of_ends):
        events.insert(place + number, ENDS[number % 2])
    return events


class Office:
    """The daemon, its clients, and what they do. Each public method without arguments is one thing that can happen."""

    def __init__(self, home: Path, data: Path, chance: random.Random) -> None:
        self.chance = chance
        self.desk = Desk(home, Day(chance))
        self.daemon = DayDaemon(data, home / "stderr.log")
        self.tally = Tally()
        self.askers = [Asker(places.socket_path(data), number, self.tally) for number in range(CLIENTS)]
        self.paused_for = 0
        self.ends_left = 0
        self.notes: dict[str, str] = {}
        self.kept: set[str] = set()
        """Keys of what files told that were deleted."""
        self.forgotten: list[str] = []
        self.asked = 0

    def begin(self) -> None:
        self.daemon.start()
        for asker in self.askers:
            asker.start()

    def drain(self) -> None:
        for asker in self.askers:
            asker.drain()

    def close(self) -> None:
        for asker in self.askers:
            if asker.is_alive():
                asker.end()
        if self.daemon.process is not None:
            self.daemon.end(signal.SIGKILL)

    def happen(self, kind: str) -> None:
        if kind == "delete":
            self.delete()
        elif kind in FILE_EVENTS:
            getattr(self.desk, kind)()
        else:
            getattr(self, kind)()
        if self.paused_for:
            self.paused_for -= 1
            if not self.paused_for:
                self.daemon.ask("palace/resume")

    # -- asking

    def _question(self) -> Question:
        day, chance = self.desk.day, self.chance
        params: dict[str, Any] = {"query": day.words(chance.randint(1, 5)), "limit": chance.randint(1, 20)}
        filters: dict[str, Any] = {
            "project": chance.choice(PROJECTS),
            "agent": chance.choice(("claude-code", "codex")),
            "since": f"{FIRST_TIME:%Y-%m-%dT%H:%M:%SZ}",
            "until": f"{day.now:%Y-%m-%dT%H:%M:%SZ}",
            "session": chance.choice(self.desk.live).name,
            "includeSuperseded": True,
            "groupBySession": True,
            "neighbours": 2,
            "fold": True,
            "maxChars": 2_000,
        }
        for name in chance.sample(sorted(filters), chance.choice((0, 0, 1, 2))):
            params[name] = filters[name]
        if day.told and chance.random() < 0.2:
            params["query"] += " " + chance.choice(day.told)[0]
        self.asked += 1
        return Question(params)

    def recall(self) -> None:
        for asker in self.askers:
            asker.ask(Burst([self._question() for _ in range(self.chance.randint(1, 3))]))

    def cancelled(self) -> None:
        questions = [self._question() for _ in range(3)]
        for question in questions[:2]:
            question.is_cancelled = True
        self.chance.choice(self.askers).ask(Burst(questions))

    def dying(self) -> None:
        self.chance.choice(self.askers).ask(Burst([self._question() for _ in range(4)], dies=True))

    def no_tcp(self) -> None:
        with pytest.raises(NotRunningError):
            Client(self.daemon.data).connect_tcp()

    def browse(self) -> None:
        sessions = self.daemon.ask("palace/sessions", limit=5)["sessions"]
        for method in ("projects", "sources", "status", "notes", "models"):
            self.daemon.ask(f"palace/{method}")
        if sessions:
            self._or_not_found("palace/sessions", sessionId=sessions[0]["sessionId"])

    def _or_not_found(self, method: str, **params: Any) -> Any:
        try:
            return self.daemon.ask(method, **params)
        except NotFoundError:
            return None

    # -- telling

    def remember(self) -> None:
        text = f"Note {len(self.notes)}: {self.desk.day.words(12)}."
        told = self.daemon.ask("palace/remember", text=text, tags=["day"])
        self.notes[told["note"]["noteId"]] = text

    def supersede(self) -> None:
        if self.notes:
            old = self.chance.choice(sorted(self.notes))
            text = f"{self.notes.pop(old)} Not any more."
            told = self.daemon.ask("palace/notes", action="supersede", id=old, text=text)
            self.notes[told["note"]["noteId"]] = text

    def listed_notes(self) -> dict[str, str]:
        """Return the notes that the daemon lists."""
        found: dict[str, str] = {}
        while page := self.daemon.ask("palace/notes", limit=1_000, offset=len(found))["notes"]:
            found |= {note["noteId"]: note["text"] for note in page}
        return found

    def pause(self) -> None:
        self.daemon.ask("palace/pause")
        self.paused_for = PAUSED_EVENTS

    def mine(self) -> None:
        if not self.paused_for:
            self.daemon.ask("palace/mine", wait=self.chance.random() < 0.5)

    # -- forgetting

    def forget_exchange(self) -> None:
        """Forget one of the newest, or any, often before or while its file is read."""
        told = self.desk.day.told
        if told:
            mark, key, _ = self.chance.choice(told[-50:] if self.chance.random() < 0.5 else told)
            self._forget([mark], exchanges=[public_id(key)])

    def forget_session(self) -> None:
        session = self.chance.choice(self.desk.live).name
        marks = [mark for mark, _, of in self.desk.day.told if of == session]
        self._forget(marks, sessions=[session])

    def _forget(self, marks: list[str], **selectors: Any) -> None:
        answer = self._or_not_found("palace/forget", **selectors)
        if not answer:
            return
        told = " ".join(item["title"] for item in answer["items"])
        gone = [mark for mark in marks if mark in told and not self._is_stored(mark)]
        self.forgotten += gone
        self.tally.forgotten |= set(gone)

    def _is_stored(self, mark: str) -> bool:
        """Return whether an exchange tells it still: another way on which the reply went."""
        return bool(self._rows("SELECT 1 FROM exchanges WHERE instr(user_text, ?)", mark))

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        connection = sqlite.open_reader(sqlite.database_path(self.daemon.data))
        try:
            return connection.execute(query, values).fetchall()
        finally:
            connection.close()

    # -- files that go, and ends

    def delete(self) -> None:
        """Delete a transcript; what was known of it by then is to be kept."""
        self.desk.delete()
        if self.desk.deleted:
            rows = self._rows(
                "SELECT e.key FROM provenance p JOIN sources o ON o.id=p.source_id JOIN exchanges e"
                " ON e.id=p.exchange_id WHERE o.path=? AND p.is_superseded=0",
                str(self.desk.deleted[-1]),
            )
            self.kept |= {key for (key,) in rows}

    def restart(self) -> None:
        assert self._end(signal.SIGTERM) == 0

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> int:
        self.tally.ends += 1
        code = self.daemon.end(how)
        self.tally.ends += 1
        self.ends_left -= 1
        self.daemon.start(with_model=not self.ends_left)
        self.paused_for = 0
        return code

    def settle(self) -> None:
        """Bring the day to its end: every line is whole, all is answered, and all is mined."""
        self.daemon.ask("palace/resume")
        self.paused_for = 0
        self.desk.finish_lines()
        self.drain()
        for _ in range(2):  # what the first pass found must be read anew
            self.daemon.ask("palace/mine", paths=[str(path) for path in self.desk.folders if path.is_dir()], wait=True)
            self.daemon.ask("palace/mine", wait=True)


class Seen:
    """What was seen of the day, and its record."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.events: Counter[str] = Counter()
        self.slowest_s: dict[str, float] = {}
        self.samples: list[Sample] = []
        self.wal_bytes_max = 0
        self.facts: dict[str, Any] = {}

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun

    def write(self, office: Office) -> None:
        tally = office.tally
        errors, warnings = office.daemon.complaints()
        record = {
            "seconds": round(self.seconds, 1),
            "events": dict(sorted(self.events.items())),
            "slowest_s": self.slowest_s,
            "recalls": {"asked": office.asked, "answers": dict(tally.answers), "faults": tally.faults},
            "recall_ms": {
                name: round(percentile(tally.recall_ms, at), 1) for name, at in (("p50", 0.5), ("p95", 0.95))
            },
            "samples": msgspec.to_builtins(self.samples),
            "wal_mb_max": round(self.wal_bytes_max / 1e6, 1),
            "log": {"errors": errors[:50], "warnings": dict(warnings)},
            **self.facts,
        }
        if RECORD:
            Path(RECORD).write_text(json.dumps(record, indent=1) + "\n")


@pytest.fixture
def office(isolated_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    monkeypatch.setenv("PALACE_WATCH_RESCAN_S", "20")
    made = Office(isolated_home, isolated_home / "palace", random.Random(7))
    yield made
    made.close()


def live_through(office: Office, seen: Seen) -> None:
    events = plan(int(DAY_S * EVENTS_PER_S))
    office.ends_left = sum(kind in ENDS for kind in events)
    pace, begun = threading.Event(), time.monotonic()
    for number, kind in enumerate(events):
        pace.wait(max(0.0, begun + number / EVENTS_PER_S - time.monotonic()))
        started = time.monotonic()
        office.happen(kind)
        seen.events[kind] += 1
        seen.slowest_s[kind] = max(seen.slowest_s.get(kind, 0.0), round(time.monotonic() - started, 2))
        seen.wal_bytes_max = max(seen.wal_bytes_max, office.daemon.wal_bytes())
        if number % max(1, len(events) // SAMPLES) == 0:
            office.drain()
            seen.samples.append(office.daemon.sample(number, seen.seconds))


def test_a_day_of_work_leaves_the_daemon_well_and_the_store_as_the_files_are(office: Office, tmp_path: Path) -> None:
    seen = Seen()
    office.begin()
    try:
        live_through(office, seen)
        office.settle()
        seen.samples.append(office.daemon.sample(sum(seen.events.values()), seen.seconds))
        seen.wal_bytes_max = max(seen.wal_bytes_max, office.daemon.wal_bytes())
        notes = office.listed_notes()
        for asker in office.askers:
            asker.end()
        code = office.daemon.end(signal.SIGTERM)
        seen.facts["differences"] = found = differences(office, tmp_path / "fresh", seen)
    finally:
        seen.write(office)
    assert code == 0
    assert found == []
    assert notes == office.notes
    assert_answered(office)
    assert office.daemon.complaints()[0] == []
    assert_flat(seen)
    assert_sound(office)


def assert_answered(office: Office) -> None:
    assert office.tally.faults == []
    answers = office.tally.answers
    assert answers.total() == office.asked
    assert answers["result"] > office.asked / 2


def assert_flat(seen: Seen) -> None:
    last = [one for one in seen.samples if one.pid == seen.samples[-1].pid]
    warm, late = last[: len(last) // 3], last[-(len(last) // 3) :]
    assert_no_leak([one.held for one in warm], [one.held for one in late])
    stored = late[-1].exchanges - warm[-1].exchanges
    assert late[-1].held.rss_mb <= warm[-1].held.rss_mb + GROWTH_MB_MAX + stored * KB_PER_EXCHANGE / 1024
    assert seen.wal_bytes_max / 1e6 <= WAL_MB_MAX + max(one.database_mb for one in seen.samples)


def assert_sound(office: Office) -> None:
    connection = sqlite.open_reader(sqlite.database_path(office.daemon.data))
    try:
        assert [finding for finding in check.check(connection, is_deep=True) if not finding.is_ok] == []
        keys = {key for (key,) in connection.execute("SELECT key FROM exchange_keys")}
        lost = {key for key in office.kept - keys if not tombstones.has_key(connection, key)}
    finally:
        connection.close()
    assert lost == set(), "what deleted files told is kept"
    assert traces(office.daemon.data, office.forgotten[-TRACES_MAX:]) == []


def differences(office: Office, fresh_dir: Path, seen: Seen) -> list[str]:
    """Mine the final files once into a fresh store that has forgotten the same, and compare."""
    lived, fresh = sqlite.database_path(office.daemon.data), sqlite.database_path(fresh_dir)
    connection = sqlite.open_reader(lived)
    buried = tombstones.dump(connection)
    connection.close()
    palace = build(
        Config(data_dir=fresh_dir, watch=WatchConfig(defaults=False)),
        embedder=HashingEmbedder(),
        notifier=ScriptedNotifier(),
        clock=lambda: 0,
    )
    try:
        palace._store.edit(lambda connection, _: tombstones.load(connection, buried))
        palace.mine([str(path) for path in office.desk.folders if path.is_dir()], wait=True)
    finally:
        palace.close()
    kept = remembered(lived)
    ours, theirs = standing(lived, *kept), standing(fresh, *kept)
    ours = {key: told for key, told in ours.items() if not key.startswith("note:")}
    seen.facts["compared"] = {"exchanges": len(theirs), "files": len(office.desk.files()), "left_out": len(kept[0])}
    return [
        f"{key}: {difference(ours.get(key), theirs.get(key))}"
        for key in sorted(ours.keys() | theirs.keys())
        if ours.get(key) != theirs.get(key)
    ]


def difference(ours: Any, theirs: Any) -> str:
    """Return in a few words how two exchanges differ, with what is stored and what should be."""
    if ours is None or theirs is None:
        return "is missing" if ours is None else f"should not be there: {str(ours)[:200]}"
    flat = [(one, other) for part, like in zip(ours, theirs, strict=True) for one, other in zip_longest(part, like)]
    return "; ".join(f"{str(one)[:200]} instead of {str(other)[:200]}" for one, other in flat if one != other)
