"""Secrets out of texts, before anything is written.

What is replaced: keys in their issuers' published forms, bearer and basic authorisation, JSON web tokens, private keys
in PEM (unterminated ones too), passwords in URLs, signed URLs' signatures, values that a label calls a password,
secret, token or key and that look like one, and closed ``<private>`` blocks. What stays: hashes, UUIDs, ids, paths,
placeholders.

Pure functions, safe from any thread. Time is linear in the text; ordinary text costs two scans.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from palace_daemon.core import redaction_rules as rules

_PASSES_MAX = 8
_HEADER_REACH = 24  # characters between "authorization" and "bearer" in any notation of a header
_LONG_VALUE_CHARS = 64
_PRIVATE_OPEN, _PRIVATE_CLOSE = "<private>", "</private>"


class Finding(Struct, frozen=True, kw_only=True):
    """A secret in a text: characters ``[start, end)``. Holds no part of it."""

    start: int
    end: int
    kind: str
    """Such as ``github-token`` or ``url-password``; ``private`` for a block that the writer marked."""


_Look = Callable[[str, int], tuple[Finding | None, int]]
"""Looks at a text from an anchor; returns what it found, and where to go on (0: after the anchor)."""

_NOTHING: tuple[Finding | None, int] = (None, 0)


def redact(text: str) -> str:
    """Return ``text`` with each secret replaced by ``[redacted:kind]`` and each private block by ``[private]``.

    Redacting the result again changes nothing.
    """
    for _ in range(_PASSES_MAX):
        # A replacement can uncover a neighbour that was glued to it, so look until there is nothing left.
        findings = find(text)
        if not findings:
            break
        text = _replace(text, findings)
    return text


def find(text: str) -> list[Finding]:
    """Return the secrets in ``text`` in order; none overlap, those that did are merged under the first one's kind."""
    found: list[Finding] = []
    for search in _SEARCHES:
        found.extend(search(text))
    if len(found) < 2:
        return found
    found.sort(key=lambda finding: (finding.start, -finding.end))
    merged = [found[0]]
    for finding in found[1:]:
        last = merged[-1]
        if finding.start >= last.end:
            merged.append(finding)
        elif finding.end > last.end:
            merged[-1] = Finding(start=last.start, end=finding.end, kind=last.kind)
    return merged


def _replace(text: str, findings: list[Finding]) -> str:
    pieces: list[str] = []
    done = 0
    for finding in findings:
        pieces.append(text[done : finding.start])
        pieces.append("[private]" if finding.kind == "private" else f"[redacted:{finding.kind}]")
        done = finding.end
    pieces.append(text[done:])
    return "".join(pieces)


def _find_issued(text: str) -> Iterator[Finding]:
    # Most words are too short to be a key: leaving them out first halves the cost of looking for some seventy anchors.
    long_words = "\n".join([word for word in text.split() if len(word) >= rules.RUN_CHARS_MIN])
    anchors = [anchor for anchor in rules.ISSUED_ANCHORS if anchor in long_words] if long_words else []
    if not anchors:
        return
    for run in rules.RUN.finditer(text):
        word = run.group()
        if not any(anchor in word for anchor in anchors):
            continue
        for match in rules.ISSUED.finditer(text, run.start(), run.end()):
            kind, key = (match.lastgroup or "").replace("_", "-"), match.group()
            if not rules.is_sample(key) and (kind not in rules.UNSURE or rules.is_random(key)):
                yield Finding(start=match.start(), end=match.end(), kind=kind)


def _find_announced(text: str) -> Iterator[Finding]:
    """Find what words, in any case, and fixed marks announce."""
    # Of all characters only this one grows when lowered, and offsets must stay.
    lowered = text.replace("\u0130", "i").lower()
    for anchor, look in _LOOKS:
        if anchor in lowered:  # spares most texts the generator
            yield from _at_anchors(text, lowered, anchor, look)


def _at_anchors(text: str, haystack: str, anchor: str, look: _Look) -> Iterator[Finding]:
    """Call ``look`` wherever ``anchor`` stands, passing over what it took."""
    at = haystack.find(anchor)
    while at >= 0:
        finding, taken = look(text, at)
        if finding is not None:
            yield finding
        at = haystack.find(anchor, max(at + len(anchor), taken))


def _judged(match: re.Match[str], span: tuple[int, int], kind: str, *, is_secret: bool) -> tuple[Finding | None, int]:
    """Return the finding, if it is one, and where to go on.

    A long value that is no secret is passed over: looking into it again from each word in it would take quadratic time.
    """
    if is_secret:
        return Finding(start=span[0], end=span[1], kind=kind), span[1]
    return None, match.end() if span[1] - span[0] > _LONG_VALUE_CHARS else 0


