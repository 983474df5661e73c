"""Exchanges are cut into drawers that lose nothing, fit the model and stay as they are when a reply grows."""

from __future__ import annotations

import random
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from palace_daemon.core import chunking
from palace_daemon.core.boundaries import Boundaries, fixed_until
from palace_daemon.embed.tokens import MiniLmTokenCounter
from palace_daemon.model import DrawerSpan


class FakeCounter:
    """One token per four ASCII letters, per digit or mark, per other character after NFD; two specials."""

    def __init__(self, max_tokens: int = 512) -> None:
        self.max_tokens = max_tokens
        self.calls = 0

    def count(self, text: str) -> int:
        self.calls += 1
        decomposed = unicodedata.normalize("NFD", text) if not text.isascii() else text
        quarters = sum(1 if char.isascii() and char.isalpha() else 4 for char in decomposed if not char.isspace())
        return 2 + (quarters + 3) // 4


def _cut(user: str, reply: str, max_chars: int = 2000, max_tokens: int = 512) -> tuple[DrawerSpan, ...]:
    return chunking.cut(user, reply, FakeCounter(max_tokens), max_chars=max_chars)


def _texts(user: str, reply: str, spans: tuple[DrawerSpan, ...]) -> list[str]:
    return [chunking.render(user, reply, span) for span in spans]


def _prose(words: int, seed: int = 1) -> str:
    chosen = random.Random(seed)
    sentences = []
    while words > 0:
        length = min(words, chosen.randint(4, 18))
        sentence = " ".join("".join(chosen.choices("etaoinshrdlu", k=chosen.randint(2, 9))) for _ in range(length))
        sentences.append(sentence.capitalize() + ".")
        words -= length
    return "".join(sentence + ("\n\n" if at % 6 == 5 else " ") for at, sentence in enumerate(sentences)).strip()


def test_a_short_exchange_is_one_drawer() -> None:
    spans = _cut("Where is the queue?", "In Redis since May.")
    assert _texts("Where is the queue?", "In Redis since May.", spans) == [
        "> Where is the queue?\n\nIn Redis since May."
    ]


@pytest.mark.parametrize(("user", "reply"), [("", ""), (" \n", "\t"), ("", "\n")])
def test_an_exchange_without_text_gives_no_drawers(user: str, reply: str) -> None:
    assert _cut(user, reply) == ()


def test_a_reply_without_a_user_turn_is_rendered_alone() -> None:
    assert _texts("", "hello", _cut("", "hello")) == ["hello"]


def test_a_user_turn_without_a_reply_gives_drawers() -> None:
    assert _texts("hello", "", _cut("hello", "")) == ["> hello"]
    long = _prose(900)
    spans = _cut(long, "")
    assert len(spans) > 1
    assert chunking.join(long, "", spans) == (long, "")


def test_every_further_drawer_begins_with_the_user_turn() -> None:
    user, reply = "Why did we move the queue?", _prose(1500)
    texts = _texts(user, reply, _cut(user, reply))
    assert len(texts) >= 4
    assert all(text.startswith(f"> {user}\n\n") for text in texts)
    assert all(len(text) <= 2000 for text in texts)


def test_a_long_user_turn_is_cut_whole_and_led_by_its_head_and_tail() -> None:
    user = "First words of the turn. " + _prose(700) + " And so what is the question?"
    reply = _prose(600, seed=2)
    spans = _cut(user, reply)
    texts = _texts(user, reply, spans)
    assert chunking.join(user, reply, spans) == (user, reply)
    leads = [text for text, span in zip(texts, spans, strict=True) if span.user_start == span.user_end]
    assert leads
    for lead in leads:
        quotation = lead.split("\n\n")[0]
        assert quotation.startswith("> First words of the turn. ")
        assert " … " in quotation
        assert quotation.endswith("what is the question?")
        assert len(quotation) <= chunking.LEAD_CHARS_MAX + len("> ") + len(" … ")


def test_a_short_reply_stays_with_a_user_turn_that_nearly_fills_a_drawer() -> None:
    user = _prose(260)[:1700].strip()
    assert len(_cut(user, "Done.")) == 1


