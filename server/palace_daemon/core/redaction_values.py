"""How a secret's value is told from a placeholder, a name, a path or a piece of code.

Invariant: each judgement looks at no more than the first 128 characters of a value.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise

JUDGED_CHARS = 128
"""How much of a value is judged: as long as a sha512."""

_EXAMPLES = (
    "your example examples placeholder changeme dummy sample fake mock insert replace todo fixme redacted masked"
    " removed omitted undefined"
)
EXAMPLE_WORDS = frozenset(_EXAMPLES.split())
"""What follows one of these is an example, too: ``example_key_1``."""
_STAND_INS = (
    "change none null nil hidden secret password passwd passcode passphrase token apikey key here goes value string"
    " true false required optional enabled disabled empty unset default prompt"
)
STAND_IN_WORDS = frozenset(_STAND_INS.split()) | EXAMPLE_WORDS
"""Words that stand in for a secret where nothing but their like follows."""
LAST_WORDS = frozenset({"here", "placeholder", "example", "changeme"})
_TEMPLATE = re.compile(
    r"^[<{]|^\$[A-Za-z_]\w*$|^%\w+%$|^%[sdv]$|^@\w*[({]|^!(?:Ref|Sub|vault|secret)\b"
    r"|\$\{|\{\{|\$\(|%\(|%s|\{[\w.]*\}|<[^>]*>|process\.env|environ|getenv|env\.|\[redacted",
    re.IGNORECASE,
)
_BARE_TEMPLATE = re.compile(r"^[$%@!*&]")
_FILLER = re.compile(r"(.)\1{4,}|\.\.\.|…|•")
_WORD_BREAK = re.compile(r"[^A-Za-z]+|(?<=[a-z])(?=[A-Z])")
_PATH = re.compile(r"(?:~|\.{0,2})/|[A-Za-z]:[\\/]|[a-z][a-z0-9+.-]{1,20}://")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_HEX = re.compile(r"(?=[0-9]*+[a-f])(?=[a-f]*+[0-9])[0-9a-f]{16,}", re.IGNORECASE)
_BASE64 = re.compile(r"[A-Za-z0-9+/]{24,}={0,2}")
_URLSAFE = re.compile(r"(?=[^a-z]*+[a-z])(?=[^A-Z]*+[A-Z])(?=[^0-9]*+[0-9])[A-Za-z0-9_-]{16,}")
_BASE32 = re.compile(r"(?=[A-Z]*+[2-7])[A-Z2-7]{16,}={0,6}")
_SPLIT = re.compile(r"[-_./:+=~]+")
_PART = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+")
_SYMBOL = re.compile(r"[^A-Za-z0-9\s._/:-]")

_PASSWORD_CHARS = 6
_SAMPLE_TAIL = 16
_SAMPLE_ENTROPY_BITS = 2.0  # four distinct characters; sixteen random hexadecimal digits have 3.3 on average
_MANY_DIGITS = 6
_RANDOM_CHARS = 12
_RANDOM_PART_CHARS = 3.2  # mean length of the parts at humps and digits: base62 has 2.4, camel case over 4
_HEX_ENTROPY_BITS = 2.5  # sixteen random hexadecimal digits have 3.3 on average, and 2.6 or more nearly always
_RANDOM_ENTROPY_BITS = 3.0  # bits a character, over the value; twelve distinct-enough characters


def is_placeholder(value: str, *, is_bare: bool = False) -> bool:
    """Return whether ``value`` stands in for a secret: ``YOUR_TOKEN``, ``xxxx``, ``${VAR}``, ``os.environ["X"]``.

    A bare value, one without quotes, is code or a shell word: ``$``, ``*`` or ``&`` at its front is no part of it.
    """
    value = value[:JUDGED_CHARS]
    if is_template(value) or (is_bare and _BARE_TEMPLATE.match(value)):
        return True
    words = words_of(value)
    if not words or words[0] in EXAMPLE_WORDS or words[-1] in LAST_WORDS:
        return bool(words)
    return STAND_IN_WORDS.issuperset(words)


def words_of(value: str) -> list[str]:
    """Return the words in ``value``, in lower case, cut at humps, digits and signs."""
    return [word.casefold() for word in _WORD_BREAK.split(value) if word]


def has_path(value: str) -> bool:
    """Return whether ``value`` begins as a path or a URL does."""
    return _PATH.match(value) is not None


def is_template(value: str) -> bool:
    """Return whether ``value`` is to be filled in; unlike a stand-in word, nobody has that for a password."""
    value = value[:JUDGED_CHARS]
    return bool(_TEMPLATE.search(value) or _FILLER.search(value)) or value.casefold().startswith("your")


def is_sample(key: str) -> bool:
    """Return whether an issued form was filled in by hand, as in ``ghp_XXXXXXXX``."""
    return entropy(key[-_SAMPLE_TAIL:]) < _SAMPLE_ENTROPY_BITS


def is_mixed(key: str) -> bool:
    """Return whether ``key`` has digits, and capitals or many digits: words joined by dashes have not."""
    digits = sum(map(str.isdigit, key))
    return digits > 0 and (digits >= _MANY_DIGITS or any(map(str.isupper, key)))


def is_random(value: str) -> bool:
    """Return whether ``value`` looks drawn at random rather than written: long, mixed, and of no words."""
    value = value[:JUDGED_CHARS]
    if _HEX.fullmatch(value):
        return entropy(value) >= _HEX_ENTROPY_BITS
    if len(value) < _RANDOM_CHARS or entropy(value) < _RANDOM_ENTROPY_BITS:
        return False
    if any(_is_random_piece(piece) for piece in _SPLIT.split(value)):
        return True
    # Slashes and dashes cut base64 into pieces; a path or a name without them is words.
    return bool(_BASE64.fullmatch(value) or _URLSAFE.fullmatch(value)) and _is_random_piece(_SPLIT.sub("", value))


def _is_random_piece(piece: str) -> bool:
    if len(piece) < _RANDOM_CHARS or (piece.isalpha() and (piece.islower() or piece.isupper())):
        return False
    if _HEX.fullmatch(piece):
        return True
    parts = _PART.findall(piece)
    if len(piece) < _RANDOM_PART_CHARS * len(parts):
        return True
    return sum(one.isdigit() and other.isalpha() for one, other in pairwise(piece)) >= 2


def is_uuid(value: str) -> bool:
    """Return whether ``value`` is a UUID: an id, unless a label says otherwise."""
    return _UUID.fullmatch(value) is not None


def is_seed(value: str) -> bool:
    """Return whether ``value`` is base32 with a digit, 16 characters or more, as seeds of one-time passwords are."""
    return _BASE32.fullmatch(value[:JUDGED_CHARS]) is not None and entropy(value) >= _RANDOM_ENTROPY_BITS


def is_password(value: str, *, is_prose: bool = False) -> bool:
    """Return whether ``value`` mixes letters with digits or symbols, and is neither a path nor a name."""
    value = value[:JUDGED_CHARS]
    if len(value) < _PASSWORD_CHARS or has_path(value) or not any(map(str.isalpha, value)):
        return False
    if any(map(str.isdigit, value)):
        return True
    return not is_prose and bool(_SYMBOL.search(value.rstrip("!?*")))


def entropy(value: str) -> float:
    """Return the Shannon entropy of the characters of ``value`` in bits a character; 0 for an empty one."""
    total = len(value)
    return -sum(n / total * math.log2(n / total) for n in Counter(value).values())
