"""How secrets look: the patterns behind :mod:`palace_daemon.core.redaction`, and how values are told from placeholders.

Invariant: from each start a pattern either takes a bounded number of steps, or takes a whole run in one step
(possessive repeats) that is not looked at again. So no text, however made, takes more than linear time. Key formats
are those that their issuers publish.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise

RUN_CHARS_MIN = 20
"""Shortest run of key characters that can hold an issued key: an AWS access key id."""

_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-F]{2}))"  # a key may follow an escaped newline or a %3D
_END = r"(?![A-Za-z0-9])"

_ISSUED: dict[str, str] = {
    "aws-access-key": r"A[KS]IA[A-Z0-9]{16}",
    "github-token": r"(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})",
    "gitlab-token": r"gl(?:pat|dt|rt|ptt|cbt|soat)-[A-Za-z0-9_.-]{20,300}",
    "slack-token": r"(?:xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{10,300}|xapp-\d-[A-Za-z0-9-]{20,300})",
    "stripe-key": r"(?:[sr]k_(?:live|test)_[A-Za-z0-9]{16,255}|whsec_[A-Za-z0-9+/]{24,255})",
    "anthropic-key": r"sk-ant-[A-Za-z0-9_-]{16,300}",
    "openai-key": r"sk-[A-Za-z0-9_-]{20,300}",
    "google-key": r"(?:AIza[A-Za-z0-9_-]{35}|GOCSPX-[A-Za-z0-9_-]{20,64}|ya29\.[A-Za-z0-9_.-]{20,2048})",
    "npm-token": r"npm_[A-Za-z0-9]{36}",
    "pypi-token": r"pypi-[A-Za-z0-9_-]{50,1000}",
    "huggingface-token": r"hf_[A-Za-z0-9]{30,64}",
    "sendgrid-key": r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}",
    "twilio-key": r"SK[0-9a-f]{32}",
    "digitalocean-token": r"do[opr]_v1_[0-9a-f]{64}",
    "telegram-token": r"(?<=:)AA[A-Za-z0-9_-]{33}",
    "mailgun-key": r"key-[0-9a-f]{32}",
    "mailchimp-key": r"[0-9a-f]{32}-us\d{1,2}",
    "square-token": r"sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{22,64}",
    "shopify-token": r"shp(?:at|ca|pa|ss|tka)_[A-Fa-f0-9]{32}",
    "databricks-token": r"dapi[0-9a-f]{32}(?:-\d)?",
    "linear-key": r"lin_(?:api|oauth)_[A-Za-z0-9]{32,64}",
    "notion-token": r"(?:secret_[A-Za-z0-9]{43}|ntn_[A-Za-z0-9]{40,64})",
    "newrelic-key": r"NRAK-[A-Z0-9]{27}",
    "grafana-token": r"gl(?:sa|c)_[A-Za-z0-9+/_=]{32,400}",
    "vault-token": r"hv[sb]\.[A-Za-z0-9_-]{24,300}",
    "doppler-token": r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}",
    "pulumi-token": r"pul-[0-9a-f]{40}",
    "terraform-token": r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,80}",
    "atlassian-token": r"AT(?:ATT|BB)[A-Za-z0-9_=-]{24,300}",
    "postman-key": r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}",
    "docker-token": r"dckr_[a-z]at_[A-Za-z0-9_-]{20,64}",
    "groq-key": r"gsk_[A-Za-z0-9]{40,64}",
    "xai-key": r"xai-[A-Za-z0-9]{60,100}",
    "replicate-token": r"r8_[A-Za-z0-9]{37,40}",
    "perplexity-key": r"pplx-[A-Za-z0-9]{40,64}",
    "age-key": r"AGE-SECRET-KEY-1[0-9A-Z]{58}",
    "supabase-key": r"(?:sbp_[0-9a-f]{40}|sb_secret_[A-Za-z0-9_-]{20,64})",
    "jwt": r"eyJ[A-Za-z0-9_-]{8,4096}+\.eyJ[A-Za-z0-9_-]{8,8192}+(?:\.[A-Za-z0-9_-]{8,4096}+)?",
}

ISSUED = re.compile(
    _START + "(?:" + "|".join(f"(?P<{k.replace('-', '_')}>{p})" for k, p in _ISSUED.items()) + ")" + _END
)
"""Keys that tell by their form who issued them; the group's name is the kind."""

