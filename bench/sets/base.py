"""What every set comes to: haystacks of dated sessions, and questions with the sessions that hold the answer.

Invariant: the gold of a question never reaches the index or the ranker. Session ids of a set are replaced by numbers
before anything is stored, see :mod:`palace_daemon.bench.haystack`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct, field


class Turn(Struct, frozen=True, kw_only=True):
    """What one side said in one go."""

    role: Literal["user", "assistant", "speaker"]
    """``speaker``: a conversation of people, none of whom is an agent."""
    text: str
    speaker: str = ""
    """Name of a speaker; empty for user and assistant."""
    turn_id: str = ""
    """Id by which gold may name the turn."""
    at: int | None = None
    """UTC epoch ms; None where the set dates the session only."""


class Session(Struct, frozen=True, kw_only=True):
    """One conversation of a haystack."""

    session_id: str
    turns: tuple[Turn, ...]
    started_at: int | None = None
    """UTC epoch ms."""
    project: str = ""


class Haystack(Struct, frozen=True, kw_only=True):
    """Everything that is searched for one or more questions."""

    haystack_id: str
    sessions: tuple[Session, ...]


class Question(Struct, frozen=True, kw_only=True):
    """One question, asked when it was asked."""

    question_id: str
    text: str
    now: int
    """UTC epoch ms at which it is asked."""
    kind: str = ""
    """The set's own type of question."""
    gold_sessions: tuple[str, ...] = ()
    """Ids of the sessions that hold the answer; empty for abstention."""
    gold_turns: tuple[str, ...] = ()
    """Ids of the turns that hold it, where the set names them."""
    is_abstention: bool = False
    project: str = ""
    """Asked in this project, as a filter; empty for everywhere."""
    split: str = ""
    """The part of the set that it belongs to, where the file says so."""
    unusable_gold: int = 0
    """Pieces of gold in the file that name nothing in the haystack, or are malformed, and were left out."""


class Case(Struct, frozen=True, kw_only=True):
    """A haystack with all questions that are asked of it."""

    haystack: Haystack
    questions: tuple[Question, ...] = field(default_factory=tuple)


class SetReader(Protocol):
    """Reads the files of one set."""

    name: str
    """As named by ``--set``."""
    gold_unit: Literal["session", "exchange"]
    """What a hit must be: the right session, or the exchange that holds a gold turn."""

    def read(self, path: Path) -> Iterator[Case]:
        """Yield the cases in ``path``, a file or the folder that holds it, streaming where the set is large.

        Raises:
            ConfigError: There is no such file, or it is not of this set; the message says what was expected.
        """
        ...
