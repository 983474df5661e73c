"""An exchange while it may still change, in a form that can be stored and continued.

Invariant: everything here is plain msgspec data without transcript text that was not redacted.
"""

from __future__ import annotations

import hashlib
import unicodedata

from msgspec import Struct, field

from palace_daemon.core.turns import Place
from palace_daemon.model import Attachment, Exchange, ExchangeKey, ExchangeStatus, TimeQuality, ToolUse, UserKind

PARAGRAPH_BREAK = "\n\n"
"""What joins the text blocks of a reply."""


def digest(text: str) -> int:
    """Return 64 bits of BLAKE2b: compact, and equal on every machine and in every run."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big")


def fallback_key(agent: str, session_id: str, ordinal: int, user_text: str) -> ExchangeKey:
    """Return the identity of an exchange whose records have no ids: session, place and words."""
    words = unicodedata.normalize("NFC", user_text.replace("\r\n", "\n")).strip()
    seed = "\x1f".join((agent, session_id, str(ordinal), words))
    return ExchangeKey(f"{agent}:{hashlib.sha256(seed.encode('utf-8', 'replace')).hexdigest()}")


class Block(Struct, array_like=True, gc=False):
    """A text block of a reply. The raw size and digest tell whether a later block extends this one."""

    message: int
    text: str
    raw_size: int
    raw_digest: int
    channels: int = 0


class Draft(Struct, array_like=True, kw_only=True):
    """An exchange under construction; ``ordinal`` is -1 until it has any text."""

    session: str
    user_text: str
    user_kind: UserKind
    ordinal: int = -1
    key: str = ""
    record_ids: list[str] = field(default_factory=list)
    parent: int = 0
    turn: int = 0
    model: str = ""
    started_at: int | None = None
    ended_at: int | None = None
    time_quality: TimeQuality = "none"
    utc_offset_minutes: int | None = None
    status: ExchangeStatus = "open"
    cwd: str = ""
    branch: str = ""
    agent_version: str = ""
    blocks: list[Block] = field(default_factory=list)
    tools: list[ToolUse] = field(default_factory=list)
    call_ids: list[int] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)
    line_start: int = 0
    line_end: int = 0
    byte_start: int = 0
    byte_end: int = 0
    is_superseded: bool = False
    flags: list[str] = field(default_factory=list)
    dropped_user: int = 0
    """Digest of the user text once :meth:`drop_texts` has let go of it."""

    @property
    def has_text(self) -> bool:
        """Whether there is anything to store."""
        return bool(self.user_text or self.blocks)

    @property
    def chars(self) -> int:
        """Size of the texts, in characters."""
        return len(self.user_text) + sum(len(block.text) for block in self.blocks)

    def touch(self, place: Place, at: int | None) -> None:
        """Extend the range of lines, the flags and the time span by a record that belongs to this exchange."""
        if not self.line_start or place.line < self.line_start:
            self.line_start, self.byte_start = place.line, place.byte_start
        self.line_end = max(self.line_end, place.line)
        self.byte_end = max(self.byte_end, place.byte_end)
        self.add_flags(place.flags)
        if at is None:
            return
        if self.started_at is None:
            self.started_at, self.time_quality = at, "turn"
        self.ended_at = at if self.ended_at is None else max(self.ended_at, at)

    def add_flags(self, flags: tuple[str, ...]) -> None:
        """Add words that are not there yet."""
        self.flags.extend(flag for flag in flags if flag not in self.flags)

    def add_block(self, message: int, raw: str, text: str, channel: int) -> bool:
        """Unite a reply block with what is there; return whether anything changed."""
        raw_digest = digest(raw)
        for block in self.blocks:
            if block.raw_digest == raw_digest and self._is_repeat(block, message, channel):
                block.channels |= channel
                return False
            if (
                block.message == message
                and block.raw_size < len(raw)
                and digest(raw[: block.raw_size]) == (block.raw_digest)
            ):
                block.text, block.raw_size, block.raw_digest = text, len(raw), raw_digest
                return True
        self.blocks.insert(self._place_of(message), Block(message, text, len(raw), raw_digest, channel))
        return True

    def replace_message(self, message: int, raw: str, text: str, channel: int = 0) -> bool:
        """Put ``text`` in the place of all that its message said before; return whether anything changed."""
        whole = Block(message, text, len(raw), digest(raw), channel)
        held = [block for block in self.blocks if block.message == message]
        if [block.raw_digest for block in held] == [whole.raw_digest]:
            return False
        place = self.blocks.index(held[0]) if held else len(self.blocks)
        others = [block for block in self.blocks if block.message != message]
        self.blocks = [*others[:place], whole, *others[place:]]
        return True

    def drop_texts(self) -> None:
        """Keep what recognises the exchange and its blocks, and none of its words."""
        if self.user_text:
            self.dropped_user = digest(self.user_text)
        self.user_text = ""
        for block in self.blocks:
            block.text = ""
        self.tools, self.attachments = [], []

    def holds_message(self, message: int) -> bool:
        """Return whether a block of this message is here."""
        return any(block.message == message for block in self.blocks)

    def _is_repeat(self, block: Block, message: int, channel: int) -> bool:
        return block.message == message or (channel != 0 and not block.channels & channel)

    def _place_of(self, message: int) -> int:
        for index in range(len(self.blocks) - 1, -1, -1):
            if self.blocks[index].message == message:
                return index + 1
        return len(self.blocks)

    def build(self, agent: str) -> Exchange:
        """Return the exchange as it stands."""
        texts = [block.text for block in self.blocks]
        first_final = len(texts)
        while first_final and self.blocks[first_final - 1].message == self.blocks[-1].message:
            first_final -= 1
        before = sum(len(text) + len(PARAGRAPH_BREAK) for text in texts[:first_final])
        return Exchange(
            key=ExchangeKey(self.key),
            agent=agent,
            session_id=self.session,
            ordinal=self.ordinal,
            user_text=self.user_text,
            user_kind=self.user_kind,
            reply_text=PARAGRAPH_BREAK.join(texts),
            reply_final_start=before,
            user_record_ids=tuple(self.record_ids),
            model=self.model,
            started_at=self.started_at,
            ended_at=self.ended_at,
            time_quality=self.time_quality,
            utc_offset_minutes=self.utc_offset_minutes,
            status=self.status,
            cwd=self.cwd,
            branch=self.branch,
            agent_version=self.agent_version,
            tools=tuple(self.tools),
            attachments=tuple(self.attachments),
            line_start=self.line_start,
            line_end=self.line_end,
            byte_start=self.byte_start,
            byte_end=self.byte_end,
            is_superseded=self.is_superseded,
            flags=tuple(sorted(self.flags)),
        )
