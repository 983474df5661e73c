"""Dates in questions: the edges of time, what is no date, any text, and how much a moment counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dating import MIN_MS, NOW, at, read

from palace_daemon.core.dates import SPANS_MAX, spans, window_weight

DAY_MS = 86_400_000
MAX_MS = 253_402_300_799_999


EDGES = {
    ("yesterday", "2024-01-01T00:00"): "2023-12-31..2024-01-01",
    ("last week", "2024-01-01T00:00"): "2023-12-25..2024-01-01",
    ("last month", "2024-01-01T00:00"): "2023-12-01..2024-01-01",
    ("last year", "2024-01-01T00:00"): "2023-01-01..2024-01-01",
    ("last quarter", "2024-01-01T00:00"): "2023-10-01..2024-01-01",
    ("in March", "2024-01-01T00:00"): "2023-03-01..2023-04-01",
    ("in January", "2024-01-01T00:00"): "2024-01-01..2024-02-01",
    ("last January", "2024-01-01T00:00"): "2023-01-01..2023-02-01",
    ("last winter", "2024-01-01T00:00"): "2022-12-01..2023-03-01",
    ("this winter", "2024-01-01T00:00"): "2023-12-01..2024-03-01",
    ("this summer", "2024-01-01T00:00"): "",
    ("this morning", "2024-01-01T00:00"): "2024-01-01T04:00..2024-01-01T12:00",
    ("last night", "2024-01-01T00:00"): "2023-12-31T18:00..2024-01-01T06:00",
    ("on New Year's Day", "2024-01-01T00:00"): "2024-01-01..2024-01-02",
    ("last New Year's Day", "2024-01-01T00:00"): "2023-01-01..2023-01-02",
    ("at Christmas", "2024-01-01T00:00"): "2023-12-25..2023-12-26",
    ("this Christmas", "2024-01-01T00:00"): "",
    ("in Q4", "2024-01-01T00:00"): "2023-10-01..2024-01-01",
    ("a year ago", "2024-01-01T00:00"): "2022-11-02..2023-03-03",
    ("the month before last", "2024-01-01T00:00"): "2023-11-01..2023-12-01",
    ("a month ago", "2024-03-31T23:59"): "2024-02-19..2024-03-11",
    ("last month", "2024-03-31T23:59"): "2024-02-01..2024-03-01",
    ("in the past month", "2024-03-31T23:59"): "2024-02-29..2024-04-01",
    ("one month ago today", "2023-03-31T12:00"): "2023-02-28..2023-03-01",
    ("a year ago today", "2024-02-29T12:00"): "2023-02-28..2023-03-01",
    ("on February 29", "2024-02-29T12:00"): "2024-02-29..2024-03-01",
    ("on February 29", "2024-02-28T12:00"): "2020-02-29..2020-03-01",
    ("the weekend", "2024-06-15T12:00"): "2024-06-15..2024-06-17",
    ("this weekend", "2024-06-15T12:00"): "2024-06-15..2024-06-17",
    ("last weekend", "2024-06-15T12:00"): "2024-06-08..2024-06-10",
    ("over the weekend", "2024-06-16T12:00"): "2024-06-15..2024-06-17",
    ("last weekend", "2024-06-16T12:00"): "2024-06-08..2024-06-10",
    ("last Saturday", "2024-06-16T12:00"): "2024-06-08..2024-06-09; 2024-06-15..2024-06-16",
    ("last Friday", "2024-06-16T12:00"): "2024-06-14..2024-06-15; 2024-06-07..2024-06-08",
    ("last Sunday", "2024-06-16T12:00"): "2024-06-09..2024-06-10",
    ("last week", "2024-06-16T12:00"): "2024-06-03..2024-06-10",
    ("last weekend", "2024-06-17T12:00"): "2024-06-15..2024-06-17",
    ("last week", "2024-06-17T12:00"): "2024-06-10..2024-06-17",
    ("last Sunday", "2024-06-17T12:00"): "2024-06-16..2024-06-17",
    ("last Monday", "2024-06-17T12:00"): "2024-06-10..2024-06-11",
    ("last Monday", "2024-06-18T12:00"): "2024-06-10..2024-06-11; 2024-06-17..2024-06-18",
    ("last Christmas", "2024-12-25T09:00"): "2023-12-25..2023-12-26",
    ("at Christmas", "2024-12-25T09:00"): "2024-12-25..2024-12-26",
    ("on Christmas Day", "2024-12-24T09:00"): "2023-12-25..2023-12-26",
    ("on Thanksgiving", "2024-11-28T09:00"): "2024-11-28..2024-11-29",
    ("on Thanksgiving", "2024-11-27T09:00"): "2023-11-23..2023-11-24",
    ("on Thanksgiving", "2025-11-30T09:00"): "2025-11-27..2025-11-28",
    ("between March 5 and March 10", "2024-03-07T12:00"): "2024-03-05..2024-03-11",
    ("between November and January", "2024-12-10T12:00"): "2024-11-01..2025-02-01",
    ("from November to January", "2025-02-10T12:00"): "2024-11-01..2025-02-01",
    ("last summer", "2025-02-10T12:00"): "2024-06-01..2024-09-01",
    ("last summer", "2024-08-31T12:00"): "2023-06-01..2023-09-01",
    ("last summer", "2024-09-01T12:00"): "2024-06-01..2024-09-01",
    ("this summer", "2024-11-15T12:00"): "2024-06-01..2024-09-01",
    ("last March", "2024-03-20T12:00"): "2023-03-01..2023-04-01",
    ("in March", "2024-03-20T12:00"): "2024-03-01..2024-04-01",
    ("March 21", "2024-03-20T12:00"): "2023-03-21..2023-03-22",
    ("in may we moved", "2024-05-20T12:00"): "2024-05-01..2024-06-01",
    ("in 2025", "2024-06-13T12:00"): "",
    ("in 2025", "2025-06-13T12:00"): "2025-01-01..2026-01-01",
    ("in 1999", "2000-06-13T12:00"): "1999-01-01..2000-01-01",
}
"""Text and moment to the span."""


def test_the_edges_of_weeks_months_and_years_are_kept() -> None:
    assert {(text, now): read(text, now) for text, now in EDGES} == EDGES


NO_DATES = [
    "on Tuesday",
    "Tuesday",
    "every Tuesday",
    "next Tuesday",
    "by Friday",
    "the Tuesday meeting",
    "this Friday",
    "tomorrow",
    "the day after tomorrow",
    "next week",
    "next month",
    "next March",
    "in next March",
    "next year",
    "later this",
    "in 5 minutes",
    "in two weeks",
    "in ten days",
    "within 10 days",
    "for two weeks",
    "two weeks",
    "10 days",
    "two days from now",
    "a week",
    "every week",
    "the week",
    "weekly",
    "the last day of school",
    "the last week of the project",
    "the last 5 minutes of the video",
    "on the last day",
    "at the last minute",
    "the last minute",
    "last name",
    "at last",
    "last but not least",
    "last line",
    "the last session",
    "past the end",
    "in the past",
    "half past ten",
    "May I ask",
    "you may fail",
    "it may 5 times",
    "they may 2024 times",
    "this may fail",
    "the last may be dropped",
    "in may be",
    "MAY NOT",
    "May",
    "since may fails",
    "before may",
    "May 2 threads share a lock?",
    "March",
    "march on",
    "they march 5 miles",
    "we march through the list",
    "this march",
    "March 32",
    "March 0",
    "February 30",
    "the 31st of April",
    "31/31/2024",
    "00/05/2024",
    "2024-13-01",
    "2024-02-30",
    "2024-13",
    "2024.1",
    "version 2024.1",
    "Spring 2023.0",
    "v2024-03-05",
    "release-2024-03-05",
    "report_2024-03-05.md",
    "/logs/2024/03/05/out",
    "https://example.com/2024/03/05/post",
    "2024-03-05 12:00:01 INFO started",
    "2024-03-05T12:00:01Z INFO started",
    "2024-03-05 12:00:01,123 - WARN",
    "12:30",
    "at 10:30:00",
    "1.2.3",
    "192.168.1.5",
    "CVE-2024-03",
    "the second argument",
    "second",
    "a second ago",
    "a moment ago",
    "first",
    "5th",
    "the 5th",
    "on the 5th",
    "step 5",
    "in 2000 lines",
    "after 2000 requests",
    "in 2048",
    "in 1024",
    "port 2023",
    "2023",
    "until 2000 items",
    "in 3000",
    "the year 2038 problem",
    "in '24 hours'",
    "in '38",
    "in the '90s",
    "spring boot",
    "Spring Boot",
    "in Spring",
    "the last Spring Boot upgrade",
    "last spring boot",
    "last Spring Security",
    "this spring bean",
    "Autumn said hello",
    "the summer",
    "500 days of summer",
    "summer",
    "fall",
    "does this fall back to the default",
    "this fall through",
    "in fall-through",
    "in spring-boot",
    "src/march/5.py",
    "last_week",
    "last-weekday",
    "yesterdays_total",
    "`yesterday`",
    "`last week` and `2024-03-05`",
    "``in March``",
    "```\nlast week\n```",
    "```\n2024-03-05\n```",
    "what is this?",
    "Christmas tree",
    "Halloween",
    "gift for Christmas",
    "thanksgiving",
    "the new year",
    "new years",
    "New York",
    "most recently used",
    "least recently used",
    "recently used files",
    "recent changes",
    "Q3",
    "q3",
    "Q5 2024",
    "in Q7",
    "the first quarter",
    "last. week",
    "two, weeks ago",
    "two weeks. ago",
    "1,500 days ago",
    "0 days ago",
    "days ago",
    "weeks ago",
    "ago",
    "since then",
    "since when",
    "before we moved",
    "after the merge",
    "before",
    "after",
    "between",
    "between you and me",
    "between 1 and 2",
    "from here to there",
    "from 5 to 7",
    "to date",
    "up to date",
    "today_total",
    "x.today()",
    "datetime.today()",
    "march.py",
    "may_fail",
    "sat on it",
    "last sat",
    "last sun",
    "decade",
    "\u0663 days ago",
    "\uff11\uff10 days ago",
    "last\u200bweek",
]


def test_what_names_no_time_is_no_date() -> None:
    assert {text: read(text) for text in NO_DATES if read(text)} == {}


@pytest.mark.parametrize(
    ("text", "now", "offset", "expected"),
    [
        ("today", "2024-06-14T00:30", 180, "2024-06-14..2024-06-15"),  # 21:30 of the day before in UTC
        ("yesterday", "2024-06-14T00:30", 180, "2024-06-13..2024-06-14"),
        ("today", "2024-06-13T23:30", -420, "2024-06-13..2024-06-14"),
        ("last week", "2024-06-10T00:10", 330, "2024-06-03..2024-06-10"),
        ("this month", "2024-05-31T23:50", -240, "2024-05-01..2024-06-01"),
        ("this year", "2025-01-01T00:05", 60, "2025-01-01..2026-01-01"),
        ("March 5, 2024", "2024-06-13T15:30", 345, "2024-03-05..2024-03-06"),
        ("this morning", "2024-06-13T15:30", -180, "2024-06-13T04:00..2024-06-13T12:00"),
    ],
)
def test_days_are_those_of_the_callers_zone(text: str, now: str, offset: int, expected: str) -> None:
    assert read(text, now, offset) == expected


def test_a_span_is_handed_back_in_utc() -> None:
    (today,) = spans("today", at("2024-06-13T21:30"), 180)
    assert (today.start_ms, today.end_ms) == (at("2024-06-13T21:00"), at("2024-06-14T21:00"))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("what did we say 10 days ago about it?", "10 days ago"),
        ("so, in March we moved", "in March"),
        ("on Tuesday, March 5th, 2024, it broke", "on Tuesday, March 5th, 2024"),
        ("that was between March 5 and March 10.", "between March 5 and March 10"),
        ("what changed since last week?", "since last week"),
        ("the bug of yesterday's build", "of yesterday's"),
        ("caf\u00e9 \U0001f600 yesterday", "yesterday"),
        ("in\u00a0the\u2003past\tmonth, say", "in\u00a0the\u2003past\tmonth"),
        ("`code` then **last week**", "last week"),
        ("```\nlast month\n```\nwhat did we do yesterday", "yesterday"),
        ("```\nopen\nand then last week", "last week"),
        ("since about two weeks ago", "since about two weeks ago"),
        ("so no later than March '24, we", "no later than March '24"),
        ("that was '24 March 2023' here", "24 March 2023"),
    ],
)
def test_a_span_says_which_words_named_it(text: str, named: str) -> None:
    (span,) = spans(text, at(NOW))
    assert text[slice(*span.words)] == named


@pytest.mark.parametrize(
    ("text", "kind", "certainty"),
    [
        ("March 5, 2024", "day", 1.0),
        ("2024-03-05", "day", 1.0),
        ("March 5", "day", 0.8),
        ("yesterday", "day", 1.0),
        ("last week", "period", 1.0),
        ("in March", "period", 0.8),
        ("over the weekend", "period", 0.6),
        ("10 days ago", "ago", 1.0),
        ("about 10 days ago", "ago", 0.8),
        ("a few days ago", "ago", 0.8),
        ("in the past month", "past", 1.0),
        ("from March 5 to March 7, 2024", "range", 0.8),
        ("since 2024-03-05", "since", 1.0),
        ("before 2024-03-05", "before", 1.0),
        ("after 2024-03-05", "after", 1.0),
        ("recently", "vague", 0.3),
    ],
)
def test_a_span_says_how_it_was_named_and_how_sure_that_is(text: str, kind: str, certainty: float) -> None:
    (span,) = spans(text, at(NOW))
    assert (span.kind, span.certainty) == (kind, certainty)


@pytest.mark.parametrize(
    ("text", "certainties"),
    [("03/05/2024", [0.5, 0.5]), ("last Tuesday", [0.8, 0.5]), ("last Wednesday", [0.8, 0.5])],
)
def test_two_readings_share_their_words(text: str, certainties: list[float]) -> None:
    readings = spans(text, at(NOW))
    assert [reading.certainty for reading in readings] == certainties
    assert {reading.words for reading in readings} == {(0, len(text))}


def test_the_same_time_named_twice_is_one_span() -> None:
    assert (
        read("yesterday, I mean 2024-06-12, or last month, yesterday")
        == "2024-06-12..2024-06-13; 2024-05-01..2024-06-01"
    )


def test_of_many_spans_the_first_and_the_last_are_kept() -> None:
    text = " and ".join(f"2024-03-{day:02}" for day in range(1, 32))
    found = spans(text, at(NOW))
    assert len(found) == SPANS_MAX
    assert text[slice(*found[0].words)] == "2024-03-01"
    assert text[slice(*found[-1].words)] == "2024-03-31"


def test_the_end_of_a_day_holds_its_last_millisecond() -> None:
    (span,) = spans("yesterday", at(NOW))
    assert span.end_ms - span.start_ms == DAY_MS
    assert window_weight(span, np.array([span.end_ms - 1], np.int64))[0] == 1.0


@pytest.mark.parametrize(
    ("text", "now", "expected"),
    [
        ("yesterday", "0001-01-01T00:00", ""),
        ("last year", "0001-06-01T00:00", ""),
        ("10 days ago", "0001-01-03T00:00", "..0001-01-04"),
        ("since yesterday", "0001-01-01T00:00", "..0001-01-02"),
        ("today", "9999-12-31T23:59", "9999-12-31..9999-12-31T23:59"),
        ("this year", "9999-12-31T23:59", "9999-01-01..9999-12-31T23:59"),
    ],
)
def test_time_ends_with_the_years_1_and_9999(text: str, now: str, expected: str) -> None:
    assert read(text, now) == expected


# ------------------------------------------------------------------------------------------------------- any text

_WORDS = [
    *("the", "a", "an", "in", "on", "of", "from", "to", "between", "and", "since", "before", "after", "until", "last"),
    *("this", "next", "past", "early", "mid", "late", "end", "beginning", "first", "second", "third", "half", "ago"),
    *("back", "week", "weeks", "day", "days", "month", "year", "years", "hour", "quarter", "weekend", "fortnight"),
    *(
        "decade",
        "couple",
        "few",
        "several",
        "two",
        "three",
        "ten",
        "twenty",
        "one",
        "about",
        "or",
        "so",
        "March",
        "may",
    ),
    *("March", "May", "Jan.", "Tuesday", "Tue", "yesterday", "today", "tonight", "morning", "night", "spring", "fall"),
    *(
        "summer",
        "Christmas",
        "Thanksgiving",
        "New",
        "Year",
        "Q3",
        "Q3-2024",
        "2024",
        "2023",
        "5",
        "31",
        "5th",
        "2024-03-05",
    ),
    *("2024-13-40", "03/05/2024", "2024-03", "10d", "99999", "0", "1.5", "recently", "other", ",", ".", "-", "\u2013"),
    *("`", "```", "\n", "(", ")", "'s", "no", "not", "'24", "weekend", "through", "later", "than", "Q1", "Dec"),
]
_SAID = st.lists(st.sampled_from(_WORDS), max_size=24).map(" ".join)
_TEXTS = st.one_of(_SAID, st.text(max_size=200), st.lists(st.sampled_from(_WORDS), max_size=24).map("".join))
_MOMENTS = st.integers(MIN_MS, MAX_MS)
_OFFSETS = st.integers(-14 * 60, 14 * 60)


@given(_TEXTS, _MOMENTS, _OFFSETS)
def test_any_text_at_any_moment_gives_spans_that_hold_together(text: str, now_ms: int, offset: int) -> None:
    found = spans(text, now_ms, offset)
    assert found == spans(text, now_ms, offset)
    assert len(found) <= SPANS_MAX
    for span in found:
        assert MIN_MS <= span.start_ms < span.end_ms <= MAX_MS
        assert 0 <= span.words[0] < span.words[1] <= len(text)
        assert text[slice(*span.words)] == text[slice(*span.words)].strip()
        assert 0.0 < span.certainty <= 1.0
    assert [span.words for span in found] == sorted(span.words for span in found)


@given(_SAID, st.integers(-(10**17), 10**17), st.integers(-(10**6), 10**6))
def test_moments_and_zones_that_cannot_be_do_not_raise(text: str, now_ms: int, offset: int) -> None:
    assert all(span.start_ms < span.end_ms for span in spans(text, now_ms, offset))


@given(_SAID, st.integers(at("1950-01-01"), at("2100-01-01")), _OFFSETS, _OFFSETS)
def test_the_same_local_moment_in_another_zone_shifts_the_spans(text: str, local_ms: int, one: int, other: int) -> None:
    here = spans(text, local_ms - one * 60_000, one)
    there = spans(text, local_ms - other * 60_000, other)
    assert [(span.words, span.kind) for span in here] == [(span.words, span.kind) for span in there]
    for before, after in zip(here, there, strict=True):
        shift = (one - other) * 60_000
        assert after.end_ms == before.end_ms + shift
        if before.start_ms > MIN_MS + DAY_MS:  # the beginning of all time is the same everywhere
            assert after.start_ms == before.start_ms + shift


@given(st.lists(st.sampled_from([word for word in _WORDS if "`" not in word]), max_size=24), _MOMENTS)
def test_dates_in_code_are_none(words: list[str], now_ms: int) -> None:
    text = " ".join(words)
    assert spans(f"```\n{text}\n```", now_ms) == ()
    assert spans(f"`{text}`".replace("\n", " "), now_ms) == ()


def test_a_long_text_is_read_whole() -> None:
    text = "what did we decide about the queue and the cache in the end " * 400 + "10 days ago?"
    (span,) = spans(text, at(NOW))
    assert text[slice(*span.words)] == "10 days ago"


@given(_SAID, _MOMENTS, st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5))
def test_any_weight_lies_between_nothing_and_one(text: str, now_ms: int, moments: list[int]) -> None:
    for span in spans(text, now_ms):
        found = window_weight(span, np.array([*moments, span.start_ms, span.end_ms - 1], np.int64))
        assert found.dtype == np.float64
        assert bool(np.all((found >= 0.0) & (found <= 1.0)))
        assert found[-1] == found[-2] > 0.0
