"""Changes of an agent's settings files: worked out, checked, shown, written.

A file is written whole beside itself and put in its place at once, through links, with a copy of what was there before.
Taking out what was put in gives back that copy where nobody else has changed the file since.
"""

from __future__ import annotations

import contextlib
import copy
import difflib
import os
import re
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import tomlkit
from tomlkit.exceptions import TOMLKitError

from palace_daemon.agents import jsonc
from palace_daemon.agents.settings import Command, Entry, SettingsFile, files_of, is_here, is_our_part
from palace_daemon.errors import ConfigError
from palace_daemon.replacing import replacing

BACKUP = ".palace-backup"
_BOM = "\ufeff"
_CONTEXT_LINES = 3
_HUNK = re.compile(r"^@@ -(\d+)(,\d+)? \+(\d+)")
"""The head of a part of a diff: where it begins, before and after."""


class Change(NamedTuple):
    """What is to become of one file."""

    path: str
    before: bytes | None
    """None where there is no file."""
    after: bytes | None
    """None where there is to be none."""
    is_removal: bool
    is_backup_due: bool
    """Whether ``before`` holds nothing of ours, and is therefore worth keeping."""

    @property
    def is_nothing(self) -> bool:
        """Whether the file is as it should be."""
        return self.before == self.after

    def verb(self, *, is_dry_run: bool) -> str:
        """Return what happens to the file, in a word or two."""
        if self.is_nothing:
            return "unchanged"
        word = "removed" if self.after is None else "wrote" if self.before is None else "changed"
        would = {"removed": "remove", "wrote": "write", "changed": "change"}
        return f"would {would[word]}" if is_dry_run else word

    def diff(self) -> str:
        """Return the change as a unified diff; empty where there is none."""
        before, after = (_read_as_text(self.path, side or b"").splitlines() for side in (self.before, self.after))
        # The ends that are equal are left out: among 100,000 lines of which many are alike, difflib takes minutes.
        begin = max(0, _equal_lines(before, after) - _CONTEXT_LINES)
        end = max(0, _equal_lines(before[begin:][::-1], after[begin:][::-1]) - _CONTEXT_LINES)
        sides = (before[begin : len(before) - end], after[begin : len(after) - end])
        lines = difflib.unified_diff(*sides, fromfile=self.path, tofile=self.path, lineterm="", n=_CONTEXT_LINES)
        return "".join(f"{_moved(line, begin)}\n" for line in lines)

    def as_json(self) -> dict[str, Any]:
        """Return what a program wants to know."""
        return {"path": self.path, "change": self.verb(is_dry_run=False), "diff": self.diff()}

    def check(self) -> None:
        """Find out whether it can be done.

        Raises:
            ConfigError: It cannot: the file is read-only, or nothing may be written where it lies.
        """
        if self.is_nothing:
            return
        target = os.path.realpath(self.path)
        try:
            _writable_mode(self.path, target)
        except OSError as exc:
            raise ConfigError(f"cannot write {self.path}: {exc.strerror or exc}") from exc
        directory = Path(target).parent
        there = next(at for at in (directory, *directory.parents) if at.exists())
        if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
            raise ConfigError(f"cannot write {self.path}: nothing may be written in {there}")

    def write(self) -> None:
        """Do it.

        Raises:
            ConfigError: The file, or its directory, cannot be written, or it has changed since this was worked out.
        """
        if self.is_nothing:
            return
        backup = self.path + BACKUP
        try:
            target = os.path.realpath(self.path)
            if not self.is_removal:
                os.makedirs(os.path.dirname(target), exist_ok=True)
            mode = _writable_mode(self.path, target)
            if _read(self.path) != self.before:
                raise ConfigError(f"{self.path} was just changed by another program", hint="run this again")
            if not self.is_removal and self.is_backup_due and self.before is not None:
                _replace(backup, self.before, mode)
            if self.after is None:
                os.unlink(target)
            else:
                _replace(target, self.after, mode)
            if self.is_removal or self.before is None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(backup)
        except OSError as exc:
            raise ConfigError(f"cannot write {self.path}: {exc.strerror or exc}") from exc


