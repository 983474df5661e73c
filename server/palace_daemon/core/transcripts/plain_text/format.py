"""Plain texts of conversations: lines that begin with a speaker's label, or prompts behind ``> ``.

Invariant: a text is a conversation only if its form leaves no doubt. A page with quotations, a mail thread or a
glossary is none.
"""

from __future__ import annotations

from collections.abc import Mapping

from palace_daemon.core.drafts import digest
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.document_parser import TextParser, decode_text
from palace_daemon.core.transcripts.plain_text.turns import Turn, form_of, turns_of
from palace_daemon.core.transcripts.reading.text_lines import TextLines
from palace_daemon.core.transcripts.reading.words import path_parts
from palace_daemon.core.turns import Event, Facts, Reading, ReplyText, TurnEnd, UserTurn
from palace_daemon.model import SessionFacts

AGENT = "text"

_HEAD_CHARS = 64 * 1024
"""How much of the text shows its form; no less than the beginning by which a file is recognised."""

_SUFFIXES = (".txt", ".md", ".markdown", ".text")


class PlainTextFormat:
    """Labelled and quoted transcripts. Stateless and thread-safe."""

    name = "plain-text"
    agent = AGENT
    version = 1
    shape: Shape = "document"
    suffixes: tuple[str, ...] = _SUFFIXES
    is_secondary = False

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:  # noqa: ARG002
        """Return nothing: such a text lies where a person put it."""
        return ()

    def may_hold(self, path: str) -> bool:  # noqa: ARG002
        """Return false: no program keeps its transcripts so, thus no watched directory is searched for them."""
        return False

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is one."""
        text, _ = decode_text(head)
        return bool(form_of(text))

    def open(
        self,
        path: str,
        redact: Redactor,
        state: bytes | None = None,
        beside: Beside = NOTHING_BESIDE,  # noqa: ARG002 - the text says everything
    ) -> TextParser:
        """Return a parser for the source at ``path``, whose name becomes a part of the session's."""
        return TextParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            reader=PlainTextReader(path_parts(path)[-1]),
            redact=redact,
            state=state,
        )


class PlainTextReader:
    """A text to events."""

    def __init__(self, name: str) -> None:
        """Take the file's name."""
        stem, _, ending = name.rpartition(".")
        self._stem = stem if f".{ending}" in _SUFFIXES else name

    def read(self, text: str) -> list[Reading]:
        """Return what the whole text yields."""
        lines = TextLines(text)
        turns = turns_of(lines, form_of(text[:_HEAD_CHARS]))
        if not turns:
            return [Reading(skipped=("no_turns",))]
        # The first words belong to the name: folders hold many a chat.txt, and the words stay when the file moves.
        session = f"{self._stem}-{digest(turns[0].text):016x}"[-200:]
        events: list[Event] = [Facts(session=session, facts=SessionFacts(agent=AGENT, session_id=session))]
        for turn in turns:
            events += _turn_events(turn, session, lines)
        return [Reading(events=(*events, TurnEnd(session=session, status="complete")), session=session)]


def _turn_events(turn: Turn, session: str, lines: TextLines) -> list[Event]:
    place = lines.place(turn.first, turn.end)
    if turn.is_user:
        return [UserTurn(session=session, place=place, text=turn.text)]
    message_id = f"{session}:{place.byte_start}"
    return [ReplyText(session=session, place=place, text=turn.text, message_id=message_id)] if turn.text else []
