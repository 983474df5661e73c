"""Cursor: conversations that a person exported as markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping

from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.cursor.lines import turn_of
from palace_daemon.core.transcripts.cursor.place import AGENT, CursorPlace
from palace_daemon.core.transcripts.cursor.query import read_query
from palace_daemon.core.transcripts.document_parser import TextParser, decode_text
from palace_daemon.core.transcripts.reading.loose_files import is_loose
from palace_daemon.core.turns import Place, Reading, ReplyText, Title

_HEADER = re.compile(r"\s*# ([^\n]*)\n+_Exported on [^\n]+ from Cursor \((\d[^()\n]*)\)_[ \t]*(?:\n|\Z)")
_SPEAKER = re.compile(r"^---[ \t]*\n(?:[ \t]*\n)*\*\*(User|Cursor)\*\*[ \t]*$", re.MULTILINE)
"""A rule before anything else than a speaker's name belongs to a reply."""


class CursorMarkdownReader:
    """A :class:`~palace_daemon.core.transcripts.document_parser.TextReader` of Cursor's exports.

    The date of the export is written in the order of somebody's country and tells nothing of the conversation's time.
    """

    def __init__(self, place: CursorPlace) -> None:
        self._file = place

    def read(self, text: str) -> list[Reading]:
        """Return what the whole text yields."""
        header = _HEADER.match(text)
        if header is None:
            return [Reading(skipped=("unknown_shape",))]
        session = self._file.session
        title = Title(session=session, text=header.group(1), rank=1)
        readings = [Reading(events=(self._file.facts("", header.group(2)), title), session=session)]
        speakers = list(_SPEAKER.finditer(text, header.end()))
        position = line = byte_start = 0
        for index, speaker in enumerate(speakers):
            line += text.count("\n", position, speaker.start())
            byte_start += len(text[position : speaker.start()].encode("utf-8", "replace"))
            position = speaker.start()
            end = speakers[index + 1].start() if index + 1 < len(speakers) else len(text)
            size = len(text[position:end].encode("utf-8", "replace"))
            place = Place(line + 1, byte_start, byte_start + size)
            readings.append(self._read_words(speaker.group(1), text[speaker.end() : end], place))
        return readings

    def _read_words(self, speaker: str, words: str, place: Place) -> Reading:
        session = self._file.session
        if speaker == "User":
            query = read_query(words)
            if not query.is_turn:
                return Reading(skipped=(query.reason,), session=session)
            return Reading(events=(turn_of(query, self._file, place, ""),), skipped=query.skipped, session=session)
        if not words.strip():
            return Reading(skipped=("empty",), session=session)
        reply = ReplyText(session=session, place=place, text=words.strip("\n"), message_id=f"line {place.line}")
        return Reading(events=(reply,), session=session)


class CursorMarkdownFormat:
    """Markdown that Cursor exports. Stateless and thread-safe."""

    name = "cursor-markdown"
    agent = AGENT
    version = 1
    shape: Shape = "document"
    suffixes: tuple[str, ...] = (".md",)
    is_secondary = True

    def default_dirs(self, environ: Mapping[str, str], home: str, platform: str) -> tuple[str, ...]:  # noqa: ARG002
        """Return nothing: exports lie where a person put them."""
        return ()

    def may_hold(self, path: str) -> bool:
        """Return whether ``path`` can be an export by its ending and its folders."""
        return is_loose(path, self.suffixes)

    def sniff(self, head: bytes) -> bool:
        """Return whether ``head`` begins with a title and the line that Cursor writes below it."""
        return _HEADER.match(decode_text(head)[0]) is not None

    def open(
        self,
        path: str,
        redact: Redactor,
        state: bytes | None = None,
        beside: Beside = NOTHING_BESIDE,  # noqa: ARG002 - an export stands alone
    ) -> TextParser:
        """Return a parser for the source at ``path``; the file's name stands for the conversation's id."""
        return TextParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            reader=CursorMarkdownReader(CursorPlace(path)),
            redact=redact,
            state=state,
        )
