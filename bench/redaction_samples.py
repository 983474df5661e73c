"""Made-up lines with a secret in each, and lines that only look like it: what the redaction bench counts on.

Every key is put together here when it is asked for, so that no file of the repository holds a key-shaped string. The
draws are seeded: two runs see the same lines.
"""

from __future__ import annotations

import base64
import random
import string
import uuid
from collections.abc import Iterator
from typing import NamedTuple

from palace_daemon.bench.redaction_plain import PLAIN

_ALNUM = string.ascii_letters + string.digits
_UPPER = string.ascii_uppercase + string.digits
_BASE32 = string.ascii_uppercase + "234567"
_HEX = "0123456789abcdef"
_URLSAFE = _ALNUM + "_-"
_BASE64 = _ALNUM + "+/"


class Positive(NamedTuple):
    """A text that holds a secret: what kind of secret, the text, and the secret in it."""

    name: str
    text: str
    secret: str


class _Chance:
    """Seeded draws."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - samples, not keys

    def draw(self, length: int, alphabet: str = _ALNUM) -> str:
        """Return a drawn string with a digit and a letter in it."""
        while True:
            drawn = "".join(self._random.choices(alphabet, k=length))
            if any(map(str.isdigit, drawn)) and any(map(str.isalpha, drawn)):
                return drawn

    def key_lines(self, lines: int, width: int = 64) -> str:
        """Return lines of base64."""
        return "\n".join(self.draw(width, _BASE64) for _ in range(lines))

    def uuid(self) -> str:
        """Return a UUID."""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))


_PASSWORDS = (
    "hunter2",
    "Tr0ub4dor&3",
    "s3cr3t-Horse!",
    "Winter2024!",
    "qwe123RTY",
    "p@ssw0rd99",
    "Zx9#kLm2",
    "c0rrect.battery",
)


def _issued(c: _Chance) -> list[tuple[str, str]]:
    """Return a key of each issuer."""
    draw = c.draw
    jwt = f"eyJ{draw(33, _URLSAFE)}.eyJ{draw(90, _URLSAFE)}.{draw(43, _URLSAFE)}"
    return [
        ("aws", "AKIA" + draw(16, _BASE32)),
        ("aws", "ASIA" + draw(16, _BASE32)),
        ("aws bedrock", "ABSK" + draw(128, _BASE64)),
        ("github", "ghp_" + draw(36)),
        ("github", "gho_" + draw(36)),
        ("github", "ghs_" + draw(36)),
        ("github", "ghu_" + draw(36)),
        ("github", "github_pat_" + draw(22) + "_" + draw(59)),
        ("gitlab", "glpat-" + draw(20, _URLSAFE)),
        ("gitlab", "glpat-" + draw(27, _URLSAFE) + ".01." + draw(9)),
        ("gitlab", "glrt-" + draw(20, _URLSAFE)),
        ("slack", f"xoxb-{draw(12, string.digits + 'a')[:11]}1-{draw(13, '0123456789a')[:12]}1-{draw(24)}"),
        ("slack", "xapp-1-A" + draw(10, _UPPER) + "-" + draw(13, "0123456789a") + "-" + draw(64, _HEX)),
        ("stripe", "sk_live_" + draw(24)),
        ("stripe", "rk_live_" + draw(99)),
        ("stripe", "sk_test_51" + draw(97)),
        ("stripe", "whsec_" + draw(32)),
        ("openai", "sk-proj-" + draw(74, _URLSAFE) + "T3BlbkFJ" + draw(74, _URLSAFE)),
        ("openai", "sk-" + draw(20) + "T3BlbkFJ" + draw(20)),
        ("openai", "sk-svcacct-" + draw(58, _URLSAFE)),
        ("openrouter", "sk-or-v1-" + draw(64, _HEX)),
        ("anthropic", "sk-ant-api03-" + draw(93, _URLSAFE) + "AA"),
        ("anthropic", "sk-ant-oat01-" + draw(93, _URLSAFE) + "AA"),
        ("google", "AIza" + draw(35, _URLSAFE)),
        ("google", "GOCSPX-" + draw(28, _URLSAFE)),
        ("google", "ya29.a0" + draw(160, _URLSAFE)),
        ("google", "1//0g" + draw(96, _URLSAFE)),
        ("azure", draw(3) + "8Q~" + draw(34)),
        ("azure", draw(52) + "JQQJ99BEACYeBjFXJ3w3AAABACOG" + draw(4)),
        ("npm", "npm_" + draw(36)),
        ("pypi", "pypi-AgEIcHlwaS5vcmc" + draw(120, _URLSAFE)),
        ("rubygems", "rubygems_" + draw(48, _HEX)),
        ("huggingface", "hf_" + draw(34, string.ascii_letters + "0")),
        ("twilio", "SK" + draw(32, _HEX)),
        ("sendgrid", "SG." + draw(22, _URLSAFE) + "." + draw(43, _URLSAFE)),
        ("mailgun", "key-" + draw(32, _HEX)),
        ("mailchimp", draw(32, _HEX) + "-us14"),
        ("brevo", "xkeysib-" + draw(64, _HEX) + "-" + draw(16)),
        ("telegram", "7" + "310482957" + ":AA" + draw(33, _URLSAFE)),
        ("discord", "MT" + draw(24) + "." + draw(6, _URLSAFE) + "." + draw(38, _URLSAFE)),
        ("digitalocean", "dop_v1_" + draw(64, _HEX)),
        ("databricks", "dapi" + draw(32, _HEX)),
        ("shopify", "shpat_" + draw(32, _HEX)),
        ("square", "sq0atp-" + draw(22, _URLSAFE)),
        ("linear", "lin_api_" + draw(40)),
        ("notion", "ntn_" + draw(46)),
        ("airtable", "pat" + draw(14) + "." + draw(64, _HEX)),
        ("figma", "figd_" + draw(40, _URLSAFE)),
        ("newrelic", "NRAK-" + draw(27, _UPPER)),
        ("grafana", "glsa_" + draw(32) + "_" + draw(8, _HEX)),
        ("sentry", "sntryu_" + draw(64, _HEX)),
        ("vault", "hvs." + draw(90, _URLSAFE)),
        ("doppler", "dp.pt." + draw(43)),
        ("pulumi", "pul-" + draw(40, _HEX)),
        ("terraform", draw(14) + ".atlasv1." + draw(67)),
        ("atlassian", "ATATT3xFfGF0" + draw(180, _URLSAFE)),
        ("postman", "PMAK-" + draw(24, _HEX) + "-" + draw(34, _HEX)),
        ("docker", "dckr_pat_" + draw(27, _URLSAFE)),
        ("heroku", "HRKU-AA" + draw(58, _URLSAFE)),
        ("groq", "gsk_" + draw(52)),
        ("xai", "xai-" + draw(80)),
        ("replicate", "r8_" + draw(37)),
        ("perplexity", "pplx-" + draw(48)),
        ("tavily", "tvly-dev-" + draw(32)),
        ("langsmith", "lsv2_pt_" + draw(32, _HEX) + "_" + draw(10, _HEX)),
        ("tailscale", "tskey-auth-" + draw(17) + "-" + draw(32)),
        ("age", "AGE-SECRET-KEY-1" + draw(58, _UPPER)),
        ("supabase", "sbp_" + draw(40, _HEX)),
        ("jwt", jwt),
    ]  # fmt: skip


_FRAMES = (
    "{}",
    "use {} for the staging box",
    "export TOKEN_A={}",
    '{{"value": "{}"}}',
    "(it was {}, I think)",
    "- {}\n- next",
)


def _labelled(c: _Chance) -> Iterator[tuple[str, str, str]]:
    """Yield name, text with ``{}``, secret: what a label, a header or a command announces."""
    draw = c.draw
    hunter, trouble, horse, winter, short, *_ = _PASSWORDS
    yield from (
        ("env", "DB_PASSWORD={}", hunter),
        ("env", "export PGPASSWORD={}", winter),
        ("env", "MYSQL_ROOT_PASSWORD={}\nMYSQL_DATABASE=app", "swordfish"),
        ("env", "SMTP_PASS={}", short),
        ("env", "AWS_SECRET_ACCESS_KEY={}", draw(40, _BASE64)),
        ("env", "AWS_SESSION_TOKEN={}", "IQoJb3JpZ2luX2Vj" + draw(280, _BASE64)),
        ("env", "OPENAI_KEY={}", draw(48)),
        ("env", "SECRET_KEY_BASE={}", draw(128, _HEX)),
        ("env", "DJANGO_SECRET_KEY='{}'", "x7%" + draw(20) + "!k_" + draw(18)),
        ("env", "TWILIO_AUTH_TOKEN={}", draw(32, _HEX)),
        ("env", "CLOUDFLARE_API_TOKEN={}", draw(40, _URLSAFE)),
        ("env", "DD_API_KEY={}", draw(32, _HEX)),
        ("env", "AZURE_CLIENT_SECRET={}", draw(40)),
        ("env", "HEROKU_API_KEY={}", c.uuid()),
        ("env", "DB_PASSWORD={}", "abc12"),
        ("env", "export DB_PASSWORD={}", "Secret2024!"),
        ("env", "PASSWORD={}", "Password123"),
        ("env", 'DB_PASSWORD="{}"', "S3cret\\$Pw99"),
        ("env", 'DB_PASSWORD="{}"', "correct horse battery staple"),
        ("env", "DB_PASSWORD={}", 'S3cr"etPw99'),
        ("env", "DB_PASSWORD={}", "p#S3cr(etPw99)"),
        ("env", "DB_PASSWORD={}\\nPORT=1", "S3cr|etPw99"),
        ("env", "SSHPASS={} sshpass -e ssh host", "abcd1234"),
        ("yaml", "    environment:\n      POSTGRES_PASSWORD: {}\n", "greentea"),
        ("yaml", 'password: "{}"', "correct horse battery 9"),
        ("yaml", "password: '{}'", "it''s-S3cretPw99"),
        ("yaml", "database:\n  username: app\n  password: {}\n", trouble),
        ("yaml", "    passwd: {}", horse),
        ("yaml", 'client_secret: "{}"', draw(32)),
        ("yaml", "api-key: {}", draw(40, _HEX)),
        ("yaml", "stringData:\n  password: {}", base64.b64encode(b"Winter2024!x").decode()),
        ("json", '{{"user": "sam", "password": "{}"}}', trouble),
        ("json", '{{\\"password\\": \\"{}\\"}}', hunter),
        ("json", '{{"user": "sam", "password": "{}"}}', 'Gr33n\\"Tea99'),
        ("json", '{{\\"password\\": \\"{}\\", \\"port\\": 1}}', 'Gr33n\\\\\\"Tea99'),
        ("json", '{{"password":"{}"}}', "p@ss word1"),
        ("json", '{{"access_token": "{}", "expires_in": 3600}}', draw(64)),
        ("json", '{{"refresh_token":"{}"}}', draw(80, _URLSAFE)),
        ("json", '"apiKey": "{}",', draw(39)),
        ("json", '"private_key_id": "x", "client_secret": "{}"', draw(24)),
        ("json", '{{"auths": {{"ghcr.io": {{"auth": "{}"}}}}}}', base64.b64encode(b"sam:hunter2x").decode()),
        ("code", 'password = "{}"', winter),
        ("code", "const apiKey = '{}';", draw(32)),
        ("code", 'String secretKey = "{}";', draw(44, _BASE64)),
        ("code", 'os.environ["API_TOKEN"] = "{}"', draw(40)),
        ("code", 'token: str = "{}"', draw(40)),
        ("code", "Client(api_key='{}', timeout=3)", draw(36)),
        ("code", 'def login(user="sam", password="{}"):', horse),
        ("code", "$config['db_pass'] = '{}';", short),
        ("xml", "<password>{}</password>", hunter),
        ("xml", "<username>sam</username><password>{}</password>", "swordfish"),
        ("xml", '<add key="ApiSecret" value="x"/> <secret>{}</secret>', draw(32)),
        ("ini", "password = {}\nport = 3306", trouble),
        ("ini", "//registry.npmjs.org/:_authToken={}", draw(36, _HEX)),
        ("ini", "//registry.example.com/:_authToken={}", c.uuid()),
        ("ini", "_auth={}", base64.b64encode(b"deploy:s3cr3t99").decode()),
        ("netrc", "machine api.example.com login sam password {}", "letmein"),
        ("netrc", "machine db.local\n  login app\n  password {}\n", hunter),
        ("htpasswd", "sam:{}", "$apr1$" + draw(8) + "$" + draw(22)),
        ("htpasswd", "sam:{}", "$2y$10$" + draw(53)),
        ("shadow", "root:{}:19000:0:99999:7:::", "$6$" + draw(16) + "$" + draw(86)),
        ("prose", "my password is {}, keep it", hunter),
        ("prose", "the root password was: {}", winter),
        ("prose", "Password: {}", trouble),
        ("prose", "login with sam / password {{}} or ask me; token: {}", draw(40)),
        ("prose", "password={}", "S3cr,etPw99"),
        ("prose", "password={} and so on", "S3cret;Pw99"),
        ("prose", "password={}", "S3cr=etPw99"),
        ("prose", "password\uff1a{}", "Gr33nTea99"),
        ("markdown", "**Password:** {}", "Gr33nTea99"),
        ("markdown", "- **Password**: {}\n- **User**: sam", "Gr33nTea99"),
        ("markdown", "password: **{}**", "Gr33nTea99"),
        ("markdown", "**API key:** `{}`", draw(32)),
        ("markdown", "| User | sam |\n| Password | {} |", "Gr33nTea99"),
        ("markdown", "| API key | `{}` |", draw(32)),
        ("flag", "mysql -u root -p{} shop", horse),
        ("flag", "mysql -h db -P3306 -u root -p{} shop", "S3cretPw99"),
        ("flag", "mysqladmin -P3306 -p{} status", "S3cretPw99"),
        ("flag", "sshpass -P prompt -p {} ssh host", "S3cretPw99"),
        ("flag", "curl --user 'sam:{}' https://example.com", "my pass word1"),
        ("flag", "tool --password={} --host db", "greentea"),
        ("flag", "mysqldump --user=root --password={} shop > x.sql", winter),
        ("flag", "psql --password {} -h db", hunter),
        ("flag", "tool login --token {}", draw(40)),
        ("flag", "tool --api-key={} run", draw(32)),
        ("flag", "sshpass -p {} ssh sam@host", winter),
        ("flag", "sshpass -p '{}' scp a b:", trouble),
        ("flag", "curl -u sam:{} https://example.com/x", hunter),
        ("flag", "curl --user 'sam:{}' https://example.com/x", winter),
        ("flag", "docker login -u sam -p {} ghcr.io", horse),
        ("flag", "redis-cli -h cache -a {} ping", short),
        ("header", "Authorization: Bearer {}", draw(40)),
        ("header", "curl -H 'authorization: bearer {}' x", draw(24)),
        ("header", "Authorization: Token {}", draw(40, _HEX)),
        ("header", "Authorization: Basic {}", base64.b64encode(b"sam:hunter2").decode()),
        ("header", '"Authorization": "Bearer {}"', draw(64, _URLSAFE)),
        ("header", "X-Api-Key: {}", draw(32, _HEX)),
        ("header", "PRIVATE-TOKEN: {}", draw(20)),
        ("header", "x-auth-token: {}", draw(48)),
        ("header", "Cookie: theme=dark; session={}; lang=en", draw(48)),
        ("header", "Set-Cookie: sid={}; Path=/; HttpOnly", draw(40, _URLSAFE)),
        ("url", "postgres://app:{}@db.local:5432/shop", "s3cr3t"),
        ("url", "DATABASE_URL=postgresql+psycopg://app:{}@10.0.0.4/shop", winter),
        ("url", "mysql://root:{}@127.0.0.1:3306/x", short),
        ("url", "mongodb+srv://app:{}@cluster0.ab1cd.mongodb.net/x", draw(16)),
        ("url", "redis://:{}@10.0.0.1:6379/0", "p@ss!w0rd"),
        ("url", "amqp://guest2:{}@mq:5672/%2f", hunter),
        ("url", "https://sam:{}@example.com/repo.git", draw(20)),
        ("url", "https://x-access-token:{}@github.com/a/b", "v1." + draw(40, _HEX)),
        ("url", "ftp://sam:{}@files.example.com/", "swordfish"),
        ("url", "jdbc:postgresql://db/x?user=app&password={}", hunter),
        ("url", "https://example.com/cb?code=1&access_token={}&x=1", draw(40)),
        ("url", "https://maps.example.com/js?api_key={}", draw(32)),
        ("signed url", "https://acc.blob.example/x?sv=2024&sig={}%3D&se=1", draw(43)),
        ("signed url", "https://b.s3.example/x?X-Amz-Signature={}", draw(64, _HEX)),
        ("connection", "Server=db;Database=x;User Id=sa;Password={};Encrypt=True", trouble),
        ("connection", "AccountName=x;AccountKey={};EndpointSuffix=y", draw(86, _BASE64) + "=="),
        ("connection", "Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey={}", draw(43, _BASE64) + "="),
        ("webhook", "https://hooks.slack.com/services/T0A1B2C3D/B0A1B2C3D/{}", draw(24)),
        ("webhook", "https://discord.com/api/webhooks/110482957310482957/{}", draw(68, _URLSAFE)),
        ("totp", "otpauth://totp/Shop:sam?secret={}&issuer=Shop", draw(32, _BASE32)),
        ("totp", "TOTP_SECRET={}", draw(16, _BASE32)),
    )  # fmt: skip


def _blocks(c: _Chance) -> Iterator[Positive]:
    """Yield private keys; the secret is what stands between the lines."""
    for name in ("RSA PRIVATE KEY", "EC PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"):
        body = c.key_lines(6)
        text = f"-----BEGIN {name}-----\n{body}\n-----END {name}-----"
        yield Positive(f"pem {name.lower()}", f"here it is:\n{text}\nthanks", body)
    body = c.key_lines(4).replace("\n", "\\n")
    head, tail = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"
    yield Positive("gcp service account", f'"private_key": "{head}\\n{body}\\n{tail}\\n",', body)
    body = c.key_lines(5)
    yield Positive("pem cut off", f"-----BEGIN RSA PRIVATE KEY-----\n{body}", body)
    body = c.key_lines(3)
    yield Positive("putty", f"PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 3\n{body}\nPrivate-MAC: x", body)
    indented = "\n".join("    " + line for line in c.key_lines(4).split("\n"))
    yield Positive("pem in yaml", f"  key: |\n    {head}\n{indented}\n    {tail}\n", indented)


def positives(seed: int = 7) -> list[Positive]:
    """Return about 165 texts that hold one secret each."""
    c = _Chance(seed)
    found = []
    for number, (name, key) in enumerate(_issued(c)):
        found.append(Positive(name, _FRAMES[number % len(_FRAMES)].format(key), key))
    for name, frame, secret in _labelled(c):
        found.append(Positive(name, frame.format(secret), secret))
    return [*found, *_blocks(c)]


def negatives(seed: int = 11) -> list[str]:
    """Return about 380 texts without a secret: written ones, and drawn hashes, ids, paths, images, keys to publish."""
    c = _Chance(seed)
    drawn = [text for number in range(12) for text in _drawn_negatives(c, number)]
    fence = "```\n<private>only an example</private>\n```"
    lines = PLAIN.replace(fence, "").strip().split("\n")
    return [*(line for line in lines if line), fence, *drawn]


def _drawn_negatives(c: _Chance, number: int) -> Iterator[str]:
    draw = c.draw
    yield f"commit {draw(40, _HEX)}"
    yield f"{draw(7, _HEX)}..{draw(7, _HEX)} main -> origin/main"
    yield f"sha256:{draw(64, _HEX)}  dist/app-{number}.tar.gz"
    yield f'"integrity": "sha512-{draw(86, _BASE64)}==",'
    yield f"session {c.uuid()} resumed as {c.uuid()}"
    yield f"token {c.uuid()}"
    yield f"/home/sam/.claude/projects/-home-sam-tidepool/{c.uuid()}.jsonl"
    yield f"toolu_01{draw(22)} msg_01{draw(22)} req_{draw(24)} call_{draw(24)} chatcmpl-{draw(29)}"
    yield f"data:image/png;base64,iVBORw0KGgo{draw(300, _BASE64)}"
    yield "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ" + draw(300, _BASE64) + " sam@laptop"
    yield f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{draw(43, _BASE64)} and SHA256:{draw(43, _BASE64)}"
    yield f"-----BEGIN CERTIFICATE-----\n{c.key_lines(4)}\n-----END CERTIFICATE-----"
    yield f"-----BEGIN PUBLIC KEY-----\n{c.key_lines(3)}\n-----END PUBLIC KEY-----"
    yield f'ETag: W/"{draw(32, _HEX)}", x-request-id: {c.uuid()}, traceparent: 00-{draw(32, _HEX)}-{draw(16, _HEX)}-01'
    yield f"registry.example.com/app@sha256:{draw(64, _HEX)} (image id {draw(12, _HEX)})"
    yield f"dist/assets/index-{draw(8, _URLSAFE)}.js 142.5 kB, main.{draw(8, _HEX)}.css, chunk-{draw(8, _UPPER)}.mjs"
    yield f"pod/api-{draw(10, _HEX)}-{draw(5, _HEX)} 1/1 Running; nonce-{draw(22, _BASE64)}=="
    yield f"https://cdn.example.com/{draw(32, _HEX)}/{draw(16)}/logo.png?v={draw(10)}&w=640"
    yield f"cache key: {draw(40, _HEX)}, key={draw(32, _HEX)}, object_key = uploads/{c.uuid()}.png"
    yield f'"_id": "{draw(24, _HEX)}", "parentUuid": "{c.uuid()}", "promptId": "{draw(26, _BASE32)}"'


def minified(seed: int = 13, kilobytes: int = 64) -> str:
    """Return code as a minifier leaves it: short names, few spaces, a hash now and then."""
    c = _Chance(seed)
    pieces: list[str] = []
    size = 0
    while size < kilobytes * 1024:
        one, other = c.draw(2), c.draw(3)
        piece = (
            f"function {one}(e,t){{var n=e.key||t.token;return n?{other}(n.auth,{len(pieces)}):e.pass=t}}"
            f'!function(){{{other}.{one}="{c.draw(8, _HEX)}",this.tokens=[{len(pieces)}]}}();'
        )
        pieces.append(piece)
        size += len(piece)
    return "".join(pieces)
