from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.claude import append, reply, turn, user
from support.dumps import logical_dump

from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.errors import SourceError
from palace_daemon.model import MineReport, Progress, RecallQuery

WaitUntil = Callable[..., Any]


def mine(palace: Any, *paths: Path) -> MineReport:
    report: MineReport = palace.mine([str(path) for path in paths], wait=True)
    return report


def questions(palace: Any) -> list[str]:
    return [one.user_text for session in palace.sessions() for one in palace.timeline(session.session_id)]


def ask(palace: Any, text: str, **fields: Any) -> list[str]:
    answer = palace.recall(RecallQuery(text=text, now=1_800_000_000_000, **fields))
    return [hit.text for hit in answer.hits]


def comparable(path: Path) -> dict[str, Any]:
    """Return a dump without line counts, which grow with every pass from the start."""
    dump = logical_dump(path)
    dump["sources"] = [row[:5] for row in dump["sources"]]
    return dump


def test_a_directory_is_mined_once(palace: Any, transcripts: Path) -> None:
    append(transcripts / "p" / "a.jsonl", turn(1, "Why do tides rise?", "The moon pulls the sea."))
    append(transcripts / "p" / "b.jsonl", turn(1, "Which port?", "Port 8080.", session="s2"))
    report = mine(palace, transcripts)
    assert (report.files, report.sessions, report.exchanges_added, report.failures) == (2, 2, 2, {})
    assert report.vectors_added == report.drawers_added == 2
    again = mine(palace, transcripts)
    assert (again.exchanges_added, again.exchanges_replaced, again.drawers_added, again.vectors_added) == (0, 0, 0, 0)
    assert ask(palace, "what does the moon do")[0] == "> Why do tides rise?\n\nThe moon pulls the sea."


def test_appended_lines_are_added_and_a_growing_reply_replaced(palace: Any, transcripts: Path) -> None:
    path = transcripts / "a.jsonl"
    append(path, user("u1", "Why do tides rise?"))
    assert mine(palace, path).exchanges_added == 1
    append(path, reply("a1", "The moon."))
    report = mine(palace, path)
    assert (report.exchanges_added, report.exchanges_replaced) == (0, 1)
    append(path, reply("a2", "And the sun.") + turn(2, "And the wind?", "It too."))
    report = mine(palace, path)
    assert (report.exchanges_added, report.exchanges_replaced) == (1, 1)
    first = palace.timeline("s1")[0]
    assert (first.reply_text, first.status) == ("The moon.\n\nAnd the sun.", "complete")


def test_a_half_line_is_held_back_until_it_is_whole(palace: Any, transcripts: Path) -> None:
    path = transcripts / "a.jsonl"
    line = turn(2, "And the wind?", "It too.")
    append(path, turn(1, "Why do tides rise?", "The moon.") + line[:100])
    palace.mine([str(path)], wait=True)
    assert questions(palace) == ["Why do tides rise?"]
    append(path, line[100:])
    mine(palace, path)
    assert questions(palace) == ["Why do tides rise?", "And the wind?"]


def test_restart_between_two_halves_of_a_line(make_palace: Any, transcripts: Path) -> None:
    path = transcripts / "a.jsonl"
    text = "".join(turn(n, f"Question {n}?", f"Answer {n}.") for n in range(3))
    for start in range(0, len(text), 150):
        append(path, text[start : start + 150])
        palace = make_palace()
        mine(palace, path)
        palace.close()
    palace = make_palace()
    assert questions(palace) == ["Question 0?", "Question 1?", "Question 2?"]
    assert sum(session.exchanges for session in palace.sessions()) == 3


def test_whole_last_line_without_its_end_is_taken_when_named(palace: Any, transcripts: Path) -> None:
    path = transcripts / "a.jsonl"
    append(path, turn(1, "Why do tides rise?", "The moon.").rstrip("\n"))
    mine(palace, path)
    assert palace.timeline("s1")[0].reply_text == "The moon."
    append(path, "\n" + turn(2, "And the wind?", "It too."))
    mine(palace, path)
    assert questions(palace) == ["Why do tides rise?", "And the wind?"]


def test_idle_last_line_is_taken_by_itself(make_palace: Any, transcripts: Path, wait_until: WaitUntil) -> None:
    append(transcripts / "a.jsonl", turn(1, "Why do tides rise?", "The moon.").rstrip("\n"))
    palace = make_palace(idle_tail_s=0.2)
    palace.start()
    wait_until(lambda: questions(palace) and palace.timeline("s1")[0].reply_text == "The moon.")


