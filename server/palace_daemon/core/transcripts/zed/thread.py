"""The documents of Zed's threads: ``{"User": …}`` and ``{"Agent": …}`` messages, or ``{role, segments}`` before 0.3."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from palace_daemon.core.transcripts.reading.database_rows import row_key
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.targets import target_of
from palace_daemon.core.transcripts.reading.words import as_text, reason_word
from palace_daemon.core.transcripts.vscode_chat.workspace import base_name
from palace_daemon.core.turns import Event, Facts, Place, Reading, ReplyText, Title, ToolCall, UserTurn
from palace_daemon.model import Attachment, SessionFacts

AGENT = "zed"
_TITLE_RANK = 1
_NO_TITLES = frozenset({"New Thread", "New Agent Thread"})
_THINKING = frozenset({"Thinking", "RedactedThinking", "thinking", "redacted_thinking"})
_FILES = frozenset({"File", "Directory", "Thread", "TextThread", "Rule", "Fetch"})


class ZedThread(Struct, frozen=True, kw_only=True):
    """What the row says of its thread."""

    id: str
    parent_id: str = ""
    title: str = ""
    cwd: str = ""
    saved_at: Any = None

    @property
    def name(self) -> str:
        """The full session id: ``parent/id`` for a sub-agent."""
        return f"{self.parent_id}/{self.id}" if self.parent_id else self.id


def read_thread(thread: ZedThread, document: dict[str, Any], place: Place) -> Reading:
    """Return all that a thread yields; both shapes of messages, even mixed."""
    return _Thread(thread, document, place).read()


class _Thread:
    def __init__(self, thread: ZedThread, document: dict[str, Any], place: Place) -> None:
        self._thread, self._document, self._place = thread, document, place
        self._at = to_epoch_ms(thread.saved_at) or to_epoch_ms(document.get("updated_at"))
        model = document.get("model")
        self._model = as_text(model.get("model")) if isinstance(model, dict) else ""
        self._events: list[Event] = []
        self._skipped: list[str] = []

    def read(self) -> Reading:
        self._tell_session()
        messages = self._document.get("messages")
        if not isinstance(messages, list):
            self._skipped.append("unknown_shape")
            messages = []
        for index, message in enumerate(messages):
            self._read_message(message, f"{self._thread.id}#{index}")
        return Reading(events=tuple(self._events), skipped=tuple(self._skipped), session=self._thread.name)

    def _tell_session(self) -> None:
        thread = self._thread
        facts = SessionFacts(
            agent=AGENT,
            session_id=thread.name,
            parent_session_id=thread.parent_id,
            relation="subagent" if thread.parent_id else "none",
            cwd=thread.cwd,
            is_automated=bool(thread.parent_id),
        )
        self._events.append(Facts(session=thread.name, facts=facts))
        title = thread.title or as_text(self._document.get("title")) or as_text(self._document.get("summary"))
        if title.strip() and title not in _NO_TITLES:
            self._events.append(Title(session=thread.name, text=title, rank=_TITLE_RANK))

    def _read_message(self, message: Any, message_id: str) -> None:
        if message == "Resume":
            self._skipped.append("resume")
        elif not isinstance(message, dict):
            self._skipped.append("unknown_shape")
        elif isinstance(message.get("User"), dict):
            self._read_user(message["User"])
        elif isinstance(message.get("Agent"), dict):
            self._read_agent(message["Agent"], message_id)
        elif "role" in message:
            self._read_old(message, message_id)
        else:
            kind = next((str(name) for name in message), "")
            self._skipped.append(f"message:{reason_word(kind)}")

    # ------------------------------------------------------------------------------------------------ documents of 0.3

    def _read_user(self, user: dict[str, Any]) -> None:
        texts: list[str] = []
        attachments: list[Attachment] = []
        for kind, value in _blocks(user.get("content")):
            if kind == "Text":
                texts.append(as_text(value))
            elif kind == "Mention":
                attachments.append(_mention(value))
                # It stands in the sentence by its name; what it leads to was put in by the program.
                texts.append(f"@{base_name(attachments[-1].name)}" if attachments[-1].name else "")
            elif kind == "Image":
                attachments.append(Attachment(kind="image"))
            else:
                self._skipped.append(f"content:{reason_word(kind)}")
        # Text stands on both sides of a mention, in one line with it.
        self._turn("".join(texts), as_text(user.get("id")), tuple(attachments))

    def _read_agent(self, agent: dict[str, Any], message_id: str) -> None:
        for kind, value in _blocks(agent.get("content")):
            if kind == "Text":
                self._reply(as_text(value), message_id)
            elif kind == "ToolUse" and isinstance(value, dict):
                self._tool_call(value)
            else:
                self._skipped.append("thinking" if kind in _THINKING else f"content:{reason_word(kind)}")

    # ----------------------------------------------------------------------------------------- {role, segments} before

    def _read_old(self, message: dict[str, Any], message_id: str) -> None:
        role = as_text(message.get("role"))
        texts = self._old_texts(message)
        if role == "user":
            # Its id counts from 0 in each thread, and is given up when the document is saved in the new shape.
            self._turn("\n\n".join(texts), "")
        elif role == "assistant":
            for text in texts:
                self._reply(text, message_id)
            uses = message.get("tool_uses")
            for use in uses if isinstance(uses, list) else []:
                if isinstance(use, dict):
                    self._tool_call(use)
        else:
            self._skipped.append(f"role:{reason_word(role)}")

    def _old_texts(self, message: dict[str, Any]) -> list[str]:
        segments = message.get("segments")
        if not isinstance(segments, list):
            text = as_text(message.get("text"))  # documents of 0.1
            return [text] if text else []
        texts = []
        for segment in segments:
            kind = as_text(segment.get("type")) if isinstance(segment, dict) else ""
            if kind == "text":
                texts.append(as_text(segment.get("text")))
            else:
                self._skipped.append("thinking" if kind in _THINKING else f"content:{reason_word(kind)}")
        return [text for text in texts if text.strip()]

    # ---------------------------------------------------------------------------------------------------------- events

    def _turn(self, text: str, message_id: str, attachments: tuple[Attachment, ...] = ()) -> None:
        if not text.strip() and not attachments:
            self._skipped.append("empty")
            return
        self._events.append(
            UserTurn(
                session=self._thread.name,
                place=self._place,
                text=text,
                kind="automated" if self._thread.parent_id else "prompt",
                at=self._at,
                time_quality="session",
                key=row_key(AGENT, self._thread.id, message_id),
                record_ids=(message_id,) if message_id else (),
                attachments=attachments,
                cwd=self._thread.cwd,
                model=self._model,
            )
        )

    def _reply(self, text: str, message_id: str) -> None:
        if not text.strip():
            self._skipped.append("empty")
            return
        self._events.append(
            ReplyText(
                session=self._thread.name,
                place=self._place,
                text=text,
                message_id=message_id,
                model=self._model,
                cwd=self._thread.cwd,
            )
        )

    def _tool_call(self, use: dict[str, Any]) -> None:
        arguments = use.get("input") or use.get("raw_input")
        self._events.append(
            ToolCall(
                session=self._thread.name,
                place=self._place,
                name=as_text(use.get("name")),
                target=target_of(arguments),
                call_id=as_text(use.get("id")),
            )
        )


def _blocks(content: Any) -> list[tuple[str, Any]]:
    """Return the blocks of a message as kind and value; Rust writes an enum as an object with one key."""
    found: list[tuple[str, Any]] = []
    for block in content if isinstance(content, list) else []:
        if isinstance(block, dict) and block:
            found.append(next((str(kind), value) for kind, value in block.items()))
        else:
            found.append((as_text(block), None))
    return found


def _mention(value: Any) -> Attachment:
    """Return what a mention names: a file, or a piece of one."""
    uri = value.get("uri") if isinstance(value, dict) else None
    if isinstance(uri, str):
        return Attachment(kind="file", name=uri)
    kind, inner = next(iter(uri.items())) if isinstance(uri, dict) and uri else ("", None)
    inner = inner if isinstance(inner, dict) else {}
    name = next((as_text(inner.get(field)) for field in ("abs_path", "path", "name", "url") if inner.get(field)), "")
    return Attachment(kind="file" if kind in _FILES else "selection", name=name)
