"""The requests of a VS Code chat session to events, however the session is stored.

A request is a prompt with its whole response. A removed one (edited, or undone up to a checkpoint) is told where it
stood and then rolled back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct, structs

from palace_daemon.core.transcripts.reading.stamps import to_epoch_ms
from palace_daemon.core.transcripts.reading.words import as_text, reason_word
from palace_daemon.core.transcripts.vscode_chat.parts import (
    TRUNCATED,
    attachments_of,
    is_text,
    is_tool,
    kind_of,
    markdown_of,
    plan_and_feedback,
    question_and_answer,
    reference_name,
    tool_target,
)
from palace_daemon.core.transcripts.vscode_chat.workspace import path_of_uri
from palace_daemon.core.turns import (
    Event,
    Facts,
    Place,
    Reading,
    ReplyText,
    Rollback,
    Title,
    ToolCall,
    TurnEnd,
    UserTurn,
)
from palace_daemon.model import ExchangeStatus, SessionFacts, UserKind

AGENT = "copilot-chat"

_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_STATES: dict[Any, ExchangeStatus] = {1: "complete", 2: "interrupted", 3: "error"}
"""``ResponseModelState``; 0 and 4 are responses still under way."""

_BREAKS = frozenset({"thinking", "confirmation", "elicitation", "elicitation2", "elicitationSerialized"})
"""Parts after which another message begins, as it does after a tool call."""

_OWN_RANK, _MADE_RANK = 2, 1


class Slot(Struct):
    """A request, and where it is told."""

    request: Any
    first: Place
    last: Place
    is_removed: bool = False


def session_id_of(state: dict[str, Any], file_stem: str) -> str:
    """Return the session's id; an export has none, so its first request names it."""
    own = as_text(state.get("sessionId"))
    requests = state.get("requests")
    first = requests[0] if isinstance(requests, list) and requests and isinstance(requests[0], dict) else {}
    request_id = as_text(first.get("requestId"))
    if own or "version" in state or not _UUID.search(request_id):
        return own or file_stem
    return f"export-{request_id}"


def read_session(state: dict[str, Any], session: str, cwd: str) -> Reading:
    """Return what the state tells of the session itself."""
    repository = state.get("repoData")
    facts = SessionFacts(
        agent=AGENT,
        session_id=session,
        cwd=cwd or path_of_uri(state.get("workingDirectory")),
        branch=as_text(repository.get("localBranch")) if isinstance(repository, dict) else "",
        entrypoint="vscode",
    )
    titles = ((as_text(state.get("computedTitle")), _MADE_RANK), (as_text(state.get("customTitle")), _OWN_RANK))
    told = tuple(Title(session=session, text=text, rank=rank) for text, rank in titles if text.strip())
    return Reading(events=(Facts(session=session, facts=facts), *told), session=session)


def read_slots(slots: Iterable[Slot], session: str, cwd: str) -> Iterator[Reading]:
    """Yield what the requests tell, in order, with a rollback after each run of removed ones."""
    run = 0
    has_words = False
    for slot in slots:
        if run and not slot.is_removed:
            yield from _rollback(session, has_words=has_words)
            run, has_words = 0, False
        # Removed neighbours are one turn to the rollback, however many exchanges they come to.
        run = run or (slot.first.byte_start + 1 if slot.is_removed else 0)
        reading = read_request(slot, session, cwd, f"removed at {run}" if slot.is_removed else "")
        has_words = has_words or (slot.is_removed and _has_words(reading))
        yield reading
    if run:
        yield from _rollback(session, has_words=has_words)


def _rollback(session: str, *, has_words: bool) -> Iterator[Reading]:
    if has_words:
        yield Reading(events=(Rollback(session=session, turns=1),), session=session)


def _has_words(reading: Reading) -> bool:
    return any(isinstance(event, UserTurn | ReplyText) and event.text.strip() for event in reading.events)


def is_undone(request: Any) -> bool:
    """Return whether a request is still there and yet undone: the person went back to a checkpoint before it."""
    if not isinstance(request, dict):
        return False
    mark = request.get("shouldBeRemovedOnSend")
    # With an undo stop only the end of its response is undone, and the prompt stands.
    return request.get("isHidden") is True or (isinstance(mark, dict) and not mark.get("afterUndoStop"))


def read_request(slot: Slot, session: str, cwd: str, turn_id: str = "", kind: UserKind = "prompt") -> Reading:
    """Return what one request tells."""
    if not isinstance(slot.request, dict):
        return Reading(skipped=("unknown_shape",), session=session)
    return _Request(slot, session, cwd, turn_id).read(kind)


