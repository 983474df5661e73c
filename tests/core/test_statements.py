"""What people say, sentence by sentence: no questions, no code, nothing that no person typed."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palace_daemon.core.statements import STATEMENT_CHARS_MAX, STATEMENTS_MAX, Statement, statements
from palace_daemon.model import UserKind


def said(text: str, kind: UserKind = "prompt") -> list[str]:
    return [statement.text for statement in statements(text, "", kind)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We moved the kiln. Does it draw? It does, I think!", ["We moved the kiln.", "It does, I think!"]),
        ("we keep the lamp lit\nno stop stands here", ["we keep the lamp lit", "no stop stands here"]),
        ("one line\r\nand another line\r\n", ["and another line"]),
        ("We pinned glaze 2.4.1 in kiln.toml today. It held well.", None),
        ("Then...well we all rest... And so on it went.", ["Then...well we all rest...", "And so on it went."]),
        ('She said "we fire on Friday." Then silence fell.', ['She said "we fire on Friday."', "Then silence fell."]),
        ("(It is so, they said.) And (is it so?)", ["(It is so, they said.)"]),
        ("**Is it hot today?** We wait for it.", ["We wait for it."]),
        ("我们把窑搬到了新的院子。你喜欢吗？我们每周五烧窑。", ["我们把窑搬到了新的院子。", "我们每周五烧窑。"]),
        ("Мы перенесли печь. Когда она остынет?", ["Мы перенесли печь."]),
        ("I don\u2019t fire clay", ["I don\u2019t fire clay"]),
    ],
)
def test_each_sentence_that_is_no_question_is_a_statement(text: str, expected: list[str] | None) -> None:
    assert said(text) == (expected or ["We pinned glaze 2.4.1 in kiln.toml today.", "It held well."])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("- We keep the lamp.", "We keep the lamp."),
        ("  * We keep the lamp.", "We keep the lamp."),
        ("12. We keep the lamp.", "We keep the lamp."),
        ("3) We keep the lamp.", "We keep the lamp."),
        ("## We keep the lamp", "We keep the lamp"),
        ("- [ ] We keep the lamp.", "We keep the lamp."),
        ("- [x] 1. We keep the lamp.", "We keep the lamp."),
    ],
)
def test_what_marks_a_line_is_no_part_of_the_sentence(line: str, expected: str) -> None:
    assert said(line) == [expected]


@pytest.mark.parametrize(
    "line",
    [
        "> these words are quoted",
        "  > these words are quoted",
        "| a | table | of words |",
        "$ make the kiln hot",
        "% make the kiln hot",
        "@@ this is a diff",
        "+++ this is a diff",
        "--- this is a diff",
        "    at kiln.fire (of the yard)",
        'File "kiln.py", in the yard',
    ],
)
def test_lines_that_nobody_says_are_left_out(line: str) -> None:
    assert said(f"Before it I speak.\n{line}\nAfter it I speak.") == ["Before it I speak.", "After it I speak."]


@pytest.mark.parametrize("mark", ["```", "~~~", "````"])
def test_fenced_blocks_are_left_out(mark: str) -> None:
    text = f"I speak before it.\n{mark}python\nthese words are code\n\nand so are these\n{mark}\nI speak after it."
    assert said(text) == ["I speak before it.", "I speak after it."]


def test_a_fence_that_is_never_closed_hides_the_rest() -> None:
    assert said("I speak before it.\n```\nthese words are code") == ["I speak before it."]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\t ",
        "ok",
        "Yes, sure.",
        "?",
        "...",
        "🎉 🎉 🎉",
        "短い文",
        "/a/b1/c2 --x=1 12:30:00 [x] 0x1f {y: 3} of it",
    ],
)
def test_what_has_no_words_to_speak_of_is_no_statement(text: str) -> None:
    assert said(text) == []


@pytest.mark.parametrize("kind", ["automated", "shell"])
def test_what_no_person_typed_holds_no_statements(kind: UserKind) -> None:
    assert statements("We moved the kiln.", "It stands in the yard.", kind) == ()


@pytest.mark.parametrize("kind", ["prompt", "queued", "note"])
def test_of_a_person_and_an_agent_only_the_person_counts(kind: UserKind) -> None:
    found = statements("We moved the kiln.", "It stands in the yard.", kind)
    assert found == (Statement("We moved the kiln.", is_wish=False),)


def test_where_people_talk_each_speaks_by_name() -> None:
    found = statements(
        "Ana: I moved the kiln. Is it hot?\n\nIt stands in the yard.", "Ben: We can fire it soon.", "speaker"
    )
    assert [statement.text for statement in found] == [
        "Ana: I moved the kiln.",
        "Ana: It stands in the yard.",
        "Ben: We can fire it soon.",
    ]


def test_who_speaks_without_a_name_is_not_given_one() -> None:
    found = statements("We moved the kiln.", "Ben: It stands there now.", "speaker")
    assert [statement.text for statement in found] == ["We moved the kiln.", "Ben: It stands there now."]


def test_a_wish_is_told_by_what_is_said_not_by_who_says_it() -> None:
    found = statements("Ana: I always fire on Fridays.\n\nThe kiln is old.", "Ben: Never open it hot.", "speaker")
    assert [statement.is_wish for statement in found] == [True, False, True]


def test_what_is_said_twice_counts_once() -> None:
    assert said("We keep the lamp. We keep it lit. We keep the lamp.") == ["We keep the lamp.", "We keep it lit."]


def test_of_many_statements_the_first_and_the_last_are_kept() -> None:
    names = [f"we have jar {'ab'[n % 2] * (n + 1)}" for n in range(3 * STATEMENTS_MAX)]
    half = STATEMENTS_MAX // 2
    assert said("\n".join(names)) == names[:half] + names[-half:]
    assert said("\n".join(names[:STATEMENTS_MAX])) == names[:STATEMENTS_MAX]


def test_a_long_sentence_is_cut_at_a_word_and_a_long_word_anywhere() -> None:
    (spaced,) = said("kiln " * 1_000)
    assert spaced == ("kiln " * 1_000)[: len(spaced)]
    assert spaced.endswith("kiln")
    assert STATEMENT_CHARS_MAX - 5 <= len(spaced) <= STATEMENT_CHARS_MAX
    (unspaced,) = said("窑" * 1_000)
    assert unspaced == "窑" * STATEMENT_CHARS_MAX


_PARTS = st.sampled_from(
    [
        "We keep it", "is it so", "kiln", "窑在院子里", ". ", "? ", "!", "...", "。", "？", "\n", "\n\n", "- ", "> ",
        "1. ", "```\n", "~~~", '"', ")", "Ana: ", ": ", " ", "2.4.1", "\u2019", "I prefer ", "\r\n", "\x85", "\u2028",
    ]
)  # fmt: skip
_TEXTS = st.lists(st.one_of(_PARTS, st.text(max_size=6)), max_size=30).map("".join)
_KINDS: st.SearchStrategy[UserKind] = st.sampled_from(["prompt", "queued", "speaker", "note", "shell", "automated"])


@given(_TEXTS, _TEXTS, _KINDS)
def test_any_exchange_gives_few_short_distinct_statements(user: str, reply: str, kind: UserKind) -> None:
    found = statements(user, reply, kind)
    assert found == statements(user, reply, kind)
    assert len(found) == len(set(found)) <= STATEMENTS_MAX
    for statement in found:
        assert "\n" not in statement.text
        assert not statement.text.endswith(("?", "？"))
        if kind == "speaker":
            name, _, rest = statement.text.rpartition(": ")
            assert len(statement.text) <= STATEMENT_CHARS_MAX + 42
            assert rest in user or rest in reply or name
        else:
            assert 0 < len(statement.text) <= STATEMENT_CHARS_MAX
            assert statement.text in user


@given(_TEXTS)
def test_a_reply_to_a_prompt_changes_nothing(user: str) -> None:
    assert statements(user, "", "prompt") == statements(user, "Ana: I never fire on Mondays.", "prompt")


@pytest.mark.parametrize(
    "unit",
    [
        "a", "word ", ".", "a.", ". ", "(", "a) ", ":", "i'", "I''", "i-i ", ".) ", "- ", "1. ", "[ ] ", "\t", "!?",
        "i-i-find ", "```\n", "~~~", "at a", "我。", "a\n", "A: b\n\n",
    ],
)  # fmt: skip
def test_hostile_texts_take_linear_time(unit: str) -> None:
    text = unit * (300_000 // len(unit))  # minutes if it were quadratic, days if words could be told apart in many ways
    assert len(statements(text, "", "prompt")) <= STATEMENTS_MAX
    assert len(statements("", text, "speaker")) <= STATEMENTS_MAX


@pytest.mark.parametrize(
    ("turn", "said"),
    [
        ("We moved the queue to Redis, can you check the settings?", "We moved the queue to Redis"),
        ("I prefer oak for the shelves, so what would fit the hall?", "I prefer oak for the shelves"),
        ("The boiler was replaced in May and can you find the bill?", "The boiler was replaced in May"),
        ("Our lease ends in June; isn’t that too early?", "Our lease ends in June"),
    ],
)
def test_what_a_question_says_before_it_asks_is_a_statement(turn: str, said: str) -> None:
    assert [statement.text for statement in statements(turn, "", "prompt")] == [said]


@pytest.mark.parametrize(
    "turn",
    [
        "Can you tell me when it rains, and how much?",
        "What about the cache, is it warm?",
        "So, is the cache warm, and does it stay so?",
        "OK then, how is it done?",
        "Is it the way that we did and that you know?",
    ],
)
def test_a_question_that_only_asks_gives_no_statement(turn: str) -> None:
    assert statements(turn, "", "prompt") == ()


@pytest.mark.parametrize(
    ("turn", "occasion"),
    [
        ("Always explain each step when I ask about fractions.", "fractions"),
        ("Never push to main if the nightly build is red.", ""),
        ("Always tell me first, if the nightly build is red!", "the nightly build is red"),
        ("Whenever we talk about rent, always give it per month.", "rent"),
        ("When the disk is nearly full, never delete the logs.", "the disk is nearly full"),
        ("I never eat fish.", ""),
        ("When I ask about boats.", ""),
    ],
)
def test_the_occasion_of_a_wish_is_a_statement_of_its_own(turn: str, occasion: str) -> None:
    found = statements(turn, "", "prompt")
    assert [statement.text for statement in found[1:]] == ([occasion] if occasion else [])
    assert all(statement.is_wish for statement in found[1:])


def test_what_stands_between_words_of_a_question_takes_linear_time() -> None:
    assert statements(f"we went{' ' * 200_000}home?", "", "prompt") == ()
    assert statements(f"we went home{', ' * 100_000}?", "", "prompt") == ()


def test_a_sentence_that_the_tokeniser_takes_apart_still_fits_the_model() -> None:
    (said,) = statements("\ud55c\uad6d\uc5b4\ub85c " * 100, "", "prompt")
    assert len(unicodedata.normalize("NFKD", said.text)) <= STATEMENT_CHARS_MAX
    assert said.text.startswith("\ud55c\uad6d\uc5b4\ub85c")
