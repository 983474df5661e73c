"""Keys whose form tells who issued them, and where in a text to look for them.

Invariant: a key is looked for only at the front of a run of key characters, in a bounded window, so that time is linear
in the text however it is made. Forms are those that their issuers publish.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from palace_daemon.core.redaction_values import is_mixed, is_random, is_sample

_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-F]{2}))"  # a key may follow an escaped newline or a %3D
_END = r"(?![A-Za-z0-9])"
_KEY = "[A-Za-z0-9_-]"

# Kind to forms, each in two parts: how it begins, which is what is looked for, and how it goes on from there.
_FORMS: dict[str, tuple[tuple[str, str], ...]] = {
    "aws-access-key": (("A(?:[KS]IA|BIA|CCA|3T[A-Z0-9])", r"[A-Z0-9]{16}"), ("ABSK", r"[A-Za-z0-9+/]{100,280}+={0,2}")),
    "github-token": (("gh[pousr]_", r"[A-Za-z0-9]{36,255}"), ("github_pat_", r"[A-Za-z0-9_]{22,255}")),
    "gitlab-token": (
        ("gl(?:pat|dt|rt|rtr|ptt|cbt|soat|ft|imt|agent|oas|wt|ffct)-", r"[A-Za-z0-9_.-]{20,300}"),
        ("GR1348941", r"[A-Za-z0-9_-]{20,64}"),
    ),
    "slack-token": (
        ("xox[a-z](?:[.]xox[a-z])?-", r"[A-Za-z0-9-]{10,300}"),
        ("xapp-[0-9]-", r"[A-Za-z0-9-]{20,300}"),
    ),
    "stripe-key": (("[sr]k_(?:live|test|prod)_", r"[A-Za-z0-9]{10,255}"), ("whsec_", r"[A-Za-z0-9+/]{24,255}+={0,2}")),
    "anthropic-key": (("sk-ant-", r"[A-Za-z0-9_-]{16,300}"),),
    "openai-key": (("sk-", r"[A-Za-z0-9_-]{20,300}"),),
    "google-key": (
        ("AIza", r"[A-Za-z0-9_-]{35}"),
        ("GOCSPX-", r"[A-Za-z0-9_-]{20,64}"),
        (r"ya29\.", r"[A-Za-z0-9_.-]{20,2048}"),
        ("1//0", r"[A-Za-z0-9_-]{40,256}"),
        (r"AQ\.A", r"[A-Za-z0-9_-]{40,128}"),
    ),
    "azure-key": (
        ("[A-Za-z0-9]{52}JQQJ9", r"[9D][A-L][A-Za-z0-9]{24,26}(?:==)?"),
        ("[A-Za-z0-9]{76}AZDO", r"[A-Za-z0-9]{4}"),
    ),
    "npm-token": (("npm_", r"[A-Za-z0-9]{36}"),),
    "pypi-token": (("pypi-", r"[A-Za-z0-9_-]{50,1000}"),),
    "rubygems-key": (("rubygems_", r"[0-9a-f]{48}"),),
    "huggingface-token": (("hf_", r"[A-Za-z0-9]{30,64}"), ("api_org_", r"[A-Za-z]{34}")),
    "sendgrid-key": ((r"SG\.", r"[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}"),),
    "twilio-key": (("SK(?=[0-9a-f])", r"[0-9a-f]{32}"),),
    "digitalocean-token": (("do[opr]_v1_", r"[0-9a-f]{64}"),),
    "telegram-token": (("(?<=[0-9]:)AA", r"[A-Za-z0-9_-]{33}"),),
    "discord-token": (
        (r"[MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.", r"[A-Za-z0-9_-]{27,40}"),
        (r"mfa\.", r"[A-Za-z0-9_-]{80,96}"),
    ),
    "mailgun-key": (("key-(?=[0-9a-f])", r"[0-9a-f]{32}"),),
    "mailchimp-key": (("[0-9a-f]{32}-us", r"\d{1,2}"),),
    "brevo-key": (("xkeysib-", r"[0-9a-f]{64}-[A-Za-z0-9]{16}"),),
    "resend-key": (("re_[A-Za-z0-9]{8}_", r"[A-Za-z0-9]{24}"),),
    "square-token": (("sq0(?:atp|csp|idp)-", r"[A-Za-z0-9_-]{22,64}"), ("EAAA", r"[A-Za-z0-9_-]{60}")),
    "facebook-token": (("EAA[MC]", r"[A-Za-z0-9]{60,400}"),),
    "shopify-token": (("shp(?:at|ca|pa|ss|tka)_", r"[A-Fa-f0-9]{32}"),),
    "databricks-token": (("dapi(?=[0-9a-f])", r"[0-9a-f]{32}(?:-\d)?"),),
    "dynatrace-token": ((r"dt0[a-z]\d\d\.[A-Z0-9]{24}\.", r"[A-Z0-9]{64}"),),
    "linear-key": (("lin_(?:api|oauth)_", r"[A-Za-z0-9]{32,64}"),),
    "notion-token": (("secret_", r"[A-Za-z0-9]{43}"), ("ntn_", r"[A-Za-z0-9]{40,64}")),
    "airtable-token": ((r"pat[A-Za-z0-9]{14}\.", r"[0-9a-f]{64}"),),
    "figma-token": (("fig[dou]_", r"[A-Za-z0-9_-]{40,64}"),),
    "newrelic-key": (("NRAK-", r"[A-Z0-9]{27}"),),
    "grafana-token": (("gl(?:sa|c)_", r"[A-Za-z0-9+/_=]{32,400}"),),
    "sentry-token": (("sntryu_", r"[0-9a-f]{64}"), ("sntrys_eyJ", r"[A-Za-z0-9+/=_-]{40,600}")),
    "posthog-key": (("phx_", r"[A-Za-z0-9_-]{40,64}"),),
    "vault-token": (("hv[sbr]\\.", r"[A-Za-z0-9_-]{24,300}"),),
    "doppler-token": ((r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?", r"[A-Za-z0-9]{40,44}"),),
    "onepassword-token": (
        ("ops_eyJ", r"[A-Za-z0-9_=-]{200,1200}"),
        ("A3-[A-Z0-9]{6}-", r"(?:[A-Z0-9]{5,11}-){2,5}[A-Z0-9]{5}"),
    ),
    "pulumi-token": (("pul-(?=[0-9a-f])", r"[0-9a-f]{40}"),),
    "terraform-token": ((r"[A-Za-z0-9]{14}\.atlasv1\.", r"[A-Za-z0-9_=-]{60,80}"),),
    "atlassian-token": (("AT(?:ATT|CTT|BB)", r"[A-Za-z0-9_=-]{24,300}"),),
    "postman-key": (("PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),),
    "docker-token": (("dckr_[a-z]at_", r"[A-Za-z0-9_-]{20,64}"),),
    "heroku-key": (("HRKU-AA", r"[A-Za-z0-9_-]{56,60}"),),
    "flyio-token": (("fo1_", r"[A-Za-z0-9_-]{43}"), ("fm[12][ar]?_", r"[A-Za-z0-9+/]{100,2000}+={0,3}")),
    "netlify-token": (("nfp_", r"[A-Za-z0-9]{36,40}"),),
    "vercel-token": (("vercel_blob_rw_|vc[pkair]_", r"[A-Za-z0-9_]{24,128}"),),
    "planetscale-token": (("pscale_(?:pw|tkn|oauth)_", r"[A-Za-z0-9_.=-]{32,64}"),),
    "cloudflare-key": (("v1[.]0-[0-9a-f]{24}-", r"[0-9a-f]{146}"), ("cf(?:ut|k|at)_", r"[A-Za-z0-9]{40,64}")),
    "dropbox-token": ((r"sl\.(?:u\.)?", r"[A-Za-z0-9_-]{130,1500}"),),
    "alibaba-key": (("LTAI", r"[A-Za-z0-9]{16,24}"),),
    "tencent-key": (("AKID", r"[A-Za-z0-9]{32}"),),
    "groq-key": (("gsk_", r"[A-Za-z0-9]{40,64}"),),
    "xai-key": (("xai-", r"[A-Za-z0-9]{60,100}"),),
    "nvidia-key": (("nvapi-", r"[A-Za-z0-9_-]{60,72}"),),
    "replicate-token": (("r8_", r"[A-Za-z0-9]{37,40}"),),
    "perplexity-key": (("pplx-", r"[A-Za-z0-9]{40,64}"),),
    "pinecone-key": (("pcsk_", r"[A-Za-z0-9_]{60,80}"),),
    "langsmith-key": (("lsv2_(?:pt|sk)_", r"[0-9a-f]{32}_[0-9a-f]{10}"),),
    "tavily-key": (("tvly-(?:dev-|prod-)?", r"[A-Za-z0-9]{32}"),),
    "firecrawl-key": (("fc-(?=[0-9a-f])", r"[0-9a-f]{32}"),),
    "elevenlabs-key": (("sk_(?=[0-9a-f])", r"[0-9a-f]{48}"),),
    "wandb-key": (("wandb_v1_", r"[A-Za-z0-9_]{40,100}"),),
    "tailscale-key": (("tskey-(?:auth|api|client|scim|webhook)-", r"[A-Za-z0-9]{10,24}-[A-Za-z0-9]{16,64}"),),
    "buildkite-token": (("bkua_", r"[0-9a-f]{40}"),),
    "circleci-token": (("CCIPAT_", r"[A-Za-z0-9]{22}_[0-9a-f]{40}"),),
    "sourcegraph-token": (("sgp_(?:(?:[0-9A-Fa-f]{16}|local)_)?", r"[0-9A-Fa-f]{40}"),),
    "artifactory-key": (("AKC", r"[A-Za-z0-9]{60,90}"), ("cmVmdGtu", r"[A-Za-z0-9]{40,80}")),
    "age-key": (("AGE-SECRET-KEY-1", r"[0-9A-Z]{58}"),),
    "supabase-key": (("sbp_", r"[0-9a-f]{40}"), ("sb_secret_", r"[A-Za-z0-9_-]{20,64}")),
    "jwt": (("eyJ", r"[A-Za-z0-9_-]{8,4096}+\.eyJ[A-Za-z0-9_-]{8,8192}+(?:\.[A-Za-z0-9_-]{8,4096}+)?"),),
}

_WORDY_KINDS = "openai-key dropbox-token discord-token azure-key facebook-token"
_WORDY = frozenset(_WORDY_KINDS.split())
"""Kinds whose form a kebab-case name, a chain of attributes or base64 can have: they must look random, too."""

_NAMED_KINDS = "gitlab-token slack-token pypi-token docker-token vercel-token pinecone-key wandb-key"
_NAMED = frozenset(_NAMED_KINDS.split())
"""Kinds whose beginning says much, and whose rest could be words: they must have digits and capitals."""

KINDS = frozenset(_FORMS)
"""What :func:`issued_keys` may find."""


def _beginnings() -> tuple[dict[int, re.Pattern[bytes]], re.Pattern[bytes]]:
    """Return how keys begin, by their first byte, and how those begin that can have any first byte."""
    by_first: defaultdict[str, list[str]] = defaultdict(list)
    others: list[str] = []
    for start in (start for forms in _FORMS.values() for start, _ in forms):
        first = re.match(r"(?:\(\?<=[^)]*\))?(?:(\w)|\[([A-Za-z]+)\])", start)
        if first is None:
            others.append(start)
        for char in (first[1] or first[2]) if first else ():
            by_first[char].append(start)
    known = {ord(char): re.compile("|".join(starts).encode()) for char, starts in by_first.items()}
    return known, re.compile("|".join(others).encode())


_BEGINNINGS, _OTHER_BEGINNINGS = _beginnings()
_AFTER_DASH = re.compile(rb"[_-]+(?=[A-Za-z0-9])")
_PART = re.compile(f"{_START}[A-Za-z0-9]".encode())
_ISSUED = re.compile(
    _START
    + "(?:"
    + "|".join(
        f"(?P<{kind.replace('-', '_')}>{'|'.join(start + rest for start, rest in forms)})"
        for kind, forms in _FORMS.items()
    )
    + ")"
    + _END
)

_RUN_CHARS = 20
"""Shortest run of key characters in an issued key: an AWS access key id."""
_WINDOW_CHARS = 64
"""A key begins within so many characters of its run; before it stand an escaped newline, or a name and a dash."""
_BEFORE_CHARS = 48
"""The parts before a dot that are no runs of their own, as in ``dp.st.dev_personal.``."""
_IS_KEY = bytes(ord("k") if re.match(_KEY, chr(code)) else ord(" ") for code in range(256))
_RUN = b"k" * _RUN_CHARS
_UUID_CHARS = 36
_PLUS = ord("+")
_SMALL = b"abcdefghijklmnopqrstuvwxyz_-"


def issued_keys(text: str, data: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and kind of each key in ``text``, in order.

    Args:
        text: Where to look.
        data: ``text`` in Latin-1, with one byte for each character.
    """
    done = 0
    for start, end in _runs(data):
        for at in _starts(data, start, end):
            match = _ISSUED.match(text, at) if at >= done and _may_begin(data, at) else None
            if match is None:
                continue
            kind, key = (match.lastgroup or "").replace("_", "-"), match.group()
            is_doubtful = (kind in _WORDY and not is_random(key)) or (kind in _NAMED and not _is_named_key(key))
            if not is_doubtful and not is_sample(key):
                yield at, match.end(), kind
            done = match.end()


