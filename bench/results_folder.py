"""The folder that ``--out`` names, and what is written there."""

from __future__ import annotations

from pathlib import Path

from palace_daemon.errors import ConfigError


def make(folder: Path) -> None:
    """Make the folder.

    Raises:
        ConfigError: It cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise ConfigError(f"cannot make {folder}: {exc.strerror}") from exc


def write(path: Path, text: str) -> None:
    """Write one result.

    Raises:
        ConfigError: It cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise ConfigError(f"cannot write to {path.parent}: {exc.strerror}") from exc