def test_a_reply_goes_to_its_own_drawer_rather_than_into_a_sliver() -> None:
    user = _prose(300)[:1900].strip()
    reply = _prose(100, seed=3)
    spans = _cut(user, reply)
    assert [(span.reply_start, span.reply_end) for span in spans] == [(0, 0), (0, len(reply))]


def test_cuts_fall_at_paragraph_ends() -> None:
    reply = "\n\n".join(_prose(60, seed).replace("\n\n", " ") for seed in range(12))
    spans = _cut("q", reply)
    assert len(spans) > 1
    assert all(reply[: span.reply_end].endswith("\n\n") for span in spans[:-1])


def test_cuts_fall_at_sentence_ends_in_one_long_paragraph() -> None:
    reply = _prose(3000).replace("\n\n", " ")
    spans = _cut("q", reply)
    assert all(reply[: span.reply_end].endswith(". ") for span in spans[:-1])


def test_cuts_fall_at_word_ends_where_there_are_no_sentences() -> None:
    reply = _prose(3000).replace("\n\n", " ").replace(".", "")
    assert all(reply[span.reply_end - 1] == " " for span in _cut("q", reply)[:-1])


def test_cuts_in_chinese_fall_at_sentence_ends() -> None:
    reply = "我们把队列迁移到了新的系统，因为旧的系统太慢。" * 300
    spans = _cut("为什么？", reply)
    assert all(reply[: span.reply_end].endswith("。") for span in spans[:-1])
    assert chunking.join("为什么？", reply, spans) == ("为什么？", reply)


def test_a_fenced_block_that_fits_in_a_drawer_is_not_cut() -> None:
    block = "```python\n" + "".join(f"value_{at} = compute({at})\n\n" for at in range(30)) + "```\n"
    reply = _prose(120) + "\n\n" + block + "\n" + _prose(200, seed=2)
    texts = _texts("q", reply, _cut("q", reply, max_tokens=4000))
    assert len(texts) > 1
    assert sum(block in text for text in texts) == 1


def test_a_fenced_block_that_is_too_long_is_cut_at_lines() -> None:
    block = "```\n" + "".join(f"    line_{at}: some value here\n" for at in range(400)) + "```"
    spans = _cut("q", block, max_tokens=4000)
    assert len(spans) > 3
    assert all(block[: span.reply_end].endswith("\n") for span in spans[:-1])
    assert block[spans[1].reply_start :].startswith("    line_")


def test_a_heading_goes_with_what_it_heads() -> None:
    first, second = _prose(180).replace("\n\n", " "), _prose(180, 2).replace("\n\n", " ")
    reply = f"{first}\n\n## Second part\n\n{second}"
    spans = _cut("q", reply, max_chars=len(first) + 40, max_tokens=4000)
    assert reply[spans[1].reply_start :].startswith("## Second part")


def test_no_tiny_last_piece_is_left() -> None:
    for extra in range(0, 400, 40):
        reply = _prose(320).replace("\n\n", " ")[: 1990 + extra]
        spans = _cut("q", reply)
        sizes = [span.reply_end - span.reply_start for span in spans]
        assert len(sizes) == 1 or min(sizes) > 400


@pytest.mark.parametrize(
    "reply",
    ["e\u0301" * 3000, "👩\u200d👩\u200d👧" * 900, "👍🏽" * 1500, "🇩🇪🇫🇷" * 900, "नि" * 2500],
    ids=["accents", "families", "skin tones", "flags", "devanagari"],
)
def test_cuts_never_tear_a_character(reply: str) -> None:
    spans = _cut("q", reply)
    assert len(spans) > 1
    for span in spans[1:]:
        before, after = reply[span.reply_start - 1], reply[span.reply_start]
        assert not unicodedata.category(after).startswith("M")
        assert "\u200d" not in (before, after)
        assert not "\U0001f3fb" <= after <= "\U0001f3ff"
        assert (span.reply_start % 2 == 0) or "🇩" not in reply


def test_endless_marks_do_not_stop_the_cut() -> None:
    reply = "a" + "\u0301" * 5000
    spans = _cut("q", reply)
    assert chunking.join("q", reply, spans) == ("q", reply)


