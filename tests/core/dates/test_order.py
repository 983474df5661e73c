"""Whether a question asks for the first or the latest of several."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palace_daemon.core.dates import order

ASKED = {
    "when was the first time we talked about redis?": "first",
    "the earliest decision on caching": "first",
    "when did we first use msgspec": "first",
    "when did I first mention it": "first",
    "when was the queue first mentioned": "first",
    "what did we originally decide": "first",
    "what did you initially propose": "first",
    "what was the first thing we tried": "first",
    "the most recent decision": "latest",
    "what is the latest decision about the queue": "latest",
    "what's the latest on the migration": "latest",
    "the last time we deployed": "latest",
    "when did we last discuss it": "latest",
    "when was the config last changed": "latest",
    "our last session": "latest",
    "what did I say most recently about it": "latest",
    "the last thing we agreed on": "latest",
}
NOT_ASKED = [
    "the latest version of numpy",
    "latest Python",
    "upgrade to the latest",
    "image:latest",
    "python:latest",
    "the most recent release",
    "Traceback (most recent call last):",
    "least recently used cache",
    "most recently used list",
    "at last it works",
    "my last name",
    "first argument",
    "the first element of the list",
    "first, install it",
    "first-time setup",
    "first time setup",
    "last time step",
    "for the last time, stop",
    "at the latest by Friday",
    "last week we met",
    "last Tuesday I said",
    "latest and greatest",
    "`first time`",
    "who comes first",
    "when did we first and when did we last talk",
    "the first line that I changed",
    "first name we used",
    "latest docs",
    "last session token",
]


def test_the_first_or_the_latest_is_asked_for() -> None:
    assert {text: order(text) for text in ASKED} == ASKED


def test_names_of_things_and_idioms_ask_for_neither() -> None:
    assert {text: order(text) for text in NOT_ASKED if order(text)} == {}


@given(st.text(max_size=100))
def test_any_text_is_answered(text: str) -> None:
    assert order(text) in ("", "first", "latest")
    assert order(f"`{text}`".replace("\n", " ")) == "" or "`" in text


def test_case_and_marks_change_nothing() -> None:
    assert order("**When did we FIRST** discuss it?") == "first"
    assert order("(The Last Time we met)") == "latest"
