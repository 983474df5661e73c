"""What a result was measured on."""

from __future__ import annotations

import os
import platform


def describe() -> str:
    """Return processor, cores and interpreter in one line; nothing that names the machine or its owner."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return f"{_processor()}, {cores} cores, Python {platform.python_version()}"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    flags = next((line for line in lines if line.startswith("flags")), "")
    known = [name for name in ("avx2", "avx512f", "avx_vnni", "avx512_vnni") if f" {name} " in f"{flags} "]
    return f"{model} ({', '.join(known) or 'no AVX2'})"
