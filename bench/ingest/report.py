"""What a run of ``--bench ingest`` is shown as."""

from __future__ import annotations

from typing import Any

_NAME_WIDTH = 44


def table(report: dict[str, Any]) -> str:
    """Return the figures as text."""
    lines = [
        (
            f"{report['archiveMb']:,.1f} MB in {report['files']:,} transcripts ({report['copies']} copies of"
            f" {report['originFiles']}), {report['exchanges']:,} exchanges, {report['distinctTexts']:,} distinct texts"
            f" to embed; {report['machine']}"
        ),
        "",
        f"{'':<{_NAME_WIDTH}}{'all':>10}{'1st third':>11}{'last third':>11}{'last/first':>12}",
        _rates("read, MB a second", report["mbPerSecond"]),
        _rates("read, exchanges a second", report["exchangesPerSecond"]),
    ]
    if pace := report["vectors"]["textsPerSecond"]:
        lines.append(_rates("embedded after that, texts a second", pace))
    rss = report["rssMb"]
    lines.append(
        f"{'resident memory while reading, MB':<{_NAME_WIDTH}}{_number(report['rssPeakMb'])}"
        f"{_number(rss['firstThird'], 11)}{_number(rss['lastThird'], 11)}   (all: the peak)"
    )
    lines += ["", *_times(report), *_etas(report), *_restart(report), *_profile(report.get("profile"))]
    return "\n".join(lines)


def _rates(name: str, found: dict[str, Any]) -> str:
    cells = _number(found["all"]) + _number(found["firstThird"], 11) + _number(found["lastThird"], 11)
    return f"{name:<{_NAME_WIDTH}}{cells}{_number(found['lastToFirst'], 12, 2)}"


def _times(report: dict[str, Any]) -> list[str]:
    found = report["vectors"]
    how = "extrapolated from the sample" if found["isExtrapolated"] else "measured"
    lines = [
        _line("all recallable by words", report["wordsSeconds"], "s"),
        _line("  1 GB at this rate", report["gbHoursToWords"], "h"),
        _line("  cores busy until then, embedding included", report["wordsCoresBusy"], "", 2),
        _line(f"all with vectors ({how})", found["secondsInAll"], "s"),
        _line("  1 GB at this rate", found["gbHours"], "h"),
        _line("  sample: texts embedded after the reading", found["sample"], f"in {found['sampleSeconds']:.1f} s", 0),
    ]
    for name, key in (("reading", "recallWhileMining"), ("embedding", "recallWhileEmbedding")):
        one = report[key]
        lines.append(_line(f"recall while {name}, p50", one["p50"], f"ms   p95 {one['p95']:.1f} ms, n {one['n']}"))
    size = f"MB   ({report['databaseToArchive']:.3f} of the archive)"
    lines.append(_line("database, with the vectors so far", report["databaseMb"], size))
    lines.append(_line("write-ahead log, most", report["walMaxMb"], "MB"))
    return lines


def _etas(report: dict[str, Any]) -> list[str]:
    lines = [
        _line(
            f"time left to read, told at {row['share']:.0%}",
            row["toldS"],
            f"s   was {row['wasS']:.1f} s: {row['toldToWas']:.2f} of it, {row['filesDone']:.0%} of the files done",
        )
        for row in report["eta"]
        if row["toldToWas"] is not None
    ]
    found = report["vectors"]
    if found["etaToldToIt"] is not None:
        came_to = f"s   {found['secondsLeft']:.1f} s by the sample: {found['etaToldToIt']:.2f} of it"
        lines.append(_line("time left to embed, told after the reading", found["etaTold"], came_to))
    return lines


def _restart(report: dict[str, Any]) -> list[str]:
    found = report["restart"]
    if found is None:
        return []
    return [
        _line("restart after", found["atMb"], f"MB   {found['downS']:.1f} s until the next daemon answered"),
        _line("  done twice: exchanges", found["exchangesAddedAgain"], "", 0),
        _line("  done twice: vectors", found["vectorsAddedAgain"], "", 0),
    ]


def _profile(found: dict[str, Any] | None) -> list[str]:
    if found is None:
        return []
    lines = [
        "",
        (
            f"where the CPU time goes, {found['megabytes']:.1f} MB in a process of its own"
            f" ({found['embedded']} of {found['texts']:,} texts embedded)"
        ),
        f"{'':<{_NAME_WIDTH}}{'CPU s':>10}{'of all':>11}{'of words':>11}",
    ]
    for row in found["stages"]:
        words = f"{row['shareOfWords']:>11.1%}" if "shareOfWords" in row else ""
        lines.append(f"{row['stage']:<{_NAME_WIDTH}}{row['cpuSeconds']:>10.2f}{row['share']:>11.1%}{words}")
    lines.append(
        f"parsing ahead of the writing could save at most {found['parseShareOfWords']:.0%} of the time to words;"
        f" embedding takes {found['embedToWords']:.1f} times their CPU time"
    )
    return lines


def _line(name: str, value: float | None, unit: str, digits: int = 1) -> str:
    return f"{name:<{_NAME_WIDTH}}{_number(value, 10, digits)} {unit}".rstrip()


def _number(value: float | None, width: int = 10, digits: int = 1) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:>{width},.{digits}f}"
