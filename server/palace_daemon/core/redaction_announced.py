"""Secrets that a fixed word or mark announces: labels, headers, URLs, key blocks, commands.

Invariant: each look takes a bounded number of steps from its anchor, or passes over a whole run in one step (possessive
repeats) that is then not looked at again. So time is linear in the text, however it is made.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterator

from palace_daemon.core import redaction_labels as labels
from palace_daemon.core.redaction_passwords import is_stand_in
from palace_daemon.core.redaction_values import is_mixed, is_placeholder, is_random, is_sample, is_template

Found = tuple[int, int, str]
"""Start, end and kind of a secret."""

Look = Callable[[str, int], tuple[Found | None, int]]
"""Looks at a text from an anchor; returns what it found, and where to go on (0: after the anchor)."""

_NOTHING: tuple[Found | None, int] = (None, 0)
_HEADER_REACH = 24  # characters between "authorization" and "bearer" in any notation of a header
_LONG_VALUE_CHARS = 64


def announced_secrets(text: str, data: bytes) -> Iterator[Found]:
    """Yield what words, in any case, and fixed marks announce in ``text``.

    Args:
        text: Where to look.
        data: ``text`` in Latin-1, with one byte for each character.
    """
    lowered = data.lower()
    for mark, looks in _LOOKS:
        if mark not in lowered:
            continue
        for anchor, look in looks:
            at = lowered.find(anchor)
            while at >= 0:
                found, taken = look(text, at)
                if found is not None:
                    yield found
                at = lowered.find(anchor, max(at + len(anchor), taken))


def _judged(match: re.Match[str], span: tuple[int, int], kind: str, *, is_secret: bool) -> tuple[Found | None, int]:
    """Return what was found, if it is a secret, and where to go on.

    A long value that is no secret is passed over: looking into it again from each word in it would take quadratic time.
    """
    if is_secret:
        return (*span, kind), span[1]
    return None, match.end() if span[1] - span[0] > _LONG_VALUE_CHARS else 0


# -------------------------------------------------------------------------------------------------- labels, headers


def _labelled(pattern: re.Pattern[str], capitals: re.Pattern[str] | None = None) -> Look:
    def look(text: str, at: int) -> tuple[Found | None, int]:
        match = (capitals if capitals and text[at : at + 3].isupper() else pattern).match(text, at)
        if match is None:
            return _NOTHING
        is_secret = labels.names_a_secret(match) and labels.is_secret_value(match)
        return _judged(match, labels.value_span(match), labels.kind_of(match), is_secret=is_secret)

    return look


def _labelled_key(text: str, at: int) -> tuple[Found | None, int]:
    return _AFTER_KEY(text, at) if labels.may_be_key(text, at) else _NOTHING


_AFTER_KEY = _labelled(labels.LABELLED["key"])
_BEARER = re.compile(r"bearer(?:\s|%20|\\?[\"'`]){1,4}([A-Za-z0-9._~+/=-]{8,}+)", re.IGNORECASE)
_BASIC = re.compile(r"basic\s{1,3}([A-Za-z0-9+/_-]{8,}+={0,2})", re.IGNORECASE)
_AUTHORIZATION = re.compile(
    r"authorization\\{0,3}[\"'`]?\s{0,3}[:=,]\s{0,3}\\{0,3}[\"'`]?(?:[A-Za-z-]{3,20} {1,2})?([A-Za-z0-9._~+/=:-]{8,}+)",
    re.IGNORECASE,
)
_AUTH_PAIR = re.compile(
    r"auth\\{0,3}[\"']?\s{0,2}[:=]\s{0,2}\\{0,3}[\"']?([A-Za-z0-9+/]{8,}+={0,2})", re.IGNORECASE
)  # .npmrc, docker's config.json


def _bearer(text: str, at: int) -> tuple[Found | None, int]:
    match = _BEARER.match(text, at)
    if match is None:
        return _NOTHING
    value = match.group(1)[:_LONG_VALUE_CHARS]
    is_header = "authorization" in text[max(0, at - _HEADER_REACH) : at].casefold()
    is_secret = is_random(value) or (is_header and any(map(str.isdigit, value)))
    return _judged(match, match.span(1), "bearer-token", is_secret=is_secret and not is_placeholder(value))


def _basic(text: str, at: int) -> tuple[Found | None, int]:
    match = _BASIC.match(text, at)
    if match is None:
        return _NOTHING
    return _judged(match, match.span(1), "basic-auth", is_secret=_is_pair(match.group(1)))


def _auth(text: str, at: int) -> tuple[Found | None, int]:
    match = _AUTHORIZATION.match(text, at)
    if match is not None:
        is_secret = is_random(match.group(1)) and not is_placeholder(match.group(1))
        return _judged(match, match.span(1), "authorization", is_secret=is_secret)
    match = _AUTH_PAIR.match(text, at)
    if match is None:
        return _NOTHING
    return _judged(match, match.span(1), "basic-auth", is_secret=_is_pair(match.group(1)))


def _is_pair(value: str) -> bool:
    """Return whether ``value`` is base64 of a name, a colon and a password."""
    head = value[:_LONG_VALUE_CHARS].rstrip("=")
    try:
        decoded = binascii.a2b_base64(head[: len(head) // 4 * 4])
    except ValueError:  # no base64, or a letter such as the dotless i, which is one of A to Z in any case
        return False
    return b":" in decoded[1:] and all(0x20 <= byte < 0x7F for byte in decoded)


_COOKIE = re.compile(
    r"cookie2?(?:\\{0,3}[\"'`])?\s{0,3}[:=,]\s{0,3}(?:\\{0,3}[\"'`])?([^\s\"'`\\;=]{1,80}=[^\r\n\"'`\\]{8,8192}+)",
    re.IGNORECASE,
)
_CRUMB = re.compile(r"[^;=]{1,80}=([^;\s]{16,}+)")


def _cookie(text: str, at: int) -> tuple[Found | None, int]:
    """Find the values of a cookie header, from the first secret one to the last."""
    match = _COOKIE.match(text, at)
    if match is None:
        return _NOTHING
    crumbs = [crumb.span(1) for crumb in _CRUMB.finditer(text, *match.span(1)) if _is_crumb(crumb[1])]
    if not crumbs:
        return None, match.end()
    return (crumbs[0][0], crumbs[-1][1], "cookie"), crumbs[-1][1]


def _is_crumb(value: str) -> bool:
    return is_random(value) and not is_placeholder(value)


# ------------------------------------------------------------------------------------------------------------- URLs

_WEBHOOKS = re.compile(
    r"://(?:hooks\.slack\.com/(?:services|workflows|triggers)/|hooks\.zapier\.com/hooks/catch/"
    r"|(?:[a-z]{1,10}\.)?discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/\d{1,20}/"
    r"|[a-z0-9-]{1,40}\.webhook\.office\.com/webhookb2/)([A-Za-z0-9/_@-]{16,300}+)"
)
_URL_PASSWORD = re.compile(r"://([^\s/?#:@'\"<>`]{0,128}):([^\s/?#'\"<>`]{1,256})@(?=[A-Za-z0-9\[$%{.-])")
_URL_STAND_IN = re.compile(r"(?:DB_?)?PASS(?:WORD|WD)?|PWD|\*+|x+|X+|\[[\w-]*\]|[({].*[)}]")
_SIGNATURE = re.compile(
    r"(?<=[?&;])(?:sig|x-amz-signature|x-goog-signature)=([A-Za-z0-9%+/_-]{32,}+(?:={1,2}(?![\w-]))?)", re.IGNORECASE
)


def _url(text: str, at: int) -> tuple[Found | None, int]:
    webhook = _WEBHOOKS.match(text, at)
    if webhook is not None:
        return _judged(webhook, webhook.span(1), "webhook", is_secret=not is_sample(webhook[1]))
    match = _URL_PASSWORD.match(text, at)
    if match is None:
        return _NOTHING
    is_secret = not is_template(match[2]) and not _URL_STAND_IN.fullmatch(match[2])
    return _judged(match, match.span(2), "url-password", is_secret=is_secret)


def _signature(text: str, at: int) -> tuple[Found | None, int]:
    start = max(text.rfind(char, max(0, at - len("?x-goog-")), at) for char in "?&;") + 1
    match = _SIGNATURE.match(text, start) if start else None
    return _judged(match, match.span(1), "url-signature", is_secret=True) if match else _NOTHING


# ------------------------------------------------------------------------------------------------------- key blocks

_PEM_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PEM_CHARS_MAX = 16_384  # an armoured 8192-bit key with headers is under 8 KiB; twice that for escapes and indentation
_PEM_HEAD_CHARS = 320  # a key's base64 starts so soon after its begin line; an encrypted key's headers take about 100
_PEM_BODY = re.compile(
    r"(?:(?:\\[nrt]|[\s>|*#\"'+,])*+"
    r"(?:(?:Proc-Type|DEK-Info|Version|Comment):[^\r\n\\]{0,100}|[A-Za-z0-9+/]{16,}+={0,2}))*+"
)
_PEM_LINE = re.compile(r"[A-Za-z0-9+/]{16,}")
_PEM_BETWEEN = re.compile(r"(?:\\[nrt]|[\\\s>|*#\"'+,])*+")
_PEM_TAIL = re.compile(
    r"(?:[nrt]\\|[\\\s>|*#\"'+,])*+(?:[A-Za-z0-9+/]{4}=(?:[nrt]\\|[\\\s>|*#\"'+,])++)?"
    r"(?:[A-Za-z0-9+/=]{1,15}+[\\\s>|*#\"'+,]++)?(?:={0,2}[A-Za-z0-9+/]{16,}+[\\\s>|*#\"'+,]*+)++"
)
"""What stands before an end line, read from it backwards: perhaps a checksum, perhaps a short line, then whole ones."""
_PUTTY = re.compile(r"private-lines: ?\d{1,3}((?:(?:\\[nr]|\s)++[A-Za-z0-9+/]{16,}+={0,2}){1,200}+)", re.IGNORECASE)


def _pem(text: str, at: int) -> tuple[Found | None, int]:
    """Find a private key up to its end line, or, where that is missing, as far as base64 goes on."""
    begin = _PEM_BEGIN.match(text, at)
    if begin is None:
        return _NOTHING
    reach = begin.end() + _PEM_CHARS_MAX
    following = text.find("-----BEGIN", begin.end(), reach)
    reach = following if following >= 0 else reach
    end = _PEM_END.search(text, begin.end(), reach)
    body = _PEM_BODY.match(text, begin.end(), reach)
    stop = end.end() if end else body.end() if body else begin.end()
    # Without base64 soon after it, the line belongs to words about a key, or to a template.
    is_key = _PEM_LINE.search(text, begin.end(), min(stop, begin.end() + _PEM_HEAD_CHARS)) is not None
    return _judged(begin, (at, stop), "private-key", is_secret=is_key)


def _pem_tail(text: str, at: int) -> tuple[Found | None, int]:
    """Find the rest of a private key before its end line, where its beginning stands in another text."""
    end = _PEM_END.match(text, at)
    if end is None:
        return _NOTHING
    # No look goes back behind the mark before it, so that many end lines take no longer than their texts are.
    mark = text.rfind("-----", max(0, at - _PEM_CHARS_MAX), at)
    before = text[mark + len("-----") if mark >= 0 else max(0, at - _PEM_CHARS_MAX) : at]
    tail = _PEM_TAIL.match(before[::-1])
    if tail is None:
        return _NOTHING
    between = _PEM_BETWEEN.match(text, at - tail.end(), at)
    start = between.end() if between else at - tail.end()
    return _judged(end, (start, end.end()), "private-key", is_secret=is_mixed(text[start:at]))


def _putty(text: str, at: int) -> tuple[Found | None, int]:
    match = _PUTTY.match(text, at)
    return _judged(match, match.span(1), "private-key", is_secret=True) if match else _NOTHING


# ---------------------------------------------------------------------------------------- commands, password files

_UNTIL_QUOTE = r"(?:(?!(?P=quote))(?:\\[^\r\n]|[^\\\r\n])){3,128}+(?=(?P=quote))"
_BARE = r"(?:[^\s\"'`|;&\\]|\\[^\sA-Za-z0-9\\\"'`]){3,128}+"
_ARGUMENT = rf"(?:(?P<quote>\\?[\"'])(?P<quoted>{_UNTIL_QUOTE})|(?P<bare>{_BARE}))"
_NAME = r"[^\s:\"'`\\$]{0,64}:"
_USER = (
    rf"(?:(?P<quote>\\?[\"']){_NAME}(?:(?P<quoted>{_UNTIL_QUOTE})|(?P<open>[^\s\"'\\]{{3,128}}+))"
    rf"|(?=[^\s\"'\\]){_NAME}[\"']?(?P<bare>{_BARE}))"
)
_BEFORE = r"[^\r\n|;&]{0,160}?"
_COMMANDS = {
    "mysql": rf"(?i:mysql)[a-z]{{0,6}}(?:\s[^\r\n|;&`]{{0,160}}?)?\s-p{_ARGUMENT}",
    # Only its own options may stand before it: behind them comes a command, with a -p of its own.
    "sshpass": r"(?i:sshpass)\s{1,4}"
    r"(?:-v\s{1,4}|-P\s{0,4}(?:\"[^\"\r\n]{0,40}\"|'[^'\r\n]{0,40}'|[^\s\"']{1,40})\s{1,4}){0,2}"
    rf"-p[ =]?{_ARGUMENT}",
    "curl ": rf"(?i:curl)\s(?:{_BEFORE}\s)?(?:-u|--user)[ =]{{0,3}}{_USER}",
    "docker login": rf"(?i:docker)\s(?i:login)\s(?:{_BEFORE}\s)?-p[ =]?{_ARGUMENT}",
    "redis-cli": rf"(?i:redis-cli)\s(?:{_BEFORE}\s)?-a[ =]?{_ARGUMENT}",
}
"""A command to the pattern from its name to the password on its line, which is the last group."""

_NO_PASSWORDS = frozenset(("pass", "test", "xxx", "yyy"))
_OTHER_OPTIONS = ("assword", "ort", "rotocol", "refix", "lugin")  # --password has a rule of its own


def _command(command: str) -> Look:
    pattern = re.compile(command)  # names may begin a sentence, but options differ in case: -P is a port

    def look(text: str, at: int) -> tuple[Found | None, int]:
        match = pattern.match(text, at)
        if match is None:
            return _NOTHING
        name = match.lastgroup or "bare"
        value = match[name]
        is_secret = not is_stand_in(value, is_bare=True) and value not in _NO_PASSWORDS
        is_secret = is_secret and not value.startswith(("-", "[", *_OTHER_OPTIONS))
        return _judged(match, match.span(name), "password", is_secret=is_secret)

    return look


_AZURE = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~-])")


def _azure(text: str, at: int) -> tuple[Found | None, int]:
    """Find a client secret of Azure's directory: the one issued form whose mark stands inside it."""
    match = _AZURE.match(text, at - 4) if at >= 4 else None
    return (
        _judged(match, match.span(), "azure-key", is_secret=is_mixed(match[0]) and not is_sample(match[0]))
        if match
        else _NOTHING
    )


