"""PrefEval: a preference stated once in passing, and later a request whose answer should heed it.

The set has preferences and requests only, so the haystacks are made here:

- Each preference is a session of its own, one exchange: the user says the preference, word for word, and the assistant
  acknowledges it in one neutral sentence. That exchange is the gold.
- A haystack holds at most one preference of each topic. Each preference comes from another person: two of one topic
  would both bear on a request, and often contradict each other. Its requests are asked of the whole haystack, so each
  preference is a distractor for the requests of other topics. The topics are dealt out evenly, to as few haystacks as
  the largest topic allows (505 preferences of 10 topics: 62 haystacks with 8 or 9).
- Beside them stand :data:`DISTRACTORS` sessions of LongMemEval without evidence, drawn from the first
  :data:`POOL_QUESTIONS` questions of the file that lies beside the set. Every :data:`HAYSTACKS_A_DRAW` haystacks share
  one draw, so that texts come again and need no second embedding.
- A preference is dated like one more drawn session, whose text is not used, so its date tells nothing. Sessions stand
  in the order of their dates; the requests are asked the day after the last.

Everything drawn depends on :data:`SEED` and on the two files only.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Literal

from msgspec import Struct

from palace_daemon.bench.sets import longmemeval
from palace_daemon.bench.sets.base import Case, Haystack, Question, Session, Turn
from palace_daemon.bench.sets.dates import day_after
from palace_daemon.bench.sets.files import find, matching, records
from palace_daemon.errors import ConfigError

DISTRACTORS = 40
"""Sessions in a haystack that hold no preference of the set; with the preferences, about as many as in LongMemEval."""
HAYSTACKS_A_DRAW = 8
POOL_QUESTIONS = 50
"""Questions of LongMemEval whose haystacks are drawn from: a bound on what is held in memory."""
SEED = 20_250
ACKNOWLEDGEMENT = "Thank you for telling me. I will keep that in mind."

_EXPECTED = "PrefEval file of explicit preferences"
_FOLDER = "prefeval"
_POOL_PATTERNS = ("longmemeval_s*.json", "longmemeval_s*.json.gz")


class _Record(Struct, frozen=True):
    preference: str
    question: str
    topic: str = ""


class _Preference(Struct, frozen=True):
    """A preference with the id that its place in the file gives it."""

    id: str
    topic: str
    text: str
    request: str


class PrefEval:
    """Reads PrefEval's explicit preferences; a hit is the exchange in which the preference was told."""

    name: str = "prefeval"
    gold_unit: Literal["session", "exchange"] = "exchange"

    def read(self, path: Path) -> Iterator[Case]:
        """Yield one case a haystack; ``path`` is the file, its folder, or the folder above.

        A LongMemEval ``s`` file must lie beside it, in the folder ``longmemeval``. Of several, one with ``dev`` in its
        name is taken, else the first. See :class:`SetReader`.
        """
        source = find(path, _FOLDER, ("explicit_preference*.json", "explicit_preference*.json.gz"), _EXPECTED)
        pool = _pool(_find_pool(source))
        found = records(source, _Record, _EXPECTED)
        preferences = [
            _Preference(f"preference-{number}", record.topic or source.stem, record.preference, record.question)
            for number, record in enumerate(found, 1)
        ]
        for number, dealt in enumerate(_deal(preferences)):
            yield _case(number, dealt, pool)


def _find_pool(source: Path) -> Path:
    for directory in (source.parent.parent / longmemeval.FOLDER, source.parent / longmemeval.FOLDER, source.parent):
        if matches := matching(directory, _POOL_PATTERNS):
            return next((match for match in matches if "dev" in match.name), matches[0])
    raise ConfigError(
        f"no {longmemeval.EXPECTED} beside {source} to hide the preferences in",
        hint=f"put {' or '.join(_POOL_PATTERNS)} into {source.parent.parent / longmemeval.FOLDER}",
    )


def _pool(path: Path) -> tuple[Session, ...]:
    state = path.stat()
    return _pool_of(path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=1)
def _pool_of(path: Path, _size_bytes: int, _mtime_ns: int) -> tuple[Session, ...]:
    """Return the dated sessions that hold evidence for no question, each once, in the order of the file."""
    pool: dict[str, Session] = {}
    evidence: set[str] = set()
    with closing(records(path, longmemeval.Record, longmemeval.EXPECTED)) as found:
        for record in islice(found, POOL_QUESTIONS):
            evidence.update(record.answer_session_ids)
            for session in longmemeval.sessions(record, path):
                if session.started_at is not None and "#" not in session.session_id:
                    pool.setdefault(session.session_id, session)
    sessions = tuple(session for session in pool.values() if session.session_id not in evidence)
    if len(sessions) <= DISTRACTORS:
        raise ConfigError(
            f"{path} holds {len(sessions)} dated sessions without evidence: more than {DISTRACTORS} are needed"
        )
    return sessions


def _deal(preferences: Sequence[_Preference]) -> list[list[_Preference]]:
    """Deal the preferences to haystacks, so that none gets two of a topic and all get nearly as many."""
    by_topic: dict[str, list[_Preference]] = defaultdict(list)
    for preference in preferences:
        by_topic[preference.topic].append(preference)
    hands: list[list[_Preference]] = [[] for _ in range(max(map(len, by_topic.values()), default=0))]
    dealt = 0
    for topic in sorted(by_topic):
        for preference in by_topic[topic]:
            hands[dealt % len(hands)].append(preference)
            dealt += 1
    return hands


def _case(number: int, preferences: Sequence[_Preference], pool: Sequence[Session]) -> Case:
    draw = random.Random(f"{SEED}:draw:{number // HAYSTACKS_A_DRAW}")  # noqa: S311 - repeatable on purpose
    dates = random.Random(f"{SEED}:dates:{number}")  # noqa: S311 - repeatable on purpose
    sessions = draw.sample(pool, DISTRACTORS)
    sessions += [_session(preference, dates.choice(pool).started_at) for preference in preferences]
    sessions.sort(key=lambda session: (session.started_at or 0, session.session_id))
    now = day_after(sessions)
    questions = tuple(
        Question(
            question_id=f"{preference.topic}:{preference.id}",
            text=preference.request,
            now=now,
            kind=preference.topic,
            gold_sessions=(preference.id,),
            gold_turns=(_turn_id(preference),),
        )
        for preference in preferences
    )
    haystack = Haystack(haystack_id=f"prefeval-{number + 1}", sessions=tuple(sessions))
    return Case(haystack=haystack, questions=questions)


def _session(preference: _Preference, started_at: int | None) -> Session:
    return Session(
        session_id=preference.id,
        turns=(
            Turn(role="user", text=preference.text, turn_id=_turn_id(preference)),
            Turn(role="assistant", text=ACKNOWLEDGEMENT, turn_id=f"{preference.id}:1"),
        ),
        started_at=started_at,
    )


def _turn_id(preference: _Preference) -> str:
    return f"{preference.id}:0"
