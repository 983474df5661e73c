from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.claude import append, reply, turn, user

from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.errors import CancelledError, NotFoundError, RequestError, StoreError
from palace_daemon.model import RecallAnswer, RecallQuery
from palace_daemon.service.build import open_read_only
from palace_daemon.service.recall import is_project

NOW = 1_800_000_000_000
MONDAY = 1_770_000_000_000  # 2026-02-02T02:40:00Z: second 0 of the transcripts
OF_WORDS = {"bm25", "sentence"}
"""Parts of a score that take no vector."""


@pytest.fixture
def mined(palace: Any, transcripts: Path) -> Any:
    topics = ["tides and moon", "queue in redis", "front end colours", "deploy to harbour", "gauge drift"]
    for number, topic in enumerate(topics):
        session = f"s{number}"
        lines = "".join(
            turn(n, f"Tell me of {topic}, part {n}?", f"Here is part {n} on {topic}.", session=session)
            for n in range(4)
        )
        append(transcripts / f"{number}.jsonl", lines.replace("/nowhere/tidepool", f"/work/p{number % 2}/sub"))
    palace.mine([str(transcripts)], wait=True)
    return palace


def ask(palace: Any, text: str, **fields: Any) -> RecallAnswer:
    answer: RecallAnswer = palace.recall(RecallQuery(text=text, now=NOW, **fields))
    return answer


def test_hits_carry_provenance_and_parts_that_add_up(mined: Any, transcripts: Path) -> None:
    hit = ask(mined, "redis queue part 2").hits[0]
    assert (hit.agent, hit.session_id, hit.path) == ("claude-code", "s1", str(transcripts / "1.jsonl"))
    assert (hit.line_start, hit.line_end) == (5, 6)
    assert (hit.started_at, hit.ended_at) == (MONDAY + 20_000, MONDAY + 21_000)
    assert hit.score == pytest.approx(sum(hit.parts.values()), abs=1e-8)
    assert set(hit.parts) == OF_WORDS | {"cosine", "statement"}
    assert "redis" in hit.matched_terms
    assert hit.text == "> Tell me of queue in redis, part 2?\n\nHere is part 2 on queue in redis."
    assert mined.get(hit.drawer_id).exchange_id == mined.get(hit.exchange_id[:8]).exchange_id == hit.exchange_id


def test_every_drawer_in_scope_is_scored_by_both_sides(mined: Any) -> None:
    answer = ask(mined, "redis", limit=100)
    assert (answer.in_scope, answer.matched, len(answer.hits)) == (20, 4, 20)
    assert all(hit.parts["cosine"] != 0.0 for hit in answer.hits)


def test_answers_are_equal_to_the_bit_across_restarts(make_palace: Any, mined: Any, transcripts: Path) -> None:
    append(transcripts / "0.jsonl", turn(9, "One more of tides?", "A late line on the moon.", session="s0"))
    mined.mine([str(transcripts)], wait=True)
    first = ask(mined, "what of the moon and tides", limit=30)
    mined.close()
    second = ask(make_palace(), "what of the moon and tides", limit=30)
    assert first.hits == second.hits


def test_a_rebuilt_store_gives_the_same_order(make_palace: Any, mined: Any, tmp_path: Path, transcripts: Path) -> None:
    other = make_palace(tmp_path / "again")
    for number in (3, 0, 4, 2, 1):
        other.mine([str(transcripts / f"{number}.jsonl")], wait=True)
    first, second = (ask(one, "drift of colours in part 1", limit=20).hits for one in (mined, other))
    assert [(hit.drawer_id, round(hit.score, 5)) for hit in first] == [
        (hit.drawer_id, round(hit.score, 5)) for hit in second
    ]


def test_ties_are_broken_by_date_then_by_key(palace: Any, transcripts: Path) -> None:
    for number, at in enumerate((5, 9, 9)):
        lines = user(f"u{number}", "Same words?", session=f"s{number}", at=at)
        append(
            transcripts / f"{number}.jsonl", lines + reply(f"a{number}", f"Same. {number}", session=f"s{number}", at=at)
        )
    palace.mine([str(transcripts)], wait=True)
    hits = palace.recall(RecallQuery(text="same words", now=NOW)).hits
    scores = {round(hit.score, 3) for hit in hits}
    assert len(scores) == 1 or hits[0].score > hits[-1].score
    equal = [hit for hit in hits if hit.score == hits[0].score]
    dates = [hit.started_at for hit in equal]
    assert dates == sorted(dates, reverse=True)


