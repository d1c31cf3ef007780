"""Finds credentials in text by their form: names that announce one, URLs, headers, tokens of known services, private keys. Pure.

It masks too much rather than too little: a line of a log that loses a word can still be read, a password that stays cannot be taken back.
"""

import collections.abc
import re
import string

MASK = "***"

Found = collections.abc.Callable[[str], None]
"""Is called with each credential that was masked, so that it can be masked where nothing announces it."""

_STEMS = (
    r"secret|passw(?:or[dt]|d)|passphrase|passcode|token(?!iz)|credential|signature|authorization|connection[-_.]?string"
    r"|(?:api|access|private|account|signing|encryption|auth|master|license|shared|session)[-_.]?key"
)
_STEM = re.compile(_STEMS, re.IGNORECASE)
_WORDS = frozenset(
    ("key", "keys", "pwd", "pass", "pgpass", "pw", "auth", "cred", "creds", "sas", "pat", "dsn", "cookie", "cookies", "bearer", "jwt", "psk", "otp", "pin")
)  # fmt: skip
"""Words that count only as a part of their own: API_KEY, not KEYBOARD."""
_FIELDS = frozenset(
    ("pwd", "pass", "pw", "auth", "creds", "sas", "pat", "dsn", "cookie", "cookies", "jwt", "psk")
)
"""Those that also count in the name of an object's field. Kubernetes has fields `key` and `keys`."""
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_REFERENCE = re.compile(
    r"(?:names?|refs?|references?|seconds|fromenv|namespace|mode|policy|audiences?|type|class)$",
    re.IGNORECASE,
)
"""How a name ends that says which credential is used, or how long it lasts, and is not the credential."""
_OWN_REFERENCES = frozenset(
    ("tokenSecret", "tokenKey", "serviceAccountKeyField", "credentialFileKey", "imagePullSecrets")
)
"""Fields of InferenceServices and NaiadProfiles that name a Secret or one of its keys; none of their fields holds a credential."""
_LOCATION = re.compile(r"(?:files?|paths?|dirs?|folders?)$", re.IGNORECASE)
_PLACE = re.compile(
    r"/(?:app|data|etc|home|mnt|opt|root|run|secrets?|srv|tmp|usr|var|workspace)(?:/[\w.-]{1,100}){1,20}"
)


def announces_credential(name: str) -> bool:
    """Whether the value of a variable, an option or a header with this name is a credential: KEY, SECRET, TOKEN, PASSWORD and their like."""
    words = {word.lower() for word in _PARTS.findall(name)}
    return bool(_STEM.search(name) or words & _WORDS)


def field_announces_credential(name: str) -> bool:
    """Whether the value of an object's field with this name is a credential. Fields that refer to one, such as `secretName`, do not count, nor `topologyKey`."""
    last = (_PARTS.findall(name) or [""])[-1].lower()
    if name in _OWN_REFERENCES or _REFERENCE.search(name):
        return False
    return last in _FIELDS or bool(_STEM.search(name))


_SETTINGS_OF_MODELS = re.compile(
    r"(?:.*[-_.])?(?:tokens|tokens?[-_.](?:ids?|types?|type[-_.]ids?|counts?|len|length|limit|budget|per[-_.]second))|(?:.*[-_.])?(?:eos|bos|pad|unk|sep|cls|mask)[-_.]token",
    re.IGNORECASE,
)
"""The tokens that language models count."""
_NUMBERS = re.compile(
    r"[(\[]?-?\d{1,7}(?:\.\d{1,6})?[%\w]{0,3}(?:,\s?-?\d{1,7})*[)\]]?[,;]?|int64\[[\d,-]*\]"
)
_SPECIAL_TOKEN = re.compile(r"(?:</?|\[)[\w|]{1,20}[>\]],?|-?\d{1,7},?")
_NOTHING = re.compile(
    r"(?:the|an?|no|not|is|are|it|of|for|from|in|with|or|and|write|name|set|leave|add|use|give|put|remove|see|check|must|could|cannot)"
    r"|\(?<?(?:null|none|nil|true|false|undefined|unset|missing|invalid|expired|secrets?|configmaps?)>?\)?[,;.)}\]]*|[|>][+-]?\d?|\$\(\w+\)|\$\{\w+\}",
    re.IGNORECASE,
)
"""What stands where a credential could be, but is not: the next word of a sentence, words that say so, and variables."""


def says_nothing(name: str, value: str) -> bool:
    """Whether a value is harmless in spite of its name: `password: null`, `max_tokens=512`, `pad_token: <pad>`."""
    if _NOTHING.fullmatch(value):
        return True
    form = _SPECIAL_TOKEN if name.lower().endswith("_token") else _NUMBERS
    return bool(_SETTINGS_OF_MODELS.fullmatch(name) and form.fullmatch(value))


