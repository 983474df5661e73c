"""Questions made of a store: deterministic, answered through the shipped recall, and never shown."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from palace_daemon import bench
from palace_daemon.bench import probes, probes_report
from palace_daemon.bench.haystack import build_store
from palace_daemon.bench.probes_sample import WORDS_MAX, WORDS_MIN, Told, sample, without_words
from palace_daemon.bench.sets.base import Haystack, Session, Turn
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.errors import ConfigError, StoreError
from palace_daemon.service.build import token_counter
from palace_daemon.store.sqlite import database_path
from palace_daemon.store.store import ReadOnlyStore

THINGS = ("otter", "lantern", "gravel", "violin", "harbour", "saddle", "walnut", "compass", "thimble", "glacier")
PLACES = ("attic", "orchard", "tunnel", "library", "meadow", "cellar", "station", "pier", "quarry", "chapel")


def told_sentence(number: int) -> str:
    thing, place = THINGS[number % 10], PLACES[number // 10 % 10]
    return f"please put the {thing} number {number} behind the {place} before anybody comes home"


def haystack(count: int) -> Haystack:
    sessions = tuple(
        Session(
            session_id=f"s{number}",
            started_at=1_700_000_000_000 + number * 1_000_000,
            turns=(
                Turn(role="user", text=f"{told_sentence(number)}."),
                Turn(role="assistant", text=f"The {THINGS[number % 10]} stands there now, and door {number} is shut."),
            ),
        )
        for number in range(count)
    )
    return Haystack(haystack_id="made", sessions=sessions)


@pytest.fixture(scope="module")
def store_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory of 60 exchanges, with the vectors of the hashing embedder; no test writes to it."""
    folder = tmp_path_factory.mktemp("data")
    build_store(haystack(60), folder, embedder=HashingEmbedder(), counter=token_counter()).close()
    return folder


@pytest.fixture(scope="module")
def store(store_dir: Path) -> Iterator[ReadOnlyStore]:
    opened = ReadOnlyStore(database_path(store_dir))
    yield opened
    opened.close()


