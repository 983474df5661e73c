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


@pytest.mark.parametrize(
    "raw",
    [
        "Why does the scaler never fire?\n\nserverAddress: http://prom:9090\nquery: sum(rate(jobs[2m]))\nthreshold: 5",
        "Why does our cache miss for this request?\n\nquery: { user { id } }",
        'Why does this fail?\n{"query": "user"}',
        "Which analyzer did we choose?\nsearch: english\nindex: docs",
        "Why does our login fail?\nQ: is it CORS?",
        "The scaler never fires with this trigger\nserverAddress: http://prom:9090\nquery: sum(rate(jobs[2m]))",
        "I pasted the config.\nsearch: elastic\nWhy is it slow?",
        "Question: why does the scaler never fire?\nserverAddress: http://prom:9090\nquery: up",
    ],
)
def test_a_label_in_something_pasted_below_the_question_takes_nothing_off(raw: str) -> None:
    query = read(raw)
    assert query.text == raw
    assert query.notes == ()
    assert set(query.terms) == set(analysis.terms(raw))


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("Where is the retry limit set?\n\n```yaml\nquery: up\n```", "Where is the retry limit set?"),
        ("The retry limit is too low.\n\n```yaml\nquery: up\n```", "The retry limit is too low."),
        ("```log\nboom\n```\nQuery: redis port", "redis port"),
        ("Query: how do we deploy this?\n```yaml\nname: x\n```", "how do we deploy this?"),
        ("Query:\n```sql\nselect 1\n```\nwhy is this slow?", "why is this slow?"),
        ("```\nquery: which queue?\n```", "which queue?"),
    ],
)
def test_a_label_in_a_fence_announces_nothing_unless_there_is_nothing_else(raw: str, text: str) -> None:
    query = read(raw)
    assert query.text == text
    assert set(analysis.terms(raw)) - set(query.terms) <= {"queri"}


@pytest.mark.parametrize(
    ("raw", "terms"),
    [
        (
            "Question: what changed in the build?\nError: no module 'tomlkit'",
            ("what", "chang", "in", "the", "build", "error", "no", "modul", "tomlkit"),
        ),
        ("Context: a crash in tomlkit\nQuery: redis port\nLimit: 3", ("redi", "port", "context", "a", "crash", "in")),
        ("Question: what is X?\nAnswer: Y\nQuestion: where is Z?", ("where", "is", "z", "what", "x", "answer", "y")),
    ],
)
def test_what_stands_around_a_labelled_question_is_looked_up_after_its_own_words(
    raw: str, terms: tuple[str, ...]
) -> None:
    query = read(raw)
    assert query.notes == ("label",)
    assert query.terms[: len(terms)] == terms


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("Please look this up.\nQuery: which queue did we pick?\nLimit: 3", "which queue did we pick?"),
        ("query:        redis port", "redis port"),
        ("query: __init__ of the parser", "__init__ of the parser"),
        ("query: Context: a build\nLimit: 3", "Context: a build"),
        ('{"query": "", "text": "redis port"}', "redis port"),
    ],
)
def test_a_label_before_the_question_is_still_taken_off(raw: str, text: str) -> None:
    assert read(raw).text == text


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


@pytest.mark.parametrize(
    ("asked", "named", "kept"),
    [
        ("what is pinned to 2023-06-01?", "2023-06-01", ("what", "is", "pin", "to", "2023-06-01")),
        ("what did release 2025/11/03 break?", "2025/11/03", ("what", "did", "releas", "2025/11/03", "break")),
        ("which fix came in 2025-11?", "in 2025-11", ("which", "fix", "came", "2025-11")),
        ("which fix is of 03.11.2025?", "of 03.11.2025", ("which", "fix", "is", "03.11.2025")),
        ("why not 2023-06-01–2024-02-01?", "2023-06-01–2024-02-01", ("whi", "not", "2023-06-01", "2024-02-01")),
        ("the year 2038 problem", "the year 2038", ("2038", "problem")),
        ("which budget was set in the year 2024?", "in the year 2024", ("which", "budget", "was", "set")),
        ("what broke 2-3 weeks ago?", "2-3 weeks ago", ("what", "broke")),
        ("what did we do on 2025-11-03?", "on 2025-11-03", ()),
    ],
)
def test_a_date_in_digits_is_looked_up_as_a_whole_since_releases_have_such_names(
    asked: str, named: str, kept: tuple[str, ...]
) -> None:
    question = read(asked)
    start = question.text.index(named)
    assert terms_outside(question, [(start, start + len(named))]) == kept
