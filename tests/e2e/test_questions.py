"""Questions on real transcripts, written before they were ever asked (``tests/data/questions.json``)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from palace_daemon.config import Config, WatchConfig
from palace_daemon.core import analysis, chunking
from palace_daemon.embed.tokens import MiniLmTokenCounter
from palace_daemon.model import MineReport, RecallQuery
from palace_daemon.service.build import build
from palace_daemon.store import check
from palace_daemon.store.spans import SPAN_COLUMNS, columns_of, span_of
from palace_daemon.watch.scripted import ScriptedNotifier

LISTS = json.loads((Path(__file__).parents[1] / "data" / "questions.json").read_text(encoding="utf-8"))
NOW = 1_795_000_000_000
GOAL_SHARE = 0.9
"""Not reached yet: questions that share no word with their gold exchange are the open part (see README)."""
REACHED = {"development": 23, "test": 14}
"""Questions whose session is first: what must not get worse."""

pytestmark = [pytest.mark.model, pytest.mark.shared, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("questions")


class Mined:
    """The two sample folders, mined twice with the real model."""

    def __init__(self, palace: Any, first: MineReport, second: MineReport) -> None:
        self.palace = palace
        self.first = first
        self.second = second


@pytest.fixture(scope="module")
def mined(data_dir: Path, shared_transcripts: Path) -> Iterator[Mined]:
    config = Config(data_dir=data_dir, watch=WatchConfig(defaults=False))
    palace = build(config, notifier=ScriptedNotifier(), clock=lambda: NOW)
    folders = [str(shared_transcripts / name) for name in ("claude-code", "codex")]
    yield Mined(palace, palace.mine(folders, wait=True), palace.mine(folders, wait=True))
    palace.close()


def test_all_files_are_read_and_none_fails(mined: Mined) -> None:
    assert mined.first.failures == {}
    assert mined.first.files >= 60
    assert mined.first.vectors_reason == ""
    assert mined.palace.status().vectors_pending == 0


def test_a_second_run_adds_nothing(mined: Mined) -> None:
    second = mined.second
    assert (second.exchanges_added, second.exchanges_replaced, second.drawers_added, second.vectors_added) == (
        0,
        0,
        0,
        0,
    )


def test_drawers_of_every_exchange_give_it_back(mined: Mined) -> None:
    with mined.palace._store.read() as connection:
        exchanges = connection.execute("SELECT id, user_text, reply_text FROM exchanges").fetchall()
        for exchange_id, user, reply in exchanges:
            rows = connection.execute(
                f"SELECT {SPAN_COLUMNS} FROM drawers WHERE exchange_id=? ORDER BY ordinal", (exchange_id,)
            )
            assert chunking.join(user, reply, [span_of(row) for row in rows]) == (user, reply)
    assert len(exchanges) > 200


def test_no_drawer_is_over_the_models_cap(mined: Mined) -> None:
    counter = MiniLmTokenCounter()
    with mined.palace._store.read() as connection:
        rows = connection.execute(
            f"SELECT e.user_text, e.reply_text, {columns_of('d')} FROM drawers d JOIN exchanges e ON e.id=d.exchange_id"
        ).fetchall()
    longest = max(counter.count(chunking.render(user, reply, span_of(tuple(span)))) for user, reply, *span in rows)
    assert longest <= counter.max_tokens


def test_the_store_is_sound(mined: Mined) -> None:
    with mined.palace._store.read() as connection:
        assert [finding for finding in check.check(connection, is_deep=True) if not finding.is_ok] == []


@pytest.mark.parametrize("name", ["development", "test"])
def test_the_right_session_comes_first(mined: Mined, name: str) -> None:
    first = {
        question["id"]: mined.palace.recall(RecallQuery(text=question["question"], now=NOW)).hits[0].session_id
        for question in LISTS[name]
    }
    wrong = {one["id"]: one["lexical"] for one in LISTS[name] if first[one["id"]] != one["session_id"]}
    right = len(first) - len(wrong)
    print(f"{name}: the right session first for {right} of {len(first)}, goal {GOAL_SHARE * len(first):.0f}")
    assert not any(wrong.values()), f"wrong though the question shares words with its gold: {wrong}"
    assert right >= REACHED[name], f"not first: {sorted(wrong)}"


STOP_WORDS = (
    "the a an what did we how about in our were was on so that could us by why when it must do be only of always"
    " whenever before if and or for with at to is this merely never my which where their all as does"
    " i you your from no not into than there here"
)


@pytest.mark.parametrize("name", ["development", "test"])
def test_half_of_the_questions_share_no_content_word_with_their_gold(mined: Mined, name: str) -> None:
    stop = set(analysis.terms(STOP_WORDS))
    shared = {}
    for question in LISTS[name]:
        if not question["lexical"]:
            gold = mined.palace.get(gold_id(mined.palace, question))
            asked = set(analysis.terms(question["question"])) - stop
            shared[question["id"]] = asked & set(analysis.terms(f"{gold.user_text} {gold.reply_text}"))
    assert list(shared.values()) == [set()] * (len(LISTS[name]) // 2), shared


def gold_id(palace: Any, question: dict[str, Any]) -> str:
    """Return the exchange that holds the record, or the line, that the question names."""
    with palace._store.read() as connection:
        (source, path) = connection.execute(
            "SELECT id, path FROM sources WHERE substr(path, -length(?))=?", (question["file"], question["file"])
        ).fetchone()
        (found,) = connection.execute(
            "SELECT e.public_id FROM exchanges e JOIN provenance p ON p.exchange_id=e.id"
            " WHERE p.source_id=? AND ? BETWEEN p.line_start AND p.line_end",
            (source, line_of(Path(path), str(question["user_record"]))),
        ).fetchone()
    return str(found)


def line_of(path: Path, record: str) -> int:
    """Return the line of a record, which is named by its line or its id."""
    if record.isdigit():
        return int(record)
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    return next(at for at, line in enumerate(lines, 1) if f'"uuid":"{record}"' in line.replace('": "', '":"'))
