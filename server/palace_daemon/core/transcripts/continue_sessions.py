"""Continue: the session files below ``~/.continue``.

Messages have neither ids nor times: an exchange is known by session, position and words, and dated by its session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palace_daemon.core.documents import Places, decode_prefix, decode_value
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.document_parser import DocumentParser
from palace_daemon.core.transcripts.reading.homes import below, below_home
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.targets import target_of
from palace_daemon.core.transcripts.reading.words import as_text, path_parts, reason_word
from palace_daemon.core.transcripts.vscode_chat.workspace import join, parent_of, path_of_uri
from palace_daemon.core.turns import Event, Facts, Place, Reading, ReplyText, Title, ToolCall, UserTurn
from palace_daemon.model import Attachment, SessionFacts

AGENT = "continue"

_FOLDER, _INDEX = "sessions", "sessions.json"
_NO_TITLES = frozenset({"", "new session", "untitled", "untitled session"})
_OWN_RANK = 2


class ContinueFormat:
    """Sessions of Continue in VS Code, JetBrains and its command line. Stateless and thread-safe."""

    name = "continue-session"
    agent = AGENT
    version = 1
    shape: Shape = "document"
    suffixes: tuple[str, ...] = (".json",)
    is_secondary = False

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the ``sessions`` directory below ``CONTINUE_GLOBAL_DIR``, else ``~/.continue``."""
        root = environ.get("CONTINUE_GLOBAL_DIR") or below_home(environ, home, platform, ".continue")
        return (below(root, platform, _FOLDER),)

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` is a session right in a ``sessions`` folder of Continue."""
        parts = path_parts(path)
        return parts[-1].endswith(self.suffixes) and parts[-1] != _INDEX and parts[-2:-1] == [_FOLDER]

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is one."""
        value = decode_prefix(head)
        if not isinstance(value, dict) or not isinstance(value.get("history"), list):
            return False
        if not isinstance(value.get("sessionId"), str) or "workspaceDirectory" not in value:
            return False
        first: Any = next(iter(value["history"]), {})
        return isinstance(first, dict) and isinstance(first.get("message", {}), dict)

    def open(
        self, path: str, redact: Redactor, state: bytes | None = None, beside: Beside = NOTHING_BESIDE
    ) -> DocumentParser:
        """Return a parser for the session at ``path``; the index beside dates it."""
        return DocumentParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            reader=_SessionReader(path, beside),
            redact=redact,
            state=state,
        )


class _SessionReader:
    """A :class:`~palace_daemon.core.transcripts.document_parser.DocumentReader` of one session."""

    def __init__(self, path: str, beside: Beside) -> None:
        self._path, self._beside = path, beside

    def read(self, value: Any, places: Places) -> list[Reading]:
        """Return what the document tells."""
        if not isinstance(value, dict) or not isinstance(value.get("history"), list):
            return [Reading(skipped=("unknown_shape",))]
        session = as_text(value.get("sessionId")) or path_parts(self._path)[-1].rpartition(".")[0]
        entry = self._index_entry(session)
        directory = value.get("workspaceDirectory") or entry.get("workspaceDirectory")
        title = as_text(value.get("title")) or as_text(entry.get("title"))
        facts = SessionFacts(agent=AGENT, session_id=session, cwd=path_of_uri(directory))
        events: tuple[Event, ...] = (Facts(session=session, facts=facts),)
        if title.strip().lower() not in _NO_TITLES:
            events += (Title(session=session, text=title, rank=_OWN_RANK),)
        history = _History(
            session, facts.cwd, to_epoch_ms(entry.get("dateCreated")), as_text(value.get("chatModelTitle"))
        )
        read = [history.read(index, item, places) for index, item in enumerate(value["history"])]
        return [Reading(events=events, session=session), *read]

    def _index_entry(self, session: str) -> dict[str, Any]:
        content = self._beside.read(join(parent_of(self._path), _INDEX))
        listed = decode_value(content).value if content else None
        entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
        return next((entry for entry in entries if entry.get("sessionId") == session), {})


class _History:
    """Reads the items of one session, in order."""

    def __init__(self, session: str, cwd: str, created_at: int | None, model: str) -> None:
        self._session, self._cwd, self._at, self._model = session, cwd, created_at, model

    def read(self, index: int, item: Any, places: Places) -> Reading:
        message = item.get("message") if isinstance(item, dict) else None
        if not isinstance(message, dict):
            return Reading(skipped=("unknown_shape",), session=self._session)
        role = as_text(message.get("role"))
        summary = ("compaction_summary",) if as_text(item.get("conversationSummary")) else ()
        text, images = _content(message.get("content"))
        place = places.of(text)
        if role == "user":
            context = item.get("contextItems")
            injected = ("injected_context",) * (len(context) if isinstance(context, list) else 0)
            return self._told(self._turn(text, images, place), skipped=(*summary, *injected))
        if role == "assistant":
            return self._told(*self._answer(index, text, message.get("toolCalls"), place), skipped=summary)
        reason = {"thinking": "thinking", "tool": "tool_output"}.get(role, f"role:{reason_word(role)}")
        return self._told(skipped=(*summary, reason))

    def _told(self, *events: Event, skipped: tuple[str, ...] = ()) -> Reading:
        return Reading(events=events, skipped=skipped, session=self._session)

    def _turn(self, text: str, images: int, place: Place) -> UserTurn:
        return UserTurn(
            session=self._session,
            place=place,
            text=text,
            at=self._at,
            time_quality="session",
            attachments=(Attachment(kind="image"),) * images,
            cwd=self._cwd,
            model=self._model,
        )

    def _answer(self, index: int, text: str, calls: Any, place: Place) -> list[Event]:
        events: list[Event] = []
        if text.strip():
            events.append(
                ReplyText(session=self._session, place=place, text=text, message_id=f"{index}", model=self._model)
            )
        for call in calls if isinstance(calls, list) else []:
            function = call.get("function") if isinstance(call, dict) else None
            if isinstance(function, dict):
                name, target = as_text(function.get("name")), target_of(function.get("arguments"))
                call_id = as_text(call.get("id"))
                events.append(ToolCall(session=self._session, place=place, name=name, target=target, call_id=call_id))
        return events


def _content(content: Any) -> tuple[str, int]:
    """Return the text of a message, a string or parts, and the number of its images."""
    if not isinstance(content, list):
        return as_text(content), 0
    parts = [part for part in content if isinstance(part, dict)]
    texts = [as_text(part.get("text")) for part in parts if part.get("type") == "text"]
    return "\n\n".join(text for text in texts if text.strip()), sum(part.get("type") == "imageUrl" for part in parts)
