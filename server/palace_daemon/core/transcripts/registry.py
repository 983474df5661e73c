"""All transcript formats, and which of them a file is; they are imported when the first one is wanted."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from palace_daemon.core.transcripts.base import DatabaseFormat, PlacedFormat, SealedStore, TranscriptFormat

COMPRESSED_SUFFIXES = (".zst", ".gz")
"""Endings that compression adds to a transcript's name."""

CONTAINER_SUFFIXES = (".zip",)
"""Endings of archives that can hold transcripts."""

LINE_SUFFIX = ".jsonl"
"""Ending of files that grow line by line: what is there may be the beginning of a first line."""

_LINES_LOOKED_AT = 64
_DOCUMENT_HEAD_BYTES = 1 << 20

HEAD_BYTES = 64 * 1024
"""How much of a file's start :func:`detect` wants to see."""


@functools.cache
def formats() -> tuple[TranscriptFormat, ...]:
    """Return all formats in the order in which a file is tried."""
    from palace_daemon.core.transcripts.formats import FORMATS  # noqa: PLC0415 - first answers need not wait for them

    return FORMATS


@functools.cache
def _sealed() -> tuple[SealedStore, ...]:
    from palace_daemon.core.transcripts.formats import SEALED  # noqa: PLC0415 - see above

    return SEALED


def detect(path: str, head: bytes) -> TranscriptFormat | None:
    """Return the format of the file at ``path`` that begins with ``head``, or ``None``.

    The content decides. Where formats of several agents share a grammar, that one is taken whose place and name it
    is. A transcript in a foreign place is still one; but in line files the name rules out what an agent keeps beside
    its transcripts in the same grammar, such as compaction helpers.
    """
    candidates = [known for known in formats() if known.shape == "document" or may_be_lines(head)]
    for known in candidates:
        if known.may_hold(path) and _is_in_place(known, path, _head_for(known, head)):
            return known
    for known in candidates:
        if (known.shape == "document" or not path.endswith(known.suffixes)) and known.sniff(_head_for(known, head)):
            return known
    return None


def _is_in_place(known: TranscriptFormat, path: str, head: bytes) -> bool:
    return known.sniff(head) or (isinstance(known, PlacedFormat) and known.sniff_in_place(path, head))


def _head_for(known: TranscriptFormat, head: bytes) -> bytes:
    """Return what a format looks at: of a document its beginning, however long its first line is."""
    return head if known.shape == "lines" else head[:_DOCUMENT_HEAD_BYTES]


def may_be_lines(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` can hold a JSON object on each line.

    Spares the line formats the look into every line of a document that is written over many lines.
    """
    lines = head.split(b"\n", _LINES_LOOKED_AT)
    if len(lines) == 1:
        return True
    return any(b"{" in line and line.rstrip().endswith(b"}") and not line.startswith((b" ", b"\t")) for line in lines)


def detect_database(tables: Mapping[str, frozenset[str]], path: str = "") -> DatabaseFormat | None:
    """Return the format of the database with these tables and their columns, or ``None``.

    Where the programs of several agents keep the same tables, the name of the database tells whose it is.
    """
    fitting = [
        known
        for known in formats()
        if isinstance(known, DatabaseFormat)
        and all(set(columns) <= tables.get(name, frozenset()) for name, columns in known.tables.items())
    ]
    name = path.rsplit("/", 1)[-1]
    named = [known for known in fitting if known.may_hold(path)] or [known for known in fitting if known.agent in name]
    return next(iter(named or fitting), None)


def by_name(name: str) -> TranscriptFormat | None:
    """Return the format with this stored name, or ``None`` for one that this version does not know."""
    return next((known for known in formats() if known.name == name), None)


def agents() -> tuple[str, ...]:
    """Return the agents whose transcripts can be read, sorted."""
    return tuple(sorted({known.agent for known in formats()}))


def may_hold(path: str) -> bool:
    """Return whether a file below an agent's directory can be a transcript of any format, by its name alone."""
    plain = plain_name(path)
    return any(known.may_hold(plain) for known in formats()) or any(store.may_hold(plain) for store in _sealed())


def why_unreadable(path: str, head: bytes) -> str:
    """Return why a file that should hold transcripts, by where it lies, holds none that can be read; else nothing."""
    for store in _sealed():
        if store.may_hold(path):
            return store.reason
    for known in formats():
        if isinstance(known, DatabaseFormat) and known.may_hold(path) and head:
            return f"{known.agent} keeps a database here, and this is none: it is encrypted or damaged"
    return ""


def has_known_suffix(path: str) -> bool:
    """Return whether a file below a directory that a person named is worth a look into it."""
    plain = plain_name(path)
    return plain.lower().endswith(_suffixes()) or may_hold(plain)


def plain_name(path: str) -> str:
    """Return ``path`` without the ending that a compression adds."""
    for suffix in COMPRESSED_SUFFIXES:
        if path.lower().endswith(suffix):
            path = path[: -len(suffix)]
    return path


@functools.cache
def _suffixes() -> tuple[str, ...]:
    return (*CONTAINER_SUFFIXES, *sorted({suffix for known in formats() for suffix in known.suffixes}))
