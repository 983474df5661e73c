"""Forgetting: gone from recall, from the disk, and for good; and ignore rules, which can be taken back."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.claude import append, reply, stamp, turn, user
from support.dumps import logical_dump
from support.traces import traces

from palace_daemon.config import Config, WatchConfig
from palace_daemon.core import analysis
from palace_daemon.embed.hashing import HashingEmbedder
from palace_daemon.errors import NotFoundError, RequestError, StoreFullError
from palace_daemon.model import ForgetReport, ForgetRequest, RecallQuery
from palace_daemon.service import forgetting
from palace_daemon.service.build import build
from palace_daemon.service.palace import LivePalace
from palace_daemon.store import check, packing, postings, scrubbing
from palace_daemon.store import forgetting as store_forgetting
from palace_daemon.watch.scripted import ScriptedNotifier

SECRET = "Zanzibarwhale quixotry must never reach the marmalade committee."
WORDS = ("zanzibarwhal", "quixotri", "marmalad")
ANSWER = "Understood: the quagmirebird stays between us."
NOW = 1_800_000_000_000


def forget(palace: LivePalace, **fields: Any) -> ForgetReport:
    return palace.forget(ForgetRequest(**fields))


def texts(palace: LivePalace) -> list[str]:
    return [
        view.user_text
        for session in palace.sessions(limit=100)
        for view in palace.timeline(session.session_id)
        if view.session_id == session.session_id
    ]


def recall(palace: LivePalace, text: str, **fields: Any) -> list[str]:
    return [hit.text for hit in palace.recall(RecallQuery(text=text, now=NOW, **fields)).hits]


def exchange_id(palace: LivePalace, user_text: str) -> str:
    (found,) = {
        view.exchange_id
        for session in palace.sessions(limit=100)
        for view in palace.timeline(session.session_id)
        if view.user_text == user_text
    }
    return found


def terms(palace: LivePalace) -> set[str]:
    with palace._store.read() as connection:
        return set(postings.all_terms(connection))


def scalar(palace: LivePalace, query: str) -> Any:
    with palace._store.read() as connection:
        return connection.execute(query).fetchone()[0]


def assert_sound(palace: LivePalace) -> None:
    with palace._store.read() as connection:
        assert [finding for finding in check.check(connection, is_deep=True) if not finding.is_ok] == []


@pytest.fixture
def told(palace: LivePalace, transcripts: Path) -> LivePalace:
    """Four exchanges in one session, the second of them secret, and one in another session."""
    text = turn(1, "How do tides work?", "The moon pulls.") + turn(2, SECRET, ANSWER)
    text += turn(3, "And the sun?", "It helps a little.") + turn(4, "Thanks.", "Any time.")
    append(transcripts / "one.jsonl", text)
    append(transcripts / "two.jsonl", turn(1, "Where is the ferry?", "At the north pier.", session="s2"))
    palace.mine(wait=True)
    return palace


# --------------------------------------------------------------------------------------------------- gone, everywhere


def test_no_byte_of_it_stays_in_any_file(told: LivePalace, tmp_path: Path, transcripts: Path) -> None:
    data = tmp_path / "data"
    (vector,) = HashingEmbedder().embed_passages([f"> {SECRET}\n\n{ANSWER}"])
    with told._store.read() as connection:
        stored = {bytes(row[0]) for row in connection.execute("SELECT vector FROM vectors")}
    gone = [blob for blob in stored if [blob] == packing.pack(vector[None])]
    assert gone, "the vector is that of the drawer"
    wanted = (SECRET, ANSWER, *SECRET.rstrip(".").split()[:2], *WORDS, "quagmirebird")
    assert traces(data, wanted, gone), "they are found while they are there"
    assert set(WORDS) <= terms(told) == terms(told) | analysis.term_counts(ANSWER).keys()

    report = forget(told, exchanges=(exchange_id(told, SECRET),))
    assert (report.exchanges, report.drawers, report.wipe_due) == (1, 1, "")
    assert traces(data, wanted, gone) == []
    told.mine(wait=True)
    assert traces(data, wanted, gone) == [], "reading the file anew brings nothing back"
    assert not set(WORDS) & terms(told)
    told.close()
    assert traces(data, wanted, gone) == [], "nor does closing"
    assert not list(data.glob(f"*{scrubbing.COPY_SUFFIX}"))


def test_it_leaves_recall_and_the_rest_stays_as_it_was(told: LivePalace) -> None:
    forget(told, exchanges=(exchange_id(told, SECRET),))
    assert sorted(texts(told)) == ["And the sun?", "How do tides work?", "Thanks.", "Where is the ferry?"]
    assert not any("marmalade" in text for text in recall(told, "marmalade committee"))
    assert recall(told, "ferry pier")[0].startswith("> Where is the ferry?")
    assert_sound(told)


def test_a_session_that_loses_its_third_turn_is_cut_as_if_it_had_never_had_one(
    make_palace: Callable[..., LivePalace], tmp_path: Path, transcripts: Path
) -> None:
    long = "\n\n".join(f"Paragraph {number} says a little more about the tides." for number in range(40))
    kept = turn(1, "How do tides work?", long) + turn(2, "And the sun?", long)
    append(transcripts / "one.jsonl", kept + turn(3, SECRET, ANSWER))
    palace = make_palace()
    palace.mine(wait=True)
    forget(palace, exchanges=(exchange_id(palace, SECRET),))
    palace.mine(wait=True)
    assert_sound(palace)
    (transcripts / "one.jsonl").write_text(kept)
    other = make_palace(tmp_path / "other")
    other.mine(wait=True)
    ours, theirs = (logical_dump(one._store.path)["drawers"] for one in (palace, other))
    assert ours == theirs
    assert len(ours) > 2, "long replies make several drawers"


def test_equal_texts_elsewhere_keep_their_vector(palace: LivePalace, transcripts: Path) -> None:
    append(transcripts / "one.jsonl", turn(1, "yes", "Done.") + turn(2, "yes", "Done."))
    palace.mine(wait=True)
    first, second = (view.exchange_id for view in palace.timeline("s1"))
    forget(palace, exchanges=(first,))
    assert [view.exchange_id for view in palace.timeline("s1")] == [second]
    palace.mine(wait=True)
    assert [view.exchange_id for view in palace.timeline("s1")] == [second], "short words are told by their ids"
    assert_sound(palace)


def test_no_state_of_a_parser_keeps_the_text_while_its_session_goes_on(
    told: LivePalace, tmp_path: Path, transcripts: Path
) -> None:
    forget(told, exchanges=(exchange_id(told, SECRET),))
    for number in range(5, 8):
        append(transcripts / "one.jsonl", turn(number, f"Question {number}?", "An answer."))
        told.mine(wait=True)
        assert traces(tmp_path / "data", (SECRET, ANSWER)) == []
    assert scalar(told, "SELECT count(*) FROM sources WHERE parser_state IS NULL") == 0
    assert len(told.timeline("s1")) == 6


def test_an_open_exchange_stays_forgotten_while_it_grows(told: LivePalace, tmp_path: Path, transcripts: Path) -> None:
    append(transcripts / "one.jsonl", user("u-open", SECRET, at=100))
    told.mine(wait=True)
    ids = {view.exchange_id for view in told.timeline("s1") if view.user_text == SECRET}
    forget(told, exchanges=tuple(ids))
    for number in range(3):
        append(transcripts / "one.jsonl", reply(f"a-open{number}", f"Albatrossly {number}.", at=101 + number))
        report = told.mine(wait=True)
        assert report.exchanges_left_out["forgotten"] >= 1
        assert traces(tmp_path / "data", (SECRET, "Albatrossly")) == []
    append(transcripts / "one.jsonl", turn(30, "Something new?", "Yes."))
    told.mine(wait=True)
    assert "Something new?" in texts(told)
    assert SECRET not in texts(told)


def test_a_queued_prompt_that_waits_in_the_reader_is_not_kept_either(
    told: LivePalace, tmp_path: Path, transcripts: Path
) -> None:
    queue = {"type": "queue-operation", "sessionId": "s1", "timestamp": "2026-02-02T03:00:00.000Z"}
    lines = [queue | {"operation": "enqueue", "content": SECRET}, queue | {"operation": "remove"}]
    append(transcripts / "one.jsonl", user("u-9", "Go on.", at=1200))
    append(transcripts / "one.jsonl", "".join(msgspec.json.encode(line).decode() + "\n" for line in lines))
    append(transcripts / "one.jsonl", reply("a-9", "I do.", at=1205))
    told.mine(wait=True)
    secret = tuple({view.exchange_id for view in told.timeline("s1") if view.user_text == SECRET})
    assert len(secret) == 2, "asked once, and queued once"
    forget(told, exchanges=secret)
    told.mine(wait=True)
    assert traces(tmp_path / "data", (SECRET,)) == []
    append(transcripts / "one.jsonl", reply("a-10", "Still.", at=1210))
    told.mine(wait=True)
    assert traces(tmp_path / "data", (SECRET,)) == []
    assert SECRET not in texts(told)


# ------------------------------------------------------------------------------------------------- it stays forgotten


def specstory(session: str, *turns: tuple[str, str]) -> str:
    text = "<!-- Generated by SpecStory, Markdown v2.1.0 -->\n\n# 2026-02-02 02:40:10Z\n\n"
    text += f"<!-- Claude Code Session {session} (2026-02-02 02:40:10Z) -->\n\n"
    for number, (question, answer) in enumerate(turns, 1):
        at = stamp(number * 10)[:19].replace("T", " ") + "Z"
        text += f"_**User ({at})**_\n\n{question}\n\n---\n\n_**Agent (claude-test-1 {at})**_\n\n{answer}\n\n---\n\n"
    return text


@pytest.mark.parametrize("is_copy_there_before", [True, False])
def test_a_copy_of_the_session_does_not_bring_it_back(
    palace: LivePalace, tmp_path: Path, transcripts: Path, is_copy_there_before: bool
) -> None:
    session = "11111111-2222-4333-8444-555555555555"
    told = (("How do tides work?", "The moon pulls."), ("My PIN is zanzibarwhale.", "Noted."))
    lines = "".join(turn(number, *one, session=session) for number, one in enumerate(told, 1))
    append(transcripts / f"{session}.jsonl", lines)
    copy = transcripts / ".specstory" / "history" / "2026-02-02_02-40-00Z-tides.md"
    if is_copy_there_before:
        append(copy, specstory(session, *told))
    palace.mine([str(transcripts)], wait=True)
    standing = {
        view.exchange_id for view in palace.timeline(session) if not view.is_superseded and "PIN" in view.user_text
    }
    request = ForgetRequest(exchanges=tuple(standing))
    listed, done = palace.forget(request, dry_run=True), palace.forget(request)
    assert listed.exchanges == len(listed.items) == done.exchanges == 1 + is_copy_there_before
    if not is_copy_there_before:
        append(copy, specstory(session, *told))
    for _ in range(2):
        palace.mine([str(transcripts)], wait=True)
        assert not any("zanzibarwhale" in text for text in recall(palace, "PIN zanzibarwhale"))
        assert traces(tmp_path / "data", ["zanzibarwhale"]) == []
    assert set(texts(palace)) == {"How do tides work?"}
    assert_sound(palace)


def test_it_stays_forgotten_when_read_anew_copied_or_forked(
    told: LivePalace, make_palace: Callable[..., LivePalace], tmp_path: Path, transcripts: Path
) -> None:
    forget(told, exchanges=(exchange_id(told, SECRET),))
    shutil.copy(transcripts / "one.jsonl", transcripts / "copy.jsonl")
    forked = (transcripts / "one.jsonl").read_text().replace('"s1"', '"s9"').replace("-s1-", "-s9-")
    append(transcripts / "fork.jsonl", forked + turn(8, "A new way?", "Yes.", session="s9"))
    report = told.mine(wait=True)
    assert report.exchanges_left_out["forgotten"] >= 2
    assert SECRET not in texts(told)
    assert "A new way?" in texts(told), "the rest of a batch is stored"
    told._store.rebuild_index()
    told.close()
    again = make_palace()
    with again._store.read() as connection:
        connection.execute("SELECT 1").fetchone()
    (transcripts / "one.jsonl").touch()
    again._store.write(lambda c: c.execute("UPDATE sources SET cursor=NULL, parser_state=NULL").rowcount)
    again.mine(wait=True)
    assert SECRET not in texts(again)
    assert traces(tmp_path / "data", (SECRET, ANSWER)) == []


def test_what_is_said_later_in_a_forgotten_session_is_new(told: LivePalace, transcripts: Path) -> None:
    report = forget(told, sessions=("s1",))
    assert report.exchanges == 4
    append(transcripts / "one.jsonl", turn(5, "Back again?", "Yes."))
    told.mine(wait=True)
    assert sorted(texts(told)) == ["Back again?", "Where is the ferry?"]


def test_forgetting_while_the_source_is_being_read_has_it_read_anew(
    told: LivePalace, transcripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = exchange_id(told, SECRET)
    save, forgot = told._store.save, threading.Event()

    def save_late(batch: Any, mined_at: int) -> Any:
        if not forgot.is_set():
            forgot.set()
            forget(told, exchanges=(secret,))
        return save(batch, mined_at)

    monkeypatch.setattr(told._store, "save", save_late)
    append(transcripts / "one.jsonl", turn(5, "Meanwhile?", "Yes."))
    told.mine(wait=True)
    assert forgot.is_set()
    assert "Meanwhile?" in texts(told)
    assert SECRET not in texts(told)


def test_a_title_that_was_a_forgotten_prompt_goes_with_it(
    palace: LivePalace, tmp_path: Path, transcripts: Path
) -> None:
    title = msgspec.json.encode({"type": "custom-title", "customTitle": SECRET[:39], "sessionId": "s1"}).decode()
    append(transcripts / "one.jsonl", turn(1, SECRET, ANSWER) + turn(2, "And else?", "Nothing.") + title + "\n")
    own = msgspec.json.encode({"type": "custom-title", "customTitle": "Harbour plans", "sessionId": "s2"}).decode()
    append(transcripts / "two.jsonl", turn(1, "Where to?", "North.", session="s2") + own + "\n")
    palace.mine(wait=True)
    assert {view.title for view in palace.sessions()} == {SECRET[:39], "Harbour plans"}
    forget(palace, exchanges=(exchange_id(palace, SECRET), exchange_id(palace, "Where to?")))
    for _ in range(2):
        assert [view.title for view in palace.sessions()] == ["And else?"]
        assert traces(tmp_path / "data", (SECRET[:39], "Harbour plans")) == []
        palace.mine(wait=True)


# ----------------------------------------------------------------------------------------------------------- selectors


def test_a_dry_run_lists_and_changes_nothing(told: LivePalace) -> None:
    before = logical_dump(told._store.path)
    report = told.forget(ForgetRequest(sessions=("s1",)), dry_run=True)
    assert report.is_dry_run
    assert [item.title for item in report.items] == ["How do tides work?", SECRET, "And the sun?", "Thanks."]
    assert report.items[0].project == "/nowhere/tidepool"
    assert logical_dump(told._store.path) == before


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"project": "/nowhere/tidepool"}, 5),
        ({"agent": "claude-code"}, 5),
        ({"agent": "claude-code", "sessions": ("s2",)}, 1),
        ({"since": 1_770_000_000_000 + 20_000, "until": 1_770_000_000_000 + 40_000}, 2),
        ({"since": 1_770_000_000_000 + 20_000, "sessions": ("s2",)}, 0),
        ({"query": RecallQuery(text="marmalade committee", now=NOW, limit=1)}, 1),
        ({"query": RecallQuery(text="marmalade committee", now=NOW, limit=3), "sessions": ("s2",)}, None),
    ],
)
def test_selectors_narrow_each_other(told: LivePalace, fields: dict[str, Any], expected: int | None) -> None:
    found = told.forget(ForgetRequest(**fields), dry_run=True).exchanges
    assert found == expected if expected is not None else found <= 1


def test_a_drawer_and_a_file_name_their_exchanges(told: LivePalace, transcripts: Path) -> None:
    drawer = f"{exchange_id(told, SECRET)}.0"
    assert told.forget(ForgetRequest(drawers=(drawer,)), dry_run=True).items[0].title == SECRET
    assert forget(told, source=str(transcripts / "one.jsonl")).exchanges == 4
    assert texts(told) == ["Where is the ferry?"]


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"exchanges": ("0" * 16,)}, NotFoundError, "no exchange"),
        ({"sessions": ("nobody",)}, NotFoundError, "no session"),
        ({"project": "/elsewhere/tidepool"}, NotFoundError, "did you mean /nowhere/tidepool"),
        ({"project": "tidepol"}, NotFoundError, "nothing is stored"),
        ({"project": "\ud800"}, NotFoundError, "nothing is stored"),
        ({"source": "/none.jsonl"}, NotFoundError, "no such transcript"),
        ({"agent": "nobody"}, RequestError, "known are claude-code"),
    ],
)
def test_unknown_names_are_errors(told: LivePalace, fields: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        forget(told, **fields)
    assert len(texts(told)) == 5


def test_listeners_are_told(told: LivePalace) -> None:
    heard: list[int] = []
    told.subscribe(lambda report: heard.append(report.drawers_removed))
    forget(told, exchanges=(exchange_id(told, SECRET),))
    assert 1 in heard


# ----------------------------------------------------------------------------------------------------- the second step


def test_a_full_disk_is_said_and_tried_again(
    told: LivePalace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    monkeypatch.setattr(forgetting, "RETRY_FIRST_S", 0.02)
    real, full = told._store.scrub, threading.Event()
    full.set()

    def scrub(stop: Any = None) -> None:
        if full.is_set():
            raise StoreFullError("no room to rewrite", hint="free disk space")
        real(stop)

    monkeypatch.setattr(told._store, "scrub", scrub)
    report = forget(told, exchanges=(exchange_id(told, SECRET),))
    assert "no room" in report.wipe_due
    assert "not gone from the database file yet" in told.status().last_error
    assert SECRET not in texts(told), "gone from recall all the same"
    full.clear()
    wait_until(lambda: not scalar(told, "SELECT scrub_due FROM state"))
    wait_until(lambda: not told.status().last_error)
    assert traces(tmp_path / "data", (SECRET, ANSWER)) == []


def test_room_that_a_migration_left_is_given_back_at_a_start_with_room_for_it(
    told: LivePalace,
    make_palace: Callable[..., LivePalace],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    wait_until: Callable[..., None],
) -> None:
    monkeypatch.setattr(forgetting, "RETRY_FIRST_S", 0.01)
    told._store.write(lambda c: c.execute(f"UPDATE state SET scrub_due={scrubbing.ROOM_DUE}"))
    told.close()
    free = shutil.disk_usage(tmp_path)._replace(free=4_096)
    asked: list[int] = []

    def usage(_path: Path) -> Any:
        asked.append(1)
        return free

    with monkeypatch.context() as little:
        little.setattr("palace_daemon.store.scrubbing.shutil.disk_usage", usage)
        again = make_palace()
        again.start()
        wait_until(lambda: asked)
        for number in range(3):  # whatever wakes the thread
            again._forgetting.wipe_soon()
            again.remember(f"note {number}", now=NOW)
            assert again._forgetting.wipe() == ""
        assert asked == [1]
        (said,) = [one.getMessage() for one in caplog.records if "free room" in one.getMessage()]
        assert "MB are needed, 0 MB are free" in said
        assert "until the next start" in said
        assert not again.status().last_error, "nobody misses anything"
        report = forget(again, exchanges=(exchange_id(again, SECRET),))
        assert "MB are needed" in report.wipe_due, "what was forgotten must go, and is tried again"
    wait_until(lambda: not scalar(again, "SELECT scrub_due FROM state"))
    assert traces(tmp_path / "data", (SECRET, ANSWER)) == []
    again._store.write(lambda c: c.execute(f"UPDATE state SET scrub_due={scrubbing.ROOM_DUE}"))
    again.close()
    third = make_palace()
    third.start()
    wait_until(lambda: not scalar(third, "SELECT scrub_due FROM state"))


def test_a_reader_keeps_the_log_from_being_cut_and_loses_nothing(
    told: LivePalace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    monkeypatch.setattr(forgetting, "RETRY_FIRST_S", 0.02)
    secret = exchange_id(told, SECRET)
    told._store._writer.run_bare(lambda connection: connection.execute("PRAGMA busy_timeout=50").fetchone())
    with told._store.read() as connection:
        report = forget(told, exchanges=(secret,))
        assert "reader" in report.wipe_due
        assert connection.execute("SELECT count(*) FROM exchanges").fetchone()[0] == 5, "it still sees its own state"
        assert recall(told, "ferry pier"), "others go on"
    wait_until(lambda: not scalar(told, "SELECT scrub_due FROM state"))
    assert traces(tmp_path / "data", (SECRET, ANSWER)) == []
    assert_sound(told)


def test_recall_goes_on_while_the_file_is_rewritten(
    told: LivePalace, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    monkeypatch.setattr(scrubbing, "_STEP_PAGES", 1)
    answers: list[int] = []
    real = scrubbing._check

    def check_and_ask(stop: Any) -> None:
        answers.append(len(recall(told, "ferry pier tides")))
        real(stop)

    monkeypatch.setattr(scrubbing, "_check", check_and_ask)
    forget(told, exchanges=(exchange_id(told, SECRET),))
    assert len(answers) > 5
    assert min(answers) > 0


def test_closing_stops_the_rewriting_and_the_next_start_finishes_it(
    told: LivePalace,
    make_palace: Callable[..., LivePalace],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wait_until: Callable[..., None],
) -> None:
    monkeypatch.setattr(scrubbing, "_STEP_PAGES", 1)
    told._forgetting._stop.set()
    report = forget(told, exchanges=(exchange_id(told, SECRET),))
    assert "stopped" in report.wipe_due
    assert_sound(told)
    told.close()
    again = make_palace()
    assert scalar(again, "SELECT scrub_due FROM state") == 1
    again.start()
    wait_until(lambda: not scalar(again, "SELECT scrub_due FROM state"))
    assert traces(tmp_path / "data", (SECRET, ANSWER)) == []
    assert_sound(again)


# -------------------------------------------------------------------------------------------------------- ignore rules


def with_rules(data: Path, transcripts: Path, **rules: Any) -> LivePalace:
    watch = WatchConfig(defaults=False, paths=(str(transcripts),), **rules)
    return build(Config(data_dir=data, watch=watch), embedder=HashingEmbedder(), notifier=ScriptedNotifier())


@pytest.fixture
def secret_project(palace: LivePalace, transcripts: Path) -> LivePalace:
    append(transcripts / "keep" / "one.jsonl", turn(1, "How do tides work?", "The moon pulls."))
    secret = turn(1, SECRET, ANSWER, session="s2").replace("/nowhere/tidepool", "/nowhere/clients/acme")
    append(transcripts / "secret" / "two.jsonl", secret)
    palace.mine(wait=True)
    palace.close()
    return palace


@pytest.mark.parametrize("rules", [{"ignore_projects": ("/nowhere/clients",)}, {"ignore_paths": ("**/secret",)}])
def test_a_rule_takes_out_what_is_stored_and_removing_it_brings_it_back(
    secret_project: LivePalace,
    transcripts: Path,
    tmp_path: Path,
    rules: dict[str, Any],
    wait_until: Callable[..., None],
) -> None:
    data = tmp_path / "data"
    ruled = with_rules(data, transcripts, **rules)
    ruled.start()
    wait_until(lambda: texts(ruled) == ["How do tides work?"])
    ruled.mine(wait=True)
    wait_until(lambda: not scalar(ruled, "SELECT scrub_due FROM state"))
    assert traces(data, (SECRET, ANSWER, *WORDS)) == []
    assert scalar(ruled, "SELECT count(*) FROM tombstones") == 0
    more = turn(2, "More of it?", "No.", session="s2").replace("/nowhere/tidepool", "/nowhere/clients/acme")
    append(transcripts / "secret" / "two.jsonl", more)
    ruled.mine(wait=True)
    assert texts(ruled) == ["How do tides work?"]
    assert_sound(ruled)
    ruled.close()
    free = with_rules(data, transcripts)
    free.start()
    wait_until(lambda: len(texts(free)) == 3)
    assert_sound(free)
    free.close()


def test_what_a_file_that_is_not_ignored_tells_too_stays(
    palace: LivePalace, transcripts: Path, tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    append(transcripts / "one.jsonl", turn(1, "How do tides work?", "The moon pulls."))
    longer = turn(1, "How do tides work?", "The moon pulls.") + reply("a-x", "And the sun.", at=12)
    append(transcripts / "secret" / "one.jsonl", longer)
    palace.mine(wait=True)
    assert palace.timeline("s1")[0].reply_text == "The moon pulls.\n\nAnd the sun."
    palace.close()
    ruled = with_rules(tmp_path / "data", transcripts, ignore_paths=(str(transcripts / "secret"),))
    ruled.start()
    wait_until(lambda: [view.reply_text for view in ruled.timeline("s1")] == ["The moon pulls."])
    wait_until(lambda: not scalar(ruled, "SELECT scrub_due FROM state"))
    assert traces(tmp_path / "data", ("And the sun.",)) == []
    assert_sound(ruled)
    ruled.close()


def test_a_named_file_that_is_ignored_is_reported(transcripts: Path, tmp_path: Path) -> None:
    append(transcripts / "secret" / "one.jsonl", turn(1, "How?", "So."))
    ruled = with_rules(tmp_path / "data", transcripts, ignore_paths=("secret",))
    path = str(transcripts / "secret" / "one.jsonl")
    report = ruled.mine([path], wait=True)
    assert report.failures == {path: store_forgetting.IGNORED_PATH}
    assert scalar(ruled, "SELECT count(*) FROM sources") == 0
    ruled.close()


def test_a_rule_through_a_link_covers_the_real_path(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for rule in (str(tmp_path / "link"), str(tmp_path / "link" / "*.jsonl"), str(tmp_path / "link" / "a.jsonl")):
        rules = forgetting.rules_of(WatchConfig(ignore_paths=(rule,)))
        assert rules.ignores_path(str(tmp_path / "real" / "a.jsonl")), rule
        assert not rules.ignores_path(str(tmp_path / "other" / "a.jsonl")), rule
