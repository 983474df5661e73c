"""The page about the format shows one line of each type, with every key, as they are read and written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec

from palace_daemon.store import portable

PAGE = Path(__file__).resolve().parents[2] / "docs" / "export-format.md"
LINES = re.findall(r"^```json\n(.+)\n```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
ALL: tuple[type[msgspec.Struct], ...] = (*portable.TYPE_OF, portable.Header, portable.End)
USUAL = {"secondary", "error", "superseded"}
"""Keys that the page explains in words, and that most lines leave out."""


def test_there_is_an_example_of_every_line() -> None:
    assert {type(portable.decode(line.encode())) for line in LINES} == set(ALL)
    assert len(LINES) == len(ALL)


def test_examples_are_what_an_export_would_write() -> None:
    for line in LINES:
        assert json.loads(portable.encode(portable.decode(line.encode()))) == json.loads(line)


def test_examples_show_every_key() -> None:
    text = PAGE.read_text(encoding="utf-8")
    kinds: tuple[type[msgspec.Struct], ...] = (*ALL, portable.Place, portable.Attached)
    for kind in kinds:
        for field in msgspec.structs.fields(kind):
            name = field.encode_name
            assert f'"{name}":' in text or (name in USUAL and f"`{name}`" in text), f"{kind.__name__}.{name}"


def test_the_page_names_the_version() -> None:
    assert f"version {portable.VERSION} of the format" in PAGE.read_text(encoding="utf-8")
