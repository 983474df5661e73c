"""Conversations that branch: every message is told once, and one branch stands."""

from __future__ import annotations

import random

from palace_daemon.core.exchanges import Assembler
from palace_daemon.core.transcripts.reading.trees import Message, Tree, abandoned_chains, live_path, read_tree
from palace_daemon.core.turns import Place


def tree(*rows: tuple[str, str, str], leaf: str, has_ids: bool = True) -> Tree:
    """Build a tree of (name, parent, role); the words of a message are its name."""
    messages = {
        name: Message(id=name, parent=parent, place=Place(number + 1, number, number + 1), role=role, texts=(name,))  # type: ignore[arg-type]
        for number, (name, parent, role) in enumerate(rows)
    }
    return Tree(agent="chatgpt", session="s", messages=messages, leaf=leaf, has_ids=has_ids)


def told(one: Tree) -> list[tuple[str, str, bool]]:
    assembler = Assembler("chatgpt", str)
    assembler.take(read_tree(one))
    return [(done.user_text, done.reply_text, done.is_superseded) for done in assembler.flush().exchanges]


def test_a_regenerated_reply() -> None:
    rows = (("q", "", "user"), ("a1", "q", "assistant"), ("a2", "q", "assistant"), ("a3", "q", "assistant"))
    for has_ids in (True, False):
        assert told(tree(*rows, leaf="a2", has_ids=has_ids)) == [
            ("q", "a1", True),
            ("q", "a3", True),
            ("q", "a2", False),
        ]


def test_a_branch_in_a_branch() -> None:
    rows = (
        *(("q1", "", "user"), ("a1", "q1", "assistant"), ("q2", "a1", "user"), ("a2", "q2", "assistant")),
        *(("q3", "a2", "user"), ("a3", "q3", "assistant"), ("a3b", "q3", "assistant"), ("q2b", "a1", "user")),
    )
    assert told(tree(*rows, leaf="q2b")) == [
        ("q2", "a2", True),
        ("q3", "a3", True),
        ("q3", "a3b", True),
        ("q1", "a1", False),
        ("q2b", "", False),
    ]


def test_a_conversation_without_branches_takes_nothing_back() -> None:
    reading = read_tree(tree(("q", "", "user"), ("a", "q", "assistant"), leaf="a"))
    assert [type(event).__name__ for event in reading.events] == ["UserTurn", "ReplyText", "TurnEnd"]


def test_every_node_of_any_graph_stands_in_one_chain() -> None:
    chance = random.Random(3)
    for _ in range(200):
        names = [str(number) for number in range(chance.randint(1, 30))]
        parents = {name: chance.choice([*names, "", "gone"]) for name in names}
        live = live_path(parents, chance.choice(names))
        chains = list(abandoned_chains(parents, live))
        assert sorted([*live, *(name for chain in chains for name in chain)]) == sorted(names)


def test_a_rollback_reaches_its_own_session_alone() -> None:
    assembler = Assembler("chatgpt", str)
    for session in ("s0", "s1", "s2"):
        rows = (("q", "", "user"), ("a1", "q", "assistant"), ("a2", "q", "assistant"))
        one = tree(*rows, leaf="a2")
        assembler.take(read_tree(Tree(agent="chatgpt", session=session, messages=one.messages, leaf="a2")))
        assembler.let_go()
    done = assembler.flush().exchanges
    assert [(one.session_id, one.is_superseded) for one in done] == [
        (session, is_old) for session in ("s0", "s1", "s2") for is_old in (True, False)
    ]