@pytest.mark.parametrize(
    ("filters", "sessions"),
    [
        ({"session": "s1"}, {"s1"}),
        ({"agent": "claude-code"}, {"s0", "s1", "s2", "s3", "s4"}),
        ({"agent": ""}, {"s0", "s1", "s2", "s3", "s4"}),
        ({"project": "/work/p1/sub"}, {"s1", "s3"}),
        ({"project": "/work/p1/"}, {"s1", "s3"}),
        ({"project": "/work"}, {"s0", "s1", "s2", "s3", "s4"}),
        ({"project": "p1"}, set()),
        ({"project": "nothing"}, set()),
        ({"since": MONDAY + 30_000}, {"s0", "s1", "s2", "s3", "s4"}),
        ({"since": MONDAY + 31_000}, set()),
        ({"until": MONDAY}, set()),
    ],
)
def test_filters_apply_before_any_cut(mined: Any, filters: dict[str, Any], sessions: set[str]) -> None:
    answer = ask(mined, "colours of the front end", limit=1, **filters)
    assert {hit.session_id for hit in ask(mined, "part", limit=100, **filters).hits} == sessions
    assert len(answer.hits) == min(1, len(sessions))


def test_a_filter_reaches_hits_that_rank_low_without_it(mined: Any) -> None:
    assert ask(mined, "redis queue", limit=1, session="s4").hits[0].session_id == "s4"


def test_unknown_agent_is_a_clear_error(mined: Any) -> None:
    with pytest.raises(RequestError, match=r"known are .*claude-code.*codex"):
        ask(mined, "tides", agent="clippy")


def test_undated_drawers_are_outside_every_span(palace: Any, transcripts: Path) -> None:
    append(transcripts / "a.jsonl", turn(1, "Undated?", "Yes.").replace('"timestamp"', '"other"'))
    palace.mine([str(transcripts)], wait=True)
    assert len(ask(palace, "undated").hits) == 1
    assert ask(palace, "undated", since=0).hits == ()
    assert ask(palace, "undated", until=NOW).hits == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "\x00",
        "🌊🌊",
        "AND",
        "*",
        "^x",
        "NEAR(",
        "(python",
        'say "hi',
        "foo AND bar",
        "memory:safe",
        "'; DROP TABLE x",
    ],
)
def test_no_query_is_an_error(mined: Any, text: str) -> None:
    answer = ask(mined, text)
    assert answer.in_scope == 20
    assert len(answer.hits) == 10


def test_budget_keeps_the_first_hit_whole(mined: Any) -> None:
    every = ask(mined, "part of tides").hits
    assert len(ask(mined, "part of tides", max_chars=1).hits) == 1
    budget = len(every[0].text) + len(every[1].text)
    assert ask(mined, "part of tides", max_chars=budget).hits == every[:2]


def test_a_new_line_is_recalled_by_words_before_it_has_a_vector(
    make_palace: Any, transcripts: Path, wait_until: Callable[..., None]
) -> None:
    append(transcripts / "a.jsonl", "".join(turn(n, f"Old {n}?", f"Old answer {n}.") for n in range(30)))
    palace = make_palace()
    palace.mine([str(transcripts)], wait=True)
    hold = threading.Event()
    embedder = palace._models.wanted.state().embedder
    embed = embedder.embed_passages
    embedder.embed_passages = lambda texts, stop=None: (hold.wait(60), embed(texts, stop))[1]
    try:
        append(transcripts / "a.jsonl", turn(99, "Where is the zanzibar lever?", "Under the old desk."))
        palace.mine([str(transcripts)])
        wait_until(lambda: not palace._queue.pending())
        answer = ask(palace, "zanzibar lever")
        assert "zanzibar" in answer.hits[0].text
        assert (answer.freshness.vectors_used, answer.freshness.vectors_pending) == (True, 1)
        assert answer.freshness.vectors_reason == "some texts still lack a vector"
    finally:
        hold.set()


def test_before_the_first_vector_words_answer(
    make_palace: Any, transcripts: Path, wait_until: Callable[..., None]
) -> None:
    palace = make_palace()
    embedder = palace._models.wanted.state().embedder
    hold = threading.Event()
    embed = embedder.embed_passages
    embedder.embed_passages = lambda texts, stop=None: (hold.wait(60), embed(texts, stop))[1]
    try:
        assert ask(palace, "zanzibar").hits == ()
        append(transcripts / "a.jsonl", turn(99, "Where is the zanzibar lever?", "Under the old desk."))
        palace.mine([str(transcripts)])
        wait_until(lambda: not palace._queue.pending())
        answer = ask(palace, "zanzibar lever")
        assert set(answer.hits[0].parts) == OF_WORDS
        assert answer.freshness.vectors_used is False
    finally:
        hold.set()


