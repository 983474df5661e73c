"""Imports point only downwards, and each foreign library has one home. Read from the source, never imported."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = "palace_daemon"

# One row a layer: what it may import of ours. Anything that is not in the table must be added to it on purpose.
BELOW_CORE = {"errors", "model", "config", "places"}
BELOW_SERVICE = {"core", "replacing", "repositories", *BELOW_CORE}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "places": set(),
    "repositories": set(),
    "replacing": set(),
    "filters": {"errors", "repositories"},
    "model": {"errors"},
    "config": {"errors", "model", "places", "replacing"},
    "core": BELOW_CORE,
    "store": BELOW_SERVICE,
    "embed": BELOW_SERVICE,
    "watch": BELOW_SERVICE,
    "service": {"store", "embed", "watch", *BELOW_SERVICE},
    "rpc": {"service", *BELOW_SERVICE},
    "client": {"addresses", "errors", "places", "starting"},
    "addresses": {"errors", "places", "starting"},
    "starting": {"errors", "places"},
    "agents": {"client", "core", "errors", "filters", "places", "replacing", "repositories"},
    "bench": {"service", "store", "embed", "watch", "client", *BELOW_SERVICE},
    "models": {"embed", *BELOW_SERVICE},
    "cli": {"agents", "bench", "client", "filters", "rpc", "service", "store", "embed", "watch", "models"}
    | BELOW_SERVICE,
    "__main__": {"cli", "errors"},
    "__init__": set(),
    "samples": set(),
}

ONLY_PLACE: dict[str, set[str]] = {
    "sqlite3": {"store"},
    "pysqlite3": {"store"},
    "onnxruntime": {"embed", "models"},  # models/ holds scripts that make and check reference vectors
    "tokenizers": {"embed", "models"},
    "onnx": {"embed", "models"},
    "safetensors": {"embed", "models"},
    "watchdog": {"watch"},
    "numkong": {"store"},
    "pygls": {"rpc"},
    "lsprotocol": {"rpc"},
    "mcp": {"agents"},
    "textual": {"cli"},
    "mcp_types": {"agents"},
}

# The core is pure. What it may use of others is short, so it is the list of what is allowed that is kept ...
CORE_LIBRARIES = {"Stemmer", "msgspec", "numpy", "zstandard"}
# ... and of the standard library the list of what is not: files, processes, network, threads, clocks, chance, logs.
IMPURE = {
    # `sys` is missing: sys.intern is pure, and its streams are of no use without print.
    *("asyncio", "concurrent", "multiprocessing", "queue", "sched", "subprocess", "threading", "_thread", "signal"),
    *("fileinput", "glob", "io", "linecache", "mmap", "os", "pathlib", "shelve", "shutil", "tempfile", "zipfile"),
    *("http", "select", "selectors", "socket", "socketserver", "ssl", "urllib"),
    *("ctypes", "fcntl", "importlib", "pkgutil", "platform", "resource", "runpy", "sqlite3", "termios"),
    *("locale", "logging", "random", "secrets", "syslog", "time", "tkinter", "tracemalloc", "uuid"),
}
PURE_PARTS = {
    "io": {"BytesIO", "StringIO"},
    "pathlib": {"PurePath", "PurePosixPath", "PureWindowsPath"},
    "urllib": {"parse"},
    "urllib.parse": {"unquote", "urlsplit"},
    "uuid": {"UUID"},
}
IMPURE_CALLS = {"open", "print", "input", "exec", "eval", "__import__", "breakpoint"}
CLOCK_METHODS = {"now", "today", "utcnow"}

MAX_LINES = 500
BANNED_NAMES = {"utils", "util", "helpers", "helper", "manager", "managers", "misc", "common"}


class Import(NamedTuple):
    """One imported name: ``module`` absolute and dotted, ``name`` what ``from module import`` takes, or empty."""

    module: str
    name: str
    line: int


class Module(NamedTuple):
    """A source file of the package: its layer, its dotted name, its text."""

    layer: str
    name: str
    path: Path
    is_package: bool
    text: str


def modules(package: Path) -> Iterator[Module]:
    """Yield every module below the package directory; ``bench`` and ``models`` are links and are followed."""
    for directory in sorted([package, *(path for path in package.iterdir() if path.is_dir())]):
        if directory.name == "__pycache__":
            continue
        found = directory.glob("*.py") if directory == package else directory.resolve().rglob("*.py")
        for path in sorted(found):
            inside = path.relative_to(package if directory == package else directory.resolve())
            parts = (
                inside.with_suffix("").parts
                if directory == package
                else (directory.name, *inside.with_suffix("").parts)
            )
            is_package = parts[-1] == "__init__"
            name = ".".join((PACKAGE, *(parts[:-1] if is_package else parts)))
            yield Module(parts[0], name, path, is_package, path.read_text(encoding="utf-8"))


def imports(module: Module) -> Iterator[Import]:
    """Yield every import of a module, those in functions and under ``TYPE_CHECKING`` as well."""
    for node in ast.walk(ast.parse(module.text)):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, "", node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = module.name.split(".")
            base = base if module.is_package else base[:-1]
            base = base[: len(base) - node.level + 1] if node.level else []
            target = ".".join([*base, *((node.module or "").split(".") if node.module else [])])
            yield from (Import(target, alias.name, node.lineno) for alias in node.names)


def target_layer(found: Import) -> str | None:
    """Return the layer of ours that an import reaches; None for other packages and for the version."""
    parts = found.module.split(".")
    if parts[0] != PACKAGE:
        return None
    if len(parts) > 1:
        return parts[1]
    return None if found.name in {"", "__version__"} else found.name


def violations(package: Path) -> list[str]:
    """Return every breach of the rules above, as ``module:line: what``."""
    found: list[str] = []
    for module in modules(package):
        for one in imports(module):
            found += [f"{module.name}:{one.line}: {text}" for text in check_import(module.layer, one)]
        if module.layer == "core":
            found += [f"{module.name}:{line}: {text}" for line, text in impure_calls(module.text)]
        lines = module.text.count("\n")
        if lines > MAX_LINES:
            found.append(f"{module.name}: {lines} lines, more than {MAX_LINES}")
        if BANNED_NAMES & set(module.name.split(".")):
            found.append(f"{module.name}: a name that says nothing")
    return found


def check_import(layer: str, found: Import) -> Iterator[str]:
    """Yield what is wrong with an import that stands in ``layer``."""
    if layer not in ALLOWED:
        yield f"layer {layer!r} is not in the table"
        return
    target = target_layer(found)
    if target is not None:
        if target != layer and target not in ALLOWED[layer]:
            yield f"{layer} must not import {target}"
        return
    top = found.module.split(".")[0]
    if top in {PACKAGE, "__future__"}:
        return
    if layer not in ONLY_PLACE.get(top, {layer}):
        yield f"{top} is imported only in {', '.join(sorted(ONLY_PLACE[top]))}, not in {layer}"
    if (
        layer in {"client", "addresses", "starting", "errors", "places", "repositories", "__init__"}
        and top not in sys.stdlib_module_names
    ):
        yield f"{layer} uses the standard library only, not {top}"
    if layer == "core":
        yield from check_purity(found, top)


def check_purity(found: Import, top: str) -> Iterator[str]:
    """Yield why an import does not belong into the pure core."""
    if top in sys.stdlib_module_names:
        if top in IMPURE and found.name not in PURE_PARTS.get(found.module, set()):
            yield f"core is pure: no {found.module} {found.name}".rstrip()
    elif top not in CORE_LIBRARIES:
        yield f"core does not use {top}"


def impure_calls(text: str) -> Iterator[tuple[int, str]]:
    """Yield calls that read a clock, print, or open something."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
            yield node.lineno, f"core is pure: no {node.func.id}()"
        if isinstance(node.func, ast.Attribute) and node.func.attr in CLOCK_METHODS and not node.args:
            owner = ast.unparse(node.func.value)
            if owner.rpartition(".")[2] in {"datetime", "date", "dt"}:
                yield node.lineno, f"core takes the time as an argument: no {owner}.{node.func.attr}()"


