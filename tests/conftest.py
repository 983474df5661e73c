"""What every test gets: a home of its own, no leaked threads, and a way to wait for something.

Invariant: no test reads or writes a person's files. The one exception is the model cache, which is read only and
shared, since a model takes a download and a minute to build.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import hypothesis
import pytest

from palace_daemon import places
from palace_daemon.embed import registry

REPOSITORY = Path(__file__).resolve().parents[1]
REAL_MODELS = places.models_dir()
"""Found before any test changes ``HOME``."""

_FOREIGN_PREFIXES = (
    *("AMP_", "CLAUDE_", "CODEX_", "COPILOT_", "CURSOR_", "GEMINI_", "GOOSE_", "OPENCODE_", "PALACE_", "QWEN_", "XDG_"),
)
"""Variables that lead to a person's transcripts or settings."""

# A shell that runs the tests in the background, or nohup, leaves these ignored, and so they would be in each daemon
# that a test starts, signals and waits for.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

hypothesis.settings.register_profile(
    "palace",
    deadline=None,  # a busy machine is no bug
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("palace")


# ------------------------------------------------------------------------------------------------------- reporting


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _sqlite() -> str:
    for name in ("pysqlite3", "sqlite3"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        return f"{name} {module.sqlite_version}"
    return "no sqlite"


def pytest_report_header() -> list[str]:
    """Name the versions that results may depend on."""
    libraries = ", ".join(
        f"{name} {_version(name)}" for name in ("onnxruntime", "numpy", "pygls", "msgspec", "watchdog")
    )
    shared = _shared_root()
    return [
        f"palace: Python {platform.python_version()}, {_sqlite()}, {libraries}",
        f"palace: models in {REAL_MODELS}, shared data {'in ' + str(shared) if shared else 'absent'}",
    ]


def _require(condition: bool, reason: str) -> None:
    """Skip the test where something is missing; under ``CI=true`` fail it, since there it must be there."""
    if condition:
        return
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"{reason} (CI=true)", pytrace=False)
    pytest.skip(reason)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Hold back tests marked ``model`` where no model is installed."""
    if item.get_closest_marker("model") is not None:
        _require(
            registry.DEFAULT_MODEL in registry.installed(REAL_MODELS),
            f"no {registry.DEFAULT_MODEL} in {REAL_MODELS}: {registry.INSTALL_HINT}",
        )


# ------------------------------------------------------------------------------------------------------- isolation


@pytest.fixture
def runtime_dir() -> Iterator[Path]:
    """A short directory, 0700: a socket path below pytest's own would be longer than ``sun_path``."""
    made = Path(tempfile.mkdtemp(prefix="pal-", dir="/tmp" if os.name == "posix" else None))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def base_temp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Have pytest choose where ``tmp_path`` lies before a test sets ``TMPDIR``, which it would follow."""
    return tmp_path_factory.getbasetemp()


@pytest.fixture(autouse=True)
def isolated_home(base_temp: Path, runtime_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory of the test's own; every variable that leads elsewhere points into it or is unset."""
    home, temporary = runtime_dir / "home", runtime_dir / "tmp"
    for name in list(os.environ):
        if name.startswith(_FOREIGN_PREFIXES):
            monkeypatch.delenv(name)
    directories = {
        "HOME": home,
        "USERPROFILE": home,
        "APPDATA": home / "AppData" / "Roaming",
        "LOCALAPPDATA": home / "AppData" / "Local",
        "XDG_CACHE_HOME": home / ".cache",
        "XDG_CONFIG_HOME": home / ".config",
        "XDG_DATA_HOME": home / ".local" / "share",
        "XDG_STATE_HOME": home / ".local" / "state",
        "CLAUDE_CONFIG_DIR": home / ".claude",
        "CODEX_HOME": home / ".codex",
        "TMPDIR": temporary,
        "TEMP": temporary,
        "TMP": temporary,
        "XDG_RUNTIME_DIR": runtime_dir,
    }
    for name, directory in directories.items():
        monkeypatch.setenv(name, str(directory))
    home.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("PALACE_HOME", str(home / "palace"))
    monkeypatch.setenv("PALACE_CONFIG", str(home / "palace.toml"))
    monkeypatch.setenv("PALACE_MODELS", str(REAL_MODELS))
    monkeypatch.setattr(tempfile, "tempdir", None)  # it caches TMPDIR
    return home


# --------------------------------------------------------------------------------------------------------- threads

_GRACE_S = 15.0
"""Far more than a thread needs that is told to end, on a machine with other work."""


def _strays(before: set[threading.Thread]) -> list[str]:
    """Return the names of non-daemon threads that are newer than ``before`` and outlive a grace time."""
    deadline = time.monotonic() + _GRACE_S
    while True:
        alive = [t for t in threading.enumerate() if t not in before and t.is_alive() and not t.daemon]
        if not alive or time.monotonic() > deadline:
            return [thread.name for thread in alive]
        time.sleep(0.01)


def _uses_wider_fixture(request: pytest.FixtureRequest) -> bool:
    """Return whether the test uses a fixture that outlives it, whose threads may therefore outlive it as well."""
    definitions = request.node._fixtureinfo.name2fixturedefs.values()
    return any(defs[-1].scope != "function" and defs[-1].argname not in _THREADLESS for defs in definitions)


_THREADLESS = {
    "base_temp",
    "doctest_namespace",
    "no_threads_at_the_end",
    "pytestconfig",
    "record_testsuite_property",
} | {
    "shared_data",
    "shared_transcripts",
    "tmp_path_factory",
    "wait_until",
}


@pytest.fixture(autouse=True)
def no_leaked_threads(request: pytest.FixtureRequest, isolated_home: Path) -> Iterator[None]:
    """Fail a test that leaves a non-daemon thread behind; such a thread keeps a process from ending."""
    before = set(threading.enumerate())
    yield
    if not _uses_wider_fixture(request):
        strays = _strays(before)
        assert not strays, f"threads outlive the test: {strays}"


@pytest.fixture(scope="session", autouse=True)
def no_threads_at_the_end() -> Iterator[None]:
    """Fail the run when a wider fixture leaves a non-daemon thread behind."""
    before = set(threading.enumerate())
    yield
    strays = _strays(before)
    assert not strays, f"threads outlive the tests: {strays}"


# --------------------------------------------------------------------------------------------------------- waiting


_DEADLINE_S = 60.0
"""Ends what would otherwise hang; no test takes it for a measure of speed, since other work may slow it down."""


def _wait_until(predicate: Callable[[], object], timeout_s: float = _DEADLINE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not predicate():
        if time.monotonic() > deadline:
            _timed_out(timeout_s)
        time.sleep(0.005)


def _timed_out(timeout_s: float) -> NoReturn:
    pytest.fail(f"the condition did not come true within {timeout_s} s")


@pytest.fixture(scope="session")
def wait_until() -> Callable[..., None]:
    """``wait_until(predicate)``: return once the predicate is true, fail the test at the deadline."""
    return _wait_until


# ----------------------------------------------------------------------------------------------------- shared data


def _shared_root() -> Path | None:
    """Return the folder of real samples: ``PALACE_TEST_SHARED``, else ``shared`` beside the checkout."""
    chosen = os.environ.get("PALACE_TEST_SHARED")
    root = Path(chosen) if chosen else REPOSITORY.parent / "shared"
    return root if root.is_dir() else None


SHARED = _shared_root()
"""Found before a test clears the variable."""


def _shared(name: str) -> Path:
    if SHARED is None or not (SHARED / name).is_dir():
        pytest.skip(f"no {name} beside the checkout: set PALACE_TEST_SHARED to the folder that holds `{name}`")
    return SHARED / name


@pytest.fixture(scope="session")
def shared_transcripts() -> Path:
    """The real transcripts, read only; the test is skipped where they are absent."""
    return _shared("transcripts")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The public data sets for retrieval, read only; the test is skipped where they are absent."""
    return _shared("data")
