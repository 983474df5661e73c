"""The bench of scale: a real daemon over a small store, asked over its socket in every way."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palace_daemon import bench
from palace_daemon.bench import scale
from palace_daemon.bench.scale import offline, online, report
from palace_daemon.bench.scale.progress import Progress
from palace_daemon.errors import ConfigError, ModelError

KEYS = {
    *("drawers", "exchanges", "sessions", "statements", "textMb", "diskMb", "diskToText", "diskMbPer1000Exchanges"),
    *("builtDrawersPerSecond", "startToFirstAnswerMs", "startToFirstAnswerWithVectorsMs", "startCpuSeconds", "starts"),
    *("cold", "recallMsP50", "recallMsP95", "recallMsP99", "recallCpuMs", "queries", "daemonMsP50", "foundInTen"),
    *("answers", "filters", "clients", "whileMining", "clientsWhileMining", "minedMeanwhile", "addToRecallableMs"),
    *("exact", "rssMb", "rssPeakMb", "loadDrawersSeconds", "addStoreMs", "addFollowMs", "rebuildSeconds"),
}
SMALL = ("--drawers", "300", "--queries", "24", "--real", "40", "--clients", "3")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer repetitions, since it is not the times that are looked at."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")  # the bench sets its own, and the test takes it back
    monkeypatch.setattr(online, "STARTS", 1)
    monkeypatch.setattr(online, "ADD_ROUNDS", 2)
    monkeypatch.setattr(online, "APPEND_EVERY_S", 0.05)
    monkeypatch.setattr(offline, "ADDED", 3)


@pytest.mark.model
@pytest.mark.timeout(300)
def test_a_store_is_measured_in_every_way(quick: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stores, out = tmp_path / "stores", tmp_path / "out"
    assert bench.main(["scale", "--json", *SMALL, "--stores", str(stores), "--out", str(out)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == KEYS | {"seed", "realDrawers", "machine", "fingerprint"}
    assert 300 <= found["drawers"] < 500
    assert 0 < found["recallMsP50"] <= found["recallMsP95"] <= found["recallMsP99"]
    assert found["foundInTen"] >= 18, "these are no questions about what the store holds"
    assert found["startToFirstAnswerMs"] <= found["startToFirstAnswerWithVectorsMs"]
    assert found["rssMb"] > 20
    assert found["exact"] == {"n": 20, "equal": 20}
    assert found["minedMeanwhile"] > 0
    assert found["clients"]["clients"] == 3
    assert found["clients"]["n"] == 12
    assert 1 < found["diskToText"] < 50
    assert [one["name"] for one in found["filters"]][:2] == ["one agent", "one month"]
    assert all(0 <= one["share"] < 0.9 for one in found["filters"])
    assert any(0 < one["share"] < 0.5 for one in found["filters"])
    written = json.loads((out / scale.JSON_FILE).read_text())
    assert written["rows"][0]["answers"] == found["answers"]
    ET.fromstring((out / scale.PICTURE_FILE).read_text())  # noqa: S314 - of our own making

    # The kept store is as it was built: it is measured again, and gives the same answers.
    (kept,) = stores.iterdir()
    before = (kept / "palace.db").read_bytes()
    assert bench.main(["scale", *SMALL, "--stores", str(stores), "--no-rebuild", "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    again = json.loads((out / scale.JSON_FILE).read_text())["rows"][0]
    assert again["answers"] == found["answers"]
    assert "rebuildSeconds" not in again
    assert (kept / "palace.db").read_bytes() == before
    for figure in report.FIGURES:
        assert figure.name in shown
    assert "20 at 100,000, 60 at 1,000,000" in shown


def row(drawers: int, ms: float) -> dict[str, Any]:
    timing = {"n": 10, "p50": ms, "p95": 2 * ms, "p99": 3 * ms}
    return {
        **{name: ms for name in KEYS if name != "rssPeakMb"},
        "drawers": drawers,
        "cold": timing,
        "exact": {"n": 10, "equal": 10},
        "clients": {"clients": 8, **timing, "perSecond": 100.0},
        "whileMining": timing,
        "clientsWhileMining": {"clients": 8, **timing, "perSecond": 100.0},
        "filters": [{"name": "one agent", "drawers": 10, "share": 0.1, **timing, "toUnfiltered": 1.0}],
        "rssPeakMb": None,
    }


def full(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"seed": 0, "queries": 10, "realDrawers": 5, "machine": "some", "fingerprint": "0" * 12, "rows": list(rows)}


def test_what_misses_the_goal_of_its_size_is_marked_and_nothing_else() -> None:
    shown = report.table(full(row(1_000, 15.0), row(100_000, 25.0), row(1_000_000, 70.0))).splitlines()
    (p50,) = [line for line in shown if line.startswith("recall, p50")]
    assert [cell.endswith("!") for cell in p50.split("ms")[:3]] == [False, False, False]
    assert p50.count("!") == 2
    assert "15.0 ms " in p50
    (p99,) = [line for line in shown if line.startswith("recall, p99")]
    assert "!" not in p99


def test_a_goal_holds_for_sizes_up_to_its_own() -> None:
    figure = next(figure for figure in report.FIGURES if figure.name == "recall, p95")
    assert [report.goal_of(figure, drawers) for drawers in (1_000, 100_400, 200_000, 1_000_000, 5_000_000)] == [
        *(40, 40, 120, 120, None),
    ]


@pytest.mark.parametrize("sizes", [(1_000,), (1_000, 10_000, 100_000), (100_000, 1_000_000)])
def test_the_picture_shows_a_point_for_each_size_and_goals_that_were_reached(sizes: tuple[int, ...]) -> None:
    picture = report.picture(full(*(row(size, size / 1_000) for size in sizes)))
    root = ET.fromstring(picture)  # noqa: S314 - of our own making
    circles = [element for element in root.iter() if element.tag.endswith("circle")]
    points = [circle for circle in circles if circle.get("fill") != "none"]
    rings = [circle for circle in circles if circle.get("fill") == "none"]
    assert len(points) == len(sizes) * 7
    assert len(rings) == {1_000: 0, 100_000: 4, 1_000_000: 7}[max(sizes)]
    for circle in circles:
        assert 0 <= float(circle.get("cx", "-1")) <= 400
        assert 0 <= float(circle.get("cy", "-1")) <= 250


def test_numbers_below_their_least_are_refused() -> None:
    for wrong in (["--drawers", "0"], ["--clients", "0"], ["--queries", "0"], ["--real", "1"], ["--seed", "-1"]):
        with pytest.raises(ConfigError, match="at least"):
            bench.main(["scale", *wrong])


def test_a_place_that_cannot_be_made_is_named_before_the_run(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("taken")
    for option in ("--out", "--stores"):
        with pytest.raises(ConfigError, match="cannot make"):
            bench.main(["scale", option, str(taken / "below")])


def test_without_a_model_it_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALACE_MODELS", str(tmp_path))
    with pytest.raises(ModelError) as caught:
        scale.measure([100], scale.Settings(), Progress())
    assert "palace-daemon model install" in caught.value.hint


def test_a_report_of_several_sizes_keeps_its_rows() -> None:
    found = full(row(1_000, 1.0), row(2_000, 2.0))
    assert scale._flat(found) == found
    assert msgspec.json.decode(msgspec.json.encode(scale._flat(full(row(1_000, 1.0)))))["recallMsP50"] == 1.0
