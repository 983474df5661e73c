"""Dates as seen from now: distances, days, weeks, stretches."""

from __future__ import annotations

from support.dating import read

AGO = {
    "what did we decide 10 days ago?": "2024-06-01..2024-06-06",
    "one day ago": "2024-06-12..2024-06-13",
    "a day ago": "2024-06-12..2024-06-13",
    "two days ago": "2024-06-11..2024-06-12",
    "three days ago": "2024-06-10..2024-06-11",
    "four days ago": "2024-06-08..2024-06-11",
    "five days ago": "2024-06-07..2024-06-10",
    "7 days ago": "2024-06-05..2024-06-08",
    "ten days ago": "2024-06-01..2024-06-06",
    "twelve days ago": "2024-05-30..2024-06-04",
    "fourteen days ago": "2024-05-28..2024-06-02",
    "nineteen days ago": "2024-05-22..2024-05-29",
    "twenty-one days ago": "2024-05-20..2024-05-27",
    "twenty one days ago": "2024-05-20..2024-05-27",
    "30 days ago": "2024-05-09..2024-05-20",
    "90 days ago": "2024-03-01..2024-03-30",
    "a hundred days ago": "2024-02-19..2024-03-21",
    "two hundred days ago": "2023-10-27..2023-12-27",
    "a week ago": "2024-06-03..2024-06-10",
    "one week ago": "2024-06-03..2024-06-10",
    "two weeks ago": "2024-05-27..2024-06-03",
    "3 weeks ago": "2024-05-20..2024-05-27",
    "six weeks ago": "2024-04-26..2024-05-09",
    "a fortnight ago": "2024-05-26..2024-06-04",
    "a month ago": "2024-05-03..2024-05-24",
    "two months ago": "2024-04-03..2024-04-24",
    "6 months ago": "2023-11-16..2024-01-10",
    "half a year ago": "2023-10-14..2024-02-12",
    "a year ago": "2023-04-14..2023-08-13",
    "two years ago": "2022-02-23..2022-10-02",
    "a year and a half ago": "2022-09-22..2023-03-06",
    "one and a half years ago": "2022-09-22..2023-03-06",
    "a decade ago": "2012-06-13..2016-06-13",
    "a quarter ago": "2024-02-12..2024-04-13",
    "a couple of days ago": "2024-06-10..2024-06-12",
    "a couple days ago": "2024-06-10..2024-06-12",
    "a couple of weeks ago": "2024-05-20..2024-06-03",
    "a couple of months ago": "2024-02-28..2024-04-24",
    "a few days ago": "2024-06-07..2024-06-12",
    "few weeks ago": "2024-05-04..2024-06-03",
    "several days ago": "2024-06-04..2024-06-11",
    "about a week ago": "2024-05-31..2024-06-13",
    "around ten days ago": "2024-05-30..2024-06-08",
    "roughly two months ago": "2024-03-24..2024-05-04",
    "more than a month ago": "2024-04-23..2024-06-03",
    "over a year ago": "2023-02-13..2023-10-12",
    "a week or so ago": "2024-05-31..2024-06-13",
    "a day or two ago": "2024-06-11..2024-06-13",
    "two or three weeks ago": "2024-05-20..2024-06-03",
    "two to three weeks ago": "2024-05-20..2024-06-03",
    "2-3 days ago": "2024-06-10..2024-06-12",
    "between two and three weeks ago": "2024-05-20..2024-06-03",
    "10d ago": "2024-06-01..2024-06-06",
    "2w ago": "2024-05-27..2024-06-03",
    "3mo ago": "2024-02-28..2024-03-28",
    "two-weeks-ago": "2024-05-27..2024-06-03",
    "just two days ago": "2024-06-11..2024-06-12",
    "only 3 days ago": "2024-06-10..2024-06-11",
    "two full weeks ago": "2024-05-27..2024-06-03",
    "a year ago today": "2023-06-13..2023-06-14",
    "a week ago today": "2024-06-06..2024-06-07",
    "three weeks back": "2024-05-20..2024-05-27",
    "three hours ago": "2024-06-13T12:00..2024-06-13T13:00",
    "an hour ago": "2024-06-13T14:00..2024-06-13T15:00",
    "half an hour ago": "2024-06-13T14:30..2024-06-13T15:30",
    "20 minutes ago": "2024-06-13T15:07..2024-06-13T15:13",
    "90 mins ago": "2024-06-13T13:46..2024-06-13T14:13",
    "1.5 weeks ago": "2024-05-31..2024-06-07",
    "dozens of notes from a dozen days ago": "2024-05-30..2024-06-04",
    "9999 years ago": "..1501-01-04",
}


def test_a_distance_back_is_a_span_that_widens_with_the_distance() -> None:
    assert {text: read(text) for text in AGO} == AGO


