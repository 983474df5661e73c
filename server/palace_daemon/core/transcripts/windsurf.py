"""Windsurf: the trajectories that its hook writes to ``~/.windsurf/transcripts``.

Invariant: its own store is encrypted and is not read. A trajectory has neither ids nor times; the file names the
session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from palace_daemon.core.jsonl import LineDecoder, sniff_lines
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.line_parser import LineParser
from palace_daemon.core.transcripts.reading.homes import below_home
from palace_daemon.core.transcripts.reading.targets import target_of
from palace_daemon.core.transcripts.reading.words import as_text, path_parts, reason_word
from palace_daemon.core.turns import Event, Place, Reading, ReplyText, ToolCall, UserTurn

AGENT = "windsurf"

SUFFIXES = (".jsonl",)


class WindsurfStep(Struct):
    """A step; what it holds stands under the name of its type."""

    type: Any = None
    status: Any = None
    user_input: Any = None
    planner_response: Any = None
    code_action: Any = None

    @property
    def body(self) -> dict[str, Any]:
        """What the step holds, if its type is one that is read."""
        bodies = {
            "user_input": self.user_input,
            "planner_response": self.planner_response,
            "code_action": self.code_action,
        }
        body = bodies.get(as_text(self.type))
        return body if isinstance(body, dict) else {}


def _is_record(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    return isinstance(kind, str) and isinstance(value.get(kind), dict)


_STEPS = LineDecoder(WindsurfStep, _is_record)


def _is_ours(step: WindsurfStep) -> bool:
    return bool(step.body) and isinstance(step.status, str)


class WindsurfReader:
    """A :class:`~palace_daemon.core.transcripts.line_parser.RecordReader` of Windsurf steps.

    Args:
        session: Name of the file without its ending.
    """

    def __init__(self, session: str) -> None:
        self._session = session

    def snapshot(self) -> bytes:
        """Return nothing: no step needs another."""
        return b""

    def restore(self, state: bytes) -> None:
        """Do nothing."""

    def read(self, step: WindsurfStep, place: Place, payload: bytes) -> list[Reading]:  # noqa: ARG002
        """Return what a step yields."""
        event = self._event(as_text(step.type), step.body, place)
        if event is None:
            return [Reading(skipped=(f"unknown_type:{reason_word(as_text(step.type))}",))]
        return [Reading(events=(event,), session=self._session)]

    def _event(self, kind: str, body: dict[str, Any], place: Place) -> Event | None:
        match kind:
            case "user_input":
                return UserTurn(session=self._session, place=place, text=as_text(body.get("user_response")))
            case "planner_response":
                return ReplyText(session=self._session, place=place, text=as_text(body.get("response")))
            case "code_action":
                return ToolCall(session=self._session, place=place, name=kind, target=target_of(body))
            case _:
                return None


class WindsurfFormat:
    """JSON lines of Windsurf's transcript hook. Stateless and thread-safe."""

    name = "windsurf-hook-jsonl"
    agent = AGENT
    version = 1
    shape: Shape = "lines"
    suffixes: tuple[str, ...] = SUFFIXES
    is_secondary = False

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the folder that the hook writes to."""
        return (below_home(environ, home, platform, ".windsurf", "transcripts"),)

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` can be a trajectory by its name."""
        return path_parts(path)[-1].endswith(SUFFIXES)

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is one."""
        return sniff_lines(head, _STEPS, _is_ours, lambda _: False)

    def open(
        self,
        path: str,
        redact: Redactor,
        state: bytes | None = None,
        beside: Beside = NOTHING_BESIDE,  # noqa: ARG002 - its lines say everything
    ) -> LineParser[WindsurfStep]:
        """Return a parser for the source at ``path``, whose name is the session's."""
        return LineParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            decoder=_STEPS,
            reader=WindsurfReader(path_parts(path)[-1].removesuffix(".jsonl")),
            redact=redact,
            state=state,
        )


class WindsurfCascade:
    """Windsurf's own store, which it encrypts; satisfies :class:`~palace_daemon.core.transcripts.base.SealedStore`."""

    agent = AGENT
    reason = "Windsurf encrypts its own store; have its hook write transcripts to ~/.windsurf/transcripts instead"

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:
        """Return the folder of conversations."""
        return (below_home(environ, home, platform, ".codeium", "windsurf", "cascade"),)

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` is one of its conversations."""
        *folders, name = path_parts(path)
        return name.endswith(".pb") and folders[-2:] == ["windsurf", "cascade"]
