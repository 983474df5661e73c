"""Sentences for reading a drawer closely: cut so that no word is lost, and counted into sixteen places."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palace_daemon.core.analysis import terms
from palace_daemon.core.sentences import BUCKETS, bucket_masks, label_of, pieces


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t\n ", []),
        ("one only", ["one only"]),
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("one\ntwo\n\n\nthree", ["one", "two", "three"]),
        ("v1.2.3 of kiln.toml. It held", ["v1.2.3 of kiln.toml.", "It held"]),
        ('He said "so." Then (so.) "So!"  End', ['He said "so.', "Then (so.", '"So!', "End"]),
        ("我们烧窑。你呢？很好！", ["我们烧窑。", "你呢？", "很好！"]),
        ("A trail ... of dots... ", ["A trail ...", "of dots..."]),
    ],
)
def test_texts_are_cut_at_line_ends_and_behind_sentences(text: str, expected: list[str]) -> None:
    assert pieces(text) == expected


_PARTS = st.sampled_from(
    ["kiln", "v1.2", "don't", "窑", "é", ".", ". ", '." ', ".) ", "?", "！", "。", "\n", " ", "_", "-"]
)


@given(st.lists(st.one_of(_PARTS, st.text(max_size=6)), max_size=20).map("".join))
def test_the_pieces_hold_every_word(text: str) -> None:
    found = pieces(text)
    assert all(piece.strip() for piece in found)
    assert terms(" ".join(found)) == terms(text)


@pytest.mark.parametrize(
    ("paragraph", "label"),
    [
        ("Ana: the kiln is hot", "Ana"),
        ("> Ana: the kiln is hot", "Ana"),
        ("Mr. Smith: it is", "Mr. Smith"),
        ("Step 2: wedge the clay", "Step 2"),
        ("A" * 40 + ": it is", "A" * 40),
        ("A" * 41 + ": it is", ""),
        ("> > Ana: quoted twice", ""),
        ("Ana:glued", ""),
        ("Ana: \nbelow", ""),
        (" Ana: indented", ""),
        ("first line\nAna: second line", ""),
        ("https://kiln.example: a page", ""),
        ("no colon at all", ""),
        ("", ""),
        (": nothing", ""),
    ],
)
def test_a_label_stands_before_the_first_colon(paragraph: str, label: str) -> None:
    assert label_of(paragraph)[0] == label


def test_up_to_sixteen_pieces_have_a_place_of_their_own() -> None:
    assert bucket_masks(0) == []
    assert bucket_masks(3) == [1, 2, 4]
    assert bucket_masks(BUCKETS) == [1 << at for at in range(BUCKETS)]


@pytest.mark.parametrize("count", [17, 31, 32, 33, 100, 1_000])
def test_of_more_pieces_neighbours_share_a_place_evenly(count: int) -> None:
    masks = bucket_masks(count)
    assert masks == sorted(masks)
    assert set(masks) == {1 << at for at in range(BUCKETS)}
    shares = [masks.count(1 << at) for at in range(BUCKETS)]
    assert max(shares) - min(shares) <= 1


@pytest.mark.parametrize("unit", ["a", ".", ". ", ".)", ".) ", '."', "a.", "。", "\n", " ", ": ", "> ", "*_`)"])
def test_hostile_texts_take_linear_time(unit: str) -> None:
    text = unit * (300_000 // len(unit))  # minutes if it were quadratic
    assert sum(map(len, pieces(text))) <= len(text)
    assert len(label_of(text)[0]) <= 40
    assert len(label_of(f"> {text}: x")[0]) <= 40