DAYS = {
    "today": "2024-06-13..2024-06-14",
    "earlier today": "2024-06-13..2024-06-14",
    "what did we fix today?": "2024-06-13..2024-06-14",
    "yesterday": "2024-06-12..2024-06-13",
    "Yesterday": "2024-06-12..2024-06-13",
    "YESTERDAY": "2024-06-12..2024-06-13",
    "yesterday's bug": "2024-06-12..2024-06-13",
    "yesterday’s bug": "2024-06-12..2024-06-13",
    "the day before yesterday": "2024-06-11..2024-06-12",
    "day before yesterday": "2024-06-11..2024-06-12",
    "this morning": "2024-06-13T04:00..2024-06-13T12:00",
    "this afternoon": "2024-06-13T12:00..2024-06-13T18:00",
    "this evening": "2024-06-13T17:00..2024-06-14",
    "tonight": "2024-06-13T18:00..2024-06-14T06:00",
    "last night": "2024-06-12T18:00..2024-06-13T06:00",
    "last evening": "2024-06-12T17:00..2024-06-13",
    "late last night": "2024-06-12T18:00..2024-06-13T06:00",
    "early this morning": "2024-06-13T04:00..2024-06-13T12:00",
    "early yesterday": "2024-06-12..2024-06-13",
    "yesterday morning": "2024-06-12T04:00..2024-06-12T12:00",
    "yesterday afternoon": "2024-06-12T12:00..2024-06-12T18:00",
    "yesterday evening": "2024-06-12T17:00..2024-06-13",
    "yesterday night": "2024-06-12T18:00..2024-06-13T06:00",
    "(yesterday)": "2024-06-12..2024-06-13",
    "**yesterday**": "2024-06-12..2024-06-13",
    '"last week"': "2024-06-03..2024-06-10",
    "_last week_": "2024-06-03..2024-06-10",
    "yesterday, we moved it": "2024-06-12..2024-06-13",
    "today and yesterday": "2024-06-13..2024-06-14; 2024-06-12..2024-06-13",
    "the other day": "2024-06-03..2024-06-13",
    "the other week": "2024-05-16..2024-06-09",
    "recently": "2024-05-14..2024-06-14",
    "what have we lately changed": "2024-05-14..2024-06-14",
}


def test_a_day_and_its_parts_are_named_in_words() -> None:
    assert {text: read(text) for text in DAYS} == DAYS


WEEKDAYS = {
    "last Monday": "2024-06-10..2024-06-11; 2024-06-03..2024-06-04",
    "last Tuesday": "2024-06-11..2024-06-12; 2024-06-04..2024-06-05",
    "last Wednesday": "2024-06-05..2024-06-06; 2024-06-12..2024-06-13",
    "last Thursday": "2024-06-06..2024-06-07",
    "last Friday": "2024-06-07..2024-06-08",
    "last Saturday": "2024-06-08..2024-06-09",
    "last Sunday": "2024-06-09..2024-06-10",
    "last tuesday": "2024-06-11..2024-06-12; 2024-06-04..2024-06-05",
    "last Tue": "2024-06-11..2024-06-12; 2024-06-04..2024-06-05",
    "last Sun": "2024-06-09..2024-06-10",
    "last Friday morning": "2024-06-07T04:00..2024-06-07T12:00",
    "last Tuesday night": "2024-06-11T18:00..2024-06-12T06:00; 2024-06-04T18:00..2024-06-05T06:00",
    "this past Tuesday": "2024-06-11..2024-06-12",
    "the past Friday": "2024-06-07..2024-06-08",
    "this Monday": "2024-06-10..2024-06-11",
    "this Thursday": "2024-06-13..2024-06-14",
    "Tuesday of last week": "2024-06-04..2024-06-05",
    "Tuesday last week": "2024-06-04..2024-06-05",
    "on Tuesday last week": "2024-06-04..2024-06-05",
    "last week on Tuesday": "2024-06-04..2024-06-05",
    "last week's Tuesday": "2024-06-04..2024-06-05",
    "last week Friday": "2024-06-07..2024-06-08",
    "Monday of this week": "2024-06-10..2024-06-11",
    "Wednesday of the week before last": "2024-05-29..2024-05-30",
    "Friday afternoon last week": "2024-06-07T12:00..2024-06-07T18:00",
    "since Tuesday": "2024-06-11..2024-06-14",
    "since last Friday": "2024-06-07..2024-06-14",
    "since Thursday": "2024-06-06..2024-06-14",
}


def test_a_weekday_is_a_date_where_it_says_of_which_week() -> None:
    assert {text: read(text) for text in WEEKDAYS} == WEEKDAYS


