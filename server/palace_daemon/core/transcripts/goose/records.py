"""Goose's messages, wherever they are kept: a line file of a session each first, one database since 1.10.

Invariant: only content of type text is words, and of role user only what the person sees as their own: tool responses
have that role too, and so has what the program puts in.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from palace_daemon.core.transcripts.reading.database_rows import row_key
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.targets import target_of
from palace_daemon.core.transcripts.reading.words import as_text, reason_word
from palace_daemon.core.turns import Event, Facts, Place, Reading, ReplyText, Title, ToolCall, UserTurn
from palace_daemon.model import Attachment, SessionFacts

AGENT = "goose"

SUBAGENT = "sub_agent"
_AUTOMATED = frozenset({SUBAGENT, "scheduled", "hidden"})
_TITLE_RANK, _NAME_RANK = 1, 2
_NO_TITLE = re.compile(r"(CLI Session|(New|Agent) (session|chat)( \d+)?)", re.IGNORECASE)
"""What a session is called until the model found a name."""

_TOOL_REQUESTS = frozenset({"toolRequest", "frontendToolRequest"})
_SKIPPED = {"thinking": "thinking", "redactedThinking": "thinking", "toolResponse": "tool_output"}


class GooseSession(Struct, frozen=True, kw_only=True):
    """What a session's own record tells; no texts."""

    id: str
    parent_id: str = ""
    kind: str = ""
    cwd: str = ""
    model: str = ""

    @property
    def name(self) -> str:
        """The full session id: ``parent/id`` for a sub-agent whose parent is known."""
        return f"{self.parent_id}/{self.id}" if self.parent_id else self.id

    @property
    def is_automated(self) -> bool:
        """Whether its prompts come from no person."""
        return self.kind in _AUTOMATED

    def told(self, title: str, *, is_chosen: bool) -> Reading:
        """Return the reading of the session's record; ``is_chosen``: the person gave the title."""
        is_subagent = self.kind == SUBAGENT or bool(self.parent_id)
        facts = SessionFacts(
            agent=AGENT,
            session_id=self.name,
            parent_session_id=self.parent_id,
            relation="subagent" if is_subagent else "none",
            cwd=self.cwd,
            is_automated=self.is_automated or is_subagent,
        )
        events: list[Event] = [Facts(session=self.name, facts=facts)]
        if title.strip() and (is_chosen or not _NO_TITLE.fullmatch(title.strip())):
            events.append(Title(session=self.name, text=title, rank=_NAME_RANK if is_chosen else _TITLE_RANK))
        return Reading(events=tuple(events), session=self.name)


def read_message(session: GooseSession, message: dict[str, Any], place: Place) -> Reading:
    """Return what a message ``{id, role, created, content, metadata}`` yields; ``content`` is a list of blocks."""
    metadata = message.get("metadata")
    if isinstance(metadata, dict) and metadata.get("userVisible") in (False, 0):
        return Reading(skipped=("injected_context",), session=session.name)
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    skipped = [_reason(block) for block in blocks if _reason(block)]
    if not isinstance(content, list) or len(blocks) < len(content):
        skipped.append("malformed")
    role = as_text(message.get("role"))
    if role == "user":
        return _read_user(session, message, blocks, skipped, place)
    if role == "assistant":
        return _read_assistant(session, message, blocks, skipped, place)
    return Reading(skipped=tuple(skipped) or (f"role:{reason_word(role)}",), session=session.name)


def _read_user(
    session: GooseSession, message: dict[str, Any], blocks: list[dict[str, Any]], skipped: list[str], place: Place
) -> Reading:
    text = "\n\n".join(_texts(blocks))
    images = tuple(Attachment(kind="image") for block in blocks if block.get("type") == "image")
    if not text and not images:
        return Reading(skipped=tuple(skipped) or ("empty",), session=session.name)
    message_id = as_text(message.get("id"))
    turn = UserTurn(
        session=session.name,
        place=place,
        text=text,
        kind="automated" if session.is_automated else "prompt",
        at=to_epoch_ms(message.get("created")),
        key=row_key(AGENT, session.id, message_id),
        record_ids=(message_id,) if message_id else (),
        attachments=images,
        cwd=session.cwd,
        model=session.model,
    )
    return Reading(events=(turn,), skipped=tuple(skipped), session=session.name)


def _read_assistant(
    session: GooseSession, message: dict[str, Any], blocks: list[dict[str, Any]], skipped: list[str], place: Place
) -> Reading:
    at = to_epoch_ms(message.get("created"))
    message_id = as_text(message.get("id"))
    events: list[Event] = []
    for block in blocks:
        if block.get("type") == "text" and as_text(block.get("text")).strip():
            events.append(
                ReplyText(
                    session=session.name,
                    place=place,
                    text=block["text"],
                    message_id=message_id,
                    key=row_key(AGENT, session.id, message_id),
                    at=at,
                    model=session.model,
                    cwd=session.cwd,
                )
            )
        elif as_text(block.get("type")) in _TOOL_REQUESTS:
            events.append(_tool_call(session, block, place, at))
    return Reading(events=tuple(events), skipped=tuple(skipped), session=session.name)


def _tool_call(session: GooseSession, block: dict[str, Any], place: Place, at: int | None) -> ToolCall:
    call = block.get("toolCall")
    call = call if isinstance(call, dict) else {}
    inner = call.get("value")
    called = inner if isinstance(inner, dict) else call
    return ToolCall(
        session=session.name,
        place=place,
        name=as_text(called.get("name")),
        target=target_of(called.get("arguments")),
        call_id=as_text(block.get("id")) or as_text(call.get("id")),
        at=at,
    )


def _texts(blocks: list[dict[str, Any]]) -> list[str]:
    texts = (as_text(block.get("text")) for block in blocks if block.get("type") == "text")
    return [text for text in texts if text.strip()]


def _reason(block: dict[str, Any]) -> str:
    """Return why a block is passed over, or an empty string."""
    kind = as_text(block.get("type"))
    if kind == "text":
        return "" if as_text(block.get("text")).strip() else "empty"
    if kind == "image" or kind in _TOOL_REQUESTS:
        return ""
    return _SKIPPED.get(kind) or f"content:{reason_word(kind)}"
