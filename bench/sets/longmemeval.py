"""LongMemEval: one question of a user about his own chats with an assistant, each question with a haystack of its own.

Read are the official files, all of one layout: ``s_cleaned`` (about 48 sessions a question), ``m_cleaned`` (about 500,
gigabytes, hence streamed) and ``oracle`` (the sessions with the answer only), plain or gzip.

- A question is asked on its own ``question_date``. Haystacks are often not in the order of dates, and some sessions are
  dated after the question: both are kept as they are.
- Ids of sessions with the answer begin with ``answer_``, and their turns carry ``has_answer``. Ids end here as gold
  (:mod:`palace_daemon.bench.haystack` gives the sessions numbers), ``has_answer`` as :attr:`Question.gold_turns`.
- A session may stand in a haystack twice, under two dates: the second is ``<id>#2``, so that ids are unique.
- Questions whose id ends with ``_abs`` cannot be answered. What the file names as their sessions is no gold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Literal

from msgspec import Struct

from palace_daemon.bench.sets.base import Case, Haystack, Question, Session, Turn
from palace_daemon.bench.sets.dates import epoch_ms, session_ms
from palace_daemon.bench.sets.files import find, records
from palace_daemon.errors import ConfigError

FOLDER = "longmemeval"
EXPECTED = "LongMemEval file"
ABSTENTION = "_abs"


class Message(Struct, frozen=True):
    """A turn, as the file has it."""

    role: Literal["user", "assistant"]
    content: str
    has_answer: bool | None = None


class Record(Struct, frozen=True):
    """A question with its haystack, as the file has it."""

    question_id: str
    question: str
    question_date: str
    haystack_session_ids: list[str]
    haystack_sessions: list[list[Message]]
    haystack_dates: list[str] = []
    answer_session_ids: list[str] = []
    question_type: str = ""


class LongMemEval:
    """Reads the official files of LongMemEval; a hit is a session with the answer."""

    name: str = "longmemeval"
    gold_unit: Literal["session", "exchange"] = "session"

    def read(self, path: Path) -> Iterator[Case]:
        """Yield one case a question, in the order of the file. See :class:`SetReader`."""
        source = find(path, FOLDER, ("longmemeval*.json", "longmemeval*.json.gz"), EXPECTED)
        for record in records(source, Record, EXPECTED):
            yield _case(record, source)


def sessions(record: Record, source: Path) -> Iterator[Session]:
    """Yield the sessions of a haystack under ids that are unique in it.

    Raises:
        ConfigError: There are dates, and not one for each session, or one cannot be read; names ``source``.
    """
    where = f"{source} is no {EXPECTED}: the haystack_dates of question {record.question_id} are not as expected"
    if record.haystack_dates and len(record.haystack_dates) != len(record.haystack_session_ids):
        raise ConfigError(f"{where}: {len(record.haystack_dates)} for {len(record.haystack_session_ids)} sessions")
    seen: Counter[str] = Counter()
    dates = chain(record.haystack_dates, repeat(""))
    for session_id, messages, date in zip(  # noqa: B905 - the dates go on without end
        record.haystack_session_ids, record.haystack_sessions, dates
    ):
        seen[session_id] += 1
        unique_id = session_id if seen[session_id] == 1 else f"{session_id}#{seen[session_id]}"
        yield Session(
            session_id=unique_id,
            turns=tuple(
                Turn(role=message.role, text=message.content, turn_id=_turn_id(unique_id, number))
                for number, message in enumerate(messages)
            ),
            started_at=session_ms(date, where),
        )


def _turn_id(session_id: str, number: int) -> str:
    return f"{session_id}:{number}"


def _case(record: Record, source: Path) -> Case:
    now = epoch_ms(record.question_date)
    if now is None or len(record.haystack_session_ids) != len(record.haystack_sessions):
        wrong = "question_date" if now is None else "number of haystack_session_ids"
        raise ConfigError(f"{source} is no {EXPECTED}: the {wrong} of question {record.question_id} is not as expected")
    haystack = Haystack(haystack_id=record.question_id, sessions=tuple(sessions(record, source)))
    is_abstention = record.question_id.endswith(ABSTENTION)
    wanted = set() if is_abstention else set(record.answer_session_ids)
    gold: list[str] = []
    gold_turns: list[str] = []
    for session, own_id, messages in zip(
        haystack.sessions, record.haystack_session_ids, record.haystack_sessions, strict=True
    ):
        if own_id not in wanted:
            continue
        gold.append(session.session_id)
        marks = zip(session.turns, messages, strict=True)
        gold_turns += [turn.turn_id for turn, message in marks if message.has_answer]
    question = Question(
        question_id=record.question_id,
        text=record.question,
        now=now,
        kind=record.question_type,
        gold_sessions=tuple(gold),
        gold_turns=tuple(gold_turns),
        is_abstention=is_abstention,
        unusable_gold=len(wanted - set(record.haystack_session_ids)),
    )
    return Case(haystack=haystack, questions=(question,))