_PIECES = st.sampled_from(
    [
        "\n\n",
        "\n",
        " ",
        ". ",
        "```\n",
        "~~~\n",
        "# Head\n",
        "def f(x):\n    return x\n",
        "word",
        "a long sentence of words. ",
        "今天我们决定",
        "。",
        "데이터베이스",
        "é",
        "👩\u200d👧",
        "🇩🇪",
        "0x7f3a",
        "\r\n",
        "\t",
        "x" * 90,
        "Zm9v" * 30,
        "İ",
        "ﷺ",
    ]
)
_PASSAGES = st.lists(st.one_of(_PIECES, st.text(max_size=12)), max_size=120).map("".join)


@settings(max_examples=120, deadline=None)
@given(_PASSAGES, _PASSAGES, st.sampled_from([100, 180, 800, 2000]), st.sampled_from([24, 60, 128, 512]))
def test_nothing_is_lost_and_no_drawer_is_too_long(user: str, reply: str, max_chars: int, max_tokens: int) -> None:
    counter = FakeCounter(max_tokens)
    spans = chunking.cut(user, reply, counter, max_chars=max_chars)
    if not user.strip() and not reply.strip():
        assert spans == ()
        return
    assert chunking.join(user, reply, spans) == (user, reply)
    assert [span.ordinal for span in spans] == list(range(len(spans)))
    for text in _texts(user, reply, spans):
        assert len(text) <= max_chars
        assert counter.count(text) <= max_tokens
    assert spans == chunking.cut(user, reply, counter, max_chars=max_chars)


@settings(max_examples=150, deadline=None)
@given(_PASSAGES, _PASSAGES, _PASSAGES, st.sampled_from([100, 180, 500]), st.sampled_from([24, 60, 512]))
@example(user=". ", reply="\n\n데이터베이스0000000000", more="\n\n", max_chars=100, max_tokens=24)
def test_a_growing_reply_keeps_all_drawers_but_the_last_two(
    user: str, reply: str, more: str, max_chars: int, max_tokens: int
) -> None:
    before = _cut(user, reply, max_chars, max_tokens)
    after = _cut(user, reply + more, max_chars, max_tokens)
    keeps = max(0, len(before) - 2)
    if keeps and before[keeps - 1].user_end == len(user) > before[keeps - 1].user_start:
        keeps -= 1  # what the drawer of the question takes of a reply may depend on where that ends
    assert after[:keeps] == before[:keeps]


@settings(max_examples=300, deadline=None)
@given(
    _PASSAGES,
    _PASSAGES,
    st.lists(st.tuples(st.floats(0, 1), _PASSAGES), min_size=1, max_size=4),
    st.sampled_from([100, 180, 500]),
    st.sampled_from([24, 60, 512]),
)
def test_going_on_equals_a_cut_from_scratch(
    user: str, reply: str, changes: list[tuple[float, str]], max_chars: int, max_tokens: int
) -> None:
    counter = FakeCounter(max_tokens)
    spans = chunking.cut(user, reply, counter, max_chars=max_chars)
    for share, more in changes:  # 1 appends; less also drops what stood behind
        changed = reply[: round(len(reply) * share)] + more
        kept = chunking.unchanged(spans, reply, changed, max_chars=max_chars)
        spans = chunking.cut(user, changed, counter, max_chars=max_chars, kept=kept)
        reply = changed
        assert spans == chunking.cut(user, reply, counter, max_chars=max_chars)


@settings(max_examples=300, deadline=None)
@given(
    _PASSAGES,
    st.sampled_from(["", "\n```", "\n   ~~~ sh", "\n`"]),
    st.lists(st.one_of(st.sampled_from(["`", "``\n", "\n", " x"]), _PASSAGES), min_size=2, max_size=2, unique=True),
    st.integers(1, 300),
)
def test_what_is_fixed_is_cut_alike_whatever_follows(passage: str, last: str, rests: list[str], size: int) -> None:
    text = passage + last
    fixed = fixed_until(text + rests[0], len(text))
    one, other = Boundaries(text + rests[0]), Boundaries(text + rests[1])
    for hard in range(max(size, fixed - 30), fixed + 1):
        assert one.best(hard - size, hard) == other.best(hard - size, hard)


