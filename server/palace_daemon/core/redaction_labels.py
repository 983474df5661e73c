"""Secrets that a label announces: ``password=``, ``"api_key": ``, ``--token``, ``CLIENT_SECRET:`` and the like.

Invariant: from each label a pattern takes a bounded number of steps, or a whole value in one step (possessive repeats).
"""

from __future__ import annotations

import re

from palace_daemon.core.redaction_passwords import is_environment_value, is_password_value
from palace_daemon.core.redaction_values import is_placeholder, is_random, is_seed, is_uuid

_OWNER_WORDS = (
    "access account admin api app application auth aws azure client consumer deploy encryption hmac jwt license master"
    " private secret service session shared signing ssh storage subscription webhook write"
)
_TYPES = (
    r"(?:\?|!)?\s{0,2}:\s{0,2}(?:str|string|String|&str|SecretStr|bytes|Optional\[str\]|str \| None|any)\s{0,2}(?==)"
)
_SEPARATOR = (
    r"\*{0,3}(?P<separator>\s{0,8}(?:=>|:{1,3}=|\?=|={1,3}|[:\uff1a](?:\*{1,3}(?=\s))?)\s{0,8}"
    r"|[ \t]{1,2}(?:is|was)(?:[ \t]{1,2}|:[ \t]?)|>|[ \t]{0,8}\|[ \t]{0,8}|[ \t]{1,2})"
)
_QUOTED = (
    r"\"(?P<double>[^\"\\\r\n]{0,4096}+(?:\\[^\r\n][^\"\\\r\n]{0,4096}+){0,64}+)\""
    r"|'(?P<single>[^'\\\r\n]{0,4096}+(?:(?:\\[^\r\n]|'')[^'\\\r\n]{0,4096}+){0,64}+)'"
    r"|`(?P<backtick>[^`\\\r\n]{4,4096}+)`"
    # In JSON that is itself quoted a quote inside the value has more backslashes than those around it.
    r"|(?P<slashes>\\{1,3})\"(?P<escaped>[^\"\\\r\n]{0,4096}+(?:(?P=slashes)\\{1,12}+[^\\\r\n][^\"\\\r\n]{0,4096}+){0,64}+)"
    r"(?P=slashes)\""
    r"|\*\*(?P<bold>[^\s*]{6,128}+)\*\*"
)
_PLAIN = r"[^\s\"'`,;<>(){}\[\]|&\\=]"
# Inside a value a separator is a part of it, unless the next thing of a list, a statement or a query follows.
_GOES_ON = r"(?=[^\s\"'`,;<>(){}\[\]|&\\=:]{1,64}+(?:[\s,;<]|$))"
_NARROW = rf"(?:{_PLAIN}|&(?![\w-]{{1,40}}=)|[,;]{_GOES_ON}|(?<=[\w!-])=(?=[A-Za-z0-9])){{4,}}+={{0,2}}"
# Of an assignment as in `.env` all is the value, up to white space or the quote around the assignment.
_WIDE = (
    rf"(?!=)(?:{_PLAIN}|&(?![\w-]{{1,40}}=)|[,;|]{_GOES_ON}|=|[\"'](?=[A-Za-z0-9])|\\(?:[^\sA-Za-z0-9\\\"'`]|[ ](?=\S))"
    r"|[(\[{][^\s(){}\[\]]{0,64}+[)\]}]?){4,}+"
)
_BARE = {
    "": rf"(?:{_PLAIN}|&(?![\w-]{{1,40}}=)){{6,}}+={{0,2}}",
    "pass": _NARROW,
    "pwd": _NARROW,
    "PASS": rf"(?<=[A-Za-z0-9_]=)(?![\"'`]){_WIDE}|{_NARROW}",
    "PWD": rf"(?<=[A-Za-z0-9_]=)(?![\"'`]){_WIDE}|{_NARROW}",
}
_LABELS = {
    "pass": r"passw(?:or[dt]|d)|passphrase|passcode|(?<=[_-])pass(?![a-z])|(?:(?<=db)|(?<=ssh))pass(?![a-z])"
    r"|(?<![a-z])pass(?=\\{0,3}[\"']\s?[:=]|\s?=)",
    "pwd": "pwd",
    "secret": "secret",
    "token": r"token(?-i:(?![a-z]))",
    "credential": "credential",
    "key": "key",
}
_LABELS |= {"PASS": _LABELS["pass"], "PWD": _LABELS["pwd"]}
LABELLED = {
    anchor: re.compile(
        rf"(?P<label>(?>{label}))(?P<suffix>[A-Za-z0-9_-]{{0,24}}+)(?=[\\\"'`\]:\uff1a=?!>|*\s])"
        rf"(?:\\{{0,3}}[\"'`])?\]?(?:{_TYPES})?{_SEPARATOR}"
        rf"(?:[fbrFBR](?=[\"']))?(?:{_QUOTED}|(?P<bare>{_BARE.get(anchor, _BARE[''])}))",
        re.IGNORECASE,
    )
    for anchor, label in _LABELS.items()
}
"""By what announces it: a label, how it goes on, what stands between, and the value: quoted, or a bare word.

Those in capitals are for labels in capitals, as names of variables in the environment have them.
"""

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
    r"(?:public|publishable|anon|cache|primary|foreign|sort|partition|index|idempotency|object|host|map|translation"
    r"|dedup|dedupe|deduplication|row|record|lookup|group|routing|message|event|unique|natural|composite|hash|lock|query"
    r"|item|entity|content|checksum|fingerprint|memo|bucket|redis|s3|build|artifact|correlation|request)_$",
    re.IGNORECASE,
)
_OPTION = re.compile(r"--?[A-Za-z][\w-]{0,40}$|--$")
_LOGIN = re.compile(r"(?:login|user|account)\s{1,4}\S{1,64}\s{1,4}$")  # a line of .netrc
_USER_INFO = re.compile(r"://[^\s/@]{0,40}$")
_SEED_URL = "otpauth://"
_CODE = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)+[!?]?")
_CELL = re.compile(r"[ \t`*]*[\w -]{0,40}")
_CELL_END = re.compile(r"[ \t`*]{0,8}\|")
_LINE_CHARS = 160
_LINE_HEAD = re.compile(r"(?:^|(?<=\n))[ \t>-]*(?:export |set |ENV )?([A-Z0-9_]*)$")
_LINE_END = re.compile(r"[ \t]{0,8}(?:#[^\r\n]{0,160})?(?:\r?\n|$)")
_LINE_VALUE_CHARS = 6
_NO_VALUE = re.compile(
    r"(?:WRONG|INVALID|BAD|INCORRECT|WEAK|MISSING|FORGOT|FORGOTTEN|RESET|CHANGE|HAS|SHOW|HIDE|REQUIRE|REQUIRED|ALLOW|USE"
    r"|EMPTY|ASK)_$"
)
_LONG_OPTION = re.compile(r"(?:^|(?<=[\s\"'`(]))--(?:[a-z]{1,16}-)?$")
_TAG_HEAD = re.compile(r"<([A-Za-z_][\w.:-]{0,40}|)$")
_TEST = re.compile(r"(?:^|[^a-z])tests?[_-]$", re.IGNORECASE)
_AGAIN = re.compile(r"[_-]?(?:confirm|repeat|again|verif)", re.IGNORECASE)


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
    if separator.count("\n") > 1 and match["bare"]:
        return False  # another paragraph
    if separator.isspace():
        return _is_option(match) or _is_login(match)
    if separator == ">":
        return text.startswith("</", match.end())
    # Before a colon may stand the user of a URL, as in https://x-access-token:...@host
    is_user = separator == ":" and _USER_INFO.search(text, max(0, start - 48), start) is not None
    return not is_user if "|" not in separator else _is_cell(match)


