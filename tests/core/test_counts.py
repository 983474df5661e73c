"""The counts of an independent throw-away counter over the real transcripts, and where it is wrong.

The counter's table lies beside the samples. Each difference that is right is listed below with file, line and reason,
checked by eye; every other difference is a bug of ours.
"""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from palace_daemon.core.drafts import Draft
from palace_daemon.core.transcripts import registry
from palace_daemon.model import Exchange

SHARED = Path(__file__).parents[3] / "shared" / "transcripts"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real transcripts are not at {SHARED}"),
]

# file -> count -> (ours minus theirs, why)
CLAUDE_DIFFERENCES: dict[str, dict[str, tuple[int, str]]] = {
    "agentsview-queued_system_messages.jsonl": {
        "queued": (-2, "lines 2 and 3: queued task notifications are no words of a person"),
    },
    "cclog-edge_cases.jsonl": {
        "typed": (1, 'line 18: content ["wow error"] is a list with a bare string'),
    },
    "entire-37995ebe-ask-answers.jsonl": {
        "rejected": (-1, "line 23: the canned form that re-lists the questions"),
    },
    "entire-63590d29-joined-lines.jsonl": {
        "texts": (-1, "lines 172 and 175 hold the same record"),
    },
    "jazzyalex-schema_drift.jsonl": {
        "typed": (-1, "line 6: origin.kind is task-notification, kept as automated"),
    },
    "jazzyalex-small.jsonl": {
        "typed": (-5, "lines 49, 60, 62, 63, 87: id, time and words are all '[trimmed for fixture]', as in line 43"),
        "queued": (-1, "lines 45 and 59: the same; line 12 was queued and never delivered"),
        "texts": (3, "lines 8, 18, 19: side-chain replies, in a session of their own"),
    },
    "jazzyalex-subagent/0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f/subagents/agent-a0ad4f44468bdf20d.jsonl": {
        "texts": (1, "line 2: a side-chain reply, in a session of its own"),
    },
    "vibereplay-toolsearch-filter.jsonl": {
        "typed": (1, "line 5: typed words in one record with a tool result"),
    },
    "vscode/50a7220d-7250-46f3-b38e-b716ce25032e/subagents/agent-a21e2f5.jsonl": {
        "texts": (1, "line 18: a side-chain reply, in a session of its own"),
    },
}

CODEX_DIFFERENCES: dict[str, dict[str, tuple[int, str]]] = {
    "agentsview-function_calls.jsonl": {"prompts": (1, "line 2: an item without a type")},
    "agentsview-standard_session.jsonl": {
        "prompts": (1, "line 2: an item without a type"),
        "texts": (1, "line 3: an item without a type"),
    },
    "ctx/codex-rich-sessions/2026/06/24/rich.jsonl": {
        "texts": (1, "line 13: only task_complete holds the final text"),
    },
    "ctx/codex-sessions/2026/06/23/codex-session-root.jsonl": {
        "texts": (1, "line 8: only task_complete holds the final text"),
    },
    "jazzyalex-large.jsonl": {
        "prompts": (5, "lines 11, 13, 15, 17, 19: items without an event, each with a reply, in a file with one event"),
    },
}


def rows(agent: str) -> list[dict[str, str]]:
    table = SHARED / agent / "COUNTS.tsv"
    if not table.is_file():
        return []
    with table.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


def read(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Exchange], Counter[str], int]:
    """Return the exchanges, the lines passed over, and the number of text blocks in the replies."""
    blocks: dict[int, int] = {}
    build = Draft.build

    def counted(draft: Draft, agent: str) -> Exchange:
        blocks[draft.ordinal] = len(draft.blocks)
        return build(draft, agent)

    monkeypatch.setattr(Draft, "build", counted)
    data = path.read_bytes()
    known = registry.detect(str(path), data[: registry.HEAD_BYTES])
    assert known is not None
    parser = known.open(str(path), str)
    results = [parser.feed(data), parser.take_tail()]
    skipped: Counter[str] = Counter()
    for result in results:
        skipped.update(result.lines_skipped)
    told = {one.ordinal: one for result in results for one in result.exchanges}
    return list(told.values()), skipped, sum(blocks.values())


@pytest.mark.parametrize("row", rows("claude-code"), ids=lambda row: row["file"].rsplit("/", 1)[-1])
def test_claude_code(row: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    exchanges, skipped, texts = read(SHARED / "claude-code" / row["file"], monkeypatch)
    kinds = Counter(one.user_kind for one in exchanges)
    # A turn without words and without an image is a reply that no prompt came before.
    agent_first = sum(one.user_kind == "prompt" and not one.user_text and not one.attachments for one in exchanges)
    bare_commands = sum(one.user_kind == "slash_args" and not one.user_text for one in exchanges)
    handed_over = sum(one.user_text.startswith("Implement the following plan:") for one in exchanges)
    ours = {
        "typed": kinds["prompt"] - agent_first + handed_over,
        "slash": kinds["slash_args"] - bare_commands + skipped["slash_without_args"],
        "queued": kinds["queued"],
        "rejected": kinds["rejection"],
        "answers": kinds["answer"],
        "texts": texts,
    }
    theirs = {
        "typed": int(row["typed"]),
        "slash": int(row["slash"]),
        "queued": int(row["queued_remove"]) + int(row["queued_att"]),
        "rejected": int(row["reject_txt"]),
        "answers": int(row["ask"]),
        "texts": int(row["asst_text"]),
    }
    right = {name: difference for name, (difference, _) in CLAUDE_DIFFERENCES.get(row["file"], {}).items()}
    assert {name: ours[name] - theirs[name] for name in ours if ours[name] != theirs[name]} == right


@pytest.mark.parametrize("row", rows("claude-code"), ids=lambda row: row["file"].rsplit("/", 1)[-1])
def test_claude_code_lines(row: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    _, skipped, _ = read(SHARED / "claude-code" / row["file"], monkeypatch)
    not_json = skipped["malformed"] + skipped["recovered_fragment"]
    assert not_json == int(row["bad"])


@pytest.mark.parametrize(
    "row", [row for row in rows("codex") if int(row["session_meta"])], ids=lambda row: row["file"].rsplit("/", 1)[-1]
)
def test_codex(row: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    exchanges, skipped, texts = read(SHARED / "codex" / row["file"], monkeypatch)
    ours = {
        "prompts": sum(bool(one.user_text) for one in exchanges),
        "texts": texts,
        "complete": sum(one.status == "complete" for one in exchanges[-1:]),
        "malformed": skipped["malformed"],
    }
    prompt_items = int(row["ri_user"]) + int(row["ri_dev"]) - skipped["injected_context"]
    theirs = {
        "prompts": int(row["ev_user"]) or prompt_items,
        "texts": max(int(row["ev_agent"]), int(row["ri_asst"])),
        "complete": int(row["done"]),
        "malformed": int(row["bad"]),
    }
    right = {name: difference for name, (difference, _) in CODEX_DIFFERENCES.get(row["file"], {}).items()}
    assert {name: ours[name] - theirs[name] for name in ours if ours[name] != theirs[name]} == right