def test_without_a_model_words_answer_and_say_so(mined: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALACE_MODELS", str(tmp_path / "none"))
    palace = open_read_only(mined._config)
    try:
        answer = ask(palace, "redis queue")
        assert answer.hits[0].session_id == "s1"
        assert set(answer.hits[0].parts) == OF_WORDS
        assert not answer.freshness.vectors_used
        assert "palace-daemon model install" in answer.freshness.vectors_reason
    finally:
        palace.close()


def test_read_only_palace_answers_beside_the_live_one(mined: Any) -> None:
    embedder = mined._models.wanted.state().embedder
    palace = open_read_only(mined._config, embedder=embedder)
    assert ask(palace, "redis queue").hits == ask(mined, "redis queue").hits
    assert palace.timeline("s1") == mined.timeline("s1")
    assert palace.totals().exchanges == 20
    palace.close()


@pytest.mark.parametrize("dim", [64, 384])
def test_vectors_of_another_model_take_no_part(mined: Any, dim: int) -> None:
    palace = open_read_only(mined._config, embedder=HashingEmbedder(model_id="other", dim=dim))
    try:
        answer = ask(palace, "redis queue part 2")
        assert answer.hits[0].session_id == "s1"
        assert set(answer.hits[0].parts) == OF_WORDS
        assert not answer.freshness.vectors_used
        assert answer.freshness.vectors_reason == "the store has vectors of hashing, but other is loaded"
    finally:
        palace.close()


def test_read_only_palace_needs_a_store(tmp_path: Path, make_palace: Any) -> None:
    config = make_palace(tmp_path / "x")._config
    import msgspec  # noqa: PLC0415

    with pytest.raises(StoreError, match="there is no store"):
        open_read_only(msgspec.structs.replace(config, data_dir=tmp_path / "empty"))


def test_a_cancelled_question_stops(mined: Any) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(CancelledError):
        mined.recall(RecallQuery(text="tides", now=NOW), stop)


def test_unknown_ids_say_so(mined: Any) -> None:
    with pytest.raises(NotFoundError):
        mined.get("ffffffffffffffff")
    with pytest.raises(NotFoundError):
        mined.get("")
    with pytest.raises(NotFoundError):
        mined.timeline("nothing-here")


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_a_clear_error(mined: Any, limit: int) -> None:
    with pytest.raises(RequestError, match="limit"):
        ask(mined, "tides", limit=limit)


@pytest.mark.parametrize("name", ["\ud800", "s1\udfff", "0123456789\ud83d"])
def test_names_that_are_no_unicode_are_unknown_ones(mined: Any, name: str) -> None:
    assert ask(mined, "tides", session=name).hits == ()
    assert ask(mined, "tides", project=name).hits == ()
    with pytest.raises(RequestError, match="unknown agent"):
        ask(mined, "tides", agent=name)
    with pytest.raises(NotFoundError):
        mined.get(name)
    with pytest.raises(NotFoundError):
        mined.timeline(name)
    for listed in (mined.sessions, mined.sources):
        with pytest.raises(RequestError, match="unknown agent"):
            listed(agent=name)
    assert mined.sessions(project=name) == mined.sources(state=name) == ()


def test_a_session_whose_id_is_no_unicode_is_found_by_it(palace: Any, transcripts: Path) -> None:
    lines = turn(1, "Where is the lever?", "Under the desk.", session="odd").replace('"odd"', '"odd\\ud800"')
    append(transcripts / "a.jsonl", lines)
    palace.mine([str(transcripts)], wait=True)
    assert len(palace.timeline("odd\ud800")) == len(ask(palace, "lever", session="odd\ud800").hits) == 1


def test_many_threads_get_equal_answers_while_mining_goes_on(mined: Any, transcripts: Path) -> None:
    faults: list[BaseException] = []

    def questions() -> None:
        try:
            for _ in range(15):
                answer = ask(mined, "redis queue part 2", session="s1", limit=1)
                assert answer.hits[0].line_start == 5
        except BaseException as exc:  # noqa: BLE001 - shown by the assertion below
            faults.append(exc)

    threads = [threading.Thread(target=questions) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(10):
        append(transcripts / "9.jsonl", turn(number, f"New {number}?", "Yes.", session="s9"))
        mined.mine([str(transcripts)])
    for thread in threads:
        thread.join(60)
    assert faults == []


@pytest.mark.parametrize(
    ("project", "wanted", "expected"),
    [
        ("/work/app", "/work/app", True),
        ("/work/app", "/work/app/", True),
        ("/work/app/sub", "/work/app", True),
        ("/work/application", "/work/app", False),
        ("/work/app", "app", True),
        ("/work/app", "pp", False),
        ("C:\\work\\app", "app", True),
        ("C:\\work\\app", "C:\\work", True),
        ("", "app", False),
        ("/", "/", True),
        ("/work/app", "/", True),
        ("C:\\work\\app", "C:\\", True),
        ("/work/app", " app ", True),
        ("/work/app", "app/", True),
        ("/work/app", " ", False),
        ("", "/", False),
    ],
)
def test_projects_are_named_by_path_or_last_name(project: str, wanted: str, expected: bool) -> None:
    assert is_project(project, wanted) is expected
