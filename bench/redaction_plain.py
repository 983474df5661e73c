"""Made-up lines that look as if they held a secret, and hold none."""

from __future__ import annotations

PLAIN = r"""
password: YOUR_PASSWORD
password=${DB_PASSWORD}
password = os.environ["DB_PASSWORD1"]
const token = process.env.GITHUB_TOKEN2
const apiKey = process.env.API_KEY;
api_key = <your-api-key-1>
API_KEY=<YOUR_API_KEY>
api_key="xxxxxxxxxxxxxxxxxxxxxxxx"
token: "your-token-goes-here-123"
OPENAI_API_KEY=sk-...
OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxx
export ANTHROPIC_API_KEY="sk-ant-..."
password: string; token: string | null
interface Login { username: string; password: string }
def login(user: str, password: str = None) -> Token:
password = getpass.getpass("Password: ")
if password == user.password1:
<input type="password" placeholder="Enter your password">
password=hash_password(form.password2)
PWD=/home/sam/work2
pwd: ~/work/x1
max_tokens: 4096, tokens=128000, token_count=512345678901
"usage": {"input_tokens": 51234, "output_tokens": 1234, "cache_read_input_tokens": 99123}
the token is expired and the secret is out
the password is required
password is too short (minimum is 8 characters)
secret_name: prod-database-credentials-2
secretKeyRef: name-of-secret-1
cache_key = "user:profile:42:settings"
primary_key = "customer_id_2024_archive"
sort_key=created_at_desc_v2
key={item.id} ref={tokenRef}
Bearer authentication-is-required and Basic understanding
Authorization: Bearer $ACCESS_TOKEN
Authorization: Bearer YOUR_ACCESS_TOKEN_1
Authorization: Bearer <token>
headers: { Authorization: `Bearer ${token}` }
sk-learn-pipeline-with-many-words and task-management-service-two
ssk-live and sk_live_ alone, ghp_ too, AKIA as well, eyJ
ghp_XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX
-----BEGIN RSA PRIVATE KEY----- ... -----END RSA PRIVATE KEY-----
https://user:${TOKEN}@github.com/x and https://user:<password>@host
postgres://USER:PASSWORD@HOST:5432/DB
postgres://user:***@host/db
https://example.com:8080/a@b and git@github.com:foo/bar.git and ssh://git@host:22/x
http://localhost:3000/@vite/client and http://127.0.0.1:8080/@fs/x
publicKeyToken="1fc8b3b9a1e18e3b"
model claude-3-5-sonnet-20241022, gpt-4o-2024-08-06, all-MiniLM-L6-v2
password_hash = bcrypt.hashpw(password, salt)
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
PASSWORD_RESET_TIMEOUT=259200
TOKEN_EXPIRY_SECONDS=86400
token = generate_token(user_id2)
secret = random_bytes(32)
self.token = Token.objects.create(user=self.user1)
password: process.env.PGPASSWORD1 ?? ""
const { password, ...rest } = user1;
password: z.string().min(8),
password: Joi.string().required(),
password: { type: String, required: true },
"password": {"type": "string", "minLength": 8}
passwordConfirm: formData.password2
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
token_type_ids=inputs["token_type_ids"]
nextPageToken=response.next_page_token2
csrf_token = get_token(request)
{% csrf_token %}
<meta name="csrf-token" content="{{ csrf_token() }}">
credentials: "include", mode: "same-origin2"
aws_access_key_id = YOUR_ACCESS_KEY_ID
aws_secret_access_key = YOUR_SECRET_ACCESS_KEY
"secret": "projects/123456789/secrets/db-pass-1/versions/latest"
arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db-AbCdEf
arn:aws:iam::123456789012:role/service-role/lambda-exec-role-abc12
mysql -u root -p
mysql -u root -p"$MYSQL_PASSWORD" shop
mysqldump --port 3306 -p shop
curl -u "$USER:$PASS" https://example.com
curl -X POST -u sam https://example.com:8080/a
docker login -u sam --password-stdin
redis-cli -h cache -a "$REDIS_PASSWORD"
sshpass -p "$PASS" ssh host
docker run -p 8080:80 -e PASSWORD=${PASSWORD} mysql:8 -port
Cookie: theme=dark; lang=en; consent=yes
document.cookie = "name=" + value + "; path=/"
cookie: { secure: true, sameSite: "strict" }
res.cookie("sid", token, { httpOnly: true })
const hash = "$2" + rest; echo $2 $6 $10
awk '{print $2}' file | sed 's/$2y/x/'
auth: { type: "oauth2", required: true }
@auth=require("./auth_middleware_v2")
Use --token TOKEN or --api-key KEY to sign in
use the --password flag with care
run with --secret option set
git push origin feature/add-token-refresh-2024
test_user_can_reset_password_with_valid_token_2 PASSED
PASS: TestLoginHandler2 (0.03s)
pass: 12 tests, fail: 0
FAILED tests/test_auth.py::test_password1 - AssertionError
passport: required, passenger: 2nd
bypass=true2 compass: north1
keyboard: qwerty1 monkey=banana1 turkey: 12
author: sam2, authority=root1, authentic: yes
sha256 checksum file and md5 sum
sig=none signature=pending
id_rsa.pub is at ~/.ssh/id_rsa.pub
`<private>` marks what must not be stored
```
<private>only an example</private>
```
class Vault { private token: Token2; private readonly secret: Secret3 }
private key pair, public key ring, secret santa list 2024
const SECRET_LENGTH = 32; const TOKEN_PREFIX = "tok_v2";
error code: ERR_TOKEN_EXPIRED_401, E_SECRET_MISSING_2
Secret: None, Token: null, Password: undefined
token = "test"
password = "password"
password: changeme
PASSWORD=password
secret: "<redacted>"
mysqladmin -P3306 status
sshpass -e ssh -p 2222-3333 host and sshpass -f file ssh -p22022 host
test_pass: test_utf8_ok, tests_pass: suite12
passcode: 6-digit, password: 8-characters
password_confirmation: params2, password: params1, password=opts2
DEDUP_KEY=9f86d081884c7d659a2feaa0c55ad015
ROW_KEY=9f86d081884c7d659a2feaa0c55ad015 LOOKUP_KEY=3f786850e387550fdab836ed7e6dc881de23001b
password: "Enter your password (8+ chars)"
"password": "Must contain 1 digit", "passwordHint": "min 8 characters"
"password": "Passwords do not match 2"
'password' => 'required|min:8|confirmed',
password_keyword = r'(?:secret[-_]?(?:access)?[-_]?key)'
DB_PASSWORD: string
  DB_PASSWORD: required
  WRONG_PASSWORD: mismatch
DB_PASSWORD=<secret> PASSWORD=password! MY_PASSWORD=changeme DB_PASSWORD=none
DB_PASSWORD=get_secret("db2")
PASSWORD=settings.db_password1
DB_PASSWORD=/run/secrets/db1
<password>string</password> <password>required</password>
| password | varchar(255) | not null |
| password | string2 | yes |
| `password` | varchar2 | yes |
if token | password2 | other3:
fake-pass-1: password="fake-pass-1" password="dummy_secret1"
password=user,id2 and password=a;b=c123456
Now the password:
--password=PASSWORD --password=string
password=[redacted:password] and [redacted:github-token]
Bearer [redacted:bearer-token]
"""
"""One a line; the fence in it is one text."""