def _labelled(text: str, at: int) -> tuple[Finding | None, int]:
    match = rules.LABELLED.match(text, at)
    if match is None:
        return _NOTHING
    label = match["label"].casefold()
    kind = "password" if label.startswith(rules.PASSWORD_LABELS) else "api-key" if label.endswith("key") else label
    is_secret = rules.names_a_secret(match) and rules.is_secret_value(match)
    return _judged(match, rules.labelled_value(match), kind, is_secret=is_secret)


def _bearer(text: str, at: int) -> tuple[Finding | None, int]:
    match = rules.BEARER.match(text, at)
    if match is None:
        return _NOTHING
    value = match.group(1)[:_LONG_VALUE_CHARS]
    is_header = "authorization" in text[max(0, at - _HEADER_REACH) : at].casefold()
    is_secret = rules.is_random(value) or (is_header and any(map(str.isdigit, value)))
    return _judged(match, match.span(1), "bearer-token", is_secret=is_secret and not rules.is_placeholder(value))


def _basic(text: str, at: int) -> tuple[Finding | None, int]:
    match = rules.BASIC.match(text, at)
    if match is None:
        return _NOTHING
    head = match.group(1)[:_LONG_VALUE_CHARS].rstrip("=")
    try:
        decoded = binascii.a2b_base64(head[: len(head) // 4 * 4])
    except binascii.Error:
        return _NOTHING
    is_pair = b":" in decoded[1:] and all(0x20 <= byte < 0x7F for byte in decoded)
    return _judged(match, match.span(1), "basic-auth", is_secret=is_pair)


def _authorization(text: str, at: int) -> tuple[Finding | None, int]:
    match = rules.AUTHORIZATION.match(text, at)
    if match is None:
        return _NOTHING
    is_secret = rules.is_random(match.group(1)) and not rules.is_placeholder(match.group(1))
    return _judged(match, match.span(1), "authorization", is_secret=is_secret)


def _signature(text: str, at: int) -> tuple[Finding | None, int]:
    start = max(text.rfind(char, max(0, at - len("?x-goog-")), at) for char in "?&;") + 1
    match = rules.SIGNATURE.match(text, start) if start else None
    return _judged(match, match.span(1), "url-signature", is_secret=True) if match else _NOTHING


def _url_password(text: str, at: int) -> tuple[Finding | None, int]:
    match = rules.URL_PASSWORD.match(text, at)
    if match is None:
        return _NOTHING
    return _judged(match, match.span(2), "url-password", is_secret=not rules.is_template(match.group(2)))


def _webhook(text: str, at: int) -> tuple[Finding | None, int]:
    match = rules.WEBHOOK.match(text, at)
    return _judged(match, match.span(1), "webhook", is_secret=True) if match else _NOTHING


def _pem(text: str, at: int) -> tuple[Finding | None, int]:
    """Find a private key up to its end line, or, where that is missing, as far as base64 goes on."""
    begin = rules.PEM_BEGIN.match(text, at)
    if begin is None:
        return _NOTHING
    reach = begin.end() + rules.PEM_CHARS_MAX
    following = text.find("-----BEGIN", begin.end(), reach)
    reach = following if following >= 0 else reach
    end = rules.PEM_END.search(text, begin.end(), reach)
    body = rules.PEM_BODY.match(text, begin.end(), reach)
    stop = end.end() if end else body.end() if body else begin.end()
    # Without base64 soon after it, the line belongs to words about a key, or to a template.
    is_key = rules.PEM_LINE.search(text, begin.end(), min(stop, begin.end() + rules.PEM_HEAD_CHARS)) is not None
    return _judged(begin, (at, stop), "private-key", is_secret=is_key)


def _find_private(text: str) -> Iterator[Finding]:
    start = text.find(_PRIVATE_OPEN)
    while start >= 0:
        end = text.find(_PRIVATE_CLOSE, start)
        if end < 0:
            return
        end += len(_PRIVATE_CLOSE)
        yield Finding(start=start, end=end, kind="private")
        start = text.find(_PRIVATE_OPEN, end)


_LOOKS: tuple[tuple[str, _Look], ...] = (
    *((anchor, _labelled) for anchor in rules.LABEL_ANCHORS),
    ("bearer", _bearer),
    ("basic ", _basic),
    ("authorization", _authorization),
    ("sig=", _signature),
    ("signature=", _signature),
    ("://", _url_password),
    ("hooks.slack.com/", _webhook),
    ("/api/webhooks/", _webhook),
    ("-----begin", _pem),
)
"""What announces a secret, in lower case, and how to look at it from there."""

_SEARCHES: tuple[Callable[[str], Iterator[Finding]], ...] = (_find_private, _find_issued, _find_announced)
