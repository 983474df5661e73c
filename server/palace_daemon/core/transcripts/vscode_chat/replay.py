"""Replays the mutation log of a VS Code chat session: entries in, state out.

An entry is ``{kind, k, v, i}``: 0 sets the whole state, 1 sets the value at path ``k``, 2 cuts the list at ``k`` to
``i`` items and adds ``v``, 3 deletes what is at ``k``.

Invariant: requests that an entry removes stay known, in the place where they stood. They are what the person edited.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from palace_daemon.core.transcripts.reading.words import as_text
from palace_daemon.core.transcripts.vscode_chat.requests import Slot, is_undone
from palace_daemon.core.turns import Place

INITIAL, SET, PUSH, DELETE = range(4)
REQUESTS = "requests"
_BROKEN = "broken_patch"


class Entry(Struct):
    """A line of the log. Every field may be anything."""

    kind: Any = None
    k: Any = None
    v: Any = None
    i: Any = None


def is_entry(value: dict[str, Any]) -> bool:
    """Return whether an object is an entry of such a log."""
    kind = value.get("kind")
    if isinstance(kind, bool) or not isinstance(kind, int) or not INITIAL <= kind <= DELETE:
        return False
    return isinstance(value.get("v"), dict) if kind == INITIAL else isinstance(value.get("k"), list)


class Replay:
    """The state of one session as its log tells it. Single-threaded."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self.has_initial = False
        """Whether the log began with the whole state: damaged ones begin in the middle."""
        self.slots: list[Slot] = []
        """Every request that ever was, in order; see :attr:`Slot.is_removed`."""
        self._live: list[Slot] = []
        """Those that are now, parallel to the requests of the state."""

    def apply(self, entry: Entry, place: Place) -> str:
        """Apply one entry; return why it could not be, or an empty string. Never raises."""
        if isinstance(entry.kind, int) and entry.kind == INITIAL and isinstance(entry.v, dict):
            self.state, self.has_initial = entry.v, True
            self._follow(place)
            return ""
        path = entry.k
        if not isinstance(path, list) or not path:
            return _BROKEN
        holder = _descend(self.state, path[:-1])
        key = path[-1]
        match entry.kind:
            case 1:
                is_done = _put(holder, key, entry.v)
            case 2:
                is_done = _push(holder, key, entry.v, entry.i)
            case 3:
                is_done = _delete(holder, key)
            case _:
                return "unknown_kind"
        if not is_done:
            return _BROKEN
        self._note(path, place)
        return ""

    def settle(self) -> list[Slot]:
        """Return all requests as they stand, those that are undone marked as removed."""
        for slot in self._live:
            slot.is_removed = is_undone(slot.request)
        return self.slots

    def _note(self, path: list[Any], place: Place) -> None:
        if path[0] != REQUESTS:
            return
        if len(path) <= 2:
            self._follow(place)
        elif isinstance(path[1], int) and 0 <= path[1] < len(self._live):
            self._live[path[1]].last = place

    def _follow(self, place: Place) -> None:
        """Bring the slots up to the requests of the state."""
        found = self.state.get(REQUESTS)
        requests = found if isinstance(found, list) else []
        kept = 0
        while kept < min(len(requests), len(self._live)) and _is_same(self._live[kept].request, requests[kept]):
            slot = self._live[kept]
            if slot.request is not requests[kept]:
                slot.request, slot.last = requests[kept], place
            kept += 1
        gone, self._live = self._live[kept:], self._live[:kept]
        for slot in gone:
            slot.is_removed = True
        known = {request_id for request in requests[kept:] if (request_id := _id(request))}
        if known:  # a request that moved, or came back, is no removed one
            self.slots = [slot for slot in self.slots if not (slot.is_removed and _id(slot.request) in known)]
        added = [Slot(request, place, place) for request in requests[kept:]]
        self._live += added
        self.slots += added


def _id(request: Any) -> str:
    return as_text(request.get("requestId")) if isinstance(request, dict) else ""


def _is_same(one: Any, other: Any) -> bool:
    return one is other or (_id(one) != "" and _id(one) == _id(other))


def _is_index(key: Any) -> bool:
    return isinstance(key, int) and not isinstance(key, bool) and key >= 0


def _descend(value: Any, path: list[Any]) -> Any:
    """Return what is at ``path``, or None."""
    for key in path:
        if isinstance(value, dict) and isinstance(key, str):
            value = value.get(key)
        elif isinstance(value, list) and _is_index(key) and key < len(value):
            value = value[key]
        else:
            return None
    return value


def _put(holder: Any, key: Any, value: Any) -> bool:
    if isinstance(holder, dict) and isinstance(key, str):
        holder[key] = value
        return True
    if not isinstance(holder, list) or not _is_index(key) or key > len(holder):
        return False
    holder[key : key + 1] = [value]
    return True


def _push(holder: Any, key: Any, values: Any, cut: Any) -> bool:
    present = _descend(holder, [key])
    if present is None and not _put(holder, key, present := []):
        return False
    if not isinstance(present, list) or not (cut is None or _is_index(cut)) or not isinstance(values, list | None):
        return False
    if cut is not None:
        del present[cut:]
    present += values or []
    return True


def _delete(holder: Any, key: Any) -> bool:
    if isinstance(holder, dict) and isinstance(key, str):
        holder.pop(key, None)
        return True
    return isinstance(holder, list) and _is_index(key) and key < len(holder) and _put(holder, key, None)
