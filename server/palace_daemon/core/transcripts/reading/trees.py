"""Conversations that branch where a reply was made anew or a prompt was edited.

Invariant: the branch that was shown last is told as the conversation. What was abandoned is told before it and taken
back, so that it is kept and stays out of recall.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct, structs

from palace_daemon.core.transcripts.reading.loose_files import record_key
from palace_daemon.core.turns import Event, Place, Reading, ReplyText, Rollback, ToolCall, TurnEnd, UserTurn
from palace_daemon.model import Attachment, ExchangeStatus

_ABANDONED = "abandoned"
"""Turn id of everything off the branch that was shown last: one rollback takes it all back."""


class Message(Struct, frozen=True, kw_only=True):
    """One node of a conversation. ``role`` is empty where nothing of it is a person's or the model's words."""

    id: str
    parent: str = ""
    place: Place
    role: Literal["user", "assistant", ""] = ""
    texts: tuple[str, ...] = ()
    at: int | None = None
    model: str = ""
    attachments: tuple[Attachment, ...] = ()
    tools: tuple[str, ...] = ()
    status: ExchangeStatus = "open"
    skipped: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All texts, with a blank line between."""
        return "\n\n".join(self.texts)


class Tree(Struct, frozen=True, kw_only=True):
    """A conversation: its messages by id in the order of the file, and the last message of the branch shown last.

    ``at`` is its own time, for turns that have none; with ``has_ids`` false the message ids are made up.
    """

    agent: str
    session: str
    messages: Mapping[str, Message]
    leaf: str
    at: int | None = None
    has_ids: bool = True


def read_tree(tree: Tree) -> Reading:
    """Return everything that the conversation yields."""
    parents = {message.id: message.parent for message in tree.messages.values()}
    live = live_path(parents, tree.leaf)
    events: list[Event] = []
    for chain in abandoned_chains(parents, live):
        events += _abandoned_events(tree, parents, [tree.messages[name] for name in chain])
    if events:
        events.append(Rollback(session=tree.session, turns=1))
    events += _events(tree, [tree.messages[name] for name in live], must_open=bool(events))
    if live:
        events.append(TurnEnd(session=tree.session, status="complete"))
    skipped = [reason for message in tree.messages.values() for reason in message.skipped]
    return Reading(events=tuple(events), skipped=tuple(skipped), session=tree.session)


def live_path(parents: Mapping[str, str], leaf: str) -> list[str]:
    """Return the nodes from the root to ``leaf``. Parents are the safe pointers: children can be out of date."""
    return _walk_up(parents, leaf, set())


def abandoned_chains(parents: Mapping[str, str], live: Iterable[str]) -> Iterator[list[str]]:
    """Yield the nodes off the live path as chains that end in a leaf; every node stands in one chain."""
    told = set(live)
    inner = set(parents.values())
    for name in (*(name for name in parents if name not in inner), *parents):  # what is left after the leaves: rings
        if name not in told:
            yield _walk_up(parents, name, told)


def _walk_up(parents: Mapping[str, str], name: str, told: set[str]) -> list[str]:
    path = []
    while name in parents and name not in told:
        path.append(name)
        told.add(name)
        name = parents[name]
    return path[::-1]


def _abandoned_events(tree: Tree, parents: Mapping[str, str], chain: Sequence[Message]) -> list[Event]:
    """Return the events of a chain; one that begins with a reply is told below the words that it answered."""
    first = next((message for message in chain if message.role and (message.texts or message.attachments)), None)
    if first is None:
        return []
    events: list[Event] = []
    if first.role == "assistant":
        asked = _asked(tree, parents, chain[0].parent)
        turn = _turn(tree, asked or first, is_empty=asked is None)
        key = f"{turn.key or tree.session}:{first.id}" if tree.has_ids else ""
        events.append(structs.replace(turn, key=key, turn_id=_ABANDONED))
    return events + _events(tree, chain, turn_id=_ABANDONED)


def _asked(tree: Tree, parents: Mapping[str, str], name: str) -> Message | None:
    """Return the nearest words of a person at or above the node."""
    seen = set()
    while name in parents and name not in seen:
        seen.add(name)
        message = tree.messages[name]
        if message.role == "user" and message.texts:
            return message
        name = parents[name]
    return None


def _events(tree: Tree, path: Sequence[Message], *, turn_id: str = "", must_open: bool = False) -> list[Event]:
    events: list[Event] = []
    for message in path:
        if message.role == "user":
            events.append(structs.replace(_turn(tree, message), turn_id=turn_id))
        elif message.role == "assistant":
            if must_open and not events:  # or the reply would join a turn that was taken back
                events.append(_turn(tree, message, is_empty=True))
            events += _reply(tree, message)
    return events


def _turn(tree: Tree, message: Message, *, is_empty: bool = False) -> UserTurn:
    return UserTurn(
        session=tree.session,
        place=message.place,
        text="" if is_empty else message.text,
        at=tree.at if message.at is None else message.at,
        time_quality="session" if message.at is None else None,
        key=record_key(tree.agent, tree.session, message.id) if tree.has_ids else "",
        record_ids=(message.id,) if tree.has_ids and not is_empty else (),
        attachments=() if is_empty else message.attachments,
        model=message.model,
    )


def _reply(tree: Tree, message: Message) -> list[Event]:
    events: list[Event] = [
        ReplyText(
            session=tree.session,
            place=message.place,
            text=text,
            message_id=message.id,
            key=record_key(tree.agent, tree.session, message.id) if tree.has_ids else "",
            at=message.at,
            model=message.model,
        )
        for text in message.texts
    ]
    events += [
        ToolCall(session=tree.session, place=message.place, name=name, message_id=message.id, at=message.at)
        for name in message.tools
    ]
    if message.status != "open":
        events.append(TurnEnd(session=tree.session, status=message.status))
    return events