# ----------------------------------------------------------------------------------------------------- the package


def test_the_package_keeps_its_layers() -> None:
    package = REPOSITORY / "server" / PACKAGE
    assert sum(1 for _ in modules(package)) > 5, "nothing was read"
    assert violations(package) == []


# ----------------------------------------------------------------------------------------------------- the checker

CLEAN = {
    "__init__.py": '__version__ = "1"\n',
    "__main__.py": "from palace_daemon.cli.main import main\n",
    "errors.py": "",
    "places.py": "import os\n",
    "model.py": "import msgspec\nfrom palace_daemon import errors\n",
    "config.py": "from palace_daemon import places\nimport tomlkit\n",
    "client.py": "import socket\nfrom palace_daemon import __version__\nfrom palace_daemon.errors import X\n",
    "core/__init__.py": "",
    "core/rank.py": "import re\nimport numpy as np\nfrom io import BytesIO\nfrom datetime import datetime\n"
    "from palace_daemon.core import ports\nfrom .ports import P\nx = datetime.fromtimestamp(0)\n",
    "core/ports.py": "from pathlib import PurePosixPath\nfrom ..model import Y\nfrom urllib.parse import urlsplit\n",
    "store/db.py": "def f():\n    import pysqlite3\nfrom palace_daemon.core import rank\n",
    "embed/run.py": "import onnxruntime\n",
    "watch/look.py": "from watchdog.observers import Observer\n",
    "service/build.py": "from palace_daemon.store import db\nfrom palace_daemon.watch.look import Z\n",
    "rpc/session.py": "import pygls.server\nfrom palace_daemon.service import api\n",
    "cli/main.py": "def f():\n    from palace_daemon.bench import run\nfrom palace_daemon import client\n",
    "bench/run.py": "from palace_daemon.service.build import build\n",
    "models/make.py": "import onnx\n",
}


