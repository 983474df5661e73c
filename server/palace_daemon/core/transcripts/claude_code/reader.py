"""Reads Claude Code records one after the other into events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from palace_daemon.core.drafts import digest
from palace_daemon.core.transcripts.base import Redactor
from palace_daemon.core.transcripts.claude_code.queue import PromptQueue, Waiting
from palace_daemon.core.transcripts.claude_code.records import (
    AGENT,
    CONVERSATION_TYPES,
    PLUMBING_TYPES,
    ClaudeRecord,
)
from palace_daemon.core.transcripts.claude_code.turns import (
    REWINDABLE,
    ClaudeLine,
    answered_words,
    queued_key,
    typed_words,
    why_hidden,
)
from palace_daemon.core.transcripts.claude_code.words import Words, plain_text, read_content, read_text
from palace_daemon.core.transcripts.reading.words import as_text, reason_word
from palace_daemon.core.turns import Attached, Event, Facts, Place, Reading, Title, TurnEnd
from palace_daemon.model import Attachment, SessionFacts

_SDK_PREFIX = "sdk-"
"""Entry points of programs. ``promptSource: sdk`` is none of them: the VS Code extension sets it for typed prompts."""

_TURN_ENDS = frozenset({"turn_duration", "stop_hook_summary"})
_STOP_REASONS = frozenset({"end_turn", "stop_sequence", "refusal"})
_TITLE_RANKS = {"custom-title": 3, "ai-title": 2, "summary": 1}
_SYNTHETIC_MODEL = "<synthetic>"


class _ReaderState(Struct, array_like=True):
    session: str = ""
    """The last session named by a line; lines without one belong to it."""
    chains: dict[int, str] = field(default_factory=dict)
    """Digest of a side-chain record to the chain's name, for records that name no agent."""
    queues: dict[str, PromptQueue] = field(default_factory=dict)


