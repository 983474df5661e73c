"""Sessions of Claude Code and Codex that go on for a day: each writes its next lines as the program does."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from support import claude

FIRST_TIME = datetime(2026, 2, 2, 2, 40, tzinfo=UTC)
PROJECTS = ("tidepool", "atlas", "lantern", "harbour")
WORDS = (
    "gauge", "harbour", "queue", "redis", "tide", "lantern", "retry", "schema", "walrus", "index", "ferry",
    "beacon", "ledger", "parser", "socket", "mirror", "drawer", "cursor", "budget", "shelf", "quartz", "meadow",
    "anchor", "pulley", "cipher", "module", "branch", "kernel", "buffer", "window",
)  # fmt: skip


class Day:
    """The clock and the counters that all sessions share: the lines' own, never the wall's."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.now = FIRST_TIME
        self.told: list[tuple[str, str, str]] = []
        """Mark of each question, the key of its exchange and the session that asked it."""

    def stamp(self) -> str:
        """Return the time of the next line."""
        self.now += timedelta(seconds=self.chance.randint(1, 20), milliseconds=self.chance.randrange(1000))
        return f"{self.now:%Y-%m-%dT%H:%M:%S}.{self.now.microsecond // 1000:03d}Z"

    def uuid7(self) -> str:
        """Return an id that holds the present time."""
        made = f"{int(self.now.timestamp() * 1000):012x}"
        rest = f"{self.chance.getrandbits(74):019x}"
        return f"{made[:8]}-{made[8:]}-7{rest[:3]}-b{rest[3:6]}-{rest[6:18]}"

    def words(self, count: int) -> str:
        """Return so many words."""
        return " ".join(self.chance.choices(WORDS, k=count))

    def question(self) -> tuple[str, str]:
        """Return a mark that no other question has, and a question with it."""
        mark = f"mark{len(self.told):06d}x"
        asked = self.chance.choice(("Question: why does", "We moved", "I always want", "How do we fix"))
        return mark, f"{asked} the {self.words(3)} {mark}?"

    def answer(self) -> str:
        """Return a reply of one paragraph, or of many."""
        paragraphs = self.chance.choice((1, 1, 1, 2, 3, 12))
        return "\n\n".join(f"Answer: the {self.words(self.chance.randint(8, 60))}." for _ in range(paragraphs))


class Session:
    """One session: the file that it is written to, and what the program writes next.

    Attributes:
        path: The file.
        name: The session's id.
        torn: What is still missing of a line that was begun.
    """

    def __init__(self, day: Day, name: str, path: Path) -> None:
        self.day = day
        self.name = name
        self.path = path
        self.torn = ""
        self.turns = 0
        self._replies_left = 0

    def more(self) -> str:
        """Return the next lines, with the end of a line that was begun."""
        text, self.torn = self.torn + self._next(), ""
        return text

    def half(self) -> str:
        """Return the next lines, but the last of them only in part: the rest comes with :meth:`more`."""
        text = self.more()
        start = text.rstrip("\n").rfind("\n") + 1
        cut = self.day.chance.randrange(start + 1, len(text))
        self.torn = text[cut:]
        return text[:cut]

    def copy(self, data: str) -> tuple[Session, str]:
        """Return a session that goes on from a copy of ``data``, and the text that its file begins with."""
        raise NotImplementedError

    def _next(self) -> str:
        if self._replies_left:
            self._replies_left -= 1
            return self._reply(is_last=not self._replies_left)
        self.turns += 1
        self._replies_left = self.day.chance.randint(1, 4)
        mark, text = self.day.question()
        lines, key = self._question(text)
        self.day.told.append((mark, key, self.name))
        return lines

    def _question(self, text: str) -> tuple[str, str]:
        """Return the lines of a question, and the key of the exchange that it opens."""
        raise NotImplementedError

    def _reply(self, *, is_last: bool) -> str:
        raise NotImplementedError


