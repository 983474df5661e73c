"""Every error that Palace raises on purpose, with a stable code.

Invariant: messages say what is wrong, where, and what to do. They never hold transcript text or a query,
since they end in logs. This module imports nothing of ours.
"""

from __future__ import annotations


class PalaceError(Exception):
    """Base of the tree; raise a subclass.

    Attributes:
        kind: Stable lower-case word for machines (``data.kind`` on the wire).
        hint: What the reader can do about it, or an empty string.
    """

    kind = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        if type(self) is PalaceError:
            raise TypeError("PalaceError is abstract: raise one of its subclasses")
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message} ({self.hint})" if self.hint else message


class ConfigError(PalaceError):
    """A setting, flag or environment variable has a bad value."""

    kind = "config"


class SourceError(PalaceError):
    """A transcript cannot be read; the message names the path and the reason."""

    kind = "source"


class StoreError(PalaceError):
    """The database cannot be opened, read or written."""

    kind = "store"


class StoreBusyError(StoreError):
    """Another process holds the write lock for longer than the busy timeout."""

    kind = "storeBusy"


class StoreFullError(StoreError):
    """There is no space for the database to grow."""

    kind = "storeFull"


class StoreDamagedError(StoreError):
    """The database file is not a database or fails its integrity check."""

    kind = "storeDamaged"


class StoreTooNewError(StoreError):
    """The store was written by a newer version of Palace."""

    kind = "storeTooNew"


class DataGoneError(StoreError):
    """The data directory was removed or replaced under the daemon, which therefore ends."""

    kind = "dataGone"


class ModelError(PalaceError):
    """A model file is missing, fails its hash or its golden vectors, or cannot be run."""

    kind = "model"


class UnknownModelError(ModelError):
    """There is no model of that name."""

    kind = "unknownModel"


class RequestError(PalaceError):
    """A request is understood but cannot be answered as asked (unknown id, unknown agent)."""

    kind = "request"


class NotFoundError(RequestError):
    """The thing asked for by id is not in the store."""

    kind = "notFound"


class CancelledError(PalaceError):
    """The caller withdrew the request."""

    kind = "cancelled"


class DeadlineError(PalaceError):
    """The time that the caller gave the request is over."""

    kind = "deadline"


class ClosedError(PalaceError):
    """The object was used after ``close()``."""

    kind = "closed"


class DaemonError(PalaceError):
    """The daemon cannot be started or reached, or another one holds the data directory."""

    kind = "daemon"
