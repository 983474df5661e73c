"""One analyser for texts and queries: text in, index terms out.

Invariant: a text and a question go through the same function, so that whatever is indexed can be asked for in the same
words. No word is dropped here (no stop words); how much a word says is for the ranker to weigh. No input raises.

What becomes a term:

* Text is taken in NFKC; terms are case-folded, lose accents, and are stemmed (Snowball English, and Russian for
  Cyrillic) when they consist of letters only.
* A *compound* gives itself and its parts: paths, e-mail addresses, dotted names, versions, kebab and snake case, camel
  case, ``python3``. Hyphens, underscores and humps are dropped from the whole unless they stand between digits, so
  ``multi-agent``, ``multi_agent``, ``multiAgent`` and ``multiagent`` meet in one term, and ``2026-03-14`` stays a date.
* Scripts written without spaces, and Hangul, give bigrams; Han and Hangul characters also stand alone, so that a
  question of one character hits.

Bounds, so that pasted blobs neither become giant terms nor flood an index:

* a term has at most 64 characters; longer words are cut there, longer compounds give only their parts;
* a run of 48 or more base64 characters whose case and digits flip like noise gives one term, its first 64 letters and
  digits; so a wrapped blob costs about a term a line, an unwrapped one a single term;
* a word of ten or more characters that flips like noise, and a hexadecimal word of seven or more characters that mixes
  digits and letters, is an id and stays in one piece; a UUID gives itself and its first group.

All functions are thread-safe; the caches are bounded and change no result.
"""

from __future__ import annotations

import functools
import operator
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise
from typing import NamedTuple

import Stemmer

from palace_daemon.core import sentences
from palace_daemon.core.remembered import Remembered

ANALYSER_VERSION = 2
"""Raised when the same text gives other terms or places: stored terms of another version must be rebuilt."""

TERM_CHARS_MAX = 64
"""Longest term: a sha256 in hexadecimal just fits."""

_BLOB_CHARS = 48  # shorter than a wrapped line of base64 (64 or 76), longer than a UUID (36) or a sha1 (40)
_BLOB_FLIPS = 0.5  # share of steps between lower case, upper case and digit: 0.62 expected of base64, < 0.35 of paths
_ID_CHARS = 10
_ID_FLIPS = 0.45  # "OAuth2Token" has 0.40
_BLOB_SAMPLE = 256
_CACHED_CHUNK_CHARS = 64
_CACHED_UNSPACED_CHARS = 8  # a longer run hardly comes again, and the many terms of such would make 120 MB
_CACHED_CHUNKS = 65_536  # about 20 MB when full
_CACHED_STEMS = 32_768
_CACHED_PLACES = 4_096

_HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HANGUL = "\u1100-\u11ff\uac00-\ud7a3"
_KANA = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31f0-\u31ff"
_SOUTH_EAST_ASIAN = "\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u109f\u1780-\u17d3"
_UNSPACED = _HAN + _HANGUL + _KANA + _SOUTH_EAST_ASIAN
_FIRST_UNSPACED = "\u0e01"


def _marks() -> str:
    """Return the combining marks of the scripts in use as the inside of a character class."""
    spans = chain(range(0x300, 0x1E00), range(0xA66F, 0xAC00), range(0xFE20, 0xFE30))
    found = (chr(code) for code in spans if unicodedata.category(chr(code)).startswith("M"))
    return "".join(char for char in found if not re.match(f"[{_UNSPACED}]", char))


_WORD = f"(?:[^\\W_{_UNSPACED}]++[{_marks()}]*+)++"
_JOINTS = "(?:_++|[./\\\\@'\u2019-])"
_TAIL = "(?:\\+\\+|#(?!\\w))?"  # C++, C#
_CHUNK = re.compile(f"[{_UNSPACED}]+|{_WORD}(?:{_JOINTS}{_WORD})*+{_TAIL}")
_ASCII_CHUNK = re.compile(r"[A-Za-z0-9]++(?:(?:_++|[./\\@'-])[A-Za-z0-9]++)*+(?:\+\+|#(?!\w))?")
_CHUNK_OR_BREAK = re.compile(f"\n|{_CHUNK.pattern}")
_ASCII_CHUNK_OR_BREAK = re.compile(f"\n|{_ASCII_CHUNK.pattern}")

