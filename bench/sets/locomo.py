"""LoCoMo: long conversations of two people over months, with questions about what they told each other.

- ``session_1``, ``session_2`` and so on are lists of turns, dated by ``session_1_date_time``; some dates have no
  session.
- A turn with a picture carries a caption. It becomes part of the text, as ``[image: caption]`` on a line of its own;
  the words that the picture was searched by were never said and are left out.
- Evidence names turns, ``D<session>:<turn>``. Some strings hold several, between ``;``, ``,`` or spaces, and some are
  malformed. ``D:11:26`` and ``D3:05`` are read as meant; what then names no turn is counted in
  :attr:`Question.unusable_gold`. A question without usable evidence has no gold and cannot be scored.
- Category 5, adversarial, asks of one speaker what the other said, and names where that was said: a reader must see
  that place to notice, so it is gold for retrieval, as in the published reference figures. Without evidence such a
  question is an abstention.
- No question is dated: each is asked the day after the last session.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from palace_daemon.bench.sets.base import Case, Haystack, Question, Session, Turn
from palace_daemon.bench.sets.dates import day_after, session_ms
from palace_daemon.bench.sets.files import find, records
from palace_daemon.errors import ConfigError

_EXPECTED = "LoCoMo file"
_KINDS = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_ADVERSARIAL = 5
_NUMBER = "0*([0-9]{1,6})"
"""A number of a session or a turn; longer ones name nothing."""
_SESSION_KEY = re.compile(f"session_{_NUMBER}")
_BETWEEN = re.compile(r"[;,\s]+")
_EVIDENCE = re.compile(rf"\(?D:?{_NUMBER}:{_NUMBER}\)?")


class _Utterance(Struct, frozen=True):
    speaker: str
    dia_id: str
    text: str = ""
    blip_caption: str | None = None


class _Asked(Struct, frozen=True):
    question: str
    category: int
    evidence: list[Any] = []


class _Record(Struct, frozen=True):
    conversation: dict[str, Any]
    qa: list[_Asked]
    sample_id: str = ""


class LoCoMo:
    """Reads LoCoMo in its original layout, plain or gzip; a hit is a session with evidence."""

    name: str = "locomo"
    gold_unit: Literal["session", "exchange"] = "session"

    def read(self, path: Path) -> Iterator[Case]:
        """Yield one case a conversation, in the order of the file. See :class:`SetReader`."""
        source = find(path, "locomo", ("locomo*.json", "locomo*.json.gz"), _EXPECTED)
        for number, record in enumerate(records(source, _Record, _EXPECTED), 1):
            conversation_id = record.sample_id or f"conversation-{number}"
            haystack = Haystack(haystack_id=conversation_id, sessions=tuple(_sessions(record, source)))
            yield Case(haystack=haystack, questions=tuple(_questions(record, haystack)))


def _sessions(record: _Record, source: Path) -> Iterator[Session]:
    found = [(int(match[1]), key) for key in record.conversation if (match := _SESSION_KEY.fullmatch(key))]
    for _, session_id in sorted(found):
        where = f"{source} is no {_EXPECTED}: {session_id} of {record.sample_id}"
        try:
            utterances = msgspec.convert(record.conversation[session_id], list[_Utterance])
        except msgspec.ValidationError as error:
            raise ConfigError(f"{where}: {error}") from error
        if not utterances:
            continue
        date = record.conversation.get(f"{session_id}_date_time")
        yield Session(
            session_id=session_id,
            turns=tuple(
                Turn(role="speaker", speaker=said.speaker, text=_text(said), turn_id=said.dia_id) for said in utterances
            ),
            started_at=session_ms("" if date is None else str(date), where),
        )


def _text(said: _Utterance) -> str:
    caption = f"[image: {said.blip_caption}]" if said.blip_caption else ""
    return "\n".join(part for part in (said.text, caption) if part)


def _questions(record: _Record, haystack: Haystack) -> Iterator[Question]:
    now = day_after(haystack.sessions)
    session_of = {turn.turn_id: session.session_id for session in haystack.sessions for turn in session.turns}
    for number, asked in enumerate(record.qa, 1):
        named = list(_named(asked.evidence))
        usable = list(dict.fromkeys(turn_id for turn_id in named if turn_id in session_of))
        is_abstention = asked.category == _ADVERSARIAL and not usable
        yield Question(
            question_id=f"{haystack.haystack_id}:{number}",
            text=asked.question,
            now=now,
            kind=_KINDS.get(asked.category, str(asked.category)),
            gold_sessions=tuple(dict.fromkeys(session_of[turn_id] for turn_id in usable)),
            gold_turns=tuple(usable),
            is_abstention=is_abstention,
            unusable_gold=sum(turn_id not in session_of for turn_id in named),
        )


def _named(evidence: Iterable[object]) -> Iterator[str]:
    """Yield each id that the evidence names as the turns spell it, and what is no id as it is."""
    for entry in evidence:
        for piece in filter(None, _BETWEEN.split(str(entry))):
            match = _EVIDENCE.fullmatch(piece)
            yield f"D{int(match[1])}:{int(match[2])}" if match else piece
