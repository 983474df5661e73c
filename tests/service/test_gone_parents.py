"""A fork whose parent's transcript was deleted: the turns that it repeats stay the parent's, and few are its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.claude import turn
from support.standing import remembered, standing

LONG = "\n\n".join(f"Paragraph {number} says a little more about the tides." for number in range(40))


def test_a_fork_is_cut_by_its_own_turns_and_stands_as_in_a_store_that_never_saw_its_parent(
    make_palace: Any, tmp_path: Path, transcripts: Path
) -> None:
    parent, fork = transcripts / "parent.jsonl", transcripts / "fork.jsonl"
    begun = "".join(turn(number, f"What of tide {number}?", "It rises.", session="s1") for number in range(1, 4))
    parent.write_text(begun)
    lived = make_palace(tmp_path / "lived")
    lived.mine([str(transcripts)], wait=True)
    fork.write_text(begun.replace('"s1"', '"s9"') + turn(4, "And the sun?", LONG, session="s9"))
    lived.mine([str(transcripts)], wait=True)
    parent.unlink()
    for _ in range(2):
        lived.mine([str(transcripts)], wait=True)
    fresh = make_palace(tmp_path / "fresh")
    fresh.mine([str(transcripts)], wait=True)
    path, once = tmp_path / "lived" / "palace.db", tmp_path / "fresh" / "palace.db"

    # A turn of its own, where three of the parent's are: cut by paragraphs. Alone it has four, and is cut by exchanges.
    ours, theirs = standing(path, set(), set()), standing(once, set(), set())
    assert [len(told[2]) for key, told in ours.items() if told[0][1] == "And the sun?"] != [
        len(told[2]) for key, told in theirs.items() if told[0][1] == "And the sun?"
    ]

    kept = remembered(path)
    assert len(kept[0]) == 3
    assert kept[1] == {"s1", "s9"}
    assert standing(path, *kept) == standing(once, *kept) != {}
