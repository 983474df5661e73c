"""DevMemBench: a developer's sessions with a coding assistant, with questions about what was decided and learnt.

``sessions.json`` lies beside the questions, ``questions*.json``. All questions are asked of all sessions. A session
keeps its project; a question is asked without one, since the set does not say in which project it is asked. A question
with an empty list of sessions cannot be answered. Sessions are dated by day, and no question is dated: each is asked
the day after the last session.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from palace_daemon.bench.sets.base import Case, Haystack, Question, Session, Turn
from palace_daemon.bench.sets.dates import day_after, session_ms
from palace_daemon.bench.sets.files import find, records

_SESSIONS = ("sessions.json", "sessions.json.gz")
_QUESTIONS = ("questions*.json", "questions*.json.gz")


class _Message(Struct, frozen=True):
    role: Literal["user", "assistant"]
    content: str


class _Metadata(Struct, frozen=True):
    date: str = ""
    project: str = ""


class _Session(Struct, frozen=True, rename="camel"):
    session_id: str
    messages: list[_Message]
    metadata: _Metadata = _Metadata()


class _Question(Struct, frozen=True, rename="camel"):
    question_id: str
    question: str
    gold: list[str] = field(name="haystackSessionIds")
    question_type: str = ""


class DevMemBench:
    """Reads DevMemBench; a hit is a session with the answer."""

    name: str = "devmembench"
    gold_unit: Literal["session", "exchange"] = "session"

    def read(self, path: Path) -> Iterator[Case]:
        """Yield the one case; ``path`` may be the file of questions, with the sessions beside it.

        See :class:`SetReader`.
        """
        start = path.parent if path.name in _SESSIONS else path
        asked = find(start, "devmembench", _QUESTIONS, "DevMemBench file of questions")
        told = find(asked.parent, "", _SESSIONS, "DevMemBench file of sessions")
        sessions = tuple(_session(session, told) for session in records(told, _Session, "DevMemBench file of sessions"))
        now = day_after(sessions)
        known = {session.session_id for session in sessions}
        questions = tuple(
            _question(question, known, now) for question in records(asked, _Question, "DevMemBench file of questions")
        )
        yield Case(haystack=Haystack(haystack_id="devmembench", sessions=sessions), questions=questions)


def _session(session: _Session, source: Path) -> Session:
    where = f"{source} is no DevMemBench file of sessions: {session.session_id}"
    return Session(
        session_id=session.session_id,
        turns=tuple(
            Turn(role=message.role, text=message.content, turn_id=f"{session.session_id}:{number}")
            for number, message in enumerate(session.messages)
        ),
        started_at=session_ms(session.metadata.date, where),
        project=session.metadata.project,
    )


def _question(question: _Question, known: set[str], now: int) -> Question:
    gold = tuple(session_id for session_id in dict.fromkeys(question.gold) if session_id in known)
    return Question(
        question_id=question.question_id,
        text=question.question,
        now=now,
        kind=question.question_type,
        gold_sessions=gold,
        is_abstention=not question.gold,
        unusable_gold=len(set(question.gold)) - len(gold),
    )
