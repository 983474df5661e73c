"""What the formats that read other programs' databases share: the parser over rows, and pieces of their queries.

Invariant: queries pick single fields out of stored JSON. What holds secrets, tool output or pictures is not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from palace_daemon.core.documents import decode_value
from palace_daemon.core.jsonl import LineDecoder
from palace_daemon.core.ports import Beside
from palace_daemon.core.transcripts.base import NOTHING_BESIDE, Redactor, Shape
from palace_daemon.core.transcripts.line_parser import LineParser, RecordReader
from palace_daemon.core.transcripts.reading.homes import below, below_home
from palace_daemon.core.transcripts.reading.targets import TARGET_FIELDS

MEMBER = "!/"
"""Divides the database's path from the conversation's id."""

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_Record = TypeVar("_Record")


class DatabaseRows(Generic[_Record]):
    """Base of the database formats: rows of ``record_type`` through a reader of the format's own.

    Such a database is recognised by its tables, since all of them begin alike.
    """

    name: str
    agent: str
    version = 1
    shape: Shape = "lines"
    suffixes: tuple[str, ...] = (".db",)
    is_secondary = False
    record_type: type[_Record]

    def sniff(self, head: bytes) -> bool:  # noqa: ARG002
        """Return false: the tables tell, see :func:`~palace_daemon.core.transcripts.registry.detect_database`."""
        return False

    def reader(self, conversation: str, path: str, redact: Redactor, beside: Beside) -> RecordReader[_Record]:
        """Return a reader for one conversation of the database at ``path``."""
        raise NotImplementedError

    def open(
        self, path: str, redact: Redactor, state: bytes | None = None, beside: Beside = NOTHING_BESIDE
    ) -> LineParser[_Record]:
        """Return a parser for the conversation at ``path``, which is ``<database>!/<id>``."""
        database, _, conversation = path.partition(MEMBER)
        return LineParser(
            format_name=self.name,
            version=self.version,
            agent=self.agent,
            decoder=LineDecoder(self.record_type, _is_row),
            reader=self.reader(conversation, database, redact, beside),
            redact=redact,
            state=state,
        )


def _is_row(value: dict[str, Any]) -> bool:
    return "record" in value


def nested(value: Any) -> Any:
    """Return the value of a column that holds JSON text; None where it holds none."""
    return decode_value(value.encode("utf-8", "replace")).value if isinstance(value, str) else None


def row_key(agent: str, conversation: str, record_id: str) -> str:
    """Return an exchange's identity; an id with a UUID in it is unique everywhere, another one in its conversation."""
    if not record_id or _UUID.search(record_id):
        return f"{agent}:{record_id}" if record_id else ""
    return f"{agent}:{conversation}:{record_id}"


def xdg_data_dir(environ: Mapping[str, str], home: str, platform: str, *parts: str) -> str:
    """Return a path below ``XDG_DATA_HOME``, else below ``~/.local/share``, which some use on every platform."""
    root = environ.get("XDG_DATA_HOME", "")
    return below(root, platform, *parts) if root else below_home(environ, home, platform, ".local", "share", *parts)


# ---------------------------------------------------------------------------------------------------------- queries


def optional(table: str, column: str, row: str) -> str:
    """Return SQL for a column that not every version has: its value in the row with the id ``row``, else NULL.

    A name that the table does not know is looked up in the query around it. So that query has to select from
    ``(SELECT NULL AS <column>, …)`` as well, see :func:`absent`.
    """
    return f"(SELECT {column} FROM {table} WHERE id = {row})"


def absent(*columns: str) -> str:
    """Return the one-row table in which optional columns are found where their own table lacks them."""
    return f"(SELECT {', '.join(f'NULL AS {column}' for column in columns)})"


def target(document: str, *places: str) -> str:
    """Return SQL for what a tool call is aimed at; its arguments are an object at one of ``places`` (JSON paths)."""
    fields = (f"json_extract({document}, '{place}.{name}')" for place in places for name in TARGET_FIELDS)
    return f"coalesce({', '.join(fields)})"
