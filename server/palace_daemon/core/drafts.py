"""An exchange while it may still change, in a form that can be stored and continued.

Invariant: everything here is plain msgspec data without transcript text that was not redacted.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from functools import cached_property

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

    text: str
    raw_size: int
    raw_digest: int
    channels: int = 0


class Telling:
    """What one record has told so far: its blocks are different blocks, also where they are equal."""

    def __init__(self) -> None:
        self.times: Counter[tuple[int, int]] = Counter()
        """Message and digest to how often the record told such a block."""
        self.reached: dict[int, int] = {}
        """Message to the position of the last block that the record told."""


class Draft(Struct, array_like=True, kw_only=True, dict=True):
    """An exchange under construction; ``ordinal`` is -1 until it has any text.

    The indexes over its blocks are no part of its state: they are built when they are first asked for.
    """

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
    messages: dict[int, list[Block]] = field(default_factory=dict)
    """Digest of a message to its blocks; the messages stand in the order in which they began."""
    tools: list[ToolUse] = field(default_factory=list)
    call_ids: dict[int, None] = field(default_factory=dict)
    attachments: list[Attachment] = field(default_factory=list)
    line_start: int = 0
    line_end: int = 0
    byte_start: int = 0
    byte_end: int = 0
    is_superseded: bool = False
    flags: list[str] = field(default_factory=list)
    dropped_user: int = 0
    """Digest of the user text once :meth:`drop_texts` has let go of it."""
    former_keys: list[str] = field(default_factory=list)

    @property
    def has_text(self) -> bool:
        """Whether there is anything to store."""
        return bool(self.user_text or self.messages)

    @property
    def blocks(self) -> list[Block]:
        """The text blocks of the reply in their order."""
        return [block for held in self.messages.values() for block in held]

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

    @cached_property
    def _positions(self) -> dict[tuple[int, int], list[int]]:
        """Message and digest to the positions of such blocks in the message."""
        found: dict[tuple[int, int], list[int]] = {}
        for message, held in self.messages.items():
            for position, block in enumerate(held):
                found.setdefault((message, block.raw_digest), []).append(position)
        return found

    @cached_property
    def _by_digest(self) -> dict[int, list[Block]]:
        found: dict[int, list[Block]] = {}
        for block in self.blocks:
            found.setdefault(block.raw_digest, []).append(block)
        return found

    @cached_property
    def _told_by_channel(self) -> dict[tuple[int, int], int]:
        """Digest and channel to how many of the blocks with that digest, from the first on, the channel has told."""
        return {}

    def _first_untold(self, raw_digest: int, channel: int) -> Block | None:
        """Return the first block with this digest that ``channel`` has not told."""
        equal = self._by_digest.get(raw_digest, [])
        index = self._told_by_channel.get((raw_digest, channel), 0)
        while index < len(equal) and equal[index].channels & channel:
            index += 1
        self._told_by_channel[raw_digest, channel] = index
        return equal[index] if index < len(equal) else None

    def add_block(self, message: int, raw: str, text: str, channel: int = 0) -> bool:
        """Add a block behind what its message said so far; return whether anything changed.

        Stores of the same words (``channel``) may each tell a text once.
        """
        raw_digest = digest(raw)
        if channel and (known := self._first_untold(raw_digest, channel)):
            known.channels |= channel
            return False
        self._append(message, Block(text, len(raw), raw_digest, channel))
        return True

    def unite_block(self, message: int, raw: str, text: str, told: Telling) -> bool:
        """Unite a block with what other records said of its message; return whether anything changed.

        Records repeat a message while it streams: what is there stays where it is, and the last block may have grown.
        """
        raw_digest = digest(raw)
        key = (message, raw_digest)
        held, known, reached = (
            self.messages.get(message, []),
            self._positions.get(key, []),
            told.reached.get(message, -1),
        )
        times = told.times[key]
        told.times[key] += 1
        if times < len(known):
            told.reached[message] = max(reached, known[times])
            return False
        last = len(held) - 1
        if reached < last and _extends(raw, held[last]):
            self._positions[message, held[last].raw_digest].pop()
            self._positions.setdefault(key, []).append(last)
            held[last] = Block(text, len(raw), raw_digest)
            told.reached[message] = last
            return True
        self._append(message, Block(text, len(raw), raw_digest))
        told.reached[message] = last + 1
        return True

    def replace_message(self, message: int, raw: str, text: str) -> bool:
        """Put ``text`` in the place of all that its message said before; return whether anything changed."""
        whole = Block(text, len(raw), digest(raw))
        if [block.raw_digest for block in self.messages.get(message, [])] == [whole.raw_digest]:
            return False
        self.messages[message] = [whole]
        vars(self).clear()  # the indexes
        return True

    def note_call(self, call: int) -> bool:
        """Note a tool call by the digest of its id; return whether it is new."""
        is_new = call not in self.call_ids
        self.call_ids[call] = None
        return is_new

    def _append(self, message: int, block: Block) -> None:
        held = self.messages.setdefault(message, [])
        if "_positions" in vars(self):
            self._positions.setdefault((message, block.raw_digest), []).append(len(held))
        if "_by_digest" in vars(self):
            self._by_digest.setdefault(block.raw_digest, []).append(block)
        held.append(block)

    def drop_texts(self) -> None:
        """Keep what recognises the exchange and its blocks, and none of its words."""
        if self.user_text:
            self.dropped_user = digest(self.user_text)
        self.user_text = ""
        for block in self.blocks:
            block.text = ""
        self.tools, self.attachments = [], []

    def build(self, agent: str) -> Exchange:
        """Return the exchange as it stands."""
        texts = [block.text for block in self.blocks]
        first_final = len(texts) - (len(next(reversed(self.messages.values()))) if self.messages else 0)
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
            former_keys=tuple(map(ExchangeKey, self.former_keys)),
        )


def _extends(raw: str, block: Block) -> bool:
    return block.raw_size < len(raw) and digest(raw[: block.raw_size]) == block.raw_digest
