"""One analyser for texts and queries: what is asked in the same words is found."""

from __future__ import annotations

import base64
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palace_daemon.core import analysis, sentences
from palace_daemon.core.analysis import (
    BREAK,
    ONCE,
    TERM_CHARS_MAX,
    TermPlaces,
    occurrences,
    surfaces,
    term_counts,
    term_places,
    terms,
)
from palace_daemon.core.sentences import BUCKETS


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("version 38.101 is out", "38.101"),
        ("on ubuntu 20.04.", "ubuntu 20.04"),
        ("tagged v1.2.3 today", "1.2.3"),
        ("it reads 3 GB/s", "GB/s"),
        ("written in C++17", "C++"),
        ("ported to C# (.NET)", "c#"),
        ("call foo.bar() here", "foo.bar"),
        ("the snake_case name", "snake_case"),
        ("the snake_case name", "snakeCase"),
        ("const x = getUserProfile(id)", "user profile"),
        ("const x = getUserProfile(id)", "getuserprofile"),
        ("parseHTTPResponse failed", "http response"),
        ("host 192.168.0.17 is down", "192.168.0.17"),
        ("write to jo.doe@example.org!", "jo.doe@example.org"),
        ("see src/core/rank.py:42", "rank.py"),
        ("see src/core/rank.py:42", "src/core/rank.py"),
        (r"C:\Users\sam\notes.txt", "notes.txt"),
        ("a multi-agent run", "multi agent"),
        ("a multi-agent run", "multiagent"),
        ("node pve-01 rebooted", "pve-01"),
        ("node pve-01 rebooted", "pve01"),
        ("python3 only", "python 3"),
        ("GPT-4 said", "gpt4"),
        ("the URLs of it", "url"),
        ("we don’t use agents", "don't use agents"),
        ("the user’s choice", "user choice"),
        ("memory:safe code", "memory safe"),
        ("we decided on caching", "caches"),
        ("Straße nach Łódź, café", "strasse lodz cafe"),
        ("cafe\u0301 cre\u0300me", "café crème"),
        ("ﬁle Ｆｕｌｌ ½", "file full"),
        ("co\u00adop\u00aderate", "cooperate"),
        ("我们的记忆系统", "记忆"),
        ("他爱喝茶吗", "茶"),
        ("このサンドボックスは安全", "サンドボックス"),
        ("데이터베이스를 옮겼다", "데이터베이스"),
        ("책을 샀다", "책"),
        ("ภาษาไทยสวย", "ไทย"),
        ("мы переехали на новые базы данных", "база данных"),
        ("Ёлка и чай", "елка чай"),
        ("重跑gen-itgc后报错", "itgc"),
        ("重跑gen-itgc后报错", "重跑"),
        ("हिन्दी में", "हिन्दी"),
        ("id e88b7591-31db-4e32-98dc-b35f94c662cd", "e88b7591-31db-4e32-98dc-b35f94c662cd"),
        ("id e88b7591-31db-4e32-98dc-b35f94c662cd", "e88b7591"),
        ("on 2026-03-14 we", "2026-03-14"),
        ("İstanbul", "istanbul"),
    ],
)
def test_every_term_of_the_question_is_in_the_text(text: str, asked: str) -> None:
    assert terms(asked)
    assert set(terms(asked)) <= set(terms(text))


@pytest.mark.parametrize(
    ("text", "asked"),
    [("I know it", "now"), ("the latest one", "test"), ("12-3", "123"), ("1.23", "123"), ("里面", "面里")],
)
def test_parts_of_words_are_no_words(text: str, asked: str) -> None:
    assert not set(terms(asked)) <= set(terms(text))


def test_wholes_come_before_parts_in_order_of_the_text() -> None:
    assert terms("run getUserProfile on a.b/c_d") == (
        ["run", "getuserprofil", "get", "user", "profil", "on", "a.b/c_d", "a.b", "a", "b", "cd", "c", "d"]
    )