_ANCHORS = (
    "AKIA ASIA ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- gldt- glrt- glptt- glcbt- glsoat- xox xapp- _live_ _test_ "
    "whsec_ sk- AIza GOCSPX- ya29. npm_ pypi- hf_ SG. SK _v1_ :AA key- -us sq0 shp dapi lin_ secret_ ntn_ NRAK- glsa_ "
    "glc_ hvs. hvb. dp. pul- .atlasv1. ATATT ATBB PMAK- dckr_ gsk_ xai- r8_ pplx- AGE-SECRET sbp_ sb_secret_ eyJ"
)
ISSUED_ANCHORS = tuple(_ANCHORS.split())
"""Each form in :data:`ISSUED` holds one of these."""

RUN = re.compile(rf"[^\s\"'`<>()\[\]{{}},;|]{{{RUN_CHARS_MIN},}}+")
"""Where :data:`ISSUED` is looked for; no issued key holds one of the characters that end a run."""

UNSURE = frozenset({"openai-key", "huggingface-token", "atlassian-token", "gitlab-token", "slack-token", "pypi-token"})
"""Kinds whose form a kebab-case name can have: they must look random, too."""

WEBHOOK = re.compile(
    r"(?:hooks\.slack\.com/(?:services|workflows|triggers)/|/api/webhooks/\d{1,20}/)([A-Za-z0-9/_-]{20,200}+)"
)
URL_PASSWORD = re.compile(r"://([^\s/?#:@'\"<>`]{0,128}):([^\s/?#'\"<>`]{1,256})@(?=[A-Za-z0-9\[$%{.-])")
PEM_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
PEM_END = re.compile(r"-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
PEM_CHARS_MAX = 16_384
"""An armoured 8192-bit key with headers is under 8 KiB; twice that for escapes and indentation."""
PEM_HEAD_CHARS = 320
"""Within so many characters of its begin line a key's base64 starts; an encrypted key's headers take about 100."""
PEM_BODY = re.compile(
    r"(?:(?:\\[nrt]|[\s>|*#\"'+,])*+"
    r"(?:(?:Proc-Type|DEK-Info|Version|Comment):[^\r\n\\]{0,100}|[A-Za-z0-9+/]{16,}+={0,2}))*+"
)
PEM_LINE = re.compile(r"[A-Za-z0-9+/]{16,}")

BEARER = re.compile(r"bearer(?:\s|%20|\\?[\"'`]){1,4}([A-Za-z0-9._~+/=-]{8,}+)", re.IGNORECASE)
BASIC = re.compile(r"basic\s{1,3}([A-Za-z0-9+/_-]{8,}+={0,2})", re.IGNORECASE)
AUTHORIZATION = re.compile(
    r"authorization\\?[\"'`]?\s{0,3}[:=,]\s{0,3}\\?[\"'`]?(?:[A-Za-z-]{3,20} {1,2})?([A-Za-z0-9._~+/=:-]{8,}+)",
    re.IGNORECASE,
)

_KEY_OWNERS = (
    "api",
    "access",
    "private",
    "encryption",
    "signing",
    "auth",
    "account",
    "master",
    "license",
    "service",
    "storage",
)
_BEFORE_KEY = "|".join(f"(?<={owner})|(?<={owner}[ _-])" for owner in _KEY_OWNERS)
_TYPES = (
    r"(?:\?|!)?\s{0,2}:\s{0,2}(?:str|string|String|&str|SecretStr|bytes|Optional\[str\]|str \| None|any)\s{0,2}(?==)"
)
_SEPARATOR = r"(?P<separator>\s{0,8}(?:=>|:=|={1,3}|:)\s{0,8}|[ \t]{1,2}(?:is|was)(?:[ \t]{1,2}|:[ \t]?)|>|[ \t]{1,2})"
_VALUE = (
    r"[fbrFBR]?(?:"
    r'"(?P<double>[^"\\\r\n]{6,4096}+)"'
    r"|'(?P<single>[^'\\\r\n]{6,4096}+)'"
    r"|`(?P<backtick>[^`\\\r\n]{6,4096}+)`"
    r'|\\{1,3}"(?P<escaped>[^"\\\r\n]{6,4096}+)\\{1,3}"'
    r"|(?P<bare>(?:[^\s\"'`,;<>(){}\[\]|&\\=]|&(?![\w-]{1,40}=)){6,}+={0,2}))"
)
LABELLED = re.compile(
    rf"(?P<label>passw(?:or)?d|passphrase|pwd|secret|token|credential|(?:{_BEFORE_KEY})key)(?P<suffix>[A-Za-z0-9_-]{{0,24}}+)"
    rf"(?:\\{{0,3}}[\"'`])?\]?(?:{_TYPES})?{_SEPARATOR}{_VALUE}",
    re.IGNORECASE,
)
PASSWORD_LABELS = ("passw", "passphrase", "pwd")
LABEL_ANCHORS = (*PASSWORD_LABELS, "secret", "token", "credential", "key")
SIGNATURE = re.compile(r"(?<=[?&;])(?:sig|x-amz-signature|x-goog-signature)=([A-Za-z0-9%+/_-]{32,}+)", re.IGNORECASE)

# `token_count`, `password_hash` and the like name something about a secret; a page token is a position in a list.
_ABOUT = re.compile(
    r"(?:^|[_-])(?:id|ids|name|type|count|counts|limit|usage|used|url|uri|path|file|field|len|length|size|version|hash"
    r"|sha\d*|digest|alg|ref|arn|expiry|expires|ttl|format|prefix|label|index|code|error)(?:[_-]|$)"
)
_ABOUT_CAMEL = re.compile(r"^(?:Id|Name|Type|Count|Limit|Url|Path|File|Field|Length|Size|Version|Hash|Ref|Expir|Code)")
_POSITION = re.compile(
    r"(?:page|next|cursor|continuation|pagination|sync|cancellation|public[_-]?key)[_-]?$", re.IGNORECASE
)
_OPTION = re.compile(r"--?[A-Za-z][\w-]{0,40}$|--$")

_STAND_INS = (
    "your example examples placeholder changeme change dummy sample fake mock insert replace todo fixme none null "
    "undefined redacted hidden secret password passwd token apikey here goes value string masked removed omitted"
)
_PLACEHOLDER_WORDS = frozenset(_STAND_INS.split())
_TEMPLATE = re.compile(
    r"^[$%@{<!*&]|\$\{|\{\{|\$\(|%\(|%s|\{[\w.]*\}|<[^>]*>|process\.env|environ|getenv|env\.|\[redacted", re.IGNORECASE
)
_FILLER = re.compile(r"(.)\1{4,}|\.\.\.|…|•")
_WORD_BREAK = re.compile(r"[^A-Za-z]+|(?<=[a-z])(?=[A-Z])")
_CODE = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)+[!?]?")
_PATH = re.compile(r"(?:~|\.{0,2})/|[A-Za-z]:[\\/]|[a-z][a-z0-9+.-]{1,20}://")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_HEX = re.compile(r"(?=[0-9]*+[a-f])(?=[a-f]*+[0-9])[0-9a-f]{16,}", re.IGNORECASE)
_SPLIT = re.compile(r"[-_./:+=~]+")
_PART = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+")
_SYMBOL = re.compile(r"[^A-Za-z0-9\s._/:-]")

