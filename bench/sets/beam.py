"""BEAM: long chats of one user with an assistant, with ten kinds of probing questions.

- A chat comes in batches, each of which happens at one time: a batch is a session. Its date is its ``time_anchor``, or
  that of the first message that has one.
- Gold is a list of message ids, or a dict of such lists. A hit must be the exchange that holds such a message: with
  three to five sessions a chat, the right session would mean little.
- The set ends its scripted user turns with a mark such as ``->-> 1,1``, which nobody said: it is cut off. Where an
  assistant repeats one it stays.
- Questions of the kind ``abstention`` have no answer. A few others name no message and cannot be scored.
- No question is dated: each is asked the day after the last session.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from palace_daemon.bench.sets.base import Case, Haystack, Question, Session, Turn
from palace_daemon.bench.sets.dates import day_after, epoch_ms
from palace_daemon.bench.sets.files import find, records

_EXPECTED = "BEAM file"
_ABSTENTION = "abstention"
_MARK = re.compile(r"\s*->->\s*(?:\d+\s*,\s*)*(?:\d+|N/A)?\s*\)?\s*\Z")


class _Message(Struct, frozen=True):
    role: Literal["user", "assistant"]
    content: str
    id: int | str
    time_anchor: str | None = None


class _Batch(Struct, frozen=True):
    turns: list[list[_Message]]
    batch_number: int | str | None = None
    time_anchor: str | None = None


class _Probe(Struct, frozen=True):
    question: str
    source_chat_ids: Any = None


class _Record(Struct, frozen=True):
    chat_id: int | str
    chat: list[_Batch]
    probing_questions: dict[str, list[_Probe]]


class Beam:
    """Reads BEAM's chats, plain or gzip; a hit is an exchange that holds a message named as a source."""

    name: str = "beam"
    gold_unit: Literal["session", "exchange"] = "exchange"

    def read(self, path: Path) -> Iterator[Case]:
        """Yield one case a chat, in the order of the file. See :class:`SetReader`."""
        source = find(path, "beam", ("beam*.json", "beam*.json.gz"), _EXPECTED)
        for record in records(source, _Record, _EXPECTED):
            batches = enumerate(record.chat, 1)
            sessions = tuple(_session(batch, number) for number, batch in batches if any(batch.turns))
            haystack = Haystack(haystack_id=f"chat-{record.chat_id}", sessions=sessions)
            yield Case(haystack=haystack, questions=tuple(_questions(record, haystack)))


def _session(batch: _Batch, number: int) -> Session:
    messages = [message for group in batch.turns for message in group]
    anchors = (batch.time_anchor, *(message.time_anchor for message in messages))
    return Session(
        session_id=f"batch-{number}",
        turns=tuple(Turn(role=said.role, text=_text(said), turn_id=str(said.id)) for said in messages),
        started_at=next((at for anchor in anchors if anchor and (at := epoch_ms(anchor)) is not None), None),
    )


def _text(message: _Message) -> str:
    return _MARK.sub("", message.content) if message.role == "user" else message.content


def _questions(record: _Record, haystack: Haystack) -> Iterator[Question]:
    now = day_after(haystack.sessions)
    session_of = {turn.turn_id: session.session_id for session in haystack.sessions for turn in session.turns}
    for kind, probes in record.probing_questions.items():
        for number, probe in enumerate(probes, 1):
            named = [] if kind == _ABSTENTION else list(dict.fromkeys(_ids(probe.source_chat_ids)))
            usable = [turn_id for turn_id in named if turn_id in session_of]
            yield Question(
                question_id=f"{haystack.haystack_id}:{kind}:{number}",
                text=probe.question,
                now=now,
                kind=kind,
                gold_sessions=tuple(dict.fromkeys(session_of[turn_id] for turn_id in usable)),
                gold_turns=tuple(usable),
                is_abstention=kind == _ABSTENTION,
                unusable_gold=len(named) - len(usable),
            )


def _ids(named: object) -> Iterator[str]:
    """Yield the message ids in lists and dicts of any depth."""
    if isinstance(named, dict):
        named = list(named.values())
    if isinstance(named, list):
        for part in named:
            yield from _ids(part)
    elif named is not None:
        yield str(named)