class ClaudeReader:
    """A :class:`~palace_daemon.core.transcripts.line_parser.RecordReader` of Claude Code records.

    Args:
        path: Parts of the source's path, the last one its file name.
        redact: Applied to words that wait here before they open an exchange.
        agent: Whose records they are: other agents write the same grammar.
    """

    def __init__(self, path: Sequence[str], redact: Redactor, agent: str = AGENT) -> None:
        self._redact = redact
        self._agent = agent
        self._state = _ReaderState()
        self._told: SessionFacts | None = None
        self._stem = path[-1].split(".", 1)[0] if path else ""
        self._file_agent = self._stem.removeprefix("agent-") if self._stem.startswith("agent-") else ""
        self._file_parent = _parent_folder(path)
        self._handlers: dict[str, Callable[[ClaudeLine], list[Reading]]] = {
            "user": self._read_user,
            "assistant": self._read_assistant,
            "system": self._read_system,
            "queue-operation": self._read_queue,
            "attachment": self._read_attachment,
            "summary": _read_title,
            "custom-title": _read_title,
            "ai-title": _read_title,
        }

    def snapshot(self) -> bytes:
        """Return the reader's state."""
        return msgspec.msgpack.encode(self._state)

    def restore(self, state: bytes) -> None:
        """Continue from :meth:`snapshot`."""
        self._state = msgspec.msgpack.decode(state, type=_ReaderState)

    def drop(self, keys: Collection[str]) -> None:
        """Let go of the words of queued prompts by their exchanges' keys."""
        for queue in self._state.queues.values():
            for waiting in queue.waiting:
                if queued_key(self._agent, waiting) in keys:
                    waiting.text = ""

    def read(self, record: ClaudeRecord, place: Place, payload: bytes) -> list[Reading]:
        """Return what ``record`` yields."""
        kind = as_text(record.type)
        reason = PLUMBING_TYPES.get(kind)
        if reason:
            return [Reading(skipped=(reason,))]
        handler = self._handlers.get(kind)
        if handler is None:
            return [Reading(skipped=(f"unknown_type:{reason_word(kind)}",))]
        session = self._session(record)
        # A leading summary belongs to another session, so a line says something of its session only if it names one.
        is_telling = bool(record.session_id) or kind in CONVERSATION_TYPES
        facts = self._facts(record, session) if is_telling else None
        self._note_circumstances(record, session)
        readings = handler(ClaudeLine(record, place, payload, session, self._agent))
        return [Reading(events=(facts,), session=session), *readings] if facts else readings

    # ------------------------------------------------------------------------------------------------------- sessions

    def _session(self, record: ClaudeRecord) -> str:
        named = as_text(record.session_id)
        self._state.session = named or self._state.session
        main = self._state.session or self._file_parent or self._stem
        agent = self._file_agent
        if record.is_sidechain is True and not agent:
            agent = as_text(record.agent_id) or self._chain(record)
        if not agent:
            return main
        # Some versions write the agent's own id as session id; the folder then names the parent.
        parent = self._file_parent if self._file_parent and main == f"agent-{agent}" else main
        return f"{parent}/{agent}"

    def _chain(self, record: ClaudeRecord) -> str:
        """Return the name of the side chain that ``record`` continues or begins."""
        uuid, parent = as_text(record.uuid), as_text(record.parent_uuid)
        chain = self._state.chains.get(digest(parent)) if parent else None
        chain = chain or uuid or "sidechain"
        if uuid:
            self._state.chains[digest(uuid)] = chain
        return chain

    def _facts(self, record: ClaudeRecord, session: str) -> Facts | None:
        """Return what the record says of its session, unless it was just said."""
        entrypoint = as_text(record.entrypoint)
        parent = session.rpartition("/")[0]
        fork = record.forked_from if isinstance(record.forked_from, dict) else {}
        told = SessionFacts(
            agent=self._agent,
            session_id=session,
            parent_session_id=parent or as_text(fork.get("sessionId")),
            relation="subagent" if parent else ("fork" if fork else "none"),
            cwd=as_text(record.cwd),
            branch=as_text(record.git_branch),
            agent_version=as_text(record.version),
            entrypoint=entrypoint,
            is_automated=bool(parent) or entrypoint.startswith(_SDK_PREFIX),
        )
        if told == self._told:
            return None
        self._told = told
        return Facts(session=session, facts=told)

    def _note_circumstances(self, record: ClaudeRecord, session: str) -> None:
        """Note where the session stands, for prompts that are delivered by a record that does not tell."""
        if "/" in session or not record.cwd:
            return
        queue = self._state.queues.setdefault(session, PromptQueue())
        queue.cwd, queue.branch = as_text(record.cwd), as_text(record.git_branch)
        queue.agent_version = as_text(record.version)

    # ------------------------------------------------------------------------------------------- users and replies

    def _read_user(self, line: ClaudeLine) -> list[Reading]:
        reason = why_hidden(line.record)
        if reason:
            return [line.skipped(reason)]
        content = read_content(line.record.message)
        typed, reasons = typed_words(content)
        answers, more_reasons = answered_words(content, line)
        reasons += more_reasons
        events: list[Event] = []
        if "interrupted" in reasons:
            events.append(TurnEnd(session=line.session, status="interrupted"))
        before, former_keys = self._before_turn(line, typed)
        if typed:
            turn = structs.replace(line.turn(typed), former_keys=former_keys)
            # Only words at the prompt can rewind; several rejections after one record are parallel tool calls.
            parent = as_text(line.record.parent_uuid) if turn.kind in REWINDABLE else ""
            parent = "" if parent == line.uuid else parent
            events.append(structs.replace(turn, attachments=content.attachments, parent_id=parent))
        events += [line.turn(words, number + bool(typed)) for number, words in enumerate(answers)]
        if not events:
            return [line.skipped((reasons or ["tool_result" if content.tool_results else "empty"])[0])]
        is_bare_command = typed is not None and not typed.text and typed.kind == "slash_args"
        return [*before, line.reading(tuple(events), ("slash_without_args",) if is_bare_command else ())]

    def _read_assistant(self, line: ClaudeLine) -> list[Reading]:
        if line.record.is_api_error_message is True:
            return [line.reading((TurnEnd(session=line.session, status="error"),), ("api_error",))]
        if line.message.get("model") == _SYNTHETIC_MODEL:
            return [line.skipped("synthetic")]
        content = read_content(line.record.message)
        events = line.reply(content)
        skipped = () if events else ("thinking" if content.has_blocks else "empty",)
        if as_text(line.message.get("stop_reason")) in _STOP_REASONS:
            events.append(TurnEnd(session=line.session, status="complete"))
        return [line.reading(tuple(events), skipped)]

    # ----------------------------------------------------------------------------------------------------- other lines

    def _read_system(self, line: ClaudeLine) -> list[Reading]:
        subtype = as_text(line.record.subtype)
        if subtype in _TURN_ENDS:
            return [line.reading((TurnEnd(session=line.session, status="complete"),))]
        if subtype == "local_command" and isinstance(line.record.content, str):
            words = read_text(line.record.content)
            if words.kind == "slash_args" and not words.reason:
                before, former_keys = self._before_turn(line, words)
                return [*before, line.reading((structs.replace(line.turn(words), former_keys=former_keys),))]
        return [line.skipped("system")]

    def _read_attachment(self, line: ClaudeLine) -> list[Reading]:
        attached = line.record.attachment if isinstance(line.record.attachment, dict) else {}
        kind = as_text(attached.get("type"))
        if kind == "queued_command":
            return self._read_queued_command(line, attached)
        if kind in ("file", "selected_lines_in_ide"):
            name = as_text(attached.get("filename"))
            attachment = Attachment(kind="file" if kind == "file" else "selection", name=name)
            return [line.reading((Attached(session=line.session, attachment=attachment),))]
        return [line.skipped("injected_context" if kind.startswith("hook_") else "attachment")]

    # ----------------------------------------------------------------------------------------------------------- queue

    def _read_queue(self, line: ClaudeLine) -> list[Reading]:
        queue = self._state.queues.setdefault(line.session, PromptQueue())
        words = read_text(plain_text(line.record.content))
        text = self._redact(words.text) if words.kind == "prompt" and not words.reason else ""
        events: tuple[Event, ...] = ()
        match line.record.operation:
            case "enqueue":
                flags = ("redacted",) if text != words.text and text else ()
                prompt = Waiting(text, digest(text) if text else 0, line.at, line.place, flags, chars=len(text))
                queue.enqueue(prompt)
                events = line.pending_turn(prompt, queue)
            case "remove":
                if delivered := queue.deliver():
                    return _open(line, [delivered], queue)
            case "dequeue":
                events = line.withdrawals(queue.dequeue())
            case "popAll":
                events = line.withdrawals(queue.withdraw(text))
        return [Reading(events=events, skipped=("queue_operation",), session=line.session)]

    def _read_queued_command(self, line: ClaudeLine, attached: dict[str, Any]) -> list[Reading]:
        """Read the newer form of a delivered prompt; it repeats what the queue operations told."""
        if attached.get("isMeta") is True or attached.get("commandMode") == "task-notification":
            return [line.skipped("queued_notice")]
        content = read_content(attached.get("prompt"))
        typed, reasons = typed_words(content)
        if typed is None:
            return [line.skipped((reasons or ["empty"])[0])]
        queue = self._state.queues.setdefault(line.session, PromptQueue())
        claimed = queue.claim(self._redact(typed.text))
        if claimed == "told":
            pictures = tuple(Attached(session=line.session, attachment=picture) for picture in content.attachments)
            return [line.reading(pictures, skipped=("duplicate",))]
        turn = structs.replace(line.turn(Words(typed.text, "queued")), attachments=content.attachments)
        origin = attached.get("origin")
        if isinstance(origin, dict) and (origin.get("senderTaskId") or origin.get("kind") == "task-notification"):
            turn = structs.replace(turn, kind="automated")
        if not isinstance(claimed, Waiting):
            return [line.reading((turn,))]
        turn = structs.replace(turn, former_keys=line.queued_keys([claimed]))
        return [line.reading((*line.withdrawals([claimed]), turn))]

    def _before_turn(self, line: ClaudeLine, typed: Words | None) -> tuple[list[Reading], tuple[str, ...]]:
        """Return the queued prompts that a crash left behind, which come before a turn, and what the turn was."""
        queue = self._state.queues.get(line.session)
        if queue is None or not typed or not typed.text:
            return [], ()
        text = self._redact(typed.text)
        former_keys = line.queued_keys(queue.become(text))
        left, repeated = queue.abandon(text)
        withdrawn = Reading(events=line.withdrawals(repeated), session=line.session)
        return [*([withdrawn] if repeated else []), *_open(line, left, queue)], former_keys


def _open(line: ClaudeLine, prompts: Sequence[Waiting], queue: PromptQueue) -> list[Reading]:
    turns = tuple(line.queued_turn(waiting, queue) for waiting in prompts)
    return [Reading(events=turns, session=line.session)] if turns else []


def _read_title(line: ClaudeLine) -> list[Reading]:
    record, kind = line.record, as_text(line.record.type)
    text = as_text(record.custom_title or record.ai_title or record.summary)
    leaf = as_text(record.leaf_uuid) if kind == "summary" else ""
    if not text or (kind == "summary" and not leaf):
        return [line.skipped("summary" if kind == "summary" else "empty")]
    title = Title(session=line.session, text=text, rank=_TITLE_RANKS[kind], leaf_id=leaf)
    return [Reading(events=(title,), session=line.session)]


def _parent_folder(path: Sequence[str]) -> str:
    """Return the session whose folder holds a sub-agent's file: ``<session>/subagents/.../agent-<id>.jsonl``."""
    if "subagents" not in path:
        return ""
    index = len(path) - 1 - list(reversed(path)).index("subagents")
    return path[index - 1] if index else ""