def _is_about(label: str, suffix: str, before: str) -> bool:
    """Return whether the name around ``label`` says that its value is something about a secret, or no secret."""
    if suffix[:1] == "s" and label in {"token", "pwd", "pass"}:
        return True  # counts of model tokens
    if _ABOUT.search(suffix.casefold()) or _ABOUT_CAMEL.search(suffix):
        return True
    if label == "pass" and _TEST.search(before):
        return True
    return bool((label == "token" and _POSITION.search(before)) or (label == "key" and _NO_OWNER.search(before)))


def _is_cell(match: re.Match[str]) -> bool:
    """Return whether label and value are two cells of a table's row."""
    text, start = match.string, match.start()
    row = text[text.rfind("\n", max(0, start - _LINE_CHARS), start) + 1 or max(0, start - _LINE_CHARS) : start]
    head, bar, cell = row.rpartition("|")
    is_row = bool(bar) and (head.lstrip(" \t>")[:1] in ("", "|"))
    return is_row and bool(_CELL.fullmatch(cell)) and _CELL_END.match(text, match.end()) is not None


def _is_option(match: re.Match[str]) -> bool:
    return _OPTION.search(match.string, max(0, match.start() - 48), match.start()) is not None


def _is_login(match: re.Match[str]) -> bool:
    start = match.start()
    return match["label"].casefold() == "password" and bool(_LOGIN.search(match.string, max(0, start - 80), start))


