"""What people name in a filter, as the daemon compares it: a project by its root, a time with its zone.

The daemon knows neither its caller's directory nor its caller's zone, whose offset is another in summer and in winter.
Standard library only.
"""

from __future__ import annotations

import datetime as dt
import os
import re

from palace_daemon.errors import RequestError
from palace_daemon.repositories import DiskFiles, find_project, normalise_cwd

_OTHER_SYSTEM = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_WITHOUT_ZONE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?)?")
_DATE_CHARS = len("2026-03-04")
_NUMBER = re.compile(r"[0-9]+")
_MILLISECONDS = re.compile(r"[0-9]{11,15}")
"""Fewer digits are a date without its hyphens, or seconds, which milliseconds would place in the first days of 1970."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def project(named: str) -> str:
    """Return a path as the project that it lies in, and a bare name as it is.

    A path is absolute, begins with ``~``, is ``.`` or ``..``, or holds a separator.
    """
    path = directory(named)
    return find_project(path, DiskFiles()) if os.path.isabs(path) else path


def directory(named: str) -> str:
    """Return a path whole, and a bare name as it is; no repository is looked for, so that no more is named."""
    named = named.strip()
    if _OTHER_SYSTEM.match(named):
        return normalise_cwd(named)
    path = os.path.expanduser(named)
    is_path = path != named or named in {".", ".."} or "/" in named or os.sep in named
    return normalise_cwd(os.path.abspath(path)) if is_path else named


def moment(given: str, name: str, *, ends_day: bool = False) -> str | int:
    """Return a time with its zone: this machine's on that day, where ``given`` names none.

    What is no time stays as it is, for the daemon to say so.

    Args:
        given: An ISO 8601 time, a date, or milliseconds since 1970.
        name: Of the filter, for the error.
        ends_day: Whether a plain date stands for the end of its day instead of the beginning.

    Raises:
        RequestError: A number has too few or too many digits for milliseconds since 1970.
    """
    text = given.strip()
    if _NUMBER.fullmatch(text):
        return _milliseconds(text, name)
    local = _local(text, ends_day=ends_day)
    return given if local is None else local.astimezone(dt.UTC).isoformat()


def clock(given: str, name: str) -> str | int:
    """Return the time that a question is asked at, in this machine's zone where ``given`` names none.

    Raises:
        RequestError: As :func:`moment`.
    """
    text = given.strip()
    if not _NUMBER.fullmatch(text):
        local = _local(text)
        return given if local is None else local.isoformat()
    told = _milliseconds(text, name)
    try:
        return (_EPOCH + dt.timedelta(milliseconds=told)).astimezone().isoformat()
    except (ValueError, OverflowError, OSError):  # beyond the years that there are
        return told


def _local(text: str, *, ends_day: bool = False) -> dt.datetime | None:
    """Return a time or date without a zone as this machine's; None for anything else, or what is not in a calendar."""
    if not _WITHOUT_ZONE.fullmatch(text):
        return None
    try:
        told = dt.datetime.fromisoformat(text)
        if ends_day and len(text) == _DATE_CHARS:
            told += dt.timedelta(days=1)
        return told.astimezone()
    except (ValueError, OverflowError, OSError):
        return None


def _milliseconds(text: str, name: str) -> int:
    if not _MILLISECONDS.fullmatch(text):
        raise RequestError(
            f"{name}: {text[:20]} is neither a date nor milliseconds since 1970",
            hint="such as 2026-03-04, 2026-03-04T09:30 or 1772613000000",
        )
    return int(text)
