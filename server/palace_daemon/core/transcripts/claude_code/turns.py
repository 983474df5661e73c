"""From one Claude Code record to the turns and replies in it, without regard to other records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from palace_daemon.core.drafts import digest
from palace_daemon.core.transcripts.claude_code.queue import PromptQueue, Waiting
from palace_daemon.core.transcripts.claude_code.records import AGENT, UUID, ClaudeRecord
from palace_daemon.core.transcripts.claude_code.words import (
    Content,
    Words,
    may_hold_words,
    read_text,
    read_tool_result,
    tool_target,
)
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.words import as_text
from palace_daemon.core.turns import Event, Place, Reading, ReplyText, ToolCall, UserTurn, Withdrawal
from palace_daemon.model import UserKind

REWINDABLE = frozenset({"prompt", "slash_args", "shell", "plan_handoff"})
"""Kinds of turns that a person begins at the prompt."""


class _Outcome(Struct, rename="camel"):
    tool_use_result: Any = None


_OUTCOMES = msgspec.json.Decoder(_Outcome)


class ClaudeLine:
    """A record, the line that it stands on, and the session that it belongs to."""

    def __init__(self, record: ClaudeRecord, place: Place, payload: bytes, session: str, agent: str = AGENT) -> None:
        self.record = record
        self.place = place
        self.session = session
        self._agent = agent
        self._payload = payload
        self.uuid = as_text(record.uuid)
        self.at = to_epoch_ms(record.timestamp)
        self.message = record.message if isinstance(record.message, dict) else {}
        self.message_id = as_text(self.message.get("id")) if record.type == "assistant" else ""

    def key(self, text: str) -> str:
        """Return the exchange's identity; an id that is no UUID needs its time and words beside it."""
        if not self.uuid or UUID.fullmatch(self.uuid):
            return f"{self._agent}:{self.uuid}" if self.uuid else ""
        return f"{self._agent}:{self.uuid}:{digest(f'{self.record.timestamp}:{text}'):016x}"

    def outcome(self) -> Any:
        """Return the structured tool result, or ``None`` where the line is no single clean object."""
        try:
            return _OUTCOMES.decode(self._payload).tool_use_result
        except msgspec.DecodeError:
            return None

    def reading(self, events: tuple[Event, ...] = (), skipped: tuple[str, ...] = ()) -> Reading:
        """Return a reading with the record's identity, so that its second appearance is passed over."""
        record_id = self.uuid
        if record_id and not UUID.fullmatch(record_id):
            record_id = f"{record_id}:{digest(self._payload.decode('utf-8', 'replace'))}"
        return Reading(
            events=events,
            skipped=skipped,
            session=self.session,
            record_id=record_id,
            message_id=self.message_id,
            leaf_id=self.uuid,
        )

    def skipped(self, reason: str) -> Reading:
        """Return a reading of a record without effect."""
        return Reading(skipped=(reason,), session=self.session)

    def turn(self, words: Words, number: int = 0) -> UserTurn:
        """Return the turn that ``words`` open; ``number`` counts the turns of one record."""
        key = self.key(words.text)
        return UserTurn(
            session=self.session,
            place=self.place,
            text=words.text,
            kind=self._kind(words.kind),
            at=self.at,
            key=f"{key}#{number + 1}" if key and number else key,
            record_ids=(self.uuid,) if self.uuid else (),
            cwd=as_text(self.record.cwd),
            branch=as_text(self.record.git_branch),
            agent_version=as_text(self.record.version),
        )

    def _kind(self, kind: UserKind) -> UserKind:
        """Return ``kind``, or ``automated`` for words that no person typed: a sub-agent's task, a notification."""
        origin = self.record.origin
        is_notice = isinstance(origin, dict) and origin.get("kind") == "task-notification" and kind == "prompt"
        is_task = "/" in self.session and kind in REWINDABLE
        return "automated" if is_task or is_notice else kind

    def pending_turn(self, waiting: Waiting, queue: PromptQueue) -> tuple[UserTurn, ...]:
        """Return the turn of a prompt that was just queued; none without words, or a time to know it by."""
        if not waiting.digest or waiting.at is None:
            return ()
        return (structs.replace(self.queued_turn(waiting, queue), is_pending=True),)

    def withdrawals(self, prompts: Sequence[Waiting]) -> tuple[Withdrawal, ...]:
        """Return what takes queued prompts back."""
        return tuple(
            Withdrawal(session=self.session, key=queued_key(self._agent, one)) for one in prompts if one.digest
        )

    def queued_keys(self, prompts: Sequence[Waiting]) -> tuple[str, ...]:
        """Return the identities of queued prompts that have one."""
        return tuple(key for key in (queued_key(self._agent, one) for one in prompts if one.digest) if key)

    def queued_turn(self, waiting: Waiting, queue: PromptQueue) -> UserTurn:
        """Return the turn of a delivered prompt; its queue knows where the session stood."""
        return UserTurn(
            session=self.session,
            place=waiting.place,
            text=waiting.text,
            kind="queued",
            at=waiting.at,
            key=queued_key(self._agent, waiting),
            cwd=queue.cwd,
            branch=queue.branch,
            agent_version=queue.agent_version,
            flags=waiting.flags,
        )

    def reply(self, content: Content) -> list[Event]:
        """Return the texts and tool calls of an assistant record."""
        texts: list[Event] = [
            ReplyText(
                session=self.session,
                place=self.place,
                text=text,
                message_id=self.message_id,
                key=self.key(text),
                at=self.at,
                model=as_text(self.message.get("model")),
                cwd=as_text(self.record.cwd),
                branch=as_text(self.record.git_branch),
                agent_version=as_text(self.record.version),
                may_be_retold=True,
            )
            for text in content.texts
        ]
        return texts + [self._tool_call(use) for use in content.tool_uses]

    def _tool_call(self, use: dict[str, Any]) -> ToolCall:
        return ToolCall(
            session=self.session,
            place=self.place,
            name=as_text(use.get("name")),
            target=tool_target(use.get("input")),
            call_id=as_text(use.get("id")),
            message_id=self.message_id,
            at=self.at,
        )


