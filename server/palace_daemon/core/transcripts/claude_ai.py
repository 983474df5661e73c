"""Claude.ai: the conversations in a downloaded export.

Invariant: content blocks come before the flat ``text``, which repeats them with filler in place of tool calls; where
one of the two is empty, the other holds the words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import structs

from palace_daemon.core.documents import Places, decode_prefix
from palace_daemon.core.drafts import digest
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.document_parser import DocumentParser
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.trees import Message, Tree, read_tree
from palace_daemon.core.transcripts.reading.words import as_text, path_parts, reason_word
from palace_daemon.core.turns import Facts, Reading, Title
from palace_daemon.model import Attachment, SessionFacts

AGENT = "claude-ai"

_SUFFIXES = (".json",)
_EXPORT_NAME = re.compile(r"conversations(-\d+)?\.json")
_USERS = frozenset({"human", "user"})
_ROOT = "00000000-0000-4000-8000-000000000000"
"""What a first message names as its parent."""

_FILLER = re.compile(
    r"^[ \t]*(`{3,}+|~{3,}+)[^\n]*\n\s*This block is not supported on your current device yet\.\s*\n[ \t]*\1[ \t]*$\n?",
    re.MULTILINE,
)
_IMAGE_NAME = re.compile(r".*\.(png|jpe?g|gif|webp|heic|bmp|svg)", re.IGNORECASE)
_WORD_BLOCKS = frozenset({"text", "voice_note"})
_SILENT_BLOCKS = {"thinking": "thinking", "redacted_thinking": "thinking", "tool_result": "tool_output"}


class ClaudeAiFormat:
    """``conversations.json`` of an export. Stateless and thread-safe."""

    name = "claude-ai-export"
    agent = AGENT
    version = 1
    shape: Shape = "document"
    suffixes: tuple[str, ...] = _SUFFIXES
    is_secondary = False

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:  # noqa: ARG002
        """Return nothing: an export lies where a person put it."""
        return ()

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` can be an export by its name."""
        return bool(_EXPORT_NAME.fullmatch(path_parts(path)[-1]))

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is one."""
        value = decode_prefix(head)
        if isinstance(value, list):
            return any(isinstance(element, dict) and _is_conversation(element) for element in value[:8])
        return isinstance(value, dict) and isinstance(value.get("chat_messages"), list) and "mapping" not in value

    def open(
        self,
        path: str,  # noqa: ARG002 - the conversations say everything
        redact: Redactor,
        state: bytes | None = None,
        beside: Beside = NOTHING_BESIDE,  # noqa: ARG002 - the same
    ) -> DocumentParser:
        """Return a parser for the source at ``path``."""
        return DocumentParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            reader=ClaudeAiReader(),
            redact=redact,
            state=state,
            by_element=True,
        )


def _is_conversation(element: dict[str, Any]) -> bool:
    if isinstance(element.get("chat_messages"), list):
        return True
    messages = element.get("messages")
    first = messages[0] if isinstance(messages, list) and messages else None
    return isinstance(first, dict) and first.get("sender") in ("human", "assistant")


class ClaudeAiReader:
    """Conversations to events."""

    def read(self, value: Any, places: Places) -> list[Reading]:
        """Return what one conversation yields."""
        if not isinstance(value, dict):
            return [Reading(skipped=("unknown_shape",))]
        told = value.get("chat_messages")
        told = told if isinstance(told, list) else value.get("messages")
        if not isinstance(told, list):
            return [Reading(skipped=("unknown_shape",))]
        if not told:
            return [Reading(skipped=("no_messages",))]
        records = [record if isinstance(record, dict) else {} for record in told]
        has_ids = any(as_text(record.get("uuid")) for record in records)
        model = as_text(value.get("model"))
        messages = [_message(record, places, number, model) for number, record in enumerate(records)]
        ordered = _in_order(messages)
        session = as_text(value.get("uuid")) or f"{digest(ordered[0].text):016x}"
        tree = Tree(
            agent=AGENT,
            session=session,
            messages={message.id: message for message in ordered},
            leaf=_leaf(as_text(value.get("current_leaf_message_uuid")), ordered),
            at=to_epoch_ms(value.get("created_at")),
            has_ids=has_ids,
        )
        reading = read_tree(tree)
        facts = Facts(session=session, facts=SessionFacts(agent=AGENT, session_id=session))
        title = Title(session=session, text=as_text(value.get("name")) or as_text(value.get("title")), rank=1)
        head = (facts, title) if reading.events else ()
        return [Reading(events=(*head, *reading.events), skipped=reading.skipped, session=session)]


def _message(record: dict[str, Any], places: Places, number: int, model: str) -> Message:
    name = as_text(record.get("uuid"))
    place = places.of(name or as_text(record.get("text")) or as_text(record.get("content")))
    role = as_text(record.get("sender")) or as_text(record.get("role"))
    texts, tools, skipped = _words(record)
    is_user = role in _USERS
    attachments = _attachments(record) if is_user else ()
    if role != "assistant" and not is_user:
        texts, tools, skipped = [], [], [*skipped, reason_word(role)]
    elif not texts and not tools and not attachments:
        skipped = skipped or ["empty"]
    return Message(
        id=name or f"#{number}",
        parent=as_text(record.get("parent_message_uuid")),
        place=place,
        role="user" if is_user and (texts or attachments) else "assistant" if texts or tools else "",
        texts=("\n\n".join(texts),) if is_user and texts else tuple(texts),
        at=to_epoch_ms(record.get("created_at")),
        model="" if is_user else as_text(record.get("model")) or model,
        attachments=attachments,
        tools=tuple(tools),
        skipped=tuple(skipped),
    )


def _words(record: dict[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """Return a message's texts, the names of its tools, and why its other blocks are passed over."""
    content = record.get("content")
    blocks = content if isinstance(content, list) else [content]
    texts, tools, skipped = [], [], []
    for block in blocks:
        if isinstance(block, str):
            texts.append(block)
        elif isinstance(block, dict):
            kind = as_text(block.get("type"))
            if kind in _WORD_BLOCKS:
                texts.append(as_text(block.get("text")))
            elif kind == "tool_use":
                tools.append(as_text(block.get("name")))
            else:
                skipped.append(_SILENT_BLOCKS.get(kind) or reason_word(kind))
    texts = [text for text in texts if text.strip()]
    if not texts:
        flat = _FILLER.sub("", as_text(record.get("text")))
        texts = [flat] if flat.strip() else []
    return texts, tools, skipped