def _starts(data: bytes, start: int, end: int) -> list[int]:
    """Return where in or just before a run a key may begin."""
    before = data[max(0, start - 3) : start]
    starts = [start]
    if before[-1:] in (b"\\", b"%"):  # an escaped newline, or a %3D
        starts.append(start + (1 if before[-1:] == b"\\" else 2))
    elif before == b"1//":
        starts.append(start - 3)
    elif before[-1:] in (b".", b":"):
        starts += [part.start() for part in _PART.finditer(data, max(0, start - _BEFORE_CHARS), start)]
    starts += [dash.end() for dash in _AFTER_DASH.finditer(data, start, min(end, start + _WINDOW_CHARS))]
    return sorted(starts)


def _may_begin(data: bytes, at: int) -> bool:
    beginning = _BEGINNINGS.get(data[at])
    return bool((beginning and beginning.match(data, at)) or _OTHER_BEGINNINGS.match(data, at))


def _is_named_key(key: str) -> bool:
    return is_mixed(key) and not key.casefold().endswith("here")


def _runs(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield start and end of each run of key characters that can hold a key. Costs 4 ns a byte."""
    # With all key characters made one, looking for twenty of them skips through the bytes nineteen at a time.
    marks = data.translate(_IS_KEY)
    at = marks.find(_RUN)
    while at >= 0:
        end = marks.find(b" ", at + _RUN_CHARS)
        end = len(marks) if end < 0 else end
        # After a plus it is a stretch of base64; in small letters only it is a name, such as test_a_key_is_found.
        run = data[at:end]
        is_uuid = end - at == _UUID_CHARS and run[8:24:5] == b"----"
        if not is_uuid and (not at or data[at - 1] != _PLUS) and run.translate(None, _SMALL):
            yield at, end
        at = marks.find(_RUN, end)
