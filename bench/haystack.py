"""A haystack of a set as a real store: through the assembler, the chunker, the store and the embedder that users run.

Invariant: no id of a set is stored. Sessions and turns are numbered in a shuffled order, which depends on nothing but
how many there are, and the way back (:class:`Origins`) stays outside the store.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, get_args

from msgspec import Struct, field, structs

from palace_daemon.bench.sets.base import Haystack, Session, Turn
from palace_daemon.config import ChunkConfig
from palace_daemon.core import chunking, redaction
from palace_daemon.core.drafts import PARAGRAPH_BREAK
from palace_daemon.core.exchanges import Assembler
from palace_daemon.core.ports import Embedder, TokenCounter
from palace_daemon.core.turns import Event, Facts, Place, Reading, ReplyText, TurnEnd, UserTurn
from palace_daemon.model import Cursor, CutMode, DrawerSpan, Exchange, ParseResult, SessionFacts
from palace_daemon.service.recall import as_stored
from palace_daemon.store import sources, vectors
from palace_daemon.store.sqlite import Connection, database_path
from palace_daemon.store.store import SourceBatch, Store

Chunking = Literal["exchange", "session", "text"]
"""``exchange``: as the product cuts. ``session``: one drawer a session, its vector that of the first tokens. ``text``:
pieces of about 800 characters of a session's text, wherever an exchange ends."""
CHUNKINGS: tuple[Chunking, ...] = get_args(Chunking)

AGENT = "bench"
SHUFFLE_SEED = 20_250_101
TURN_MS = 1_000
"""Between two turns of a session that is dated as a whole."""
_UNBOUNDED = 1 << 30
_EMBED_TEXTS = 512
_COUNTS_MAX = 500_000


class CountingCache:
    """A token counter that counts each text once; satisfies :class:`~palace_daemon.core.ports.TokenCounter`.

    Haystacks of one set share most of their sessions, and counting takes most of the time that storing takes.
    """

    def __init__(self, counter: TokenCounter) -> None:
        """Take the counter that counts."""
        self.max_tokens = counter.max_tokens
        self._counter = counter
        self._counts: dict[bytes, int] = {}

    def count(self, text: str) -> int:
        """Return the number of tokens of ``text``."""
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        known = self._counts.get(key)
        if known is None:
            if len(self._counts) >= _COUNTS_MAX:
                self._counts.clear()
            known = self._counts[key] = self._counter.count(text)
        return known


class _Uncut:
    """Lets the chunker make one drawer of a whole session."""

    max_tokens = _UNBOUNDED

    def __init__(self, counter: TokenCounter) -> None:
        self.count = counter.count