class Connection(NamedTuple):
    """Whether an agent is here, and how far it is connected."""

    agent: str
    is_found: bool
    state: str
    """``connected``, ``absent``, ``differs`` (what is ours there is not what this installation would write, or only a
    part of it), or ``unclear``."""
    reason: str = ""
    """Why it is unclear."""

    def as_json(self) -> dict[str, Any]:
        """Return what a program wants to know."""
        return {"agent": self.agent, "isFound": self.is_found, "state": self.state, "reason": self.reason}


def connection_of(agent: str, *, scope: str, cwd: str, command: Command) -> Connection:
    """Return how far an agent is connected; reads its settings and changes nothing."""
    files = files_of(agent, scope=scope, cwd=cwd, command=command)
    is_found = is_here(agent, files)
    try:
        changes = [planned(file, is_removal=False) for file in files]
    except ConfigError as exc:
        return Connection(agent, is_found, "unclear", str(exc))
    if all(change.is_nothing for change in changes):
        return Connection(agent, is_found, "connected")
    return Connection(agent, is_found, "absent" if all(change.is_backup_due for change in changes) else "differs")


def planned(file: SettingsFile, *, is_removal: bool) -> Change:
    """Return what connecting, or undoing it, makes of a file; writes nothing.

    Raises:
        ConfigError: The file cannot be read or understood, or holds something of another under our name.
    """
    before = _read(file.path)
    text = "" if before is None else _read_as_text(file.path, before)
    has_ours = _has_ours(file, text)
    if not is_removal:
        after = _checked(file, text, _with_ours(file, text)).encode("utf-8")
        return Change(file.path, before, before if after == before else after, is_removal, not has_ours)
    return Change(file.path, before, _undone(file, text) if has_ours else before, is_removal, False)


