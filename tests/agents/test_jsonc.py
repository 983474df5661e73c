"""Edits of settings that people write: nothing that is not touched changes by a byte."""

from __future__ import annotations

import json
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from palace_daemon.agents import jsonc
from palace_daemon.agents.jsonc import JsoncError

COMMENTED = """\
// settings of mine
{
    /* the editor */
    "theme": "dark", // not light
    "mcpServers": {
        "files": {"command": "npx", "args": ["-y", "files"]}, // the first
        // "old": {"command": "gone"},
    }, // servers
    "last": [1, 2.5e3, null, true, "a // b /* c */ \\" d"],
}
"""


def put(text: str, value: Any = 1, *path: str) -> str:
    return jsonc.put(text, path or ("b",), value)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{\n  "b": 1\n}'),
        ("{ }\n", '{\n  "b": 1\n}\n'),
        ("{\n}\n", '{\n  "b": 1\n}\n'),
        ('{"a": 0}', '{"a": 0, "b": 1}'),
        ('{"a": 0,}', '{"a": 0, "b": 1,}'),
        ('{\n  "a": 0\n}\n', '{\n  "a": 0,\n  "b": 1\n}\n'),
        ('{\n\t"a": 0,\n}\n', '{\n\t"a": 0,\n\t"b": 1,\n}\n'),
        ('{\n  "a": 0 // why\n}\n', '{\n  "a": 0, // why\n  "b": 1\n}\n'),
        ('{\n  "a": 0, // why\n  // more\n}\n', '{\n  "a": 0, // why\n  "b": 1,\n  // more\n}\n'),
        ('{\r\n    "a": 0\r\n}\r\n', '{\r\n    "a": 0,\r\n    "b": 1\r\n}\r\n'),
        ("{\n  // nothing yet\n}\n", '{\n  // nothing yet\n  "b": 1\n}\n'),
        ('{"b": 2, "b": 3}', '{"b": 2, "b": 1}'),
        ('{\n  "a": {} /* x */} /* end */\n', '{\n  "a": {},\n  "b": 1 /* x */} /* end */\n'),
        ('{\n  "a": 0 /* x */ /* y */\n}\n', '{\n  "a": 0,\n  "b": 1 /* x */ /* y */\n}\n'),
    ],
)
def test_a_member_is_put_in_as_the_file_is_written(before: str, after: str) -> None:
    assert put(before) == after
    assert put(after) == after


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 0}',
        '{"a": 0,}',
        '{\n  "a": 0\n}\n',
        '{\n\t"a": 0,\n}\n',
        '{\n  "a": 0 // why\n}\n',
        '{\n  "a": 0, // why\n  // more\n}\n',
        '{\r\n    "a": {"b": [1]} /* x */\r\n}\r\n',
        '{"a": [1, 2], "c": {}}',
        COMMENTED,
    ],
)
def test_what_was_put_in_can_be_taken_out_without_a_trace(text: str) -> None:
    for path in (("b",), ("b", "c", "d")):
        added = put(text, {"x": [1, {"y": "z"}]}, *path)
        assert jsonc.find(jsonc.parse(added), path) is not None
        assert jsonc.drop(added, path, lambda _value: True) == text


def test_comments_and_other_members_stay_where_they_are() -> None:
    added = put(COMMENTED, {"command": "p"}, "mcpServers", "palace")
    lines = added.splitlines()
    assert [line for line in lines if line not in COMMENTED.splitlines()] == [
        '        "palace": {',
        '            "command": "p"',
        "        },",
    ]
    assert lines[5].endswith("// the first")
    assert jsonc.parse(added).value["mcpServers"]["palace"] == {"command": "p"}
    assert jsonc.drop(added, ("mcpServers", "palace"), lambda _value: True) == COMMENTED


