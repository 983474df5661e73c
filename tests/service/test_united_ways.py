"""Two files that answered a question otherwise, and then alike: the session has a turn less, and is cut so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.claude import turn
from support.standing import standing

LONG = "\n\n".join(f"Paragraph {number} says a little more about the tides." for number in range(40))


def test_a_session_whose_third_turn_turns_out_to_be_a_copy_is_cut_as_if_it_had_never_had_one(
    make_palace: Any, tmp_path: Path, transcripts: Path
) -> None:
    one, other = transcripts / "one.jsonl", transcripts / "other.jsonl"
    first = turn(1, "How do tides work?", LONG)
    one.write_text(first + turn(2, "And the sun?", f"It helps. {LONG}"))
    other.write_text(first + turn(2, "And the sun?", f"It does not. {LONG}"))
    lived = make_palace(tmp_path / "lived")
    lived.mine(wait=True)
    assert lived.status().exchanges == 3
    other.write_text(one.read_text())
    lived.mine(wait=True)
    lived.mine(wait=True)
    fresh = make_palace(tmp_path / "fresh")
    fresh.mine(wait=True)
    assert lived.status().exchanges == 2
    ours, theirs = (standing(tmp_path / name / "palace.db", set(), set()) for name in ("lived", "fresh"))
    assert ours == theirs
