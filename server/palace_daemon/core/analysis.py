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
from collections import Counter, deque
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
_POOLED_STEMMERS = 8
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
BREAK = "\0"
"""Stands behind the terms of each sentence, see :class:`Occurrences`; no term is like it."""
_JOINED_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./\\@'-+#=")
# What stands in no compound becomes a blank: splitting at blanks takes a fraction of the time that matching compounds
# does. The equals sign stays, so that a blob, in which it can stand, is in one piece.
_SPREAD = "".join(BREAK if char == "\n" else char if char in _JOINED_CHARS else " " for char in map(chr, range(128)))
_ASCII_CLASSES = "".join("d" if char.isdigit() else "U" if char.isupper() else "l" for char in map(chr, range(128)))
_ASCII_SHAPES = _ASCII_CLASSES[: ord("s")] + "s" + _ASCII_CLASSES[ord("s") + 1 :]
_UNDECOMPOSED = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "\u0131": "i", "ħ": "h", "ŧ": "t"}
)


class TermPlaces(NamedTuple):
    """Where a term stands in a text."""

    times: int
    mask: int
    """A bit for each sentence, see :func:`palace_daemon.core.sentences.bucket_masks`."""


ONCE = 1 << sentences.BUCKETS
"""Above the bits of a mask: in one number, so many times this, and the bits of the sentences."""


class Occurrences(NamedTuple):
    """The terms of a text as they stand in it, sentence by sentence: what :func:`term_places` adds up."""

    terms: list[str]
    """In order, with repetitions, and :data:`BREAK` behind each sentence; behind all those of labels, once more."""
    numbers: list[int]
    """What each term before a break adds: :data:`ONCE` and the sentence's bit; of a label the bits of its paragraph."""
    length: int
    """How many terms the text has."""


_Pair = tuple[str, str]
"""A term and the piece of text it stands for."""


def terms(text: str) -> list[str]:
    """Return the terms of ``text`` in order, with repetitions; a compound's whole comes before its parts."""
    return [term for term in _terms_of(text.split("\n")) if term != BREAK]


def term_counts(text: str) -> dict[str, int]:
    """Return each term of ``text`` and how often it occurs, in order of first occurrence."""
    return dict(Counter(terms(text)))


def term_places(text: str) -> dict[str, TermPlaces]:
    """Return each term of ``text``, how often it occurs, and in which sentences, in order of first occurrence.

    The counts are those of :func:`term_counts`. What labels a paragraph, such as a speaker's name before a colon,
    counts as standing in each of its sentences.
    """
    found = occurrences(text)
    held: dict[str, int] = {}
    known = held.get
    coming = iter(found.numbers)
    number = next(coming, 0)
    mask, times = number % ONCE, number - number % ONCE
    for term in found.terms:
        if term == BREAK:
            number = next(coming, 0)
            mask, times = number % ONCE, number - number % ONCE
        else:
            held[term] = (known(term, 0) | mask) + times
    return {term: _PLACES[number] for term, number in held.items()}


def occurrences(text: str) -> Occurrences:
    """Return the terms of ``text`` with the sentences that hold them, not yet added up."""
    if ": " not in text:  # no label, so that paragraphs need not be told apart
        pieces = sentences.pieces(text)
        found = _terms_of(pieces)
        return Occurrences(found, [ONCE | bit for bit in sentences.bucket_masks(len(pieces))], len(found) - len(pieces))
    paragraphs = [(sentences.label_of(part)[0], sentences.pieces(part)) for part in text.split("\n\n")]
    pieces = list(chain.from_iterable(pieces for _, pieces in paragraphs))
    found = _terms_of(pieces)
    length = len(found) - len(pieces)
    bits = sentences.bucket_masks(len(pieces))
    numbers = [ONCE | bit for bit in bits]
    first = 0
    for label, own in paragraphs:
        last = first + len(own)
        if label and own:
            found += (*terms(label), BREAK)
            numbers.append(functools.reduce(operator.or_, bits[first:last]))
        first = last
    return Occurrences(found, numbers, length)


def _terms_of(pieces: Sequence[str]) -> list[str]:
    """Return the terms of pieces of a text, none of which has a line break, with :data:`BREAK` behind each piece.

    Neighbours are cut in one pass as long as they are of ASCII alone, which takes a fraction of the time.
    """
    found: list[str] = []
    for is_ascii, run in groupby(pieces, str.isascii):
        if is_ascii:
            words: Iterable[str] = (" \n ".join(run) + " \n").translate(_SPREAD).split()
        else:
            lines = _cleaned("\n".join(run)).split("\n")
            words = chain.from_iterable((*_CHUNK.findall(line), BREAK) for line in lines)
        found.extend(chain.from_iterable(map(_TERMS.__getitem__, words)))
    return found


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


