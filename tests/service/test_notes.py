"""Notes end to end in one process: stored once, recalled as exchanges are, edited, superseded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.claude import append, turn

from palace_daemon.errors import NotFoundError, RequestError
from palace_daemon.model import RecallAnswer, RecallQuery
from palace_daemon.service.build import open_read_only
from palace_daemon.store import check, sources, views

NOW = 1_800_000_000_000
REDIS = "The staging queue runs on Redis 7."


def ask(palace: Any, text: str, **fields: Any) -> RecallAnswer:
    answer: RecallAnswer = palace.recall(RecallQuery(text=text, now=NOW, **fields))
    return answer


def remember(palace: Any, text: str, *, now: int = NOW, **fields: Any) -> str:
    note, _ = palace.remember(text, now=now, **fields)
    found: str = note.note_id
    return found


def listed(palace: Any, **fields: Any) -> list[str]:
    return [note.text for note in palace.notes(**fields)]


# --------------------------------------------------------------------------------------------------------- keeping


def test_a_note_is_kept_word_for_word_with_what_was_said_of_it(palace: Any) -> None:
    text = "  Two lines,\n\n\tkept as they are:  żółw 記憶 \n"
    note, is_new = palace.remember(
        text, project="/nowhere/tidepool", tags=["b ", "a", "b"], author=" Robin  Roe ", now=NOW
    )
    assert is_new
    assert (note.text, note.project, note.tags, note.author) == (text, "/nowhere/tidepool", ("a", "b"), "Robin Roe")
    assert (note.created_at, note.edited_at, note.superseded_by) == (NOW, None, "")
    exchange = palace.get(note.note_id)
    assert (exchange.user_text, exchange.reply_text) == (text, "")
    assert (exchange.agent, exchange.user_kind, exchange.session_id) == ("note", "note", "notes:/nowhere/tidepool")
    assert (exchange.started_at, exchange.time_quality, exchange.status) == (NOW, "exact", "complete")


def test_the_same_text_twice_is_one_note_that_gains_tags_and_an_author(palace: Any) -> None:
    first, _ = palace.remember(REDIS, tags=["redis"], now=NOW)
    second, is_new = palace.remember(f"{REDIS}\n", tags=["queue"], author="ci", now=NOW + 5)
    assert (is_new, second.note_id, second.created_at) == (False, first.note_id, NOW)
    assert (second.tags, second.author) == (("queue", "redis"), "ci")
    assert listed(palace) == [REDIS]


@pytest.mark.parametrize(
    "other",
    [
        "The staging queue runs on Redis 6.",
        "The staging queue runs on Redis 7",
        "the staging queue runs on Redis 7.",
        "The staging queue runs on  Redis 7.",
        "The staging queue never runs on Redis 7.",
    ],
)
def test_a_fact_that_differs_however_little_is_a_note_of_its_own(palace: Any, other: str) -> None:
    assert remember(palace, REDIS) != remember(palace, other)
    assert sorted(listed(palace)) == sorted([REDIS, other])
    assert {hit.text for hit in ask(palace, "staging queue redis").hits} == {f"> {REDIS}", f"> {other}"}


def test_the_same_text_in_two_projects_is_two_notes_even_in_one_millisecond(palace: Any) -> None:
    assert remember(palace, REDIS, project="/nowhere/a") != remember(palace, REDIS, project="/nowhere/b")
    assert len(palace.notes()) == 2


def test_secrets_are_redacted_in_every_part(palace: Any) -> None:
    secret = "ghp_" + "a1B2" * 9
    note, _ = palace.remember(f"The key is {secret}.", tags=[secret], author=secret, now=NOW)
    assert secret not in str(note)
    assert "[redacted:github-token]" in note.text
    assert palace.get(note.note_id).flags == ("redacted",)


@pytest.mark.parametrize("text", ["", " \n\t "])
def test_a_note_without_text_is_refused(palace: Any, text: str) -> None:
    with pytest.raises(RequestError, match="no text"):
        palace.remember(text, now=NOW)
    note_id = remember(palace, REDIS)
    with pytest.raises(RequestError, match="no text"):
        palace.edit_note(note_id, text, now=NOW)


def test_text_that_is_no_unicode_is_stored_as_valid_text(palace: Any) -> None:
    note, _ = palace.remember("odd \ud800 end", project="p\udfff", tags=["t\ud800"], now=NOW)
    assert (note.text, note.project, note.tags) == ("odd \ufffd end", "p\ufffd", ("t\ufffd",))


# -------------------------------------------------------------------------------------------------------- projects


def test_a_project_is_a_directory_or_the_last_name_of_a_known_one(
    palace: Any, transcripts: Path, tmp_path: Path
) -> None:
    append(transcripts / "a.jsonl", turn(1, "Why?", "Because."))
    palace.mine([str(transcripts)], wait=True)
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    (tmp_path / "repository" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "repository" / "sub").mkdir()
    inside, _ = palace.remember("one", project=str(tmp_path / "repository" / "sub"), now=NOW)
    assert inside.project == str(tmp_path / "repository")
    known, _ = palace.remember("two", project="tidepool", now=NOW)
    assert known.project == "/nowhere/tidepool"
    unknown, _ = palace.remember("three", project="elsewhere", now=NOW)
    assert unknown.project == "elsewhere"
    assert palace.remember("three", project="elsewhere", now=NOW)[1] is False


def test_a_name_that_several_projects_have_is_refused_with_their_paths(palace: Any) -> None:
    remember(palace, "one", project="/nowhere/a/app")
    remember(palace, "two", project="/nowhere/b/app")
    with pytest.raises(RequestError, match="/nowhere/a/app, /nowhere/b/app"):
        palace.remember("three", project="app", now=NOW)
    assert len(palace.notes()) == 2


# ---------------------------------------------------------------------------------------------------------- recall


def test_notes_are_recalled_among_exchanges_and_picked_by_filters(palace: Any, transcripts: Path) -> None:
    lines = "".join(turn(n, f"Tell of redis, part {n}?", f"Part {n} on redis.") for n in range(3))
    append(transcripts / "a.jsonl", lines)
    palace.mine([str(transcripts)], wait=True)
    note_id = remember(palace, REDIS, project="tidepool")
    assert {hit.agent for hit in ask(palace, "redis").hits} == {"claude-code", "note"}
    (hit,) = ask(palace, "redis", agent="note").hits
    assert (hit.exchange_id, hit.agent, hit.path, hit.project) == (
        note_id, "note", "palace:notes", "/nowhere/tidepool"
    )  # fmt: skip
    assert (hit.started_at, hit.session_title) == (NOW, "Notes on tidepool")
    assert ask(palace, "redis", agent="note", project="tidepool").in_scope == 1
    assert ask(palace, "redis", agent="note", project="other").in_scope == 0
    assert ask(palace, "redis", agent="note", since=NOW + 1).in_scope == 0
    assert ask(palace, "redis", agent="note", session="notes:/nowhere/tidepool").in_scope == 1


def test_the_agent_filter_knows_notes_before_there_is_one(palace: Any) -> None:
    assert ask(palace, "redis", agent="note").hits == ()


def test_a_note_gets_its_vector(palace: Any, wait_until: Any) -> None:
    palace.start()
    remember(palace, REDIS)
    wait_until(
        lambda: palace.status().vectors == 2 and palace.status().vectors_pending == 0
    )  # the drawer, the statement
    answer = ask(palace, "staging queue")
    assert answer.freshness.vectors_used
    assert answer.hits[0].parts["cosine"] > 0


def test_listeners_hear_of_notes(palace: Any) -> None:
    heard: list[int] = []
    palace.subscribe(lambda report: heard.append(report.exchanges_added))
    remember(palace, REDIS)
    remember(palace, REDIS)
    assert heard == [1, 0]


def test_paragraph_drawers_give_way_to_whole_ones_with_the_third_note(palace: Any) -> None:
    long = "\n\n".join(f"Paragraph {n} " + "of some length " * 20 for n in range(4))
    first = remember(palace, long)
    assert len(palace.get(first).drawer_ids) > 1
    remember(palace, "a second")
    assert len(palace.get(first).drawer_ids) > 1
    remember(palace, "a third")
    assert len(palace.get(first).drawer_ids) == 1
    assert palace.get(first).user_text == long


# -------------------------------------------------------------------------------------------- editing, superseding


def test_editing_keeps_the_id_and_replaces_the_text(palace: Any) -> None:
    note_id = remember(palace, REDIS, tags=["redis"])
    edited = palace.edit_note(note_id[:8], "It is Valkey.", now=NOW + 9)
    assert (edited.note_id, edited.text, edited.edited_at, edited.created_at) == (
        note_id, "It is Valkey.", NOW + 9, NOW,
    )  # fmt: skip
    assert edited.tags == ("redis",)
    assert [hit.text for hit in ask(palace, "valkey redis staging").hits] == ["> It is Valkey."]
    assert palace.get(note_id).user_text == "It is Valkey."


def test_the_former_text_of_an_edited_note_can_be_remembered_anew(palace: Any) -> None:
    note_id = remember(palace, REDIS)
    palace.edit_note(note_id, "It is Valkey.", now=NOW + 9)
    again, is_new = palace.remember(REDIS, now=NOW + 10)
    assert (is_new, again.text) == (True, REDIS)
    assert again.note_id != note_id
    assert sorted(listed(palace)) == sorted([REDIS, "It is Valkey."])


def test_editing_a_note_into_another_is_refused(palace: Any) -> None:
    note_id = remember(palace, REDIS)
    remember(palace, "It is Valkey.")
    with pytest.raises(RequestError, match="another note says this"):
        palace.edit_note(note_id, "It is Valkey.", now=NOW)
    assert len(palace.notes()) == 2


def test_a_superseded_note_leaves_recall_and_the_list_but_not_the_store(palace: Any) -> None:
    old = remember(palace, REDIS, project="/nowhere/a", tags=["redis"], author="ci")
    new, is_new = palace.supersede_note(old, "The staging queue runs on Postgres.", now=NOW + 5)
    assert is_new
    assert (new.project, new.tags, new.author, new.created_at) == ("/nowhere/a", ("redis",), "ci", NOW + 5)
    assert [hit.exchange_id for hit in ask(palace, "staging queue").hits] == [new.note_id]
    assert len(ask(palace, "staging queue", include_superseded=True).hits) == 2
    assert listed(palace) == [new.text]
    both = palace.notes(include_superseded=True)
    assert [(note.note_id, note.superseded_by) for note in both] == [(new.note_id, ""), (old, new.note_id)]
    assert palace.get(old).is_superseded
    with pytest.raises(RequestError, match=new.note_id):
        palace.supersede_note(old, "Once more.", now=NOW + 6)


def test_superseding_by_a_text_that_is_known_links_to_that_note(palace: Any) -> None:
    old, other = remember(palace, REDIS), remember(palace, "It is Valkey.")
    assert palace.supersede_note(old, "It is Valkey.", now=NOW)[0].note_id == other
    assert listed(palace) == ["It is Valkey."]
    with pytest.raises(RequestError, match="says this already"):
        palace.supersede_note(other, "It is Valkey.\n", now=NOW)
    assert palace.supersede_note(other, REDIS, now=NOW)[1], "what was superseded can be said again"
    assert listed(palace) == [REDIS]


def test_what_is_no_note_cannot_be_edited(palace: Any, transcripts: Path) -> None:
    append(transcripts / "a.jsonl", turn(1, "Why redis?", "Because."))
    palace.mine([str(transcripts)], wait=True)
    exchange_id = ask(palace, "redis").hits[0].exchange_id
    for change in (palace.edit_note, palace.supersede_note):
        with pytest.raises(RequestError, match="no note"):
            change(exchange_id, "x", now=NOW)
        with pytest.raises(NotFoundError):
            change("0" * 16, "x", now=NOW)


# ----------------------------------------------------------------------------------------------- lists and sources


def test_lists_filter_by_project_and_every_tag_and_come_in_pages(palace: Any) -> None:
    for number, tags in enumerate((["a"], ["a", "B"], ["b"])):
        remember(palace, f"note {number}", project=f"/nowhere/p{number % 2}", tags=tags, now=NOW + number)
    assert listed(palace) == ["note 2", "note 1", "note 0"]
    assert listed(palace, tags=["b"]) == ["note 2", "note 1"]
    assert listed(palace, tags=["a", "b"]) == ["note 1"]
    assert listed(palace, project="p0") == ["note 2", "note 0"]
    assert listed(palace, project="/nowhere/p1", tags=["a"]) == ["note 1"]
    assert listed(palace, project="p9") == []
    assert listed(palace, limit=1, offset=1) == ["note 1"]


def test_the_source_of_notes_is_no_file(palace: Any) -> None:
    remember(palace, REDIS)
    assert palace.sources() == ()
    status = palace.status()
    assert (status.sources, status.failures, status.exchanges, status.sessions) == ({}, {}, 1, 1)
    with palace._store.read() as connection:
        assert sources.known_paths(connection) == []
        assert sources.find(connection, "palace:notes") is None
        assert all(finding.is_ok for finding in check.check(connection, is_deep=True))
        assert views.agents(connection) == {"note"}


def test_notes_answer_without_a_daemon(palace: Any) -> None:
    note_id = remember(palace, REDIS, tags=["redis"])
    offline = open_read_only(palace._config)
    try:
        assert [note.note_id for note in offline.notes(tags=["redis"])] == [note_id]
        assert offline.get(note_id).user_text == REDIS
    finally:
        offline.close()


def test_notes_survive_a_restart_and_a_rebuild(make_palace: Any) -> None:
    first = make_palace()
    note_id = remember(first, REDIS, tags=["redis"], author="ci")
    before = first.notes()
    first._store.rebuild_index()
    first.close()
    second = make_palace()
    assert second.notes() == before
    assert ask(second, "staging").hits[0].exchange_id == note_id