def is_location(name: str, value: str) -> bool:
    """Whether the value only says where a credential is: `--auth-token-file=/etc/tokens`, `GOOGLE_APPLICATION_CREDENTIALS=/var/key.json`."""
    if _PLACE.fullmatch(value):
        return True
    return bool(_LOCATION.search(name)) and value.startswith(("/", "./", "file:"))


_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_NOT_A_POD = rf"(?![\w.-]{{0,60}}-[{_LETTERS}]{{5,10}}-[{_LETTERS}]{{5}}\b)"
"""Not the end of a pod's name, as in `pod token-service-84c4699db4-6r8zj: image not found`."""

_QUOTED_VALUE = (
    r"""[bru]{0,2}(?:\\{0,7}"(?P<double>[^"\n]*?)\\{0,7}"|\\{0,7}'(?P<single>[^'\n]*?)\\{0,7}')"""
)
_GROUP = r"""(?P<group>[(\[{][^()\[\]{}\n]{1,500}[)\]}])"""
_VALUE = rf"""(?:{_QUOTED_VALUE}|{_GROUP}|(?P<bare>[^\s"'&\\]+))"""
_ASSIGNMENT = re.compile(
    rf"""(?P<head>(?P<name>(?:{_STEMS}|\bpwd|\bpass(?![a-z])|(?<=[a-z])(?-i:Pass|Pwd|Auth)(?![a-z])|(?<=["'])(?:auth|dsn|jwt|psk|sas)(?=\\{{0,7}}["'])|(?<=[_-])(?:keys?|pwd|pass|pw|auth|sas|pat|dsn|jwt|psk)(?![a-z])){_NOT_A_POD}[\w.-]{{0,40}}+)"""
    rf"""(?:\\{{0,7}}["'])?(?:[ \t]{{0,20}}(?::=|=>|[:=])[ \t]{{0,20}}))"""
    rf"""{_VALUE}""",
    re.IGNORECASE,
)
"""`password=…`, `"api_key": "…"`, `AWS_SECRET_ACCESS_KEY: …`."""

_OPTION = re.compile(
    rf"""(?P<head>(?<!\S)--?(?P<name>[\w.-]{{0,40}}(?:{_STEMS}|pass|pwd|auth|key)[\w.-]{{0,40}}+)\s{{1,10}}){_VALUE}""",
    re.IGNORECASE,
)
"""`--password …`, `--api-key …`."""

_CREDENTIAL_NAME = rf"(?:{_STEMS}|auth|(?<=[_-])(?:keys?|pass|pwd))"
_PAIR = re.compile(
    rf"""(?P<head>(?<!\w)b?["'](?P<name>[\w.-]{{0,40}}{_CREDENTIAL_NAME}[\w.-]{{0,40}}|(?:set-)?cookie)["']\s{{0,3}},\s{{0,3}}(?:value\s{{0,3}}[:=]\s{{0,3}})?){_QUOTED_VALUE}""",
    re.IGNORECASE,
)
"""`("x-api-key", "…")`, `_Metadatum(key="x-api-key", value="…")`: headers and metadata as Python prints them."""
_NAMED_PAIR = re.compile(
    rf"""(?P<head>\b(?:key|name)\s{{0,3}}:\s{{0,3}}"(?P<name>[\w.-]{{0,40}}{_CREDENTIAL_NAME}[\w.-]{{0,40}})"\s{{1,3}}(?:string_)?value\s{{0,3}}:\s{{0,3}}){_QUOTED_VALUE}""",
    re.IGNORECASE,
)
"""`key: "api-key" value: "…"`: as protobuf prints them."""
_ELEMENT = re.compile(
    rf"""(?P<head><(?P<name>[\w:.-]{{0,40}}(?:{_STEMS}|accesskeyid)[\w.-]{{0,40}})>)(?P<bare>[^<\n]+)(?=</)""",
    re.IGNORECASE,
)
"""`<Password>…</Password>`, and what S3 repeats of a request that it refuses."""

_RANDOM = r"(?=[\w.~+/-]{0,100}?[A-Z])(?=[\w.~+/-]{0,100}?\d)[\w.~+/-]{8,}={0,2}|[0-9a-f]{32,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_SENTENCE = re.compile(
    rf"(?P<head>\b(?i:password|passphrase|passwd|token|api[ _-]?key|access key(?: id)?|secret(?: key)?|bearer)(?:\s(?i:is|was|provided|given))?:?\s{{1,3}})(?P<bare>{_RANDOM})"
)
"""`Incorrect API key provided: …`, `login u password …`: only what looks random, since names of objects stand there, too."""
_COMMAND = re.compile(
    r"""(?P<head>\b(?:sshpass|login|mysql\w{0,10}|mariadb\w{0,10})\b[^\n|;&]{0,200}?\s-p[ =]?)(?P<bare>[^\s"']+)"""
)
"""`docker login -u … -p …`."""

