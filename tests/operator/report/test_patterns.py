"""Credentials in text: each form of them is masked, and what a maintainer needs to read stays."""

import pytest

from naiad_operator.report import patterns

S = "s3cr3t+V4lue/0123"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\nZZZ9\n-----END RSA PRIVATE KEY-----"

MASKED = {
    f"password={S}": "password=***",
    f"password: {S} next": "password: *** next",
    f"AWS_SECRET_ACCESS_KEY={S}": "AWS_SECRET_ACCESS_KEY=***",
    f"STRIPE_KEY={S}": "STRIPE_KEY=***",
    f"pwd={S};": "pwd=***",
    f'"api_key": "{S}", "x": 1': '"api_key": "***", "x": 1',
    f'\\"client_secret\\": \\"{S}\\"': '\\"client_secret\\": \\"***\\"',
    f"'token': 'two words {S}'": "'token': '***'",
    f"--api-key {S} --model m": "--api-key *** --model m",
    f"--api-key={S} --model m": "--api-key=*** --model m",
    f"x-api-key: {S}": "x-api-key: ***",
    f'proxy_set_header X-Api-Key "{S}";': 'proxy_set_header X-Api-Key "***";',
    f"with password '{S}'": "with password '***'",
    f"Authorization: Bearer {S}": "Authorization: ***",
    f'"authorization": "Basic {S}"': '"authorization": "***"',
    f'proxy_set_header Authorization "Bearer {S}"': 'proxy_set_header Authorization "***"',
    f"sent Bearer {S} to": "sent Bearer *** to",
    f"Cookie: a={S}; b=2": "Cookie: ***",
    f"curl -u admin:{S} http://host/": "curl -u admin:*** http://host/",
    f"http://user:{S}@host:8000/v2": "http://***@host:8000/v2",
    "http://user:p@ss@host:8000/v2": "http://***@host:8000/v2",
    "postgres://user:a/b@host/db": "postgres://***@host/db",
    "git+https://ghtoken@host/x": "git+https://***@host/x",
    f"https://b.s3.example.com/k?X-Amz-Signature={S}&X-Amz-Expires=60": "https://b.s3.example.com/k?X-Amz-Signature=***&X-Amz-Expires=60",
    f"https://a.blob.core.windows.net/c?sv=2022&sig={S}&se=1": "https://a.blob.core.windows.net/c?sv=2022&sig=***&se=1",
    f"?x=1\\u0026access_token={S}": "?x=1\\u0026access_token=***",
    f"--http-restricted-api=model-repository:admin={S}": "--http-restricted-api=model-repository:admin=***",
    f"DefaultEndpointsProtocol=https;AccountKey={S}": "DefaultEndpointsProtocol=https;AccountKey=***",
    f"the session has {JWT} in it": "the session has *** in it",
    "uses AKIAABCDEFGHIJKLMNOP now": "uses *** now",
    "hf_abcdefghijklmnopqrstuvwxyz": "***",
    "sk_live_abcdefghijklmnop": "***",
    f"password=b'{S}'": "password=b'***'",
    f"password         :    {S}": "password         :    ***",
    f'{{\\\\\\"password\\\\\\":\\\\\\"{S}\\\\\\"}}': '{\\\\\\"password\\\\\\":\\\\\\"***\\\\\\"}',
    f"credentials: ('admin', '{S}')": "credentials: ***",
    f"tokens = ['{S}', '{S}']": "tokens = ***",
    f"RootPass: {S}": "RootPass: ***",
    f'auths {{"r": {{"auth": "{S}"}}}} read': 'auths {"r": {"auth": "***"}} read',
    f"[('host', 'x'), ('x-api-key', '{S}'), (b'cookie', b'{S}')]": "[('host', 'x'), ('x-api-key', '***'), (b'cookie', b'***')]",
    f'_Metadatum(key="x-api-key", value="{S}")': '_Metadatum(key="x-api-key", value="***")',
    f'key: "api-key" value: "{S}"': 'key: "api-key" value: "***"',
    f"<SecretKey>{S}</SecretKey><Region>x</Region>": "<SecretKey>***</SecretKey><Region>x</Region>",
    f'Authorization: Digest username="u", response="{S}"': "Authorization: ***",
    f"proxy_set_header X-Api-Key {S};": "proxy_set_header X-Api-Key ***;",
    f"https%3A%2F%2Fuser%3A{S}%40host".replace("/", "%2F"): "https%3A%2F%2F***%40host",
    f"posts to https://hooks.slack.com/services/{S}": "posts to https://hooks.slack.com/services/***",
    f"https://x/y?user=a&pass={S}": "https://x/y?user=a&pass=***",
    "Incorrect API key provided: Zq8vT3xRn1Lp": "Incorrect API key provided: ***",
    "machine x login u password Zq8vT3xRn1Lp": "machine x login u password ***",
    "token Zq8vT3xRn1Lp is invalid": "token *** is invalid",
    "docker login -u u -p Zq8vT3xRn1Lp host": "docker login -u u -p *** host",
    f"a: 1\n  password: |-\n    {S}\n    {S}\n  b: 2": "a: 1\n  password: |-\n    ***\n  b: 2",
    "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tClpxOHZU in base64": "*** in base64",
    "eyJwYXNzd29yZCI6ICJacTh2VDN4Um4xTHAwS3NkIn0=": "***",
    f"before\n{KEY}\nafter": "before\n***\nafter",
    "ZZZ9\nMIIEabc\n-----END PRIVATE KEY-----\nafter": "***\nafter",
    "1Z it starts\n1Z MIIEabc\n1Z ZZZ9\n1Z -----END PRIVATE KEY-----\n1Z y": "1Z it starts\n1Z ***\n1Z y",
    f"1Z INFO [a] {'M' * 64}\n1Z INFO [a] ZZZ9\n1Z INFO [a] -----END PRIVATE KEY-----": "1Z INFO [a] ***",
}  # fmt: skip