_PASSWORD_CHARS = 6
_SAMPLE_TAIL = 16
_SAMPLE_ENTROPY_BITS = 2.0  # four distinct characters; sixteen random hexadecimal digits have 3.3 on average
_SAMPLE_CHARS = 128  # how much of a value is judged: as long as a sha512
_RANDOM_CHARS = 12
_RANDOM_PART_CHARS = 3.2  # mean length of the parts at humps and digits: base62 has 2.4, camel case over 4
_RANDOM_ENTROPY_BITS = 3.0  # bits a character, over the value; twelve distinct-enough characters


def is_placeholder(value: str) -> bool:
    """Return whether ``value`` stands in for a secret: ``YOUR_TOKEN``, ``xxxx``, ``${VAR}``, ``os.environ["X"]``."""
    value = value[:_SAMPLE_CHARS]
    if is_template(value):
        return True
    words = [word.casefold() for word in _WORD_BREAK.split(value) if word]
    return bool(words) and (words[0] in _PLACEHOLDER_WORDS or words[-1] in {"here", "placeholder", "example"})


def is_template(value: str) -> bool:
    """Return whether ``value`` is to be filled in; unlike a stand-in word, nobody has that for a password."""
    value = value[:_SAMPLE_CHARS]
    return bool(_TEMPLATE.search(value) or _FILLER.search(value)) or value.casefold().startswith("your")