_QUOTED = re.compile(
    r"""(?P<head>\b(?:password|passphrase|x-[\w-]{1,40}|[\w]{1,40}[-_](?:key|token|secret))\s+)(?:"(?P<double>[^"\n]+)"|'(?P<single>[^'\n]+)')""",
    re.IGNORECASE,
)
_PROXY_HEADER = re.compile(
    r"""(?P<head>\bproxy_set_header\s{1,10}[\w-]{0,40}(?:key|token|secret|auth|password|authorization)[\w-]{0,40}\s{1,10})(?P<bare>[^\s;"'$]+)""",
    re.IGNORECASE,
)
"""`proxy_set_header X-Api-Key "…"`, `with password '…'`. Not `secret "models" not found`, which names a Secret."""

_HEADER = re.compile(
    r"""(?P<head>\b(?:authorization|(?:set-)?cookie)\\{0,2}["']?(?:\s*[:=]\s*|\s+(?=["']))\\{0,2}["']?)(?P<bare>[^"'\n\r]+)""",
    re.IGNORECASE,
)
_SCHEME_WITH_FIELDS = re.compile(
    r"(?P<head>\bauthorization\s{0,3}[:=]\s{0,3})(?P<bare>(?:digest|aws4-hmac-sha256|oauth)\s[^\n\r]+)",
    re.IGNORECASE,
)
_SCHEME = re.compile(
    r"(?P<head>\b(?:bearer|basic|negotiate)\s+)(?![a-z]{1,15}\b)(?P<bare>[\w.~+/=-]{6,})",
    re.IGNORECASE,
)
"""`Bearer …`, but not "basic authentication"."""

_USER = re.compile(
    r"""(?P<head>(?<!\S)(?:-u|--user|--proxy-user)(?:\s+|=)["']?[^\s:"']{1,200}:)(?P<bare>[^\s"']+)"""
)
"""`curl -u user:…`."""

_USERINFO = re.compile(
    r"""(?P<head>\b[a-z][a-z0-9+.-]{1,20}://)(?P<bare>[^\s/"'<>\\]{1,500})(?=@)""", re.IGNORECASE
)
_USERINFO_WITH_SLASH = re.compile(
    r"""(?P<head>\b[a-z][a-z0-9+.-]{1,20}://)(?P<bare>[^\s:/@"']{1,200}:(?!\d{1,5}(?:/|$))[^\s"'@]{1,500})(?=@)""",
    re.IGNORECASE,
)
_USERINFO_ENCODED = re.compile(
    r"(?P<head>\b[a-z][a-z0-9+.-]{1,20}%3A%2F%2F)(?P<bare>[^\s/\"'<>]{1,200}?)(?=%40)",
    re.IGNORECASE,
)
_WEBHOOK = re.compile(
    r"(?P<head>\bhttps://(?:hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks|[\w.-]{1,60}\.webhook\.office\.com)/)(?P<bare>[^\s\"']+)"
)
"""Addresses that are credentials themselves."""

_QUERY = re.compile(
    rf"""(?P<head>(?:[?&;]|\\u0026)(?:amp;)?(?:[\w.%-]{{0,40}}(?:{_STEMS})[\w.%-]{{0,40}}|pwd|pass|x-(?:amz|goog)-credential"""
    rf"""|awsaccesskeyid|googleaccessid|sig|key|auth|code|jwt|policy)=)(?P<bare>[^&\s"'#\\]+)""",
    re.IGNORECASE,
)
"""The parameters of presigned URLs (Amazon, Google, Azure), and those that are named like a credential."""

_RESTRICTION = re.compile(
    r"(?P<head>-restricted-(?:api|protocol)(?:=|\s+)\S{0,200}?:[^=\s]{0,200}=)(?P<bare>\S+)"
)
"""Options of the server whose value is a header that clients must send."""

_KNOWN = re.compile(
    r"(?P<bare>\beyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*){0,3}"  # JSON web tokens
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\b(?:gh[pousr]_|github_pat_|glpat-|hf_|nvapi-|sk-|[srp]k_(?:live|test)_|gsk_|hvs\.|dapi|whsec_|xox[abeoprs]-|ya29\.|AIza|GOCSPX-|dckr_pat_|npm_|pypi-)[\w.-]{16,}"
    r"|\beyJ[A-Za-z0-9+/]{30,}={0,2}"  # JSON in base64
    r"|\bLS0tLS1CRUdJTi(?!BDRVJU)[A-Za-z0-9+/]{16,}={0,2})"  # PEM in base64, but certificates
)
"""Tokens that are recognised by themselves: Amazon, GitHub, GitLab, Hugging Face, NVIDIA, Slack, Google and others."""

