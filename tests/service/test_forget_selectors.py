"""What selectors to forget name together: a question is asked within all of them, a project has one path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.claude import append, turn

from palace_daemon.errors import NotFoundError, RequestError
from palace_daemon.model import ForgetRequest, RecallQuery
from palace_daemon.service.palace import LivePalace

NOW = 1_800_000_000_000


def named(palace: LivePalace, **fields: Any) -> list[str]:
    return [item.title for item in palace.forget(ForgetRequest(**fields), dry_run=True).items]


@pytest.fixture
def salads(palace: LivePalace, transcripts: Path) -> LivePalace:
    """Thirty exchanges that answer the question better than the one in another file."""
    many = "".join(turn(n, f"Kiwi fruit salad, question {n}?", "Kiwi kiwi fruit salad.") for n in range(30))
    append(transcripts / "many.jsonl", many.replace("/nowhere/tidepool", "/nowhere/p2"))
    one = turn(1, "How are winter stores kept?", "Dry; a kiwi among other things is kept cool.", session="s-one")
    append(transcripts / "one.jsonl", one.replace("/nowhere/tidepool", "/nowhere/p3"))
    append(
        transcripts / "two.jsonl", turn(1, "Hello?", "Yes.", session="s-two").replace("/nowhere/tidepool", "/else/p3/")
    )
    palace.mine(wait=True)
    return palace


@pytest.mark.parametrize(
    "selectors", [{"sessions": ("s-one",)}, {"sessions": ("s-one", "s-two")}, {"project": "/nowhere/p3"},
                  {"source": ""}, {"exchanges": ()}, {"drawers": ()}]
)  # fmt: skip
def test_a_question_is_asked_within_all_other_selectors(
    salads: LivePalace, transcripts: Path, selectors: dict[str, Any]
) -> None:
    (view,) = salads.timeline("s-one")
    values = {"source": str(transcripts / "one.jsonl"), "exchanges": (view.exchange_id,),
              "drawers": (f"{view.exchange_id}.0",)}  # fmt: skip
    query = RecallQuery(text="kiwi fruit salad", now=NOW, limit=1)
    assert named(salads, query=query)[0].startswith("Kiwi fruit salad")
    filled = {name: value or values[name] for name, value in selectors.items()}
    assert named(salads, query=query, **filled) == ["How are winter stores kept?"]


def test_the_limit_of_a_question_cuts_what_is_left(salads: LivePalace) -> None:
    query = RecallQuery(text="kiwi fruit salad", now=NOW, limit=3)
    assert len(named(salads, query=query, project="/nowhere/p2")) == 3
    assert named(salads, query=query, project="/nowhere/p2", sessions=("s-one",)) == []


def test_a_last_name_stands_for_the_one_project_that_has_it(salads: LivePalace) -> None:
    assert len(named(salads, project="p2")) == len(named(salads, project="/nowhere/p2/")) == 30
    with pytest.raises(RequestError, match="several projects are called so: /else/p3, /nowhere/p3"):
        named(salads, project="p3")
    assert named(salads, project="/nowhere/p3") == ["How are winter stores kept?"]


def test_a_bare_name_beside_a_path_of_this_name_is_refused(salads: LivePalace) -> None:
    salads.remember("On p2, by name.", project="x", now=NOW)
    assert named(salads, project="x") == ["On p2, by name."]
    salads.remember("On another.", project="/nowhere/else/x", now=NOW)
    with pytest.raises(RequestError, match="/nowhere/else/x, x"):
        named(salads, project="x")
    assert named(salads, sessions=("notes:x",)) == ["On p2, by name."]


def test_part_of_a_path_names_no_project(salads: LivePalace) -> None:
    for name in ("nowhere/p2", "/p2", "p", "2"):
        with pytest.raises(NotFoundError):
            named(salads, project=name)