def _chunks(text: str) -> list[str]:
    """Cut ``text`` into compounds and runs of unspaced script."""
    return (_ASCII_CHUNK if text.isascii() else _CHUNK).findall(_cleaned(text))


def _cleaned(text: str) -> str:
    """Return ``text`` in NFKC, without what is not seen, and with blobs shortened; line breaks stay."""
    if not text.isascii():
        text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    if max(map(len, text.split()), default=0) >= _BLOB_CHARS:
        text = _BLOB.sub(_shorten_blob, text)
    return text


def _shorten_blob(match: re.Match[str]) -> str:
    run = match.group()
    sample = _BLOB_JOINTS.sub("", run[:_BLOB_SAMPLE])
    if sample.islower() or sample.isupper():
        return run  # hexadecimal, or words in one case
    return f" {sample[:TERM_CHARS_MAX]} " if _flips(sample) > _BLOB_FLIPS else run


def _flips(word: str) -> float:
    """Return the share of neighbours in ``word`` that differ in class (lower case, upper case, digit)."""
    classes = word.translate(_ASCII_CLASSES) if word.isascii() else [(char.isdigit(), char.isupper()) for char in word]
    flips = sum(one != other for one, other in pairwise(classes))
    return flips / max(1, len(word) - 1)


def _expanded(word: str) -> tuple[str, ...]:
    """Return the terms of one compound, or of what blanks enclose where all else stands for one; most are plain words.

    A blob and whatever else is no compound as a whole gives the terms of the compounds in it.
    """
    terms: Iterable[str]
    if _is_plain(word):
        terms = (_stem(word.lower()[:TERM_CHARS_MAX]),)
    elif word == BREAK:
        terms = (word,)
    elif _is_unspaced(word):
        terms = _grams(word)
    elif not word.isascii() or (chunks := _chunks(word)) == [word]:  # what is not of ASCII was cut into compounds
        terms = (term for term, _ in _expand(word))
    else:
        return tuple(chain.from_iterable(map(_TERMS.__getitem__, chunks)))
    # Interned, since the stored form of a corpus holds each term many times.
    return tuple(map(sys.intern, terms))


def _is_plain(word: str) -> bool:
    """Return whether a word is its only part."""
    return word.isascii() and word.isalpha() and (word.islower() or word.istitle())


class _Terms(Remembered[tuple[str, ...]]):
    """The terms of chunks; those of long runs of unspaced script are worked out each time."""

    def __missing__(self, chunk: str) -> tuple[str, ...]:
        if len(chunk) > _CACHED_UNSPACED_CHARS and _is_unspaced(chunk):
            return _expanded(chunk)
        return super().__missing__(chunk)


_TERMS = _Terms(_expanded, entries=_CACHED_CHUNKS, longest=_CACHED_CHUNK_CHARS)


class _PlacesByNumber(dict[int, TermPlaces]):
    """The places that a number stands for, see :data:`ONCE`. Most terms of most texts stand once, in one sentence."""

    def __missing__(self, number: int) -> TermPlaces:
        found = TermPlaces(number // ONCE, number % ONCE)
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
    if _is_plain(piece):
        yield _stem(piece.lower()[:TERM_CHARS_MAX]), piece
        return
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
        if part[-1].isdigit() and (numbered := _NUMBERED.fullmatch(part)):
            name, number = numbered.groups()
            yield _stem(_fold(name)[:TERM_CHARS_MAX]), name
            yield number[:TERM_CHARS_MAX], number


def _parts(word: str) -> list[str]:
    """Cut ``word`` at its humps and before its digits, unless it looks like an id."""
    if word.islower() and word.isalpha():
        return [word]
    if _HEX.fullmatch(word) or (len(word) >= _ID_CHARS and _flips(word) > _ID_FLIPS):
        return [word]
    shape = word.translate(_ASCII_SHAPES) if word.isascii() else "".join(map(_shape, word))
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
    """Return the stem of a folded word."""
    if len(word) < 3 or not word.isalpha():
        return word
    if word.isascii():
        return _stemmed(_ENGLISH, "english", word)
    if "\u0400" <= word[0] <= "\u04ff":
        return _stemmed(_RUSSIAN, "russian", word)
    return word


def _stemmed(pool: deque[Stemmer.Stemmer], language: str, word: str) -> str:
    """Return the stem of a word. Stemmers are not for several threads at once, so each call takes one for itself."""
    try:
        stemmer = pool.pop()
    except IndexError:
        stemmer = Stemmer.Stemmer(language, 0)  # what it would remember we do
    stem = str(stemmer.stemWord(word))
    pool.append(stemmer)
    return stem


_ENGLISH: deque[Stemmer.Stemmer] = deque(maxlen=_POOLED_STEMMERS)
_RUSSIAN: deque[Stemmer.Stemmer] = deque(maxlen=_POOLED_STEMMERS)
