"""What says the same is listed once, and nothing else is hidden by it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from support.claude import append, reply, turn, user

from palace_daemon.core import folding
from palace_daemon.model import Hit, RecallAnswer, RecallQuery
from palace_daemon.service import hits as service_hits
from palace_daemon.service import ranking
from palace_daemon.service.build import open_read_only

NOW = 1_800_000_000_000


def ask(palace: Any, text: str, **fields: Any) -> RecallAnswer:
    answer: RecallAnswer = palace.recall(RecallQuery(text=text, now=NOW, **fields))
    return answer


def places(hit: Hit) -> list[str]:
    return [one.session_id for one in hit.also_in]


def mine(palace: Any, transcripts: Path, said: dict[str, tuple[str, str]]) -> None:
    """Store one exchange a session, a minute after the one before."""
    for number, (session, (question, answer)) in enumerate(said.items()):
        lines = user(f"u{session}", question, session=session, at=60 * number)
        append(
            transcripts / f"{session}.jsonl",
            lines + reply(f"a{session}", answer, session=session, at=60 * number + 1),
        )
    palace.mine([str(transcripts)], wait=True)


@pytest.fixture
def repeated(palace: Any, transcripts: Path) -> Any:
    mine(
        palace,
        transcripts,
        {
            "s1": ("Run the tests.", "All 12 tests pass."),
            "s2": ("run the tests", "All 12 tests  pass"),
            "s3": ("Run the tests.", "All 13 tests pass."),
            "s4": ("Run the tests.", "Not all 12 tests pass."),
            "s5": ("Run the tests.", "All 12 tests pass."),
            "s6": ("Where do the tides come from?", "From the moon."),
        },
    )
    return palace


def test_the_same_words_in_several_sessions_are_one_hit_with_all_its_places(repeated: Any) -> None:
    plain = ask(repeated, "do all 12 tests pass", limit=10)
    folded = ask(repeated, "do all 12 tests pass", limit=10, fold=True)
    assert len(plain.hits) == 6
    assert [hit.also_in for hit in plain.hits] == [()] * 6
    assert {hit.session_id: places(hit) for hit in folded.hits} == {"s5": ["s2", "s1"], "s3": [], "s4": [], "s6": []}
    (best,) = [hit for hit in folded.hits if hit.session_id == "s5"]
    by_session = {hit.session_id: hit for hit in plain.hits}
    for also in best.also_in:
        hidden = by_session[also.session_id]
        assert (also.exchange_id, also.started_at, also.path) == (hidden.exchange_id, hidden.started_at, hidden.path)
        assert repeated.get(also.exchange_id).session_id == also.session_id
    assert best.also_in_count == 2


def test_what_says_the_contrary_hides_nothing(palace: Any, transcripts: Path) -> None:
    merge = "erge the billing branch before the audit team has signed the quarterly report of the region."
    mine(
        palace,
        transcripts,
        {
            "s1": (f"Do not m{merge}", "Understood, I will keep to it."),
            "s2": (f"M{merge}", "Understood, I will keep to it."),
            "s3": ("How do I drop the billing branch?", "git branch -d billing"),
            "s4": ("How do I drop the billing branch?", "git branch -D billing"),
            "s5": ("Silence the billing log.", "```toml\n# debug = true\n```"),
            "s6": ("Silence the billing log.", "```toml\ndebug = true\n```"),
        },
    )
    hits = ask(palace, "the billing branch and its log", fold=True).hits
    assert {hit.session_id: places(hit) for hit in hits} == {f"s{number}": [] for number in range(1, 7)}


def test_folding_changes_no_score_and_no_order(repeated: Any) -> None:
    plain = ask(repeated, "do all 12 tests pass").hits
    folded = ask(repeated, "do all 12 tests pass", fold=True).hits
    kept = {hit.drawer_id: hit for hit in folded}
    assert [hit.drawer_id for hit in folded] == [hit.drawer_id for hit in plain if hit.drawer_id in kept]
    for hit in plain:
        if hit.drawer_id in kept:
            assert (hit.score, hit.parts) == (kept[hit.drawer_id].score, kept[hit.drawer_id].parts)


def test_folding_comes_before_the_limit(repeated: Any) -> None:
    two = ask(repeated, "do all 12 tests pass", fold=True, limit=2).hits
    assert len(two) == 2
    assert len({folding.said(hit.text) for hit in two}) == 2


def test_totals_count_what_is_folded(repeated: Any) -> None:
    plain, folded = (ask(repeated, "tests", fold=fold) for fold in (False, True))
    assert (plain.in_scope, plain.matched) == (folded.in_scope, folded.matched) == (6, 5)


def test_folding_is_off_unless_it_is_asked_for() -> None:
    # What forgets and what measures asks without it: a folded exchange would be kept, or count as not found.
    assert RecallQuery(text="q", now=NOW).fold is False


def test_words_alone_fold_as_well(repeated: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALACE_MODELS", str(tmp_path / "none"))
    palace = open_read_only(repeated._config)
    try:
        answer = ask(palace, "do all 12 tests pass", fold=True)
        assert not answer.freshness.vectors_used
        assert sorted(len(hit.also_in) for hit in answer.hits) == [0, 0, 0, 2]
    finally:
        palace.close()


def test_drawers_of_one_exchange_are_no_repetitions_of_each_other(palace: Any, transcripts: Path) -> None:
    paragraph = "The gauge drifts by a millimetre a day and must be set anew. " * 12
    answer = "\n\n".join([paragraph] * 9)
    lines = "".join(turn(n, f"Part {n}?", "Yes.") for n in range(3))
    append(transcripts / "a.jsonl", lines + turn(9, "How does the gauge drift?", answer))
    palace.mine([str(transcripts)], wait=True)
    plain = ask(palace, "gauge drift", limit=50).hits
    long = [hit for hit in plain if hit.drawer_id.startswith(plain[0].exchange_id)]
    assert len(long) > 2
    assert len({hit.text for hit in long}) < len(long), "some of its drawers are equal"
    assert ask(palace, "gauge drift", limit=50, fold=True).hits == plain


def test_a_copy_of_a_long_answer_folds_drawer_by_drawer(palace: Any, transcripts: Path) -> None:
    answer = "\n\n".join(f"Step {n}: turn the gauge by {n} and note the level. " * 14 for n in range(6))
    for session in ("s1", "s2"):
        lines = "".join(turn(n, f"Part {n} of {session}?", f"Yes, {session}.", session=session) for n in range(3))
        at = 90 + int(session[1])
        append(
            transcripts / f"{session}.jsonl",
            lines
            + user(f"u{session}", "How do I set the gauge?", session=session, at=at)
            + reply(f"a{session}", answer, session=session, at=at),
        )
    palace.mine([str(transcripts)], wait=True)
    plain = [hit for hit in ask(palace, "set the gauge", limit=50).hits if "gauge" in hit.text]
    folded = [hit for hit in ask(palace, "set the gauge", limit=50, fold=True).hits if "gauge" in hit.text]
    assert len(plain) == 2 * len(folded) > 4
    assert {hit.exchange_id for hit in folded} | {one.exchange_id for hit in folded for one in hit.also_in} == {
        hit.exchange_id for hit in plain
    }
    assert all(hit.also_in_count == 1 for hit in folded)


def test_what_is_folded_does_not_depend_on_how_many_are_read_closely(
    palace: Any, transcripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = ("the tides", "the moon", "the tides and the moon", "a gauge")
    said = {
        f"s{number}": (f"Tell me of {topics[number % 4]}.", f"It is {('high', 'low')[number % 3 == 0]}.")
        for number in range(60)
    }
    mine(palace, transcripts, said)
    plain = ask(palace, "how high are the tides", limit=100).hits
    entries = [folding.Entry(at, at) for at in range(len(plain))]
    texts = [folding.said(hit.text) for hit in plain]
    for candidates, limit in itertools.product((1, 4, 200), (1, 2, 3, 5, 30)):
        monkeypatch.setattr(ranking, "CANDIDATES_MIN", candidates)
        expected = folding.shortlist(entries, texts.__getitem__, limit=limit, per_group=1)
        chosen = [one for group in expected.groups.values() for one in group]
        answer = ask(palace, "how high are the tides", limit=limit, fold=True)
        assert [hit.drawer_id for hit in answer.hits] == [plain[one.at].drawer_id for one in chosen]
        assert [hit.also_in_count for hit in answer.hits] == [len(one.folded) for one in chosen]
        for hit, one in zip(answer.hits, chosen, strict=True):
            folded = [plain[at].exchange_id for at in one.folded]
            assert [also.exchange_id for also in hit.also_in] == folded[: service_hits.ALSO_IN_MAX]


def test_of_hundreds_of_repetitions_some_are_listed_and_all_counted(palace: Any, transcripts: Path) -> None:
    lines = "".join(turn(number, "Go on.", "Done.") for number in range(120))
    append(transcripts / "a.jsonl", lines + turn(500, "What next?", "We go on with the harbour."))
    palace.mine([str(transcripts)], wait=True)
    hits = ask(palace, "go on", fold=True, limit=5).hits
    assert len(hits) == 2
    (many,) = [hit for hit in hits if hit.also_in_count]
    assert (many.also_in_count, len(many.also_in)) == (119, service_hits.ALSO_IN_MAX)
    assert len({one.exchange_id for one in many.also_in} | {many.exchange_id}) == service_hits.ALSO_IN_MAX + 1
