"""The tools that agents are given: what they take, when to use them, what they answer.

The structs are the input schemas, so what is described is what is checked. Recalled text comes inside the block of
:mod:`palace_daemon.agents.block`; every answer is bounded.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from palace_daemon import filters
from palace_daemon.agents import block
from palace_daemon.client import Client
from palace_daemon.errors import DaemonError, RequestError

TIMEOUT_S = 60.0
LISTED_MAX = 20
"""Exchanges that ``forget`` lists."""
_EXCHANGE_TOKENS = 400
"""Of one exchange in a timeline, while the others are to fit as well."""

Text = Annotated[str, Meta(min_length=1)]
MaxTokens = Annotated[int, Meta(ge=200, le=20_000, description="Most tokens of the answer, estimated.")]
Project = Annotated[
    str,
    Meta(
        description="Only this project: a directory (any inside it will do), or a project's last name. Leave it out to "
        "search all projects."
    ),
]
Moment = Annotated[
    str, Meta(description="A date such as 2026-03-04, or an ISO time; local time where it names no zone.")
]
ItemId = Annotated[str, Meta(min_length=1, description="An id of a hit, an exchange or a note, as recall prints it.")]
SessionId = Annotated[str, Meta(min_length=1, description="As recall prints it after 'session'.")]


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a tool takes."""


class Recall(Arguments, frozen=True):
    """Searches past conversations of this user with coding agents (all agents, all projects), and remembered notes.

    Use it before you ask the user something that may have been said before, when the user refers to earlier work ("as
    we decided", "the usual way", "that bug last week"), and before you choose a library, a convention or a design in a
    project that has a history. A whole question finds more than keywords. Returns quotations with date, agent, project,
    session and id; `get` shows one whole, `timeline` what stood around it.
    """

    query: Annotated[str, Meta(min_length=1, description="What you want to know, as a question or a statement.")]
    project: Project = ""
    agent: Annotated[str, Meta(description="Only this agent, such as claude-code or codex.")] = ""
    since: Moment = ""
    until: Moment = ""
    limit: Annotated[int, Meta(ge=1, le=20, description="Most quotations.")] = 5
    max_tokens: MaxTokens = 2_000


class Get(Arguments, frozen=True):
    """Shows one exchange (a user turn and the whole reply) or note in full, by an id that `recall` printed.

    Use it when a quotation is cut short, or when the exact words matter.
    """

    id: ItemId
    neighbours: Annotated[int, Meta(ge=0, le=3, description="Exchanges before and after it, in short.")] = 0
    max_tokens: MaxTokens = 6_000


class Remember(Arguments, frozen=True):
    """Keeps a short text as a note, which `recall` finds in later sessions.

    Use it when the user asks you to remember something, and for a decision, a convention or a correction that will
    matter later and stands in no file. One fact a note, in words that make sense without this conversation.
    Conversations are remembered by themselves: do not copy them.
    """

    text: Annotated[str, Meta(min_length=1, max_length=20_000)]
    project: Annotated[
        str, Meta(description="What it is about: a directory, or the last name of a known project. Empty: everything.")
    ] = ""
    tags: Annotated[tuple[Text, ...], Meta(max_length=10)] = ()


class Forget(Arguments, frozen=True):
    """Removes exchanges or notes from memory for good. Without `confirm` it lists what would go and removes nothing.

    Use it only when the user asks for it. Call it without `confirm` first, show the user what it lists, and confirm
    with the ids of what the user agreed to. Several selectors narrow each other.
    """

    ids: Annotated[tuple[ItemId, ...], Meta(max_length=100)] = ()
    session_id: Annotated[str, Meta(description="Everything in this session.")] = ""
    project: Annotated[str, Meta(description="Everything in this project: its path, or its last name.")] = ""
    query: Annotated[str, Meta(description="What a recall of this finds among what the other selectors name.")] = ""
    confirm: Annotated[bool, Meta(description="Remove it, for good. The user must have agreed to what was listed.")] = (
        False
    )


class Status(Arguments, frozen=True):
    """Tells what Palace has indexed, what still waits, and what failed.

    Use it when `recall` finds less than the user expects.
    """


class Timeline(Arguments, frozen=True):
    """Shows a session from beginning to end, each exchange in short.

    Use it to follow how something came about, with the session id that `recall` printed.
    """

    session_id: SessionId
    max_tokens: MaxTokens = 4_000


