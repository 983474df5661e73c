"""How a daemon's life begins and ends: on demand, once, handed over to a newer one, and never over a removed store."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rpc.fake_daemon import FakePalace
from support import daemons as daemon_processes
from support.claude import append, turn
from support.daemons import Daemons, lock_holder

import palace_daemon
from palace_daemon import model, places, starting
from palace_daemon.client import Client, NotRunningError
from palace_daemon.config import Config, ServeConfig
from palace_daemon.errors import DaemonError, DataGoneError, StoreTooNewError
from palace_daemon.rpc import convert, endpoint, life, logs, loopback
from palace_daemon.rpc import serve as serve_module
from palace_daemon.store import sqlite

WaitUntil = Callable[..., Any]
OLDER, NEWER = "0.0.9", "99.0"


@pytest.fixture
def daemons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemons]:
    with daemon_processes.started(tmp_path / "daemons", monkeypatch) as made:
        yield made


@pytest.fixture
def transcripts(isolated_home: Path) -> Path:
    return isolated_home / ".claude" / "projects" / "-nowhere-tidepool"


def is_settled(client: Client) -> bool:
    status = client.request("palace/status")
    return not status["sourcesPending"] and not status["vectorsPending"] and status["exchanges"] > 0


# ------------------------------------------------------------------------------------------------ within reach


def reaches(data_dir: Path) -> int:
    """Return the process that answers; 0 where none does."""
    with contextlib.suppress(DaemonError), Client(data_dir) as client:
        return int(client.request("palace/status")["pid"])
    return 0


def test_a_socket_that_was_removed_is_made_anew_and_nobody_else_starts(
    daemons: Daemons, tmp_path: Path, wait_until: WaitUntil
) -> None:
    data = tmp_path / "data"
    with Client(data).connect_or_start() as former:
        pid = former.request("palace/status")["pid"]
        path = places.socket_path(data)
        ways: list[Callable[[], None]] = [path.unlink, lambda: shutil.rmtree(path.parent)]
        for take_away in ways:
            taken_ns = path.stat().st_ctime_ns
            take_away()
            wait_until(lambda: reaches(data))
            assert path.stat().st_ctime_ns > taken_ns, "another one"
            assert reaches(data) == pid == former.request("palace/status")["pid"]
        path.unlink()
        with Client(data).connect_or_start() as starting_one:
            assert starting_one.request("palace/status")["pid"] == pid
        wait_until(lambda: daemons.pids() == [pid])  # one that was started meanwhile finds the lock taken
        former.request("palace/stop")
    wait_until(lambda: not daemons.pids())
    assert not path.exists()


def test_a_socket_that_cannot_be_made_anew_is_told_of_once_and_tried_again(
    tmp_path: Path, runtime_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = runtime_dir / "run" / "x.sock"
    door = endpoint.Door(path)
    assert door.renewed() is None
    former = door.listener
    shutil.rmtree(path.parent)
    path.parent.write_text("in the way")
    assert door.renewed() is door.renewed() is None
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    path.parent.unlink()
    listener = door.renewed()
    assert listener is door.listener is not former
    former.close()
    door.close()
    assert not path.exists()


# -------------------------------------------------------------------------------------------- the ground it stands on


def test_the_ground_is_firm_until_a_part_is_gone_or_another(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    database = data / life.DATABASE_NAME
    database.write_text("a")
    ground = life.Ground(data)
    database.write_text("much more of it")
    ground.check()
    (data / "other").write_text("x")
    (data / "other").replace(database)
    with pytest.raises(DataGoneError, match=r"palace\.db was removed or replaced"):
        ground.check()
    database.unlink()
    with pytest.raises(DataGoneError):
        ground.check()
    life.Ground(data).check()
    shutil.rmtree(data)
    data.write_text("a file now")
    with pytest.raises(DataGoneError, match="removed"):
        ground.check()


def test_what_the_ground_looks_at_is_what_the_others_write() -> None:
    assert life.DATABASE_NAME == sqlite.DATABASE_NAME
    assert serve_module.EXIT_DATA_GONE != serve_module.EXIT_LOCKED


def test_the_next_request_is_told_that_the_data_is_gone_and_the_daemon_ends(running: Any, connect: Any) -> None:
    wire = connect()
    assert "result" in wire.call("palace/status")
    shutil.rmtree(Config().data_dir)
    error = wire.call("palace/recall", {"query": "q"})["error"]
    assert (error["code"], error["data"]["kind"]) == (-32035, "dataGone")
    running.thread.join(60)
    assert not running.thread.is_alive()
    assert isinstance(running.daemon.failure, DataGoneError)
    assert not Config().data_dir.exists()


def test_it_is_noticed_without_a_request(
    start_daemon: Callable[..., Any], palace: Any, monkeypatch: pytest.MonkeyPatch, wait_until: WaitUntil
) -> None:
    monkeypatch.setattr(life, "LOOK_S", 0.02)
    running = start_daemon(lambda _config: palace)
    wait_until(lambda: running.daemon._ground is not None)
    Config().data_dir.rename(Config().data_dir.with_name("moved"))
    running.thread.join(60)
    assert isinstance(running.daemon.failure, DataGoneError)
    assert palace.is_closed


def test_a_removed_store_is_not_filled_again_and_a_later_start_begins_anew(
    daemons: Daemons, transcripts: Path, wait_until: WaitUntil
) -> None:
    append(transcripts / "s1.jsonl", turn(1, "Where is the flamingo?", "On the roof."))
    data = places.data_dir()
    with Client(timeout_s=30).connect_or_start() as client:
        wait_until(lambda: is_settled(client))
        pid = lock_holder()
        shutil.rmtree(data)
        append(transcripts / "s2.jsonl", turn(1, "Where is the walrus?", "In the bath.", session="s2"))
        wait_until(lambda: pid not in daemons.pids())
    assert not data.exists()
    assert "was removed or replaced" in places.log_file(data).read_text()
    with Client(timeout_s=30).connect_or_start() as client:
        wait_until(lambda: is_settled(client))
        assert client.request("palace/status")["exchanges"] == 2


def test_a_daemon_without_its_store_leaves_the_doors_of_its_successor_alone(runtime_dir: Path) -> None:
    path = runtime_dir / "p" / "a.sock"
    tcp_file = path.with_suffix(".json")
    first, first_tcp = endpoint.listen(path), loopback.listen(tcp_file)
    path.unlink()
    second, second_tcp = endpoint.listen(path), loopback.listen(tcp_file)
    endpoint.remove_socket(path, first)
    first_tcp.close()
    assert path.exists()
    assert json.loads(tcp_file.read_text())["port"] == second_tcp.port
    endpoint.remove_socket(path, second)
    second_tcp.close()
    assert not path.exists()
    assert not tcp_file.exists()


# ------------------------------------------------------------------------------------------------------------- idleness


class Busy(FakePalace):
    """Has work until it is told otherwise."""

    pending = 1
    looks = 0

    def status(self) -> model.Status:
        self.looks += 1
        return msgspec.structs.replace(super().status(), sources_pending=self.pending, vectors_pending=0)


def test_idleness_counts_from_the_last_client_and_zero_is_never() -> None:
    now = [0.0]
    idle = life.Idleness(10.0, lambda: now[0])
    now[0] = 9.9
    assert not idle.is_over(0)
    assert not idle.is_over(1)
    now[0] = 19.8
    assert not idle.is_over(0)
    now[0] = 20.0
    assert idle.is_over(0)
    idle.reset()
    assert not idle.is_over(0)
    assert not life.Idleness(0.0, lambda: 1e9).is_over(0)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, False),
        ({"sources_pending": 1}, True),
        ({"vectors_pending": 1}, True),
        ({"vectors_pending": 1, "model_state": "loading"}, True),
        ({"vectors_pending": 1, "model_state": "failed: not installed"}, False),
        ({"vectors_pending": 1, "last_error": "1 text is set aside"}, False),
        ({"vectors_pending": 1, "last_error": "a file", "embedding": model.Embedding(texts_per_s=2.0)}, True),
        ({"embedding": model.Embedding(is_paused=True)}, True),
    ],
)
def test_what_keeps_an_idle_daemon(change: dict[str, Any], expected: bool) -> None:
    calm = msgspec.structs.replace(FakePalace().status(), sources_pending=0, vectors_pending=0)
    status = convert.status_to_wire(msgspec.structs.replace(calm, **change))
    assert life.is_working(status) is expected


def test_an_idle_daemon_ends_once_its_client_has_left_and_its_work_is_done(
    start_daemon: Callable[..., Any], open_wire: Callable[[Path], Any], wait_until: WaitUntil
) -> None:
    palace = Busy()
    running = start_daemon(lambda _config: palace, serve=ServeConfig(idle_exit_s=0.1))
    wire = open_wire(running.path)
    assert "result" in wire.call("palace/status")
    wire.close()
    palace.looks = 0
    wait_until(lambda: palace.looks >= 2)
    assert running.thread.is_alive()
    palace.pending = 0
    running.thread.join(60)
    assert not running.thread.is_alive()
    assert running.daemon.failure is None
    assert palace.is_closed


def test_a_client_keeps_an_idle_daemon(
    start_daemon: Callable[..., Any], open_wire: Callable[[Path], Any], wait_until: WaitUntil
) -> None:
    palace = Busy()
    palace.pending = 0
    running = start_daemon(lambda _config: palace, serve=ServeConfig(idle_exit_s=0.1))
    wire = open_wire(running.path)
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 0.5)
    assert "result" in wire.call("palace/status")


# ------------------------------------------------------------------------------------------------------------- versions


@pytest.mark.parametrize(
    ("version", "other", "expected"),
    [
        ("0.10.0", "0.9.9", True),
        ("0.9.9", "0.10.0", False),
        ("1.0", "1.0.0", False),
        ("1.0.1", "1.0", True),
        ("1.0rc1", "1.0", False),
        ("1", "odd", True),
        ("odd", "1", False),
    ],
)
def test_versions_are_compared_by_their_numbers(version: str, other: str, expected: bool) -> None:
    assert starting.is_newer(version, other) is expected


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "\x00\xff", '{"version"'])
def test_a_lock_that_says_no_version_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / starting.LOCK_NAME).write_text(text)
    assert starting.version_in_lock(tmp_path) == ""
    assert starting.version_in_lock(tmp_path / "nowhere") == ""


def test_a_newer_client_has_an_older_daemon_leave_in_the_middle_of_its_work_and_nothing_is_lost(
    daemons: Daemons, transcripts: Path, wait_until: WaitUntil
) -> None:
    for number in range(30):
        text = "".join(turn(n, f"Question {n} of {number}?", f"Answer {n}.", session=f"s{number}") for n in range(10))
        append(transcripts / f"s{number}.jsonl", text)
    daemons.are_of(OLDER)
    with Client(timeout_s=30).connect_or_start() as old:
        assert old.replaced == ""
        assert old.request("palace/hello")["version"] == OLDER
        older = lock_holder()
        wait_until(lambda: old.request("palace/status")["exchanges"] > 0)
    daemons.are_of(palace_daemon.__version__)
    with Client(timeout_s=30).connect_or_start() as new:
        assert new.replaced == OLDER
        assert new.request("palace/hello")["version"] == palace_daemon.__version__
        assert lock_holder() != older
        wait_until(lambda: older not in daemons.pids())  # it lets go of the lock a moment before it is gone
        wait_until(lambda: new.request("palace/status")["exchanges"] == 300)
    with Client(timeout_s=30).connect_or_start() as again:
        assert again.replaced == ""
    wait_until(lambda: daemons.pids() == [lock_holder()])


def test_two_newer_clients_at_once_end_with_one_daemon(daemons: Daemons, wait_until: WaitUntil) -> None:
    daemons.are_of(OLDER)
    with Client(timeout_s=30).connect_or_start():
        pass
    daemons.are_of(palace_daemon.__version__)
    code = (
        "import sys; sys.executable = sys.argv[1]\n"
        "from palace_daemon.client import Client\n"
        "with Client(timeout_s=30).connect_or_start() as c: print(c.request('palace/hello')['version'])\n"
    )
    clients = [subprocess.Popen([daemons.python, "-c", code, sys.executable], stdout=subprocess.PIPE) for _ in range(2)]
    assert {client.communicate(timeout=60)[0].decode().strip() for client in clients} == {palace_daemon.__version__}
    wait_until(lambda: daemons.pids() == [lock_holder()])


def test_an_older_client_is_served_by_a_newer_daemon(daemons: Daemons) -> None:
    daemons.are_of(NEWER)
    with Client(timeout_s=30).connect_or_start() as client:
        pid = lock_holder()
    daemons.are_of(palace_daemon.__version__)
    with Client(timeout_s=30).connect_or_start() as client:
        assert client.replaced == ""
        assert client.request("palace/status")["version"] == NEWER
    assert daemons.pids() == [pid]


def test_an_older_client_is_told_where_a_newer_daemon_speaks_another_protocol(daemons: Daemons) -> None:
    daemons.are_of(NEWER, protocol=2)
    Client(timeout_s=30).connect_or_start().close()
    with pytest.raises(DaemonError, match=r"palace-daemon 99\.0 and speaks protocol 2.*upgrade"):
        Client(timeout_s=30).connect_or_start()


def test_a_store_of_a_newer_version_is_refused_with_a_hint_and_left_alone(daemons: Daemons) -> None:
    data = places.data_dir()
    data.mkdir(mode=0o700)
    path = sqlite.database_path(data)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA user_version = 9999")
    connection.execute("CREATE TABLE unheard_of(x)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    client = Client(timeout_s=30)
    with pytest.raises((StoreTooNewError, DaemonError), match="upgrade palace-daemon"):
        client.connect_or_start().request("palace/status")
    client.close()
    assert path.read_bytes() == before


# ---------------------------------------------------------------------------------------------- one, and no orphan


def test_a_starter_that_is_killed_leaves_one_daemon_that_serves_the_next(
    daemons: Daemons, wait_until: WaitUntil
) -> None:
    code = (
        "import os, signal, sys; sys.executable = sys.argv[1]\n"
        "from palace_daemon import starting\n"
        "starting.Starting(sys.argv[2]); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [daemons.python, "-c", code, sys.executable, str(places.data_dir())]
    killed = subprocess.run(command, check=False, timeout=30)
    assert killed.returncode == -signal.SIGKILL
    with Client(timeout_s=30).connect_or_start() as client:
        assert client.request("palace/status")["pid"] == lock_holder()
    wait_until(lambda: daemons.pids() == [lock_holder()])


def test_the_stdio_bridge_ends_with_its_editor_and_the_daemon_lives_on(daemons: Daemons, wait_until: WaitUntil) -> None:
    with Client(timeout_s=30).connect_or_start():
        pass
    real = daemons.python
    code = (
        "import os, signal, subprocess, sys\n"
        f"bridge = subprocess.Popen([{real!r}, '-m', 'palace_daemon', '--stdio'],"
        " stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "print(bridge.pid, flush=True)\n"
        "bridge.stdout.read(1)\n"
    )
    editor = subprocess.Popen([real, "-c", code], stdout=subprocess.PIPE)
    assert editor.stdout is not None
    bridge = int(editor.stdout.readline())
    assert Path(f"/proc/{bridge}").exists()
    editor.kill()
    editor.communicate(timeout=60)

    def is_gone() -> bool:
        try:
            return Path(f"/proc/{bridge}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        except OSError:
            return True

    wait_until(is_gone)
    assert daemons.pids() == [lock_holder()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_in_the_middle_of_mining_ends_it_cleanly(
    daemons: Daemons, transcripts: Path, wait_until: WaitUntil, number: signal.Signals
) -> None:
    for file in range(20):
        append(
            transcripts / f"s{file}.jsonl",
            "".join(turn(n, f"Q {n}?", "A. " * 90, session=f"s{file}") for n in range(50)),
        )
    command = [sys.executable, "-m", "palace_daemon", "serve"]
    client = Client(timeout_s=30)
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process, contextlib.closing(client):
        wait_until(lambda: _status_of(client).get("exchanges", 0) > 0)
        assert not is_settled(client)
        process.send_signal(number)
        assert process.wait(timeout=60) == 0
    with endpoint.DataLock(places.data_dir()):
        assert not places.socket_path(places.data_dir()).exists()


def _status_of(client: Client) -> dict[str, Any]:
    try:
        status: dict[str, Any] = client.connect().request("palace/status")
    except NotRunningError:
        return {}
    return status


def test_nothing_in_the_package_signals_a_process() -> None:
    """A pid that was written down may be another process's by now: the daemon is asked over its socket."""
    package = Path(palace_daemon.__file__).parent
    sources = [path for path in package.rglob("*.py") if not {"bench", "models"} & set(path.relative_to(package).parts)]
    assert len(sources) > 100
    forbidden = re.compile(r"os\.kill\w*\(|\.send_signal\(|\.terminate\(|\bpidfd_send|TerminateProcess")
    found = [path.name for path in sources if forbidden.search(path.read_text(encoding="utf-8"))]
    assert found == ["download.py"], "which ends a child of its own"


def test_the_log_of_a_long_life_is_bounded(tmp_path: Path) -> None:
    assert logs.FILE_BYTES_MAX * (logs.FILES_KEPT + 1) <= 10_000_000
