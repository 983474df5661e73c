"""The table and the picture of the bench of embedding."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from palace_daemon.bench import embed_report
from palace_daemon.bench.embed_rows import REFERENCE

SVG = "{http://www.w3.org/2000/svg}"


def parsed(report: dict[str, Any]) -> ET.Element:
    return ET.fromstring(embed_report.picture(report))  # noqa: S314 - made right here


def row(name: str, speed: int, company: float | None, kind: str = "") -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "tokensPerCpuSecond": speed,
        "ratioToFp32": round(speed / 2_000, 2),
        "textsPerSecond": 12.34,
        "cosineToFp32Mean": 0.9987,
        "cosineToFp32Min": 0.9912,
        "worstBatchedVsAlone": company,
        "rssMb": 321.4,
    }


@pytest.fixture
def report() -> dict[str, Any]:
    return {
        "texts": 128,
        "tokens": 20_000,
        "threads": 2,
        "machine": "a <processor> & more",
        "tokenisingTokensPerCpuSecond": 500_000,
        "fastestFp32": REFERENCE,
        "coldLoadMs": {"small-int8": 345},
        "rssBaseMb": 77.7,
        "rows": [
            row(REFERENCE, 2_000, None),
            row("int8 classic", 4_000, 0.97512),
            row("small-int8", 4_400, 1.0, "as the daemon runs it"),
        ],
    }


def test_the_table_says_all_of_a_row_and_what_it_was_measured_on(report: dict[str, Any]) -> None:
    text = embed_report.table(report)
    (line,) = [line for line in text.splitlines() if line.startswith("int8 classic")]
    assert line.split()[2:] == ["4,000", "2.00", "12.3", "321", "0.99870", "0.99120", "0.9751200"]
    for told in ("128 texts", "20000 tokens", "500,000", "small-int8 345 ms", "78 of it", f"fp32: {REFERENCE}."):
        assert told in text


def test_a_table_without_processes_has_no_memory(report: dict[str, Any]) -> None:
    for one in report["rows"]:
        del one["rssMb"]
    del report["coldLoadMs"], report["rssBaseMb"]
    text = embed_report.table(report)
    assert "cold load" not in text
    assert "4,400" in text


def test_the_picture_is_an_image_of_bars_as_long_as_they_are_fast(report: dict[str, Any]) -> None:
    root = parsed(report)
    lengths = [float(one.attrib["width"]) for one in root.iter(f"{SVG}rect") if "x" in one.attrib]
    assert len(lengths) == 3
    assert lengths[1] / lengths[0] == pytest.approx(2, rel=0.01)
    assert lengths[2] / lengths[0] == pytest.approx(2.2, rel=0.01)
    right = max(float(one.attrib["x"]) for one in root.iter(f"{SVG}text"))
    assert right < float(root.attrib["width"])


def test_the_picture_marks_what_depends_on_its_company_in_words_too(report: dict[str, Any]) -> None:
    words = [one.text or "" for one in parsed(report).iter(f"{SVG}text")]
    assert "\u25b2 another: down to 0.975" in words
    assert "\u25cf the same vector" in words
    assert "(alone)" in words
    assert any("a <processor> & more" in line for line in words)


def test_the_picture_brings_its_own_ground_and_names_itself(report: dict[str, Any]) -> None:
    text = embed_report.picture(report)
    assert re.search(r'<rect width="100%" height="100%"[^>]*fill="#14181d"', text)
    assert "<title>" in text
