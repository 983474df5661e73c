"""Ranges, open ends, and distances from another time."""

from __future__ import annotations

from support.dating import read

RANGES = {
    "between March 5 and March 10": "2024-03-05..2024-03-11",
    "between March 5 and 10": "2024-03-05..2024-03-11",
    "between March 5 and 10, 2023": "2023-03-05..2023-03-11",
    "between the 5th and the 7th of May": "2024-05-05..2024-05-08",
    "between 5 and 7 May": "2024-05-05..2024-05-08",
    "between March and May": "2024-03-01..2024-06-01",
    "between November and January": "2023-11-01..2024-02-01",
    "between March 5, 2023 and April 2": "2023-03-05..2023-04-03",
    "between early March and late May": "2024-03-01..2024-06-01",
    "between last Monday and yesterday": "2024-06-10..2024-06-13; 2024-06-03..2024-06-13",
    "between Christmas and New Year": "2023-12-25..2024-01-02",
    "between 2021 and 2023": "2021-01-01..2024-01-01",
    "between 2024-03-01 and 2024-03-07": "2024-03-01..2024-03-08",
    "between 03/05/2024 and 04/06/2024": "2024-03-05..2024-04-07; 2024-05-03..2024-06-05",
    "from March 5 to March 10": "2024-03-05..2024-03-11",
    "from March 5 to April 2, 2023": "2023-03-05..2023-04-03",
    "from March 5 through 7": "2024-03-05..2024-03-08",
    "from last Tuesday to yesterday": "2024-06-11..2024-06-13; 2024-06-04..2024-06-13",
    "from yesterday until now": "2024-06-12..2024-06-14",
    "from March to May": "2024-03-01..2024-06-01",
    "from 2021 to 2023": "2021-01-01..2024-01-01",
    "from 2024-03-01 to 2024-03-07": "2024-03-01..2024-03-08",
    "from March 5 till today": "2024-03-05..2024-06-14",
    "from 5 to 7 March": "2024-03-05..2024-03-08",
    "from March 5 on": "2024-03-05..2024-06-14",
    "from last week onwards": "2024-06-03..2024-06-14",
    "March 5-7": "2024-03-05..2024-03-08",
    "March 5–7": "2024-03-05..2024-03-08",
    "March 5-7, 2023": "2023-03-05..2023-03-08",
    "March 5 - March 7": "2024-03-05..2024-03-08",
    "March 5 to March 7": "2024-03-05..2024-03-08",
    "5-7 March 2023": "2023-03-05..2023-03-08",
    "January 10 through 12": "2024-01-10..2024-01-13",
    "in March-May": "2024-03-01..2024-06-01",
    "in March–May": "2024-03-01..2024-06-01",
    "2024-03-01 - 2024-03-07": "2024-03-01..2024-03-08",
    "2024-03-01–2024-03-07": "2024-03-01..2024-03-08",
    "from last week": "2024-06-03..2024-06-10",
    "notes from March": "2024-03-01..2024-04-01",
}


def test_a_range_goes_from_the_beginning_of_one_time_to_the_end_of_the_other() -> None:
    assert {text: read(text) for text in RANGES} == RANGES


OPEN = {
    "since yesterday": "2024-06-12..2024-06-14",
    "since last week": "2024-06-03..2024-06-14",
    "since March 5": "2024-03-05..2024-06-14",
    "since the beginning of last month": "2024-05-01..2024-06-14",
    "since 2019": "2019-01-01..2024-06-14",
    "since Christmas": "2023-12-25..2024-06-14",
    "since two weeks ago": "2024-05-27..2024-06-14",
    "ever since this morning": "2024-06-13T04:00..2024-06-14",
    "before March": "..2024-03-01",
    "before March 5": "..2024-03-05",
    "before yesterday": "..2024-06-12",
    "before last week": "..2024-06-03",
    "before 2024": "..2024-01-01",
    "before Christmas": "..2023-12-25",
    "prior to March 5": "..2024-03-05",
    "before two weeks ago": "..2024-05-27",
    "before the end of March": "..2024-03-21",
    "after March 5": "2024-03-06..2024-06-14",
    "after March": "2024-04-01..2024-06-14",
    "after last week": "2024-06-10..2024-06-14",
    "after Christmas": "2023-12-26..2024-06-14",
    "after 2022": "2023-01-01..2024-06-14",
    "later than March 5": "2024-03-06..2024-06-14",
    "until last week": "..2024-06-10",
    "up to March 5": "..2024-03-06",
    "until yesterday": "..2024-06-13",
    "two weeks before Christmas": "2023-12-08..2023-12-15",
    "the day before Christmas": "2023-12-24..2023-12-25",
    "the day after Christmas": "2023-12-26..2023-12-27",
    "the week after Christmas": "2023-12-26..2024-01-02",
    "the month before March": "2024-02-01..2024-03-01",
    "ten days after March 5": "2024-03-13..2024-03-18",
    "a week before March 5, 2024": "2024-02-24..2024-03-02",
}


def test_since_and_after_end_today_and_before_begins_with_all_time() -> None:
    assert {text: read(text) for text in OPEN} == OPEN