def _attachments(record: dict[str, Any]) -> tuple[Attachment, ...]:
    """Return the files of a message; text that was taken out of them is no word of the person."""
    found: dict[str, Attachment] = {}
    for field in ("attachments", "files", "files_v2"):
        listed = record.get(field)
        for file in listed if isinstance(listed, list) else []:
            if isinstance(file, dict):
                name = as_text(file.get("file_name"))
                size = file.get("file_size")
                found[name] = Attachment(
                    kind="image" if _IMAGE_NAME.fullmatch(name) else "file",
                    name=name,
                    size_bytes=size if isinstance(size, int) and size >= 0 else 0,
                )
    return tuple(found.values())


def _in_order(messages: list[Message]) -> list[Message]:
    """Return the messages by time, each below its parent; one that names none follows the one before it."""
    latest, timed = 0, []
    for message in messages:
        latest = message.at or latest
        timed.append((latest, message))
    ordered = [message for _, message in sorted(timed, key=lambda item: item[0])]
    known = {message.id for message in ordered}
    before, placed = "", []
    for message in ordered:
        parent = message.parent
        if parent not in known:
            parent = "" if parent == _ROOT else before
        placed.append(structs.replace(message, parent=parent))
        before = message.id
    return placed


def _leaf(told: str, messages: list[Message]) -> str:
    """Return the last message of the branch that was shown last; where it is not told, the newest leaf."""
    if any(message.id == told for message in messages):
        return told
    inner = {message.parent for message in messages}
    leaves = [message.id for message in messages if message.id not in inner]
    return leaves[-1] if leaves else messages[-1].id
