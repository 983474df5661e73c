"""What a source tells of its sessions: facts that add up, and titles, which may come before the session does."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import structs

from palace_daemon.core.assembler_state import AssemblerState, SessionState
from palace_daemon.core.drafts import digest
from palace_daemon.core.turns import Reading, Title
from palace_daemon.model import SessionFacts

MAX_WAITING_TITLES = 256
"""Files that begin with thousands of summaries of other sessions exist; one of them at most belongs here."""


class SessionTable:
    """The sessions in an assembler's state, and which of them changed. Single-threaded.

    Args:
        agent: Agent of every session.
        state: Read and changed in place.
    """

    def __init__(self, agent: str, state: AssemblerState) -> None:
        self._agent = agent
        self._state = state
        self._changed: dict[str, None] = {}

    def of(self, name: str) -> SessionState:
        """Return the session called ``name``; a new one where it was not heard of."""
        session = self._state.sessions.get(name)
        if session is None:
            facts = SessionFacts(agent=self._agent, session_id=name)
            session = SessionState(facts, len(self._state.sessions))
            self._state.sessions[name] = session
            self._changed[name] = None
        return session

    def take_changed(self) -> tuple[SessionFacts, ...]:
        """Return the facts of the sessions that are new or changed since the last call."""
        facts = tuple(self._state.sessions[name].facts for name in self._changed)
        self._changed = {}
        return facts

    def merge(self, told: SessionFacts) -> None:
        """Add what a record says of its session."""
        session = self.of(told.session_id)
        known = session.facts
        # The first directory and branch stand for the session; later ones are told by each exchange.
        merged = structs.replace(
            known,
            parent_session_id=known.parent_session_id or told.parent_session_id,
            relation=known.relation if known.relation != "none" else told.relation,
            cwd=known.cwd or told.cwd,
            branch=known.branch or told.branch,
            agent_version=told.agent_version or known.agent_version,
            entrypoint=known.entrypoint or told.entrypoint,
            is_automated=known.is_automated or told.is_automated,
        )
        if merged != known:
            session.facts = merged
            self._changed[told.session_id] = None

    def note_leaf(self, reading: Reading) -> None:
        """Note the id by which a title may name a record, and give its session the title that waits for it."""
        if not reading.leaf_id:
            return
        if reading.leaf_id != reading.record_id:
            self._state.seen.setdefault(digest(reading.leaf_id), self.of(reading.session).index)
        if self._state.waiting_titles:
            title = self._state.waiting_titles.pop(digest(reading.leaf_id), None)
            if title is not None:
                self._set_title(reading.session, title, 1)

    def entitle(self, event: Title, title: str) -> None:
        """Give a session a title, or keep it until the record that it names is read.

        Args:
            event: Which session, and how much its title counts.
            title: Its words, redacted, on one line.
        """
        if not title:
            return
        if not event.leaf_id:
            self._set_title(event.session, title, event.rank)
            return
        leaf = digest(event.leaf_id)
        index = self._state.seen.get(leaf)
        if index is None:
            if len(self._state.waiting_titles) < MAX_WAITING_TITLES:
                self._state.waiting_titles[leaf] = title
            return
        holder = next(name for name, session in self._state.sessions.items() if session.index == index)
        self._set_title(holder, title, event.rank)

    def untitle(self, names: Collection[str]) -> None:
        """Let go of the titles of sessions by id."""
        for name in names:
            if session := self._state.sessions.get(name):
                session.facts = structs.replace(session.facts, title="")

    def _set_title(self, name: str, title: str, rank: int) -> None:
        session = self.of(name)
        if rank < session.title_rank or title == session.facts.title:
            return
        session.title_rank = rank
        session.facts = structs.replace(session.facts, title=title)
        self._changed[name] = None
