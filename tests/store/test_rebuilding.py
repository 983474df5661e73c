"""The index made anew from the texts, some drawers at a time."""

from __future__ import annotations

from typing import Any

import pytest
from support.dumps import logical_dump
from support.exchanges import exchange

from palace_daemon.store import drawers
from palace_daemon.store.postings import PostingsEdit


def test_words_are_written_some_drawers_at_a_time(store: Any, save: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        reply = "\n\n".join(f"Lamp {number} of {part} is lit." for part in range(1 + number % 5))
        save(store, "/a.jsonl", exchange(str(number), f"Where is lamp {number}?", reply, ordinal=number))
    expected = logical_dump(store.path)
    held: list[int] = []
    write = PostingsEdit.write

    def noted(edit: PostingsEdit, connection: Any) -> None:
        held.append(edit.drawer_count)
        write(edit, connection)

    monkeypatch.setattr(PostingsEdit, "write", noted)
    monkeypatch.setattr(drawers, "DRAWERS_COLLECTED_MAX", 7)
    store.rebuild_index()
    assert logical_dump(store.path) == expected
    assert len(held) > 3
    assert max(held) < 7 + 5  # the drawers of the last exchange