def value_span(match: re.Match[str]) -> tuple[int, int]:
    """Return where the value of a match of :data:`LABELLED` stands, without quotes and a sentence's end."""
    name = match.lastgroup or "bare"
    start, end = match.span(name)
    return (start, start + len(match[name].rstrip(".:,;"))) if name == "bare" else (start, end)


def is_secret_value(match: re.Match[str]) -> bool:
    """Return whether the value of a match of :data:`LABELLED` is a secret."""
    start, end = value_span(match)
    value, text, is_bare = match.string[start:end], match.string, bool(match["bare"])
    label = match["label"].casefold()
    if label.startswith(_PASSWORD_LABELS):
        return bool(value) and _is_password(match, value)
    if not value or any(map(str.isspace, value[:128])) or is_placeholder(value, is_bare=is_bare):
        return False
    if is_bare and (text[match.end() : match.end() + 1] in ("(", "[", "{") or _is_code(value[:128])):
        return False
    if is_uuid(value):  # a token of a constant's name, or of .npmrc; in a sentence it is an id
        return label != "token" or match["label"].isupper() or text.endswith("_auth", 0, match.start())
    is_seeded = label == "secret" and (is_seed(value) or _SEED_URL in text[max(0, start - 200) : start])
    return is_seeded or is_random(value)


def _is_code(value: str) -> bool:
    return _CODE.fullmatch(value) is not None and not is_random(value)


def _is_password(match: re.Match[str], value: str) -> bool:
    """Return whether ``value`` is a password where it stands."""
    separator, text, is_bare = match["separator"], match.string, bool(match["bare"])
    is_part = is_bare and text[match.end() : match.end() + 1] in ("(", "[", "{")
    if is_part or (is_bare and (_is_code(value[:128]) or _AGAIN.match(match["suffix"]))):
        return False
    if _is_environment(match) and is_environment_value(value, is_bare=is_bare):
        return True
    return is_password_value(
        value,
        is_prose="|" in separator or separator.strip(" \t:*") in ("is", "was"),
        is_bare=is_bare,
        is_word_enough=_is_word_enough(match),
    )


def _is_environment(match: re.Match[str]) -> bool:
    """Return whether this is an assignment as in ``.env``, or the like in YAML: there a value is a value."""
    label, separator, text, start = match["label"], match["separator"], match.string, match.start()
    if not label.isupper() or separator[:1] not in ("=", ":") or _NO_VALUE.search(text, max(0, start - 48), start):
        return False
    before = _LINE_HEAD.search(text, max(0, start - 48), start)
    if separator == "=":
        is_folder = label == "PWD" and (before is None or before[1] in ("", "OLD"))  # the shell's own
        return not is_folder
    is_line = before is not None and before[1].endswith("_") and _LINE_END.match(text, match.end()) is not None
    return is_line and separator.count("\n") == 0 and len(match[match.lastgroup or "bare"]) >= _LINE_VALUE_CHARS


def _is_word_enough(match: re.Match[str]) -> bool:
    """Return whether letters alone make a password here: in XML, in ``.netrc``, and in ``--password=``."""
    separator = match["separator"]
    if separator == ">":
        return _is_closed_tag(match)
    if separator == "=":
        return (
            not match["suffix"]
            and _LONG_OPTION.search(match.string, max(0, match.start() - 24), match.start()) is not None
        )
    return separator.isspace() and not _is_option(match)


def _is_closed_tag(match: re.Match[str]) -> bool:
    text, start = match.string, match.start()
    tag = _TAG_HEAD.search(text, max(0, start - 48), start)
    return tag is not None and text.startswith(f"</{tag[1]}{match['label']}{match['suffix']}", match.end())
