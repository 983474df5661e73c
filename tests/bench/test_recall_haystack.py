"""Haystacks as stores: turns become the exchanges that the product makes, and ids of a set stay outside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from palace_daemon.bench.haystack import CHUNKINGS, Chunking, CountingCache, Stored, assemble, build_store
from palace_daemon.bench.sets.base import Haystack, Session, Turn
from palace_daemon.core.ports import TokenCounter
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.service.build import token_counter
from palace_daemon.store import vectors, views
from palace_daemon.store.sqlite import database_path

DAY_MS = 1_700_000_000_000


def user(text: str, turn_id: str = "", at: int | None = None) -> Turn:
    return Turn(role="user", text=text, turn_id=turn_id, at=at)


def agent(text: str, turn_id: str = "") -> Turn:
    return Turn(role="assistant", text=text, turn_id=turn_id)


def person(name: str, text: str, turn_id: str = "") -> Turn:
    return Turn(role="speaker", speaker=name, text=text, turn_id=turn_id)


def session(*turns: Turn, session_id: str = "s", started_at: int | None = DAY_MS, project: str = "") -> Session:
    return Session(session_id=session_id, turns=turns, started_at=started_at, project=project)


def said(*turns: Turn) -> list[tuple[str, str]]:
    result = assemble("000000", session(*turns), range(len(turns)))
    return [(exchange.user_text, exchange.reply_text) for exchange in result.exchanges]


# -------------------------------------------------------------------------------------------------------- exchanges


def test_a_user_turn_and_all_that_follows_it_are_an_exchange() -> None:
    assert said(user("one"), agent("two"), agent("three"), user("four")) == [("one", "two\n\nthree"), ("four", "")]


def test_a_session_may_begin_with_the_assistant() -> None:
    assert said(agent("hello"), user("one"), agent("two")) == [("", "hello"), ("one", "two")]


def test_two_people_pair_up_and_are_named() -> None:
    assert said(person("Ann", "one"), person("Bob", "two"), person("Ann", "three"), person("Bob", "four")) == [
        ("Ann: one", "Bob: two"),
        ("Ann: three", "Bob: four"),
    ]


def test_who_goes_on_before_anybody_answers_stays_in_the_exchange() -> None:
    turns = (
        person("Ann", "one"),
        person("Ann", "two"),
        person("Bob", "three"),
        person("Cy", "four"),
        person("Ann", "x"),
    )
    assert said(*turns) == [("Ann: one", "Ann: two\n\nBob: three\n\nCy: four"), ("Ann: x", "")]


def test_people_are_kept_as_speakers_and_the_lines_are_the_turns() -> None:
    turns = (person("Ann", "one"), person("Bob", "two"), person("Ann", "three"))
    first, second = assemble("000000", session(*turns), range(3)).exchanges
    assert (first.user_kind, first.line_start, first.line_end) == ("speaker", 1, 2)
    assert (second.line_start, second.line_end) == (3, 3)


def test_turns_without_a_time_are_a_second_apart_from_the_start_of_their_session() -> None:
    first, second = assemble("000000", session(user("a"), agent("b"), user("c", at=5)), range(3)).exchanges
    assert (first.started_at, first.ended_at, first.time_quality) == (DAY_MS, DAY_MS + 1_000, "session")
    assert (second.started_at, second.time_quality) == (5, "exact")


def test_a_session_without_a_date_has_none() -> None:
    (only,) = assemble("000000", session(user("a"), started_at=None), range(1)).exchanges
    assert (only.started_at, only.time_quality) == (None, "none")


def test_equal_words_are_as_many_exchanges_as_there_are_turns() -> None:
    assert said(*[user("go on"), agent("done")] * 3) == [("go on", "done")] * 3


def test_secrets_are_redacted_as_in_transcripts() -> None:
    ((text, _),) = said(user("export API_TOKEN=ghp_" + "Zx8Qw3Er5Ty7Ui9Op1As2Df4Gh6Jk0Lz3Xc5"))
    assert "[redacted:" in text


# ------------------------------------------------------------------------------------------------------------ stores

Built = Callable[..., Stored]


@pytest.fixture
def built(tmp_path: Path) -> Built:
    """Builds a store and closes it: what is on disk is what the test looks at."""

    def build(haystack: Haystack, mode: Chunking = "exchange", counter: TokenCounter | None = None) -> Stored:
        stored = build_store(
            haystack,
            tmp_path,
            embedder=HashingEmbedder(),
            counter=counter or token_counter(),
            chunking_mode=mode,
        )
        stored.close()
        return stored

    return build


HAYSTACK = Haystack(
    haystack_id="haystack-xyzzy",
    sessions=tuple(
        session(
            user(f"What is step {number}?", f"gold-turn-{number}-a"),
            agent(f"Step {number} fills the cache.", f"gold-turn-{number}-b"),
            user(f"And after step {number}?", f"gold-turn-{number}-c"),
            session_id=f"answer_session_{number}",
            project=f"project-{number % 2}",
        )
        for number in range(8)
    ),
)


@pytest.mark.parametrize("mode", CHUNKINGS)
def test_no_id_of_the_set_is_stored(built: Built, tmp_path: Path, mode: Chunking) -> None:
    stored = built(HAYSTACK, mode)
    data = database_path(tmp_path).read_bytes()
    assert b"fills the cache" in data
    for word in (b"xyzzy", b"answer_session", b"gold-turn"):
        assert word not in data
    assert sorted(stored.origins.sessions) == [f"{number:06d}" for number in range(8)]
    assert set(stored.origins.sessions.values()) == {f"answer_session_{number}" for number in range(8)}


def test_the_numbers_do_not_tell_the_order_of_the_set(built: Built) -> None:
    stored = built(HAYSTACK)
    in_order = [stored.origins.sessions[name] for name in sorted(stored.origins.sessions)]
    assert in_order not in (sorted(in_order), sorted(in_order, reverse=True))


def test_turns_lead_to_the_exchange_that_holds_them(built: Built) -> None:
    turns = built(HAYSTACK).origins.turns
    assert turns["gold-turn-3-a"] == turns["gold-turn-3-b"] == ("answer_session_3#1",)
    assert turns["gold-turn-3-c"] == ("answer_session_3#3",)


def test_an_id_that_the_set_uses_twice_leads_to_both(built: Built) -> None:
    haystack = Haystack(
        haystack_id="h", sessions=(session(user("one", "t"), session_id="a"), session(user("two", "t"), session_id="b"))
    )
    assert sorted(built(haystack).origins.turns["t"]) == ["a#1", "b#1"]


def test_a_turn_without_words_is_stored_nowhere(built: Built) -> None:
    haystack = Haystack(haystack_id="h", sessions=(session(user(" ", "blank"), session_id="a"),))
    stored = built(haystack)
    assert (stored.sessions, stored.exchanges, stored.origins.turns, stored.origins.sessions) == (1, 0, {}, {})


@pytest.mark.parametrize(("mode", "exchanges"), [("exchange", 16), ("session", 8), ("text", 8)])
def test_everything_has_its_vector_before_the_first_question(tmp_path: Path, mode: Chunking, exchanges: int) -> None:
    embedder = HashingEmbedder()
    stored = build_store(HAYSTACK, tmp_path, embedder=embedder, counter=token_counter(), chunking_mode=mode)
    try:
        with stored.store.read_with_drawers() as (connection, drawers):
            assert vectors.pending_count(connection) == 0
            assert (drawers.model, bool(drawers.has_vector[drawers.is_live].all())) == (embedder.fingerprint, True)
            totals = views.totals(connection)
            assert set(drawers.project_names) == {"project-0", "project-1"}
    finally:
        stored.close()
    assert (totals.exchanges, totals.drawers) == (exchanges, stored.drawers)
    assert stored.exchanges == exchanges


LONG = session(
    *[turn for number in range(40) for turn in (user(f"Question {number}?"), agent(f"The answer {number}. " * 20))]
)


def test_a_session_as_one_text_is_one_drawer_and_says_that_the_model_reads_its_beginning(built: Built) -> None:
    stored = built(Haystack(haystack_id="h", sessions=(LONG,)), "session")
    assert (stored.exchanges, stored.drawers, stored.truncated) == (1, 1, 1)


def test_a_text_is_cut_by_size_wherever_an_exchange_ends(built: Built) -> None:
    stored = built(Haystack(haystack_id="h", sessions=(LONG,)), "text")
    chars = sum(len(turn.text) for turn in LONG.turns)
    assert chars / 800 <= stored.drawers < chars / 400
    assert (stored.exchanges, stored.truncated) == (1, 0)


class _Counted:
    """The real counter, which notes what it was asked."""

    def __init__(self) -> None:
        self._counter = token_counter()
        self.max_tokens = self._counter.max_tokens
        self.asked: list[str] = []

    def count(self, text: str) -> int:
        self.asked.append(text)
        return self._counter.count(text)


def test_a_text_is_counted_once() -> None:
    counter = _Counted()
    cache = CountingCache(counter)
    assert cache.max_tokens == counter.max_tokens
    texts = ["", "two words", "two words", "three words here", ""]
    assert [cache.count(text) for text in texts] == [token_counter().count(text) for text in texts]
    assert counter.asked == ["", "two words", "three words here"]
