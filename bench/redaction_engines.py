"""Finders of secrets to compare: the daemon's own rules, and libraries where they can be imported.

The libraries are no dependencies of Palace. To have their rows, install them in an environment of their own and put its
packages on ``PYTHONPATH``.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from palace_daemon import __version__
from palace_daemon.core import redaction


class Finding(NamedTuple):
    """What an engine reports: the rule that fired, and the text that it would hide."""

    rule: str
    value: str


class Engine(NamedTuple):
    """Something that finds secrets in a text."""

    name: str
    version: str
    find: Callable[[str], list[Finding]]


def engines() -> tuple[list[Engine], list[str]]:
    """Return the engines that can be used here, our own first, and the names of libraries that are not installed."""
    found = [Engine("palace", __version__, _palace)]
    absent = []
    for name, load in {"detect-secrets": _detect_secrets, "pybetterleaks": _betterleaks}.items():
        try:
            found.append(Engine(name, importlib.metadata.version(name), load()))
        except ImportError:  # PackageNotFoundError is one
            absent.append(name)
    return found, absent


def _palace(text: str) -> list[Finding]:
    return [Finding(one.kind, text[one.start : one.end]) for one in redaction.find(text)]


def _detect_secrets() -> Callable[[str], list[Finding]]:
    """Load Yelp's scanner with its own plugins and filters; it reads files, line by line."""
    collections: Any = importlib.import_module("detect_secrets.core.secrets_collection")
    settings: Any = importlib.import_module("detect_secrets.settings")
    logging.getLogger("detect_secrets").setLevel(logging.CRITICAL)
    folder = tempfile.TemporaryDirectory(prefix="palace-bench-")
    path = Path(folder.name) / "text.txt"

    def find(text: str, _keep: object = folder) -> list[Finding]:
        path.write_text(text, encoding="utf-8", errors="replace")
        with settings.default_settings():
            secrets = collections.SecretsCollection()
            secrets.scan_file(str(path))
        return [Finding(secret.type, secret.secret_value or "") for _, secret in secrets]

    return find


def _betterleaks() -> Callable[[str], list[Finding]]:
    """Load the bindings to the successor of gitleaks, with that family's rules; no key is ever tried out."""
    library: Any = importlib.import_module("pybetterleaks")

    def find(text: str) -> list[Finding]:
        result = library.scan_text(text, redact=False, validation=False, raise_on_error=True)
        return [Finding(one.rule_id, one.secret or "") for one in result.findings]

    return find
