from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from palace_daemon.core import analysis
from palace_daemon.core.analysis import TermPlaces
from palace_daemon.store import postings, sqlite
from palace_daemon.store.postings import BLOCK_BITS, PostingsEdit
from palace_daemon.store.writer import Writer


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    writer = Writer(sqlite.database_path(tmp_path))
    yield writer
    writer.close()


def places(times: dict[str, int]) -> dict[str, TermPlaces]:
    return {term: TermPlaces(count, mask_of(count)) for term, count in times.items()}


def mask_of(times: int) -> int:
    return times * 7 % 65_536


def apply(writer: Writer, *changes: tuple[int, dict[str, int], dict[str, int]]) -> None:
    edit = PostingsEdit()
    for drawer_id, old, new in changes:
        edit.replace(drawer_id, places(old), places(new))
    writer.run(edit.write)


def read(writer: Writer, term: str) -> list[tuple[int, int]]:
    found = writer.run(lambda c: postings.read(c, term))
    assert [mask_of(times) for times in found.frequencies.tolist() if times < postings.FREQUENCY_MAX] == [
        mask for mask, times in zip(found.masks.tolist(), found.frequencies, strict=True) if times < 65_535
    ]
    return list(zip(found.ids.tolist(), found.frequencies.tolist(), strict=True))


def test_terms_are_read_back_across_blocks(writer: Writer) -> None:
    far = 3 << BLOCK_BITS
    apply(writer, (1, {}, {"tide": 2, "moon": 1}), (far + 5, {}, {"tide": 7}))
    apply(writer, (2, {}, {"tide": 1}))
    assert read(writer, "tide") == [(1, 2), (2, 1), (far + 5, 7)]
    assert read(writer, "moon") == [(1, 1)]
    assert read(writer, "sun") == []


def test_replacing_a_text_touches_only_what_changed(writer: Writer) -> None:
    apply(writer, (1, {}, {"tide": 2, "moon": 1}), (2, {}, {"moon": 4}))
    apply(writer, (1, {"tide": 2, "moon": 1}, {"tide": 3, "sun": 1}))
    assert read(writer, "tide") == [(1, 3)]
    assert read(writer, "moon") == [(2, 4)]
    assert read(writer, "sun") == [(1, 1)]


def test_removing_the_last_posting_removes_the_row(writer: Writer) -> None:
    apply(writer, (1, {}, {"tide": 2}))
    apply(writer, (1, {"tide": 2}, {}))
    assert writer.run(lambda c: list(postings.all_terms(c))) == []


def test_frequencies_above_the_width_are_capped(writer: Writer) -> None:
    apply(writer, (1, {}, {"tide": 1_000_000}))
    assert read(writer, "tide") == [(1, postings.FREQUENCY_MAX)]


def test_what_is_found_in_a_text_is_stored_as_its_places_are(writer: Writer) -> None:
    texts = {at: f"Ana: The kiln {'cools ' * (at % 3)}down. So be it.\n\nkiln-{at} and the kiln" for at in range(1, 40)}
    edit = PostingsEdit()
    for drawer, text in texts.items():
        edit.add(drawer, analysis.occurrences(text))
    edit.replace(7, analysis.term_places(texts[7]), analysis.term_places("kiln"))  # the last that is said of it counts
    writer.run(edit.write)
    texts[7] = "kiln"
    expected = {drawer: analysis.term_places(text) for drawer, text in texts.items()}
    for term in {term for held in expected.values() for term in held}:
        found = writer.run(lambda c, term=term: postings.read(c, term))  # type: ignore[misc]
        assert list(zip(found.ids.tolist(), found.frequencies.tolist(), found.masks.tolist(), strict=True)) == [
            (drawer, *held[term]) for drawer, held in expected.items() if term in held
        ]
    assert set(writer.run(lambda c: list(postings.all_terms(c)))) == {
        term for held in expected.values() for term in held
    }


def test_any_history_equals_an_index_of_the_last_state(writer: Writer) -> None:
    dice = random.Random(3)
    state: dict[int, dict[str, int]] = {}
    for _ in range(120):
        changes = []
        for drawer in dice.sample(range(9_000), 4):
            new = dict(Counter(dice.choices("abcdefgh", k=dice.randrange(6))))
            changes.append((drawer, state.get(drawer, {}), new))
            state[drawer] = new
        apply(writer, *changes)
    for term in "abcdefgh":
        assert read(writer, term) == sorted((d, counts[term]) for d, counts in state.items() if term in counts)