_UNSPACED_START = re.compile(f"[{_UNSPACED}]")
_STANDS_ALONE = re.compile(f"[{_HAN}{_HANGUL}]")
_BLOB = re.compile(rf"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/=_-]{{{_BLOB_CHARS},}}")
_BLOB_JOINTS = re.compile(r"[+/=_-]+")
_LAST_WORD = re.compile(r"[^\W_]*$")
_UUID = re.compile(r"([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_SEGMENT = re.compile(r"[/\\@]")
_JOINT = re.compile(r"[-_'\u2019]+")
_FREE_JOINT = re.compile(r"(?<!\d)[-_'\u2019]+|[-_'\u2019]+(?!\d)")
_CLITIC = re.compile(r"(.+)['\u2019](s|re|ve|ll|d|m|t)", re.IGNORECASE | re.DOTALL)
_VERSION = re.compile(r"[vV](\d[\d.]*)")
_NUMBERED = re.compile(r"([^\W\d_]{2,})(\d+)")
_HEX = re.compile(r"(?=.*[0-9])(?=.*[a-f])[0-9a-f]{7,}")
# Over a word's shape: U upper case, l other letter, s the letter s, d digit. "URLs" is one part, "HTTPServer" is two.
_PART = re.compile(r"U{2,}s(?![lsd])|U+(?![ls])d*|U?[ls]+d*|d+")
_ACCENTS = re.compile(
    "(?<!\u0438)\u0306|[\u0300-\u0305\u0307-\u036f]"
)  # the breve of the Cyrillic short i is no accent
# Soft hyphen, joiners, variation selectors; and digits that a keycap turns into emoji.
_INVISIBLE = re.compile("[\u00ad\u200c\u200d\u2060\ufe00-\ufe0f\ufeff]+|[0-9]\ufe0f?\u20e3")
_UNDECOMPOSED = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "\u0131": "i", "ħ": "h", "ŧ": "t"}
)


class TermPlaces(NamedTuple):
    """Where a term stands in a text."""

    times: int
    mask: int
    """A bit for each sentence, see :func:`palace_daemon.core.sentences.bucket_masks`."""


_ONCE = 1 << sentences.BUCKETS
"""Above the bits of a mask."""

_Pair = tuple[str, str]
"""A term and the piece of text it stands for."""


def terms(text: str) -> list[str]:
    """Return the terms of ``text`` in order, with repetitions; a compound's whole comes before its parts."""
    return list(chain.from_iterable(map(_TERMS.__getitem__, _chunks(text))))


def term_counts(text: str) -> dict[str, int]:
    """Return each term of ``text`` and how often it occurs, in order of first occurrence."""
    counts: dict[str, int] = {}
    for chunk, times in Counter(_chunks(text)).items():
        for term in _TERMS[chunk]:
            counts[term] = counts.get(term, 0) + times
    return counts


def term_places(text: str) -> dict[str, TermPlaces]:
    """Return each term of ``text``, how often it occurs, and in which sentences, in order of first occurrence.

    The counts are those of :func:`term_counts`. What labels a paragraph, such as a speaker's name before a colon,
    counts as standing in each of its sentences.
    """
    paragraphs = [(sentences.label_of(part)[0], sentences.pieces(part)) for part in text.split("\n\n")]
    pieces = list(chain.from_iterable(pieces for _, pieces in paragraphs))
    bits = sentences.bucket_masks(len(pieces))
    held = _held(pieces, bits)
    first = 0
    for label, own in paragraphs:
        last = first + len(own)
        if label and own:
            whole = functools.reduce(operator.or_, bits[first:last])
            for term in term_counts(label):
                held[term] |= whole
        first = last
    return {term: _PLACES[number] for term, number in held.items()}