@pytest.mark.parametrize("ending", ["```", "```py", "   ~~~ sh", "``", "            ``"])
def test_a_line_that_may_yet_be_no_fence_is_not_fixed(ending: str) -> None:
    text = "words of prose\n" * 40 + ending
    fixed = fixed_until(text + "later", len(text))
    assert len(text) - len(ending) - 16 <= fixed < len(text) - len(ending)


def test_one_more_line_costs_few_counts_however_long_the_reply_is() -> None:
    reply = _prose(20_000)
    spans = _cut("Why did we move the queue?", reply)
    counter = FakeCounter()
    longer = reply + "\n\nOne more line."
    kept = chunking.unchanged(spans, reply, longer, max_chars=2000)
    after = chunking.cut("Why did we move the queue?", longer, counter, max_chars=2000, kept=kept)
    assert len(spans) > 50
    assert len(kept) >= len(spans) - 3
    assert counter.calls < 30
    assert after == _cut("Why did we move the queue?", longer)


def test_a_reply_that_became_blank_keeps_nothing() -> None:
    blank = "\n" * 500
    spans = _cut("", blank + "word", max_chars=100)
    kept = chunking.unchanged(spans, blank + "word", blank, max_chars=100)
    assert kept
    assert chunking.cut("", blank, FakeCounter(), max_chars=100, kept=kept) == ()


def test_dense_text_is_cut_with_few_counts() -> None:
    counter = FakeCounter()
    spans = chunking.cut("q", "漢字" * 10_000, counter, max_chars=2000)
    assert len(spans) >= 40
    assert counter.calls / len(spans) < 9


@pytest.mark.parametrize(("max_chars", "max_tokens"), [(99, 512), (2000, 10)])
def test_impossible_bounds_are_refused(max_chars: int, max_tokens: int) -> None:
    with pytest.raises(ValueError, match="too small"):
        _cut("q", "r", max_chars, max_tokens)


_REAL = {
    "english": _prose(2500),
    "one paragraph of 30,000 characters": _prose(5000).replace("\n\n", " ")[:30_000],
    "chinese": "我们把队列迁移到了新的系统因为旧的系统太慢" * 240,
    "korean": "데이터베이스를 새 서버로 옮겼습니다. " * 200,
    "base64": "".join(
        random.Random(3).choices("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", k=8_000)
    ),
    "hexadecimal": " ".join(f"{random.Random(5).getrandbits(64) + at:016x}" for at in range(200)),
    "code": "\n".join(
        f"    if (values[{at}] != NULL && *p++ == '\\x{at:02x}') {{ goto out_{at}; }}" for at in range(200)
    ),
    "accents": "Übergrößenträger żółć e\u0301\u0302 Ǻ " * 400,
    "emoji": "🎉👩\u200d👩\u200d👧 👍🏽 " * 800,
    "capital dotted i": "İ" * 4000,
    "marks only": "\u0301" * 3000,
}


@pytest.mark.parametrize("name", _REAL)
def test_no_drawer_exceeds_the_real_models_cap(name: str) -> None:
    counter = MiniLmTokenCounter()
    text = _REAL[name]
    for user, reply in [("What did we decide?", text), (text, "Done."), (text, text), ("", text)]:
        spans = chunking.cut(user, reply, counter, max_chars=2000)
        assert chunking.join(user, reply, spans) == (user, reply)
        assert max(counter.count(drawer) for drawer in _texts(user, reply, spans)) <= counter.max_tokens


@given(st.text(max_size=60))
def test_a_text_never_has_more_real_tokens_than_bytes(text: str) -> None:
    assert MiniLmTokenCounter().count(text) <= len(text.encode()) + 2


def test_one_long_paragraph_of_any_character_stays_within_the_byte_bound() -> None:
    counter = MiniLmTokenCounter()
    for first in range(0x20, 0x30000, 64):
        text = "".join(chr(code) for code in range(first, first + 64) if not 0xD800 <= code < 0xE000)
        assert counter.count(text) <= len(text.encode()) + 2


def test_boundaries_find_words_for_a_lead() -> None:
    marks = Boundaries("one two three four five")
    assert "one two three four five"[: marks.word_end(9)] == "one two "
    assert "one two three four five"[marks.word_start(12) :] == "four five"
