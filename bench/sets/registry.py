"""The sets by name, as ``--set`` takes them."""

from __future__ import annotations

from palace_daemon.bench.sets.base import SetReader
from palace_daemon.bench.sets.beam import Beam
from palace_daemon.bench.sets.devmembench import DevMemBench
from palace_daemon.bench.sets.jsonlines import JsonLines
from palace_daemon.bench.sets.locomo import LoCoMo
from palace_daemon.bench.sets.longmemeval import LongMemEval
from palace_daemon.bench.sets.prefeval import PrefEval
from palace_daemon.errors import ConfigError

_ALL: tuple[SetReader, ...] = (
    LongMemEval(),
    LoCoMo(),
    Beam(),
    DevMemBench(),
    PrefEval(),
    JsonLines(),
    JsonLines("jsonl-exchange", "exchange"),
)

READERS: dict[str, SetReader] = {one.name: one for one in _ALL}
"""Every set that can be read."""


def reader(name: str) -> SetReader:
    """Return the reader of a set.

    Raises:
        ConfigError: There is no set of this name; the message lists the names.
    """
    if name not in READERS:
        raise ConfigError(f"no set is called {name}", hint=f"one of {', '.join(READERS)}")
    return READERS[name]
