"""Answers and exchanges for people; see :mod:`palace_daemon.cli.show`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from palace_daemon.cli.show import (
    SNIPPET_LINES,
    Whole,
    clean,
    count,
    cut,
    fold,
    local_time,
    one_line,
    paint,
    place,
    print_pairs,
    snippet,
    tilde,
    width,
)

PART_MEANINGS = {
    "bm25": "words of the question in it, rare ones above all",
    "cosine": "how near it is to the question in meaning",
    "statement": "what its user states, or it as a whole, if nearer",
    "sentence": "how much of the question stands in one sentence",
    "wish": "a standing wish of its user that bears on the request",
    "date": "how well its date fits the time that is asked about",
}
"""Part of a score to what it is."""
_INSIDE_LINES = 3
_ALSO_SHOWN = 3


def print_recall(result: Mapping[str, Any], *, is_explained: bool) -> None:
    """Print hits, or sessions with the hits inside, best first, and what was left out of the search."""
    sessions = result["sessions"]
    for rank, session in enumerate(sessions, 1):
        _print_session(rank, session, is_explained=is_explained)
    for rank, hit in enumerate(() if sessions else result["hits"], 1):
        _print_hit(rank, hit, is_explained=is_explained)
    totals, shown = result["totals"], len(result["hits"])
    scope = count(totals["inScope"], "drawer")
    if not shown:
        print(f"nothing found among {scope}")
    else:
        what = f"{count(len(sessions), 'session')}, {shown}" if sessions else str(shown)
        line = f"{what} of {scope} in scope, {totals['matched']:,} with words of the question"
        print(paint(f"{line}; {result['tookMs']:.0f} ms", "dim"))
    if result["isCut"]:
        print(paint(_cut_line(result["hitsLeftOut"]), "dim"))
    for line in freshness_lines(result["freshness"], is_explained=is_explained):
        print(paint(line, "dim"))


def print_block(result: Mapping[str, Any], max_tokens: int | None) -> None:
    """Print hits as the block that agents are given, which is never mined again; nothing where there are none.

    With ``max_tokens`` the whole block takes no more, estimated; hits at its end may be left out then.
    """
    from palace_daemon.agents import block  # noqa: PLC0415 - other answers need none of it

    if result["hits"]:
        parts = block.of_hits(result["hits"])
        print(block.wrap(*parts) if max_tokens is None else block.wrapped_within(max_tokens, parts)[0])


def _cut_line(hits_left_out: int) -> str:
    """Return what a budget left out."""
    if hits_left_out:
        return f"the budget ended the list; {count(hits_left_out, 'further hit')} did not fit"
    return "the budget left out neighbours"


def _print_session(rank: int, session: Mapping[str, Any], *, is_explained: bool) -> None:
    columns = width()
    what = [session["agent"], tilde(session["project"]) or "no project"]
    print(paint(cut(f"{rank:>2}  {session['score']:.3f}  {'  '.join(what)}", columns), "bold"))
    print("    " + one_line(session["title"] or "untitled", columns - 4))
    print("    " + _span(session))
    print("    " + paint(f"session {clean(session['sessionId'])}", "dim"))
    for hit in session["hits"]:
        print(f"\n    {hit['score']:.3f}  {local_time(hit['startedAt'])}")
        print("      " + paint(place(hit["path"], hit["lineStart"], hit["lineEnd"]), "cyan"))
        _print_body(hit, "      ", _INSIDE_LINES, is_explained=is_explained)
    print()


def _span(session: Mapping[str, Any]) -> str:
    """Return beginning and end of a session, the day once where it is one."""
    start, end = local_time(session["startedAt"]), local_time(session["endedAt"])
    day, _, time_of_day = end.partition(" ")
    return start if start == end else f"{start} to {time_of_day if start.startswith(day) else end}"


def _print_hit(rank: int, hit: Mapping[str, Any], *, is_explained: bool) -> None:
    columns = width()
    what = [hit["agent"], tilde(hit["project"]) or "no project", local_time(hit["startedAt"])]
    print(paint(cut(f"{rank:>2}  {hit['score']:.3f}  {'  '.join(what)}", columns), "bold"))
    if hit["sessionTitle"]:
        print("    " + one_line(hit["sessionTitle"], columns - 4))
    print("    " + paint(place(hit["path"], hit["lineStart"], hit["lineEnd"]), "cyan"))
    _print_body(hit, "    ", SNIPPET_LINES, is_explained=is_explained)
    print()


def _print_body(hit: Mapping[str, Any], indent: str, lines: int, *, is_explained: bool) -> None:
    """Print what is below the heading of a hit."""
    columns = width() - len(indent)
    if is_explained:
        _print_parts(hit, indent)
    _print_short([one for one in hit["neighbours"] if one["relation"] < 0], indent)
    for line in snippet(hit["text"], hit["matchedTerms"], columns, lines):
        print(indent + line)
    _print_short([one for one in hit["neighbours"] if one["relation"] > 0], indent)
    if hit["alsoInCount"]:
        print(indent + paint(cut(_also(hit), columns), "dim"))
    print(indent + paint(f"id {hit['drawerId']}", "dim"))


def _print_parts(hit: Mapping[str, Any], indent: str) -> None:
    """Print the parts of a score that are not 0, the largest first, each with what it is."""
    columns = width() - len(indent)
    parts = {name: value for name, value in hit["parts"].items() if value}
    what = "is the sum of" if parts else "since nothing in it fits the question"
    print(indent + paint(f"{hit['score']:.4f} {what}", "green"))
    for name, value in sorted(parts.items(), key=lambda item: (-abs(item[1]), item[0])):
        print(indent + paint(cut(f"{value:.4f}  {name:<9}  {PART_MEANINGS.get(name, '')}".rstrip(), columns), "green"))
    terms = ", ".join(hit["matchedTerms"]) or "none"
    for line in fold(f"matched words: {terms}", columns):
        print(indent + paint(line, "green"))


def _print_short(neighbours: Sequence[Mapping[str, Any]], indent: str) -> None:
    """Print neighbours on a line or two each."""
    columns = width() - len(indent)
    for one in neighbours:
        texts = [f"> {one['userText']}"] * bool(one["userText"]) + [one["replyText"]] * bool(one["replyText"])
        for mark, text in zip((f"{one['relation']:+d}", "  "), texts, strict=False):
            print(indent + paint(f"{mark}  {one_line(text, columns - 4)}", "dim"))


def _also(hit: Mapping[str, Any]) -> str:
    """Return where else the same was said."""
    places = [f"{local_time(one['startedAt'])} ({one['exchangeId'][:8]})" for one in hit["alsoIn"][:_ALSO_SHOWN]]
    more = hit["alsoInCount"] - len(places)
    return f"the same: {', '.join(places)}" + (f" and {more:,} more" if more > 0 else "")


def freshness_lines(freshness: Mapping[str, Any], *, is_explained: bool = False) -> list[str]:
    """Return what a reader must know of an answer that is not complete; explained, also which model answered."""
    lines = []
    if freshness["sourcesPending"]:
        lines.append(f"not complete: {count(freshness['sourcesPending'], 'file')} still to be mined")
    if freshness["vectorsReason"]:
        lines.append(f"meaning: {clean(freshness['vectorsReason'])}")
    elif freshness["vectorsPending"]:
        lines.append(f"not complete: {count(freshness['vectorsPending'], 'text')} still without a vector")
    models = freshness.get("coverage", ())
    if is_explained or any(one["role"] == "next" for one in models):
        lines += [f"vectors, {one['role']}: {covered(one)}" for one in models]
    return lines


def covered(one: Mapping[str, Any]) -> str:
    """Return how much of the store one model covers."""
    return f"{one['space']}, {one['vectors']:,} of {count(one['texts'], 'text')}"


def print_exchange(exchange: Mapping[str, Any]) -> None:
    """Print one exchange whole: what it is, the user's words, the reply; in short what stands around it."""
    where = tilde(exchange["project"]) or "no project"
    pairs = [
        ("exchange", Whole(exchange["exchangeId"])),
        ("session", Whole(exchange["sessionId"])),
        ("title", one_line(exchange["sessionTitle"], 200) or "untitled"),
        ("from", f"{exchange['agent']}, {where}, {local_time(exchange['startedAt'])}"),
    ]
    spots = exchange["provenance"]
    print_pairs(pairs + [("in", Whole(place(spot["path"], spot["lineStart"], spot["lineEnd"]))) for spot in spots])
    before = [one for one in exchange["neighbours"] if one["relation"] < 0]
    after = [one for one in exchange["neighbours"] if one["relation"] > 0]
    _print_neighbours(before)
    print()
    for line in clean(exchange["userText"]).split("\n"):
        print(paint(f"> {line}".rstrip(), "bold"))
    print()
    print(clean(exchange["replyText"]))
    _print_neighbours(after)


def _print_neighbours(neighbours: Sequence[Mapping[str, Any]]) -> None:
    for one in neighbours:
        heading = f"{one['relation']:+d}  {local_time(one['startedAt'])}  id {one['exchangeId']}"
        print("\n" + paint(cut(heading, width()), "dim"))
        for text in filter(None, (one["userText"] and f"> {one['userText']}", one["replyText"])):
            for line in fold(text, width() - 4):
                print(paint(f"    {line}".rstrip(), "dim"))