def test_malformed_line_is_counted_and_the_rest_mined(palace: Any, transcripts: Path) -> None:
    path = transcripts / "a.jsonl"
    append(path, turn(1, "One?", "1.") + '{"type": "user", "broken\n' + "\xff\xfe not json\n" + turn(2, "Two?", "2."))
    report = mine(palace, path)
    assert questions(palace) == ["One?", "Two?"]
    assert report.lines_skipped["malformed"] == 2
    assert palace.status().lines_skipped["malformed"] == 2
    assert report.failures == {}


def test_truncated_and_rewritten_file_is_noticed(palace: Any, transcripts: Path) -> None:
    path = transcripts / "a.jsonl"
    append(path, turn(1, "Why do tides rise?", "The moon pulls."))
    mine(palace, path)
    path.write_text(turn(5, "Which compiler flags?", "Use O2 and nothing else, as we measured last week."))
    mine(palace, path)
    assert ask(palace, "moon tides")[0].startswith("> Which compiler")
    assert len(ask(palace, "moon tides")) == 1
    assert len(ask(palace, "moon tides", include_superseded=True)) == 2


def test_middle_rewritten_at_equal_size_and_mtime_is_noticed(palace: Any, transcripts: Path) -> None:
    path = transcripts / "a.jsonl"
    append(path, turn(1, "Why do tides rise?", "The moon pulls.") + turn(2, "Two?", "2."))
    mine(palace, path)
    before = path.stat()
    time.sleep(0.02)
    with path.open("r+b") as file:
        data = file.read().replace(b"The moon pulls.", b"The gnome hums.")
        file.seek(0)
        file.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    mine(palace, path)
    assert palace.timeline("s1")[0].reply_text == "The gnome hums."


def test_renamed_file_keeps_its_exchanges_and_is_not_read_again(palace: Any, transcripts: Path) -> None:
    path, moved = transcripts / "a.jsonl", transcripts / "archived" / "b.jsonl"
    append(path, turn(1, "Why do tides rise?", "The moon."))
    mine(palace, transcripts)
    moved.parent.mkdir()
    path.rename(moved)
    report = mine(palace, transcripts)
    assert (report.exchanges_added, report.lines_read) == (0, 0)
    assert [source.path for source in palace.sources()] == [str(moved)]
    append(moved, turn(2, "Two?", "2."))
    assert mine(palace, transcripts).exchanges_added == 1


def test_deleted_file_is_no_wish_to_forget(make_palace: Any, transcripts: Path, wait_until: WaitUntil) -> None:
    path = transcripts / "a.jsonl"
    append(path, turn(1, "Why do tides rise?", "The moon."))
    palace = make_palace(rescan_s=0.2)
    palace.start()
    wait_until(lambda: questions(palace))
    path.unlink()
    wait_until(lambda: palace.sources()[0].state == "gone")
    assert ask(palace, "tides")


def test_copy_of_a_session_gives_one_hit_with_both_places(palace: Any, transcripts: Path) -> None:
    first = turn(1, "Why do tides rise?", "The moon.")
    append(transcripts / "a.jsonl", first)
    append(transcripts / "b.jsonl", first.replace('"s1"', '"s2"') + turn(2, "Two?", "2.", session="s2"))
    mine(palace, transcripts)
    hits = palace.recall(RecallQuery(text="tides moon", now=0)).hits
    assert [hit.text for hit in hits].count("> Why do tides rise?\n\nThe moon.") == 1
    assert len(palace.get(hits[0].exchange_id).provenance) == 2


def test_order_of_files_does_not_matter(make_palace: Any, tmp_path: Path, transcripts: Path) -> None:
    shared = turn(1, "Why do tides rise?", "The moon.")
    for name in ("a", "b", "c"):
        session = f"s-{name}"
        append(
            transcripts / f"{name}.jsonl",
            shared.replace('"s1"', f'"{session}"') + turn(2, name * 5, "2.", session=session),
        )
    dumps = []
    for number, names in enumerate(("abc", "cab", "bca")):
        palace = make_palace(tmp_path / f"data{number}")
        for name in names:
            mine(palace, transcripts / f"{name}.jsonl")
        palace.close()
        dumps.append(comparable(tmp_path / f"data{number}" / "palace.db"))
    assert dumps[0] == dumps[1] == dumps[2]