def measured(store: ReadOnlyStore, *models: HashingEmbedder, **changes: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {"count": 20, "seed": 1, "drop": 0.3} | changes
    return probes.measure(store, models or [HashingEmbedder()], **settings)


# ------------------------------------------------------------------------------------------------------- the sample


def told(row: int, user: str, reply: str = "") -> Told:
    return Told(row, f"id{row}", user, reply)


def test_a_share_of_the_words_is_left_out_and_the_others_keep_their_order() -> None:
    words = [f"word{number}" for number in range(20)]
    found = without_words(" ".join(words), 0.3, random.Random(1)).split()
    assert len(found) == 14
    assert found == [word for word in words if word in set(found)]
    assert without_words(" ".join(words), 0.0, random.Random(1)).split() == words


def test_something_is_left_whatever_the_share_and_long_sentences_are_asked_by_their_beginning() -> None:
    assert without_words("one two", 0.99, random.Random(1)) in {"one", "two"}
    found = without_words(" ".join(f"w{number}" for number in range(100)), 0.0, random.Random(1)).split()
    assert found == [f"w{number}" for number in range(WORDS_MAX)]


def test_scripts_without_spaces_lose_characters() -> None:
    text = "\u6211\u4eec\u628a\u961f\u5217\u642c\u5230\u53e6\u4e00\u53f0\u673a\u5668\u4e0a"
    found = without_words(text, 0.5, random.Random(1))
    assert len(found) == len(text) - round(0.5 * len(text))
    assert set(found) <= set(text)


def test_only_sentences_of_enough_words_that_one_exchange_alone_holds_are_asked() -> None:
    shared = "this sentence stands in every one of these exchanges"
    texts = {
        1: told(1, f"{shared}. only the first of them says this one thing here"),
        2: told(2, shared, "too short. 1 2 3 4 5 6 7 8 9"),
        3: told(3, "", f"{shared}\nonly the third of them replies with these words"),
    }
    found = sample(sorted(texts), texts.__getitem__, count=10, seed=1, drop=0.0)
    assert {(one.row, one.side, one.text) for one in found} == {
        (1, "user", "only the first of them says this one thing here"),
        (3, "reply", "only the third of them replies with these words"),
    }
    assert all(len(one.text.split()) >= WORDS_MIN for one in found)


def test_what_is_asked_about_an_exchange_depends_on_seed_and_exchange_alone() -> None:
    def read(row: int) -> Told:
        return told(row, f"{told_sentence(row)}. {told_sentence(row + 500)}.")

    few = sample(range(20), read, count=20, seed=1, drop=0.3)
    many = {one.row: one for one in sample(range(200), read, count=200, seed=1, drop=0.3)}
    assert len(few) == 20
    assert all(many[one.row] == one for one in few)
    assert {one.text for one in sample(range(20), read, count=20, seed=2, drop=0.3)} != {one.text for one in few}


def test_no_more_is_read_than_is_needed() -> None:
    reads: list[int] = []

    def read(row: int) -> Told:
        reads.append(row)
        return told(row, told_sentence(row))

    assert len(sample(range(10_000), read, count=5, seed=1, drop=0.3)) == 5
    assert len(reads) <= 20


# ------------------------------------------------------------------------------------------------------- the store


def test_every_question_is_found_where_no_word_is_missing(store: ReadOnlyStore) -> None:
    report = measured(store, drop=0.0)
    rows = {row["ranker"]: row for row in report["rows"]}
    assert report["asked"] == 20
    assert rows["words"]["recallAny"]["1"] == {"count": 20, "share": 1.0}
    assert rows["hybrid"]["recallAny"]["1"]["count"] == 20
    assert rows["vectors"]["recallAny"]["10"]["count"] >= 15
    assert rows["words"]["mrr"] == 1.0


def test_the_whole_store_is_searched_where_its_own_model_is_asked(store: ReadOnlyStore) -> None:
    report = measured(store, part_exchanges=1)
    assert (report["isWhole"], report["exchanges"], report["searched"]) == (True, 60, 60)
    (made,) = report["models"]
    assert made["embedded"] == 0 < made["fromStore"]


def test_models_without_vectors_are_compared_on_one_part_with_those_that_have_them(store: ReadOnlyStore) -> None:
    other = HashingEmbedder(dim=64, model_id="small")
    report = measured(store, HashingEmbedder(), other, part_exchanges=40)
    assert (report["isWhole"], report["searched"]) == (False, 40)
    own, foreign = report["models"]
    assert own["embedded"] == 0
    assert foreign["fromStore"] == 0
    assert own["fromStore"] == foreign["embedded"] >= 40
    assert [(row["ranker"], row["model"]) for row in report["rows"]] == [
        ("words", ""),
        *(("vectors", "hashing"), ("hybrid", "hashing"), ("vectors", "small"), ("hybrid", "small")),
    ]
    assert "againstFirstModel" not in report["rows"][1]
    assert set(report["rows"][3]["againstFirstModel"]) == {"gained", "lost", "pValue"}


def test_vectors_laid_over_a_part_rank_as_the_stored_ones_do(store: ReadOnlyStore) -> None:
    """The part is the whole here, so the vectors made for it must give what the store's own give."""

    class Renamed(HashingEmbedder):
        """Makes the same vectors, but the store has none under its name."""

    twin = Renamed(model_id="twin")
    whole = measured(store)
    part = measured(store, twin, part_exchanges=60)
    assert (whole["isWhole"], part["isWhole"], part["searched"]) == (True, False, 60)
    assert part["models"][0]["fromStore"] == 0
    for one, other in zip(whole["questions"], part["questions"], strict=True):
        assert list(one["ranks"].values()) == list(other["ranks"].values())


def test_an_exchange_folded_into_its_double_counts_as_found(tmp_path: Path) -> None:
    twin = Session(
        session_id="twin",
        started_at=1_700_000_900_000,
        turns=tuple(Turn(role=one.role, text=one.text.title()) for one in haystack(1).sessions[0].turns),
    )
    made = haystack(20)
    doubled = Haystack(haystack_id="made", sessions=(*made.sessions, twin))
    build_store(doubled, tmp_path, embedder=HashingEmbedder(), counter=token_counter()).close()
    store = ReadOnlyStore(database_path(tmp_path))
    try:
        report = measured(store, count=21, drop=0.0)
    finally:
        store.close()
    assert report["asked"] == 21, "spelled otherwise, the doubles are two sentences"
    assert all(question["ranks"]["words"] == 1 for question in report["questions"])


def test_the_same_store_and_seed_give_the_same_report(store: ReadOnlyStore) -> None:
    assert measured(store) == measured(store)
    assert measured(store)["questions"] != measured(store, seed=2)["questions"]


def test_nothing_of_the_texts_is_told(store: ReadOnlyStore) -> None:
    report = measured(store, HashingEmbedder(), HashingEmbedder(dim=64, model_id="small"))
    shown = json.dumps(report) + probes_report.table(report)
    words = set(re.findall(r"[a-z]+", shown.lower()))
    assert not words & {*THINGS, *PLACES, "anybody", "behind", "door"}
    assert len(report["questions"]) == 20


def test_the_store_is_not_written_to(store_dir: Path, store: ReadOnlyStore) -> None:
    before = database_path(store_dir).read_bytes()
    measured(store, HashingEmbedder(dim=64, model_id="small"))
    assert database_path(store_dir).read_bytes() == before


def test_a_store_that_is_open_for_writing_can_be_asked(tmp_path: Path) -> None:
    stored = build_store(haystack(20), tmp_path, embedder=HashingEmbedder(), counter=token_counter())
    reader = ReadOnlyStore(database_path(tmp_path))
    try:
        with_writer = measured(reader)
        stored.store.use_model("another@1")
        assert measured(reader)["isWhole"] is False, "what was written meanwhile is seen by the next run"
    finally:
        reader.close()
        stored.close()
    assert (with_writer["isWhole"], with_writer["asked"]) == (True, 20)


def test_too_few_exchanges_are_named(tmp_path: Path) -> None:
    build_store(haystack(5), tmp_path, embedder=HashingEmbedder(), counter=token_counter()).close()
    store = ReadOnlyStore(database_path(tmp_path))
    try:
        with pytest.raises(ConfigError, match="of 5 exchanges 5 hold a sentence to ask for, and 20 must"):
            measured(store)
        assert measured(store, count=5)["asked"] == 5
    finally:
        store.close()


def test_the_table_tells_what_was_searched_and_what_moved(store: ReadOnlyStore) -> None:
    whole = probes_report.table(measured(store))
    assert "20 sentences of the store, 30% of their words left out (seed 1)" in whole
    assert "the whole store, 60 exchanges" in whole
    part = probes_report.table(measured(store, HashingEmbedder(), HashingEmbedder(64, "small"), part_exchanges=40))
    assert "40 of 60 exchanges, since a model lacks vectors" in part
    assert re.search(r"^vectors, small .* R@1 \+\d+ -\d+ \(p ", part, re.MULTILINE)


# ------------------------------------------------------------------------------------------------------- the command


def test_bad_numbers_and_a_missing_store_are_refused(tmp_path: Path) -> None:
    for bad in (["--count", "0"], ["--drop", "1"], ["--drop", "-0.1"], ["--part", "0"]):
        with pytest.raises(ConfigError, match="--drop is from 0"):
            bench.main(["probes", "--data-dir", str(tmp_path), *bad])
    with pytest.raises(StoreError, match="there is no store"):
        bench.main(["probes", "--data-dir", str(tmp_path)])


@pytest.mark.model
def test_the_command_asks_with_an_installed_model(store_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["probes", "--data-dir", str(store_dir), "--count", "3", "--part", "5", "--json"]
    assert bench.main([*arguments, "--model", "all-minilm-l6-v2-int8"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["asked"] == 3
    assert report["searched"] == 5
    assert report["models"][0]["embedded"] >= 5
