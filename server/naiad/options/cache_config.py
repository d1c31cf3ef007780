"""`--cache-config NAME,KEY=VALUE` and `--response-cache-byte-size`: the settings of the response cache (rows 14.22, 14.23). Pure, but for two variables."""

import collections.abc
import difflib

from naiad.options.usage import UsageError
from naiad.response_cache.settings import (
    LEAST_BYTES,
    CacheSettings,
    LocalSettings,
    RedisSettings,
)

USER_VARIABLE, PASSWORD_VARIABLE = "TRITONCACHE_REDIS_USERNAME", "TRITONCACHE_REDIS_PASSWORD"
_PORTS = 65_535

_LOCAL = {"size": int, "full_key": bool}
_REDIS: dict[str, type] = {
    "host": str, "port": int, "user": str, "password": str, "db": int, "socket_timeout": int, "connect_timeout": int, "tls_enabled": bool,
    "cert": str, "key": str, "cacert": str, "cacert_dir": str, "sni": str, "full_key": bool,
}  # fmt: skip
_POOL = {"wait_timeout": int, "pool_size": int}
"""Of the reference's pool of connections: this server sends all commands over one connection, and none waits for another."""

_CACHES: dict[str, dict[str, type]] = {"local": _LOCAL, "redis": {**_REDIS, **_POOL}}
_FIELDS = {
    "socket_timeout": "socket_timeout_ms",
    "connect_timeout": "connect_timeout_ms",
    "tls_enabled": "tls",
    "cacert_dir": "cacertdir",
}
_BOOLEANS = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}

Given = dict[str, dict[str, str]]
"""What is written of each cache so far: key -> value."""


def take(given: Given, option: str, value: str) -> None:
    """Add what one `--cache-config` says.

    Raises:
        UsageError: no cache has such a setting.
    """
    name, comma, rest = value.partition(",")
    pairs = [pair.partition("=") for pair in rest.split(",")]
    if not comma or not name or not all(key and equals for key, equals, _ in pairs):
        raise UsageError(
            f"--{option}={_hidden(value)}: expected NAME,KEY=VALUE, e.g. local,size=104857600 or redis,host=redis,port=6379"
        )
    if name not in _CACHES:
        raise UsageError(f"--{option}: no cache is called '{name}': local and redis are")
    if given.keys() - {name}:
        raise UsageError(
            f"--{option}={name}: found multiple cache configurations, but only a single cache is currently supported"
        )
    for key, _, setting in pairs:
        if key not in _CACHES[name]:
            near = difflib.get_close_matches(key, _CACHES[name], n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(_CACHES[name])}"
            raise UsageError(f"--{option}: the cache '{name}' has no setting '{key}'; {hint}")
        given.setdefault(name, {})[key] = setting


def notes(given: Given, option: str) -> list[str]:
    """Settings that have no effect."""
    return [
        f"--{option}=redis,{key} has no effect here: all commands share one connection, and none waits for another"
        for key in given.get("redis", {})
        if key in _POOL
    ]


def settings(
    given: Given, option: str, environ: collections.abc.Mapping[str, str]
) -> CacheSettings | None:
    """The settings of the cache; None if none is given.

    Raises:
        UsageError: a value is wrong, or one is missing.
    """
    for name, values in given.items():
        typed = {
            _FIELDS.get(key, key): _typed(option, name, key, value)
            for key, value in values.items()
            if key not in _POOL
        }
        if name == "local":
            return _local(option, typed)
        if environ.get(USER_VARIABLE):
            typed.setdefault("user", environ[USER_VARIABLE])
        if environ.get(PASSWORD_VARIABLE):
            typed.setdefault("password", environ[PASSWORD_VARIABLE])
        return _redis(option, typed)
    return None


def _local(option: str, typed: dict[str, object]) -> LocalSettings:
    if "size" not in typed:
        raise UsageError(
            f"--{option}=local: Failed to initialize LocalCache: config didn't contain a valid 'size' field; "
            "give its bytes, e.g. local,size=104857600"
        )
    made = LocalSettings(**typed)  # type: ignore[arg-type]  # typed by _typed
    if made.size < LEAST_BYTES:
        raise UsageError(
            f"--{option}=local,size={made.size}: Failed to initialize LocalCache: the smallest size is {LEAST_BYTES} bytes"
        )
    return made


def _redis(option: str, typed: dict[str, object]) -> RedisSettings:
    if not typed.get("host") or "port" not in typed:
        raise UsageError(
            f"--{option}=redis: Failed to initialize RedisCache, didn't specify address. Must at a minimum specify 'host' and 'port' in the "
            "configuration - e.g. redis,host=redis,port=6379"
        )
    made = RedisSettings(**typed)  # type: ignore[arg-type]  # as above
    if not 0 < made.port <= _PORTS:
        raise UsageError(f"--{option}=redis,port={made.port}: must be from 1 to {_PORTS}")
    for key, value in (
        ("socket_timeout", made.socket_timeout_ms),
        ("connect_timeout", made.connect_timeout_ms),
    ):
        if value <= 0:
            raise UsageError(f"--{option}=redis,{key}={value}: must be at least 1 millisecond")
    if bool(made.cert) != bool(made.key):
        raise UsageError(f"--{option}=redis: cert and key come together: give both, or none")
    return made


def _typed(option: str, name: str, key: str, value: str) -> object:
    kind = _CACHES[name][key]
    if kind is int:
        if not value.strip().isdecimal():
            raise UsageError(f"--{option}={name},{key}={value}: expected a non-negative integer")
        return int(value)
    if kind is bool:
        if value.lower() not in _BOOLEANS:
            raise UsageError(f"--{option}={name},{key}={value}: expected true or false")
        return _BOOLEANS[value.lower()]
    return value


def _hidden(value: str) -> str:
    """A value for a message; without what may be a password."""
    return value.partition("password")[0]
