"""Distances of several units, and times as they were seen some while ago."""

from __future__ import annotations

import pytest
from support.dating import NOW, at, read

from palace_daemon.core.dates import spans

JOINED = {
    "one month and two weeks ago": "2024-04-22..2024-05-07",
    "two days and three hours ago": "2024-06-11T04:51..2024-06-11T20:09",
    "3 hours and 20 minutes ago": "2024-06-13T11:40..2024-06-13T12:40",
    "3 hours 20 minutes ago": "2024-06-13T11:40..2024-06-13T12:40",
    "3 hours, 20 minutes ago": "2024-06-13T11:40..2024-06-13T12:40",
    "a year and two months ago": "2023-02-08..2023-06-17",
    "three days and a half ago": "2024-06-08..2024-06-11",
    "between two weeks and three days ago": "2024-05-27..2024-06-11",
    "between two and three weeks ago": "2024-05-20..2024-06-03",
    "it ran for three hours, two minutes ago it ended": "2024-06-13T15:27..2024-06-13T15:28",
    "two days and three weeks ago": "2024-05-20..2024-05-27",
    "over the past year and a half": "2022-12-13..2024-06-14",
}


def test_a_distance_of_several_units_is_counted_whole() -> None:
    assert {text: read(text) for text in JOINED} == JOINED


SEEN_FROM_THEN = {
    "two weeks ago yesterday": "2024-05-29..2024-05-30",
    "two weeks ago today": "2024-05-30..2024-05-31",
    "a month ago yesterday": "2024-05-12..2024-05-13",
    "a week ago yesterday morning": "2024-06-05T04:00..2024-06-05T12:00",
    "a week ago last Friday": "2024-05-31..2024-06-01",
    "a year ago last month": "2023-05-01..2023-06-01",
    "a year ago last summer": "2022-06-01..2022-09-01",
    "this week last year": "2023-06-10..2023-06-17",
    "this month two years ago": "2022-06-01..2022-07-01",
    "two weeks ago, yesterday": "2024-05-27..2024-06-03; 2024-06-12..2024-06-13",
    "an hour ago yesterday": "2024-06-13T14:00..2024-06-13T15:00; 2024-06-12..2024-06-13",
    "a few days ago last week": "2024-06-07..2024-06-12; 2024-06-03..2024-06-10",
}


def test_a_time_behind_a_distance_is_seen_from_there() -> None:
    assert {text: read(text) for text in SEEN_FROM_THEN} == SEEN_FROM_THEN


def test_a_day_keeps_its_length_where_the_month_before_was_shorter() -> None:
    assert read("a month ago yesterday", "2024-03-31T12:00") == "2024-02-29..2024-03-01"


YEARS_AGO = {
    "in March two years ago": "2022-03-01..2022-04-01",
    "in March 2 years ago": "2022-03-01..2022-04-01",
    "in March, two years ago, we": "2022-03-01..2022-04-01",
    "March two years ago": "2022-03-01..2022-04-01",
    "since March two years ago": "2022-03-01..2024-06-14",
    "early March two years ago": "2022-03-01..2022-03-11",
    "a year ago in March": "2023-03-01..2023-04-01",
    "two years back in March": "2022-03-01..2022-04-01",
    "two years ago in early March": "2022-03-01..2022-03-11",
    "last year at the end of May": "2023-05-21..2023-06-01",
    "on March 5 two years ago": "2022-03-05..2022-03-06",
    "two years ago on March 5": "2022-03-05..2022-03-06",
    "5 March 2 years ago": "2022-03-05..2022-03-06",
    "in the spring two years ago": "2022-03-01..2022-06-01",
    "two years ago in the spring": "2022-03-01..2022-06-01",
    "two years ago in spring": "2022-03-01..2022-06-01",
    "the fall two years ago": "2022-09-01..2022-12-01",
    "Q3 two years ago": "2022-07-01..2022-10-01",
    "Q3 last year": "2023-07-01..2023-10-01",
    "last year in Q3": "2023-07-01..2023-10-01",
    "Christmas two years ago": "2022-12-25..2022-12-26",
    "two years ago at Christmas": "2022-12-25..2022-12-26",
    "a decade ago in March": "2014-03-01..2014-04-01",
}


def test_years_ago_say_of_which_year_a_date_is() -> None:
    assert {text: read(text) for text in YEARS_AGO} == YEARS_AGO


@pytest.mark.parametrize(
    "text",
    [
        "a few years ago in March",
        "in March a few years ago",
        "in March, a few years ago",
        "did it fall a few years ago",
        "they march a few years ago",
    ],
)
def test_a_few_years_ago_is_a_distance_of_which_no_month_is_known(text: str) -> None:
    assert [span.kind for span in spans(text, at(NOW))] == ["ago"]


@pytest.mark.parametrize("text", ["did it fall two years ago", "they march two years ago", "it may two years ago"])
def test_a_verb_before_a_distance_is_no_month_or_season(text: str) -> None:
    assert read(text) == read("two years ago")
