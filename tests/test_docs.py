"""The README says what the code does: commands, settings, requests, figures."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from palace_daemon import config
from palace_daemon.bench.fingerprint import MODEL, STORING, fingerprint
from palace_daemon.cli import main
from palace_daemon.core.transcripts import registry
from palace_daemon.rpc import wire

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RESULTS = ROOT / "bench" / "results"


def result(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize(("name", "parts"), [("live.json", STORING), ("embed.json", MODEL), ("mine.json", STORING)])
def test_quoted_results_are_of_the_current_code(name: str, parts: frozenset[str]) -> None:
    assert result(name)["fingerprint"] == fingerprint(of=parts), f"measure again: bench/results/{name}"


def test_quoted_figures_are_those_of_the_results() -> None:
    live = result("live.json")
    rows = {row["name"]: row for row in result("embed.json")["rows"]}
    stages = {row["name"]: row for row in result("mine.json")["rows"]}
    idle = {row["notifier"]: row for row in result("idle.json")["rows"]}
    int8 = rows["all-minilm-l6-v2-int8"]
    for figure in (
        f"{live['wordsMsP50']:.0f} / {live['wordsMsP95']:.0f} ms",
        f"{live['meaningMsP50']:.0f} / {live['meaningMsP95']:.0f} ms",
        f"{idle['inotify']['percentOfCore']:.2f} / {idle['polling']['percentOfCore']:.2f} %",
        f"{stages['parse with redaction']['mbPerSecond']:.0f} MB/s",
        f"{stages['mine']['exchangesPerSecond']:.0f} / {stages['mine with vectors']['exchangesPerSecond']:.0f}",
        f"{int8['ratioToFp32']} x",
        f"{int8['cosineToFp32Mean']:.4f} / {int8['cosineToFp32Min']:.4f}",
    ):
        assert f"| {figure} |" in README, figure


RECALL = sorted((RESULTS / "recall").glob("*.json"))


def test_recall_was_measured_on_every_set() -> None:
    names = {path.stem for path in RECALL}
    assert names == {"longmemeval", "locomo", "beam", "devmembench", "prefeval", "coding-dev", "coding-test"}


@pytest.mark.parametrize("path", RECALL, ids=lambda path: path.stem)
def test_quoted_recall_is_that_of_the_current_ranker(path: Path) -> None:
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report["fingerprint"] == fingerprint(), f"measure again: {path.name}"
    whole = " / ".join(str(report["recallAny"][k]["count"]) for k in ("1", "5", "10"))
    others = {row["name"]: " / ".join(str(row["recallAny"][k]) for k in ("1", "5", "10")) for row in report["ablation"]}
    assert f"| {whole} ({others['plain']}) |" in README
    docs = (ROOT / "docs" / "recall.md").read_text(encoding="utf-8")
    assert f"| {report['n']} | {whole} | {report['mrr']:.3f} | {others['plain']} | {others['cosine']} |" in docs
    lines = path.with_suffix(".ranks.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == report["questions"]


def test_every_setting_is_in_the_table_with_its_default() -> None:
    named = set(re.findall(r"^\| `([a-z]+\.[a-z_]+)` \|", README, re.MULTILINE))
    assert named == set(config.setting_names())


def test_every_command_is_in_the_table() -> None:
    for name in (name for group in main.GROUPS.values() for name in group):
        assert re.search(rf"^\|.*`{name}[ `]", README, re.MULTILINE), name


def test_every_request_is_named() -> None:
    assert set(re.findall(r"`(palace/[a-zA-Z]+)`", README)) == set(wire.METHODS) | set(wire.NOTIFICATIONS)


def test_every_format_and_agent_has_a_row() -> None:
    table = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    for known in registry.formats():
        row = next((line for line in table.splitlines() if f"`{known.name}`" in line), "")
        assert row, known.name
        assert f"`{known.agent}`" in row or known.name == "specstory-markdown", known.name
        assert ("²" in row.split("|")[1]) == known.is_secondary, known.name


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
