"""Exchanges into drawers: the question travels with every piece of the answer, and no character is lost.

Invariants:

* The user pieces of an exchange's drawers tile its user text, the reply pieces tile its reply text, whitespace between
  pieces included; :func:`join` gives both back.
* No rendered drawer has more than ``counter.max_tokens`` tokens.
* The cut is greedy from the front and decides on each piece by looking at no more text than a drawer can hold. So when
  a reply grows at its end, the drawers before the last two stay as they were and keep their vectors, but for that of
  the question, if only two follow: what it takes of a reply may depend on where that ends. :func:`cut` can go on from
  those that :func:`unchanged` names.

Pure functions, safe from any thread; the same input gives the same drawers.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Callable, Sequence

from palace_daemon.core.boundaries import Boundaries, fixed_until
from palace_daemon.core.ports import TokenCounter
from palace_daemon.model import DrawerSpan

CUT_VERSION = 1
"""Raised when :func:`cut` or :func:`render` gives other drawers for the same exchange: stores are then cut anew."""

LEAD_CHARS_MAX = 300
"""A repeated user turn longer than this is shortened to its head and tail."""

MAX_CHARS_MIN = 100
"""Smallest drawer that can be asked for."""

_CACHED_LADDERS = 256
_MAX_TOKENS_MIN = 24  # a quarter for the lead, two specials, and any one character with its marks
_QUOTE = "> "
_GAP = "\n\n"
_ELLIPSIS = " … "
_LEAD_HEAD_SHARE = 0.6  # the rest is the tail: people paste first and ask last, or ask first and paste
_LEAD_TOKENS_SHARE = 4  # a lead takes at most a quarter of the tokens of a drawer
_SHORT_TURN_SHARE = 2  # a user turn of at most half a drawer stays whole
_USEFUL_SHARE = 4  # less than a quarter of a drawer is not worth beginning a reply in, and makes a tiny last piece


def cut(
    user_text: str, reply_text: str, counter: TokenCounter, *, max_chars: int, kept: Sequence[DrawerSpan] = ()
) -> tuple[DrawerSpan, ...]:
    """Cut an exchange into drawers.

    Counting tokens costs most, and with ``kept`` only what is left to cut is counted: for one more line at the end of
    800,000 characters 2 to 5 ms instead of 1.3 to 1.8 s (one core, MiniLM's tokeniser).

    Args:
        user_text: The user turn; may be empty.
        reply_text: The whole reply; may be empty.
        counter: Counts as the embedding model does, and says how many tokens a drawer may have.
        max_chars: Characters of a rendered drawer, at least 100. Dense text is cut shorter, to the model's tokens.
        kept: The first drawers, from :func:`unchanged`, to go on after; the result is the same without them.

    Returns:
        Drawers in order, ordinals from 0; none when both texts are blank.

    Raises:
        ValueError: ``max_chars`` or the counter's ``max_tokens`` is too small for a question and a piece of an answer.
    """
    if max_chars < MAX_CHARS_MIN or counter.max_tokens < _MAX_TOKENS_MIN:
        raise ValueError(f"cannot cut to {max_chars} characters and {counter.max_tokens} tokens: too small")
    if not user_text.strip() and not reply_text.strip():
        return ()
    return tuple(_Cutter(user_text, reply_text, counter, max_chars).cut(kept))


def unchanged(spans: Sequence[DrawerSpan], old_reply: str, reply: str, *, max_chars: int) -> Sequence[DrawerSpan]:
    """Return the first of ``spans`` with which a cut of ``reply`` begins as well.

    Where the reply only grew these are all but those of its last two or so full drawers.

    Args:
        spans: All drawers of a cut of ``old_reply``.
        old_reply: The reply that was cut.
        reply: The reply as it is now, to the same user turn.
        max_chars: What the cut was made with, and is to be made with again; the same holds for the counter.
    """
    # A piece that has more than a full drawer and a useful last piece behind it is cut without a look at where the
    # text ends, see `_Cutter._end`.
    reach = max_chars + max_chars // _USEFUL_SHARE + 1
    last_start = fixed_until(reply, _common_length(old_reply, reply)) - reach
    return spans[: bisect_right(spans, last_start, key=lambda span: span.reply_start)]


def _common_length(one: str, other: str) -> int:
    """Return how many characters two texts begin with in common; compares slices, so that it is fast."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def render(user_text: str, reply_text: str, span: DrawerSpan) -> str:
    """Return the text of one drawer: the user piece or the lead as a quotation, a blank line, the reply piece.

    Where the user turn is blank, the reply piece alone.
    """
    said = user_text[span.user_start : span.user_end] or _lead_text(user_text, span.lead_head, span.lead_tail)
    return _after(_quoted(said))(reply_text[span.reply_start : span.reply_end])


def join(user_text: str, reply_text: str, spans: Sequence[DrawerSpan]) -> tuple[str, str]:
    """Return the user text and the reply text that the pieces in ``spans`` make when put together in order."""
    user = "".join(user_text[span.user_start : span.user_end] for span in spans)
    reply = "".join(reply_text[span.reply_start : span.reply_end] for span in spans)
    return user, reply


_Frame = Callable[[str], str]
"""Makes the text of a drawer from the piece that is being cut."""


def _quoted(said: str) -> str:
    return _QUOTE + said if said.strip() else ""


def _lead_text(user_text: str, head: int, tail: int) -> str:
    if not tail:
        return user_text[:head]
    return user_text[:head].rstrip() + _ELLIPSIS + user_text[-tail:].lstrip()


def _after(quotation: str) -> _Frame:
    """Return the frame that puts a reply piece under ``quotation``."""

    def frame(piece: str) -> str:
        return quotation + _GAP + piece if quotation and piece else quotation or piece

    return frame


class _Cutter:
    """One cut of one exchange."""

    def __init__(self, user_text: str, reply_text: str, counter: TokenCounter, max_chars: int) -> None:
        self._user = Boundaries(user_text)
        self._reply = Boundaries(reply_text)
        self._user_end = len(user_text)
        self._counter = counter
        self._max_chars = max_chars
        self._specials = counter.count("")
        self._counted: dict[str, int] = {}
        """Token counts of the texts tried for the current drawer: a count costs more than all else here."""
        self._spans: list[DrawerSpan] = []

    def cut(self, kept: Sequence[DrawerSpan]) -> list[DrawerSpan]:
        self._spans.extend(kept)
        start, taken = (kept[-1].user_end, kept[-1].reply_end) if kept else (0, 0)
        if start < self._user_end:
            taken = self._cut_user(start)
        if taken < len(self._reply.text):
            self._cut_reply(taken)
        return self._spans

    # ------------------------------------------------------------------------------------------------- user turn

    def _cut_user(self, start: int) -> int:
        """Add the drawers of the user turn from ``start`` on; return how much of the reply the last of them took."""
        if not self._is_short_turn():
            room = self._max_chars - len(_QUOTE)
            while (end := self._end(self._user, start, _quoted, _quoted, room)) < self._user_end:
                self._add((start, end), (0, 0))
                start = end
        taken = self._begin_reply(self._user.text[start:])
        self._add((start, self._user_end), (0, taken))
        return taken

    def _is_short_turn(self) -> bool:
        if self._user_end > self._max_chars // _SHORT_TURN_SHARE:
            return False
        return self._is_within(_quoted(self._user.text), self._counter.max_tokens // _SHORT_TURN_SHARE)

    def _begin_reply(self, last_user_piece: str) -> int:
        """Return how many characters of the reply the drawer of the last user piece takes as well."""
        frame = _after(_quoted(last_user_piece))
        room = self._room(frame)
        reply = self._reply.text
        if len(reply) <= room and self._fits(frame(reply)):
            return len(reply)
        if room < self._max_chars // _USEFUL_SHARE:
            return 0
        end = self._end(self._reply, 0, frame, self._lead_frame, room)
        return end if end >= self._max_chars // (2 * _USEFUL_SHARE) else 0

    # ----------------------------------------------------------------------------------------------------- reply

    def _cut_reply(self, start: int) -> None:
        room = self._room(self._lead_frame)
        while start < len(self._reply.text):
            end = self._end(self._reply, start, self._lead_frame, self._lead_frame, room)
            self._add((self._user_end, self._user_end), (start, end), self._lead)
            start = end

    def _room(self, frame: _Frame) -> int:
        """Return how many characters a drawer leaves to the piece inside ``frame``."""
        return self._max_chars - len(frame("x")) + 1

    @functools.cached_property
    def _lead_frame(self) -> _Frame:
        return _after(_quoted(_lead_text(self._user.text, *self._lead)))

    @functools.cached_property
    def _lead(self) -> tuple[int, int]:
        """How many characters of the user turn's head and tail are repeated."""
        size = min(LEAD_CHARS_MAX, self._max_chars // 3)
        most = self._counter.max_tokens // _LEAD_TOKENS_SHARE
        while size:
            lead = self._lead_of(size)
            if self._is_within(_quoted(_lead_text(self._user.text, *lead)), most):
                return lead
            size = size * 2 // 3
        return 0, 0

    def _lead_of(self, size: int) -> tuple[int, int]:
        if self._user_end <= size:
            return self._user_end, 0
        head = int(size * _LEAD_HEAD_SHARE)
        tail = size - head
        return self._user.word_end(head), self._user_end - self._user.word_start(self._user_end - tail)

    # ----------------------------------------------------------------------------------------------- one piece

    def _end(self, marks: Boundaries, start: int, frame: _Frame, next_frame: _Frame, room: int) -> int:
        """Return where the piece of ``marks.text`` that begins at ``start`` ends.

        Args:
            marks: The text that is cut, with its boundaries.
            start: Where the piece begins.
            frame: Makes the drawer of a piece.
            next_frame: Makes the drawer of the piece after it.
            room: Characters that the piece may have.
        """
        text = marks.text
        if len(text) - start <= room and self._fits(frame(text[start:])):
            return len(text)
        end = start
        for size in self._sizes(text, start, frame, room):
            end = marks.best(start, start + size)
            if self._fits(frame(text[start:end])):
                break
        rest = text[end:] if len(text) - end < room // _USEFUL_SHARE else ""
        if rest and self._fits(next_frame(rest)):
            # Two pieces remain, and the last would be tiny: share the text more evenly between them.
            middle = marks.best(start, start + (len(text) - start) * 3 // 5)
            if middle < end and self._fits(next_frame(text[middle:])):
                return middle
        return end

    def _sizes(self, text: str, start: int, frame: _Frame, room: int) -> Sequence[int]:
        """Return sizes for a piece, from the largest on the ladder that fits in tokens downwards.

        The ladder depends on ``room`` alone, and a rung is taken when it fits and the one above does not. So the choice
        is the same whatever follows in the text, which keeps earlier drawers as they were when a reply grows.
        """
        ladder = _ladder(room)

        def fits(rung: int) -> bool:
            return self._fits(frame(text[start : start + ladder[rung]]))

        if fits(0):
            return ladder
        # One count says about where to look: tokens are spread evenly enough.
        fixed = self._count(frame(""))
        tokens = self._count(frame(text[start : start + room]))
        share = (self._counter.max_tokens - fixed) / max(1, tokens - fixed)
        wanted = share * min(room, len(text) - start)
        rung = next((rung for rung, size in enumerate(ladder) if size <= wanted), len(ladder) - 1)
        while rung + 1 < len(ladder) and not fits(rung):
            rung += 1
        while rung > 1 and fits(rung - 1):
            rung -= 1
        return ladder[rung:]

    def _fits(self, drawer: str) -> bool:
        return self._is_within(drawer, self._counter.max_tokens)

    def _is_within(self, text: str, most: int) -> bool:
        """Return whether ``text`` has at most ``most`` tokens, counting only where its length leaves that open.

        WordPiece gives at most one token per character of the normalised text. Normalising (NFD, marks dropped, lower
        case) can lengthen a text, a Hangul syllable becomes three characters, but never beyond the bytes of the text in
        UTF-8; nor do byte-level tokenisers give more tokens than bytes.
        """
        if len(text) <= most and len(text.encode("utf-8", "surrogatepass")) + self._specials <= most:
            return True
        return self._count(text) <= most

    def _count(self, text: str) -> int:
        if text not in self._counted:
            self._counted[text] = self._counter.count(text)
        return self._counted[text]

    def _add(self, user: tuple[int, int], reply: tuple[int, int], lead: tuple[int, int] = (0, 0)) -> None:
        span = DrawerSpan(
            ordinal=len(self._spans),
            user_start=user[0],
            user_end=user[1],
            reply_start=reply[0],
            reply_end=reply[1],
            lead_head=lead[0],
            lead_tail=lead[1],
        )
        self._spans.append(span)
        self._counted.clear()


@functools.lru_cache(maxsize=_CACHED_LADDERS)
def _ladder(room: int) -> tuple[int, ...]:
    """Return falling sizes from ``room`` to 1, each about nine tenths of the one before."""
    sizes = [max(1, room)]
    while sizes[-1] > 1:
        sizes.append(min(sizes[-1] - 1, sizes[-1] * 9 // 10))
    return tuple(sizes)