def _held(pieces: Sequence[str], bits: Sequence[int]) -> dict[str, int]:
    """Return each term of the pieces, and in one number how often it occurs and the bits of the pieces that hold it.

    A piece holds no line break, so that breaks can tell one from the next in a single pass over many of them: over
    neighbours that are of ASCII alone, or are not, since the pattern for those is several times as fast.
    """
    held: dict[str, int] = {}
    known = held.get
    coming = iter(bits)
    mask = next(coming, 0)
    runs = ("\n".join(run) for _, run in groupby(pieces, str.isascii))
    for chunk in chain.from_iterable(_chunks(f"{run}\n", _CHUNK_OR_BREAK, _ASCII_CHUNK_OR_BREAK) for run in runs):
        if chunk == "\n":
            mask = next(coming, 0)
        else:
            for term in _TERMS[chunk]:
                held[term] = (known(term, 0) | mask) + _ONCE
    return held


def surfaces(text: str) -> dict[str, str]:
    """Return each term of ``text`` and the words (in NFKC, as typed otherwise) that first gave it.

    A part of a compound maps to that part: ``getUserProfile`` gives ``{"getuserprofil": "getUserProfile", "get": "get",
    "user": "User", "profil": "Profile"}``.
    """
    found: dict[str, str] = {}
    for chunk in _chunks(text):
        for term, surface in _expand(chunk):
            found.setdefault(term, surface)
    return found


def _chunks(text: str, any_chunk: re.Pattern[str] = _CHUNK, ascii_chunk: re.Pattern[str] = _ASCII_CHUNK) -> list[str]:
    """Cut ``text`` into compounds and runs of unspaced script."""
    if text.isascii():
        pattern = ascii_chunk
    else:
        pattern = any_chunk
        text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    if max(map(len, text.split()), default=0) >= _BLOB_CHARS:
        text = _BLOB.sub(_shorten_blob, text)
    return pattern.findall(text)


def _shorten_blob(match: re.Match[str]) -> str:
    run = match.group()
    sample = _BLOB_JOINTS.sub("", run[:_BLOB_SAMPLE])
    if sample.islower() or sample.isupper():
        return run  # hexadecimal, or words in one case
    return f" {sample[:TERM_CHARS_MAX]} " if _flips(sample) > _BLOB_FLIPS else run


def _flips(word: str) -> float:
    """Return the share of neighbours in ``word`` that differ in class (lower case, upper case, digit)."""
    classes = [(char.isdigit(), char.isupper()) for char in word]
    flips = sum(one != other for one, other in pairwise(classes))
    return flips / max(1, len(word) - 1)


def _expanded(chunk: str) -> tuple[str, ...]:
    """Return the terms of one chunk; most are plain words, and soon done."""
    if chunk.isascii() and chunk.isalpha() and (chunk.islower() or chunk.istitle()):
        terms: Iterable[str] = (_stem(chunk.lower()[:TERM_CHARS_MAX]),)
    elif _is_unspaced(chunk):
        terms = _grams(chunk)
    else:
        terms = (term for term, _ in _expand(chunk))
    # Interned, since the stored form of a corpus holds each term many times.
    return tuple(map(sys.intern, terms))


class _Terms(Remembered[tuple[str, ...]]):
    """The terms of chunks; those of long runs of unspaced script are worked out each time."""

    def __missing__(self, chunk: str) -> tuple[str, ...]:
        if len(chunk) > _CACHED_UNSPACED_CHARS and _is_unspaced(chunk):
            return _expanded(chunk)
        return super().__missing__(chunk)


_TERMS = _Terms(_expanded, entries=_CACHED_CHUNKS, longest=_CACHED_CHUNK_CHARS)