@pytest.mark.parametrize("text", MASKED)
def test_credentials_are_masked_and_what_is_around_them_stays(text: str) -> None:
    assert patterns.masked(text) == MASKED[text]


KEPT = (
    'secret "no-such-secret" not found',
    "couldn't find key AWS_SECRET_ACCESS_KEY in Secret team-a/models",
    "basic authentication is not supported",
    "the bearer token has expired",
    "--auth-token-file=/etc/naiad/tokens",
    "secretName: models",
    "oci://registry:5000/models@sha256:0123",
    "https://host:9000/bucket/a@b",
    "http://s3.store.svc:9000",
    "TOKENIZERS_PARALLELISM=false",
    'Back-off pulling image "registry.example.com/naiad-server:0.2.0"',
    'pod nosecret-84c4699db4-6r8zj: secret "models" not found',
    "topologyKey: kubernetes.io/hostname",
    'MountVolume.SetUp failed for volume "store-secret" : secret "store" not found',
    "password: (none), token: null, secret=False;",
    "max_tokens=512 prompt_tokens: 12, token_ids=[1, 2, 3] tokens_per_second=12.5",
    "pad_token=<pad> eos_token_id: 2 token_type_ids: int64[-1,-1]",
    "passed=12 failed=0, passthrough: x",
    "--http-restricted-api=model-repository:admin-key=$(ADMIN_KEY) --password ${PASSWORD}",
    "container_path: models, memory_pattern=true --http-header-forward-pattern=x.* :x-authority: example.com",
    "secret s3-credentials2 has no key AWS_SECRET_ACCESS_KEY",
    "proxy_set_header X-Api-Key $http_x_api_key;",
    '("token-classification", 1)',
    "0/2 nodes are available: 2 Insufficient nvidia.com/mig-1g.10gb.",
    'nv_inference_request_success{model="m",version="1"} 5',
)  # fmt: skip


@pytest.mark.parametrize("text", KEPT)
def test_what_is_not_a_credential_stays(text: str) -> None:
    assert patterns.masked(text) == text


@pytest.mark.parametrize("text", [*MASKED, *KEPT])
def test_a_masked_text_stays_as_it_is(text: str) -> None:
    once = patterns.masked(text)
    assert patterns.masked(once) == once


def test_names_of_variables_that_announce_a_credential() -> None:
    announce = "PGPASS DB_CREDS API_KEY apikey DB_PASSWORD PGPASSWORD HF_TOKEN AWS_SECRET_ACCESS_KEY MySecret AUTH clientSecret X-Api-Key DB_PWD SENTRY_DSN"
    others = "KEYBOARD TOKENIZERS_PARALLELISM MONKEYS AUTHOR HOME PASSAGE RELEASE COMPATIBLE"
    assert [name for name in announce.split() if not patterns.announces_credential(name)] == []
    assert [name for name in others.split() if patterns.announces_credential(name)] == []


def test_fields_that_refer_to_a_credential_are_not_one() -> None:
    fields = "secretName secretRef tokenExpirationSeconds passwordFromEnv topologyKey key keys"
    assert [name for name in fields.split() if patterns.field_announces_credential(name)] == []


def test_fields_of_docker_s_configuration_and_their_like_are_credentials() -> None:
    fields = "auth rootPass basicAuth pwd sas dsn cookie passwordHash"
    assert [name for name in fields.split() if not patterns.field_announces_credential(name)] == []


LONG = 30_000


@pytest.mark.parametrize(
    "text",
    ["a" * LONG, "a-" * LONG, "http://" * LONG, "token" * LONG, "=" * LONG, "-----BEGIN " * LONG, "x\n" * LONG + "-----END ", "eyJaaaaaaaaaa." * LONG, " -u a:" * LONG, "secret: " * LONG, "('token" * LONG, "<token>" * LONG, "login -p" * LONG, " " * LONG, "password: |\n" * LONG, "token=(" * LONG, "A1" * LONG, "M" * 60 + "\\n" * LONG],
    ids=lambda text: text[:12].strip(),
)  # fmt: skip
@pytest.mark.timeout(120)
def test_no_text_takes_long(text: str) -> None:
    """A pattern whose time is not linear in the length takes minutes, and the test's time limit ends it."""
    assert len(patterns.masked(text + "PRIVATE KEY")) > 0
