"""Cursor's command line: ``store.db``, a chat as blobs that are named by their contents.

A chat's newest state is one blob, which begins with the names of its messages in order (protobuf: field 1, repeated, 32
bytes each); a message is JSON. That is all that is known of it: where the state looks otherwise, or a message is no
JSON, this is counted, and nothing is guessed.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from palace_daemon.core.documents import decode_value
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import Redactor
from palace_daemon.core.transcripts.cursor.place import AGENT
from palace_daemon.core.transcripts.cursor.query import read_query, reply_of
from palace_daemon.core.transcripts.reading.database_rows import DatabaseRows, nested, target
from palace_daemon.core.transcripts.reading.homes import below, below_home
from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.words import as_text, path_parts, reason_word
from palace_daemon.core.transcripts.vscode_chat.workspace import base_name, join, parent_of
from palace_daemon.core.turns import Event, Facts, Place, Reading, ReplyText, Title, ToolCall, UserTurn
from palace_daemon.model import SessionFacts

CHAT = "chat"
"""What the one conversation of each such database is called."""

_TITLE_RANK = 1
_NO_TITLES = frozenset({"New Agent", "Untitled"})
_WORKSPACE = re.compile(r"^Workspace Path: (\S.*)$", re.MULTILINE)
_REASONING = frozenset({"reasoning", "redacted-reasoning", "redacted"})

# The meta value is JSON in hexadecimal digits, so the name of the newest state stands in it in such digits too.
_ROOT = """root(data) AS (SELECT hex(b.data) FROM blobs AS b, meta AS m
    WHERE m.key = '0' AND instr(lower(m.value), lower(hex('"' || b.id || '"'))) > 0 LIMIT 1)"""

_TAG = "'0A20'"  # field 1, of 32 bytes
_STEP = 68  # digits of a tag and a name

_PIECE = f"""json(CASE WHEN p.type <> 'object' THEN '0' ELSE json_object(
    'type', json_extract(p.value, '$.type'),
    'text', CASE WHEN json_extract(p.value, '$.type') = 'text' THEN json_extract(p.value, '$.text') END,
    'id', json_extract(p.value, '$.toolCallId'),
    'tool', json_extract(p.value, '$.toolName'),
    'target', CASE WHEN json_extract(p.value, '$.type') = 'tool-call'
        THEN {target("p.value", "$.args", "$.input")} END) END)"""

_RECORDS = f"""
SELECT 'meta' AS record, value AS data FROM meta WHERE key = '0'
;
WITH RECURSIVE {_ROOT},
refs(place) AS (
    SELECT 1 FROM root WHERE substr(data, 1, 4) = {_TAG}
    UNION ALL
    SELECT place + {_STEP} FROM refs, root WHERE substr(data, place + {_STEP}, 4) = {_TAG}
)
SELECT CASE WHEN text IS NULL THEN 'missing' WHEN NOT json_valid(text) THEN 'unknown' ELSE 'message' END AS record,
    name AS id,
    CASE WHEN json_valid(text) THEN json_extract(text, '$.role') END AS role,
    CASE WHEN NOT json_valid(text) THEN NULL
    WHEN json_extract(text, '$.role') NOT IN ('user', 'assistant') THEN NULL
    WHEN json_type(text, '$.content') = 'array' THEN
        (SELECT json_group_array({_PIECE}) FROM json_each(text, '$.content') AS p)
    WHEN json_type(text, '$.content') = 'text' THEN
        json_array(json_object('type', 'text', 'text', json_extract(text, '$.content'))) END AS data
FROM (SELECT r.place AS place, r.name AS name, CAST(b.data AS TEXT) AS text
    FROM (SELECT place, lower(substr(data, place + 4, 64)) AS name FROM refs, root) AS r
    LEFT JOIN blobs AS b ON b.id = r.name)