class _PlacesByNumber(dict[int, TermPlaces]):
    """The places that a number of :func:`_held` stands for. Most terms of most texts stand once, in one sentence."""

    def __missing__(self, number: int) -> TermPlaces:
        found = TermPlaces(number // _ONCE, number % _ONCE)
        if len(self) < _CACHED_PLACES:
            self[number] = found
        return found


_PLACES = _PlacesByNumber()


def _expand(chunk: str) -> Iterator[_Pair]:
    """Yield the terms of one chunk, whole before parts."""
    if _is_unspaced(chunk):
        yield from zip(*[_grams(chunk)] * 2, strict=True)
        return
    body = chunk.rstrip("+#")
    segments = _SEGMENT.split(body)
    if len(segments) > 1 and len(body) <= TERM_CHARS_MAX:
        yield _fold(body).replace("\\", "/").replace("\u2019", "'"), body
    if len(body) < len(chunk):
        named = "".join(_LAST_WORD.findall(body)) + chunk[len(body) :]
        yield _fold(named)[:TERM_CHARS_MAX], named
    for segment in segments:
        yield from _expand_segment(segment)


def _is_unspaced(chunk: str) -> bool:
    return chunk[0] >= _FIRST_UNSPACED and _UNSPACED_START.match(chunk) is not None


def _grams(run: str) -> list[str]:
    """Return the bigrams of a run of unspaced script, and the characters that can stand alone."""
    if len(run) == 1:
        return [run]
    folded = run.casefold()
    alone = set(_STANDS_ALONE.findall(folded))
    found = []
    for char, after in pairwise(folded):
        if char in alone:
            found.append(char)
        found.append(char + after)
    if folded[-1] in alone:
        found.append(folded[-1])
    return found


def _expand_segment(segment: str) -> Iterator[_Pair]:
    """Yield a dotted name or version and its pieces."""
    pieces = segment.split(".")
    if len(pieces) > 1 and len(segment) <= TERM_CHARS_MAX:
        yield _fold(segment), segment
        if version := _VERSION.fullmatch(segment):
            yield version.group(1), version.group(1)
            pieces = version.group(1).split(".")
    for piece in pieces:
        yield from _expand_piece(piece)


def _expand_piece(piece: str) -> Iterator[_Pair]:
    """Yield a name in kebab, snake or camel case, and its words."""
    if clitic := _CLITIC.fullmatch(piece):
        # "user's" speaks of the user; "don't" is a word of its own, typed "dont" as often as not.
        piece = clitic.group(1) + ("t" if clitic.group(2) in "tT" else "")
    if uuid := _UUID.fullmatch(piece):
        yield piece.lower(), piece
        yield uuid.group(1).lower(), uuid.group(1)
        return
    parts = [part for word in _JOINT.split(piece) if word for part in _parts(word)]
    if len(parts) > 1 and len(piece) <= TERM_CHARS_MAX:
        yield _stem(_fold(_FREE_JOINT.sub("", piece).replace("_", "-").replace("\u2019", "-"))), piece
    for part in parts:
        yield _stem(_fold(part)[:TERM_CHARS_MAX]), part
        if numbered := _NUMBERED.fullmatch(part):
            name, number = numbered.groups()
            yield _stem(_fold(name)[:TERM_CHARS_MAX]), name
            yield number[:TERM_CHARS_MAX], number


def _parts(word: str) -> list[str]:
    """Cut ``word`` at its humps and before its digits, unless it looks like an id."""
    if word.islower() and word.isalpha():
        return [word]
    if _HEX.fullmatch(word) or (len(word) >= _ID_CHARS and _flips(word) > _ID_FLIPS):
        return [word]
    shape = "".join(map(_shape, word))
    return [word[match.start() : match.end()] for match in _PART.finditer(shape)]


def _shape(char: str) -> str:
    if char.isdigit():
        return "d"
    if char.isupper():
        return "U"
    return "s" if char == "s" else "l"


def _fold(word: str) -> str:
    """Fold case and accents."""
    if word.isascii():
        return word.lower()
    folded = unicodedata.normalize("NFD", word.casefold().translate(_UNDECOMPOSED))
    return unicodedata.normalize("NFC", _ACCENTS.sub("", folded))


@functools.lru_cache(maxsize=_CACHED_STEMS)
def _stem(word: str) -> str:
    """Return the stem of a folded word. Stemmers are not for several threads, so each call takes a new one."""
    if len(word) < 3 or not word.isalpha():
        return word
    if word.isascii():
        return str(Stemmer.Stemmer("english").stemWord(word))
    if "\u0400" <= word[0] <= "\u04ff":
        return str(Stemmer.Stemmer("russian").stemWord(word))
    return word
