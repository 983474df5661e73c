"""Finding and streaming the files of sets: plain or gzip, whole JSON documents or lines.

Invariant: whatever is wrong with a file ends as a :class:`ConfigError` that names the file and what was expected.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO, TypeVar, cast

import msgspec

from palace_daemon.core.documents import ElementSplitter, decode_value
from palace_daemon.errors import ConfigError

_BLOCK_BYTES = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"

Record = TypeVar("Record")


def find(path: Path, folder: str, patterns: tuple[str, ...], expected: str) -> Path:
    """Return the one file that is meant by ``path``: itself, or what it or its ``folder`` holds.

    Args:
        path: The file, the folder of the set, or a folder that holds the folder of the set.
        folder: Name of the set's folder; empty where the set has none.
        patterns: What its files are called.
        expected: What is looked for, in words.

    Raises:
        ConfigError: There is none, or more than one.
    """
    if path.is_file():
        return path
    for directory in dict.fromkeys((path, path / folder)):
        if len(matches := matching(directory, patterns)) > 1:
            names = ", ".join(match.name for match in matches)
            raise ConfigError(f"{directory} holds several files of {expected}: {names}", hint="name one of them")
        if matches:
            return matches[0]
    places = f"{path} or {path / folder}" if folder else str(path)
    raise ConfigError(f"no {expected} in {places}", hint=f"expected a file called {' or '.join(patterns)}")


def matching(directory: Path, patterns: tuple[str, ...]) -> list[Path]:
    """Return the files in ``directory`` that are called so, in the order of their names."""
    return sorted({match for pattern in patterns for match in directory.glob(pattern) if match.is_file()})


def records(path: Path, kind: type[Record], expected: str) -> Generator[Record, None, None]:
    """Yield the elements of a JSON array, or the one root object, each as soon as it is complete.

    Memory is bounded by the largest element, so a file of gigabytes can be read.

    Raises:
        ConfigError: The file cannot be read, is cut off, or holds something other than ``kind``.
    """
    splitter = ElementSplitter()
    read_bytes = count = 0
    for block in _blocks(path):
        read_bytes += len(block)
        elements = splitter.feed(block)
        if splitter.state.is_whole and splitter.state.offset != read_bytes:
            raise ConfigError(f"{path} is no {expected}: text follows the JSON document")
        for element in elements:
            count += 1
            yield converted(element.payload, kind, f"{path}, element {count}, is no {expected}")
    if not splitter.state.is_whole:
        raise ConfigError(f"{path} is no {expected}: it ends in the middle of its JSON document")
    if not count:
        raise ConfigError(f"{path} is no {expected}: its JSON array is empty")


def lines(path: Path) -> Iterator[bytes]:
    r"""Yield the lines of a file, split at ``\n`` only: texts may hold other characters that end a line.

    Raises:
        ConfigError: The file cannot be read.
    """
    try:
        with _opened(path) as stream:
            yield from stream
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def converted(payload: bytes, kind: type[Record], otherwise: str) -> Record:
    """Decode one JSON value; ``otherwise`` is what the error begins with.

    Texts of these sets come from the web: a lone half of a surrogate pair in one of them must not stop a run.

    Raises:
        ConfigError: It is no JSON, or not a ``kind``.
    """
    decoded = decode_value(payload)
    if decoded.problem:
        raise ConfigError(f"{otherwise}: malformed JSON")
    try:
        return msgspec.convert(decoded.value, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{otherwise}: {error}") from error


def _blocks(path: Path) -> Iterator[bytes]:
    try:
        with _opened(path) as stream:
            while block := stream.read(_BLOCK_BYTES):
                yield block
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as stream:
        is_gzip = stream.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    return cast("IO[bytes]", gzip.open(path, "rb")) if is_gzip else path.open("rb")