WEEKS = {
    "last week": "2024-06-03..2024-06-10",
    "in last week's notes": "2024-06-03..2024-06-10",
    "this week": "2024-06-10..2024-06-17",
    "earlier this week": "2024-06-10..2024-06-17",
    "the week before last": "2024-05-27..2024-06-03",
    "the week before last week": "2024-05-27..2024-06-03",
    "last weekend": "2024-06-08..2024-06-10",
    "the weekend": "2024-06-08..2024-06-10",
    "over the weekend": "2024-06-08..2024-06-10",
    "on the weekend": "2024-06-08..2024-06-10",
    "during the last weekend": "2024-06-08..2024-06-10",
    "this past weekend": "2024-06-08..2024-06-10",
    "since the weekend": "2024-06-08..2024-06-14",
    "the week of March 5": "2024-03-04..2024-03-11",
    "the first week of May": "2024-05-01..2024-05-08",
    "the second week of March 2023": "2023-03-08..2023-03-15",
    "the last week of May": "2024-05-25..2024-06-01",
    "early last week": "2024-06-03..2024-06-05",
    "mid last week": "2024-06-05..2024-06-07",
    "late last week": "2024-06-07..2024-06-10",
    "the end of last week": "2024-06-07..2024-06-10",
}


def test_weeks_go_from_monday_to_sunday() -> None:
    assert {text: read(text) for text in WEEKS} == WEEKS


STRETCHES = {
    "in the past day": "2024-06-12..2024-06-14",
    "in the last 24 hours": "2024-06-12T15:30..2024-06-13T15:30",
    "in the last hour": "2024-06-13T14:30..2024-06-13T15:30",
    "in the last 90 minutes": "2024-06-13T14:00..2024-06-13T15:30",
    "the last 30 days": "2024-05-14..2024-06-14",
    "over the last two weeks": "2024-05-30..2024-06-14",
    "the last two weeks": "2024-05-30..2024-06-14",
    "in the past two weeks": "2024-05-30..2024-06-14",
    "during the last fourteen days": "2024-05-30..2024-06-14",
    "last 7 days": "2024-06-06..2024-06-14",
    "past 10 days": "2024-06-03..2024-06-14",
    "the last few days": "2024-06-08..2024-06-14",
    "the past couple of weeks": "2024-05-23..2024-06-14",
    "the last several days": "2024-06-05..2024-06-14",
    "in the past week": "2024-06-06..2024-06-14",
    "in the last week": "2024-06-06..2024-06-14",
    "for the past week": "2024-06-06..2024-06-14",
    "this past week": "2024-06-06..2024-06-14",
    "the last month": "2024-05-13..2024-06-14",
    "in the past month": "2024-05-13..2024-06-14",
    "over the past couple of months": "2024-03-13..2024-06-14",
    "in the past three months": "2024-03-13..2024-06-14",
    "the last half a year": "2023-12-13..2024-06-14",
    "within the last year": "2023-06-13..2024-06-14",
    "the past year": "2023-06-13..2024-06-14",
    "these past two years": "2022-06-13..2024-06-14",
    "our last two days": "2024-06-11..2024-06-14",
}


def test_a_stretch_up_to_now_counts_whole_days_and_ends_today() -> None:
    assert {text: read(text) for text in STRETCHES} == STRETCHES


BEFORE_LAST = {
    "the weekend before last": "2024-06-01..2024-06-03",
    "over the weekend before last": "2024-06-01..2024-06-03",
    "the weekend before last weekend": "2024-06-01..2024-06-03",
    "the Friday before last": "2024-05-31..2024-06-01",
    "the Tuesday before last": "2024-06-04..2024-06-05; 2024-05-28..2024-05-29",
    "the night before last": "2024-06-11T18:00..2024-06-12T06:00",
    "the week before last": "2024-05-27..2024-06-03",
    "the month before last": "2024-04-01..2024-05-01",
    "in the March before last": "2023-03-01..2023-04-01",
    "the summer before last": "2022-06-01..2022-09-01",
    "over the winter before last": "2022-12-01..2023-03-01",
    "the Christmas before last": "2022-12-25..2022-12-26",
    "at Christmas before last": "2022-12-25..2022-12-26",
    "since the weekend before last": "2024-06-01..2024-06-14",
    "the line before last": "",
    "the sun before last": "",
    "the may before last": "",
}


def test_the_one_before_last_is_the_one_before_the_latest_that_is_over() -> None:
    assert {text: read(text) for text in BEFORE_LAST} == BEFORE_LAST


def test_the_weekend_before_last_does_not_count_one_that_still_lasts() -> None:
    saturday, monday = "2024-06-15T12:00", "2024-06-17T12:00"
    assert read("the weekend before last", saturday) == "2024-06-01..2024-06-03"
    assert read("the weekend before last", monday) == "2024-06-08..2024-06-10"
