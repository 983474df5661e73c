"""A daemon in a thread over an in-memory Palace, and a raw client that speaks to it over each of its transports."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from palace_daemon import model, places
from palace_daemon.config import Config
from palace_daemon.core.ports import StopSignal
from palace_daemon.errors import CancelledError, NotFoundError, RequestError, SourceError, UnknownModelError
from palace_daemon.rpc import endpoint, frames, loopback
from palace_daemon.rpc.loopback import Loopback
from palace_daemon.rpc.server import Daemon
from palace_daemon.service.api import MineListener, ProgressListener

DEADLINE_S = 60.0
TRANSPORTS = ("unix", "tcp", "stdio")
TABLES = ("unix", "tcp")
"""For long tables: a process for each row would take a minute. Over stdio they run whole, in one connection."""
INITIALIZE: dict[str, Any] = {"processId": None, "rootUri": None, "capabilities": {}}
FRESH = model.Freshness(
    sources_pending=1, vectors_pending=2, drawers=3, vectors_used=True, vectors_reason="", model="m", last_mined_at=0
)

COVERED = model.Coverage(model="m", space="m@1", role="answering", vectors=1, texts=3)

AROUND = (
    model.Neighbour(exchange_id="e0", relation=-1, started_at=None, user_text="What\nnow?", reply_text="This."),
    model.Neighbour(exchange_id="e9", relation=1, started_at=0, user_text="", reply_text="Done."),
)
"""What stands beside the one exchange."""


FAKE_SERVE = """
import sys
sys.path[:0] = [{tests!r}]
from rpc.fake_daemon import FakePalace
from palace_daemon import config
from palace_daemon.rpc import serve
serve._open_palace = lambda _config: FakePalace()
from palace_daemon.__main__ import main
main()
"""
"""A script that is ``palace-daemon``, but serves a :class:`FakePalace`."""


class FakePalace:
    """Answers from memory. ``gate`` holds recalls whose text begins with ``wait`` until it is set."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.queries: list[model.RecallQuery] = []
        self.mined: list[tuple[tuple[str, ...], bool, int | None]] = []
        self.noted: list[model.NoteView] = []
        self.note_filters: list[dict[str, Any]] = []
        self.waiting = 0
        self.cancelled = 0
        self.is_closed = False
        self.is_paused = False
        self.chosen: list[str] = []
        self.listeners: list[MineListener] = []
        self.progress_steps = 3
        self._lock = threading.Lock()

    def start(self) -> None:
        pass

    def recall(self, query: model.RecallQuery, stop: StopSignal | None = None) -> model.RecallAnswer:
        self.queries.append(query)
        if query.agent == "nobody":
            raise RequestError("unknown agent 'nobody'", hint="known are claude-code, codex")
        if query.text == "boom":
            raise ValueError(2 * query.text.upper())
        if query.text.startswith("wait"):
            self._wait(stop)
        text = "x" * int(query.text[4:]) if query.text.startswith("size") else f"echo: {query.text}"
        score = float("nan") if query.text == "nan" else 0.75
        hit = model.Hit(
            drawer_id="d1", exchange_id="e1", session_id="s1", session_title="A title", project="tidepool",
            agent="claude-code", started_at=1_772_615_551_000, ended_at=None, text=text, path="/t/a.jsonl",
            line_start=3, line_end=9, score=score, parts={"meaning": 0.5, "words": 0.25}, matched_terms=("echo",),
        )  # fmt: skip
        if query.neighbours:
            hit = msgspec.structs.replace(hit, neighbours=AROUND)
        if query.fold and query.text.startswith("again"):
            also = model.AlsoIn(exchange_id="e2", session_id="s2", started_at=1_772_615_551_000, path="/t/b.jsonl")
            hit = msgspec.structs.replace(hit, also_in=(also,), also_in_count=2)
        session = model.SessionHits(
            session_id="s1", title="A title", project="tidepool", agent="claude-code", started_at=1_772_615_551_000,
            ended_at=1_772_619_151_000, score=score, hits=(hit,),
        )  # fmt: skip
        sessions = (session,) if query.by_session else ()
        answer = model.RecallAnswer(hits=(hit,), in_scope=3, matched=1, freshness=FRESH, took_ms=1.5, sessions=sessions)
        if query.text.startswith("cut"):
            answer = msgspec.structs.replace(answer, is_cut=True, hits_left_out=4)
        if query.text == "nothing at all":
            answer = msgspec.structs.replace(answer, hits=(), in_scope=0, matched=0)
        if query.project == "TIDEPOOL":
            answer = msgspec.structs.replace(answer, hits=(), in_scope=0, matched=0, projects_near=("/w/tidepool",))
        return answer

    def _wait(self, stop: StopSignal | None) -> None:
        with self._lock:
            self.waiting += 1
        while not self.gate.wait(0.005):
            if stop is not None and stop.is_set():
                with self._lock:
                    self.cancelled += 1
                raise CancelledError("withdrawn")

    def get(self, item_id: str, *, neighbours: int = 0) -> model.ExchangeView:
        if item_id != "e1":
            raise NotFoundError("no exchange or drawer has this id")
        return model.ExchangeView(
            exchange_id="e1", session_id="s1", session_title="A title", agent="claude-code", project="tidepool",
            cwd="/w", branch="main", model="m", user_text="Why?", user_kind="prompt", reply_text="Because.",
            reply_final_start=0, started_at=1_772_615_551_000, ended_at=1_772_615_552_500, time_quality="exact",
            utc_offset_minutes=120, status="complete", is_superseded=False,
            tools=(model.ToolUse(name="Read", target="/w/a.py"),), flags=(), drawer_ids=("d1",),
            provenance=(model.Provenance(
                path="/t/a.jsonl", line_start=3, line_end=9, byte_start=0, byte_end=10, is_owner=True),),
            neighbours=AROUND if neighbours else (),
        )  # fmt: skip

    def sessions(
        self, *, agent: str = "", project: str = "", since: int | None = None, limit: int = 50, offset: int = 0
    ) -> tuple[model.SessionView, ...]:
        view = model.SessionView(
            session_id="s1", agent="claude-code", project="tidepool", title="A title", parent_session_id="",
            relation="none", started_at=since, ended_at=None, exchanges=limit, is_automated=False,
        )  # fmt: skip
        return (view,)[offset:]

    def timeline(self, session_id: str) -> tuple[model.ExchangeView, ...]:
        if session_id != "s1":
            raise NotFoundError("no session has this id")
        return (self.get("e1"),)

    def projects(self, *, limit: int = 50, offset: int = 0) -> tuple[model.ProjectView, ...]:
        view = model.ProjectView(
            path="/w/tidepool", name="tidepool", sessions=2, exchanges=limit, agents=("codex", "note"),
            newest_at=1_772_615_551_000,
        )  # fmt: skip
        return (view,)[offset:]

    def sources(self, *, agent: str = "", state: str = "") -> tuple[model.SourceView, ...]:
        return (
            model.SourceView(
                path="/t/a.jsonl", agent=agent or "claude-code", state="ok", size_bytes=10, read_bytes=10, exchanges=1,
                lines_skipped={"malformed": 1}, error="",
            ),
        )  # fmt: skip

    def status(self) -> model.Status:
        return model.Status(
            version="0", pid=1, data_dir="/d", uptime_s=1.0, started_at=1_772_615_551_000, sessions=1, exchanges=1,
            exchanges_superseded=0, drawers=3, vectors=1, vectors_pending=2, sources={"ok": 1}, sources_pending=1,
            lines_skipped={}, redactions={"jwt": 1}, failures={},
            watched=(model.WatchedDir(path="/t", agent="codex", origin="default", exists=False),),
            notifier="scripted", model="m", model_state="ready", database_bytes=1, rss_bytes=1, last_error="",
            last_mined_at=None, embedding=self.embedding(),
        )  # fmt: skip

    def mine(
        self,
        paths: Sequence[str] = (),
        *,
        wait: bool = False,
        newest: int | None = None,
        on_progress: ProgressListener | None = None,
        stop: StopSignal | None = None,
    ) -> model.MineReport:
        self.mined.append((tuple(paths), wait, newest))
        if paths and not Path(paths[0]).exists():
            raise SourceError(f"{paths[0]} does not exist")
        for done in range(self.progress_steps):
            if on_progress:
                on_progress(model.Progress(stage="mine", done=done, total=self.progress_steps, unit="files", eta_s=1.0))
            time.sleep(0.12 if on_progress else 0)
        if wait and not paths and newest is None:
            self._wait(stop)
        report = model.MineReport(files=2, sessions=1, drawers_added=4, lines_skipped={"torn": 1}, seconds=0.5)
        for listener in list(self.listeners):
            listener(report)
        return report

    def remember(
        self, text: str, *, project: str = "", tags: Sequence[str] = (), author: str = "", now: int
    ) -> tuple[model.NoteView, bool]:
        note = model.NoteView(note_id="n1", text=text, project=project, tags=tuple(tags), author=author, created_at=now)
        self.noted.append(note)
        return note, len(self.noted) == 1

    def notes(self, **filters: Any) -> tuple[model.NoteView, ...]:
        self.note_filters.append(filters)
        return tuple(self.noted)[filters["offset"] :]

    def edit_note(self, note_id: str, text: str, *, now: int) -> model.NoteView:
        if note_id != "n1":
            raise NotFoundError("no note has this id")
        return model.NoteView(note_id=note_id, text=text, project="", tags=(), author="", created_at=0, edited_at=now)

    def supersede_note(self, note_id: str, text: str, *, now: int) -> tuple[model.NoteView, bool]:
        return model.NoteView(note_id="n2", text=text, project="", tags=(note_id,), author="", created_at=now), True

    def export(
        self, path: str, *, on_progress: ProgressListener | None = None, stop: StopSignal | None = None
    ) -> model.ExportReport:
        if on_progress:
            on_progress(model.Progress(stage="export", done=1, total=2, unit="records"))
        if path.endswith("wait"):
            self._wait(stop)
        Path(path).write_text("exported\n")
        records = {"source": 1, "exchange": 2, "note": 0, "session": 1, "tombstone": 0}
        return model.ExportReport(path=path, records=records, size_bytes=9, seconds=0.5)

    def import_file(
        self, path: str, *, on_progress: ProgressListener | None = None, stop: StopSignal | None = None
    ) -> model.ImportReport:
        if path.endswith("wait"):
            self._wait(stop)
        if not Path(path).exists():
            raise SourceError(f"cannot read {path}: No such file or directory")
        bad = Path(path).read_text().count("bad")
        return model.ImportReport(
            records={"source": 1, "exchange": 2, "note": 0, "session": 1, "tombstone": 0},
            changes={
                "exchanges_added": 2, "exchanges_replaced": 0, "notes_added": 0, "notes_changed": 0, "forgotten": 1,
                "ignored": 0,
            },
            malformed=bad,
            problems=tuple(model.Problem(line=n + 2, byte_start=0, reason="not_json") for n in range(bad)),
            is_complete="cut off" not in Path(path).read_text(),
            wipe_due="no room" if "unwiped" in Path(path).read_text() else "",
            seconds=0.5,
        )  # fmt: skip

    def models(self) -> tuple[model.ModelView, ...]:
        return (
            model.ModelView(
                model_id="m", dim=384, max_tokens=512, is_installed=True, is_active=True, path="/m", size_bytes=1
            ),
        )

    def use_model(self, model_id: str) -> None:
        if model_id != "m":
            raise UnknownModelError(f"unknown model {model_id!r}")
        self.chosen.append(model_id)

    def embedding(self) -> model.Embedding:
        return model.Embedding(coverage=(COVERED,), is_paused=self.is_paused)

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False

    def subscribe(self, on_mined: MineListener) -> Callable[[], None]:
        self.listeners.append(on_mined)
        return lambda: self.listeners.remove(on_mined)

    def close(self) -> None:
        self.is_closed = True
        self.gate.set()


