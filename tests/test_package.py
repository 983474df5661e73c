"""The wheel works outside the checkout: built, installed into an environment of its own, run from another directory.

Nothing is fetched: the backend builds without isolation, the wheel goes in without its requirements, and a ``.pth``
file lends the new environment the libraries of the one that runs the tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import palace_daemon

REPOSITORY = Path(__file__).resolve().parents[1]
SCRIPTS = "Scripts" if os.name == "nt" else "bin"
pytestmark = pytest.mark.timeout(120)  # building and installing take about 3 s on an idle machine


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=REPOSITORY)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` folder of an environment that holds the wheel and knows nothing of the checkout."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=os.name != "nt")
    python = folder / SCRIPTS / "python"
    options = ("--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check", "--quiet")
    run(sys.executable, "-m", "pip", "--python", python, "install", *options, wheel, cwd=folder)
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    lent = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (Path(site) / "lent.pth").write_text("\n".join(sorted(lent)))
    return folder / SCRIPTS


def test_the_wheel_holds_code_bench_models_samples_and_types(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for linked in ("bench", "models"):
        expected = {
            f"palace_daemon/{linked}/{path.relative_to(REPOSITORY / linked).as_posix()}"
            for path in (REPOSITORY / linked).rglob("*")
            if path.suffix in {".py", ".toml", ".json", ".jsonl", ".npy"} and "__pycache__" not in path.parts
        }
        assert expected, f"{linked}/ is empty"
        assert expected <= names, sorted(expected - names)
    samples = {
        f"palace_daemon/samples/{path.relative_to(REPOSITORY / 'server/palace_daemon/samples').as_posix()}"
        for path in (REPOSITORY / "server/palace_daemon/samples").rglob("*.jsonl")
    }
    assert samples
    assert samples <= names
    assert {"palace_daemon/py.typed", "palace_daemon/models/manifest.toml", "palace_daemon/bench/__init__.py"} <= names


def test_the_wheel_holds_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {
        "palace_daemon",
        f"palace_daemon-{palace_daemon.__version__}.dist-info",
    }
    assert not [name for name in names if name.endswith((".pyc", ".onnx", ".safetensors", ".db", ".log"))]
    assert len(names) == len(set(names)), "a file is packed twice"


def test_the_source_distribution_gives_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """It holds no links, so ``bench`` and ``models`` must be packed from where they lie."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path, cwd=REPOSITORY)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    unpacked = tmp_path / archive.name.removesuffix(".tar.gz")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=unpacked)
    (rebuilt,) = tmp_path.glob("*.whl")
    assert zipfile.ZipFile(rebuilt).namelist() == zipfile.ZipFile(wheel).namelist()


def test_the_installed_package_lies_outside_the_checkout(elsewhere: Path, tmp_path: Path) -> None:
    code = (
        "import palace_daemon.bench, palace_daemon; print(palace_daemon.__file__); print(palace_daemon.bench.__file__)"
    )
    for path in run(elsewhere / "python", "-c", code, cwd=tmp_path).split():
        assert Path(path).is_relative_to(elsewhere.parent.resolve()), path


def test_the_command_tells_its_version(elsewhere: Path, tmp_path: Path) -> None:
    assert palace_daemon.__version__ in run(elsewhere / "palace-daemon", "--version", cwd=tmp_path)


def test_the_command_lists_the_models_of_the_packaged_manifest(elsewhere: Path, tmp_path: Path) -> None:
    listed = json.loads(run(elsewhere / "palace-daemon", "model", "list", "--json", cwd=tmp_path))
    manifest = tomllib.loads((REPOSITORY / "models" / "manifest.toml").read_text(encoding="utf-8"))
    assert {model["modelId"] for model in listed["models"]} >= {model["id"] for model in manifest["model"]}


def test_the_bench_runs_from_the_wheel(elsewhere: Path, tmp_path: Path) -> None:
    assert "--bench" in run(elsewhere / "palace-daemon", "--bench", "--help", cwd=tmp_path)