def _equal_lines(one: list[str], other: list[str]) -> int:
    """Return how many lines at the beginning are the same."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _moved(line: str, by: int) -> str:
    """Return a line of a diff; one that tells line numbers (others begin with another sign) with ``by`` added."""
    return _HUNK.sub(lambda found: f"@@ -{int(found[1]) + by}{found[2] or ''} +{int(found[3]) + by}", line)


def _undone(file: SettingsFile, text: str) -> bytes | None:
    """Return the file without what is ours: as it was before, where nothing else has changed since."""
    kept = _read(file.path + BACKUP)
    was = "" if kept is None else _read_as_text(file.path + BACKUP, kept)
    with contextlib.suppress(ConfigError):
        connected = _with_ours(file, was)
        # Equal but for ours where an earlier installation, or one with another data directory, has connected.
        if connected == text or _without_ours(file, connected) == _without_ours(file, text):
            return kept
    left = _checked(file, text, _without_ours(file, text))
    is_all_gone = kept is None and not _less_ours(file, _parsed(file, left)) and not _has_remarks(file, left)
    return None if is_all_gone else left.encode("utf-8")


def _has_remarks(file: SettingsFile, text: str) -> bool:
    return bool(text.strip()) if file.is_toml else "/" in text


# ------------------------------------------------------------------------------------------------------------ edits


def _with_ours(file: SettingsFile, text: str) -> str:
    bom, text = _split_bom(text)
    with _refusing(file):
        for entry in file.entries:
            text = _toml_put(file, text, entry) if file.is_toml else _json_put(file, text, entry)
    return bom + text


def _without_ours(file: SettingsFile, text: str) -> str:
    bom, text = _split_bom(text)
    with _refusing(file):
        for entry in file.entries:
            if not entry.is_shared:
                text = _toml_drop(text, entry) if file.is_toml else _json_drop(text, entry)
    return bom + text


@contextlib.contextmanager
def _refusing(file: SettingsFile) -> Iterator[None]:
    """Make a refusal of what an edit finds in the way, also in a text that is half done."""
    try:
        yield
    except (jsonc.JsoncError, tomllib.TOMLDecodeError, TOMLKitError) as exc:
        raise ConfigError(f"cannot change {file.path}: {exc}", hint="nothing was changed") from exc


def _json_drop(text: str, entry: Entry) -> str:
    text = jsonc.drop(text, entry.path, entry.is_ours)
    found = jsonc.find(jsonc.parse(text), entry.path) if entry.is_item else None
    for place, item in enumerate(found.value if found is not None and isinstance(found.value, list) else []):
        if _parts(item):
            text = jsonc.drop(text, (*entry.path, place, "hooks"), is_our_part)
    return text


def _parts(item: Any) -> list[Any]:
    """Return our hooks in a group that holds others, too: a person may have moved them together."""
    inner = item.get("hooks") if isinstance(item, dict) else None
    return [one for one in inner if is_our_part(one)] if isinstance(inner, list) else []


def _json_put(file: SettingsFile, text: str, entry: Entry) -> str:
    if not text.strip():
        text = "{}\n"
    found = jsonc.find(jsonc.parse(text), entry.path)
    if entry.is_item:
        items = found.value if found is not None and isinstance(found.value, list) else []
        if [item for item in items if entry.is_ours(item) or _parts(item)] == [entry.value]:
            return text
        return jsonc.append(_json_drop(text, entry), entry.path, entry.value)
    if found is not None and entry.is_shared:
        return text
    if found is not None and not entry.is_ours(found.value):
        raise _taken(file, entry)
    return jsonc.put(text, entry.path, entry.value)


def _toml_put(file: SettingsFile, text: str, entry: Entry) -> str:
    outer, name = entry.path
    found = tomllib.loads(text).get(outer, {})
    there = found.get(name) if isinstance(found, dict) else found
    if there == entry.value:
        return text
    if there is not None:
        if not entry.is_ours(there):
            raise _taken(file, entry)
        text = _toml_drop(text, entry)
    # A table at the end is always right, and leaves every byte above as it is.
    line_end = "\r\n" if "\r\n" in text else "\n"
    table = tomlkit.dumps({outer: {name: entry.value}}).split(f"[{outer}]\n")[-1].strip("\n")
    gap = "" if not text else line_end if text.endswith("\n") else line_end * 2
    return text + gap + table.replace("\n", line_end) + line_end


def _toml_drop(text: str, entry: Entry) -> str:
    value = tomllib.loads(text)
    outer, name = entry.path
    servers = value.get(outer)
    if not isinstance(servers, dict) or not entry.is_ours(servers.get(name)):
        return text
    del servers[name]
    if not servers:
        del value[outer]
    cut = _toml_cut(text, entry.path)
    with contextlib.suppress(tomllib.TOMLDecodeError):
        if tomllib.loads(cut) == value:
            return cut
    # Written in another manner than ours. This way a remark below the table goes with it.
    document = tomlkit.parse(text)
    held: Any = document[outer]
    del held[name]
    if not held:
        del document[outer]
    return tomlkit.dumps(document)


def _toml_cut(text: str, path: tuple[str, ...]) -> str:
    """Return ``text`` without the lines of the table at ``path`` and of those inside, and the blank line above each.

    Remarks below the last value stay: they are about what follows.
    """
    name = r"\s*\.\s*".join(f"[\"']?{re.escape(part)}[\"']?" for part in path)
    ours = re.compile(rf"\s*\[\s*{name}\s*[.\]]")
    kept: list[str] = []
    held: list[str] = []
    is_inside = False
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            kept += held
            held = []
            is_inside = bool(ours.match(line))
            if is_inside and kept and not kept[-1].strip():
                kept.pop()
        if not is_inside:
            kept.append(line)
        elif line.strip() and not line.lstrip().startswith("#"):
            held = []
        else:
            held.append(line)
    return "".join(kept + held)


# ----------------------------------------------------------------------------------------------------------- checks


def _has_ours(file: SettingsFile, text: str) -> bool:
    """Return whether anything of ours stands in the file.

    Raises:
        ConfigError: It cannot be understood.
    """
    value = _parsed(file, text)
    return any(_holds(value, entry) for entry in file.entries)


def _holds(value: Any, entry: Entry) -> bool:
    for key in entry.path:
        value = value.get(key) if isinstance(value, dict) else None
    items = value if entry.is_item and isinstance(value, list) else [value]
    return any(entry.is_ours(item) or (entry.is_item and _parts(item)) for item in items)


def _checked(file: SettingsFile, before: str, after: str) -> str:
    """Return ``after`` if it says the same as ``before`` but for what is ours.

    Raises:
        ConfigError: It does not, or is not understood any more: what we do must not cost anybody their settings.
    """
    with contextlib.suppress(ConfigError):
        if _less_ours(file, _parsed(file, before)) == _less_ours(file, _parsed(file, after)):
            return after
    raise ConfigError(f"cannot change {file.path} safely", hint="nothing was changed; please change it by hand")


def _parsed(file: SettingsFile, text: str) -> Any:
    text = _split_bom(text)[1]
    try:
        if file.is_toml:
            return tomllib.loads(text)
        value = jsonc.parse(text).value if text.strip() else {}
    except (tomllib.TOMLDecodeError, jsonc.JsoncError, RecursionError) as exc:
        raise ConfigError(f"cannot read {file.path}: {exc}", hint="nothing was changed; mend the file first") from exc
    if not isinstance(value, dict):
        raise ConfigError(f"cannot read {file.path}: it holds no object", hint="nothing was changed")
    return value


def _less_ours(file: SettingsFile, value: Any) -> Any:
    """Return what a file says without what is ours, and without what is then empty on the way to it."""
    left = copy.copy(value)
    for entry in file.entries:
        holders = [left]
        for key in entry.path:
            inner = holders[-1].get(key) if isinstance(holders[-1], dict) else None
            if inner is None:
                break
            # Copied on the way alone: these files hold megabytes, and what was read is not ours to change.
            holders[-1][key] = copy.copy(inner)
            holders.append(holders[-1][key])
        else:
            if entry.is_item and isinstance(holders[-1], list):
                holders[-1][:] = [_less_our_parts(item) for item in holders[-1] if not entry.is_ours(item)]
            elif not entry.is_item and (entry.is_ours(holders[-1]) or entry.is_shared):
                del holders[-2][entry.path[-1]]
                holders.pop()
        for depth in range(len(holders) - 1, 0, -1):
            if holders[depth] in ({}, []):
                del holders[depth - 1][entry.path[depth - 1]]
    return left


def _less_our_parts(item: Any) -> Any:
    return {**item, "hooks": [one for one in item["hooks"] if not is_our_part(one)]} if _parts(item) else item


def _taken(file: SettingsFile, entry: Entry) -> ConfigError:
    return ConfigError(
        f"{file.path} already has something else at {'.'.join(entry.path)}", hint="rename it there, then connect again"
    )


# ------------------------------------------------------------------------------------------------------------ files


def _split_bom(text: str) -> tuple[str, str]:
    return (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)


def _read(path: str) -> bytes | None:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe or a device may have no end
            raise ConfigError(f"cannot read {path}: it is no regular file", hint="nothing was changed")
        return Path(path).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise ConfigError(f"cannot read {path}: {exc.strerror or exc}", hint="nothing was changed") from exc


def _read_as_text(path: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise ConfigError(f"cannot read {path}: it is not UTF-8", hint="nothing was changed") from exc


def _writable_mode(path: str, target: str) -> int:
    """Return the mode to write with: that of the file, where there is one.

    Raises:
        ConfigError: Its owner has made it read-only, which is an answer.
    """
    try:
        mode = stat.S_IMODE(os.stat(target).st_mode)
    except FileNotFoundError:
        return 0o600
    if not mode & 0o222:
        raise ConfigError(f"{path} is read-only", hint="make it writable, or change it where it is made")
    return mode


def _replace(path: str, data: bytes, mode: int) -> None:
    """Put ``data`` at ``path`` at once."""
    with replacing(path, mode=mode) as file:
        file.write(data)
