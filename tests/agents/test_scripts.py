"""What docs/agents.md tells people to type, typed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from agents.conftest import Machine

from palace_daemon.agents import block, mcp_tools, settings
from palace_daemon.cli import main
from palace_daemon.core.budget import estimated_tokens

DOCS = (Path(__file__).parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")


def examples(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", DOCS, re.DOTALL)


@pytest.mark.model
def test_the_example_of_the_client_runs(machine: Machine) -> None:
    (example,) = examples("python")
    done = subprocess.run(
        [sys.executable, "-P", "-c", example], capture_output=True, check=True, timeout=60, env=machine.environment
    )
    lines = done.stdout.decode().splitlines()
    assert any("/home/sam/tidepool" in line for line in lines)


@pytest.mark.model
def test_the_bytes_of_the_one_liner_are_answered(machine: Machine) -> None:
    machine.run("recall", "anything")
    example = examples("sh")[-1]
    script = example if shutil.which("nc") else example.replace("nc -N -U", f"{sys.executable} -c '{ASK}'")
    environment = machine.environment | {"PATH": os.environ["PATH"]}
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=True, timeout=60, env=environment)
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    assert re.search(rb"Content-Length: %d\b" % len(body), head)
    assert json.loads(body)["result"]["hits"]


ASK = (
    "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
    "s.sendall(sys.stdin.buffer.read()); s.shutdown(socket.SHUT_WR);"
    "[sys.stdout.buffer.write(b) for b in iter(lambda: s.recv(65536), bytes())]"
)
"""What netcat does, for machines without it."""


@pytest.mark.model
def test_a_block_can_be_printed_for_pasting(machine: Machine) -> None:
    done = machine.run("recall", "--markdown", "--limit", "2", "why did we move the job queue out of Redis?")
    assert done.code == 0
    assert done.out.startswith(f"{block.OPENING}\n{block.LABEL}\n\n[1] ")
    assert done.out.endswith(f"{block.CLOSING}\n")
    assert machine.run("recall", "--markdown", "--project", "nowhere", "anything").out == ""
    short = machine.run("recall", "--markdown", "--max-tokens", "200", "why did we move the job queue out of Redis?")
    assert estimated_tokens(short.out) <= 200
    assert block.CUT_MARK in short.out


def test_the_page_names_every_agent_and_every_tool() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", DOCS, re.MULTILINE)
    assert rows == [*settings.AGENTS, *(name for name in rows if name in {tool.name for tool in mcp_tools.TOOLS})]
    assert set(rows) >= {tool.name for tool in mcp_tools.TOOLS}


def test_every_command_line_on_the_page_is_one() -> None:
    lines = [line.split("#")[0].split() for line in "".join(examples("sh")).splitlines() if line.startswith("palace")]
    assert lines
    for words in lines:
        assert callable(main.build_parser().parse_args(words[1:]).run)
