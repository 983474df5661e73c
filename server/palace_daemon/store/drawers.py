"""Drawers and their words: cut from the stored exchange, indexed and queued for a vector in the same transaction.

A drawer keeps its id as long as its exchange has that many drawers; a drawer whose text did not change is not indexed
or embedded again. Where the end of a reply grew, the drawers before it are not even looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from palace_daemon.core import analysis, chunking
from palace_daemon.core import statements as core_statements
from palace_daemon.core.ports import TokenCounter
from palace_daemon.core.statements import STATEMENTS_VERSION
from palace_daemon.model import CutMode, DrawerSpan, UserKind
from palace_daemon.store import postings, statements, vectors
from palace_daemon.store.postings import PostingsEdit
from palace_daemon.store.spans import SPAN_COLUMNS, span_of, span_values, text_hash
from palace_daemon.store.sqlite import Connection
from palace_daemon.store.vectors import Wanted

if TYPE_CHECKING:
    from palace_daemon.store.exchanges import SaveReport

_ASSIGN_SPAN = ", ".join(f"{name}=?" for name in SPAN_COLUMNS.split(", "))


DRAWERS_COLLECTED_MAX = 16_384
"""Drawers whose words are collected before they are written, where all are indexed anew: four blocks of the index."""


class Telling(NamedTuple):
    """An exchange as it is stored, or was before it changed."""

    user_text: str
    reply_text: str
    user_kind: UserKind
    cut: str
    shown: tuple[int, str, int | None]
    """What mirrors hold of the exchange with each of its drawers: session, project, start."""


class _Stored(NamedTuple):
    drawer_id: int
    text_hash: bytes
    span: DrawerSpan
    telling: Telling

    def text(self) -> str:
        return chunking.render(self.telling.user_text, self.telling.reply_text, self.span)


StoredDrawers = dict[int, _Stored]
"""Ordinal to what is stored there, ascending."""


class DrawerStore:
    """Cuts exchanges into drawers inside the caller's write transaction. Used by the writer thread only."""

    def __init__(self, counter: TokenCounter, max_chars: Mapping[CutMode, int], min_user_turns: int) -> None:
        """Take the token counter, the drawer size of each cut mode, and when a session leaves paragraph mode."""
        self._counter = counter
        self._max_chars = max_chars
        self._min_user_turns = min_user_turns
        self._edit = PostingsEdit()
        self._wanted = Wanted()
        self._generation = 0
        self.index_version = (
            f"cut {chunking.CUT_VERSION}, terms {analysis.ANALYSER_VERSION}, statements {STATEMENTS_VERSION},"
            f" {max_chars['exchange']} characters, {max_chars['paragraph']} below {min_user_turns} turns"
        )
        """How drawers and terms are made: a store of another version is cut and indexed anew on opening."""

    def begin(self, connection: Connection) -> None:
        """Start a transaction's changes under a new generation."""
        self._edit = PostingsEdit()
        self._wanted = Wanted()
        connection.execute("UPDATE state SET generation=generation+1")
        (self._generation,) = connection.execute("SELECT generation FROM state").fetchone()

    def finish(self, connection: Connection) -> None:
        """Write the collected words, and queue what lacks a vector; call before the transaction ends."""
        self._edit.write(connection)
        self._wanted.write(connection)

    def stored(self, connection: Connection, exchange_id: int) -> StoredDrawers:
        """Return the exchange's drawers with the texts they have now: call before its texts change."""
        telling = self._telling(connection, exchange_id)
        rows = connection.execute(
            f"SELECT id, text_hash, {SPAN_COLUMNS} FROM drawers WHERE exchange_id=? ORDER BY ordinal", (exchange_id,)
        )
        stored = [_Stored(drawer_id, hash_, span_of(tuple(rest)), telling) for drawer_id, hash_, *rest in rows]
        return {drawer.span.ordinal: drawer for drawer in stored}

    @staticmethod
    def _telling(connection: Connection, exchange_id: int) -> Telling:
        session_id, project, started_at, cut, user, reply, kind = connection.execute(
            "SELECT session_id, project, started_at, cut, user_text, reply_text, user_kind FROM exchanges WHERE id=?",
            (exchange_id,),
        ).fetchone()
        return Telling(user, reply, kind, cut, (session_id, project, started_at))

    def cut_anew(self, connection: Connection, exchange_id: int, old: StoredDrawers, report: SaveReport) -> None:
        """Cut the exchange as its session stands now; only drawers whose text changed are indexed again.

        Args:
            connection: The write connection, in a transaction.
            exchange_id: The exchange, its texts already stored.
            old: What :meth:`stored` returned before they were.
            report: Is added to.
        """
        now = self._telling(connection, exchange_id)
        self.cut_as(connection, exchange_id, now, self.mode(connection, now.shown[0]), old, report)

    def cut_as(
        self,
        connection: Connection,
        exchange_id: int,
        now: Telling,
        mode: CutMode,
        old: StoredDrawers | None,
        report: SaveReport,
    ) -> None:
        """Do as :meth:`cut_anew` does, where it is known how the exchange and its session stand.

        Args:
            connection: The write connection, in a transaction.
            exchange_id: The exchange.
            now: What is stored of it.
            mode: What :meth:`mode` says of its session.
            old: See :meth:`cut_anew`; None if the exchange is new.
            report: Is added to.
        """
        is_new, old = old is None, old or {}
        started_at = now.shown[2]
        if mode != now.cut:
            connection.execute("UPDATE exchanges SET cut=? WHERE id=?", (mode, exchange_id))
        before = next((drawer.telling for drawer in old.values()), None)
        kept = self._kept(before, old, now, mode)
        spans = chunking.cut(now.user_text, now.reply_text, self._counter, max_chars=self._max_chars[mode], kept=kept)
        left = dict(list(old.items())[min(len(kept), len(spans)) :])
        freed = {drawer.text_hash for drawer in left.values()}
        for span in spans[len(kept) :]:
            text = chunking.render(now.user_text, now.reply_text, span)
            hash_ = text_hash(text)
            self._put(connection, exchange_id, span, text, hash_, left.pop(span.ordinal, None), report)
            self._wanted.add(hash_, started_at)
        for drawer in left.values():
            self._remove(connection, drawer, report)
        said = core_statements.statements(now.user_text, now.reply_text, now.user_kind)
        unsaid = statements.refresh(connection, exchange_id, said, started_at, self._wanted, is_new=is_new)
        freed |= unsaid or set()
        for hash_ in sorted(freed):  # only now: a text that moved to another drawer keeps its vector
            self._wanted.drop_if_orphan(connection, hash_)
        if before is not None and (before.shown != now.shown or unsaid is not None):
            self.touch(connection, exchange_id)

    def _kept(self, before: Telling | None, old: StoredDrawers, now: Telling, mode: CutMode) -> Sequence[DrawerSpan]:
        """Return the first drawers that stay as they are, as far as that can be told without cutting anew."""
        if before is None or (before.user_text, before.cut) != (now.user_text, mode):
            return ()
        spans = [drawer.span for drawer in old.values()]
        return chunking.unchanged(spans, before.reply_text, now.reply_text, max_chars=self._max_chars[mode])

    def recut_session(self, connection: Connection, session_id: int, report: SaveReport) -> None:
        """Cut anew every exchange of the session that was cut in another mode."""
        mode = self.mode(connection, session_id)
        # Two ranges of an index instead of one "unequal", which would read all turns of the session.
        rows = connection.execute(
            "SELECT id FROM exchanges WHERE session_id=?1 AND cut<?2"
            " UNION ALL SELECT id FROM exchanges WHERE session_id=?1 AND cut>?2 ORDER BY id",
            (session_id, mode),
        ).fetchall()
        for (exchange_id,) in rows:
            now, old = self._telling(connection, exchange_id), self.stored(connection, exchange_id)
            self.cut_as(connection, exchange_id, now, mode, old, report)

    def remove(self, connection: Connection, exchange_id: int, report: SaveReport) -> None:
        """Remove all drawers of an exchange that is about to go, with their words, and vectors that no text needs."""
        old = self.stored(connection, exchange_id)
        for drawer in old.values():
            self._remove(connection, drawer, report)
        freed = {drawer.text_hash for drawer in old.values()} | statements.remove(connection, exchange_id)
        for hash_ in sorted(freed):
            self._wanted.drop_if_orphan(connection, hash_)

    def touch(self, connection: Connection, exchange_id: int) -> None:
        """Have mirrors load the exchange's drawers again, because its own row changed."""
        connection.execute("UPDATE drawers SET generation=? WHERE exchange_id=?", (self._generation, exchange_id))

    def rebuild(self, connection: Connection, report: SaveReport) -> None:
        """Cut and index everything anew from the exchanges; vectors of equal texts are kept."""
        postings.clear(connection)
        connection.execute("INSERT INTO removed_drawers SELECT id, ? FROM drawers", (self._generation,))
        connection.execute("DELETE FROM drawers")
        connection.execute("DELETE FROM statements")
        for (exchange_id,) in connection.execute("SELECT id FROM exchanges ORDER BY id").fetchall():
            self.cut_anew(connection, exchange_id, {}, report)
            if self._edit.drawer_count >= DRAWERS_COLLECTED_MAX:
                self._edit.write(connection)
        vectors.drop_orphans(connection)
        connection.execute("UPDATE state SET index_version=?", (self.index_version,))

    def mode(self, connection: Connection, session_id: int) -> CutMode:
        """Say how the session is cut: by the turns that stand, so that it is cut as if the others had never been."""
        (turns,) = connection.execute(
            "SELECT count(*) FROM"
            " (SELECT 1 FROM exchanges WHERE session_id=? AND user_text<>'' AND is_superseded=0 LIMIT ?)",
            (session_id, self._min_user_turns),
        ).fetchone()
        return self.mode_of(turns)

    def mode_of(self, turns: int) -> CutMode:
        """Say how a session is cut of which so many turns stand."""
        return "exchange" if turns >= self._min_user_turns else "paragraph"

    def _put(
        self,
        connection: Connection,
        exchange_id: int,
        span: DrawerSpan,
        text: str,
        hash_: bytes,
        old: _Stored | None,
        report: SaveReport,
    ) -> None:
        """Store one drawer and its words, in place of ``old`` if there is one."""
        if old is not None and old.text_hash == hash_:
            if old.span != span:
                connection.execute(f"UPDATE drawers SET {_ASSIGN_SPAN} WHERE id=?", (*span_values(span), old.drawer_id))
            return
        found = analysis.occurrences(text)
        if old is None:
            cursor = connection.execute(
                f"INSERT INTO drawers({SPAN_COLUMNS}, exchange_id, text_hash, length, generation)"
                " VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                (*span_values(span), exchange_id, hash_, found.length, self._generation),
            )
            self._edit.add(int(cursor.lastrowid or 0), found)
            report.drawers_added += 1
            return
        connection.execute(
            f"UPDATE drawers SET {_ASSIGN_SPAN}, text_hash=?, length=?, generation=? WHERE id=?",
            (*span_values(span), hash_, found.length, self._generation, old.drawer_id),
        )
        self._edit.replace(old.drawer_id, analysis.term_places(old.text()), analysis.term_places(text))

    def _remove(self, connection: Connection, drawer: _Stored, report: SaveReport) -> None:
        connection.execute("DELETE FROM drawers WHERE id=?", (drawer.drawer_id,))
        connection.execute("INSERT INTO removed_drawers VALUES (?,?)", (drawer.drawer_id, self._generation))
        self._edit.replace(drawer.drawer_id, analysis.term_places(drawer.text()), {})
        report.drawers_removed += 1