# Apache's and bcrypt's forms, and those of the shadow file: what can be guessed at is no mere hash.
_PASSWORD_HASH = re.compile(
    r"\$(?:2[abxy]?\$\d\d\$[./A-Za-z0-9]{53}|apr1\$[./A-Za-z0-9]{1,8}\$[./A-Za-z0-9]{22}"
    r"|[156y]\$(?:rounds=\d{1,9}\$)?[./A-Za-z0-9$]{1,40}\$[./A-Za-z0-9]{22,86}"
    r"|argon2[a-z]{1,2}\$v=\d{1,3}\$[a-z0-9=,]{5,40}\$[A-Za-z0-9+/]{8,64}\$[A-Za-z0-9+/]{16,128})"
)


def _password_hash(text: str, at: int) -> tuple[Found | None, int]:
    match = _PASSWORD_HASH.match(text, at)
    return _judged(match, match.span(), "password-hash", is_secret=True) if match else _NOTHING


_LOOKS: tuple[tuple[bytes, tuple[tuple[bytes, Look], ...]], ...] = (
    (
        b"",
        (
            *(
                (anchor.encode(), _labelled(pattern, labels.LABELLED.get(anchor.upper())))
                for anchor, pattern in labels.LABELLED.items()
                if anchor.islower() and anchor != "key"
            ),
            (b"key", _labelled_key),
            (b"bearer", _bearer),
            (b"basic ", _basic),
            (b"auth", _auth),
            (b"cookie", _cookie),
        ),
    ),
    (b":", ((b"://", _url), (b"private-lines:", _putty))),
    (b"=", ((b"sig=", _signature), (b"signature=", _signature))),
    (b"---", ((b"-----begin", _pem), (b"-----end", _pem_tail))),
    (b" -", tuple((anchor.encode(), _command(command)) for anchor, command in _COMMANDS.items())),
    (b"~", ((b"q~", _azure),)),
    (b"$", tuple((anchor, _password_hash) for anchor in (b"$2", b"$apr1$", b"$6$", b"$argon2"))),
)
"""What announces a secret, in lower case, and how to look at it from there; grouped by what most texts lack."""

_KINDS = (
    "password secret token credential api-key bearer-token basic-auth authorization cookie webhook url-password"
    " url-signature private-key password-hash"
)
KINDS = frozenset(_KINDS.split())
"""What :func:`announced_secrets` may find."""
