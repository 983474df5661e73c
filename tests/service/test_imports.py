"""What an import lets in: every word that was kept, no key in its issuer's form, nothing that a rule names."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.claude import append, reply, turn, user
from support.traces import traces

from palace_daemon.errors import CancelledError, StoreFullError
from palace_daemon.model import ForgetRequest, RecallQuery
from palace_daemon.service import forgetting

NOW = 1_800_000_000_000
MACHINE = "0123456789abcdef"
KEY = "ghp_" + "a1B2c3D4e5F6" * 3
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcdefghijkl"
PIECES = (
    "password:", "token: ", "hunter2x", "Gr33nTea99", "README.md2", "secret=", "api_key", '"', "'", "`", "```", "~~~",
    "\n", " ", "<private>", "</private>", "`<private>`", "Bearer ", "-----BEGIN PRIVATE KEY-----",
    "MIIEvQIBADANBgkqhk", "-----END PRIVATE KEY-----", "://bob:", "@host", "mysql -p", "curl -u a:", "Cookie: a=",
    "words of no harm", "[redacted:private]", "żółw", KEY, JWT, "AKIA" + "Q3EGRTXOYZABCDEF",
)  # fmt: skip


def rows(palace: Any, query: str) -> list[tuple[Any, ...]]:
    with palace._store.read() as connection:
        found: list[tuple[Any, ...]] = connection.execute(query).fetchall()
    return found


def titled(session: str, title: str) -> str:
    return json.dumps({"type": "ai-title", "aiTitle": title, "sessionId": session}) + "\n"


def mine(palace: Any, directory: Path) -> None:
    palace.mine([str(directory)], wait=True)


def write(path: Path, *lines: dict[str, Any]) -> str:
    """Write an export by hand."""
    head = {"type": "palace-export", "version": 1, "machine": MACHINE, "exportedAt": 1, "records": {}}
    end = {"type": "end", "records": len(lines)}
    path.write_text("".join(json.dumps(line) + "\n" for line in (head, *lines, end)))
    return str(path)


def exchange(key: str = "k:1", session: str = "s1", **fields: Any) -> dict[str, Any]:
    place = {"machine": MACHINE, "path": "/x/y.jsonl", "session": session, "owner": True, "chars": 10}
    return {
        "type": "exchange", "key": key, "agent": "x", "session": session, "userText": "Why?", "userKind": "prompt",
        "replyText": "So.", "timeQuality": "exact", "startedAt": NOW, "status": "complete", "places": [place], **fields,
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------- every word is kept


def messages(name: str, blocks: list[list[str]], at: int) -> str:
    lines = ""
    for number, texts in enumerate(blocks):
        record = json.loads(reply(f"a-{name}-{number}", "", at=at + number))
        record["message"]["content"] = [{"type": "text", "text": text} for text in texts]
        lines += json.dumps(record) + "\n"
    return lines


TELLING = "SELECT key, user_text, reply_text, reply_final_start, tools, attachments, flags FROM exchanges ORDER BY key"


@pytest.mark.parametrize("seed", range(3))
def test_replies_of_many_blocks_come_back_to_the_character(
    make_palace: Any, transcripts: Path, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)

    def text() -> str:
        return "".join(chance.choice(PIECES) for _ in range(chance.randint(1, 6)))

    for number in range(60):
        blocks = [[text() for _ in range(chance.randint(1, 3))] for _ in range(chance.randint(1, 3))]
        lines = user(f"u-{number}", text(), at=number * 10) + messages(str(number), blocks, number * 10 + 1)
        append(transcripts / "a.jsonl", lines + titled("s1", text()))
    palace = make_palace()
    mine(palace, transcripts)
    palace.export(str(tmp_path / "out.jsonl"))
    other = make_palace(tmp_path / "other")
    other.import_file(str(tmp_path / "out.jsonl"))
    told = rows(palace, TELLING)
    assert len(told) > 40
    assert rows(other, TELLING) == told
    assert rows(other, "SELECT title FROM sessions") == rows(palace, "SELECT title FROM sessions")
    assert not any(palace.import_file(str(tmp_path / "out.jsonl")).changes.values())


def test_marks_in_two_blocks_are_not_one_secret(make_palace: Any, transcripts: Path, tmp_path: Path) -> None:
    blocks = [
        ["Look at this:\n```", "It is shown here:\n```\n<private>\n```\nRemember this tail."],
        ["password:", "Step1/3"],
    ]
    append(transcripts / "a.jsonl", user("u", "How do I hide text?") + messages("1", blocks, 1))
    palace = make_palace()
    mine(palace, transcripts)
    palace.export(str(tmp_path / "out.jsonl"))
    other = make_palace(tmp_path / "other")
    other.import_file(str(tmp_path / "out.jsonl"))
    ((text,),) = rows(other, "SELECT reply_text FROM exchanges")
    assert text.endswith("Remember this tail.\n\npassword:\n\nStep1/3")
    assert rows(other, TELLING) == rows(palace, TELLING)


def test_keys_in_their_issuers_forms_do_not_get_in(make_palace: Any, tmp_path: Path) -> None:
    line = exchange(
        userText=f"Use {KEY} and password=Gr33nTea99.",
        replyText=f"Key {KEY}.\n\nUsed {KEY} last.",
        replyFinalStart=len(f"Key {KEY}.\n\n"),
        tools=[{"name": "Run", "target": f"login {KEY}"}],
        attachments=[{"kind": "file", "name": f"{KEY}.txt"}],
    )
    note = {"type": "note", "key": "note:abc", "text": "a text", "tags": [KEY, " b  c "], "author": f"me {KEY}",
            "createdAt": NOW}  # fmt: skip
    session = {"type": "session", "agent": "x", "id": "s1", "title": f"On {KEY}"}
    palace = make_palace()
    palace.import_file(write(tmp_path / "in.jsonl", line, note, session))
    (told,) = rows(palace, "SELECT user_text, reply_text, reply_final_start, flags FROM exchanges WHERE key='k:1'")
    mark = "[redacted:github-token]"
    assert told[:2] == (f"Use {mark} and password=[redacted:password].", f"Key {mark}.\n\nUsed {mark} last.")
    assert told[1][told[2] :] == f"Used {mark} last."
    assert told[3] == "redacted"
    (kept,) = palace.notes()
    assert (kept.text, kept.tags, kept.author) == ("a text", (mark, "b c"), f"me {mark}")
    palace.close()
    assert traces(tmp_path / "data", [KEY]) == []


def test_a_last_message_that_begins_inside_a_key_still_begins_inside_the_reply(
    make_palace: Any, tmp_path: Path
) -> None:
    palace = make_palace()
    palace.import_file(write(tmp_path / "in.jsonl", exchange(replyText=f"{KEY} and {'x ' * 40}", replyFinalStart=6)))
    ((text, final),) = rows(palace, "SELECT reply_text, reply_final_start FROM exchanges")
    assert KEY not in text
    assert 0 <= final <= len(text)


# ------------------------------------------------------------------------------------------------------ ignore rules


@pytest.fixture
def told(make_palace: Any, transcripts: Path, tmp_path: Path) -> str:
    """An export of two projects and a path, each session with a title."""
    for name in ("secretproj", "openproj"):
        lines = turn(1, f"Why does {name}word crash?", "Because.", session=name) + titled(name, f"{name} titleword")
        append(transcripts / f"{name}.jsonl", lines.replace("/nowhere/tidepool", f"/nowhere/{name}"))
    lines = turn(1, "Why does pathword crash?", "Because.", session="s-path") + titled("s-path", "pathword titleword")
    append(transcripts / "hidden" / "p.jsonl", lines)
    palace = make_palace()
    mine(palace, transcripts)
    assert len(palace.sessions()) == 3
    palace.export(str(tmp_path / "full.jsonl"))
    palace.close()
    return str(tmp_path / "full.jsonl")


RULES = {"ignore_projects": ("secretproj",), "ignore_paths": ("**/hidden",)}
GONE = ("secretprojword", "secretproj titleword", "pathword")


def test_rules_take_titles_and_no_import_brings_them_back(
    told: str, make_palace: Any, tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    data = tmp_path / "data"
    assert traces(data, ["secretproj titleword", "pathword titleword"]), "they are found while they are there"
    palace = make_palace(**RULES)
    palace.start()
    wait_until(lambda: not rows(palace, "SELECT 1 FROM exchanges WHERE user_text LIKE '%secretprojword%'"))
    wait_until(lambda: not rows(palace, "SELECT 1 FROM state WHERE scrub_due"))
    assert traces(data, GONE) == []
    for _ in range(2):
        report = palace.import_file(told)
        assert (report.changes["ignored"], report.changes["exchanges_added"]) == (2, 0)
        assert {row[0] for row in rows(palace, "SELECT title FROM sessions")} == {"", "openproj titleword"}
    palace.export(str(tmp_path / "again.jsonl"))
    assert not any(word in (tmp_path / "again.jsonl").read_text() for word in GONE)
    palace.close()
    assert traces(data, GONE) == []


def test_rules_hold_for_an_import_into_an_empty_store(told: str, make_palace: Any, tmp_path: Path) -> None:
    data = tmp_path / "other"
    palace = make_palace(data, ignore_projects=("secretproj",))
    assert palace.import_file(told).changes["ignored"] == 1
    assert sorted(row[0] for row in rows(palace, "SELECT title FROM sessions WHERE title<>''")) == [
        "openproj titleword", "pathword titleword",
    ]  # fmt: skip
    palace.close()
    assert traces(data, ["secretproj titleword", "secretprojword"]) == []


@pytest.mark.parametrize("is_session_first", [False, True])
@pytest.mark.parametrize("batch_lines", [500, 1])
def test_a_project_that_only_the_session_names_is_ignored_too(
    make_palace: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_session_first: bool, batch_lines: int
) -> None:
    monkeypatch.setattr("palace_daemon.service.porting.BATCH_LINES", batch_lines)
    lines = [
        exchange(userText="Hidden flamingoword?"),
        {"type": "session", "agent": "x", "id": "s1", "project": "/home/sam/secretproj", "title": "flamingotitle"},
    ]
    path = write(tmp_path / "in.jsonl", *(lines[::-1] if is_session_first else lines))
    palace = make_palace(ignore_projects=("secretproj",))
    for _ in range(2):
        changes = palace.import_file(path).changes
        assert (changes["ignored"], changes["exchanges_added"]) == (1, 0)
        assert rows(palace, "SELECT user_text FROM exchanges") == []
        assert rows(palace, "SELECT title FROM sessions") == [("",)]
    assert traces(tmp_path / "data", ["flamingoword", "flamingotitle"]) == []


def test_notes_on_an_ignored_project_come_in_with_their_title(make_palace: Any, tmp_path: Path) -> None:
    first = make_palace()
    first.remember("Never on a Friday.", project="/nowhere/secretproj", now=NOW)
    first.export(str(tmp_path / "out.jsonl"))
    other = make_palace(tmp_path / "other", ignore_projects=("secretproj",))
    other.import_file(str(tmp_path / "out.jsonl"))
    assert [note.text for note in other.notes()] == ["Never on a Friday."]
    assert rows(other, "SELECT title FROM sessions") == [("Notes on secretproj",)]


# ---------------------------------------------------------------------------------------------------------- the wiping


@pytest.fixture
def two(make_palace: Any, transcripts: Path, tmp_path: Path) -> tuple[Any, Any]:
    """A store, and another that holds what the first has forgotten since; exports ``old`` and ``new`` of the first."""
    append(transcripts / "a.jsonl", "".join(turn(n, f"Question {n} on tides?", f"Answer {n}.") for n in range(4)))
    palace = make_palace()
    mine(palace, transcripts)
    palace.export(str(tmp_path / "old"))
    other = make_palace(tmp_path / "other")
    other.import_file(str(tmp_path / "old"))
    hit = palace.recall(RecallQuery(text="Question 2", now=NOW, limit=1)).hits[0]
    palace.forget(ForgetRequest(exchanges=(hit.exchange_id,)))
    palace.export(str(tmp_path / "new"))
    return palace, other


def test_an_import_that_removes_nothing_rewrites_nothing(
    two: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    palace, other = two
    done: list[str] = []

    def counted(store: Any) -> Callable[..., None]:
        real = store.scrub

        def scrub(stop: Any = None) -> None:
            done.append("")
            real(stop)

        return scrub

    for one in two:
        monkeypatch.setattr(one._store, "scrub", counted(one._store))
    assert palace.import_file(str(tmp_path / "old")).changes["forgotten"] == 1
    assert not any(other.import_file(str(tmp_path / "old")).changes.values())
    assert done == []
    assert other.import_file(str(tmp_path / "new")).wipe_due == ""
    assert done == [""]
    other.import_file(str(tmp_path / "new"))
    assert done == [""]


def test_a_wiping_that_fails_is_said_and_tried_again(
    two: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    monkeypatch.setattr(forgetting, "RETRY_FIRST_S", 0.02)
    _, other = two
    other._work()
    real, is_full = other._store.scrub, [True]

    def scrub(stop: Any = None) -> None:
        if is_full[0]:
            raise StoreFullError("no room to rewrite", hint="free disk space")
        real(stop)

    monkeypatch.setattr(other._store, "scrub", scrub)
    report = other.import_file(str(tmp_path / "new"))
    assert "no room" in report.wipe_due
    assert "not gone from the database file yet" in other.status().last_error
    is_full[0] = False
    wait_until(lambda: not rows(other, "SELECT 1 FROM state WHERE scrub_due"))
    wait_until(lambda: not other.status().last_error)
    assert traces(tmp_path / "other", ["Question 2 on tides?"]) == []


def test_an_import_that_ends_early_is_wiped_in_the_background(
    two: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    monkeypatch.setattr(forgetting, "RETRY_FIRST_S", 0.02)
    monkeypatch.setattr("palace_daemon.service.porting.BATCH_LINES", 1)
    _, other = two
    other._work()
    merged = other._porter._merge

    def merge(batch: Any, left_out: Any) -> Any:
        changes = merged(batch, left_out)
        if changes["forgotten"]:
            raise CancelledError("enough")
        return changes

    monkeypatch.setattr(other._porter, "_merge", merge)
    with pytest.raises(CancelledError):
        other.import_file(str(tmp_path / "new"))
    wait_until(lambda: not rows(other, "SELECT 1 FROM state WHERE scrub_due"))
    assert traces(tmp_path / "other", ["Question 2 on tides?"]) == []


def test_a_title_that_was_forgotten_elsewhere_leaves_the_disk(
    make_palace: Any, transcripts: Path, tmp_path: Path
) -> None:
    append(transcripts / "a.jsonl", turn(1, "Where to?", "North.") + titled("s1", "Quagmire plans"))
    palace = make_palace()
    mine(palace, transcripts)
    palace.export(str(tmp_path / "old"))
    other = make_palace(tmp_path / "other")
    other.import_file(str(tmp_path / "old"))
    palace.forget(ForgetRequest(sessions=("s1",)))
    palace.export(str(tmp_path / "new"))
    assert traces(tmp_path / "other", ["Quagmire plans"])
    other.import_file(str(tmp_path / "new"))
    assert traces(tmp_path / "other", ["Quagmire plans"]) == []