def code_of(message: dict[str, Any]) -> int:
    """Return the error code of an answer."""
    code: int = message["error"]["code"]
    return code


class Wire:
    """A raw client: sends bytes, reads frames, with a deadline on everything."""

    def __init__(self, connection: socket.socket, process: subprocess.Popen[bytes] | None = None) -> None:
        self.socket = connection
        self.socket.settimeout(DEADLINE_S)
        self._buffer = b""
        self._process = process

    @classmethod
    def unix(cls, path: Path) -> Wire:
        """Connect to the daemon's socket."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(str(path))
        return cls(connection)

    @classmethod
    def tcp(cls, door: Loopback, token: str | None = None) -> Wire:
        """Connect to the daemon's port and show the token; an empty one sends nothing."""
        wire = cls(socket.create_connection(("127.0.0.1", door.port)))
        token = door.secret.token if token is None else token
        if token:
            assert "result" in wire.call("palace/hello", {"token": token}, "hello")
        return wire

    @classmethod
    def stdio(cls) -> Wire:
        """Start ``palace-daemon --stdio``, which joins the daemon of ``PALACE_HOME``."""
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "palace_daemon", "--stdio"]
            return cls(ours, subprocess.Popen(command, stdin=theirs.fileno(), stdout=theirs.fileno()))

    def send(self, message: Any) -> None:
        self.send_body(json.dumps(message).encode())

    def send_body(self, body: bytes) -> None:
        self.socket.sendall(frames.encode(body))

    def request(self, message_id: Any, method: str, params: Any = None) -> None:
        message = {"jsonrpc": "2.0", "id": message_id, "method": method}
        self.send(message if params is None else {**message, "params": params})

    def notify(self, method: str, params: Any = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def read(self) -> dict[str, Any]:
        head = self._until(b"\r\n\r\n")
        length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
        while len(self._buffer) < length:
            self._more()
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        message: dict[str, Any] = json.loads(body)
        return message

    def answer(self) -> dict[str, Any]:
        """Return the next message that is no notification."""
        while "method" in (message := self.read()):
            pass
        return message

    def call(self, method: str, params: Any = None, message_id: Any = 1) -> dict[str, Any]:
        self.request(message_id, method, params)
        return self.answer()

    def read_end(self) -> bytes:
        """Return what comes until the daemon closes the connection."""
        try:
            while part := self.socket.recv(65536):
                self._buffer += part
        except ConnectionResetError:
            pass
        return self._buffer

    def is_silent(self, seconds: float = 0.15) -> bool:
        """Return whether nothing comes for ``seconds``."""
        self.socket.settimeout(seconds)
        try:
            return not self._buffer and self.socket.recv(1, socket.MSG_PEEK) == b""
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(DEADLINE_S)

    def close(self) -> None:
        self.socket.close()
        if self._process is not None:
            self._process.wait(DEADLINE_S)

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            self._more()
        head, _, self._buffer = self._buffer.partition(mark)
        return head

    def _more(self) -> None:
        part = self.socket.recv(1 << 20)
        if not part:
            raise ConnectionResetError("the daemon closed the connection")
        self._buffer += part


class Running:
    """A daemon in a thread of this process."""

    def __init__(self, config: Config, open_palace: Callable[[Config], Any]) -> None:
        self.path = places.socket_path(config.data_dir)
        self.lock = endpoint.DataLock(config.data_dir)
        self.lock.acquire()
        self.listener = endpoint.listen(self.path)
        self.tcp = loopback.listen(places.tcp_file(config.data_dir))
        self.daemon = Daemon(config, open_palace)
        self.thread = threading.Thread(target=self._run, name="daemon-under-test")
        self.thread.start()

    def _run(self) -> None:
        asyncio.run(self.daemon.serve(self.listener, tcp=self.tcp), debug=False)

    def dial(self, transport: str = "unix") -> Wire:
        """Connect a client over ``unix``, ``tcp`` or ``stdio``."""
        if transport == "unix":
            return Wire.unix(self.path)
        return Wire.tcp(self.tcp) if transport == "tcp" else Wire.stdio()

    def stop(self) -> float:
        """Stop, and return how long it took."""
        begun = time.monotonic()
        self.daemon.stop()
        self.thread.join(DEADLINE_S)
        assert not self.thread.is_alive(), "the daemon does not stop"
        endpoint.remove_socket(self.path, self.listener)
        self.tcp.close()
        self.lock.release()
        return time.monotonic() - begun