def test_random_cuts_with_restarts_give_the_store_of_one_pass(
    make_palace: Any, tmp_path: Path, transcripts: Path
) -> None:
    dice = random.Random(5)
    text = "".join(turn(n, f"Question {n} über Gezeiten?", f"Antwort {n}: ☾ 潮汐。" * 30) for n in range(12))
    text += '{"half": \n' + turn(20, "Last?", "Yes.")
    whole = transcripts / "a.jsonl"
    append(whole, text)
    palace = make_palace(tmp_path / "whole")
    mine(palace, whole)
    palace.close()
    expected = logical_dump(tmp_path / "whole" / "palace.db")
    whole.unlink()
    data, position = text.encode(), 0
    while position < len(data):
        step = dice.choice([1, 7, 300, 3_000])
        with whole.open("ab") as file:
            file.write(data[position : position + step])
        position += step
        palace = make_palace(tmp_path / "cuts")
        palace.mine([str(transcripts)], wait=True)
        palace.close()
    assert logical_dump(tmp_path / "cuts" / "palace.db") == expected


def test_unreadable_file_is_reported_and_the_rest_mined(palace: Any, transcripts: Path) -> None:
    append(transcripts / "b.jsonl", turn(1, "Two?", "2.", session="s2"))
    if os.geteuid() == 0:  # root may read every file: take one that no read of works
        unreadable, reason = Path(os.path.realpath("/proc/self/mem")), "Input/output error"
    else:
        unreadable, reason = transcripts / "a.jsonl", "Permission denied"
        append(unreadable, turn(1, "One?", "1."))
        unreadable.chmod(0)
    report = mine(palace, transcripts, unreadable)
    assert report.failures == {str(unreadable): reason}
    assert questions(palace) == ["Two?"]
    assert palace.status().failures == {str(unreadable): reason}


def test_directory_in_place_of_a_file_is_no_crash(palace: Any, transcripts: Path) -> None:
    (transcripts / "a.jsonl").mkdir()
    append(transcripts / "b.jsonl", turn(1, "Two?", "2."))
    assert mine(palace, transcripts).exchanges_added == 1


def test_named_fifo_is_refused_without_blocking(palace: Any, transcripts: Path) -> None:
    os.mkfifo(transcripts / "x.jsonl")
    append(transcripts / "b.jsonl", turn(1, "Two?", "2."))
    assert mine(palace, transcripts).files == 1
    report = mine(palace, transcripts / "x.jsonl")
    assert report.failures == {str(transcripts / "x.jsonl"): "not a regular file"}


def test_missing_path_is_named(palace: Any, transcripts: Path) -> None:
    with pytest.raises(SourceError, match="there is no file or directory at"):
        mine(palace, transcripts / "nothing")


def test_binary_file_is_a_failure_when_named_and_passed_over_in_a_directory(palace: Any, transcripts: Path) -> None:
    path = transcripts / "a.jsonl"
    path.write_bytes(bytes(range(256)) * 100)
    assert mine(palace, path).failures == {str(path): "not a transcript of a known format"}
    report = mine(palace, transcripts)
    assert (report.failures, report.files_skipped) == ({}, {str(path): "not a transcript of a known format"})


def test_unknown_file_that_becomes_a_transcript_is_mined(palace: Any, transcripts: Path) -> None:
    path = transcripts / "a.jsonl"
    append(path, turn(1, "One?", "1.")[:40])
    mine(palace, transcripts)
    append(path, turn(1, "One?", "1.")[40:])
    assert mine(palace, transcripts).exchanges_added == 1


def test_scripted_notifications_are_followed(
    make_palace: Any, notifier: Any, transcripts: Path, wait_until: WaitUntil
) -> None:
    palace = make_palace()
    seen: list[MineReport] = []
    end = palace.subscribe(seen.append)
    palace.start()
    path = transcripts / "new" / "a.jsonl"
    append(path, turn(1, "Why do tides rise?", "The moon."))
    wait_until(lambda: notifier.emit([str(path)]))
    wait_until(lambda: questions(palace) == ["Why do tides rise?"])
    wait_until(lambda: sum(report.vectors_added for report in seen) == 1)
    assert sum(report.exchanges_added for report in seen) == 1
    end()


