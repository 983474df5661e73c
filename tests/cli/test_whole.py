"""The whole product, once: real transcripts, real model, real daemon process, driven as a person would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import palace_daemon
from palace_daemon.cli.start import SAMPLE_QUESTION

pytestmark = [pytest.mark.model, pytest.mark.timeout(180)]

SAMPLES = Path(palace_daemon.__file__).parent / "samples"


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def palace(*words: str) -> Done:
    done = subprocess.run(
        [sys.executable, "-m", "palace_daemon", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=100,
        check=False,
        encoding="utf-8",
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def home(isolated_home: Path) -> Any:
    shutil.copytree(SAMPLES / "claude-code", isolated_home / ".claude" / "projects")
    shutil.copytree(SAMPLES / "codex", isolated_home / ".codex" / "sessions")
    yield isolated_home
    palace("stop")


def test_from_an_empty_machine_to_answers_and_back(home: Path, wait_until: Callable[..., None]) -> None:
    first = palace("start", "--yes", "--json", "--question", SAMPLE_QUESTION)
    assert first.code == 0, first.err
    assert "Read the newest 7 files" in first.err
    assert "Redis" in first.json["hits"][0]["text"]

    asked = ("recall", "--json", "--now", "2026-04-01T12:00:00+02:00", SAMPLE_QUESTION)
    live = palace(*asked)
    assert (live.code, live.err) == (0, "")
    assert {hit["agent"] for hit in live.json["hits"]} == {"claude-code", "codex"}
    top = live.json["hits"][0]
    lines = Path(top["path"]).read_text(encoding="utf-8").splitlines()[top["lineStart"] - 1 : top["lineEnd"]]
    assert "Redis" in "\n".join(lines), "the line range names where it stands"
    assert sum(top["parts"].values()) == pytest.approx(top["score"])

    exchange = palace("get", top["drawerId"], "--json").json
    assert exchange["exchangeId"] == top["exchangeId"]
    assert exchange["provenance"][0]["path"] == top["path"]
    assert len(palace("sessions", "--json").json["sessions"]) == 7
    assert {source["state"] for source in palace("sources", "--json").json["sources"]} == {"ok"}
    assert palace("status", "--json").json["vectorsPending"] == 0
    checked = palace("doctor", "--json")
    assert checked.code == 0, checked.out

    direct = palace(*asked, "--no-daemon")
    assert "reading the store directly" in direct.err
    assert [hit["drawerId"] for hit in direct.json["hits"]] == [hit["drawerId"] for hit in live.json["hits"]]
    assert [hit["score"] for hit in direct.json["hits"]] == [hit["score"] for hit in live.json["hits"]]

    assert palace("stop").out == "stopped\n"
    assert palace("status").code == 3
    restarted = palace(*asked)
    assert "started the daemon" in restarted.err
    wait_until(lambda: palace(*asked).json["freshness"]["vectorsUsed"])
    restarted = palace(*asked)
    assert [hit["drawerId"] for hit in restarted.json["hits"]] == [hit["drawerId"] for hit in live.json["hits"]]


def test_without_daemon_and_store_the_first_reason_is_told(home: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    asked = palace("--data-dir", str(tmp_path / "file"), "recall", "anything")
    assert (asked.code, asked.out) == (3, "")
    assert "cannot use" in asked.err
    assert "there is no store" not in asked.err


def test_what_cannot_be_mined_is_said_and_harms_nothing(home: Path, tmp_path: Path) -> None:
    missing = palace("mine", "--wait", str(tmp_path / "missing"))
    assert (missing.code, missing.out) == (1, "")
    assert "missing" in missing.err
    (tmp_path / "binary.jsonl").write_bytes(os.urandom(4096))
    binary = palace("mine", "--wait", str(tmp_path / "binary.jsonl"))
    assert binary.code == 1
    assert "binary.jsonl" in binary.out
    if os.getuid() != 0:
        locked = tmp_path / "locked.jsonl"
        locked.write_text("{}\n")
        locked.chmod(0)
        assert "locked.jsonl" in palace("mine", "--wait", str(locked)).out
    assert palace("mine", "--wait").code == 0
    assert palace("recall", SAMPLE_QUESTION).code == 0
    nowhere = palace("recall", "--no-daemon", "--data-dir", str(tmp_path / "none"), "q")
    assert (nowhere.code, nowhere.out) == (3, "")
    assert not (tmp_path / "none").exists()
