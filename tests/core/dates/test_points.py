"""Days, weekdays and weekends by their number in a longer time, and parts of a time."""

from __future__ import annotations

from support.dating import read

NUMBERED = {
    "the last Friday of February": "2024-02-23..2024-02-24",
    "the last Friday in February": "2024-02-23..2024-02-24",
    "on the first Monday of March": "2024-03-04..2024-03-05",
    "the second Tuesday of May": "2024-05-14..2024-05-15",
    "the third Friday of last month": "2024-05-17..2024-05-18",
    "the 2nd Monday of March 2023": "2023-03-13..2023-03-14",
    "the last Friday of June": "2023-06-30..2023-07-01",
    "the last Monday of last week": "2024-06-03..2024-06-04",
    "the last day of February": "2024-02-29..2024-03-01",
    "the first day of last month": "2024-05-01..2024-05-02",
    "the last day of 2023": "2023-12-31..2024-01-01",
    "the last weekend of May": "2024-05-25..2024-05-27",
    "the first weekend in May": "2024-05-04..2024-05-06",
    "since the first Monday of March": "2024-03-04..2024-06-14",
    "the fifth Monday of February": "2024-02-01..2024-03-01",
    "the last Friday of the sprint": "",
    "the last Friday of every month": "",
    "the last weekend of the sprint": "",
    "the first Monday": "",
    "the last day of school": "",
    "the second day in a row": "",
    "the second half of the file": "",
}


def test_a_day_is_found_by_its_number_in_a_longer_time() -> None:
    assert {text: read(text) for text in NUMBERED} == NUMBERED


WEEKENDS = {
    "the weekend of March 5": "2024-03-09..2024-03-11",
    "the weekend of March 9-10, 2024": "2024-03-09..2024-03-11",
    "the weekend after March 5": "2024-03-09..2024-03-11",
    "the weekend before Christmas": "2023-12-23..2023-12-25",
    "the weekend before last Christmas": "2023-12-23..2023-12-25",
    "the weekend before last week": "2024-06-01..2024-06-03",
}


def test_a_weekend_is_found_beside_another_time() -> None:
    assert {text: read(text) for text in WEEKENDS} == WEEKENDS
