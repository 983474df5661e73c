"""``<private>`` blocks: hidden wherever they are meant, kept where somebody talks about the tag."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palace_daemon.core.redaction import redact
from palace_daemon.core.redaction_private import private_blocks


def hidden(text: str) -> list[str]:
    return [text[start:end] for start, end in private_blocks(text)]


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("a <private>x</private> b", ["<private>x</private>"]),
        ("<PRIVATE>x</Private>", ["<PRIVATE>x</Private>"]),
        ("< private >x</ private >", ["< private >x</ private >"]),
        ("a <private>x\n\ny</private> b <private>z</private>", ["<private>x\n\ny</private>", "<private>z</private>"]),
        ("a <private>never closed\nto the end", ["<private>never closed\nto the end"]),
        ("<private>a<private>b</private>c</private>d", ["<private>a<private>b</private>c</private>"]),
        ("<private>a<private>b</private>c", ["<private>a<private>b</private>c"]),
        ("</private> alone, and <privately> or <private-key> too", []),
        ("", []),
    ],
)
def test_blocks_are_found_with_their_tags(text: str, blocks: list[str]) -> None:
    assert hidden(text) == blocks


@pytest.mark.parametrize(
    "text",
    [
        "`<private>` marks what is not stored",
        "wrap it in `<private>` and `</private>`",
        "as in `<private>this</private>`, say",
        "``a ` and <private>x</private>``",
        "```\n<private>x</private>\n```",
        "```xml\n<private>\n```\nand so on",
        "~~~\n<private>x\n~~~~\n",
        "> ```\n> <private>x</private>\n> ```\n",
        "- ```\n  <private>x</private>\n  ```\n",
    ],
)
def test_a_tag_in_code_is_talk_about_the_tag(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("it`s <private>x</private> and that`s it", []),
        ("it`s <private>x</private>\nthat`s it", ["<private>x</private>"]),
        ("it`s <private>x` </private> done", ["<private>x` </private>"]),
        ("a \\` <private>x</private> \\` b", ["<private>x</private>"]),
        ("```\nstray mark\n<private>x</private>", ["<private>x</private>"]),
        ("```\nstray <private>x</private>\n```py\n<private>y</private>\n```", ["<private>x</private>"]),
        (
            "<private>\n```\nx\n</private>\n<private>y</private>\n```\n",
            ["<private>\n```\nx\n</private>", "<private>y</private>"],
        ),
        ("<private>in `</private>` code</private>", ["<private>in `</private>"]),
        ("`<private>` hides, so <private>x</private>", ["<private>x</private>"]),
    ],
)
def test_stray_marks_hide_no_block_from_view(text: str, blocks: list[str]) -> None:
    assert hidden(text) == blocks


_PIECES = st.sampled_from(
    ["<private>", "</private>", "`", "``", "```\n", "~~~\n", "\n", "secret ", "word ", "> ", "<Private>"]
)


@given(st.lists(_PIECES, max_size=20).map("".join))
def test_hiding_twice_is_hiding_once(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@given(st.text(max_size=20), st.text(max_size=20))
def test_without_marks_of_code_nothing_between_the_tags_is_left(before: str, secret: str) -> None:
    plain = re.sub(r"[`~<>]", "", before)
    assert redact(f"{plain}<private>{secret.replace('<', '')}</private>").endswith("[redacted:private]")
