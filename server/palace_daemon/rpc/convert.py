"""Model values to wire values, and wire parameters to model values.

Text that comes in is made valid UTF-8 here: a lone surrogate can be written in JSON, but neither stored nor matched.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from palace_daemon import model
from palace_daemon.rpc import wire, wire_models, wire_notes, wire_porting, wire_recall, wire_session
from palace_daemon.rpc.errors import BadParamsError

P = TypeVar("P", bound=wire.Params)
R = TypeVar("R", bound=wire.Result)
T = TypeVar("T")

FORGET_HITS = 10
"""Hits of a query to forget that names no limit: its own, since ``recall.limit`` may be set to hundreds."""
_PLAIN_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_ISO_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?(Z|z|[+-]\d{2}:?\d{2})?")
_SURROGATE = re.compile("[\ud800-\udfff]")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MS = dt.timedelta(milliseconds=1)
_DAY_MS = 86_400_000
_TIME_MS_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999, beyond which ISO strings have no four-digit year."""
_UNKNOWN = re.compile(r"unknown field `(?P<name>.+?)`(?: - at `\$(?P<at>.*)`)?$", re.DOTALL)
_MISSING = re.compile(r"required field `(?P<name>.+?)`(?: - at `\$(?P<at>.*)`)?$", re.DOTALL)
_AT = re.compile(r" - at `(?P<path>\$.*)`$", re.DOTALL)


# -------------------------------------------------------------------------------------------------------- parameters


def params_from_wire(raw: Any, kind: type[P]) -> P:
    """Validate ``raw``, the JSON value of ``params``; a missing or null one counts as an empty object.

    Raises:
        BadParamsError: A key is unknown or missing, or a value has the wrong type or range.
    """
    try:
        return _valid_text(msgspec.convert({} if raw is None else raw, kind))
    except msgspec.ValidationError as exc:
        message = str(exc)
        raise BadParamsError(message, path=_path_of(message)) from None
    except UnicodeEncodeError:  # of what it complains about it cannot say the name
        raise _no_text() from None


def options_from_wire(raw: Any) -> wire_session.InitializationOptions:
    """Validate ``initializationOptions``; what is no object is another program's, and counts as an empty one.

    Raises:
        BadParamsError: A key of ours has a value that it cannot have.
    """
    try:
        return msgspec.convert(raw if isinstance(raw, dict) else {}, wire_session.InitializationOptions)
    except msgspec.ValidationError as exc:
        path = _path_of(str(exc)).replace("$", "$.initializationOptions", 1)
        raise BadParamsError(str(exc), path=path) from None
    except UnicodeEncodeError:
        raise _no_text() from None


def recall_query(
    params: wire_recall.RecallParams, *, limit: int, clock_ms: int, local_offset_minutes: int
) -> model.RecallQuery:
    """Return the query that ``params`` asks.

    Args:
        params: What the caller sent.
        limit: Hits where the caller names no limit.
        clock_ms: Stands in for ``now`` where the caller gives none.
        local_offset_minutes: The zone that goes with ``clock_ms``.

    Raises:
        BadParamsError: A time cannot be read.
    """
    now, offset = clock_ms, local_offset_minutes
    if not isinstance(params.now, UnsetType):
        now, offset = now_from_wire(params.now)
    return model.RecallQuery(
        text=params.query,
        now=now,
        utc_offset_minutes=offset,
        project=params.project,
        agent=params.agent,
        session=params.session,
        since=time_from_wire(params.since, "since", offset),
        until=time_from_wire(params.until, "until", offset, ends_day=True),
        limit=limit if isinstance(params.limit, UnsetType) else params.limit,
        max_chars=_given(params.max_chars, None),
        max_tokens=_given(params.max_tokens, None),
        include_superseded=params.include_superseded,
        by_session=params.group_by_session,
        by_exchange=params.group_by_exchange,
        neighbours=params.neighbours,
        fold=params.fold,
    )


