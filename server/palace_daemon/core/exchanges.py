"""Turns a stream of events into exchanges; shared by all line formats.

Invariant: each feed hands out every exchange that is new or changed, whole; an exchange under construction is handed
out again as it grows. What comes out does not depend on how the events were cut into feeds.

Invariant: text passes the redactor before it enters any state.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection

import msgspec
from msgspec import structs

from palace_daemon.core.assembler_state import AssemblerState, Entry, Held, SessionState
from palace_daemon.core.drafts import Draft, Telling, digest, fallback_key
from palace_daemon.core.sessions import SessionTable
from palace_daemon.core.transcripts.base import Redactor
from palace_daemon.core.turns import (
    Attached,
    Event,
    Facts,
    Place,
    Reading,
    ReplyText,
    Rollback,
    Title,
    ToolCall,
    TurnContext,
    TurnEnd,
    UserTurn,
    Withdrawal,
)
from palace_daemon.model import Attachment, Exchange, ExchangeKey, ParseResult, ToolUse

HISTORY_CHARS = 16 * 1024
"""Text of closed exchanges that stays at hand for late blocks and rewinds; about the last five. Older exchanges are
superseded by key alone, so that the stored state of a source stays small beside its text."""

MAX_TARGET_CHARS = 200
"""A tool target is a hint for the eye, such as a path or the first line of a command."""

_RECALL_OPENING = re.compile(r'<palace-recall v="\d+">')
_RECALL_CLOSING = re.compile(r"</palace-recall>[ \t]*\n?")


class Assembler:
    """Builds exchanges from readings. Single-threaded.

    Args:
        agent: Agent of every exchange.
        redact: Applied to every text before it is kept.
        state: What :meth:`snapshot` returned, or nothing for a fresh source.

    Raises:
        ValueError: ``state`` does not fit this version.
    """

    def __init__(self, agent: str, redact: Redactor, state: bytes | None = None) -> None:
        self._agent = agent
        self._redact = redact
        self._state = AssemblerState() if state is None else msgspec.msgpack.decode(state, type=AssemblerState)
        self._skipped: Counter[str] = Counter()
        self._changed: dict[int, Draft] = {}
        self._built: dict[int, Exchange] = {}
        self._superseded: list[ExchangeKey] = []
        self._withdrawn: list[ExchangeKey] = []
        self._sessions = SessionTable(agent, self._state)
        self._telling = Telling()

    def snapshot(self) -> bytes:
        """Return the state; call between :meth:`flush` and the next :meth:`take`."""
        return msgspec.msgpack.encode(self._state)

    def skip(self, reason: str, count: int = 1) -> None:
        """Count something that was read and not used."""
        self._skipped[reason] += count

    def take(self, reading: Reading) -> None:
        """Apply what one record yielded, or count why it yielded nothing."""
        self._sessions.note_leaf(reading)
        if reading.record_id and self._is_repeat(reading):
            self._skipped["duplicate"] += 1
            if not reading.message_id or not self._is_at_hand(reading.session, digest(reading.message_id)):
                return
        self._skipped.update(reading.skipped)
        self._telling = Telling()
        for event in reading.events:
            self._apply(event)

    def flush(self) -> ParseResult:
        """Return what changed since the last call, in source order."""
        for ordinal, draft in self._changed.items():
            self._built[ordinal] = draft.build(self._agent)
        result = ParseResult(
            exchanges=tuple(self._built[ordinal] for ordinal in sorted(self._built)),
            sessions=self._sessions.take_changed(),
            lines_skipped=dict(self._skipped),
            superseded_keys=tuple(self._superseded),
            withdrawn_keys=tuple(self._withdrawn),
        )
        self._changed, self._built, self._superseded, self._withdrawn = {}, {}, [], []
        self._skipped = Counter()
        return result

    def let_go(self) -> None:
        """Part with all drafts: what follows belongs to other sessions. Keeps a large export out of the state."""
        for draft in self._state.drafts:
            self._build_changed(draft)
        self._state.drafts, self._state.current = [], {}

    def drop(self, keys: Collection[str], untitled: Collection[str]) -> None:
        """Let go of the texts of exchanges by key, and of the titles of sessions by id, between two flushes."""
        for draft in self._state.drafts:
            if draft.ordinal >= 0 and draft.key in keys:
                draft.drop_texts()
        self._sessions.untitle(untitled)

    def _is_repeat(self, reading: Reading) -> bool:
        record = digest(reading.record_id)
        if record in self._state.seen:
            return True
        self._state.seen[record] = self._sessions.of(reading.session).index
        return False

    def _apply(self, event: Event) -> None:
        match event:
            case UserTurn():
                self._on_user(event)
            case ReplyText():
                self._on_reply(event)
            case ToolCall():
                self._on_tool(event)
            case TurnEnd():
                self._on_end(event)
            case TurnContext():
                self._on_context(event)
            case Attached():
                self._on_attached(event)
            case Facts():
                self._sessions.merge(event.facts)
            case Title():
                self._on_title(event)
            case Rollback():
                self._on_rollback(event)
            case Withdrawal():
                self._withdraw(event.key)
            case _:
                raise TypeError(f"no rule for {type(event).__name__}")

    def _on_title(self, event: Title) -> None:
        title, _ = self._clean(event.text)
        self._sessions.entitle(event, " ".join(title.split()))

    # -------------------------------------------------------------------------------------------------- user and reply

    def _clean(self, raw: str) -> tuple[str, tuple[str, ...]]:
        """Return ``raw`` without our own recall blocks and secrets, and the flags that this calls for."""
        text = _without_recall(raw) if "<palace-recall" in raw else raw
        if not text or text.isspace():
            return "", ()
        redacted = self._redact(text)
        return redacted, ("redacted",) if redacted != text else ()

    def _on_user(self, event: UserTurn) -> None:
        text, flags = self._clean(event.text)
        if event.text and not text and not event.attachments:
            self._skipped["empty" if event.text.isspace() else "recall_block"] += 1
            return
        current = self._current(event.session)
        if current and event.repeats_aborted and _is_aborted_without_reply(current, text):
            self._reopen(current, event)
            return
        held = self._state.pending.pop(digest(event.key), None) if not event.is_pending else None
        if held is None and event.key and digest(event.key + text) in self._state.seen:
            self._skipped["duplicate"] += 1
            return
        draft = self._begin(event, text, flags)
        if event.is_pending:
            self._hold(draft, event)
            return
        self._close(event.session)
        if held is not None:
            entry = self._state.entries[held.ordinal]
            draft.ordinal, draft.key, draft.is_superseded = held.ordinal, entry.key, entry.is_superseded
        self._open(draft, event.place, event.at)

    def _begin(self, event: UserTurn, text: str, flags: tuple[str, ...]) -> Draft:
        draft = Draft(
            session=event.session,
            user_text=text,
            user_kind=event.kind,
            key=event.key,
            former_keys=list(event.former_keys),
            record_ids=list(event.record_ids),
            parent=digest(event.parent_id) if event.parent_id else 0,
            turn=digest(event.turn_id) if event.turn_id else 0,
            model=event.model,
            started_at=event.at,
            time_quality="none" if event.at is None else event.time_quality or "exact",
            utc_offset_minutes=event.utc_offset_minutes,
            cwd=event.cwd,
            branch=event.branch,
            agent_version=event.agent_version,
            attachments=[self._clean_attachment(attachment) for attachment in event.attachments],
        )
        draft.add_flags(event.flags + flags)
        draft.add_flags(() if draft.attachments == list(event.attachments) else ("redacted",))
        return draft

    def _hold(self, draft: Draft, event: UserTurn) -> None:
        """Hand out words that wait to be delivered; the open turn goes on."""
        draft.touch(event.place, event.at)
        self._enter(draft)
        self._state.pending[digest(event.key)] = Held(draft.ordinal, digest(draft.key + draft.user_text))
        self._built[draft.ordinal] = draft.build(self._agent)

    def _withdraw(self, key: str) -> None:
        """Take back words that were never delivered as such: their exchange leaves no trace."""
        held = self._state.pending.pop(digest(key), None)
        if held is None:
            return
        entry = self._state.entries[held.ordinal]
        entry.is_superseded = True  # what counts turns passes it over
        for known in (digest(entry.key), held.words):
            self._state.seen.pop(known, None)
        self._built.pop(held.ordinal, None)
        self._withdrawn.append(ExchangeKey(entry.key))  # an earlier reading may have handed it out

    def _clean_attachment(self, attachment: Attachment) -> Attachment:
        name, _ = self._clean(attachment.name)
        return attachment if name == attachment.name else structs.replace(attachment, name=name)

    def _reopen(self, draft: Draft, event: UserTurn) -> None:
        draft.status = "open"
        draft.record_ids.extend(event.record_ids)
        draft.turn = digest(event.turn_id) if event.turn_id else draft.turn
        draft.touch(event.place, event.at)
        self._mark(draft)

    def _on_reply(self, event: ReplyText) -> None:
        text, flags = self._clean(event.text)
        if not text:
            self._skipped["empty" if not event.text or event.text.isspace() else "recall_block"] += 1
            return
        # Without a message id the texts of one record are a message.
        message = digest(event.message_id or f"at {event.place.byte_start}")
        draft = self._holder(event.session, message)
        if draft is None:
            draft = self._open_without_user(event.session, event.place, event.at)
        if not draft.has_text:
            draft.key, draft.cwd = draft.key or event.key, draft.cwd or event.cwd
            draft.branch = draft.branch or event.branch
            draft.agent_version = draft.agent_version or event.agent_version
        if not self._add_block(draft, event, message, text):
            return
        draft.status = "open" if draft is self._current(event.session) else draft.status
        draft.model = event.model or draft.model
        draft.add_flags(flags)
        draft.touch(event.place, event.at)
        self._mark(draft)

    def _add_block(self, draft: Draft, event: ReplyText, message: int, text: str) -> bool:
        if event.is_whole:
            return draft.replace_message(message, event.text, text)
        if event.may_be_retold:
            return draft.unite_block(message, event.text, text, self._telling)
        return draft.add_block(message, event.text, text, event.channel)

    def _on_tool(self, event: ToolCall) -> None:
        draft = self._holder(event.session, digest(event.message_id)) if event.message_id else None
        draft = draft or self._current(event.session)
        draft = draft or self._open_without_user(event.session, event.place, event.at)
        if event.call_id and not draft.note_call(digest(event.call_id)):
            return
        target, flags = self._clean(event.target)
        draft.tools.append(ToolUse(name=event.name, target=target[:MAX_TARGET_CHARS]))
        draft.add_flags(flags)
        draft.status = "open" if draft is self._current(event.session) else draft.status
        draft.touch(event.place, event.at)
        self._mark(draft)

    def _on_end(self, event: TurnEnd) -> None:
        draft = self._current(event.session)
        if draft and (draft.status == "open" or event.status != "complete") and draft.status != event.status:
            draft.status = event.status
            self._mark(draft)

    def _on_context(self, event: TurnContext) -> None:
        draft = self._current(event.session)
        if draft and not draft.messages and not draft.tools:
            draft.cwd = event.cwd or draft.cwd
            draft.model = event.model or draft.model
            self._mark(draft)

    def _on_attached(self, event: Attached) -> None:
        draft = self._current(event.session)
        attachment = self._clean_attachment(event.attachment)
        if draft and not draft.messages and attachment not in draft.attachments:
            draft.attachments.append(attachment)
            draft.add_flags(() if attachment == event.attachment else ("redacted",))
            self._mark(draft)

    # ---------------------------------------------------------------------------------------------------------- drafts

    def _current(self, session: str) -> Draft | None:
        index = self._state.current.get(session, -1)
        return self._state.drafts[index] if index >= 0 else None

    def _is_at_hand(self, session: str, message: int) -> bool:
        return any(draft.session == session and message in draft.messages for draft in self._state.drafts)

    def _holder(self, session: str, message: int) -> Draft | None:
        """Return the draft that already holds blocks of ``message``, else the open one."""
        current = self._current(session)
        if current and message not in current.messages:
            for draft in reversed(self._state.drafts):
                if draft.session == session and message in draft.messages:
                    return draft
        return current

    def _open_without_user(self, session: str, place: Place, at: int | None) -> Draft:
        draft = Draft(session=session, user_text="", user_kind="prompt")
        self._open(draft, place, at)
        return draft

    def _open(self, draft: Draft, place: Place, at: int | None) -> None:
        self._sessions.of(draft.session)
        draft.touch(place, at)
        self._state.current[draft.session] = len(self._state.drafts)
        self._state.drafts.append(draft)
        self._mark(draft)

    def _close(self, session: str) -> None:
        draft = self._current(session)
        if draft is None:
            return
        if draft.status == "open":
            draft.status = "complete"
            self._mark(draft)
        del self._state.current[session]
        self._trim()

    def _trim(self) -> None:
        """Let go of the oldest closed drafts beyond the budget."""
        drafts, current = self._state.drafts, set(self._state.current.values())
        closed = [index for index in range(len(drafts)) if index not in current]
        size = sum(drafts[index].chars for index in closed)
        gone = set()
        for index in closed:
            if size <= HISTORY_CHARS and drafts[index].has_text:
                break
            size -= drafts[index].chars
            gone.add(index)
        if not gone:
            return
        for index in gone:
            self._build_changed(drafts[index])
        kept = [index for index in range(len(drafts)) if index not in gone]
        moved = {old: new for new, old in enumerate(kept)}
        self._state.drafts = [drafts[index] for index in kept]
        self._state.current = {name: moved[index] for name, index in self._state.current.items()}

    def _build_changed(self, draft: Draft) -> None:
        if self._changed.pop(draft.ordinal, None) is not None:
            self._built[draft.ordinal] = draft.build(self._agent)

    def _mark(self, draft: Draft) -> None:
        """Note that ``draft`` changed; give it its place in the source once it has text."""
        if draft.ordinal < 0:
            if not draft.has_text:
                return
            self._enter(draft)
        self._changed[draft.ordinal] = draft

    def _enter(self, draft: Draft) -> None:
        session = self._sessions.of(draft.session)
        draft.ordinal = len(self._state.entries)
        draft.key = self._unique_key(draft, session)
        session.exchanges += 1
        self._state.entries.append(Entry(draft.key, session.index, draft.turn))
        if draft.parent:
            self._rewind(draft)

    def _unique_key(self, draft: Draft, session: SessionState) -> str:
        """Return the draft's key. Where other words came under it before, these words become part of it."""
        key = draft.key or fallback_key(self._agent, draft.session, session.exchanges, draft.user_text)
        if digest(key) in self._state.seen:
            key = f"{key}:{digest(draft.user_text):016x}"
        for known in (key, key + draft.user_text):
            self._state.seen[digest(known)] = session.index
        return key

    # -------------------------------------------------------------------------------------------------- superseded

    def _rewind(self, draft: Draft) -> None:
        """Supersede the turn that followed the same record, and all of its session that came after it."""
        earlier = self._state.children.get(draft.parent)
        self._state.children[draft.parent] = draft.ordinal
        if earlier is None:
            return
        session = self._state.entries[draft.ordinal].session
        pending = {held.ordinal for held in self._state.pending.values()}
        if self._state.entries[earlier].session == session:
            for ordinal in range(earlier, draft.ordinal):
                if ordinal not in pending:
                    self._supersede(ordinal, session)

    def _on_rollback(self, event: Rollback) -> None:
        session = self._sessions.of(event.session).index
        entries = self._state.entries
        if event.turn_ids:
            self._undo(frozenset(digest(turn_id) for turn_id in event.turn_ids), event.session)
            return
        left, turn = event.turns, None
        unseen = self._sessions.of(event.session).exchanges  # an export has many other sessions in front of this one
        for ordinal in range(len(entries) - 1, -1, -1):
            entry = entries[ordinal]
            if not unseen:
                break
            if entry.session != session:
                continue
            unseen -= 1
            if entry.is_superseded:
                continue
            if entry.turn == 0 or entry.turn != turn:
                left, turn = left - 1, entry.turn
            if left < 0:
                break
            self._supersede(ordinal, session)

    def _undo(self, turns: frozenset[int], name: str) -> None:
        for ordinal, entry in enumerate(self._state.entries):
            if entry.turn in turns:
                self._supersede(ordinal, self._sessions.of(name).index)
        current = self._current(name)
        if current and current.is_superseded:
            self._close(name)

    def _supersede(self, ordinal: int, session: int) -> None:
        entry = self._state.entries[ordinal]
        if entry.session != session or entry.is_superseded:
            return
        entry.is_superseded = True
        self._superseded.append(ExchangeKey(entry.key))
        for draft in self._state.drafts:
            if draft.ordinal == ordinal:
                draft.is_superseded = True
                self._mark(draft)


def _without_recall(text: str) -> str:
    """Cut out closed recall blocks; two searches a block, where one pattern for both ends takes quadratic time."""
    pieces, done = [], 0
    while opening := _RECALL_OPENING.search(text, done):
        closing = _RECALL_CLOSING.search(text, opening.end())
        if closing is None:
            break
        pieces.append(text[done : opening.start()])
        done = closing.end()
    return "".join([*pieces, text[done:]])


def _is_aborted_without_reply(draft: Draft, text: str) -> bool:
    is_same = draft.user_text == text or draft.dropped_user == digest(text)
    return draft.status == "interrupted" and not draft.messages and is_same