@pytest.mark.parametrize(
    "text", ["", " \n\t", "\x00", "🎉 👩\u200d👩\u200d👧 1️⃣ ❤️ 🇩🇪", "*", "^ ( ) -- ... ___", "\ud800", "—…"]
)
def test_text_without_words_has_no_terms(text: str) -> None:
    assert terms(text) == []
    assert term_counts(text) == {}
    assert surfaces(text) == {}


def test_all_words_are_kept() -> None:
    assert terms("to be or not to be") == ["to", "be", "or", "not", "to", "be"]


def test_surfaces_show_what_was_typed() -> None:
    found = surfaces("Caching in getUserProfile, and caches")
    assert found["cach"] == "Caching"
    assert found["getuserprofil"] == "getUserProfile"
    assert found["profil"] == "Profile"


def _blob(size: int) -> str:
    return base64.b64encode(random.Random(1).randbytes(size)).decode()


def test_a_blob_gives_one_term() -> None:
    assert len(terms(f"data {_blob(100_000)} end")) == 3


def test_a_wrapped_blob_gives_about_a_term_a_line() -> None:
    blob = _blob(100_000)
    lines = [blob[at : at + 76] for at in range(0, len(blob), 76)]
    assert len(terms("\n".join(lines))) < 2 * len(lines)


@pytest.mark.parametrize(
    "text", ["a" * 100_000, "ab12" * 30_000, "x_" * 50_000, "/a" * 50_000, "字" * 50_000, "aB" * 50_000]
)
def test_terms_are_short_and_no_more_than_twice_the_characters(text: str) -> None:
    found = terms(text)
    assert max(map(len, found)) <= TERM_CHARS_MAX
    assert len(found) <= 2 * len(text)


def test_a_long_path_keeps_its_words_and_its_name() -> None:
    path = "/".join(f"folder{chr(97 + at)}" for at in range(26)) + "/notes.txt"
    assert {"folderz", "notes.txt", "note"} <= set(terms(path))


_WORDS = st.sampled_from(
    ["getUserProfile", "snake_case", "a.b.c", "38.101", "记忆", "サンド", "don't", "C++", " ", "/", "-", "é", "İ"]
)
_TEXTS = st.lists(st.one_of(_WORDS, st.text(max_size=8)), max_size=20).map("".join)


@given(_TEXTS)
def test_counts_and_surfaces_agree_with_terms(text: str) -> None:
    found = terms(text)
    assert term_counts(text) == Counter(found)
    assert set(surfaces(text)) == set(found)
    assert all(0 < len(term) <= TERM_CHARS_MAX for term in found)


@given(_TEXTS, _TEXTS)
def test_terms_of_joined_texts_are_the_terms_of_both(one: str, other: str) -> None:
    assert terms(f"{one} \n {other}") == terms(one) + terms(other)


@given(st.text(alphabet="abcdefghijklmnop éüß-_.'", max_size=40))
def test_case_does_not_matter_outside_compounds(text: str) -> None:
    assert terms(text.upper()) == terms(text.upper().lower())


def test_a_full_cache_changes_nothing() -> None:
    before = terms("decisions about caching")
    analysis._TERMS.forget()
    analysis._stem.cache_clear()
    assert terms("decisions about caching") == before


def test_long_runs_of_unspaced_script_are_not_kept_since_they_hardly_come_again() -> None:
    analysis._TERMS.forget()
    run = "窑火在夜里需要有人看守"
    assert terms(f"{run}。{run}") == 2 * terms(run)
    assert term_counts(f"看守。{run}")["看守"] == 2
    assert set(analysis._TERMS) == {"看守", analysis.BREAK}


def test_threads_get_the_terms_of_their_own_words() -> None:
    words = [
        f"{stem}{ending}" for stem in ("decid", "configur", "index", "embed") for ending in ("ing", "ed", "s", "ations")
    ]
    alone = [terms(word) for word in words]
    analysis._TERMS.forget()
    analysis._stem.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(terms, words * 50)) == alone * 50


# ---------------------------------------------------------------------------------------------------------- sentences