class _Request:
    """One request while it is read."""

    def __init__(self, slot: Slot, session: str, cwd: str, turn_id: str) -> None:
        self._request: dict[str, Any] = slot.request
        self._session, self._cwd, self._slot = session, cwd, slot
        self._id = as_text(self._request.get("requestId"))
        self._turn_id = turn_id or self._id
        self._at = to_epoch_ms(self._request.get("timestamp"))
        self._model = as_text(self._request.get("modelId"))
        agent = self._request.get("agent")
        self._version = as_text(agent.get("extensionVersion")) if isinstance(agent, dict) else ""
        self._events: list[Event] = []
        self._skipped: list[str] = []
        self._pieces: list[str] = []
        self._messages = 0
        self._answers = 0

    def read(self, kind: UserKind) -> Reading:
        self._open(kind)
        response = self._request.get("response")
        parts = response if isinstance(response, list) else [] if response is None else [response]
        for part in parts:
            self._read_part(part)
        self._flush()
        status = self._status()
        if status:
            self._events.append(TurnEnd(session=self._session, status=status))
        return Reading(events=tuple(self._events), skipped=tuple(self._skipped), session=self._session)

    def _open(self, kind: UserKind) -> None:
        message = self._request.get("message")
        text = self._unmarked(as_text(message.get("text")) if isinstance(message, dict) else as_text(message))
        hidden = ("isSystemInitiated", "hiddenFromTranscript", "requestHiddenFromTranscript")
        if any(self._request.get(name) is True for name in hidden):
            # The host's notice to the model: its reply is kept apart from the turn before.
            self._skipped.append("system_initiated")
            text, kind = "", "automated"
        elif as_text(self._request.get("confirmation")):
            kind = "answer"
        self._turn(text, kind, self._key(), is_first=True)

    def _key(self, suffix: str = "") -> str:
        if not self._id:
            return ""
        # Ids were plain numbers once, counted in each window.
        whole = self._id if _UUID.search(self._id) else f"{self._session}:{self._id}"
        return f"{AGENT}:{whole}{suffix}"

    def _turn(self, text: str, kind: UserKind, key: str, *, is_first: bool = False) -> None:
        turn = UserTurn(
            session=self._session,
            place=self._slot.first if is_first else self._slot.last,
            text=text,
            kind=kind,
            at=self._at,
            time_quality=None if is_first else "turn",
            key=key,
            record_ids=(self._id,) if self._id else (),
            turn_id=self._turn_id,
            attachments=attachments_of(self._request) if is_first and kind != "automated" else (),
            cwd=self._cwd,
            agent_version=self._version,
            model=self._model,
        )
        self._events.append(turn)

    # ------------------------------------------------------------------------------------------------------ response

    def _read_part(self, part: Any) -> None:
        kind = kind_of(part)
        if is_text(part):
            self._pieces.append(self._unmarked(markdown_of(part)))
        elif kind == "inlineReference":
            self._pieces.append(reference_name(part))
        elif is_tool(part):
            self._flush()
            self._call(part)
        elif kind == "questionCarousel":
            question, answer = question_and_answer(part)
            self._ask(question, answer, "answer")
        elif kind == "planReview":
            plan, feedback, is_rejected = plan_and_feedback(part)
            self._ask(plan, feedback, "rejection" if is_rejected else "answer")
        else:
            if kind in _BREAKS:
                self._flush()
            self._skipped.append("thinking" if kind == "thinking" else f"part:{reason_word(kind)}")

    def _ask(self, question: str, answer: str, kind: UserKind) -> None:
        self._flush()
        self._pieces.append(self._unmarked(question))
        self._flush()
        if answer.strip():
            self._answers += 1
            self._turn(answer, kind, self._key(f":{self._answers}"))

    def _call(self, part: dict[str, Any]) -> None:
        call = ToolCall(
            session=self._session,
            place=self._slot.last,
            name=as_text(part.get("toolId")) or as_text(part.get("toolName")) or "tool",
            target=tool_target(part),
            call_id=as_text(part.get("toolCallId")),
            at=self._at,
        )
        self._events.append(call)

    def _flush(self) -> None:
        """End a message: its fragments are one stream of markdown."""
        text = "".join(self._pieces).strip()
        self._pieces = []
        if not text:
            return
        self._messages += 1
        reply = ReplyText(
            session=self._session,
            place=self._slot.last,
            text=text,
            message_id=f"{as_text(self._request.get('responseId')) or self._id}:{self._messages}",
            at=self._ended_at(),
            model=self._model,
        )
        self._events.append(reply)

    def _unmarked(self, text: str) -> str:
        """Return a text that was written whole; of one that was cut nothing is left but the mark."""
        if not TRUNCATED.fullmatch(text.strip()):
            return text
        self._skipped.append("value_truncated")
        first, last = self._slot.first, self._slot.last
        flags = tuple(dict.fromkeys((*last.flags, "truncated")))
        self._slot = structs.replace(self._slot, first=first, last=structs.replace(last, flags=flags))
        return ""

    # ----------------------------------------------------------------------------------------------------------- end

    def _ended_at(self) -> int | None:
        state = self._request.get("modelState")
        completed = to_epoch_ms(state.get("completedAt")) if isinstance(state, dict) else None
        if completed is not None:
            return completed
        timings = self._result().get("timings")
        elapsed = timings.get("totalElapsed") if isinstance(timings, dict) else None
        if self._at is not None and isinstance(elapsed, int | float):
            return to_epoch_ms(self._at + elapsed) or self._at
        return self._at

    def _result(self) -> dict[str, Any]:
        result = self._request.get("result")
        return result if isinstance(result, dict) else {}

    def _status(self) -> ExchangeStatus | None:
        state = self._request.get("modelState")
        value = state.get("value") if isinstance(state, dict) else None
        told = _STATES.get(value) if isinstance(value, int) else None
        error = self._result().get("errorDetails")
        code = as_text(error.get("code")) if isinstance(error, dict) else ""
        if told == "interrupted" or self._request.get("isCanceled") is True or code == "canceled":
            return "interrupted"
        if told == "error" or isinstance(error, dict):
            return "error"
        return told or ("complete" if self._result() else None)
