"""What an agent's hook answers: a little of this project's history, or nothing.

A hook stands between a person and every prompt. It answers ``{}`` rather than late, and rather than with something that
may not belong: :func:`is_sure` says when a hit does.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from palace_daemon.client import Client, NotRunningError, start_in_background
from palace_daemon.repositories import DiskFiles, find_project

EVENTS = {"session-start": "SessionStart", "prompt-submit": "UserPromptSubmit"}
"""What we call a moment to what Claude Code and Codex call it."""
NOTHING = "{}"
MAX_TOKENS = 1_200
"""Of a whole block, estimated."""
PROMPT_HITS_MAX = 3
SESSIONS_MAX = 3
_HIT_TOKENS = 450
_EXCHANGE_TOKENS = 240
_QUERY_CHARS_MAX = 8_000
_LIMIT = 12
"""Hits asked for: those of the session itself and of projects inside this one are left out afterwards."""
_SESSIONS_ASKED = 200
"""The same of sessions, of which a directory above many projects has many of theirs among its own."""

WORDS_MIN = 4
"""Prompts of fewer words ("commit this", "run the tests") ask about nothing that was said, and fit everything."""
MEANING_SURE = 0.40
"""Cosine from which meaning alone is evidence. With :data:`MEANING_SOME` picked on the forty questions of
``tests/data/questions.json``, each asked in its own project and in the largest other one. In their own 24 are answered,
all with the right session first; in the other 6, five of them where that is a copy of the same repository."""
MEANING_SOME = 0.30
"""Cosine that is enough where words agree as well."""
WORDS_AGREE = 0.20
"""Share of the question's words, by weight, that stand in one sentence."""
WORDS_SURE = 0.45
"""The same where there are no vectors."""
_LONG_TERM = 4
_LONG_TERMS_MIN = 3
_SCORE_SHARE = 0.6
"""Hits below this share of the best one's score are left out."""
COSINE_WEIGHT, SENTENCE_WEIGHT, REQUEST_WORDS = 0.65, 0.2, 0.4
"""Equal those of ``palace_daemon.core.rank.fusion``, whose package takes long to import; a test compares them."""

_TRIVIAL = re.compile(r"\s*(?:/[\w:.-]+(?:\s|$)|[!#]|<(?:task-notification|command-|local-command|bash-))")
"""Slash commands, shell lines, notes to the agent's own memory, and what a program put in the place of a prompt."""


def answer(raw: bytes, *, event: str, agent: str, is_everywhere: bool, data_dir: str | None, deadline: float) -> str:
    """Return the JSON that a hook prints.

    Args:
        raw: What the agent wrote to standard input.
        event: A key of :data:`EVENTS`.
        agent: ``claude``, ``codex`` or ``cursor``.
        is_everywhere: Whether other projects are searched, too.
        data_dir: The daemon's data directory, if not the usual one.
        deadline: On :func:`time.monotonic`; no request is begun after it, none outlives it.

    Raises:
        PalaceError: The daemon cannot answer, or not in time; none runs, and one is being started.
        ValueError: The input is not what agents send.
    """
    # Of Unicode in any form, with a mark before it or without: shells of Windows pass on what they like best.
    told = json.loads(raw.decode(json.detect_encoding(raw), "replace"))
    if event not in EVENTS or agent not in {"claude", "codex", "cursor"} or not isinstance(told, dict):
        raise ValueError("not a hook that is known")
    if not wants_history(event, told):
        return NOTHING
    project = "" if is_everywhere else project_of(told)
    if not (project or is_everywhere):
        return NOTHING
    with _connected(data_dir) as client:
        asking = _Asking(client, deadline, project, _text(told, "session_id") or _text(told, "conversation_id"))
        block = asking.recent() if event == "session-start" else asking.relevant(_text(told, "prompt"))
    return as_printed(block, event=event, agent=agent)


def as_printed(text: str, *, event: str, agent: str) -> str:
    """Return a block in the form that ``agent`` takes; :data:`NOTHING` where it is empty."""
    if not text:
        return NOTHING
    if agent == "cursor":
        return json.dumps({"additional_context": text})
    return json.dumps({"hookSpecificOutput": {"hookEventName": EVENTS[event], "additionalContext": text}})


def wants_history(event: str, told: Mapping[str, Any]) -> bool:
    """Return whether there is anything to look for.

    A resumed session still holds what it was given; one that was cleared or compacted does not.
    """
    if event == "session-start":
        return told.get("source") != "resume"
    prompt = _text(told, "prompt")
    return not _TRIVIAL.match(prompt) and _words(prompt) >= WORDS_MIN


def _words(text: str) -> int:
    """Return the number of different words; of scripts that write none apart each character is one."""
    # No pattern for these scripts: compiling one takes longer than everything else that is done here.
    together = {char for char in text if "\u3040" <= char <= "\u9fff" or "\uac00" <= char <= "\ud7af"}
    return len(together) + len({word for word in text.lower().split() if together.isdisjoint(word)})