class Origins(Struct, kw_only=True):
    """The way back from what is stored to the ids of the set."""

    sessions: dict[str, str] = field(default_factory=dict)
    """Number of a session, as stored, to its id; a session without an exchange is not stored."""
    exchanges: dict[tuple[str, int], str] = field(default_factory=dict)
    """Number of a session and first line of an exchange to a label: session id and line."""
    turns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Id of a turn to the labels of the exchanges that hold it: one, unless the set uses the id twice."""


class Stored(Struct, kw_only=True):
    """A haystack in its store, and what it took."""

    store: Store
    origins: Origins
    sessions: int = 0
    exchanges: int = 0
    drawers: int = 0
    truncated: int = 0
    """Drawers longer than the model reads; none but with ``session``."""
    store_s: float = 0.0
    """To assemble, cut, index and commit."""

    def close(self) -> None:
        """Close the store."""
        self.store.close()


def build_store(
    haystack: Haystack, folder: Path, *, embedder: Embedder, counter: TokenCounter, chunking_mode: Chunking = "exchange"
) -> Stored:
    """Store a haystack in ``folder`` with all its vectors, one transaction a session.

    Args:
        haystack: What to store.
        folder: An empty directory.
        embedder: Makes the vectors; with ``session`` it must cut what is longer than its model reads.
        counter: Counts tokens for the chunker.
        chunking_mode: How texts become drawers.
    """
    began = time.perf_counter()
    max_chars, cut_counter = _sizes(chunking_mode, counter)
    store = Store(
        database_path(folder),
        counter=cut_counter,
        max_chars=max_chars,
        min_user_turns=ChunkConfig().min_user_turns,
        project_of=lambda cwd: cwd,
    )
    stored = Stored(store=store, origins=Origins())
    try:
        store.use_model(embedder.fingerprint)
        for name, session, turn_numbers in _numbered(haystack):
            _save(stored, name, session, turn_numbers, chunking_mode)
        stored.store_s = time.perf_counter() - began
        _embed(stored, embedder, counter)
    except BaseException:
        store.close()
        raise
    return stored


def _sizes(mode: Chunking, counter: TokenCounter) -> tuple[dict[CutMode, int], TokenCounter]:
    defaults = ChunkConfig()
    if mode == "exchange":
        return {"exchange": defaults.max_chars, "paragraph": defaults.paragraph_chars}, counter
    if mode == "session":
        return {"exchange": _UNBOUNDED, "paragraph": _UNBOUNDED}, _Uncut(counter)
    return {"exchange": defaults.paragraph_chars, "paragraph": defaults.paragraph_chars}, counter


def _numbered(haystack: Haystack) -> Iterator[tuple[str, Session, Sequence[int]]]:
    """Yield the sessions in the order of their new numbers, each with the numbers of its turns."""
    shuffle = random.Random(SHUFFLE_SEED)  # noqa: S311 - to be the same in every run
    count = len(haystack.sessions)
    numbers = shuffle.sample(range(count), count)
    total = sum(len(session.turns) for session in haystack.sessions)
    turn_numbers = shuffle.sample(range(total), total)
    starts, start = [], 0
    for session in haystack.sessions:
        starts.append(start)
        start += len(session.turns)
    for at in sorted(range(count), key=numbers.__getitem__):
        session = haystack.sessions[at]
        yield f"{numbers[at]:06d}", session, turn_numbers[starts[at] : starts[at] + len(session.turns)]


def _save(stored: Stored, name: str, session: Session, turn_numbers: Sequence[int], mode: Chunking) -> None:
    """Store one session as a source of its own, and note where its turns went."""
    result = assemble(name, session, turn_numbers)
    stored.sessions += 1
    if not result.exchanges:
        return
    stored.origins.sessions[name] = session.session_id
    if mode != "exchange":
        result = structs.replace(result, exchanges=(_united(result.exchanges),))
    _note(stored.origins, name, session, result.exchanges)

    def begin(connection: Connection) -> tuple[int, int]:
        source_id = sources.ensure(connection, f"{AGENT}/{name}")
        reading = sources.begin_reading(
            connection, source_id, agent=AGENT, format_name=AGENT, format_version=1, is_secondary=False
        )
        return source_id, reading

    source_id, reading = stored.store.write(begin)
    batch = SourceBatch(
        source_id=source_id, reading=reading, cursor=Cursor(), parser_state=None, result=result, is_at_end=True
    )
    report = stored.store.save(batch, mined_at=0)
    stored.exchanges += report.added
    stored.drawers += report.drawers_added - report.drawers_removed


def _note(origins: Origins, name: str, session: Session, exchanges: Sequence[Exchange]) -> None:
    for exchange in exchanges:
        label = f"{session.session_id}#{exchange.line_start}"
        origins.exchanges[name, exchange.line_start] = label
        for turn in session.turns[exchange.line_start - 1 : exchange.line_end]:
            if turn.turn_id:
                origins.turns[turn.turn_id] = (*origins.turns.get(turn.turn_id, ()), label)


def _united(exchanges: Sequence[Exchange]) -> Exchange:
    """Return all of a session as one reply without a question; the words are those that drawers show."""
    first, last = exchanges[0], exchanges[-1]
    texts = [
        chunking.render(
            exchange.user_text,
            exchange.reply_text,
            DrawerSpan(
                ordinal=0,
                user_start=0,
                user_end=len(exchange.user_text),
                reply_start=0,
                reply_end=len(exchange.reply_text),
            ),
        )
        for exchange in exchanges
    ]
    return structs.replace(
        first,
        user_text="",
        reply_text=PARAGRAPH_BREAK.join(texts),
        reply_final_start=0,
        ended_at=last.ended_at,
        line_end=last.line_end,
        byte_end=last.byte_end,
    )


def _embed(stored: Stored, embedder: Embedder, counter: TokenCounter) -> None:
    """Give every stored text its vector, here and now."""
    while True:
        with stored.store.read() as connection:
            queued = vectors.pending(connection, _EMBED_TEXTS)
        if not queued:
            return
        texts = [text for _, text in queued]
        matrix = embedder.embed_passages(texts)
        stored.store.save_vectors(embedder.fingerprint, [hash_ for hash_, _ in queued], matrix)
        stored.truncated += sum(counter.count(text) > embedder.max_tokens for text in texts)


# ---------------------------------------------------------------------------------------------- turns into exchanges


def assemble(name: str, session: Session, turn_numbers: Sequence[int]) -> ParseResult:
    """Return the exchanges of a session as the product makes them; the line of a turn is its place in the session.

    Args:
        name: Stands for the session's id.
        session: The conversation.
        turn_numbers: One for each turn, standing for the turns' ids.
    """
    assembler = Assembler(AGENT, redaction.redact)
    facts = SessionFacts(agent=AGENT, session_id=name, cwd=session.project)
    events: list[Event] = [Facts(session=name, facts=facts)]
    opener: str | None = None
    is_answered = False
    for at, turn in enumerate(session.turns):
        opens = turn.role == "user" or (
            turn.role == "speaker" and (opener is None or (turn.speaker == opener and is_answered))
        )
        if opens:
            opener, is_answered = turn.speaker, False
            events.append(_opening(name, session, at, turn_numbers[at]))
        else:
            is_answered = is_answered or turn.speaker != opener
            events.append(_reply(name, session, at, turn_numbers[at]))
    events.append(TurnEnd(session=name, status="complete"))
    assembler.take(Reading(events=tuple(events), session=name))
    return assembler.flush()


def _opening(name: str, session: Session, at: int, number: int) -> UserTurn:
    turn = session.turns[at]
    told = _at(session, at)
    return UserTurn(
        session=name,
        place=_place(at),
        text=_words(turn),
        kind="speaker" if turn.role == "speaker" else "prompt",
        at=told,
        time_quality="session" if turn.at is None and told is not None else None,
        key=_key(number),
        cwd=session.project,
    )


def _reply(name: str, session: Session, at: int, number: int) -> ReplyText:
    turn = session.turns[at]
    return ReplyText(
        session=name,
        place=_place(at),
        text=_words(turn),
        message_id=str(number),
        key=_key(number),
        at=_at(session, at),
        cwd=session.project,
    )


def _words(turn: Turn) -> str:
    """Return what is said, with the name in front where several people speak, as for chats between people."""
    text = as_stored(turn.text)
    return f"{as_stored(turn.speaker)}: {text}" if turn.role == "speaker" and turn.speaker and text.strip() else text


def _at(session: Session, at: int) -> int | None:
    """Return when a turn was said: its own time, else one counted from the session's."""
    if (own := session.turns[at].at) is not None:
        return own
    return None if session.started_at is None else session.started_at + at * TURN_MS


def _key(number: int) -> str:
    return f"{AGENT}:{number:06d}"


def _place(at: int) -> Place:
    return Place(at + 1, at, at + 1)