def forget_request(params: wire.ForgetParams, *, clock_ms: int, local_offset_minutes: int) -> model.ForgetRequest:
    """Return what ``params`` asks to forget.

    Raises:
        BadParamsError: There is no selector, one is empty, a limit is without a query, or a time cannot be read.
    """
    _check_selectors(params)
    if not isinstance(params.limit, UnsetType) and isinstance(params.query, UnsetType):
        raise BadParamsError("Expected a query beside the limit - at `$.limit`", path="$.limit")
    query = None
    if not isinstance(params.query, UnsetType):
        query = model.RecallQuery(
            text=params.query,
            now=clock_ms,
            utc_offset_minutes=local_offset_minutes,
            limit=FORGET_HITS if isinstance(params.limit, UnsetType) else params.limit,
            include_superseded=True,
        )
    return model.ForgetRequest(
        drawers=_given(params.drawers, ()),
        exchanges=_given(params.exchanges, ()),
        sessions=_given(params.sessions, ()),
        project=_given(params.project, ""),
        source=_given(params.source, ""),
        agent=_given(params.agent, ""),
        since=time_from_wire(params.since, "since", local_offset_minutes),
        until=time_from_wire(params.until, "until", local_offset_minutes, ends_day=True),
        query=query,
    )


_SELECTORS = ("drawers", "exchanges", "sessions", "project", "source", "agent", "since", "until", "query")


def _check_selectors(params: wire.ForgetParams) -> None:
    """Refuse a request without a selector, and each that is empty: an unset variable must not widen what goes."""
    given = {name: value for name in _SELECTORS if (value := getattr(params, name)) is not UNSET}
    if not given:
        raise BadParamsError(f"Expected at least one of {', '.join(_SELECTORS)} - at `$`", path="$")
    for name, value in given.items():
        parts = {f"$.{name}[{number}]": part for number, part in enumerate(value)} if isinstance(value, tuple) else {}
        for path, part in {f"$.{name}": value, **parts}.items():
            if isinstance(part, (str, tuple)) and not (part.strip() if isinstance(part, str) else part):
                raise BadParamsError(f"Expected a value: the selector is empty - at `{path}`", path=path)


def _given(value: T | UnsetType, empty: T) -> T:
    return empty if isinstance(value, UnsetType) else value


def forget_to_wire(report: model.ForgetReport) -> wire.ForgetResult:
    """Return the result of ``palace/forget``."""
    items = tuple(_copy(item, wire.WireForgetItem, started_at=time_to_wire(item.started_at)) for item in report.items)
    return _copy(report, wire.ForgetResult, items=items)


def note_to_wire(view: model.NoteView) -> wire_notes.WireNote:
    """Return a note."""
    return _copy(
        view,
        wire_notes.WireNote,
        created_at=time_to_wire(view.created_at),
        edited_at=time_to_wire(view.edited_at),
    )


def remembered_to_wire(view: model.NoteView, *, is_new: bool) -> wire_notes.RememberResult:
    """Return the result of ``palace/remember``."""
    return wire_notes.RememberResult(note=note_to_wire(view), is_new=is_new)


def export_to_wire(report: model.ExportReport) -> wire_porting.ExportResult:
    """Return the result of ``palace/export``."""
    return _copy(report, wire_porting.ExportResult)


def import_to_wire(report: model.ImportReport) -> wire_porting.ImportResult:
    """Return the result of ``palace/import``."""
    problems = tuple(_copy(problem, wire_porting.WireProblem) for problem in report.problems)
    return _copy(report, wire_porting.ImportResult, problems=problems)


def time_from_wire(
    value: wire.WireTime | UnsetType, name: str, offset_minutes: int, *, ends_day: bool = False
) -> int | None:
    """Return UTC epoch milliseconds, or None where the parameter ``name`` was left out.

    Args:
        value: Epoch milliseconds, an ISO 8601 time, or a plain date.
        name: The parameter, for the error.
        offset_minutes: Zone of a time or date that names none.
        ends_day: Whether a plain date stands for the end of its day instead of the beginning.

    Raises:
        BadParamsError: The value is no time, or lies outside the years 1970 to 9999.
    """
    if isinstance(value, UnsetType):
        return None
    if isinstance(value, int):
        return _checked(value, name)
    text = value.strip()
    if _PLAIN_DATE.fullmatch(text):
        begun = _checked(_read_iso(text, name, offset_minutes)[0], name)
        return min(begun + _DAY_MS, _TIME_MS_MAX) if ends_day else begun
    return _checked(_read_iso(text, name, offset_minutes)[0], name)


