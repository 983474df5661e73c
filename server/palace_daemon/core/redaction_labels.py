"""Secrets that a label announces: ``password=``, ``"api_key": ``, ``--token``, ``CLIENT_SECRET:`` and the like.

Invariant: from each label a pattern takes a bounded number of steps, or a whole value in one step (possessive repeats).
"""

from __future__ import annotations

import re

from palace_daemon.core.redaction_values import (
    is_password,
    is_placeholder,
    is_random,
    is_seed,
    is_uuid,
)

_OWNER_WORDS = (
    "access account admin api app application auth aws azure client consumer deploy encryption hmac jwt license master"
    " private secret service session shared signing ssh storage subscription webhook write"
)
_TYPES = (
    r"(?:\?|!)?\s{0,2}:\s{0,2}(?:str|string|String|&str|SecretStr|bytes|Optional\[str\]|str \| None|any)\s{0,2}(?==)"
)
_SEPARATOR = (
    r"(?P<separator>\s{0,8}(?:=>|:{1,3}=|\?=|={1,3}|:)\s{0,8}|[ \t]{1,2}(?:is|was)(?:[ \t]{1,2}|:[ \t]?)|>|[ \t]{1,2})"
)
_VALUE = (
    r"(?:[fbrFBR](?=[\"']))?(?:"
    r'"(?P<double>[^"\\\r\n]{6,4096}+)"'
    r"|'(?P<single>[^'\\\r\n]{6,4096}+)'"
    r"|`(?P<backtick>[^`\\\r\n]{6,4096}+)`"
    r'|\\{1,3}"(?P<escaped>[^"\\\r\n]{6,4096}+)\\{1,3}"'
    r"|(?P<bare>(?:[^\s\"'`,;<>(){}\[\]|&\\=]|&(?![\w-]{1,40}=)){6,}+={0,2}))"
)
_LABELS = {
    "pass": r"passw(?:or[dt]|d)|passphrase|passcode|(?<=[_-])pass(?![a-z])|(?<=db)pass(?![a-z])"
    r"|(?<![a-z])pass(?=\\{0,3}[\"']\s?[:=]|\s?=)",
    "pwd": "pwd",
    "secret": "secret",
    "token": r"token(?-i:(?![a-z]))",
    "credential": "credential",
    "key": "key",
}
LABELLED = {
    anchor: re.compile(
        rf"(?P<label>(?>{label}))(?P<suffix>[A-Za-z0-9_-]{{0,24}}+)(?=[\\\"'`\]:=?!>\s])"
        rf"(?:\\{{0,3}}[\"'`])?\]?(?:{_TYPES})?{_SEPARATOR}{_VALUE}",
        re.IGNORECASE,
    )
    for anchor, label in _LABELS.items()
}
"""By what announces it: a label, how it goes on, what stands between, and the value: quoted, or a bare word."""

_OWNERS = tuple(_OWNER_WORDS.split())
_OWNER_CHARS = max(map(len, _OWNERS)) + 1
_PASSWORD_LABELS = ("pass", "pwd")
# `token_count`, `password_hash` and the like name something about a secret; a page token is a position in a list.
_ABOUT = re.compile(
    r"(?:^|[_-])(?:id|ids|name|type|count|counts|limit|usage|used|url|uri|path|file|field|len|length|size|version|hash"
    r"|sha\d*|digest|alg|ref|arn|expiry|expires|expired|ttl|format|prefix|label|index|code|error|timeout|min|max|policy"
    r"|rounds|iterations|strength|retries|attempts|changed|hasher|hashers|validators|budget|rotation)(?:[_-]|$)"
)
_ABOUT_CAMEL = re.compile(
    r"^s?(?:Id|Name|Type|Count|Limit|Url|Path|File|Field|Length|Size|Version|Hash|Ref|Expir|Code|Timeout|Min|Max|Policy)"
)
_POSITION = re.compile(
    r"(?:page|next|cursor|continuation|pagination|sync|cancellation|[cx]srf|public|public[_-]?key)[_-]?$", re.IGNORECASE
)
_NO_OWNER = re.compile(
    r"(?:public|publishable|anon|cache|primary|foreign|sort|partition|index|idempotency|object|host|map|translation)_$",
    re.IGNORECASE,
)
_OPTION = re.compile(r"--?[A-Za-z][\w-]{0,40}$|--$")
_LOGIN = re.compile(r"(?:login|user|account)\s{1,4}\S{1,64}\s{1,4}$")  # a line of .netrc
_USER_INFO = re.compile(r"://[^\s/@]{0,40}$")
_SEED_URL = "otpauth://"
_CODE = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)+[!?]?")
_ENVIRONMENT_CHARS = 6


