"""Answers without a daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.claude import append, turn
from support.old_store import make_schema_1

from palace_daemon.config import Config
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.errors import StoreError
from palace_daemon.service.build import open_read_only
from palace_daemon.store.sqlite import database_path


def test_a_store_that_must_be_migrated_first_is_refused_with_what_to_do(
    make_palace: Any, transcripts: Path, tmp_path: Path
) -> None:
    append(transcripts / "a.jsonl", turn(1, "Where is the lever?", "Under the desk."))
    palace = make_palace()
    palace.mine([str(transcripts)], wait=True)
    palace.close()
    (tmp_path / "old").mkdir()
    make_schema_1(database_path(tmp_path / "data"), database_path(tmp_path / "old"))
    with pytest.raises(StoreError, match="the store has schema 1, questions need") as caught:
        open_read_only(Config(data_dir=tmp_path / "old"), embedder=HashingEmbedder())
    assert "palace-daemon serve" in caught.value.hint