def queued_key(agent: str, waiting: Waiting) -> str:
    """Return the identity of a queued prompt's exchange; empty where it has no time to be known by."""
    return "" if waiting.at is None else f"{agent}:queued-{waiting.at}-{waiting.digest:016x}"


def why_hidden(record: ClaudeRecord) -> str:
    """Return why a user record holds nothing that a person typed, or an empty string."""
    if record.is_meta is True:
        return "meta"
    if record.is_compact_summary is True:
        return "compact_summary"
    return "transcript_only" if record.is_visible_in_transcript_only is True else ""


def typed_words(content: Content) -> tuple[Words | None, list[str]]:
    """Return the turn in a record's text blocks, and why its other blocks hold no words.

    The blocks with words are one turn; the first of them tells its kind. An image alone is a turn without text.
    """
    read = [read_text(text) for text in content.texts]
    reasons = [words.reason for words in read if words.reason]
    prompts = [words for words in read if words.text and not words.reason]
    if prompts:
        return Words("\n\n".join(words.text for words in prompts), prompts[0].kind), reasons
    if "slash_without_args" in reasons:
        return Words(kind="slash_args"), reasons
    if content.attachments and not content.tool_results:
        return Words(), reasons
    return None, reasons


def answered_words(content: Content, line: ClaudeLine) -> tuple[Sequence[Words], Sequence[str]]:
    """Return the turns in a record's tool results, and why results that look like answers hold no words."""
    read = [read_tool_result(text, line.outcome) for text in content.tool_results if may_hold_words(text)]
    told = [words for words in read if words]
    return [words for words in told if not words.reason], [words.reason for words in told if words.reason]