_PROSE = st.sampled_from(
    [
        "Kiln", "Ana: ", "> ", "> Ana: ", "C#: ", "v1.2: ", "窑", "窑。", "don't", ". ", '." ', "! ", "?", "！", "\n",
        "\n\n", "\n\n\n", " ", "_", "\u0301", "\u200d", "\r\n", "：", "x" * 50, "aB1" * 20, "é", ".",
    ]
)  # fmt: skip


@given(st.lists(st.one_of(_PROSE, st.text(max_size=6)), max_size=30).map("".join))
def test_places_count_as_counts_do_and_each_term_has_one(text: str) -> None:
    places = term_places(text)
    assert {term: found.times for term, found in places.items()} == term_counts(text)
    assert all(0 < found.mask < 1 << BUCKETS for found in places.values())


@given(st.lists(st.one_of(_PROSE, st.text(max_size=6)), max_size=30).map("".join))
def test_occurrences_are_the_terms_of_each_sentence_then_those_of_labels(text: str) -> None:
    found = occurrences(text)
    pieces = [piece for part in text.split("\n\n") for piece in sentences.pieces(part)]
    held: list[list[str]] = [[]]
    for term in found.terms:
        if term == BREAK:
            held.append([])
        else:
            held[-1].append(term)
    assert held[: len(pieces)] == [terms(piece) for piece in pieces]
    assert found.numbers[: len(pieces)] == [ONCE | bit for bit in sentences.bucket_masks(len(pieces))]
    assert all(0 < number < ONCE for number in found.numbers[len(pieces) :])
    assert found.length == len(terms(text))
    assert len(held) == len(found.numbers) + 1


def test_a_place_has_a_bit_for_each_sentence_of_the_term() -> None:
    assert term_places("> Is the kiln hot?\n\nThe kiln cools. Wait\nfor the kiln, the big kiln.") == {
        "is": TermPlaces(1, 0b0001),
        "the": TermPlaces(4, 0b1011),
        "kiln": TermPlaces(4, 0b1011),
        "hot": TermPlaces(1, 0b0001),
        "cool": TermPlaces(1, 0b0010),
        "wait": TermPlaces(1, 0b0100),
        "for": TermPlaces(1, 0b1000),
        "big": TermPlaces(1, 0b1000),
    }


def test_a_label_stands_in_each_sentence_of_its_paragraph_and_in_no_other() -> None:
    places = term_places("> Ana: It is hot. We wait.\n\nBen Lee: So be it.\nGood.\n\nThat is all.")
    assert places["ana"] == TermPlaces(1, 0b00011)
    assert places["ben"] == places["lee"] == TermPlaces(1, 0b01100)
    assert places["all"] == TermPlaces(1, 0b10000)


def test_of_more_than_sixteen_sentences_neighbours_share_a_place() -> None:
    places = term_places(" ".join(f"q{chr(97 + at)}x is one." for at in range(26)) + "\nLast line.")
    masks = [places[f"q{chr(97 + at)}x"].mask for at in range(26)]
    assert masks == sorted(masks)
    assert set(masks) | {places["last"].mask} == {1 << at for at in range(BUCKETS)}
    assert masks[0] == masks[1] != masks[2]
    assert places["one"] == TermPlaces(26, ((1 << BUCKETS) - 1) ^ places["last"].mask)


@pytest.mark.parametrize("unit", ["a", ".", ". ", "a.", '." ', "(", ":", "a: b\n\n", "\n", "\n\n", "。", "窑。", "'"])
def test_places_of_hostile_texts_take_linear_time(unit: str) -> None:
    text = unit * (300_000 // len(unit))  # minutes if it were quadratic
    assert sum(found.times for found in term_places(text).values()) <= len(text)


def test_stems_are_those_of_which_stored_indexes_are_made() -> None:
    """Where another version of the library has others, ANALYSER_VERSION must rise, so that indexes are built anew."""
    text = "generously hopping happily relational skis dying news internally proceeded past cried базы данных переехали"
    stems = "generous hop happili relat ski die news internal proceed past cri баз дан перееха"
    assert list(terms(text)) == stems.split()
