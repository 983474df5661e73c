"""opencode up to 1.1: a session as a tree of small JSON files. The session's own file stands for it.

Below ``storage`` they are ``session/<project>/ses_*.json``, ``message/<session>/msg_*.json`` and
``part/<message>/prt_*.json``; before, all of them lay below ``storage/session/{info,message,part}``.

Invariant: what a session comes to is what the database makes of it after the migration, key by key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from palace_daemon.core.documents import decode_prefix, decode_value
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.document_parser import TextParser
from palace_daemon.core.transcripts.opencode.database import OpencodeReader, OpencodeRow
from palace_daemon.core.transcripts.opencode.records import AGENT, message_order
from palace_daemon.core.transcripts.reading.database_rows import xdg_data_dir
from palace_daemon.core.transcripts.reading.words import as_text, path_parts
from palace_daemon.core.transcripts.vscode_chat.workspace import base_name, join, parent_of
from palace_daemon.core.turns import Place, Reading

_SUFFIX = ".json"
_OLD_FOLDER = "info"
_NO_FOLDER = ("", "/")
"""Directories of the project that stands for none."""


class OpencodeTreeFormat:
    """The JSON tree of opencode. Stateless and thread-safe."""

    name = "opencode-tree"
    agent = AGENT
    version = 1
    shape: Shape = "document"
    suffixes: tuple[str, ...] = (_SUFFIX,)
    is_secondary = True  # what was moved to the database stays behind

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return where the files of sessions lie: they are written anew with each message."""
        parts = (("opencode", "storage", "session"), ("opencode", "project"))
        return tuple(xdg_data_dir(environ, home, platform, *names) for names in parts)

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` is a session's own file."""
        parts = path_parts(path)
        return parts[-1].endswith(_SUFFIX) and parts[-3:-2] == ["session"] and parts[-2] not in ("message", "part")

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is a session's own."""
        value = decode_prefix(head)
        if not isinstance(value, dict) or not isinstance(value.get("time"), dict):
            return False
        is_dated = "created" in value["time"] and "updated" in value["time"]
        texts = all(isinstance(value.get(name), str) for name in ("id", "version", "title"))
        return is_dated and texts and not {"messages", "role", "history"} & value.keys()

    def open(
        self, path: str, redact: Redactor, state: bytes | None = None, beside: Beside = NOTHING_BESIDE
    ) -> TextParser:
        """Return a parser for the gathered files of the session at ``path``."""
        return TextParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            reader=_TreeReader(path, beside),
            redact=redact,
            state=state,
        )

    def members(self, path: str, beside: Beside) -> Iterator[str]:
        """Yield the session's file, then each message's with those of its parts."""
        yield path
        folder = parent_of(path)
        session_id = _session_id(path, beside)
        is_old = base_name(folder) == _OLD_FOLDER
        root = parent_of(folder) if is_old else parent_of(parent_of(folder))
        messages = join(root, "message", session_id)
        has_parts = False
        for name in _files(messages, beside):
            yield join(messages, name)
            message_id = name.removesuffix(_SUFFIX)
            parts = join(root, "part", session_id, message_id) if is_old else join(root, "part", message_id)
            for part in _files(parts, beside):
                has_parts = True
                yield join(parts, part)
        if not has_parts:  # the first releases kept all parts in one folder
            yield from (join(root, "part", name) for name in _files(join(root, "part"), beside))


def _files(directory: str, beside: Beside) -> list[str]:
    return [name for name in beside.names(directory) if name.endswith(_SUFFIX)]


def _session_id(path: str, beside: Beside) -> str:
    value = decode_value(beside.read(path) or b"null").value
    told = as_text(value.get("id")) if isinstance(value, dict) else ""
    return told or base_name(path).removesuffix(_SUFFIX)


class _Member:
    """One file of the session: a line of the gathered text."""

    def __init__(self, path: str, value: dict[str, Any], place: Place) -> None:
        self.path, self.value, self.place = path, value, place
        *self.folders, name = path_parts(path)
        self.id = as_text(value.get("id")) or name.removesuffix(_SUFFIX)


class _TreeReader:
    """A :class:`~palace_daemon.core.transcripts.document_parser.TextReader` of a session's gathered files."""

    def __init__(self, path: str, beside: Beside) -> None:
        self._path, self._beside = path, beside

    def read(self, text: str) -> list[Reading]:
        """Return what all files together tell."""
        members, broken = _members_of(text)
        readings = [Reading(skipped=("malformed",)) for _ in range(broken)]
        session = next((member for member in members if member.path == self._path), None)
        if session is None:
            return readings
        rest = [member for member in members if member is not session]
        reader = OpencodeReader(session.id, AGENT)
        readings += reader.read(self._session_row(session), session.place, b"")
        messages = [member for member in rest if "role" in member.value]
        ids = {member.id for member in messages}
        parts: dict[str, list[_Member]] = {}
        for member in rest:
            if "role" in member.value:
                continue
            message_id = as_text(member.value.get("messageID")) or "".join(member.folders[-1:])
            if message_id in ids:
                parts.setdefault(message_id, []).append(member)
            else:
                readings.append(Reading(skipped=("part_of_another",)))
        for member in sorted(messages, key=lambda one: message_order(_dated(one.value))):
            readings += reader.read(_message_row(member, parts.get(member.id, [])), _span(member, parts), b"")
        return readings

    def _session_row(self, session: _Member) -> OpencodeRow:
        value = session.value
        directory = as_text(value.get("directory"))
        if directory in _NO_FOLDER:
            directory = self._worktree(as_text(value.get("projectID")))
        revert = value.get("revert")
        return OpencodeRow(
            record="session",
            id=session.id,
            directory=directory,
            parent_id=value.get("parentID"),
            title=value.get("title"),
            version=value.get("version"),
            revert=_json(revert) if isinstance(revert, dict) else None,
        )

    def _worktree(self, project_id: str) -> str:
        """Return the directory of the session's project, which older sessions do not name."""
        if not project_id:
            return ""
        root = parent_of(parent_of(parent_of(self._path)))
        value = decode_value(self._beside.read(join(root, "project", f"{project_id}.json")) or b"null").value
        worktree = as_text(value.get("worktree")) if isinstance(value, dict) else ""
        return "" if worktree in _NO_FOLDER else worktree


def _members_of(text: str) -> tuple[list[_Member], int]:
    """Return the gathered files in their order, and how many of them are no objects."""
    members = []
    broken = offset = 0
    for number, line in enumerate(text.split("\n"), 1):
        data = line.encode("utf-8", "replace")
        start, offset = offset, offset + len(data) + 1
        if not line.strip():
            continue
        decoded = decode_value(data)
        gathered = decoded.value if isinstance(decoded.value, dict) else {}
        value = gathered.get("value")
        if not isinstance(value, dict):
            broken += 1
            continue
        place = Place(number, start, start + len(data), decoded.flags)
        members.append(_Member(as_text(gathered.get("path")), value, place))
    return members, broken


def _dated(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with its time where later ones have it."""
    metadata = message.get("metadata")
    if "time" in message or not isinstance(metadata, dict):
        return message
    return {**message, "time": metadata.get("time")}


def _message_row(message: _Member, parts: list[_Member]) -> OpencodeRow:
    ordered = [part.value for part in sorted(parts, key=lambda one: one.id)]
    inside = message.value.get("parts")
    if not ordered and isinstance(inside, list):
        ordered = inside
    value = {"id": message.id, **_dated(message.value)}
    return OpencodeRow(record="message", id=message.id, message=_json(value), parts=_json(ordered))


def _span(message: _Member, parts: dict[str, list[_Member]]) -> Place:
    """Return the place of a message and its parts, which follow it."""
    places = [message.place, *(part.place for part in parts.get(message.id, ()))]
    flags = tuple(sorted({flag for place in places for flag in place.flags}))
    end = max(place.byte_end for place in places)
    return Place(message.place.line, message.place.byte_start, end, flags)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