def plant(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root / PACKAGE


def test_the_checker_finds_nothing_in_a_clean_package(tmp_path: Path) -> None:
    assert violations(plant(tmp_path, CLEAN)) == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("store/bad.py", "from palace_daemon.embed import run", "store must not import embed"),
        ("store/bad.py", "import palace_daemon.watch.look", "store must not import watch"),
        ("embed/bad.py", "from palace_daemon import store", "embed must not import store"),
        ("watch/bad.py", "from ..store import db", "watch must not import store"),
        ("watch/bad.py", "def f():\n    from palace_daemon import service", "watch must not import service"),
        ("core/bad.py", "if False:\n    from palace_daemon.service import api", "core must not import service"),
        ("core/__init__.py", "from ..store import db", "core must not import store"),
        ("core/deep/bad.py", "from ...rpc import session", "core must not import rpc"),
        ("errors.py", "from palace_daemon.model import X", "errors must not import model"),
        ("rpc/bad.py", "from palace_daemon.store import db", "rpc must not import store"),
        ("bench/bad.py", "from palace_daemon.rpc import session", "bench must not import rpc"),
        ("client.py", "from palace_daemon.model import Hit", "client must not import model"),
        ("client.py", "import msgspec", "client uses the standard library only, not msgspec"),
        ("service/bad.py", "import sqlite3", "sqlite3 is imported only in store, not in service"),
        ("core/bad.py", "import pysqlite3", "pysqlite3 is imported only in store, not in core"),
        (
            "service/bad.py",
            "import onnxruntime as ort",
            "onnxruntime is imported only in embed, models, not in service",
        ),
        ("service/bad.py", "from tokenizers import X", "tokenizers is imported only in embed, models, not in service"),
        ("cli/bad.py", "import onnx.helper", "onnx is imported only in embed, models, not in cli"),
        ("service/bad.py", "import watchdog", "watchdog is imported only in watch, not in service"),
        ("cli/bad.py", "from lsprotocol import types", "lsprotocol is imported only in rpc, not in cli"),
        ("core/bad.py", "import os.path", "core is pure: no os.path"),
        ("core/bad.py", "from pathlib import Path", "core is pure: no pathlib Path"),
        ("core/bad.py", "def f():\n    import threading", "core is pure: no threading"),
        ("core/bad.py", "from time import time", "core is pure: no time time"),
        ("core/bad.py", "import logging", "core is pure: no logging"),
        ("core/bad.py", "import requests", "core does not use requests"),
        ("core/bad.py", "x = open('f')", "core is pure: no open()"),
        ("core/bad.py", "import datetime\nx = datetime.datetime.now()", "no datetime.datetime.now()"),
        ("core/bad.py", "from datetime import date\nx = date.today()", "no date.today()"),
        ("service/bad.py", "x = 1\n" * 500, "501 lines, more than 500"),
        ("service/utils.py", "", "a name that says nothing"),
        ("core/helpers/x.py", "", "a name that says nothing"),
        ("extra/bad.py", "import os", "layer 'extra' is not in the table"),
    ],
)
def test_the_checker_finds_a_planted_violation(tmp_path: Path, name: str, text: str, expected: str) -> None:
    found = violations(plant(tmp_path, {**CLEAN, name: text + "\n"}))
    assert len([one for one in found if expected in one]) == 1, found


def test_the_checker_follows_links_to_packages(tmp_path: Path) -> None:
    package = plant(tmp_path, CLEAN)
    (tmp_path / "outside" / "deep").mkdir(parents=True)
    (tmp_path / "outside" / "deep" / "bad.py").write_text("import pygls\n")
    (package / "bench" / "run.py").unlink()
    (package / "bench").rmdir()
    (package / "bench").symlink_to(tmp_path / "outside")
    assert violations(package) == ["palace_daemon.bench.deep.bad:1: pygls is imported only in rpc, not in bench"]
