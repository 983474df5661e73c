"""The fault table of ``docs/damage.md`` and the tests are one: a row names a test, a fault of a test has a row."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "damage.md"
KILLED = "tests/service/test_kill_points.py"
DAMAGED = "tests/service/test_damage.py"


def rows() -> list[tuple[str, str, str]]:
    """Return fault, file and test of each row."""
    found = re.findall(
        r"^\| (.+?) \| .+? \| `(tests/[\w/]+\.py)::(\w+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    return [(fault, file, test) for fault, file, test in found]


def keys_of(file: str, table: str) -> list[str]:
    """Return the keys of a dictionary of a test file, which is read and not run."""
    for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == table for target in targets):
            assert isinstance(node, ast.Assign | ast.AnnAssign)
            assert isinstance(node.value, ast.Dict)
            return [str(ast.literal_eval(key)) for key in node.value.keys if key is not None]
    raise LookupError(table)


def test_every_row_names_a_test_that_exists() -> None:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert len(rows()) == len(lines) - 1, "a row is not of the form: fault, expected, `file::test`"
    for fault, file, test in rows():
        names = {
            node.name for node in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(node, ast.FunctionDef)
        }
        assert test in names, fault


def test_every_fault_of_the_tests_has_a_row_and_no_row_is_made_up() -> None:
    told = [(fault, test) for fault, file, test in rows() if file in {KILLED, DAMAGED}]
    points = [
        (f"`kill -9`, {name}", "test_killed_there_and_started_again_it_equals_an_undisturbed_run")
        for name in keys_of(KILLED, "POINTS")
    ]
    pages = [
        (name, "test_a_damaged_page_is_found_and_what_can_be_read_goes_into_a_new_file")
        for name in keys_of(DAMAGED, "PAGES")
    ]
    parts = [(name, "test_what_does_not_agree_is_found_and_made_anew") for name in keys_of(DAMAGED, "PARTS")]
    tables = {test for _, test in (*points, *pages, *parts)}
    assert [one for one in told if one[1] in tables] == [*points, *pages, *parts]


def test_there_are_enough_points_at_which_it_is_killed() -> None:
    assert sum(fault.startswith("`kill -9`, ") for fault, _, _ in rows()) >= 20
