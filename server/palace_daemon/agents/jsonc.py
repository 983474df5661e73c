"""Edits of JSON that people write: comments, trailing commas and every byte that is not touched stay as they are.

The text is read into nodes that know where they stand, and an edit is one piece of text put in or taken out. Libraries
that keep comments write the whole file anew in their own manner, which is what a person's settings must not suffer.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_BLANK_HEADS = " \t\r\n/"
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORD = re.compile(r"true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_DEPTH_MAX = 100
_LINE_REST = re.compile(r"[ \t]*(?://[^\r\n]*|/\*(?:(?!\*/)[^\r\n])*\*/)?[ \t]*(?=\r?\n)")
"""From a member to the end of its line: a remark there belongs to it. One only: between two there may be anything."""
_TEXTS_HELD = 4
"""An edit and its checks look again and again at a few texts, and reading one of megabytes takes seconds."""


class Node(NamedTuple):
    """A value and where it stands."""

    start: int
    end: int
    value: Any
    """What it means, as :func:`json.loads` gives it."""
    members: tuple[Member, ...] = ()
    """Of an object or an array, in order."""
    is_comma_last: bool = False
    """Whether a comma follows the last member."""

    @property
    def is_object(self) -> bool:
        """Whether it has keys."""
        return isinstance(self.value, dict)

    def at(self, key: str) -> Member | None:
        """Return the member of an object that counts: of equal keys the last one."""
        return next((one for one in reversed(self.members) if one.key == key), None)

    def item(self, key: str | int) -> Member | None:
        """Return the member of an object under a key, or that of an array at a place; None where there is none."""
        if isinstance(key, str):
            return self.at(key) if self.is_object else None
        return self.members[key] if isinstance(self.value, list) and key < len(self.members) else None


class Member(NamedTuple):
    """A member of an object, or an item of an array (whose key is None)."""

    key: str | None
    start: int
    node: Node


class JsoncError(ValueError):
    """The text is no JSON, comments and trailing commas allowed; says where."""


@functools.lru_cache(maxsize=_TEXTS_HELD)
def parse(text: str) -> Node:
    """Return the value that ``text`` holds, to be read only: who asks again is given the same one.

    Raises:
        JsoncError: It holds none, or something after it.
    """
    reader = _Reader(text)
    node = reader.value(reader.blank(0), 0)
    if (end := reader.blank(node.end)) != len(text):
        raise reader.error(end, "the end of the file")
    return node


def put(text: str, path: Sequence[str], value: Any) -> str:
    """Return ``text`` in which the member at ``path`` has ``value``; objects on the way are made.

    Raises:
        JsoncError: Something on the way is no object.
    """
    node, depth = parse(text), 0
    for depth, key in enumerate(path):
        if not node.is_object:
            raise JsoncError(f"{'.'.join(path[:depth]) or 'the file'} is no object")
        member = node.at(key)
        if member is None:
            break
        node = member.node
    else:
        written = _written(value, _style(text), _indent_of(text, node.start))
        return text if node.value == value else text[: node.start] + written + text[node.end :]
    for key in reversed(path[depth + 1 :]):
        value = {key: value}
    return _inserted(text, node, f"{json.dumps(path[depth])}: ", value)


def append(text: str, path: Sequence[str], item: Any) -> str:
    """Return ``text`` in which the array at ``path`` ends with ``item``; what is missing on the way is made.

    Raises:
        JsoncError: Something on the way is no object, or there is something else than an array.
    """
    found = find(parse(text), path)
    if found is None:
        return put(text, path, [item])
    if not isinstance(found.value, list):
        raise JsoncError(f"{'.'.join(path)} is no array")
    return _inserted(text, found, "", item)


def drop(text: str, path: Sequence[str | int], is_ours: Callable[[Any], bool]) -> str:
    """Return ``text`` without what ``is_ours`` among the value at ``path``, or the items of the array there.

    Objects and arrays on the way that then hold nothing, not even a remark, go as well. A number on the way is the
    place of an item.
    """
    while True:
        chain = _chain(parse(text), path)
        if not chain:
            return text
        holder = chain[-1].node
        if isinstance(holder.value, list):
            item = next((one for one in holder.members if is_ours(one.node.value)), None)
            if item is not None:
                text = _without(text, holder, item)
                continue
            return _pruned(text, path) if not holder.members else text
        return _pruned(_removed(text, path), path[:-1]) if is_ours(holder.value) else text


def find(node: Node, path: Sequence[str | int]) -> Node | None:
    """Return what stands at ``path``, or None."""
    chain = _chain(node, path)
    return chain[-1].node if chain else (node if not path else None)


def _chain(node: Node, path: Sequence[str | int]) -> list[Member]:
    """Return the members on the way along ``path``; none if the way ends before."""
    chain: list[Member] = []
    for key in path:
        member = node.item(key)
        if member is None:
            return []
        chain.append(member)
        node = member.node
    return chain


def _pruned(text: str, path: Sequence[str | int]) -> str:
    """Return ``text`` without the empty objects and arrays at the end of ``path``; one that holds a remark stays."""
    while path:
        node = find(parse(text), path)
        if node is None or node.value or text[node.start + 1 : node.end - 1].strip():
            break
        text, path = _removed(text, path), path[:-1]
    return text


def _removed(text: str, path: Sequence[str | int]) -> str:
    root = parse(text)
    holder = find(root, path[:-1])
    member = holder.item(path[-1]) if holder else None
    return text if holder is None or member is None else _without(text, holder, member)


# ----------------------------------------------------------------------------------------------------------- editing


class _Style(NamedTuple):
    unit: str
    line_end: str


def _style(text: str) -> _Style:
    """Return the indentation and the line end of ``text``: those of its first member."""
    line_end = "\r\n" if "\r\n" in text else "\n"
    root = parse(text)
    for member in root.members:
        unit = _indent_of(text, member.start)
        if "\n" in text[root.start : member.start] and unit:
            return _Style(unit, line_end)
    return _Style("  ", line_end)


def _indent_of(text: str, at: int) -> str:
    """Return the white space at the beginning of the line of ``at``."""
    begin = text.rfind("\n", 0, at) + 1
    return text[begin : begin + len(text[begin:at]) - len(text[begin:at].lstrip(" \t"))]


def _written(value: Any, style: _Style, indent: str) -> str:
    lines = json.dumps(value, indent=style.unit, ensure_ascii=False).split("\n")
    return (style.line_end + indent).join(lines)


def _inserted(text: str, holder: Node, before: str, value: Any) -> str:
    """Return ``text`` with a member more at the end of ``holder``."""
    style = _style(text)
    outer = _indent_of(text, holder.start)
    if not holder.members:
        inner = text[holder.start + 1 : holder.end - 1]
        closing = inner if inner.strip(" \t") else style.line_end + outer
        new = f"{style.line_end}{outer}{style.unit}{before}{_written(value, style, outer + style.unit)}"
        if inner.strip():  # a remark and nothing else: it stays above
            return f"{text[: holder.end - 1].rstrip()}{new}{style.line_end}{outer}{text[holder.end - 1 :]}"
        return f"{text[: holder.start + 1]}{new}{closing}{text[holder.end - 1 :]}"
    last = holder.members[-1]
    if "\n" not in text[holder.start : last.start]:
        comma = "" if holder.is_comma_last else ","
        new = f"{comma} {before}{json.dumps(value, ensure_ascii=False)}"
        at = _after_comma(text, last.node.end) if holder.is_comma_last else last.node.end
        return text[:at] + new + ("," if holder.is_comma_last else "") + text[at:]
    indent = _indent_of(text, last.start)
    new = f"{style.line_end}{indent}{before}{_written(value, style, indent)}{',' * holder.is_comma_last}"
    end = last.node.end
    at = _after_comma(text, end) if holder.is_comma_last else end
    rest = _LINE_REST.match(text, at)
    line = rest.end() if rest and rest.end() < holder.end else at
    return f"{text[:end]}{'' if holder.is_comma_last else ','}{text[end:line]}{new}{text[line:]}"


def _without(text: str, holder: Node, member: Member) -> str:
    """Return ``text`` without one member of ``holder``, its comma and its line."""
    place = next(number for number, one in enumerate(holder.members) if one is member)
    is_last = place == len(holder.members) - 1
    before = holder.members[place - 1] if place else None
    end = _after_comma(text, member.node.end) if not is_last or holder.is_comma_last else member.node.end
    rest = _LINE_REST.match(text, end)
    begin = member.start
    line_begin = text.rfind("\n", 0, begin) + 1
    has_own_lines = rest is not None and not text[line_begin:begin].strip() and line_begin > holder.start
    if has_own_lines and rest is not None:
        begin = line_begin - 1 - (text[line_begin - 2 : line_begin - 1] == "\r")
        end = rest.end()
    elif before is not None:
        begin = _after_comma(text, before.node.end)
    if before is not None and is_last and not holder.is_comma_last:
        comma = _after_comma(text, before.node.end) - 1
        text = text[:comma] + text[comma + 1 :]
        begin, end = begin - 1, end - 1
    left = text[:begin] + text[end:]
    if len(holder.members) == 1:
        inner_end = holder.end - 1 - (end - begin)
        if not left[holder.start + 1 : inner_end].strip():
            return left[: holder.start + 1] + left[inner_end:]
    return left


def _after_comma(text: str, at: int) -> int:
    """Return the place behind the comma that follows ``at``."""
    return _Reader(text).blank(at) + 1


# ----------------------------------------------------------------------------------------------------------- reading


class _Reader:
    """Reads values off a text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def error(self, at: int, wanted: str) -> JsoncError:
        line = self._text.count("\n", 0, at) + 1
        column = at - self._text.rfind("\n", 0, at)
        return JsoncError(f"expected {wanted} at line {line}, column {column}")

    def blank(self, at: int) -> int:
        if self._text[at : at + 1] not in _BLANK_HEADS:
            return at
        found = _BLANK.match(self._text, at)
        return found.end() if found else at

    def value(self, at: int, depth: int) -> Node:
        if depth > _DEPTH_MAX:
            raise self.error(at, "less depth")
        head = self._text[at : at + 1]
        if head in {"{", "["}:
            return self._holder(at, depth, is_object=head == "{")
        found = (_STRING if head == '"' else _WORD).match(self._text, at)
        if found is None:
            raise self.error(at, "a value")
        try:
            return Node(at, found.end(), _meaning(found[0]))
        except ValueError as exc:
            raise self.error(at, "a value") from exc

    def _holder(self, start: int, depth: int, *, is_object: bool) -> Node:
        closing = "}" if is_object else "]"
        members: list[Member] = []
        at, is_comma_last = self.blank(start + 1), False
        while self._text[at : at + 1] != closing:
            if members and not is_comma_last:
                raise self.error(at, f"a comma or {closing}")
            member = self._member(at, depth) if is_object else Member(None, at, self.value(at, depth + 1))
            members.append(member)
            at = self.blank(member.node.end)
            is_comma_last = self._text[at : at + 1] == ","
            at = self.blank(at + 1) if is_comma_last else at
        values = [one.node.value for one in members]
        value = dict(zip([one.key for one in members], values, strict=True)) if is_object else values
        return Node(start, at + 1, value, tuple(members), is_comma_last)

    def _member(self, start: int, depth: int) -> Member:
        key = _STRING.match(self._text, start)
        if key is None:
            raise self.error(start, "a key in double quotes")
        colon = self.blank(key.end())
        if self._text[colon : colon + 1] != ":":
            raise self.error(colon, "a colon")
        return Member(_meaning(key[0]), start, self.value(self.blank(colon + 1), depth + 1))


def _meaning(written: str) -> Any:
    """Return the string, number or word that is written so."""
    return written[1:-1] if written[0] == '"' and "\\" not in written else json.loads(written)
