from __future__ import annotations

import json
import random

import pytest

from palace_daemon.core.documents import Element, ElementSplitter, Places, decode_prefix, decode_value

VALUE = [
    {"id": "a", "text": 'quotes " and \\ and ]}{[ in text', "deep": [[{"x": []}]]},
    {"id": "b", "text": "\\\\", "n": 1.5e3, "none": None},
    {},
    {"id": "c", "text": "\u8a18\u61b6 \U0001f600"},
]


def split(data: bytes, cuts: list[int], *, by_element: bool = True) -> tuple[list[Element], bool]:
    splitter = ElementSplitter(by_element=by_element)
    elements = []
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        elements += splitter.feed(data[start:end])
    return elements, splitter.state.is_whole


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_any_cuts_give_the_same_elements(indent: int | None, ascii_only: bool) -> None:
    data = json.dumps(VALUE, indent=indent, ensure_ascii=ascii_only).encode()
    for cuts in [[], list(range(len(data))), sorted(random.Random(1).choices(range(len(data)), k=9))]:
        elements, is_whole = split(data, cuts)
        assert [json.loads(element.payload) for element in elements] == VALUE
        assert is_whole
        for element in elements:
            assert data[element.byte_start : element.byte_end] == element.payload
            assert element.line == data[: element.byte_start].count(b"\n") + 1


@pytest.mark.parametrize("size", [65_530, 65_533, 65_534, 65_535, 65_536, 131_072, 200_000])
def test_an_element_that_is_longer_than_one_look_at_it(size: int) -> None:
    value = [{"a": "x" * (size - 7) + '"]}' * 9, "b": [[]]}, {"a": "\\" * size}, {}]
    data = json.dumps(value).encode()
    for cuts in ([], [size // 2], list(range(1, len(data), 9_973))):
        elements, is_whole = split(data, cuts)
        assert [json.loads(element.payload) for element in elements] == value
        assert is_whole


def test_a_splitter_goes_on_from_its_state() -> None:
    data = json.dumps(VALUE, indent=1).encode()
    for cut in range(len(data)):
        first = ElementSplitter()
        elements = first.feed(data[:cut])
        second = ElementSplitter(first.state)
        elements += second.feed(data[first.state.offset :])
        assert [json.loads(element.payload) for element in elements] == VALUE, cut


def test_a_root_object_and_a_root_array_that_is_one_value() -> None:
    data = b'\xef\xbb\xbf \n{"a": [1, 2]}\n'
    assert [element.payload for element in split(data, [4])[0]] == [b'{"a": [1, 2]}']
    elements, is_whole = split(b"[[1], [2]]", [3], by_element=False)
    assert ([element.payload for element in elements], is_whole) == ([b"[[1], [2]]"], True)


@pytest.mark.parametrize("data", [b"", b"  ", b"[", b'[{"a": 1}', b'[{"a": 1},', b'{"a": "', b'{"a": "\\'])
def test_a_document_that_is_cut_off_is_not_whole(data: bytes) -> None:
    assert split(data, [])[1] is False


def test_what_follows_a_document_is_left() -> None:
    elements, is_whole = split(b'[{"a": 1}] {"b": 2}', [])
    assert len(elements) == 1
    assert is_whole


@pytest.mark.parametrize("data", [b"]", b"}", b'"x"', b"nothing", b"[1, 2, {}]", b"\x00\x01", b'{"a" "b"}}}'])
def test_odd_documents_raise_nothing(data: bytes) -> None:
    for element in split(data, [])[0]:
        decode_value(element.payload)


def test_lone_surrogates_control_characters_and_bad_bytes_are_replaced() -> None:
    assert decode_value(b'{"a": "x\\ud83d"}').value == {"a": "x\ufffd"}
    assert decode_value(b'{"a": "x\ty"}').value == {"a": "x\ty"}
    decoded = decode_value(b'{"a": "\xff"}')
    assert decoded.value == {"a": "\ufffd"}
    assert decoded.flags == ("lossy_unicode",)
    assert decode_value(b'{"a": ').problem == "malformed"
    assert decode_value(b"[" * 100_000).problem == "malformed"


def test_places_follow_the_ids() -> None:
    data = json.dumps([{"list": [{"id": "one"}, {"id": "two"}]}], indent=1).encode()
    places = Places(split(data, [])[0][0])
    for value in ("one", "two"):
        place = places.of(value)
        assert data[place.byte_start : place.byte_end] == json.dumps(value).encode()
        assert data.split(b"\n")[place.line - 1].strip() == b'"id": "%s"' % value.encode()
    assert places.of("gone").line == place.line


@pytest.mark.parametrize(
    ("head", "value"),
    [
        (b'[{"a": 1, "b": {"c": "x', [{"a": 1, "b": {}}]),
        (b'{"a": [1, 2, 3', {"a": [1, 2]}),
        (b'{"a": "b", "c', {"a": "b"}),
        (b'{"a": "b\\', {}),
        (b'[{"a": "b", "c": "code with } and ] and {', [{"a": "b"}]),
        (b'{"a": true}', {"a": True}),
        (b'{"a": "b"} trailing', {"a": "b"}),
        (b"plain text", None),
        (b"", None),
    ],
)
def test_the_beginning_of_a_document_is_enough_to_know_it(head: bytes, value: object) -> None:
    assert decode_prefix(head) == value
