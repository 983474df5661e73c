"""What a ``session_meta`` of a rollout tells: the thread, its parent, and which turns it inherited."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from palace_daemon.core.transcripts.codex.records import AGENT
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.words import as_text
from palace_daemon.model import SessionFacts

_UUID7 = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_EXEC = "exec"
_MAX_ORDINAL = 2**53  # beyond it no JSON writer counts exactly


class Thread(Struct, array_like=True):
    """One thread. ``parent_id`` is the thread that it was forked from or that spawned it."""

    thread_id: str = ""
    parent_id: str = ""
    is_subagent: bool = False
    created_at: int | None = None
    own_from_ordinal: int = 0
    """Records with a lower ordinal are the parent's history."""
    branch: str = ""
    agent_version: str = ""

    @property
    def session(self) -> str:
        """The id of its session; a sub-agent's is below that of its parent."""
        return f"{self.parent_id}/{self.thread_id}" if self.is_subagent and self.parent_id else self.thread_id

    def inherits(self, ordinal: Any, turn_id: str) -> bool:
        """Return whether a record is a copy of the parent's history.

        Copies are stamped anew, so their times say nothing. The time inside a turn id (UUID version 7) does: a turn
        older than the thread was not made in it.
        """
        if not self.parent_id:
            return False
        if isinstance(ordinal, int) and ordinal < self.own_from_ordinal:
            return True
        made_at = time_of_uuid7(turn_id)
        return made_at is not None and self.created_at is not None and made_at < self.created_at


def time_of_uuid7(value: str) -> int | None:
    """Return the UTC epoch milliseconds inside a version 7 UUID, or ``None`` for any other id."""
    match = _UUID7.fullmatch(value)
    return to_epoch_ms(int(match.group(1) + match.group(2), 16)) if match else None


def read_meta(body: dict[str, Any], file_thread: str) -> tuple[Thread, SessionFacts]:
    """Return the thread and the session facts that a ``session_meta`` payload tells."""
    source = body.get("source")
    spawn = _spawn(source)
    forked_from = as_text(body.get("forked_from_id"))
    parent = as_text(body.get("parent_thread_id")) or as_text(spawn.get("parent_thread_id"))
    is_subagent = isinstance(source, dict) and "subagent" in source
    git = body.get("git")
    start = body.get("subagent_history_start_ordinal")
    thread_id = as_text(body.get("id")) or file_thread
    thread = Thread(
        thread_id=thread_id,
        parent_id=parent or forked_from,
        is_subagent=is_subagent,
        created_at=time_of_uuid7(thread_id) or to_epoch_ms(body.get("timestamp")),
        own_from_ordinal=start if isinstance(start, int) and 0 <= start < _MAX_ORDINAL else 0,
        branch=as_text(git.get("branch")) if isinstance(git, dict) else "",
        agent_version=as_text(body.get("cli_version")),
    )
    facts = SessionFacts(
        agent=AGENT,
        session_id=thread.session,
        parent_session_id=thread.parent_id,
        relation="subagent" if is_subagent else ("fork" if thread.parent_id else "none"),
        cwd=as_text(body.get("cwd")),
        branch=thread.branch,
        agent_version=thread.agent_version,
        entrypoint=as_text(body.get("originator")),
        is_automated=is_subagent or source == _EXEC,
    )
    return thread, facts


def _spawn(source: Any) -> dict[str, Any]:
    subagent = source.get("subagent") if isinstance(source, dict) else None
    spawn = subagent.get("thread_spawn") if isinstance(subagent, dict) else None
    return spawn if isinstance(spawn, dict) else {}
