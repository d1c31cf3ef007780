"""Finds credentials in text by their form: names that announce one, URLs, headers, tokens of known services, private keys. Pure.

It masks too much rather than too little: a line of a log that loses a word can still be read, a password that stays cannot be taken back.
"""

import collections.abc
import re

MASK = "***"

Found = collections.abc.Callable[[str], None]
"""Is called with each credential that was masked, so that it can be masked where nothing announces it."""

_STEMS = (
    r"secret|passw(?:or)?d|passphrase|passcode|token(?!iz)|credential|signature|authorization|connection[-_.]?string"
    r"|(?:api|access|private|account|signing|encryption|auth|master|license|shared|session)[-_.]?key"
)
_STEM = re.compile(_STEMS, re.IGNORECASE)
_WORDS = frozenset(
    ("key", "keys", "pwd", "pass", "pw", "auth", "sas", "pat", "dsn", "cookie", "cookies", "bearer", "jwt", "psk", "otp", "pin")
)  # fmt: skip
"""Words that count only as a part of their own: API_KEY, not KEYBOARD."""
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_REFERENCE = re.compile(
    r"(?:names?|refs?|references?|seconds|fromenv|namespace|mode|policy|audiences?|type|class)$",
    re.IGNORECASE,
)
"""How a name ends that says which credential is used, or how long it lasts, and is not the credential."""
_LOCATION = re.compile(r"(?:files?|paths?|dirs?|folders?)$", re.IGNORECASE)


def announces_credential(name: str) -> bool:
    """Whether the value of a variable, an option or a header with this name is a credential: KEY, SECRET, TOKEN, PASSWORD and their like."""
    words = {word.lower() for word in _PARTS.findall(name)}
    return bool(_STEM.search(name) or words & _WORDS)


def field_announces_credential(name: str) -> bool:
    """Whether the value of an object's field with this name is a credential. Fields that refer to one, such as `secretName`, do not count, nor `topologyKey`."""
    return bool(_STEM.search(name)) and not _REFERENCE.search(name)


def is_location(name: str, value: str) -> bool:
    """Whether the value only says where a credential is: `--auth-token-file=/etc/tokens`."""
    return bool(_LOCATION.search(name)) and value.startswith(("/", "./", "file:"))


_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_NOT_A_POD = rf"(?![\w.-]{{0,60}}-[{_LETTERS}]{{5,10}}-[{_LETTERS}]{{5}}\b)"
"""Not the end of a pod's name, as in `pod token-service-84c4699db4-6r8zj: image not found`."""

_VALUE = r"""(?:\\{0,2}"(?P<double>[^"\n]*?)\\{0,2}"|\\{0,2}'(?P<single>[^'\n]*?)\\{0,2}'|(?P<bare>[^\s"'&\\]+))"""
_ASSIGNMENT = re.compile(
    rf"""(?P<head>(?P<name>(?:{_STEMS}|\bpwd|\bpass|(?<=[_-])(?:keys?|pwd|pass|pw|auth|sas|pat|dsn|jwt|psk)){_NOT_A_POD}[\w.-]{{0,40}}+)"""
    rf"""(?:\\{{0,2}}["'])?(?:\s{{0,3}}(?::=|=>|[:=])\s{{0,3}}))"""
    rf"""{_VALUE}""",
    re.IGNORECASE,
)
"""`password=…`, `"api_key": "…"`, `AWS_SECRET_ACCESS_KEY: …`."""

_OPTION = re.compile(
    rf"""(?P<head>(?<!\S)--?(?P<name>[\w.-]{{0,40}}(?:{_STEMS}|pass|pwd|auth|key)[\w.-]{{0,40}}+)\s{{1,10}}){_VALUE}""",
    re.IGNORECASE,
)
"""`--password …`, `--api-key …`."""

_QUOTED = re.compile(
    r"""(?P<head>\b(?:password|passphrase|x-[\w-]{1,40}|[\w]{1,40}[-_](?:key|token|secret))\s+)(?:"(?P<double>[^"\n]+)"|'(?P<single>[^'\n]+)')""",
    re.IGNORECASE,
)
"""`proxy_set_header X-Api-Key "…"`, `with password '…'`. Not `secret "models" not found`, which names a Secret."""

_HEADER = re.compile(
    r"""(?P<head>\b(?:authorization|(?:set-)?cookie)\\{0,2}["']?(?:\s*[:=]\s*|\s+(?=["']))\\{0,2}["']?)(?P<bare>[^"'\n\r]+)""",
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

_QUERY = re.compile(
    rf"""(?P<head>(?:[?&;]|\\u0026)(?:amp;)?(?:[\w.%-]{{0,40}}(?:{_STEMS})[\w.%-]{{0,40}}|x-(?:amz|goog)-credential"""
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
    r"|\b(?:gh[pousr]_|github_pat_|glpat-|hf_|nvapi-|sk-|xox[abeoprs]-|ya29\.|AIza|dckr_pat_|npm_|pypi-)[\w.-]{16,})"
)
"""Tokens that are recognised by themselves: Amazon, GitHub, GitLab, Hugging Face, NVIDIA, Slack, Google and others."""

_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:.{0,8192}?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|.{0,8192})",
    re.DOTALL,
)
_END_OF_KEY = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_LINE_OF_KEY = re.compile(r"(?:\S{1,40}\s)?[A-Za-z0-9+/=]{1,100}")
"""With the time in front of it, as in logs."""

_IN_ORDER = (
    _USERINFO,
    _USERINFO_WITH_SLASH,
    _HEADER,
    _RESTRICTION,
    _QUERY,
    _USER,
    _SCHEME,
    _ASSIGNMENT,
    _OPTION,
    _QUOTED,
    _KNOWN,
)


def masked(text: str, found: Found = lambda _: None) -> str:
    """The text with each credential replaced by `***`."""
    if "PRIVATE KEY" in text:
        text = _PRIVATE_KEY.sub(MASK, text)
        text = _without_ends_of_keys(text)
    for pattern in _IN_ORDER:
        text = pattern.sub(lambda match: _replaced(match, found), text)
    return text


def _without_ends_of_keys(text: str) -> str:
    """The text without keys whose first lines were cut off."""
    before, *parts = _END_OF_KEY.split(text)
    for part in parts:
        lines = before.split("\n")
        while lines and (not lines[-1] or _LINE_OF_KEY.fullmatch(lines[-1])):
            lines.pop()
        before = "\n".join([*lines, MASK]) + part
    return before


def _replaced(match: re.Match[str], found: Found) -> str:
    groups = match.groupdict()
    value = groups.get("double") or groups.get("single") or groups.get("bare") or ""
    name = groups.get("name") or ""
    if not value or value == MASK or is_location(name, value):
        return match[0]
    if name and _REFERENCE.search(name):
        return match[0]
    found(value)
    head = groups.get("head") or ""
    return head + match[0][len(head) :].replace(value, MASK)