class Tool(Struct, frozen=True):
    """One tool: its name, what it takes (whose docstring is its description), and what it does."""

    name: str
    title: str
    arguments: type[Arguments]
    call: Callable[[Asker, Any], str]
    is_read_only: bool = True
    is_destructive: bool = False

    @property
    def description(self) -> str:
        """What an agent reads to choose the tool."""
        paragraphs = (self.arguments.__doc__ or "").split("\n\n")
        return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments, an object at the root."""
        (schema,), parts = msgspec.json.schema_components([self.arguments])
        root: dict[str, Any] = parts[schema["$ref"].rpartition("/")[2]]
        return {key: value for key, value in root.items() if key not in {"title", "description"}}


class Asker:
    """Asks the daemon, which it starts if none runs. Thread-safe: each request has a connection of its own.

    Args:
        data_dir: The daemon's data directory, if not the usual one.
        author: Who writes notes: the agent's name.
    """

    def __init__(self, data_dir: str | None = None, author: str = "") -> None:
        self._data_dir = data_dir
        self.author = author

    def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """Return the result of a request.

        A daemon that went away while it was asked is started and asked once more: nothing here counts twice.

        Raises:
            PalaceError: As the daemon answers, or because it cannot be started.
        """
        try:
            return self._ask_once(method, params)
        except DaemonError as exc:
            if not isinstance(exc.__cause__, ConnectionError):
                raise
            return self._ask_once(method, params)

    def _ask_once(self, method: str, params: Mapping[str, Any]) -> Any:
        client = Client(self._data_dir, timeout_s=TIMEOUT_S).connect_or_start()
        try:
            return client.request(method, params)
        finally:
            client.close()


def call(asker: Asker, name: str, arguments: Mapping[str, Any] | None) -> str:
    """Return what a tool answers, as text.

    Raises:
        RequestError: There is no such tool, or an argument does not fit; says which.
        PalaceError: As the daemon answers.
    """
    tool = next((tool for tool in TOOLS if tool.name == name), None)
    if tool is None:
        raise RequestError(f"there is no tool {name!r}", hint=f"there are {', '.join(tool.name for tool in TOOLS)}")
    try:
        given = msgspec.convert(dict(arguments or {}), tool.arguments)
    except msgspec.ValidationError as exc:
        raise RequestError(f"{name}: {exc}", hint=f"it takes {', '.join(tool.arguments.__struct_fields__)}") from exc
    return tool.call(asker, given)


# ----------------------------------------------------------------------------------------------------------- tools


def _recall(asker: Asker, given: Recall) -> str:
    params: dict[str, Any] = {
        "query": given.query,
        "project": filters.project(given.project),
        "agent": given.agent,
        "limit": given.limit,
        "maxTokens": given.max_tokens,
        "now": _now(),
    }
    if given.since:
        params["since"] = filters.moment(given.since, "since")
    if given.until:
        params["until"] = filters.moment(given.until, "until", ends_day=True)
    result = asker.ask("palace/recall", params)
    hits = result["hits"]
    freshness = _freshness(result["freshness"])
    if not hits:
        in_scope = result["totals"]["inScope"]
        hint = _why_none(params, result["projectsNear"]) if not in_scope and result["freshness"]["drawers"] else ""
        return block.neutralised(f"Nothing found among {in_scope} pieces.{hint}{freshness}")
    each = max(given.max_tokens // 2, given.max_tokens // len(hits))
    parts = block.of_hits(hits, tokens_each=each, with_session=True)
    text, left_out = block.wrapped_within(given.max_tokens, parts)
    left_out += result["hitsLeftOut"]
    more = f"\n{left_out} more did not fit: raise max_tokens." if left_out else ""
    return f"{text}{more}{freshness}"


def _why_none(params: Mapping[str, Any], near: Sequence[str]) -> str:
    """Return which filters leave nothing, and which projects may have been meant."""
    given = [f"{name} {params[name]!r}" for name in ("project", "agent", "since", "until") if params.get(name)]
    if near:
        return f" No project is called {params['project']!r}; near it: {', '.join(near)}."
    return f" Nothing stored fits {', '.join(given)}; leave a filter out." if given else ""


def _get(asker: Asker, given: Get) -> str:
    found = asker.ask("palace/get", {"id": given.id, "neighbours": given.neighbours})
    return block.wrapped_within(given.max_tokens, [block.of_exchange(1, found)])[0]


def _remember(asker: Asker, given: Remember) -> str:
    params = {
        "text": given.text,
        "project": filters.project(given.project),
        "tags": list(given.tags),
        "author": asker.author,
        "now": _now(),
    }
    result = asker.ask("palace/remember", params)
    note = result["note"]
    where = f" for {note['project']}" if note["project"] else ""
    return block.neutralised(f"{'Remembered' if result['isNew'] else 'Known already'}{where}: note {note['noteId']}.")


def _forget(asker: Asker, given: Forget) -> str:
    named = {
        "exchanges": list(given.ids),
        "sessions": [given.session_id] if given.session_id else [],
        "project": filters.directory(given.project),
        "query": given.query,
    }
    params: dict[str, Any] = {name: value for name, value in named.items() if value}
    if not params:
        raise RequestError("forget needs to know what", hint="ids, or a selector such as session_id")
    report = asker.ask("palace/forget", {**params, "dryRun": not given.confirm})
    counts = f"{report['exchanges']} exchanges in {report['drawers']} pieces"
    if not report["exchanges"]:
        return "Nothing matches; nothing was removed."
    if given.confirm:
        due = f" Bytes of it are still to be wiped: {report['wipeDue']}." if report["wipeDue"] else ""
        return f"Forgot {counts} for good.{due}"
    parts = [
        block.heading(number, item, item["title"], f"id {item['exchangeId']}")
        for number, item in enumerate(report["items"][:LISTED_MAX], 1)
    ]
    more = report["exchanges"] - len(parts)
    rest = f" The first {len(parts)} are listed." if more > 0 else ""
    return f"Nothing was removed. With confirm, {counts} would go for good.{rest}\n{block.wrap(chr(10).join(parts))}"


def _status(asker: Asker, _given: Status) -> str:
    told = asker.ask("palace/status", {})
    lines = [
        f"sessions {told['sessions']}, exchanges {told['exchanges']}, drawers {told['drawers']}",
        f"vectors {told['vectors']} of {told['vectors'] + told['vectorsPending']}",
        f"model {told['model']}: {told['modelState']}",
        f"files {sum(told['sources'].values())}, waiting {told['sourcesPending']}, failed {len(told['failures'])}",
        f"last mined {block.day(told['lastMinedAt'])}",
        *(f"failed: {path}: {why}" for path, why in sorted(told["failures"].items())[:LISTED_MAX]),
    ]
    if told["lastError"]:
        lines.append(f"last error: {told['lastError']}")
    return block.shortened(block.neutralised("\n".join(lines)), 1_000)


def _timeline(asker: Asker, given: Timeline) -> str:
    exchanges = asker.ask("palace/sessions", {"sessionId": given.session_id})["exchanges"]
    if not exchanges:
        return "This session holds nothing."
    each = max(40, min(_EXCHANGE_TOKENS, given.max_tokens // len(exchanges)))
    parts = [
        block.shortened(block.of_exchange(number, one, with_session=False), each)
        for number, one in enumerate(exchanges, 1)
    ]
    text, left_out = block.wrapped_within(given.max_tokens, parts)
    more = f"\nThe last {left_out} did not fit: raise max_tokens, or get them by id." if left_out else ""
    return text + more


def _freshness(told: Mapping[str, Any]) -> str:
    """Return what an answer may lack, as a line of its own; empty where it lacks nothing."""
    lacks: list[str] = []
    if told["sourcesPending"]:
        lacks.append(f"{told['sourcesPending']} files are still to be read")
    if told["vectorsReason"]:
        lacks.append(f"meaning took part only in part: {told['vectorsReason']}")
    return f"\nIncomplete: {'; '.join(lacks)}." if lacks else ""


def _now() -> str:
    return dt.datetime.now().astimezone().isoformat(timespec="milliseconds")


TOOLS: Sequence[Tool] = (
    Tool("recall", "Recall past conversations", Recall, _recall),
    Tool("get", "Show one exchange in full", Get, _get),
    Tool("remember", "Remember a note", Remember, _remember, is_read_only=False),
    Tool("forget", "Forget for good", Forget, _forget, is_read_only=False, is_destructive=True),
    Tool("status", "State of the memory", Status, _status),
    Tool("timeline", "Timeline of a session", Timeline, _timeline),
)
