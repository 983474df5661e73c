"""Cline's newer core (its command line and SDK): ``<session>.messages.json`` with a manifest ``<session>.json``.

Invariant: message ids are kept by a fork, so that what it copied is the same exchange. ``<session>.compaction.json``
is what the model got after a compaction, in the same grammar, and is none of the session's own words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from palace_daemon.core.documents import Places, decode_prefix, decode_value
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.cline.tasks import CLINE
from palace_daemon.core.transcripts.document_parser import DocumentParser
from palace_daemon.core.transcripts.reading.closed_blocks import without_blocks
from palace_daemon.core.transcripts.reading.homes import below_home
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.targets import target_of
from palace_daemon.core.transcripts.reading.words import as_text, path_parts, reason_word
from palace_daemon.core.transcripts.vscode_chat.workspace import join, parent_of
from palace_daemon.core.turns import Event, Facts, Place, Reading, ReplyText, Title, ToolCall, TurnEnd, UserTurn
from palace_daemon.model import Attachment, Relation, SessionFacts

_SUFFIX = ".messages.json"
_COMPACTION_SUFFIX = ".compaction.json"
_AGENTS = frozenset({"lead", "subagent", "teammate"})
_INPUT = re.compile(r"\s*<user_input(?:\s[^>]*)?>\n?(.*?)\n?</user_input>\s*", re.DOTALL)
_OWN_RANK = 2


class ClineMessagesFormat:
    """Sessions of Cline's newer core. Stateless and thread-safe."""

    name = "cline-messages"
    agent = CLINE
    version = 1
    shape: Shape = "document"
    suffixes: tuple[str, ...] = (".json",)
    is_secondary = False

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return ``~/.cline/data/sessions``."""
        return (below_home(environ, home, platform, ".cline", "data", "sessions"),)

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` is named like a session's messages."""
        return path_parts(path)[-1].endswith(_SUFFIX)

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is one."""
        value = decode_prefix(head)
        if not isinstance(value, dict) or as_text(value.get("agent")) not in _AGENTS:
            return False
        # A long system prompt can stand before the messages.
        return "version" in value and "updated_at" in value and ("messages" in value or "sessionId" in value)

    def open(
        self, path: str, redact: Redactor, state: bytes | None = None, beside: Beside = NOTHING_BESIDE
    ) -> DocumentParser:
        """Return a parser for the session at ``path``; the manifest beside names project, title and parent."""
        return DocumentParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            reader=_MessagesReader(path, beside),
            redact=redact,
            state=state,
        )


class _MessagesReader:
    """A :class:`~palace_daemon.core.transcripts.document_parser.DocumentReader` of one session."""

    def __init__(self, path: str, beside: Beside) -> None:
        self._path, self._beside = path, beside

    def read(self, value: Any, places: Places) -> list[Reading]:
        """Return what the document tells."""
        if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
            return [Reading(skipped=("unknown_shape",))]
        name = path_parts(self._path)[-1]
        if name.endswith(_COMPACTION_SUFFIX):
            return [Reading(skipped=("compaction_copy",))]
        manifest = self._manifest(name)
        stem = name.removesuffix(_SUFFIX) if name.endswith(_SUFFIX) else name.rpartition(".")[0]
        session = as_text(value.get("sessionId")) or as_text(manifest.get("session_id")) or stem
        facts = _facts(session, value, manifest)
        reader = _Messages(facts, places)
        return [_session_reading(facts, manifest), *(reader.read(message) for message in value["messages"])]

    def _manifest(self, name: str) -> dict[str, Any]:
        if not name.endswith(_SUFFIX):
            return {}
        content = self._beside.read(join(parent_of(self._path), f"{name.removesuffix(_SUFFIX)}.json"))
        return _object(decode_value(content).value) if content else {}


def _without_notices(text: str) -> str:
    opening, closing = "<SYSTEM_NOTICE>", "</SYSTEM_NOTICE>"
    return without_blocks(text, opening, closing, has_blanks_before=True, has_blanks_after=True)[0]


def _facts(session: str, value: dict[str, Any], manifest: dict[str, Any]) -> SessionFacts:
    is_helper = value.get("agent") in ("subagent", "teammate")
    fork = _object(_object(manifest.get("metadata")).get("fork"))
    forked_from = as_text(fork.get("forkedFromSessionId"))
    relation: Relation = "subagent" if is_helper else "fork" if forked_from else "none"
    return SessionFacts(
        agent=CLINE,
        session_id=session,
        parent_session_id=as_text(manifest.get("parent_session_id")) if is_helper else forked_from,
        relation=relation,
        cwd=as_text(manifest.get("cwd")) or as_text(manifest.get("workspace_root")),
        entrypoint=as_text(manifest.get("source")),
        is_automated=is_helper,
    )


def _session_reading(facts: SessionFacts, manifest: dict[str, Any]) -> Reading:
    title = as_text(_object(manifest.get("metadata")).get("title"))
    events: tuple[Event, ...] = (Facts(session=facts.session_id, facts=facts),)
    if title.strip():
        events += (Title(session=facts.session_id, text=title, rank=_OWN_RANK),)
    return Reading(events=events, session=facts.session_id)


class _Messages:
    """Reads the messages of one session, in order."""

    def __init__(self, facts: SessionFacts, places: Places) -> None:
        self._facts, self._places = facts, places
        self._session = facts.session_id

    def read(self, message: Any) -> Reading:
        if not isinstance(message, dict):
            return Reading(skipped=("unknown_shape",), session=self._session)
        if _object(message.get("metadata")).get("kind") == "compaction_summary":
            return Reading(skipped=("compaction_summary",), session=self._session)
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        known = [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
        place = self._places.of(as_text(message.get("id")))
        role = as_text(message.get("role"))
        if role == "user":
            return self._read_user(message, known, place)
        if role == "assistant":
            return self._read_assistant(message, known, place)
        return Reading(skipped=(f"role:{reason_word(role)}",), session=self._session)

    def _read_user(self, message: dict[str, Any], blocks: list[dict[str, Any]], place: Place) -> Reading:
        words: list[str] = []
        attached: list[Attachment] = []
        skipped: list[str] = []
        for block in blocks:
            kind = as_text(block.get("type"))
            if kind == "text":
                raw = as_text(block.get("text"))
                text = _without_notices(raw)
                whole = _INPUT.fullmatch(text)
                words.append(whole.group(1) if whole else text)
                skipped += ["injected_context"] if text != raw else []
            elif kind in ("file", "image"):
                attached.append(
                    Attachment(kind="image" if kind == "image" else "file", name=as_text(block.get("path")))
                )
            else:
                skipped.append("tool_output" if kind == "tool_result" else f"block:{reason_word(kind)}")
        text = "\n\n".join(word for word in words if word.strip())
        if not text and not attached:
            return Reading(skipped=tuple(skipped) or ("empty",), session=self._session)
        turn = UserTurn(
            session=self._session,
            place=place,
            text=text,
            kind="automated" if self._facts.is_automated else "prompt",
            at=to_epoch_ms(message.get("ts")),
            key=self._key(message),
            record_ids=(as_text(message.get("id")),) if message.get("id") else (),
            attachments=tuple(attached),
            cwd=self._facts.cwd,
        )
        return Reading(events=(turn,), skipped=tuple(skipped), session=self._session)

    def _key(self, message: dict[str, Any]) -> str:
        """Return a key that a fork's copy shares: ids are made from the time, and the time tells them apart."""
        message_id, stamp = as_text(message.get("id")), to_epoch_ms(message.get("ts"))
        if not message_id:
            return ""
        return f"{CLINE}:{message_id}:{stamp}" if stamp else f"{CLINE}:{self._session}:{message_id}"

    def _read_assistant(self, message: dict[str, Any], blocks: list[dict[str, Any]], place: Place) -> Reading:
        at = to_epoch_ms(message.get("ts"))
        message_id = as_text(message.get("id")) or f"at {place.byte_start}"
        model = as_text(_object(message.get("modelInfo")).get("id"))
        events: list[Event] = []
        skipped: list[str] = []
        kinds = [as_text(block.get("type")) for block in blocks]
        for kind, block in zip(kinds, blocks, strict=True):
            if kind == "text":
                text = as_text(block.get("text"))
                reply = ReplyText(
                    session=self._session, place=place, text=text, message_id=message_id, at=at, model=model
                )
                events.append(reply)
            elif kind == "tool_use":
                call_id = as_text(block.get("id"))
                target = _target(block.get("input"))
                name = as_text(block.get("name"))
                events.append(
                    ToolCall(session=self._session, place=place, name=name, target=target, call_id=call_id, at=at)
                )
            else:
                skipped.append(
                    "thinking" if kind in ("thinking", "redacted_thinking") else f"block:{reason_word(kind)}"
                )
        if "text" in kinds and "tool_use" not in kinds:  # an answer without a call ends the turn
            events.append(TurnEnd(session=self._session, status="complete"))
        return Reading(events=tuple(events), skipped=tuple(skipped), session=self._session)


def _target(arguments: Any) -> str:
    """Return what a call is aimed at; calls take lists of files and of commands."""
    told = target_of(arguments)
    for name in ("files", "commands", "queries"):
        listed = _object(arguments).get(name)
        if not told and isinstance(listed, list) and listed:
            told = target_of(listed[0])
    return told


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