def project_of(told: Mapping[str, Any]) -> str:
    """Return the project that the agent works in, as the daemon names it; empty where it does not say."""
    roots = told.get("workspace_roots")
    root = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""
    cwd = _text(told, "cwd") or root
    return find_project(cwd, DiskFiles()) if os.path.isabs(cwd) else ""


def is_sure(hit: Mapping[str, Any]) -> bool:
    """Return whether a hit is likely about what the prompt is about; see the constants above."""
    parts = hit["parts"]
    words = parts.get("sentence", 0.0) / (SENTENCE_WEIGHT * (REQUEST_WORDS if "wish" in parts else 1.0))
    if "cosine" in parts:
        meaning = parts["cosine"] / COSINE_WEIGHT
        return bool(meaning >= MEANING_SURE or (meaning >= MEANING_SOME and words >= WORDS_AGREE))
    long_terms = sum(len(term) >= _LONG_TERM for term in hit["matchedTerms"])
    return bool(words >= WORDS_SURE and long_terms >= _LONG_TERMS_MIN)


def _text(told: Mapping[str, Any], name: str) -> str:
    value = told.get(name)
    return value if isinstance(value, str) else ""


@contextlib.contextmanager
def _connected(data_dir: str | None) -> Iterator[Client]:
    try:
        with Client(data_dir) as client:
            yield client
    except NotRunningError:
        start_in_background(data_dir)
        raise


class _Asking:
    """Requests of one hook, all before one deadline."""

    def __init__(self, client: Client, deadline: float, project: str, session: str) -> None:
        self._client = client
        self._deadline = deadline
        self._project = project
        self._session = session

    def relevant(self, prompt: str) -> str:
        """Return the exchanges that a prompt is about; empty where none surely is."""
        from palace_daemon.agents import block  # noqa: PLC0415 - not needed by most prompts

        params = {"query": prompt[:_QUERY_CHARS_MAX], "project": self._project, "limit": _LIMIT, "now": _now()}
        hits = [hit for hit in self._ask("palace/recall", params)["hits"] if self._is_ours(hit)]
        if not hits or not is_sure(hits[0]):
            return ""
        enough = hits[0]["score"] * _SCORE_SHARE
        shown = [hit for hit in hits if hit["score"] >= enough and is_sure(hit)]
        parts = block.of_hits(_one_each(shown)[:PROMPT_HITS_MAX], tokens_each=_HIT_TOKENS)
        return block.wrapped_within(MAX_TOKENS, parts)[0]

    def recent(self) -> str:
        """Return the newest sessions, each with its last exchange; empty where there are none."""
        from palace_daemon.agents import block  # noqa: PLC0415

        params = {"project": self._project, "limit": _SESSIONS_ASKED}
        sessions = [
            one
            for one in self._ask("palace/sessions", params)["sessions"]
            if self._is_ours(one) and not one["parentSessionId"] and not one["isAutomated"]
        ]
        parts = []
        for number, session in enumerate(sessions[:SESSIONS_MAX], 1):
            text = f"{session['exchanges']} exchanges, session {session['sessionId']}"
            heading = block.heading(number, session, session["title"], text)
            parts.append(f"{heading}\n{block.shortened(self._last_of(session), _EXCHANGE_TOKENS)}".rstrip())
        return block.wrapped_within(MAX_TOKENS, parts)[0] if parts else ""

    def _last_of(self, session: Mapping[str, Any]) -> str:
        """Return what was said last in a session, in this project: a question without words ranks by date."""
        params = {
            "query": "",
            "session": session["sessionId"],
            "project": self._project,
            "limit": _LIMIT,
            "fold": False,
            "now": _now(),
        }
        hits = self._ask("palace/recall", params)["hits"]
        return next(
            (hit["text"] for hit in hits if hit["sessionId"] == session["sessionId"] and self._is_ours(hit)), ""
        )

    def _ask(self, method: str, params: Mapping[str, Any]) -> Any:
        self._client.timeout_s = max(0.001, self._deadline - time.monotonic())
        return self._client.request(method, params)

    def _is_ours(self, item: Mapping[str, Any]) -> bool:
        """Return whether a hit or session is of this very project, and not of the session that asks.

        The daemon's filter also lets through projects inside this one.
        """
        return self._project in ("", item["project"]) and item["sessionId"] != self._session


def _one_each(hits: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the best hit of each exchange."""
    best: dict[str, Mapping[str, Any]] = {}
    for hit in hits:
        best.setdefault(hit["exchangeId"], hit)
    return list(best.values())


def _now() -> str:
    import datetime as dt  # noqa: PLC0415

    return dt.datetime.now().astimezone().isoformat(timespec="milliseconds")