def now_from_wire(value: wire.WireTime) -> tuple[int, int]:
    """Return epoch milliseconds and the zone's offset in minutes; a bare number or date counts as UTC.

    Raises:
        BadParamsError: The value is no time.
    """
    if isinstance(value, int):
        return _checked(value, "now"), 0
    moment, offset = _read_iso(value.strip(), "now", 0)
    return _checked(moment, "now"), offset


def _read_iso(text: str, name: str, offset_minutes: int) -> tuple[int, int]:
    if not (_PLAIN_DATE.fullmatch(text) or _ISO_TIME.fullmatch(text)):
        raise _no_time(name)
    try:
        moment = dt.datetime.fromisoformat(text.replace("z", "Z"))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=dt.timezone(dt.timedelta(minutes=offset_minutes)))
        offset = moment.utcoffset() or dt.timedelta()
        return (moment - _EPOCH) // _MS, int(offset.total_seconds() // 60)
    except (ValueError, OverflowError):
        raise _no_time(name) from None


def _checked(milliseconds: int, name: str) -> int:
    if not 0 <= milliseconds <= _TIME_MS_MAX:
        raise _no_time(name)
    return milliseconds


def _no_text() -> BadParamsError:
    return BadParamsError("a name or a value holds a lone surrogate, which is no text - at `$`", path="$")


def _no_time(name: str) -> BadParamsError:
    return BadParamsError(
        f"Expected an ISO 8601 time, a date (YYYY-MM-DD) or epoch milliseconds, from 1970 to 9999 - at `$.{name}`",
        path=f"$.{name}",
    )


def _path_of(message: str) -> str:
    """Return the JSON path of the field that a validation message of msgspec complains about."""
    for pattern in (_UNKNOWN, _MISSING):
        if found := pattern.search(message):
            return f"${found['at'] or ''}.{found['name']}"
    found = _AT.search(message)
    return found["path"] if found else "$"


def _valid_text(params: P) -> P:
    """Replace lone surrogates in the strings of ``params`` by U+FFFD."""
    mended: dict[str, Any] = {}
    for name in params.__struct_fields__:
        value = getattr(params, name)
        if isinstance(value, str):
            mended[name] = _SURROGATE.sub("\ufffd", value)
        elif isinstance(value, tuple):
            mended[name] = tuple(_SURROGATE.sub("\ufffd", item) for item in value)
    return msgspec.structs.replace(params, **mended)


# ----------------------------------------------------------------------------------------------------------- results