_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:.{0,8192}?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|.{0,8192})",
    re.DOTALL,
)
_END_OF_KEY = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_LINE_OF_KEY = re.compile(r"(?:\S{1,40}\s)?[A-Za-z0-9+/=]{1,100}")
"""With the time in front of it, as in logs."""
_LONG_LINE_OF_KEY = re.compile(r"[A-Za-z0-9+/]{60,}")
_LETTERS_OF_KEY = f"{string.ascii_letters}{string.digits}+/=\\"

_BLOCK = re.compile(
    rf"""^(?P<head>(?P<indent>[ \t]*)["']?(?P<name>[\w.-]{{0,40}}(?:{_STEMS})[\w.-]{{0,40}})["']?:[ \t]*[|>][+-]?\d?[ \t]*\n)(?P<bare>(?:(?P=indent)[ \t]+\S[^\n]*(?:\n|\Z))+)""",
    re.IGNORECASE | re.MULTILINE,
)
"""A text of several lines in YAML."""

_IN_ORDER = (
    ("@", _USERINFO),
    ("@", _USERINFO_WITH_SLASH),
    ("%", _USERINFO_ENCODED),
    ("https://", _WEBHOOK),
    ("", _SCHEME_WITH_FIELDS),
    ("", _HEADER),
    ("-restricted-", _RESTRICTION),
    ("=", _QUERY),
    ("-", _USER),
    ("", _SCHEME),
    ("", _ASSIGNMENT),
    ("-", _OPTION),
    (",", _PAIR),
    ("value", _NAMED_PAIR),
    ("</", _ELEMENT),
    ("", _QUOTED),
    ("proxy_set_header", _PROXY_HEADER),
    (" -p", _COMMAND),
    (" ", _SENTENCE),
    ("", _KNOWN),
)
"""Each pattern with what a text must have for it: to look for that first is fast."""


_KINDS_OF_VALUES = ("double", "single", "group", "bare")
_PARTS_OF_GROUP = re.compile(r"""[^\s"'()\[\]{},:]+""")
_BEGINNING = re.compile(r"[\w.-]*\Z")


def masked(text: str, found: Found = lambda _: None) -> str:
    """The text with each credential replaced by `***`."""
    if "PRIVATE KEY" in text:
        text = _PRIVATE_KEY.sub(MASK, text)
        text = _without_ends_of_keys(text)
    text = without_blocks(text, found)
    for needed, pattern in _IN_ORDER:
        if needed in text:
            text = pattern.sub(lambda match: _replaced(match, found), text)
    return text


def without_blocks(text: str, found: Found = lambda _: None) -> str:
    """The text without the credentials that have lines of their own in YAML."""
    if "\n" not in text:
        return text
    return _BLOCK.sub(lambda match: _without_lines(match, found), text)


def _without_ends_of_keys(text: str) -> str:
    """The text without keys whose first lines were cut off."""
    before, *parts = _END_OF_KEY.split(text)
    for part in parts:
        *lines, start = before.split("\n")
        # The last line of a key is short, and the others are long.
        if len(lines) > 1 and _LONG_LINE_OF_KEY.search(lines[-2]):
            lines.pop()
        while lines and (not lines[-1] or _is_of_key(lines[-1])):
            lines.pop()
        before = "\n".join([*lines, start.rstrip(_LETTERS_OF_KEY) + MASK]) + part
    return before


def _is_of_key(line: str) -> bool:
    return bool(_LINE_OF_KEY.fullmatch(line) or _LONG_LINE_OF_KEY.search(line))


def _without_lines(match: re.Match[str], found: Found) -> str:
    if _REFERENCE.search(match["name"]):
        return match[0]
    lines = match["bare"].strip("\n").split("\n")
    for line in lines:
        found(line.strip())
    inner = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    return f"{match['head']}{inner}{MASK}" + ("\n" if match["bare"].endswith("\n") else "")


def _replaced(match: re.Match[str], found: Found) -> str:
    groups = match.groupdict()
    value = next((groups[kind] for kind in _KINDS_OF_VALUES if groups.get(kind)), "")
    name = groups.get("name") or ""
    if not value or value == MASK or is_location(name, value):
        return match[0]
    begun = _begun(match.string, match.start("name")) if name else ""
    if says_nothing(begun + name, value):
        return match[0]
    if name and _REFERENCE.search(name):
        return match[0]
    for part in _PARTS_OF_GROUP.findall(value) if groups.get("group") else [value]:
        found(part)
    head = groups.get("head") or ""
    return head + match[0][len(head) :].replace(value, MASK)


def _begun(text: str, end: int) -> str:
    """The beginning of the word that ends there: `max_` of `max_tokens`."""
    found = _BEGINNING.search(text[max(0, end - 40) : end])
    return found[0] if found else ""