def may_be_key(text: str, at: int) -> bool:
    """Return whether a ``key`` at ``at`` is one that opens something: ``api_key``, ``access key``, ``STRIPE_KEY``."""
    return _has_owner(text, at) or _is_constant(text, at)


def _has_owner(text: str, at: int) -> bool:
    before = text[max(0, at - _OWNER_CHARS) : at].casefold()
    return before.endswith(_OWNERS) or (before.endswith(("_", "-", " ")) and before[:-1].endswith(_OWNERS))


def _is_constant(text: str, at: int) -> bool:
    return text[at : at + 3] == "KEY" and text[max(0, at - 1) : at] == "_" and text[max(0, at - 2) : at].isupper()


def kind_of(match: re.Match[str]) -> str:
    """Return what a :data:`LABELLED` match is called: ``password``, ``api-key``, or its label."""
    label = match["label"].casefold()
    return "password" if label.startswith(_PASSWORD_LABELS) else "api-key" if label.endswith("key") else label


def names_a_secret(match: re.Match[str]) -> bool:
    """Return whether the label of a match of :data:`LABELLED` names a secret, not something about one."""
    separator, text, start = match["separator"], match.string, match.start()
    if match["label"] == "KEY" and "=" not in separator and not _has_owner(text, start):
        return False  # of a constant of any name only an assignment tells
    if _is_about(match["label"].casefold(), match["suffix"], text[max(0, start - 14) : start]):
        return False
    if separator == ">":
        return text.startswith("</", match.end())
    if separator == ":" and _USER_INFO.search(text, max(0, start - 48), start):
        return False  # the user of a URL, as in https://x-access-token:...@host
    return not separator.isspace() or _is_option(match) or _is_login(match)


def _is_about(label: str, suffix: str, before: str) -> bool:
    """Return whether the name around ``label`` says that its value is something about a secret, or no secret."""
    if suffix[:1] == "s" and label in {"token", "pwd", "pass"}:
        return True  # counts of model tokens
    if _ABOUT.search(suffix.casefold()) or _ABOUT_CAMEL.search(suffix):
        return True
    return bool((label == "token" and _POSITION.search(before)) or (label == "key" and _NO_OWNER.search(before)))


def _is_option(match: re.Match[str]) -> bool:
    return _OPTION.search(match.string, max(0, match.start() - 48), match.start()) is not None


def _is_login(match: re.Match[str]) -> bool:
    start = match.start()
    return match["label"].casefold() == "password" and bool(_LOGIN.search(match.string, max(0, start - 80), start))


def value_span(match: re.Match[str]) -> tuple[int, int]:
    """Return where the value of a match of :data:`LABELLED` stands, without quotes and a sentence's end."""
    name = match.lastgroup or "bare"
    start, end = match.span(name)
    return (start, start + len(match[name].rstrip(".:"))) if name == "bare" else (start, end)


def is_secret_value(match: re.Match[str]) -> bool:
    """Return whether the value of a match of :data:`LABELLED` is a secret."""
    start, end = value_span(match)
    value, text, is_bare = match.string[start:end], match.string, bool(match["bare"])
    if not value or any(map(str.isspace, value[:128])) or is_placeholder(value, is_bare=is_bare):
        return False
    if is_bare and (text[match.end() : match.end() + 1] in ("(", "[", "{") or _is_code(value[:128])):
        return False
    label = match["label"].casefold()
    if label.startswith(_PASSWORD_LABELS):
        return _is_password_value(match, value)
    if is_uuid(value):  # a token of a constant's name, or of .npmrc; in a sentence it is an id
        return label != "token" or match["label"].isupper() or text.endswith("_auth", 0, match.start())
    is_seeded = label == "secret" and (is_seed(value) or _SEED_URL in text[max(0, start - 200) : start])
    return is_seeded or is_random(value)


def _is_code(value: str) -> bool:
    return _CODE.fullmatch(value) is not None and not is_random(value)


def _is_password_value(match: re.Match[str], value: str) -> bool:
    separator = match["separator"]
    if (separator.isspace() and not _is_option(match)) or _is_environment(match, value):
        return True
    return is_password(value, is_prose=separator.strip(" \t:") in ("is", "was"))


def _is_environment(match: re.Match[str], value: str) -> bool:
    """Return whether this is an assignment as in ``.env``: there a value is a value, be it letters only."""
    is_name = match["label"].isupper() and match["separator"] == "="
    return (
        is_name
        and len(value) >= _ENVIRONMENT_CHARS
        and value.isalnum()
        and match.string[match.end() :][:1].strip() == ""
    )
