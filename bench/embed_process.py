"""A process of its own for one way to embed: how long a cold load takes, and how much memory is resident at most.

Run as ``python -m palace_daemon.bench.embed_process`` with a job on standard input. Nothing heavy is imported before
the clock runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def run(job: dict[str, Any], models_dir: Path, threads: int, texts: Sequence[str]) -> dict[str, float]:
    """Return ``loadMs`` and ``peakMb`` of a fresh process that does a job.

    Args:
        job: The fields of :class:`palace_daemon.bench.embed_rows.Job`; with none of them the runtime is loaded and
            nothing else.
        models_dir: Holds the models.
        threads: Threads that embed.
        texts: What it embeds, after ``loadMs``.

    Raises:
        subprocess.CalledProcessError: It failed.
    """
    asked = job | {"models_dir": str(models_dir), "threads": threads, "texts": list(texts)}
    done = subprocess.run(
        [sys.executable, "-m", "palace_daemon.bench.embed_process"],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
        # Texts may hold any script, whatever the locale says.
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> int:
    """Do the job on standard input, print what it took; returns 0."""
    asked = json.load(sys.stdin)
    load_ms = _do(asked)
    print(json.dumps({"loadMs": round(load_ms, 1), "peakMb": round(_peak_bytes() / 1e6, 1)}))
    return 0


def _do(asked: dict[str, Any]) -> float:
    """Return the milliseconds until the model could embed."""
    began = time.perf_counter()
    from palace_daemon.embed import comparison, minilm  # noqa: PLC0415 - importing is part of what is measured

    threads, texts = int(asked["threads"]), list(asked["texts"])
    if asked.get("model_id"):
        embedder = minilm.load(asked["model_id"], Path(asked["models_dir"]), threads=threads)
        load_ms = (time.perf_counter() - began) * 1000
        if texts:
            embedder.embed_passages(texts)
        embedder.close()
    elif asked.get("graph"):
        runner = comparison.FixedBatches(Path(asked["graph"]), threads=threads)
        load_ms = (time.perf_counter() - began) * 1000
        if texts:
            runner.embed(texts, batch_texts=int(asked["batch_texts"]), threads=threads)
        runner.close()
    else:
        comparison.runtime_version()
        load_ms = (time.perf_counter() - began) * 1000
    return load_ms


def _peak_bytes() -> int:
    """Return the most memory that was resident in this process; 0 where the platform does not tell."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        # Not the peak of getrusage: on Linux that begins with what the parent had when it forked.
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        pass
    try:
        import resource  # noqa: PLC0415 - absent on Windows
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    sys.exit(main())
