"""Merging lines of exports: any order, any number of times, one result."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.dumps import logical_dump

from palace_daemon.store import check, exporting, portable, tombstones
from palace_daemon.store.importing import Importer, Merged
from palace_daemon.store.portable import BadLineError, ExchangeLine, Line, Place, decode, encode
from palace_daemon.store.variants import public_id

MACHINES = ("a" * 16, "b" * 16, "c" * 16)
AT = 1_770_000_000_000


def place(machine: str = MACHINES[0], path: str = "/a.jsonl", **fields: Any) -> Place:
    known: dict[str, Any] = {"session": "s1", "owner": True, "reading": 1, "line_start": 1, "line_end": 2}
    return Place(machine=machine, path=path, **(known | fields))


def told(key: str = "x:1", reply: str = "Yes.", places: Sequence[Place] | None = None, **fields: Any) -> ExchangeLine:
    user = fields.pop("user", f"Question {key}?")
    known: dict[str, Any] = {
        "agent": "x",
        "session": "s1",
        "user_kind": "prompt",
        "started_at": AT,
        "time_quality": "exact",
        "status": "complete",
    }
    chars = len(user) + len(reply)
    return ExchangeLine(
        key=key, user_text=user, reply_text=reply, places=tuple(places or (place(chars=chars),)), **(known | fields)
    )


def merge(store: Any, lines: Iterable[Line]) -> Merged:
    done: Merged = store.edit(lambda connection, drawers: Importer(connection, drawers, lambda _: False).merge(lines))
    return done


def content(store: Any) -> dict[str, Any]:
    dump = logical_dump(store.path, with_vectors=False)
    for name in ("provenance", "sources"):  # two machines may have a file at one path
        dump[name] = sorted(dump[name])
    with store.read() as connection:
        dump["all"] = sorted(encode(line) for line in exporting.lines(connection, exporting.header(connection, "", AT)))
        assert all(finding.is_ok for finding in check.check(connection, is_deep=True))
    return dump


# --------------------------------------------------------------------------------------------------- random exports


def some_export(chance: random.Random, machine: str) -> list[Line]:
    """Return lines of one machine: growing replies, forked keys, rewinds, facts that contradict each other."""
    paths = ["/a.jsonl", "/b.jsonl"]
    lines: list[Line] = [
        portable.SourceLine(
            machine=machine, path=path, agent="x", format="f", state=chance.choice(["ok", "gone", "failed"]),
            reading=chance.randint(1, 2), lines_read=chance.randint(0, 9), lines_skipped={"torn": 1},
        )
        for path in paths
    ]  # fmt: skip
    lines += [_some_exchange(chance, machine, paths, number) for number in range(4) if chance.random() < 0.7]
    lines += [
        portable.NoteLine(
            key=f"note:{number}", text=chance.choice(["one", "two", "three"]), created_at=AT + chance.randint(0, 3),
            tags=tuple(chance.sample(["p", "q", "r"], 2)), author=chance.choice(["", "ann", "bob"]),
            edited_at=chance.choice([None, AT + 5, AT + 6]),
            superseded_by=chance.choice(["", "", "f" * 16, public_id("note:0"), public_id("note:1")]),
        )
        for number in range(3)
    ]  # fmt: skip
    lines += [
        portable.SessionLine(
            agent="x", id=name, title=chance.choice(["", "Tides", "Moon"]), cwd=chance.choice(["", "/w", "/v"]),
            project=chance.choice(["", "/w"]), relation=chance.choice(["none", "fork", "resume"]),
            automated=chance.random() < 0.2, branch=chance.choice(["", "main", "dev"]),
        )
        for name in ("s1", "s2")
    ]  # fmt: skip
    if chance.random() < 0.3:
        digest = tombstones._digest("key", f"x:{chance.randint(0, 3)}").hex()
        lines.append(portable.TombstoneLine(kind="key", digest=digest))
    return lines


def _some_exchange(chance: random.Random, machine: str, paths: list[str], number: int) -> ExchangeLine:
    reply = "First.\n\nSecond.\n\nThird."[: chance.choice([6, 15, 23])]
    user = f"Question {number}?"
    session = chance.choice(["s1", "s2"])
    stands = chance.sample(paths, chance.randint(1, 2))
    places = [
        place(
            machine, path, session=session, owner=path == stands[0], reading=chance.randint(1, 2),
            chars=len(user) + len(reply), superseded=chance.random() < 0.3, line_end=chance.randint(2, 4),
        )
        for path in stands
    ]  # fmt: skip
    keys = (f"x:{number}-copy",) if chance.random() < 0.3 else ()
    return told(
        f"x:{number}", reply, places, keys=keys, user=user, session=session, started_at=AT + number,
        ended_at=chance.choice([None, AT + 10, AT + 20]), project=chance.choice(["/w", "/v"]),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_the_order_of_imports_and_their_number_do_not_matter(open_store: Any, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    exports = [some_export(chance, machine) for machine in (*MACHINES, MACHINES[0])]
    orders = [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1), (1, 1, 3, 0, 2, 0, 3)]
    dumps = []
    for at, order in enumerate(orders):
        store = open_store(tmp_path / str(at))
        for number in order:
            merge(store, exports[number])
        dumps.append(content(store))
    assert dumps[0] == dumps[1] == dumps[2] == dumps[3]


def test_batches_make_no_difference(open_store: Any, tmp_path: Path) -> None:
    lines = some_export(random.Random(99), MACHINES[0])
    merge(whole := open_store(tmp_path / "whole"), lines)
    piece = open_store(tmp_path / "pieces")
    for line in lines:
        merge(piece, [line])
    assert content(whole) == content(piece)


# -------------------------------------------------------------------------------------------------------- one by one


def test_a_key_that_names_several_different_turns_keeps_them_all_whatever_the_order(
    open_store: Any, tmp_path: Path
) -> None:
    turns = ("Friday at five it goes out.", "Friday is cancelled.", "Friday")
    lines = [
        told("x:1", "", [place(path=f"/{number}.jsonl", chars=len(user))], user=user)
        for number, user in enumerate(turns)
    ]
    kept = []
    for number, ordered in enumerate(itertools.permutations(lines)):
        store = open_store(tmp_path / str(number))
        for line in ordered * 2:
            merge(store, [line])
        with store.read() as connection:
            kept.append(connection.execute("SELECT user_text FROM exchanges ORDER BY 1").fetchall())
    assert kept == [[(turns[0],), (turns[1],)]] * len(kept)


def test_a_key_that_names_several_different_replies_keeps_them_all_whatever_the_order(
    open_store: Any, tmp_path: Path
) -> None:
    lines = [told("x:1", reply) for reply in ("Left.", "Right.", "Straight on.", " Left.", "  Left.", "   Left.")]
    names = []
    for number, ordered in enumerate((lines, lines[::-1], lines[3:] + lines[:3])):
        store = open_store(tmp_path / str(number))
        for line in ordered * 2:
            merge(store, [line])
        with store.read() as connection:
            names.append(dict(connection.execute("SELECT reply_text, key FROM exchanges").fetchall()))
    assert set(names[0]) == {line.reply_text for line in lines}
    assert len(set(names[0].values())) == len(lines)
    assert list(names[0].values()).count("x:1") == 1
    assert names[0] == names[1] == names[2]


def test_a_copy_in_another_session_is_one_exchange(store: Any) -> None:
    first = told("x:1", "Yes.", user="Same?", session="s1")
    merge(store, [first])
    places = (place(MACHINES[1], "/b.jsonl", session="s2", chars=20),)
    merge(store, [told("x:2", "Yes. And more.", places, user="Same?", session="s2")])
    with store.read() as connection:
        assert connection.execute("SELECT key, reply_text FROM exchanges").fetchall() == [("x:1", "Yes. And more.")]
        assert connection.execute("SELECT count(*) FROM exchange_keys").fetchone() == (2,)
    merge(store, [told("x:3", "Yes.", places, user="Same?", session="s3", started_at=AT + 1)])
    with store.read() as connection:
        assert connection.execute("SELECT count(*) FROM exchanges").fetchone() == (2,)


def test_exchanges_of_ignored_projects_are_left_out(store: Any) -> None:
    def work(connection: Any, drawers: Any) -> Merged:
        importer = Importer(connection, drawers, lambda project: project == "/secret")
        return importer.merge([told("x:1", project="/secret"), told("x:2", project="/open")])

    assert store.edit(work).changes == {"ignored": 1, "exchanges_added": 1}


def test_the_third_turn_of_a_session_may_come_from_another_export(open_store: Any, tmp_path: Path) -> None:
    long = "\n\n".join("A paragraph of some length, " * 12 for _ in range(4))
    lines = [told(f"x:{n}", long, started_at=AT + n) for n in range(3)]
    merge(store := open_store(tmp_path / "1"), lines[:2])
    merge(store, lines[2:])
    merge(at_once := open_store(tmp_path / "2"), lines)
    assert content(store)["drawers"] == content(at_once)["drawers"]
    with store.read() as connection:
        assert connection.execute("SELECT DISTINCT cut FROM exchanges").fetchall() == [("exchange",)]


# ------------------------------------------------------------------------------------------------------------ lines


def test_every_line_is_read_back_as_it_was_written() -> None:
    lines = some_export(random.Random(3), MACHINES[0])
    lines += [portable.End(records=3), portable.TombstoneLine(kind="time", digest="00ff", forgotten_at=AT)]
    assert {type(line) for line in lines} >= set(portable.TYPE_OF)
    assert [decode(encode(line)) for line in lines] == lines
    assert all(encode(line).count(b"\n") == 1 for line in lines)


GOOD = encode(told()).decode()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "not_json"),
        ("nonsense", "not_json"),
        (GOOD[:-3], "not_json"),
        ("{}", "bad_field"),
        ('{"type":"verse"}', "unknown_type"),
        (GOOD.replace('"owner":true,', ""), "bad_field"),
        (GOOD.replace('"agent":"x"', '"agent":"note"'), "bad_field"),
        (GOOD.replace('"key":"x:1"', '"key":"note:1"'), "bad_field"),
        (GOOD.replace('"key":"x:1"', '"key":""'), "bad_field"),
        (GOOD.replace('"prompt"', '"shouted"'), "bad_field"),
        (GOOD.replace("a" * 16, "palace"), "bad_field"),
        (GOOD.replace('"replyText"', '"replyFinalStart":99,"replyText"'), "bad_field"),
        (GOOD.replace(str(AT), str(10**15)), "bad_field"),
        (GOOD.replace('"lineEnd":2', '"lineEnd":-2'), "bad_field"),
        (GOOD.replace('"lineEnd":2', f'"lineEnd":{10**30}'), "bad_field"),
        ('{"type":"tombstone","kind":"key","digest":"xy"}', "bad_field"),
        ('{"type":"tombstone","kind":"key","digest":"abc"}', "bad_field"),
    ],
)
def test_a_line_that_cannot_be_used_says_why_in_a_word(line: str, reason: str) -> None:
    assert line != GOOD
    with pytest.raises(BadLineError, match=f"^{reason}$"):
        decode(line.encode())


def test_keys_that_are_not_known_are_passed_over() -> None:
    assert decode(GOOD.replace("{", '{"mood":"calm",', 1).encode()) == told()


def test_mutated_lines_never_raise_anything_else(store: Any) -> None:
    chance = random.Random(5)
    lines = [encode(line) for line in some_export(chance, MACHINES[0])]
    usable: list[Line] = []
    for raw in itertools.islice(itertools.cycle(lines), 300):
        data = bytearray(raw)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        with contextlib.suppress(BadLineError):
            usable.append(decode(bytes(data)))
    assert usable
    merge(store, usable)
    assert content(store)
