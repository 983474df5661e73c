"""An archive of any size out of a few transcripts: repeated with other ids, dates, file names and words.

Each copy is to be read as sessions that nobody has seen: session and message ids are renamed alike within a copy, so
that replies still find their turns; dates go back a day a copy; in each sentence about a quarter of the words is
another one, drawn for the copy from the words of the transcripts that are about as frequent. So a text that a person
repeats is repeated within its copy only, frequencies of words stay about as they are, and nearly no vector is shared.
Texts without such words ("ok", code in one word, Chinese) are the same in all copies, as short texts are in life.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from palace_daemon.core.transcripts import registry as formats
from palace_daemon.model import Exchange
from palace_daemon.service.watching import find_sources

READ_BYTES = 1 << 20
_VARIED_SHARE = 0.25
_NEAR_RANKS = (0.5, 2.0)
"""The word that stands for another one has a rank between these, times its own."""
_SPAN_DAYS = 1_095
_DAY_MS = 86_400_000
_EPOCH_MS_MIN = 1_000_000_000_000
_PROSE_CHARS_MIN = 20
_WORD = re.compile(r"(?<![\w<>/\\.\-])[a-z]{5,14}(?![\w>/\\.=(\-])")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ID_KEY = re.compile(r"(?:^|[a-z_])(?:id|Id|ID|uuid|Uuid|UUID)$")
_MODEL_KEY = re.compile(r"model", re.IGNORECASE)
_DATE = re.compile(r"^\d{4}-\d\d-\d\d(?=T\d\d:\d\d)")
_TIME_KEY = re.compile(r"time|date|stamp|At$|_at$", re.IGNORECASE)


class Origin(Struct, frozen=True, kw_only=True):
    """One transcript that is repeated."""

    name: str
    """Its path below the folder."""
    records: tuple[Any, ...]
    exchanges: int


class Origins(Struct, frozen=True, kw_only=True):
    """The transcripts of a folder that can be repeated, and the words in them."""

    files: tuple[Origin, ...]
    texts: tuple[str, ...]
    """What was said, by exchange."""
    words: tuple[str, ...]
    """The most frequent first."""
    left_out: int
    """Files of another form than JSON lines."""

    @property
    def exchanges(self) -> int:
        """How many exchanges one copy has, each file read by itself."""
        return sum(file.exchanges for file in self.files)


class Written(Struct, kw_only=True):
    """What an archive came to."""

    files: int = 0
    size_bytes: int = 0
    copies: int = 0


def exchanges_of(path: str, data: bytes, redact: Callable[[str], str]) -> dict[str, Exchange]:
    """Return the exchanges of a transcript by key, parsed in blocks as mining does; none where it is no transcript."""
    found = formats.detect(path, data[: formats.HEAD_BYTES])
    if found is None:
        return {}
    parser = found.open(path, redact)
    told: dict[str, Exchange] = {}
    for start in range(0, len(data), READ_BYTES):
        told.update((one.key, one) for one in parser.feed(data[start : start + READ_BYTES]).exchanges)
    for result in (parser.take_tail(), parser.finish()):
        told.update((one.key, one) for one in result.exchanges)
    return told


def read(folder: Path) -> Origins:
    """Return what can be repeated of the transcripts at or below ``folder``: files of JSON lines.

    Raises:
        SourceError: There is nothing at ``folder``.
    """
    files: list[Origin] = []
    texts: list[str] = []
    counts: Counter[str] = Counter()
    left_out = 0
    root = folder.resolve()
    for name, _ in sorted(find_sources(str(root))):
        path = Path(name)
        data = path.read_bytes() if name.endswith(formats.LINE_SUFFIX) else b""
        told = exchanges_of(name, data, lambda text: text) if data else {}
        if not told:
            left_out += 1
            continue
        said = [f"{one.user_text}\n\n{one.reply_text}" for one in told.values()]
        texts += said
        counts.update(word for text in said for word in _WORD.findall(text))
        relative = path.name if path == root else str(path.relative_to(root))
        files.append(Origin(name=relative, records=tuple(_records(data)), exchanges=len(told)))
    words = tuple(word for word, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
    return Origins(files=tuple(files), texts=tuple(texts), words=words, left_out=left_out)


def write(
    origins: Origins, folder: Path, size_bytes: int, on_progress: Callable[[int], None] = lambda _size: None
) -> Written:
    """Write copies below ``folder``, file by file, until they have ``size_bytes`` or a little more."""
    written = Written()
    for number in range(size_bytes + 1):
        copy = Copy(number, origins.words)
        for origin in origins.files:
            if written.size_bytes >= size_bytes:
                return written
            written.copies = number + 1
            path = folder / f"copy-{number:05d}" / copy.path(origin.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            data = b"".join(copy.line(record) for record in origin.records)
            path.write_bytes(data)
            written.files += 1
            written.size_bytes += len(data)
            on_progress(written.size_bytes)
    return written


class Copy:
    """How one copy differs from the transcripts that it repeats."""

    def __init__(self, number: int, words: Sequence[str]) -> None:
        """Take the number of the copy, and words, the most frequent first."""
        self._number = number
        self._words = words
        self._ranks = _ranks(tuple(words))
        self._days = dt.timedelta(days=1 + number % _SPAN_DAYS)
        self._replaced: dict[str, str] = {}

    def path(self, name: str) -> str:
        """Return the name of a file: with its ids renamed, otherwise with the number of the copy in it."""
        *folders, last = name.split("/")
        if not _UUID.search(last):
            stem, dot, suffix = last.rpartition(".")
            last = f"{stem}-{self._number:05d}{dot}{suffix}"
        return "/".join(_UUID.sub(self._uuid, part) for part in (*folders, last))

    def line(self, record: Any) -> bytes:
        """Return a record of this copy as a line; bytes that are no JSON go unchanged."""
        if isinstance(record, bytes):
            return record + b"\n"
        return (
            json.dumps(self._value("", record), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
            + b"\n"
        )

    def _value(self, key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._key(name): self._value(name, inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._value(key, inner) for inner in value]
        if isinstance(value, str):
            return self._text(key, value)
        is_time = type(value) is int and value > _EPOCH_MS_MIN and _TIME_KEY.search(key)
        return value - self._days.days * _DAY_MS if is_time else value

    def _key(self, name: str) -> str:
        return _UUID.sub(self._uuid, name)

    def _text(self, key: str, text: str) -> str:
        if _ID_KEY.search(key) and not _MODEL_KEY.search(key) and text:
            return _UUID.sub(self._uuid, text) if _UUID.search(text) else f"{text}-{self._number:05d}"
        if dated := _DATE.match(text):
            return _back(dated.group(), self._days) + text[dated.end() :]
        if len(text) >= _PROSE_CHARS_MIN and " " in text:
            text = _WORD.sub(self._word, text)
        return _UUID.sub(self._uuid, text)

    def _uuid(self, match: re.Match[str]) -> str:
        digits = hashlib.blake2b(f"{self._number} {match.group()}".encode(), digest_size=16).hexdigest()
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def _word(self, match: re.Match[str]) -> str:
        word = match.group()
        found = self._replaced.get(word)
        if found is None:
            found = self._replaced[word] = self._drawn(word)
        return found

    def _drawn(self, word: str) -> str:
        chance = hashlib.blake2b(f"{self._number} {word}".encode(), digest_size=8).digest()
        rank = self._ranks.get(word)
        if rank is None or int.from_bytes(chance[:4], "big") / 2**32 >= _VARIED_SHARE:
            return word
        low, high = int(rank * _NEAR_RANKS[0]), min(len(self._words) - 1, int(rank * _NEAR_RANKS[1]) + 1)
        return self._words[low + int(int.from_bytes(chance[4:], "big") / 2**32 * (high - low + 1))]


@functools.lru_cache(maxsize=1)
def _ranks(words: tuple[str, ...]) -> dict[str, int]:
    return {word: rank for rank, word in enumerate(words)}


@functools.lru_cache(maxsize=4_096)
def _back(day: str, by: dt.timedelta) -> str:
    try:
        return (dt.date.fromisoformat(day) - by).isoformat()
    except (ValueError, OverflowError):
        return day


def _records(data: bytes) -> Iterator[Any]:
    """Yield the value of each line; a line that is no JSON as it is."""
    for line in data.rstrip(b"\n").split(b"\n"):
        try:
            yield json.loads(line)
        except ValueError:
            yield line