def time_to_wire(milliseconds: int | None) -> str | None:
    """Return ``2026-03-04T09:12:31.000Z`` for UTC epoch milliseconds; None stays None."""
    if milliseconds is None:
        return None
    moment = _EPOCH + dt.timedelta(milliseconds=milliseconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def recall_to_wire(answer: model.RecallAnswer) -> wire_recall.RecallResult:
    """Return the result of ``palace/recall``."""
    return wire_recall.RecallResult(
        hits=tuple(map(_hit_to_wire, answer.hits)),
        sessions=tuple(
            _copy(
                session,
                wire_recall.WireSessionHits,
                started_at=time_to_wire(session.started_at),
                ended_at=time_to_wire(session.ended_at),
                hits=tuple(map(_hit_to_wire, session.hits)),
            )
            for session in answer.sessions
        ),
        totals=wire_recall.WireTotals(in_scope=answer.in_scope, matched=answer.matched),
        freshness=freshness_to_wire(answer.freshness),
        took_ms=answer.took_ms,
        is_cut=answer.is_cut,
        hits_left_out=answer.hits_left_out,
        projects_near=answer.projects_near,
    )


def _hit_to_wire(hit: model.Hit) -> wire_recall.WireHit:
    return _copy(
        hit,
        wire_recall.WireHit,
        started_at=time_to_wire(hit.started_at),
        also_in=tuple(
            _copy(place, wire_recall.WireAlsoIn, started_at=time_to_wire(place.started_at)) for place in hit.also_in
        ),
        neighbours=_neighbours_to_wire(hit.neighbours),
    )


def _neighbours_to_wire(neighbours: tuple[model.Neighbour, ...]) -> tuple[wire_recall.WireNeighbour, ...]:
    return tuple(_copy(one, wire_recall.WireNeighbour, started_at=time_to_wire(one.started_at)) for one in neighbours)


def freshness_to_wire(freshness: model.Freshness) -> wire_recall.WireFreshness:
    """Return the freshness block."""
    return _copy(
        freshness,
        wire_recall.WireFreshness,
        last_mined_at=time_to_wire(freshness.last_mined_at),
        coverage=_coverage_to_wire(freshness.coverage),
    )


def _coverage_to_wire(coverage: tuple[model.Coverage, ...]) -> tuple[wire_models.WireCoverage, ...]:
    return tuple(_copy(one, wire_models.WireCoverage) for one in coverage)


def embedding_to_wire(embedding: model.Embedding) -> wire_models.WireEmbedding:
    """Return how far the vectors are."""
    return _copy(embedding, wire_models.WireEmbedding, coverage=_coverage_to_wire(embedding.coverage))


def exchange_to_wire(view: model.ExchangeView) -> wire.WireExchange:
    """Return the result of ``palace/get``."""
    return _copy(
        view,
        wire.WireExchange,
        started_at=time_to_wire(view.started_at),
        ended_at=time_to_wire(view.ended_at),
        tools=tuple(_copy(tool, wire.WireToolUse) for tool in view.tools),
        provenance=tuple(_copy(place, wire.WireProvenance) for place in view.provenance),
        neighbours=_neighbours_to_wire(view.neighbours),
    )


def session_to_wire(view: model.SessionView) -> wire.WireSession:
    """Return one row of ``palace/sessions``."""
    return _copy(view, wire.WireSession, started_at=time_to_wire(view.started_at), ended_at=time_to_wire(view.ended_at))


def project_to_wire(view: model.ProjectView) -> wire.WireProject:
    """Return one row of ``palace/projects``."""
    return _copy(view, wire.WireProject, newest_at=time_to_wire(view.newest_at))


def source_to_wire(view: model.SourceView) -> wire.WireSource:
    """Return one row of ``palace/sources``."""
    return _copy(view, wire.WireSource)


def status_to_wire(status: model.Status) -> wire.StatusResult:
    """Return the result of ``palace/status``."""
    return _copy(
        status,
        wire.StatusResult,
        protocol_version=wire.PROTOCOL_VERSION,
        started_at=time_to_wire(status.started_at),
        last_mined_at=time_to_wire(status.last_mined_at),
        embedding=embedding_to_wire(status.embedding),
        watched=tuple(_copy(item, wire.WireWatched, found_at=time_to_wire(item.found_at)) for item in status.watched),
    )


def mine_to_wire(report: model.MineReport) -> wire.MineResult:
    """Return the result of ``palace/mine``, which is also what ``palace/didMine`` tells."""
    return _copy(report, wire.MineResult)


def model_to_wire(view: model.ModelView) -> wire.WireModel:
    """Return one row of ``palace/models``."""
    return _copy(view, wire.WireModel)


def progress_to_wire(progress: model.Progress) -> wire.ProgressValue:
    """Return the ``value`` of a ``$/progress`` report."""
    share = min(100, 100 * progress.done // progress.total) if progress.total > 0 else None
    if progress.share is not None:
        share = int(100 * progress.share)
    return wire.ProgressValue(
        kind="report",
        message=f"{progress.stage}: {progress.done:,} of {progress.total:,} {progress.unit}",
        percentage=share,
        stage=progress.stage,
        done=progress.done,
        total=progress.total,
        unit=progress.unit,
        eta_s=progress.eta_s,
    )


def _copy(value: Struct, kind: type[R], **changed: Any) -> R:
    """Fill ``kind`` from the fields of ``value`` that have the same names, and from ``changed``."""
    kept = {name: getattr(value, name) for name in kind.__struct_fields__ if name not in changed}
    return kind(**kept, **changed)
