"""iFlow: Claude Code's grammar under other ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.formats import assert_cuts_do_not_matter, read_file
from support.line_formats import SHARED, assert_claims_only, assert_no_damage_raises, lines, needs_samples, parse

from palace_daemon.core.transcripts.claude_code.format import ClaudeCodeFormat
from palace_daemon.core.transcripts.iflow.format import IflowFormat

FORMAT = IflowFormat()
SAMPLE = SHARED / "other" / "iflow" / "agentsview-session.jsonl"
DATA = (
    Path(__file__).parents[2] / "data" / "transcripts" / "iflow" / "session-5e551000-0000-4000-8000-0000000000f1.jsonl"
)
SESSION = "session-5e551000-0000-4000-8000-0000000000f1"


def record(kind: str, number: int, content: Any, **fields: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content}
    if kind == "assistant":
        message |= {
            "id": f"response-17690000000{number:02d}",
            "type": "message",
            "model": "model-f",
            "stop_reason": None,
        }
    return {
        "uuid": f"0f0b0170-0000-4000-8000-{number:012d}",
        "parentUuid": f"0f0b0170-0000-4000-8000-{number - 1:012d}" if number > 1 else None,
        "sessionId": SESSION,
        "timestamp": f"2026-01-21T06:00:{number:02d}.000Z",
        "type": kind,
        "isSidechain": False,
        "userType": "external",
        "message": message,
        "cwd": "C:\\work\\tides",
        **fields,
    }


class TestSample:
    pytestmark = needs_samples

    def test_only_its_sample_is_claimed(self) -> None:
        assert_claims_only(FORMAT, "other/iflow")

    def test_the_conversation(self) -> None:
        told = read_file(FORMAT, SAMPLE)
        (one,) = told.exchanges
        assert one.user_text == '启动app时确保环境变量 DOCKER_API_VERSION="1.46"'
        texts = one.reply_text.split("\n\n")
        assert texts[0].startswith("我需要先了解这个项目的结构和启动方式")
        assert texts[1].startswith("我了解了项目结构")
        assert texts[-1].startswith("已完成修改。")
        assert one.reply_text[one.reply_final_start :].startswith("已完成修改。")
        assert (one.agent, one.model, one.cwd) == ("iflow", "glm-4.7", "C:\\exp\\docker-image-retagger")
        assert one.key == "iflow:26ce631f-b136-4829-83af-0a4d901c9cae"
        assert [tool.name for tool in one.tools] == ["read_file"] * 5 + ["replace"]
        assert one.tools[0].target == "C:\\exp\\docker-image-retagger\\README.md"
        assert told.lines_skipped == {"tool_result": 6}

    def test_cuts_and_restarts_do_not_matter(self) -> None:
        assert_cuts_do_not_matter(FORMAT, SAMPLE.read_bytes(), str(SAMPLE))


def test_a_session() -> None:
    told = read_file(FORMAT, DATA)
    assert told.pairs == [
        ("Why is the table empty?", "I will look.\n\nThe importer skips rows."),
        ("Thanks.", "You are welcome."),
    ]
    assert {one.session_id for one in told.exchanges} == {SESSION}
    assert [tool.target for tool in told.exchanges[0].tools] == ["C:\\work\\tides\\importer.py"]
    assert {one.agent for one in told.exchanges} == {"iflow"}
    assert told.sessions[0].agent == "iflow"
    assert told.lines_skipped == {"tool_result": 1, "meta": 1}


def test_cuts_and_restarts_do_not_matter() -> None:
    assert_cuts_do_not_matter(FORMAT, DATA.read_bytes(), str(DATA))


def test_damage_never_raises() -> None:
    assert_no_damage_raises(FORMAT, DATA.read_bytes(), str(DATA))


def test_keys_are_not_those_of_claude_code() -> None:
    told = parse(FORMAT, record("user", 1, "hi"))
    assert told.exchanges[0].key == "iflow:0f0b0170-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    "data",
    [
        lines(record("user", 1, "hi")),
        lines(record("assistant", 1, [{"type": "text", "text": "hi"}], sessionId="x")),
        lines(record("user", 1, "long " * 20_000)).replace(b": ", b":").replace(b", ", b",")[:60_000],
    ],
)
def test_claude_code_does_not_claim_such_a_file(data: bytes) -> None:
    # The writer puts its ids first, so that a line that is cut tells its session if the words come late.
    assert FORMAT.sniff(data)
    assert not ClaudeCodeFormat().sniff(data)


@pytest.mark.parametrize(
    "fields",
    [
        {"sessionId": "5e551000-0000-4000-8000-0000000000f1"},
        {"isSidechain": None},
        {"type": "system"},
        {"message": "hi"},
    ],
)
def test_what_is_no_session(fields: dict[str, Any]) -> None:
    assert not FORMAT.sniff(lines(record("user", 1, "hi") | fields))


def test_default_directories() -> None:
    assert FORMAT.default_dirs({}, "/home/sam", "linux") == ("/home/sam/.iflow/projects",)
    assert FORMAT.default_dirs({}, "/Users/sam", "darwin") == ("/Users/sam/.iflow/projects",)
    windows = FORMAT.default_dirs({"USERPROFILE": "D:\\sam"}, "C:\\x", "win32")
    assert windows == ("D:\\sam\\.iflow\\projects",)


def test_which_names_can_hold_a_session() -> None:
    assert FORMAT.may_hold(f"/h/.iflow/projects/-work-tides/{SESSION}.jsonl")
    assert not FORMAT.may_hold("/h/.iflow/config/projects.json")
