"""Writing a file so that whoever reads it sees the old one or the new one, whole. Standard library only."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import BinaryIO

_NAME_CHARS_MAX = 100
"""Of the file's name in that of the temporary one, which has its own limit."""


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Yield a new file beside ``path`` that takes its place when all went well, and leaves nothing otherwise.

    It is private until then, is never an existing file or link, and is flushed to the disk before it takes the place.

    Args:
        path: The file to write; its directory must exist.
        mode: Permissions of the result.

    Raises:
        OSError: It cannot be written.
    """
    import tempfile  # noqa: PLC0415 - 10 ms that commands which write nothing need not pay

    directory, name = os.path.split(os.fspath(path))
    descriptor, temporary = tempfile.mkstemp(prefix=f".{name[:_NAME_CHARS_MAX]}.", suffix=".part", dir=directory or ".")
    try:
        with os.fdopen(descriptor, "wb", buffering=1 << 20) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
