r"""Plain JSON Lines: the format for a set of one's own. ``docs/bench-format.md`` describes it in full.

UTF-8, one object a line; ``type`` says what it is::

    {"type": "haystack", "id": "team", "split": "dev"}
    {"type": "session", "id": "s1", "date": "2025-03-01T09:30:00Z", "project": "tidepool", "turns": [
        {"role": "user", "text": "We moved the queue to Redis."}, {"role": "assistant", "text": "Noted."}]}
    {"type": "question", "id": "q1", "text": "Where does the queue run?", "now": "2025-04-01", "gold": ["s1"]}

(The session is broken here to fit; in a file it is one line.)

A ``haystack`` line begins a haystack; sessions and questions that follow belong to it, in any order, up to the next
one, so that a large file is read a haystack at a time. A file with a single haystack may leave the line out.

Keys that are not known are refused, since a misspelt key would silently change what is measured; ``note`` is free for
anything that should stand in the file. Every error names the line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from palace_daemon.bench.sets.base import Case, Haystack, Question, Session, Turn
from palace_daemon.bench.sets.dates import day_after, epoch_ms
from palace_daemon.bench.sets.files import converted, find, lines
from palace_daemon.core.dates.calendar import MAX_MS, MIN_MS
from palace_daemon.errors import ConfigError
from palace_daemon.service.recall import is_project

_EXPECTED = "set in JSON Lines"
_BOM = b"\xef\xbb\xbf"
_DATE_HINT = "ISO 8601, such as 2025-03-01T09:30:00Z, or epoch ms"

Date: TypeAlias = str | int | None
"""ISO 8601, UTC where no zone is given, or UTC epoch ms."""


class HaystackLine(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="haystack"):
    """Begins a haystack."""

    id: str
    split: str = ""
    note: Any = None


class TurnObject(Struct, frozen=True, forbid_unknown_fields=True):
    """What one side said in one go."""

    role: Literal["user", "assistant", "speaker"]
    text: str
    speaker: str = ""
    id: str = ""
    date: Date = None
    note: Any = None


class SessionLine(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="session"):
    """One conversation."""

    id: str
    turns: list[TurnObject]
    date: Date = None
    project: str = ""
    note: Any = None


class QuestionLine(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", tag_field="type", tag="question"):
    """One question, asked of its haystack."""

    id: str
    text: str
    now: Date = None
    kind: str = ""
    project: str = ""
    gold: list[str] = field(default_factory=list)
    gold_turns: list[str] = field(default_factory=list)
    abstention: bool = False
    note: Any = None


class JsonLines:
    """Reads plain JSON Lines; under another name it takes the exchange, not the session, for a hit.

    There only sessions of gold turns are gold; what else ``gold`` names is counted as unusable.
    """

    def __init__(self, name: str = "jsonl", gold_unit: Literal["session", "exchange"] = "session") -> None:
        """Take the name for ``--set`` and what a hit must be; ``exchange`` asks for ``goldTurns`` in every question."""
        self.name = name
        self.gold_unit: Literal["session", "exchange"] = gold_unit

    def read(self, path: Path) -> Iterator[Case]:
        """Yield one case a haystack, in the order of the file. See :class:`SetReader`."""
        source = find(path, "", ("*.jsonl", "*.jsonl.gz"), _EXPECTED)
        draft: _Draft | None = None
        haystack_ids: set[str] = set()
        for number, line in enumerate(lines(source), 1):
            payload = line.removeprefix(_BOM) if number == 1 else line
            if not payload.strip():
                continue
            where = f"{source}, line {number}"
            found = converted(payload, HaystackLine | SessionLine | QuestionLine, f"{where}, is not as expected")  # type: ignore[arg-type]  # a union
            if isinstance(found, HaystackLine) or draft is None:
                if draft is not None:
                    yield draft.finish()
                head = found if isinstance(found, HaystackLine) else HaystackLine(id=source.name.partition(".")[0])
                _once(haystack_ids, head.id, "haystack", where)
                draft = _Draft(head, where, self.gold_unit)
            draft.add(found, where)
        if draft is None:
            raise ConfigError(f"{source} is no {_EXPECTED}: it is empty")
        yield draft.finish()


class _Draft:
    """A haystack while its lines come in."""

    def __init__(self, head: HaystackLine, where: str, gold_unit: Literal["session", "exchange"]) -> None:
        self._head = head
        self._where = where
        self._gold_unit = gold_unit
        self._sessions: list[Session] = []
        self._asked: list[tuple[QuestionLine, str]] = []
        self._ids: set[str] = set()
        self._question_ids: set[str] = set()
        self._session_of: dict[str, str] = {}

    def add(self, found: HaystackLine | SessionLine | QuestionLine, where: str) -> None:
        """Take one line."""
        if isinstance(found, SessionLine):
            _once(self._ids, found.id, "session", where)
            self._sessions.append(self._session(found, where))
        elif isinstance(found, QuestionLine):
            _once(self._question_ids, found.id, "question", where)
            self._asked.append((found, where))

    def finish(self) -> Case:
        """Return the case; only now are all sessions known that gold may name."""
        if not self._sessions:
            raise ConfigError(f"{self._where}: haystack {self._head.id} has no session")
        haystack = Haystack(haystack_id=self._head.id, sessions=tuple(self._sessions))
        now = day_after(self._sessions)
        questions = tuple(self._question(asked, where, now) for asked, where in self._asked)
        return Case(haystack=haystack, questions=questions)

    def _session(self, line: SessionLine, where: str) -> Session:
        turns = []
        for number, said in enumerate(line.turns, 1):
            if (said.role == "speaker") != bool(said.speaker):
                raise ConfigError(
                    f"{where}: turn {number} needs a speaker's name with the role speaker, and only there"
                )
            turn_id = said.id or f"{line.id}:{number}"
            if turn_id in self._session_of:
                raise ConfigError(f"{where}: there is another turn {turn_id} in this haystack")
            self._session_of[turn_id] = line.id
            at = _ms(said.date, where)
            turns.append(Turn(role=said.role, text=said.text, speaker=said.speaker, turn_id=turn_id, at=at))
        started_at = _ms(line.date, where)
        if started_at is None:
            started_at = next((turn.at for turn in turns if turn.at is not None), None)
        return Session(session_id=line.id, turns=tuple(turns), started_at=started_at, project=line.project)

    def _question(self, asked: QuestionLine, where: str, now: int) -> Question:
        if asked.abstention == bool(asked.gold or asked.gold_turns):
            raise ConfigError(f"{where}: a question has gold, or abstention is true, and never both")
        if self._gold_unit == "exchange" and not (asked.abstention or asked.gold_turns):
            raise ConfigError(f"{where}: the question has no goldTurns", hint="read the set as jsonl to rank sessions")
        if unknown := [one for one in asked.gold if one not in self._ids]:
            raise ConfigError(f"{where}: gold names no session of this haystack: {', '.join(unknown)}")
        if unknown := [one for one in asked.gold_turns if one not in self._session_of]:
            raise ConfigError(f"{where}: goldTurns name no turn of this haystack: {', '.join(unknown)}")
        if asked.project and not any(is_project(one.project, asked.project) for one in self._sessions):
            raise ConfigError(f"{where}: no session of this haystack is of the project {asked.project}")
        own_now = _ms(asked.now, where)
        gold = tuple(dict.fromkeys((*asked.gold, *(self._session_of[one] for one in asked.gold_turns))))
        usable = self._usable(gold, asked.gold_turns)
        return Question(
            question_id=asked.id,
            text=asked.text,
            now=now if own_now is None else own_now,
            kind=asked.kind,
            gold_sessions=usable,
            gold_turns=tuple(dict.fromkeys(asked.gold_turns)),
            is_abstention=asked.abstention,
            project=asked.project,
            split=self._head.split,
            unusable_gold=len(gold) - len(usable),
        )

    def _usable(self, gold: tuple[str, ...], gold_turns: list[str]) -> tuple[str, ...]:
        """Return the sessions that can be found: where exchanges are, those that a gold turn names."""
        if self._gold_unit == "session":
            return gold
        named = {self._session_of[one] for one in gold_turns}
        return tuple(one for one in gold if one in named)


def _once(seen: set[str], identifier: str, what: str, where: str) -> None:
    if identifier in seen:
        raise ConfigError(f"{where}: there is another {what} {identifier}")
    seen.add(identifier)


def _ms(date: Date, where: str) -> int | None:
    if date is None:
        return None
    told = epoch_ms(date) if isinstance(date, str) else date
    if told is None:
        raise ConfigError(f"{where}: {date} is no date", hint=_DATE_HINT)
    if not MIN_MS <= told <= MAX_MS:
        raise ConfigError(f"{where}: a date lies outside the years 1 to 9999", hint=_DATE_HINT)
    return told
