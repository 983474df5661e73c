"""Standing wishes and the requests that they bear on: told by form, in linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from palace_daemon.core import wishes
from palace_daemon.core.wishes import is_request, is_wish


@pytest.mark.parametrize(
    "sentence",
    [
        "I prefer matte glazes.",
        "We always fire on Fridays.",
        "i avoid lead in all of it",
        "My favourite clay is porcelain.",
        "I'm allergic to silica dust.",
        "I don't like electric kilns",
        "I don\u2019t like electric kilns",
        "I really, truly can't stand wax.",
        "Honestly I tend to work alone.",
        "I have never been fond of gas kilns",
        "I find long firings stressful.",
        "I am semi-vegetarian these days.",
        "Always wedge the clay first.",
        "Never open the kiln hot.",
        "Please make sure the lid is shut.",
        "From now on, two coats each.",
        "Two coats each from now on.",
        "don't touch the vents",
        "Stick to cone six.",
        "By default the vents stay shut.",
        "And remember to log each firing.",
    ],
)
def test_how_somebody_always_wants_it_is_a_wish(sentence: str) -> None:
    assert is_wish(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "",
        "We moved the kiln to the yard.",
        "I fired twelve jars on Monday.",
        "The kiln always smokes.",
        "Ben prefers matte glazes.",
        "I told the others about the long and very tiring day and Ben prefers gas.",
        "It never rains here.",
        "You should not avoid it.",
        "Iprefer is no word.",
    ],
)
def test_what_merely_happened_or_is_of_others_is_no_wish(sentence: str) -> None:
    assert not is_wish(sentence)


@pytest.mark.parametrize(
    "question",
    [
        "Can you suggest a glaze for a bowl?",
        "What glaze should I use for a bowl?",
        "How do I fire a bowl?",
        "I'm looking for a clay to begin with.",
        "I\u2019m looking for a clay to begin with.",
        "Any tips for a first firing?",
        "What are some good clays?",
        "help me plan the next firing",
        "I want to make a teapot",
        "Where can I buy cones?",
    ],
)
def test_what_is_wanted_now_is_a_request(question: str) -> None:
    assert is_request(question)


@pytest.mark.parametrize(
    "question",
    [
        "",
        "kiln temperature",
        "Which glaze did you recommend to me?",
        "What did we decide on the kiln, can you tell?",
        "Can you remind me which clay it was?",
        "What should we do about what I said yesterday?",
        "Can you list the order in which we built them?",
        "Where is the kiln?",
        "Who owns the yard?",
    ],
)
def test_what_once_was_is_asked_without_a_request(question: str) -> None:
    assert not is_request(question)


@pytest.mark.parametrize(
    "question",
    [
        "How do we fire the kiln?",
        "how do we name the jars",
        "I need to fire the kiln alone, what cones do we use?",
        "What advice does Ben give on glazes?",
        "Walk me through what the timer does step by step",
    ],
)
def test_how_things_are_done_among_us_is_asked_without_a_request(question: str) -> None:
    assert not is_request(question)


@pytest.mark.parametrize(
    "question",
    [
        "How can we fire the kiln faster?",
        "How should we name the jars?",
        "How do I glaze a bowl?",
        "What does it take to fire a bowl, any tips?",
        "Can you suggest a clay, and does one need a wheel for it?",
        "Can you tell what does a good kiln need?",
        "I need to do well, what do you recommend?",
    ],
)
def test_what_somebody_would_do_for_the_first_time_is_a_request(question: str) -> None:
    assert is_request(question)


_LOOSE = re.compile(rf"{wishes._SELF}(?:\W{{1,3}}[\w'-]{{1,30}}){{0,4}}?\W{{1,3}}(?:{wishes._TASTES})\b", re.IGNORECASE)
"""A speaker, up to four words, a taste: as one would write it, in exponential time."""

_SPACED = st.sampled_from([" ", " ", " ", ", ", "... ", " (", '" '])
_WORDS = st.sampled_from(
    [
        "I", "we", "my", "I'm", "prefer", "always", "semi-vegan", "never", "kiln", "don't", "like", "not", "a", "of",
        "find it", "boring", "well-known", "into", "rather", "clay's", "x" * 29, "x" * 31, "ours", "only-child",
    ]
)  # fmt: skip


@given(st.lists(st.tuples(_WORDS, _SPACED), max_size=9).map(lambda pairs: "".join(map("".join, pairs))))
@example("I think a b semi-vegan ")
@example("I think a b c semi-vegan ")
@example("I think a b c d semi-vegan ")
def test_the_fast_pattern_finds_what_the_plain_one_does(sentence: str) -> None:
    assert bool(wishes._TASTE.search(sentence)) is bool(_LOOSE.search(sentence))


@pytest.mark.parametrize(
    "unit",
    [
        "a ", ".", "(", ": ", "i'", "i '", "I''", "i-i ", "I'a'a'a'a", "i find ", "i-i-find ", "what ", "how can ",
        "i'm ", "i want ", "please, ", "I" + "'" * 132, "\n", "我",
    ],
)  # fmt: skip
def test_hostile_texts_take_linear_time(unit: str) -> None:
    text = unit * (300_000 // len(unit))  # minutes if it were quadratic
    assert not is_request(text)
    assert is_wish(f"{text[:40_000]}\nI prefer gas")  # hours if words could be told apart in many ways