def test_the_first_and_the_middle_member_can_go() -> None:
    text = '{\n  "a": 1, // one\n  "b": 2,\n  "c": 3\n}\n'
    assert jsonc.drop(text, ("a",), lambda _value: True) == '{\n  "b": 2,\n  "c": 3\n}\n'
    assert jsonc.drop(text, ("b",), lambda _value: True) == '{\n  "a": 1, // one\n  "c": 3\n}\n'
    assert jsonc.drop(text, ("c",), lambda _value: True) == '{\n  "a": 1, // one\n  "b": 2\n}\n'
    assert jsonc.drop('{"a": 1, "b": 2}', ("a",), lambda _value: True) == '{ "b": 2}'
    assert jsonc.drop(text, ("c",), lambda _value: False) == text
    assert jsonc.drop(text, ("a", "b"), lambda _value: True) == text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{\n  "a": 1, /* x */ "b": 2 /* y */\n}\n', '{\n   /* x */ "b": 2 /* y */\n}\n'),
        ('{\n  "c": 3,\n  "a": 1 /* x */} /* end */\n', '{\n  "c": 3 /* x */} /* end */\n'),
        ('{"c": {\n  "a": 1 /* x */}} /* end */\n', '{"c": {\n   /* x */}} /* end */\n'),
        ('{"c": {\n  // x\n  "a": 1\n}}\n', '{"c": {\n  // x\n}}\n'),
        ('{"c": {\n  "a": 1 // x\n}}\n', "{}\n"),
    ],
)
def test_a_remark_ends_where_it_ends_and_not_with_the_line(before: str, after: str) -> None:
    path = ("c", "a") if before.startswith('{"c"') else ("a",)
    assert jsonc.drop(before, path, lambda _value: True) == after


def test_an_item_on_the_way_is_named_by_its_place() -> None:
    text = '{"a": [{"b": [1, 2]}, {"b": [3]}], "c": {"0": 4}}'
    assert json.loads(jsonc.drop(text, ("a", 0, "b"), lambda item: item == 1))["a"] == [{"b": [2]}, {"b": [3]}]
    for path in (("a", 2, "b"), ("c", 0), ("a", "0")):
        assert jsonc.drop(text, path, lambda _value: True) == text


def test_items_are_added_to_arrays_and_taken_out_again() -> None:
    text = '{\n  "hooks": {\n    "Start": [\n      {"x": 1}\n    ]\n  }\n}\n'
    added = jsonc.append(text, ("hooks", "Start"), {"y": 2})
    assert json.loads(added)["hooks"]["Start"] == [{"x": 1}, {"y": 2}]
    assert jsonc.drop(added, ("hooks", "Start"), lambda item: "y" in item) == text
    assert jsonc.drop(text, ("hooks", "Start"), lambda item: "x" in item) == "{}\n"
    two = jsonc.append(added, ("hooks", "Start"), {"y": 3})
    assert jsonc.drop(two, ("hooks", "Start"), lambda item: "y" in item) == text
    assert json.loads(jsonc.append("{}", ("a", "b"), 1)) == {"a": {"b": [1]}}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a value at line 1, column 1"),
        ("{", "a key in double quotes"),
        ('{\n  "a": 1\n  "b": 2\n}', "a comma or } at line 3, column 3"),
        ("{a: 1}", "a key in double quotes at line 1, column 2"),
        ('{"a" 1}', "a colon"),
        ('{"a": 1} x', "the end of the file"),
        ("{\"a\": 'x'}", "a value"),
        ('{"a": "\\q"}', "a value"),
        ('{"a": 01}', "a comma or }"),
        ("{,}", "a key in double quotes"),
        ("[" * 5_000, "less depth"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(JsoncError, match="expected") as caught:
        jsonc.parse(text)
    assert says in str(caught.value)


def test_something_else_on_the_way_is_refused() -> None:
    with pytest.raises(JsoncError, match="a is no object"):
        put('{"a": 1}', 2, "a", "b")
    with pytest.raises(JsoncError, match="a is no array"):
        jsonc.append('{"a": {}}', ("a",), 1)
    with pytest.raises(JsoncError, match="the file is no object"):
        put("[]", 2)


SCALARS = strategies.none() | strategies.booleans() | strategies.integers() | strategies.text(max_size=6)
KEYS = strategies.text('abc"\\é/*', max_size=3)
VALUES = strategies.recursive(
    SCALARS,
    lambda inner: strategies.lists(inner, max_size=3) | strategies.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@hypothesis.given(
    value=strategies.dictionaries(KEYS, VALUES, max_size=4),
    indent=strategies.sampled_from([None, 2, 4, "\t"]),
    new=VALUES,
)
def test_any_object_is_read_as_json_is_and_edits_come_off_again(value: Any, indent: Any, new: Any) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    assert jsonc.parse(text).value == value
    path = ("ours", "inner")
    added = jsonc.put(text, path, new)
    assert json.loads(added) == {**value, "ours": {"inner": new}}
    assert jsonc.drop(added, path, lambda _value: True) == text or not value
