"""Counts of redactions follow what is stored."""

from __future__ import annotations

from typing import Any

import pytest
from support.exchanges import exchange

from palace_daemon.core.redaction import redact
from palace_daemon.model import Attachment, ToolUse
from palace_daemon.store import redactions, views


def counts(store: Any) -> dict[str, int]:
    with store.read() as connection:
        return views.totals(connection).redactions


def redacted(key: str, *texts: str, **fields: Any) -> Any:
    user, reply = (redact(text) for text in texts)
    return exchange(key, user, reply, flags=("redacted",), **fields)


def test_texts_targets_and_names_are_counted(store: Any, save: Any) -> None:
    save(
        store,
        "/a.jsonl",
        redacted(
            "1",
            "password=hunter2 and <private>x</private>",
            "so password=hunter2, then",
            tools=(ToolUse(name="Bash", target="mysql -p[redacted:password] x"),),
            attachments=(Attachment(kind="file", name="[redacted:jwt].txt"),),
        ),
    )
    assert counts(store) == {"jwt": 1, "password": 3, "private": 1}


def test_counts_follow_replacing_superseding_and_a_new_pass(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", redacted("1", "password=hunter2", "ok"), redacted("2", "password=hunter3", "ok", ordinal=1))
    assert counts(store) == {"password": 2}
    save(store, "/a.jsonl", redacted("2", "password=hunter3", "ok <private>x", ordinal=1))
    assert counts(store) == {"password": 2, "private": 1}
    save(store, "/a.jsonl", superseded_keys=("claude-code:2",))
    with store.read() as connection:
        assert views.totals(connection).exchanges_superseded == 1
    assert counts(store) == {"password": 2, "private": 1}, "what is superseded is stored all the same"
    save(store, "/a.jsonl", exchange("1", "all gone", "ok"), reading=2)
    assert counts(store) == {"password": 1, "private": 1}


def test_a_placeholder_that_somebody_wrote_is_not_counted(store: Any, save: Any) -> None:
    save(store, "/a.jsonl", exchange("1", "what does [redacted:jwt] mean?", "A token stood there."))
    assert counts(store) == {}


@pytest.mark.parametrize("number", [1, 30])
def test_one_index_answers(store: Any, save: Any, number: int) -> None:
    save(store, "/a.jsonl", *(redacted(str(n), "password=hunter2", "ok", ordinal=n) for n in range(number)))
    assert counts(store) == {"password": number}
    with store.read() as connection:
        plan = connection.execute(
            "EXPLAIN QUERY PLAN SELECT redactions, count(*) FROM exchanges INDEXED BY exchanges_redactions"
            " WHERE redactions<>'' GROUP BY redactions"
        ).fetchall()
        assert "COVERING INDEX" in plan[0][-1]
        assert redactions.by_kind(connection) == {"password": number}