ORDER BY place
;
WITH {_ROOT}
SELECT 'unreadable' AS record WHERE NOT EXISTS (SELECT 1 FROM root WHERE substr(data, 1, 4) = {_TAG})
"""


class StoreRow(Struct):
    """A row of any of the queries."""

    record: Any = None
    id: Any = None
    role: Any = None
    data: Any = None


class _State(Struct, array_like=True):
    session: str
    cwd: str = ""
    model: str = ""
    created_at: int | None = None
    is_subagent: bool = False


class StoreReader:
    """A :class:`~palace_daemon.core.transcripts.line_parser.RecordReader` of one chat's rows.

    Args:
        path: Of the database; its folder is named after the chat, and ``meta.json`` beside it tells more.
        beside: Reads that file.
    """

    def __init__(self, path: str, beside: Beside) -> None:
        self._folder, self._beside = parent_of(path), beside
        self._state = _State(base_name(self._folder))

    def snapshot(self) -> bytes:
        """Return the reader's state; it holds no text."""
        return msgspec.msgpack.encode(self._state)

    def restore(self, state: bytes) -> None:
        """Continue from :meth:`snapshot`."""
        self._state = msgspec.msgpack.decode(state, type=_State)

    def read(self, record: StoreRow, place: Place, payload: bytes) -> list[Reading]:  # noqa: ARG002
        """Return what one row yields."""
        if record.record == "meta":
            return [self._read_meta(record)]
        if record.record != "message":
            reasons = {"missing": "missing_blob", "unknown": "unknown_blob", "unreadable": "unreadable_root"}
            return [self._reading((), (reasons.get(as_text(record.record), "malformed"),))]
        role = as_text(record.role)
        content = nested(record.data)
        pieces = [piece for piece in content if isinstance(piece, dict)] if isinstance(content, list) else []
        if role == "user":
            return [self._read_user(pieces, place)]
        if role == "assistant":
            return [self._read_reply(record, pieces, place)]
        return [self._reading((), ("tool_output" if role == "tool" else f"role:{reason_word(role)}",))]

    def _read_meta(self, row: StoreRow) -> Reading:
        meta = _from_digits(as_text(row.data))
        more = decode_value(self._beside.read(join(self._folder, "meta.json")) or b"null").value
        more = more if isinstance(more, dict) else {}
        self._state = _State(
            session=as_text(meta.get("agentId")) or self._state.session,
            cwd=as_text(more.get("cwd")),
            model=as_text(meta.get("lastUsedModel")),
            created_at=to_epoch_ms(meta.get("createdAt")) or to_epoch_ms(more.get("createdAtMs")),
            is_subagent=more.get("isSubagent") is True,
        )
        events: list[Event] = [self._facts(self._state.cwd)]
        for title in (as_text(meta.get("name")), as_text(more.get("title"))):
            if title.strip() and title not in _NO_TITLES:
                events.append(Title(session=self._state.session, text=title, rank=_TITLE_RANK))
                break
        return self._reading(events, () if meta else ("malformed",))

    def _facts(self, cwd: str) -> Facts:
        told = SessionFacts(
            agent=AGENT,
            session_id=self._state.session,
            relation="subagent" if self._state.is_subagent else "none",
            cwd=cwd,
            is_automated=self._state.is_subagent,
        )
        return Facts(session=self._state.session, facts=told)

    def _read_user(self, pieces: list[dict[str, Any]], place: Place) -> Reading:
        texts = [as_text(piece.get("text")) for piece in pieces if piece.get("type") == "text"]
        text = "\n\n".join(text for text in texts if text.strip())
        events: list[Event] = []
        if not self._state.cwd and (told := _WORKSPACE.search(text) if "<user_info>" in text else None):
            self._state.cwd = told.group(1).rstrip()
            events.append(self._facts(self._state.cwd))
        query = read_query(text)
        if not query.is_turn:
            return self._reading(events, (query.reason,))
        turn = UserTurn(
            session=self._state.session,
            place=place,
            text=query.text,
            kind="automated" if self._state.is_subagent else "prompt",
            at=self._state.created_at if query.at is None else query.at,
            time_quality="session" if query.at is None else "turn",
            utc_offset_minutes=query.zone,
            attachments=query.attachments,
            cwd=self._state.cwd,
            model=self._state.model,
        )
        return self._reading((*events, turn), query.skipped)

    def _read_reply(self, row: StoreRow, pieces: list[dict[str, Any]], place: Place) -> Reading:
        events: list[Event] = []
        skipped: list[str] = []
        for piece in pieces:
            kind = as_text(piece.get("type"))
            raw = as_text(piece.get("text"))
            text = reply_of(raw)
            if kind == "text" and text.strip():
                events.append(self._reply(row, text, place))
                skipped += ["thinking"] if text != raw else []
            elif kind == "tool-call":
                events.append(self._tool_call(piece, place))
            else:
                is_thought = kind == "text" or kind in _REASONING
                skipped.append("thinking" if is_thought else f"content:{reason_word(kind)}")
        return self._reading(events, tuple(skipped) if events or skipped else ("empty",))

    def _reply(self, row: StoreRow, text: str, place: Place) -> Event:
        # Equal messages are one blob: its place in the conversation, not its name, tells them apart.
        return ReplyText(
            session=self._state.session,
            place=place,
            text=text,
            message_id=f"{as_text(row.id)}@{place.byte_start}",
            model=self._state.model,
            cwd=self._state.cwd,
        )

    def _tool_call(self, piece: dict[str, Any], place: Place) -> Event:
        return ToolCall(
            session=self._state.session,
            place=place,
            name=as_text(piece.get("tool")) or "tool",
            target=next(iter(as_text(piece.get("target")).strip().splitlines()), ""),
            call_id=as_text(piece.get("id")),
        )

    def _reading(self, events: tuple[Event, ...] | list[Event], skipped: tuple[str, ...] = ()) -> Reading:
        return Reading(events=tuple(events), skipped=skipped, session=self._state.session)


def _from_digits(value: str) -> dict[str, Any]:
    """Return the JSON object that stands in ``value`` in hexadecimal digits, or as it is."""
    try:
        data = binascii.unhexlify(value)
    except (binascii.Error, ValueError):
        data = value.encode("utf-8", "replace")
    decoded = decode_value(data).value
    return decoded if isinstance(decoded, dict) else {}


class CursorStore(DatabaseRows[StoreRow]):
    """``store.db`` of Cursor's command line. Stateless and thread-safe."""

    name = "cursor-store-db"
    agent = AGENT
    record_type = StoreRow
    tables: Mapping[str, tuple[str, ...]] = {"blobs": ("id", "data"), "meta": ("key", "value")}
    conversations = f"SELECT '{CHAT}' AS id, '|' || value AS stamp FROM meta WHERE key = '0'"
    records = _RECORDS

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the directory of the chats; ``CURSOR_DATA_DIR`` stands for ``~/.cursor``."""
        data_dir = environ.get("CURSOR_DATA_DIR") or below_home(environ, home, platform, ".cursor")
        return (below(data_dir, platform, "chats"),)

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` is a chat's database: ``chats/<workspace>/<chat>/store.db``."""
        *folders, name = path_parts(path)
        return name == "store.db" and "chats" in folders[:-2]

    def reader(self, conversation: str, path: str, redact: Redactor, beside: Beside) -> StoreReader:  # noqa: ARG002
        """Return a reader for the chat."""
        return StoreReader(path, beside)
