"""Which turns a rewind undoes, for formats whose records name the one that they follow or that is gone back to.

The assembler undoes turns by their id; what a transcript names is any record.
"""

from __future__ import annotations

from msgspec import Struct, field

from palace_daemon.core.drafts import digest


class TurnLedger(Struct, array_like=True):
    """The turns of one session that stand, and where each record stands among them. Grows by 10 bytes a record."""

    turns: list[str] = field(default_factory=list)
    """Ids of the turns, which are those of the records that opened them."""
    marks: dict[int, int] = field(default_factory=dict)
    """Digest of a record to how many turns stood after it."""

    def note(self, record_id: str, *, opens: bool = False) -> None:
        """Take up the next record of the session; one that is known already, or has no id, changes nothing."""
        if not record_id or self.knows(record_id):
            return
        if opens:
            self.turns.append(record_id)
        self.marks[digest(record_id)] = len(self.turns)

    def knows(self, record_id: str) -> bool:
        """Return whether a record was noted and still stands."""
        return digest(record_id) in self.marks

    def back_to(self, record_id: str) -> tuple[str, ...]:
        """Go back to just after a record; return the turns that this undoes: none if it is unknown."""
        return self._cut(self.marks.get(digest(record_id), len(self.turns)))

    def back_before(self, record_id: str) -> tuple[str, ...]:
        """Go back to just before a record; return the turns that this undoes: none if it is unknown."""
        standing = self.marks.get(digest(record_id), len(self.turns))
        opened = standing > 0 and self.turns[standing - 1] == record_id
        return self._cut(standing - opened)

    def back_to_start(self) -> tuple[str, ...]:
        """Undo all turns; return them."""
        return self._cut(0)

    def _cut(self, standing: int) -> tuple[str, ...]:
        undone = tuple(self.turns[standing:])
        if undone:
            del self.turns[standing:]
            self.marks = {record: mark for record, mark in self.marks.items() if mark <= standing}
        return undone
