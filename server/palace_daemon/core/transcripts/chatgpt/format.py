"""ChatGPT: the conversations in a downloaded export.

Invariant: the branch that was shown last, found by walking up from ``current_node``, is the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from palace_daemon.core.documents import Places, decode_prefix
from palace_daemon.core.drafts import digest
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.chatgpt.words import read_node
from palace_daemon.core.transcripts.document_parser import DocumentParser
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.trees import Message, Tree, read_tree
from palace_daemon.core.transcripts.reading.words import as_text, path_parts
from palace_daemon.core.turns import Facts, Reading, Title
from palace_daemon.model import SessionFacts

AGENT = "chatgpt"

_SUFFIXES = (".json",)
_EXPORT_NAME = re.compile(r"conversations(-\d+)?\.json")
_NODE_FIELDS = frozenset({"message", "parent", "children"})


class ChatGptFormat:
    """``conversations.json`` of an export, whole or in numbered parts. Stateless and thread-safe."""

    name = "chatgpt-export"
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
        elements = value[:8] if isinstance(value, list) else [value]
        return any(isinstance(element, dict) and _is_conversation(element) for element in elements)

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
            reader=ChatGptReader(),
            redact=redact,
            state=state,
            by_element=True,
        )


def _is_conversation(element: dict[str, Any]) -> bool:
    mapping = element.get("mapping")
    if not isinstance(mapping, dict):
        return False
    nodes = list(mapping.values())[:4]
    return any(isinstance(node, dict) and not _NODE_FIELDS.isdisjoint(node) for node in nodes)


class ChatGptReader:
    """Conversations to events."""

    def read(self, value: Any, places: Places) -> list[Reading]:
        """Return what one conversation yields."""
        mapping = value.get("mapping") if isinstance(value, dict) else None
        if not isinstance(mapping, dict):
            return [Reading(skipped=("unknown_shape",))]
        if not mapping:
            return [Reading(skipped=("no_messages",))]
        session = _session_of(value, mapping)
        default_model = as_text(value.get("default_model_slug"))
        messages = {name: read_node(name, node, places.of(name), default_model) for name, node in mapping.items()}
        tree = Tree(
            agent=AGENT,
            session=session,
            messages=messages,
            leaf=_leaf(value.get("current_node"), messages),
            at=to_epoch_ms(value.get("create_time")),
        )
        reading = read_tree(tree)
        facts = Facts(session=session, facts=SessionFacts(agent=AGENT, session_id=session))
        title = Title(session=session, text=as_text(value.get("title")), rank=1)
        head = (facts, title) if reading.events else ()
        return [Reading(events=(*head, *reading.events), skipped=reading.skipped, session=session)]


def _session_of(conversation: dict[str, Any], mapping: dict[str, Any]) -> str:
    """Return the conversation's id; one without any is known by its title and the names of its first nodes."""
    told = as_text(conversation.get("conversation_id")) or as_text(conversation.get("id"))
    if told:
        return told
    words = "\x1f".join((as_text(conversation.get("title")), *list(mapping)[:3]))
    return f"{digest(words):016x}"


def _leaf(current: Any, messages: Mapping[str, Message]) -> str:
    """Return the last node of the branch that was shown last; where it is not told, the newest leaf."""
    if isinstance(current, str) and current in messages:
        return current
    inner = {message.parent for message in messages.values()}
    leaves = [name for name in messages if name not in inner] or list(messages)
    return max(enumerate(leaves), key=lambda item: (messages[item[1]].at or 0, item[0]))[1]
