"""Secrets out of texts, before anything is written.

What is replaced: keys in their issuers' published forms, bearer and basic authorisation, cookies, JSON web tokens,
private keys in PEM (unterminated ones too), passwords in URLs and commands, signed URLs' signatures, values that a
label calls a password, secret, token or key and that look like one, and ``<private>`` blocks. What stays: hashes,
UUIDs, ids, paths, placeholders. ``docs/secrets.md`` has the whole list and what was measured.

Pure functions, safe from any thread. Time is linear in the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from palace_daemon.core import redaction_announced, redaction_issued
from palace_daemon.core.redaction_private import private_blocks

_PASSES_MAX = 8
_PRIVATE = "private"
_PLACEHOLDER = re.compile(r"\[redacted:([a-z0-9-]{2,32})\]")

KINDS = frozenset({_PRIVATE}) | redaction_announced.KINDS | redaction_issued.KINDS
"""The labels that a placeholder may carry."""


class Finding(Struct, frozen=True, kw_only=True):
    """A secret in a text: characters ``[start, end)``. Holds no part of it."""

    start: int
    end: int
    kind: str
    """Such as ``github-token`` or ``url-password``; ``private`` for a block that the writer marked."""


def redact(text: str) -> str:
    """Return ``text`` with each secret and each private block replaced by ``[redacted:kind]``.

    Redacting the result again changes nothing.
    """
    for _ in range(_PASSES_MAX):
        # A replacement can uncover a neighbour that was glued to it, so look until there is nothing left.
        findings = find(text)
        if not findings:
            break
        text = _replace(text, findings)
    return text


def redact_issued(text: str) -> str:
    """Return ``text`` with each key in an issuer's form replaced, web tokens among them; what needs context stays.

    Such a key stands in one word. So where ``text`` was put together from texts that :func:`redact` gave, nothing is
    replaced, while marks and labels in two of them could be taken for one secret.
    """
    for _ in range(_PASSES_MAX):
        keys = redaction_issued.issued_keys(text, text.encode("latin-1", "replace"))
        findings = [Finding(start=start, end=end, kind=kind) for start, end, kind in keys]
        if not findings:
            break
        text = _replace(text, findings)
    return text


def find(text: str) -> list[Finding]:
    """Return the secrets in ``text`` in order; none overlap, those that did are merged under the first one's kind."""
    data = text.encode("latin-1", "replace")  # one byte for each character, so that offsets are the same
    found = [(start, end, _PRIVATE) for start, end in private_blocks(text)] if "<" in text else []
    found.extend(redaction_issued.issued_keys(text, data))
    found.extend(redaction_announced.announced_secrets(text, data))
    if not found:
        return []
    found.sort(key=lambda one: (one[0], -one[1]))
    merged = [found[0]]
    for start, end, kind in found[1:]:
        last_start, last_end, last_kind = merged[-1]
        if start >= last_end:
            merged.append((start, end, kind))
        elif end > last_end:
            merged[-1] = (last_start, end, last_kind)
    return [Finding(start=start, end=end, kind=kind) for start, end, kind in merged]


def count(texts: Iterable[str]) -> dict[str, int]:
    """Return how many placeholders of each kind stand in ``texts``, sorted by kind."""
    counts: Counter[str] = Counter()
    for text in texts:
        if "[redacted:" in text:
            counts.update(kind for kind in _PLACEHOLDER.findall(text) if kind in KINDS)
    return dict(sorted(counts.items()))


def _replace(text: str, findings: list[Finding]) -> str:
    pieces: list[str] = []
    done = 0
    for finding in findings:
        pieces += (text[done : finding.start], f"[redacted:{finding.kind}]")
        done = finding.end
    pieces.append(text[done:])
    return "".join(pieces)
