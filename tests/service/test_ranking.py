"""What the signals do for real questions, and that reading only candidates closely changes no answer."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.claude import append, turn

from palace_daemon import places
from palace_daemon.config import Config, WatchConfig
from palace_daemon.core import rank
from palace_daemon.embed import minilm, registry
from palace_daemon.model import Hit, RecallAnswer, RecallQuery
from palace_daemon.service import cosines, ranking
from palace_daemon.service.build import build
from palace_daemon.service.palace import LivePalace
from palace_daemon.watch.scripted import ScriptedNotifier

MONDAY = 1_770_000_000_000  # 2026-02-02T02:40:00Z: second 0 of the transcripts
DAY_MS = 86_400_000
NOW = MONDAY + 40 * DAY_MS

FULL = rank.Weights(cosine=0.65, bm25=0.35, statement=0.5, wish=0.6, sentence=0.2, date=0.12)
"""Every signal has a say, whatever the product gives it."""
SENTENCES = rank.Weights(cosine=0.1, bm25=0.1, statement=0.0, wish=0.0, sentence=1.0, date=0.0)
"""What only close reading tells has the largest say."""


def ask(palace: Any, text: str, **fields: Any) -> RecallAnswer:
    answer: RecallAnswer = palace.recall(RecallQuery(text=text, now=NOW, **fields))
    return answer


# ----------------------------------------------------------------------------------------------- exact, and to the bit


@pytest.fixture
def garden(palace: Any, transcripts: Path) -> Any:
    """A hundred exchanges of few words, in one breath or apart, of projects and dates, some without a vector yet."""
    dice = random.Random(8)
    words = ["lamp", "kiln", "yard", "gate", "moss", "fern", "pond", "rake"]
    for session in range(10):
        lines = ""
        for number in range(10):
            one, two, three = dice.choices(words, k=3)
            said = dice.choice([f"We moved the {one}.", f"I always prefer the {one}.", f"Where is the {one}?", ""])
            asked = f"How of the {two} and the {three}? {said}"
            answer = (" " if dice.random() < 0.1 else ". ").join(dice.choices(words, k=dice.randrange(1, 30)))
            lines += turn(number, asked, answer, session=f"s{session}")
        moved = lines.replace("/nowhere/tidepool", f"/work/{words[session % 3]}").replace("-02-02T", f"-02-1{session}T")
        append(transcripts / f"{session}.jsonl", moved)
    palace.mine([str(transcripts)], wait=True)
    store = palace._store
    store.write(lambda c: c.execute("DELETE FROM vectors WHERE substr(text_hash,1,1) < x'20'"))
    return palace


QUESTIONS = [
    "lamp",
    "the moss and the fern of the pond",
    "moss fern pond rake gate",
    "which kiln should I rake?",
    "what did we do with the gate 30 days ago?",
    "can you suggest a lamp for the yard",
    "nothing that stands anywhere",
    "",
]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("weights", [rank.WEIGHTS, FULL, SENTENCES])
def test_reading_candidates_closely_gives_the_answer_of_reading_everything(
    garden: Any, question: str, weights: rank.Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    garden._recall._weights = weights
    for limit in (1, 3, 10):
        found: dict[int, tuple[Hit, ...]] = {}
        for candidates in (1, 10_000):
            monkeypatch.setattr(ranking, "CANDIDATES_MIN", candidates)
            found[candidates] = ask(garden, question, limit=limit).hits
        assert found[1] == found[10_000]
        assert len(found[1]) == limit


def test_not_everything_is_read_closely(garden: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "CANDIDATES_MIN", 1)
    read: list[int] = []
    whole = ranking.Ranking.read

    def counted(self: ranking.Ranking, rows: ranking.Rows, worded: Any = None) -> ranking.Close:
        read.append(len(rows))
        return whole(self, rows, worded)

    monkeypatch.setattr(ranking.Ranking, "read", counted)
    counts = [ask(garden, question, limit=1).in_scope for question in QUESTIONS[:5]]
    assert set(counts) == {100}
    assert min(read) < 100


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_score_is_above_its_bound(garden: Any, question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    garden._recall._weights = FULL
    made: list[ranking.Ranking] = []
    begin = ranking.Ranking.__init__

    def noted(self: ranking.Ranking, *arguments: Any) -> None:
        begin(self, *arguments)
        made.append(self)

    monkeypatch.setattr(ranking.Ranking, "__init__", noted)
    answer = ask(garden, question, limit=100)
    (one,) = made
    close = one.best(100)
    assert len(close.rows) == 100
    assert (close.totals <= one.bound[close.rows] + cosines.ROUNDING).all()
    assert [hit.score for hit in answer.hits] == pytest.approx(sorted(close.totals.tolist(), reverse=True), abs=1e-8)


@pytest.mark.parametrize("question", QUESTIONS)
def test_parts_are_those_that_have_a_say_and_add_up(garden: Any, question: str) -> None:
    garden._recall._weights = FULL
    is_request, has_date = "suggest" in question or "should" in question, "ago" in question
    expected = {"bm25", "sentence"} | ({"cosine", "statement"} if question else set())
    expected |= ({"wish"} if is_request else set()) | ({"date"} if has_date else set())
    for hit in ask(garden, question, limit=100).hits:
        assert set(hit.parts) == expected
        assert hit.score == pytest.approx(sum(hit.parts.values()), abs=1e-8)


# --------------------------------------------------------------------------------------------------- projects and dates


def test_a_question_that_names_a_project_lifts_its_drawers(palace: Any, transcripts: Path) -> None:
    for number, project in enumerate(("tidepool", "shoal", "lagoon")):
        lines = turn(number, "Which queue did we take?", "We took the small queue.", session=project)
        append(transcripts / f"{project}.jsonl", lines.replace("/nowhere/tidepool", f"/work/{project}"))
    palace.mine([str(transcripts)], wait=True)
    plain = [hit.session_id for hit in ask(palace, "which queue did we take").hits]
    assert plain == ["lagoon", "shoal", "tidepool"]  # equal but for their dates
    for project in plain:
        answer = ask(palace, f"which queue did we take in {project}")
        assert answer.hits[0].session_id == project
        assert answer.hits[0].score > answer.hits[1].score
        assert project in answer.hits[0].matched_terms
        assert len(answer.hits) == 3


def test_a_date_in_the_question_lifts_and_never_filters(palace: Any, transcripts: Path) -> None:
    for number, day in enumerate(("02", "12", "22")):
        lines = turn(number, "What of the lamp?", "The lamp is in the yard.", session=f"day{day}")
        append(transcripts / f"{day}.jsonl", lines.replace("2026-02-02T", f"2026-02-{day}T"))
    palace.mine([str(transcripts)], wait=True)
    assert [hit.session_id for hit in ask(palace, "what of the lamp").hits] == ["day22", "day12", "day02"]
    answer = ask(palace, "what of the lamp 30 days ago")
    assert answer.hits[0].session_id == "day12"
    assert answer.in_scope == len(answer.hits) == 3
    assert answer.hits[0].parts["date"] > 0.0
    assert "date" not in ask(palace, "what of the lamp").hits[0].parts


def test_a_question_of_frame_words_and_a_date_finds_that_day(palace: Any, transcripts: Path) -> None:
    for number, (day, asked) in enumerate({"02": "What did we do in February on the 12th?", "12": "Bolts?"}.items()):
        lines = turn(number, asked, "We did what we do.", session=f"day{day}")
        append(transcripts / f"{day}.jsonl", lines.replace("2026-02-02T", f"2026-02-{day}T"))
    palace.mine([str(transcripts)], wait=True)
    for question in ("what did we do on February 12?", "what happened on 2026-02-12"):
        assert ask(palace, question).hits[0].session_id == "day12"


# ------------------------------------------------------------------------------------------------------ the real model


@pytest.fixture
def tell(tmp_path: Path, transcripts: Path) -> Iterator[Callable[..., LivePalace]]:
    """``tell((session, question, answer), ...)``: a palace with the real model that was told these exchanges."""
    made: list[LivePalace] = []

    def told(*exchanges: tuple[str, str, str]) -> LivePalace:
        watch = WatchConfig(defaults=False, paths=(str(transcripts),))
        config = Config(data_dir=tmp_path / "data", watch=watch)
        model = minilm.load(registry.DEFAULT_MODEL, places.models_dir())
        palace = build(config, embedder=model, notifier=ScriptedNotifier(), clock=lambda: NOW)
        made.append(palace)
        for number, (session, question, answer) in enumerate(exchanges):
            append(transcripts / f"{session}.jsonl", turn(number, question, answer, session=session))
        palace.mine([str(transcripts)], wait=True)
        return palace

    yield told
    for palace in made:
        palace.close()


PASTIMES = (
    ("trip", "How far is it to the lake?", "About forty kilometres by the old road."),
    ("bike", "My bike chain slips. What can I do about it?", "Clean it, oil it, and check the rear derailleur."),
    ("taxes", "When are the forms due?", "At the end of May, unless you ask for more time."),
    ("code", "Why is this query slow?", "It reads the whole table, since the column has no index."),
    ("film", "Who made that film on whales?", "A small crew from Iceland, over three summers."),
)


@pytest.mark.model
def test_a_statement_in_a_long_exchange_wins_over_a_longer_text_with_more_of_the_words(
    tell: Callable[..., LivePalace],
) -> None:
    told = (
        "Can you draft a letter to the council on the noise of the road works?\n\nIt should be polite, it should name "
        "the three nights of last week, and it should ask for a fixed end. Besides, the job queue runs on Redis now. "
        "The neighbours signed it too, nine of them, and the school would join if it helps."
    )
    letter = " ".join(
        "Dear members of the council, for three nights the works on the road kept the street awake, and we ask you to "
        f"name a day by which they end, point {n}."
        for n in range(12)
    )
    fair = (
        "The choir sang of spring. A gardener does his job in the rain. What grows on clay? Roses do, now and then. "
        "Foxes run across the lawn at night. The queue at the gate was long. Cakes were sold, a dog barked, and the "
        "mayor wore a green hat. Nobody won the raffle. "
    )
    palace = tell(("letter", told, letter), ("fair", "How was the day?", fair * 2), *PASTIMES)
    question = "what does the job queue run on now?"
    first, second, *_ = ask(palace, question).hits
    assert (first.session_id, second.session_id) == ("letter", "fair")
    assert len(set(first.matched_terms)) < len(set(second.matched_terms))
    palace._recall._weights = msgspec.structs.replace(rank.WEIGHTS, statement=0.0)
    assert ask(palace, question).hits[0].session_id == "fair"


@pytest.mark.model
def test_a_standing_preference_is_found_by_a_request_that_shares_no_word(tell: Callable[..., LivePalace]) -> None:
    palace = tell(
        ("diet", "I am a vegetarian, by the way.", "Good."),
        ("pan", "Which pan burnt during supper?", "The thin one from the market, and we threw it out; the lid fits."),
        *PASTIMES,
    )
    question = "what should we cook for dinner tonight?"
    first = ask(palace, question).hits[0]
    assert first.session_id == "diet"
    assert first.matched_terms == ()
    assert first.parts["wish"] > 0.0
    palace._recall._weights = msgspec.structs.replace(rank.WEIGHTS, wish=0.0)
    assert ask(palace, question).hits[0].session_id == "pan"


@pytest.mark.model
def test_a_question_that_is_no_request_asks_for_no_wishes(tell: Callable[..., LivePalace]) -> None:
    palace = tell(("diet", "I am a vegetarian, by the way.", "Good."), *PASTIMES)
    for question, is_request in (("what should we cook tonight?", True), ("which film did we see on whales?", False)):
        assert ("wish" in ask(palace, question).hits[0].parts) is is_request


def test_a_date_in_digits_counts_as_a_word_only_where_a_drawer_holds_it(palace: Any, transcripts: Path) -> None:
    lines = turn(0, "Which version of the billing client?", "The billing client is pinned to 2023-06-01.")
    lines += turn(1, "Which version of the mail client?", "The mail client is pinned to 2024-11-20.")
    append(transcripts / "a.jsonl", lines)
    palace.mine([str(transcripts)], wait=True)
    named = ask(palace, "what is pinned to 2024-11-20?", limit=1).hits[0]
    assert "mail" in named.text
    assert "2024-11-20" in named.matched_terms
    plain, dated = (ask(palace, f"mail client{when}").hits[0] for when in ("", " on 2025-03-04"))
    assert dated.parts["bm25"] == pytest.approx(plain.parts["bm25"], abs=0.01)
    assert dated.parts["sentence"] == pytest.approx(plain.parts["sentence"], abs=0.01)
