"""What all formats of exports and texts owe: no other sample is theirs, and nothing that bytes can be raises."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.formats import read_bytes
from support.mutators import MUTATORS

from palace_daemon.core.transcripts import registry
from palace_daemon.core.transcripts.aider.format import AiderFormat
from palace_daemon.core.transcripts.base import TranscriptFormat
from palace_daemon.core.transcripts.chatgpt.format import ChatGptFormat
from palace_daemon.core.transcripts.claude_ai import ClaudeAiFormat
from palace_daemon.core.transcripts.plain_text.format import PlainTextFormat
from palace_daemon.core.transcripts.slack.format import SlackFormat
from palace_daemon.core.transcripts.specstory.format import SpecStoryFormat

DATA = Path(__file__).parents[2] / "data" / "transcripts"
FOLDERS: dict[str, TranscriptFormat] = {
    "chatgpt-export": ChatGptFormat(),
    "claude-ai-export": ClaudeAiFormat(),
    "slack-export": SlackFormat(),
    "aider": AiderFormat(),
    "specstory-markdown": SpecStoryFormat(),
    "text": PlainTextFormat(),
}
NO_TRANSCRIPT = {"users.json", "channels.json", "dms.json", "SOURCES.txt"}


def assert_sniffed_by_their_own(root: Path) -> None:
    count = 0
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        folder = path.relative_to(root).parts[0]
        with path.open("rb") as file:
            head = file.read(registry.HEAD_BYTES)
        found = {name for name, known in FOLDERS.items() if known.sniff(head)}
        right = {folder} & set(FOLDERS) if path.name not in NO_TRANSCRIPT else set()
        assert found == right, path
        count += bool(right)
        if right:
            detected = registry.detect(str(path), head)
            assert detected is not None
            assert detected.name == FOLDERS[folder].name
    assert count


def test_each_own_sample_is_of_its_format_alone() -> None:
    assert_sniffed_by_their_own(DATA)


@pytest.mark.shared
def test_each_real_sample_is_of_its_format_alone(shared_transcripts: Path) -> None:
    assert_sniffed_by_their_own(shared_transcripts)


@pytest.mark.parametrize("folder", sorted(FOLDERS))
def test_damaged_samples_raise_nothing(folder: str) -> None:
    known = FOLDERS[folder]
    chance = random.Random(7)
    samples = [path.read_bytes() for path in sorted((DATA / folder).rglob("*")) if path.is_file()]
    for number in range(120):
        data = chance.choice(samples)
        for name in chance.sample(sorted(MUTATORS), 1 + number % 2):
            data = MUTATORS[name](data, chance)
        known.sniff(data[: registry.HEAD_BYTES])
        whole = read_bytes(known, data)
        for one in whole.exchanges:
            assert (one.user_text + one.reply_text).encode()


@pytest.mark.parametrize("folder", sorted(FOLDERS))
def test_secrets_and_our_own_blocks_are_kept_out(folder: str) -> None:
    known = FOLDERS[folder]
    secret = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
    ours = (
        '<palace-recall v=\\"1\\">remembered</palace-recall>'
        if folder.endswith("export")
        else ('<palace-recall v="1">remembered</palace-recall>')
    )
    words = {
        "chatgpt-export": "A floppy disk, really?",
        "claude-ai-export": "Find a name",
        "slack-export": "Lunch at noon?",
        "aider": "say hello",
        "specstory-markdown": "Enough, thank you.",
        "text": "How high is",
    }[folder]
    for path in sorted(path for path in (DATA / folder).rglob("*") if path.is_file()):
        text = path.read_text(encoding="utf-8")
        if words in text:
            whole = read_bytes(known, text.replace(words, f"{ours} {secret} {words}").encode(), str(path))
            kept = " ".join(one.user_text + one.reply_text for one in whole.exchanges)
            assert words in kept
            assert secret not in kept
            assert "remembered" not in kept
            return
    pytest.fail(f"no sample of {folder} holds the words")
