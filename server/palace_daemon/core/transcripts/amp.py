"""Amp: the thread files that it kept on disk until spring 2026, and what ``amp threads export`` writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palace_daemon.core.documents import Places, decode_prefix
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.document_parser import DocumentParser
from palace_daemon.core.transcripts.reading.database_rows import xdg_data_dir
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.targets import target_of
from palace_daemon.core.transcripts.reading.words import as_text, path_parts, reason_word
from palace_daemon.core.transcripts.vscode_chat.workspace import path_of_uri
from palace_daemon.core.turns import Event, Facts, Place, Reading, ReplyText, Title, ToolCall, TurnEnd, UserTurn
from palace_daemon.model import Attachment, ExchangeStatus, SessionFacts

AGENT = "amp"

_PREFIX = "T-"
_OWN_RANK = 2
_STATES: dict[str, ExchangeStatus] = {"cancelled": "interrupted", "canceled": "interrupted", "error": "error"}


class AmpFormat:
    """Threads of Amp, as files and as exports. Stateless and thread-safe."""

    name = "amp-thread"
    agent = AGENT
    version = 1
    shape: Shape = "document"
    suffixes: tuple[str, ...] = (".json",)
    is_secondary = False

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the ``threads`` directory; ``XDG_DATA_HOME`` counts, and Windows has the same path."""
        return (xdg_data_dir(environ, home, platform, "amp", "threads"),)

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` is named like a thread."""
        name = path_parts(path)[-1]
        return name.startswith(_PREFIX) and name.endswith(self.suffixes)

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is one."""
        value = decode_prefix(head)
        if not isinstance(value, dict) or not as_text(value.get("id")).startswith(_PREFIX):
            return False
        return "created" in value and isinstance(value.get("messages"), list)

    def open(
        self,
        path: str,
        redact: Redactor,
        state: bytes | None = None,
        beside: Beside = NOTHING_BESIDE,  # noqa: ARG002 - a thread says everything
    ) -> DocumentParser:
        """Return a parser for the thread at ``path``."""
        return DocumentParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            reader=_ThreadReader(path_parts(path)[-1].rpartition(".")[0]),
            redact=redact,
            state=state,
        )


class _ThreadReader:
    """A :class:`~palace_daemon.core.transcripts.document_parser.DocumentReader` of one thread."""

    def __init__(self, file_stem: str) -> None:
        self._file_stem = file_stem

    def read(self, value: Any, places: Places) -> list[Reading]:
        """Return what the document tells."""
        if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
            return [Reading(skipped=("unknown_shape",))]
        session = as_text(value.get("id")) or self._file_stem
        cwd = _workspace(value)
        facts = SessionFacts(agent=AGENT, session_id=session, cwd=cwd)
        events: tuple[Event, ...] = (Facts(session=session, facts=facts),)
        title = as_text(value.get("title"))
        if title.strip():
            events += (Title(session=session, text=title, rank=_OWN_RANK),)
        thread = _Thread(session, cwd, to_epoch_ms(value.get("created")))
        read = [thread.read(index, message, places) for index, message in enumerate(value["messages"])]
        return [Reading(events=events, session=session), *read]


def _workspace(value: dict[str, Any]) -> str:
    exported = path_of_uri(_object(value.get("workspace")).get("path"))
    trees = _object(_object(value.get("env")).get("initial")).get("trees")
    uris = [_object(tree).get("uri") for tree in trees] if isinstance(trees, list) else []
    return exported or next((path for uri in uris if (path := path_of_uri(uri))), "")


class _Thread:
    """Reads the messages of one thread, in order."""

    def __init__(self, session: str, cwd: str, created_at: int | None) -> None:
        self._session, self._cwd, self._created_at = session, cwd, created_at

    def read(self, index: int, message: Any, places: Places) -> Reading:
        if not isinstance(message, dict):
            return Reading(skipped=("unknown_shape",), session=self._session)
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        known = [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
        role = as_text(message.get("role"))
        if role == "user":
            return self._read_user(message, known, places)
        if role == "assistant":
            return self._read_assistant(index, message, known, places)
        return Reading(skipped=(f"role:{reason_word(role)}",), session=self._session)

    def _read_user(self, message: dict[str, Any], blocks: list[dict[str, Any]], places: Places) -> Reading:
        kinds = [as_text(block.get("type")) for block in blocks]
        texts = [as_text(block.get("text")) for kind, block in zip(kinds, blocks, strict=True) if kind == "text"]
        text = "\n\n".join(word for word in texts if word.strip())
        images = kinds.count("image")
        skipped = tuple(
            "tool_output" if kind == "tool_result" else f"block:{reason_word(kind)}"
            for kind in kinds
            if kind not in ("text", "image")
        )
        if not text and not images:
            return Reading(skipped=skipped or ("empty",), session=self._session)
        message_id = self._id(message)
        at = _time(message)
        turn = UserTurn(
            session=self._session,
            place=places.of(as_text(message.get("id")) or next(iter(texts), "")),
            text=text,
            at=self._created_at if at is None else at,
            time_quality="session" if at is None else "exact",
            key=f"{AGENT}:{self._session}:{message_id}" if message_id else "",
            record_ids=(message_id,) if message_id else (),
            attachments=(Attachment(kind="image"),) * images,
            cwd=self._cwd,
        )
        return Reading(events=(turn,), skipped=skipped, session=self._session)

    def _read_assistant(
        self, index: int, message: dict[str, Any], blocks: list[dict[str, Any]], places: Places
    ) -> Reading:
        events: list[Event] = []
        skipped: list[str] = []
        at = _time(message)
        model = as_text(_object(message.get("usage")).get("model")) or as_text(message.get("model"))
        for block in blocks:
            kind = as_text(block.get("type"))
            if kind == "text":
                text = as_text(block.get("text"))
                reply = ReplyText(
                    session=self._session,
                    place=places.of(text),
                    text=text,
                    message_id=self._id(message) or f"at {index}",
                    at=at,
                    model=model,
                )
                events.append(reply)
            elif kind == "tool_use":
                events.append(self._call(block, places.of(as_text(block.get("id"))), at))
            else:
                skipped.append(
                    "thinking" if kind in ("thinking", "redacted_thinking") else f"block:{reason_word(kind)}"
                )
        is_last = not any(isinstance(event, ToolCall) for event in events)
        return Reading(
            events=(*events, *self._end(message, is_last=is_last)), skipped=tuple(skipped), session=self._session
        )

    def _call(self, block: dict[str, Any], place: Place, at: int | None) -> ToolCall:
        return ToolCall(
            session=self._session,
            place=place,
            name=as_text(block.get("name")),
            target=target_of(block.get("input")),
            call_id=as_text(block.get("id")),
            at=at,
        )

    def _end(self, message: dict[str, Any], *, is_last: bool) -> list[Event]:
        state = _object(message.get("state"))
        status = _STATES.get(as_text(state.get("type")))
        # Each message has such a state; what ends with a call goes on after its result.
        if status is None and state.get("type") == "complete" and is_last:
            status = "complete"
        return [TurnEnd(session=self._session, status=status)] if status else []

    def _id(self, message: dict[str, Any]) -> str:
        """Return a message's id: text in exports, a number inside the thread in files."""
        number = message.get("messageId")
        is_number = isinstance(number, int) and not isinstance(number, bool)
        return as_text(message.get("id")) or as_text(number) or (str(number) if is_number else "")


def _time(message: dict[str, Any]) -> int | None:
    sent = to_epoch_ms(_object(message.get("meta")).get("sentAt"))
    return to_epoch_ms(message.get("created")) if sent is None else sent


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
