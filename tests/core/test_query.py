"""Queries as agents and people send them: the question is found, nothing raises, nothing visible becomes empty."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palace_daemon.core import analysis
from palace_daemon.core.query import RAW_CHARS_MAX, TERMS_MAX, TEXT_WEIGHT_MAX, read, terms_outside

_NOISE = "2026-03-14 12:00:01 INFO worker finished the job and took the next one. "


@pytest.mark.parametrize(
    "raw",
    [
        "multi-agent",
        "pve-01",
        "don't use agents",
        "memory:safe",
        'say "hi',
        "foo AND bar",
        "(python",
        "NEAR(",
        "AND",
        "^x",
        "'; DROP TABLE drawers; --",
        "SELECT * FROM x WHERE a = 'b'",
        "what did we decide about the queue?",
        "C++ GB/s",
    ],
)
def test_a_plain_question_is_left_as_it_is(raw: str) -> None:
    query = read(raw)
    assert query.text == raw
    assert query.notes == ()
    assert query.terms == tuple(dict.fromkeys(analysis.terms(raw)))


@pytest.mark.parametrize("raw", ["", " ", "\n\t", "\x00", "\x00\x07", "\ud800"])
def test_a_query_without_visible_characters_is_empty(raw: str) -> None:
    assert read(raw).text == ""
    assert read(raw).terms == ()


@pytest.mark.parametrize("raw", ["*", "🎉", "```", '"', "query:", "{}", "…", "~~~\n~~~"])
def test_a_query_of_marks_alone_stays_and_has_no_terms_but_its_words(raw: str) -> None:
    assert read(raw).text == raw


@pytest.mark.parametrize(
    ("raw", "text", "note"),
    [
        ("query: how did we fix the socket?", "how did we fix the socket?", "label"),
        ("**Question:** how did we fix it?", "how did we fix it?", "label"),
        ("Search query: .env loading", ".env loading", "label"),
        (
            'Context: a build\nmore of it\nQuery: "which queue did we pick?"\nLimit: 10',
            "which queue did we pick?",
            "label",
        ),
        ('{"query": "which queue?", "limit": 3}', "which queue?", "json"),
        (
            "```python\nprint(1)\n```\nWhy does this fail in the daemon?",
            "Why does this fail in the daemon?",
            "codeFence",
        ),
        ("```sql\nSELECT name FROM sessions\n```", "SELECT name FROM sessions", "codeFence"),
        (
            '<palace-recall v="1">old things</palace-recall> what now with the queue?',
            "what now with the queue?",
            "recallBlock",
        ),
        (
            _NOISE * 60 + "Why does the scheduler of the billing service skip every second job of the night run?",
            "Why does the scheduler of the billing service skip every second job of the night run?",
            "longText",
        ),
    ],
)
def test_the_question_is_found_in_what_surrounds_it(raw: str, text: str, note: str) -> None:
    if note == "longText":
        assert read(raw).text.endswith(text)
    else:
        assert read(raw).text == text
    assert note in read(raw).notes


def test_a_label_inside_something_pasted_does_not_hide_the_question() -> None:
    raw = "Query: SELECT 1\nError: timeout\n\nWhy does this happen in billing?"
    assert "Why does this happen in billing?" in read(raw).text


def test_an_open_recall_tag_is_the_askers_own_words() -> None:
    raw = "what does <palace-recall mean?"
    assert read(raw).text == raw


def test_a_short_last_question_keeps_the_sentences_before_it() -> None:
    query = read(_NOISE * 60 + "The socket is refused after each restart. Why is that?")
    assert "The socket is refused after each restart. Why is that?" in query.text


def test_a_long_text_without_a_question_keeps_its_head_and_tail() -> None:
    text = read("The beginning matters. " + _NOISE * 80 + "So does the end.").text
    assert text.startswith("The beginning matters.")
    assert text.endswith("So does the end.")
    assert len(text) <= 4 * TEXT_WEIGHT_MAX + 3


def test_terms_of_the_question_come_before_those_of_its_surroundings() -> None:
    query = read("```\nalpha beta\n```\nwhere is gamma defined?")
    assert query.terms == ("where", "is", "gamma", "defin", "alpha", "beta")


def test_terms_are_bounded() -> None:
    query = read(" ".join(f"word{at}x" for at in range(2_000)) + " where is the needle?")
    assert len(query.terms) == TERMS_MAX
    assert "needl" in query.terms
    assert "terms" in query.notes


def test_a_matched_term_is_shown_as_it_was_typed() -> None:
    query = read("Where are the getUserProfile decisions?")
    assert query.surface("decis") == "decisions"
    assert query.surface("getuserprofil") == "getUserProfile"
    assert query.surface("elsewhere") == "elsewhere"


def test_a_query_of_many_megabytes_is_read_in_bounded_parts() -> None:
    query = read("<palace-recall " * 200_000 + "```a\n" * 100_000 + " where is the end?")
    assert query.text.endswith("where is the end?")
    assert len(query.text) < RAW_CHARS_MAX


_PARTS = st.sampled_from(
    [
        "query:",
        "Question: ",
        "```",
        "~~~\n",
        "\n",
        '{"query": "',
        '"}',
        "<palace-recall>",
        "</palace-recall>",
        "why?",
        "？",
        ". ",
        "\x00",
        "�",
        "🎉",
        "word ",
        "* ",
        "Limit: 3\n",
        _NOISE * 20,
        "为什么",
    ]
)


@given(st.lists(st.one_of(_PARTS, st.text(max_size=10)), max_size=14).map("".join))
def test_no_input_raises_or_loses_all_that_is_visible(raw: str) -> None:
    query = read(raw)
    assert bool(query.text) or not any(unicodedata.category(char)[0] not in "ZC" for char in raw)
    assert len(query.terms) == len(set(query.terms)) <= TERMS_MAX
    assert set(query.surfaces) == set(query.terms)
    query.text.encode("utf-8")
    assert read(raw) == query


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("Which session was about the tide parser?", "the tide parser?"),
        ("In which chat did we move the queue?", "move the queue?"),
        ("when did I decide against Postgres", "decide against Postgres"),
        ("Do you remember when the backup failed at night?", "the backup failed at night?"),
        ("find the conversation about clock changes", "clock changes"),
        ("Which session?", "Which session?"),
        ("Where did we?", "Where did we?"),
        ("which sessions table has the index", "which sessions table has the index"),
        ("when does the worker retry", "when does the worker retry"),
        ("Why did we move the queue?", "Why did we move the queue?"),
    ],
)
def test_words_that_ask_for_the_place_are_taken_off(asked: str, text: str) -> None:
    assert read(asked).text == text


def test_words_that_name_a_date_are_not_looked_up_where_others_are_left() -> None:
    asked = read("what did we decide about march flies on March 4?")
    start = asked.text.index("on March")
    left = terms_outside(asked, [(start, len(asked.text))])
    assert "march" in left
    assert "4" not in left
    assert terms_outside(asked, []) == asked.terms
    framed = read("what did we do on March 4?")
    assert terms_outside(framed, [(framed.text.index("on March"), len(framed.text))]) == ()
    alone = read("2026-02-17")
    assert terms_outside(alone, [(0, 10), (0, 10)]) == alone.terms