def test_links_that_lead_out_of_the_root_are_not_followed(palace: Any, tmp_path: Path, transcripts: Path) -> None:
    append(tmp_path / "outside" / "a.jsonl", turn(1, "Secret?", "Yes."))
    (transcripts / "link.jsonl").symlink_to(tmp_path / "outside" / "a.jsonl")
    (transcripts / "dir").symlink_to(tmp_path / "outside")
    assert mine(palace, transcripts).files == 0


def test_linked_root_is_mined_under_its_real_path(palace: Any, tmp_path: Path, transcripts: Path) -> None:
    append(transcripts / "a.jsonl", turn(1, "One?", "1."))
    (tmp_path / "link").symlink_to(transcripts)
    mine(palace, tmp_path / "link")
    mine(palace, transcripts)
    assert [source.path for source in palace.sources()] == [str(transcripts / "a.jsonl")]


def test_giant_file_is_mined_in_slices_and_others_get_their_turn(
    palace: Any, transcripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palace_daemon.service.mining.READ_BYTES", 4_096)
    monkeypatch.setattr("palace_daemon.service.mining.SLICE_BYTES", 8_192)
    append(transcripts / "big.jsonl", "".join(turn(n, f"Question {n}?", "word " * 300) for n in range(60)))
    append(transcripts / "small.jsonl", turn(1, "Small?", "Yes.", session="s2"))
    report = mine(palace, transcripts)
    assert (report.files, report.exchanges_added) == (2, 61)
    assert palace.timeline("s1")[59].reply_text == "word " * 300


def test_progress_counts_up_to_the_total(palace: Any, transcripts: Path) -> None:
    for number in range(5):
        append(transcripts / f"{number}.jsonl", turn(1, f"Q{number}?", "A.", session=f"s{number}"))
    steps: list[Progress] = []
    palace.mine([str(transcripts)], wait=True, on_progress=steps.append)
    mined = [step for step in steps if step.stage == "mine"]
    assert (mined[-1].done, mined[-1].total, mined[-1].unit) == (5, 5, "files")
    assert all(a.done <= b.done for a, b in itertools.pairwise(mined))


def test_newest_bounds_the_wait_and_the_rest_follows(palace: Any, transcripts: Path, wait_until: WaitUntil) -> None:
    for number in range(6):
        path = transcripts / f"{number}.jsonl"
        append(path, turn(1, f"Q{number}?", "A.", session=f"s{number}"))
        os.utime(path, (1_000 + number, 1_000 + number))
    report = palace.mine([str(transcripts)], wait=True, newest=2)
    assert report.files == 2
    assert {"Q5?", "Q4?"} <= set(questions(palace))
    wait_until(lambda: len(questions(palace)) == 6)


def test_a_bounded_wait_does_not_count_what_is_mined_behind_it(
    palace: Any, transcripts: Path, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed = HashingEmbedder.embed_passages
    steps: list[Progress] = []
    waits = ["for the first batch"]

    def told() -> list[Progress]:
        return [step for step in list(steps) if step.stage == "embed"]

    def embed_when_all_is_mined_and_told(*args: Any, **options: Any) -> Any:
        if waits:
            waits.pop()
            wait_until(lambda: len(questions(palace)) == 40)
            before = len(told())
            wait_until(lambda: len(told()) > before + 1)
        return embed(*args, **options)

    monkeypatch.setattr(HashingEmbedder, "embed_passages", embed_when_all_is_mined_and_told)
    for number in range(40):
        path = transcripts / f"{number}.jsonl"
        append(path, turn(1, f"Q{number}?", "A.", session=f"s{number}"))
        os.utime(path, (1_000 + number, 1_000 + number))
    palace.mine([str(transcripts)], wait=True, newest=2, on_progress=steps.append)
    embedded = told()
    assert len({step.total for step in embedded[:-1]}) == 1
    assert embedded[-1].done == embedded[-1].total


def test_secrets_never_reach_the_file(palace: Any, transcripts: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    append(transcripts / "a.jsonl", turn(1, f"My token is {secret[:40]}", f"I will use {secret[:40]}"))
    append(transcripts / "a.jsonl", user("u-open", f"Again {secret[:40]}", at=50))
    mine(palace, transcripts)
    palace.close()
    for file in Path(palace.status.__self__._store.path).parent.iterdir():  # database, WAL, shared memory
        assert secret[:40].encode() not in file.read_bytes()