class ClaudeSession(Session):
    """A session of Claude Code."""

    @classmethod
    def new(cls, day: Day, home: Path) -> ClaudeSession:
        """Begin one in some project."""
        project = day.chance.choice(PROJECTS)
        name = day.uuid7()
        return cls(day, name, home / ".claude" / "projects" / f"-nowhere-{project}" / f"{name}.jsonl")

    def copy(self, data: str) -> tuple[Session, str]:
        """Resume under another id, as `--fork-session` does, or under the same."""
        name = self.day.uuid7()
        other = ClaudeSession(self.day, name, self.path.with_name(f"{name}.jsonl"))
        other.turns, other._replies_left = self.turns, self._replies_left
        if self.day.chance.random() < 0.3:
            other.name = self.name
            return other, data
        return other, data.replace(f'"{self.name}"', f'"{name}"')

    def _question(self, text: str) -> tuple[str, str]:
        uuid = self.day.uuid7()
        line = claude.user(uuid, text, **self._common())
        if self.day.chance.random() < 0.1:
            line = self._queued(text, line)
        return line, f"claude-code:{uuid}"

    def _reply(self, *, is_last: bool) -> str:
        message = f"msg_{self.day.uuid7()}"
        text = claude.reply(self.day.uuid7(), self.day.answer(), message=message, **self._common())
        if not is_last and self.day.chance.random() < 0.4:
            text += self._tool_line(message)
        if self.day.chance.random() < 0.02:
            text += '{"type": "user", broken\n'
        return text

    def _tool_line(self, message: str) -> str:
        line = json.loads(claude.reply(self.day.uuid7(), "", message=message, **self._common()))
        use = {"type": "tool_use", "id": f"toolu_{self.day.uuid7()}", "name": "Read", "input": {"file_path": "/a.py"}}
        line["message"]["content"] = [use]
        return json.dumps(line) + "\n"

    def _queued(self, text: str, line: str) -> str:
        entry = json.loads(claude.queue_line("enqueue", text, session=self.name)) | {"timestamp": self.day.stamp()}
        taken = json.loads(claude.queue_line("dequeue", session=self.name)) | {"timestamp": self.day.stamp()}
        return json.dumps(entry) + "\n" + json.dumps(taken) + "\n" + line

    def _common(self) -> dict[str, Any]:
        return {"session": self.name, "timestamp": self.day.stamp(), "cwd": "/nowhere/" + self.path.parent.name[9:]}


class CodexSession(Session):
    """A thread of Codex."""

    def __init__(self, day: Day, name: str, path: Path) -> None:
        super().__init__(day, name, path)
        self.turn = ""
        self.cwd = "/nowhere/atlas"

    @classmethod
    def new(cls, day: Day, home: Path) -> CodexSession:
        """Begin one in some project."""
        name = day.uuid7()
        made = cls(day, name, home / ".codex" / "sessions" / "2026" / "02" / f"{day.now:%d}" / _rollout(day, name))
        made.cwd = f"/nowhere/{day.chance.choice(PROJECTS)}"
        made.torn = made._meta()
        return made

    def copy(self, data: str) -> tuple[Session, str]:
        """Fork: a thread of its own, whose file begins with the parent's lines, stamped anew."""
        name = self.day.uuid7()
        other = CodexSession(self.day, name, self.path.with_name(_rollout(self.day, name)))
        other.turns, other.turn, other.cwd, other._replies_left = self.turns, self.turn, self.cwd, 0
        stamp = self.day.stamp()
        lines = [_restamped(line, stamp) for line in data.splitlines(keepends=True)]
        return other, other._meta(forked_from_id=self.name) + "".join(lines)

    def _meta(self, **fields: Any) -> str:
        stamp = self.day.stamp()
        payload = {"id": self.name, "timestamp": stamp, "cwd": self.cwd, "originator": "codex_cli_rs", "source": "cli"}
        version = {"cli_version": "0.142.0", "git": {"branch": "main"}}
        return self._line("session_meta", {**payload, **version, **fields}, stamp)

    def _question(self, text: str) -> tuple[str, str]:
        self.turn = self.day.uuid7()
        content = [{"type": "input_text", "text": text}]
        lines = self._line("event_msg", {"type": "task_started", "turn_id": self.turn})
        lines += self._line("turn_context", {"cwd": self.cwd, "model": "gpt-5.2-codex", "turn_id": self.turn})
        lines += self._line("response_item", {"type": "message", "role": "user", "content": content})
        lines += self._line("event_msg", {"type": "user_message", "message": text, "images": []})
        return lines, f"codex:{self.name}:{self.turn}"

    def _reply(self, *, is_last: bool) -> str:
        text = self.day.answer()
        content = [{"type": "output_text", "text": text}]
        lines = self._line("event_msg", {"type": "agent_message", "message": text})
        lines += self._line("response_item", {"type": "message", "role": "assistant", "content": content})
        if is_last:
            return lines + self._line("event_msg", {"type": "task_complete", "last_agent_message": text})
        call = {"type": "function_call", "name": "exec_command", "arguments": '{"cmd": "ls"}', "call_id": self.turn}
        lines += self._line("response_item", call)
        return lines + self._line(
            "response_item", {"type": "function_call_output", "call_id": self.turn, "output": "a"}
        )

    def _line(self, kind: str, payload: dict[str, Any], stamp: str = "") -> str:
        return json.dumps({"timestamp": stamp or self.day.stamp(), "type": kind, "payload": payload}) + "\n"


def _rollout(day: Day, name: str) -> str:
    return f"rollout-{day.now:%Y-%m-%dT%H-%M-%S}-{name}.jsonl"


def _restamped(line: str, stamp: str) -> str:
    try:
        return json.dumps(json.loads(line) | {"timestamp": stamp}) + "\n"
    except ValueError:
        return line


BEGINNINGS: tuple[Callable[[Day, Path], Session], ...] = (ClaudeSession.new, CodexSession.new)
