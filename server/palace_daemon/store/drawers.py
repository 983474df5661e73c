"""Drawers and their words: cut from the stored exchange, indexed and queued for a vector in the same transaction.

A drawer keeps its id as long as its exchange has that many drawers; a drawer whose text did not change is not indexed
or embedded again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from palace_daemon.core import analysis, chunking
from palace_daemon.core.ports import TokenCounter
from palace_daemon.model import CutMode, DrawerSpan
from palace_daemon.store import postings, vectors
from palace_daemon.store.postings import PostingsEdit
from palace_daemon.store.spans import SPAN_COLUMNS, span_of, span_values, text_hash
from palace_daemon.store.sqlite import Connection

if TYPE_CHECKING:
    from palace_daemon.store.exchanges import SaveReport

_ASSIGN_SPAN = ", ".join(f"{name}=?" for name in SPAN_COLUMNS.split(", "))


class _Stored(NamedTuple):
    drawer_id: int
    text_hash: bytes
    text: str


StoredDrawers = dict[int, _Stored]
"""Ordinal to what is stored there."""


class DrawerStore:
    """Cuts exchanges into drawers inside the caller's write transaction. Used by the writer thread only."""

    def __init__(self, counter: TokenCounter, max_chars: Mapping[CutMode, int], min_user_turns: int) -> None:
        """Take the token counter, the drawer size of each cut mode, and when a session leaves paragraph mode."""
        self._counter = counter
        self._max_chars = max_chars
        self._min_user_turns = min_user_turns
        self._edit = PostingsEdit()
        self._generation = 0
        self.index_version = (
            f"cut {chunking.CUT_VERSION}, terms {analysis.ANALYSER_VERSION}, {max_chars['exchange']} characters,"
            f" {max_chars['paragraph']} below {min_user_turns} turns"
        )
        """How drawers and terms are made: a store of another version is cut and indexed anew on opening."""

    def begin(self, connection: Connection) -> None:
        """Start a transaction's changes under a new generation."""
        self._edit = PostingsEdit()
        connection.execute("UPDATE state SET generation=generation+1")
        (self._generation,) = connection.execute("SELECT generation FROM state").fetchone()

    def finish(self, connection: Connection) -> None:
        """Write the collected words; call before the transaction ends."""
        self._edit.write(connection)

    def stored(self, connection: Connection, exchange_id: int) -> StoredDrawers:
        """Return the exchange's drawers with the texts they have now: call before its texts change."""
        user, reply = connection.execute(
            "SELECT user_text, reply_text FROM exchanges WHERE id=?", (exchange_id,)
        ).fetchone()
        rows = connection.execute(
            f"SELECT id, text_hash, {SPAN_COLUMNS} FROM drawers WHERE exchange_id=? ORDER BY ordinal", (exchange_id,)
        ).fetchall()
        spans = [(drawer_id, hash_, span_of(tuple(rest))) for drawer_id, hash_, *rest in rows]
        return {
            span.ordinal: _Stored(drawer_id, hash_, chunking.render(user, reply, span))
            for drawer_id, hash_, span in spans
        }

    def cut_anew(self, connection: Connection, exchange_id: int, old: StoredDrawers, report: SaveReport) -> None:
        """Cut the exchange as its session stands now; only drawers whose text changed are indexed again.

        Args:
            connection: The write connection, in a transaction.
            exchange_id: The exchange, its texts already stored.
            old: What :meth:`stored` returned before they were.
            report: Is added to.
        """
        session_id, user, reply, started_at = connection.execute(
            "SELECT session_id, user_text, reply_text, started_at FROM exchanges WHERE id=?", (exchange_id,)
        ).fetchone()
        mode = self._mode(connection, session_id)
        connection.execute("UPDATE exchanges SET cut=? WHERE id=?", (mode, exchange_id))
        left = dict(old)
        for span in chunking.cut(user, reply, self._counter, max_chars=self._max_chars[mode]):
            text = chunking.render(user, reply, span)
            self._put(connection, exchange_id, span, text, left.pop(span.ordinal, None), report)
            vectors.want(connection, text_hash(text), started_at)
        for drawer in left.values():
            self._remove(connection, drawer, report)
        if old:
            self.touch(connection, exchange_id)

    def recut_session(self, connection: Connection, session_id: int, report: SaveReport) -> None:
        """Cut anew every exchange of the session that was cut in another mode."""
        mode = self._mode(connection, session_id)
        rows = connection.execute(
            "SELECT id FROM exchanges WHERE session_id=? AND cut<>? ORDER BY id", (session_id, mode)
        ).fetchall()
        for (exchange_id,) in rows:
            self.cut_anew(connection, exchange_id, self.stored(connection, exchange_id), report)

    def touch(self, connection: Connection, exchange_id: int) -> None:
        """Have mirrors load the exchange's drawers again, because its own row changed."""
        connection.execute("UPDATE drawers SET generation=? WHERE exchange_id=?", (self._generation, exchange_id))

    def rebuild(self, connection: Connection, report: SaveReport) -> None:
        """Cut and index everything anew from the exchanges; vectors of equal texts are kept."""
        postings.clear(connection)
        connection.execute("INSERT INTO removed_drawers SELECT id, ? FROM drawers", (self._generation,))
        connection.execute("DELETE FROM drawers")
        for (exchange_id,) in connection.execute("SELECT id FROM exchanges ORDER BY id").fetchall():
            self.cut_anew(connection, exchange_id, {}, report)
        vectors.drop_orphans(connection)
        connection.execute("UPDATE state SET index_version=?", (self.index_version,))

    def _mode(self, connection: Connection, session_id: int) -> CutMode:
        """Say how the session is cut; superseded turns count, so that a rewind changes no drawer."""
        (turns,) = connection.execute(
            "SELECT count(*) FROM exchanges WHERE session_id=? AND user_text<>''", (session_id,)
        ).fetchone()
        return "exchange" if turns >= self._min_user_turns else "paragraph"

    def _put(
        self,
        connection: Connection,
        exchange_id: int,
        span: DrawerSpan,
        text: str,
        old: _Stored | None,
        report: SaveReport,
    ) -> None:
        """Store one drawer and its words, in place of ``old`` if there is one."""
        hash_ = text_hash(text)
        where = (*span_values(span), exchange_id)
        if old is not None and old.text_hash == hash_:
            connection.execute(
                f"UPDATE drawers SET {_ASSIGN_SPAN} WHERE exchange_id=? AND ordinal=?", (*where, span.ordinal)
            )
            return
        counts = analysis.term_counts(text)
        length = sum(counts.values())
        if old is None:
            cursor = connection.execute(
                f"INSERT INTO drawers({SPAN_COLUMNS}, exchange_id, text_hash, length, generation)"
                " VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                (*where, hash_, length, self._generation),
            )
            self._edit.replace(int(cursor.lastrowid or 0), {}, counts)
            report.drawers_added += 1
            return
        connection.execute(
            f"UPDATE drawers SET {_ASSIGN_SPAN}, text_hash=?, length=? WHERE exchange_id=? AND ordinal=?",
            (*where[:-1], hash_, length, exchange_id, span.ordinal),
        )
        self._edit.replace(old.drawer_id, analysis.term_counts(old.text), counts)
        vectors.drop_if_orphan(connection, old.text_hash)

    def _remove(self, connection: Connection, drawer: _Stored, report: SaveReport) -> None:
        connection.execute("DELETE FROM drawers WHERE id=?", (drawer.drawer_id,))
        connection.execute("INSERT INTO removed_drawers VALUES (?,?)", (drawer.drawer_id, self._generation))
        self._edit.replace(drawer.drawer_id, analysis.term_counts(drawer.text), {})
        vectors.drop_if_orphan(connection, drawer.text_hash)
        report.drawers_removed += 1