def is_sample(key: str) -> bool:
    """Return whether an issued form was filled in by hand, as in ``ghp_XXXXXXXX``."""
    return entropy(key[-_SAMPLE_TAIL:]) < _SAMPLE_ENTROPY_BITS


def is_random(value: str) -> bool:
    """Return whether ``value`` looks drawn at random rather than written: long, mixed, and of no words."""
    value = value[:_SAMPLE_CHARS]
    if len(value) < _RANDOM_CHARS or entropy(value) < _RANDOM_ENTROPY_BITS:
        return False
    return any(_is_random_piece(piece) for piece in _SPLIT.split(value))


def _is_random_piece(piece: str) -> bool:
    if len(piece) < _RANDOM_CHARS or (piece.isalpha() and (piece.islower() or piece.isupper())):
        return False
    if _HEX.fullmatch(piece):
        return True
    parts = _PART.findall(piece)
    if len(piece) < _RANDOM_PART_CHARS * len(parts):
        return True
    return sum(one.isdigit() and other.isalpha() for one, other in pairwise(piece)) >= 2


def entropy(value: str) -> float:
    """Return the Shannon entropy of the characters of ``value`` in bits a character; 0 for an empty one."""
    total = len(value)
    return -sum(n / total * math.log2(n / total) for n in Counter(value).values())


def names_a_secret(match: re.Match[str]) -> bool:
    """Return whether the label of a :data:`LABELLED` match names a secret, not something about one."""
    suffix, text, start = match["suffix"], match.string, match.start()
    if suffix[:1] == "s" and match["label"].casefold() in {"token", "pwd"}:
        return False  # counts of model tokens
    if _ABOUT.search(suffix.casefold()) or _ABOUT_CAMEL.search(suffix):
        return False
    if match["label"].casefold() == "token" and _POSITION.search(text, max(0, start - 14), start):
        return False
    separator = match["separator"]
    if separator == ">":
        return text.startswith("</", match.end())
    return not separator.isspace() or bool(_OPTION.search(text, max(0, start - 48), start))


def labelled_value(match: re.Match[str]) -> tuple[int, int]:
    """Return where the value of a :data:`LABELLED` match stands, without quotes and a sentence's end."""
    name = match.lastgroup or "bare"
    start, end = match.span(name)
    return (start, start + len(match[name].rstrip(".:"))) if name == "bare" else (start, end)


def is_secret_value(match: re.Match[str]) -> bool:
    """Return whether the value of a :data:`LABELLED` match is a secret."""
    start, end = labelled_value(match)
    value = match.string[start : min(end, start + _SAMPLE_CHARS)]
    if any(map(str.isspace, value)) or is_placeholder(value):
        return False
    if match["bare"] and (match.string[match.end() : match.end() + 1] in ("(", "[", "{") or _CODE.fullmatch(value)):
        return False
    label = match["label"].casefold()
    if label.startswith(PASSWORD_LABELS):
        return _is_password(value, is_prose=match["separator"].strip(" \t:") in ("is", "was"))
    return is_random(value) and not (label == "token" and _UUID.fullmatch(value))


def _is_password(value: str, *, is_prose: bool) -> bool:
    """Return whether ``value`` mixes letters with digits or symbols, and is neither a path nor a name."""
    if len(value) < _PASSWORD_CHARS or _PATH.match(value) or not any(map(str.isalpha, value)):
        return False
    if any(map(str.isdigit, value)):
        return True
    return not is_prose and bool(_SYMBOL.search(value.rstrip("!?*")))
