"""Options with a syntax of their own: what takes the value of each into the fields of `Options`. Pure.

Each function takes the fields so far, the flag and the value, and raises `UsageError` for a value that does not fit.
"""

import collections.abc
import difflib
import json
import re
from typing import Any

import msgspec

from naiad.engine.readiness_policy import ReadinessPolicy
from naiad.metrics.options import MetricsOptions
from naiad.options.addresses import listen_address
from naiad.options.cache_config import take as take_cache
from naiad.options.host_policy import host_policy
from naiad.options.memory_limits import gpu_fraction, memory_limit
from naiad.options.metrics_config import QUANTILES, SWITCHES, quantiles, unknown_setting
from naiad.options.options import Flag
from naiad.options.rate_limit import rate_limit_mode, rate_limit_resource
from naiad.options.trace_config import OPTION as TRACE_CONFIG, take_trace
from naiad.options.usage import UsageError
from naiad.options.values import FALSE, TRUE, boolean
from naiad.repository.control_mode import ControlMode

_BASE_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+")
_RESERVED = frozenset(("v2", "docs", "openapi.json"))
"""What paths without a base path begin with."""
CACHE = "cache-config"
_TWO_CACHES = "Incompatible flags --response-cache-byte-size and --cache-config both provided. Please provide one or the other."

CATEGORIES = (
    "health", "metadata", "inference", "shared-memory", "model-config", "model-repository", "statistics", "trace", "logging",
)  # fmt: skip
"""What restricted-api options may name (row 17.15)."""

Fields = dict[str, Any]
"""The fields of `Options` so far; a list is a field of unique values, a dict one of settings."""


def _repository(fields: Fields, flag: Flag, value: str) -> None:
    if not value:
        raise UsageError(f"--{flag.name} is empty: give a folder")
    fields.setdefault("model_repository", []).append(value)


def _control_mode(fields: Fields, flag: Flag, value: str) -> None:
    try:
        mode = ControlMode(value.lower())  # any case, as Triton
    except ValueError:
        raise UsageError(f"--{flag.name}={value}: expected none, poll or explicit") from None
    fields["model_control_mode"] = mode


def _load_model(fields: Fields, flag: Flag, value: str) -> None:
    if not value.strip():
        raise UsageError(f"--{flag.name} is empty: give a model's name, or * for all")
    fields.setdefault("load_model", []).append(value)


def _config_override(fields: Fields, flag: Flag, value: str) -> None:
    name, equals, text = value.partition("=")
    try:
        config = json.loads(text) if name.strip() and equals else None
    except ValueError as error:
        raise UsageError(f"--{flag.name}={name}: this is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise UsageError(
            f"--{flag.name}={value[:64]}: expected NAME=JSON, a model and an object with fields of its config, e.g. "
            'resnet={"maxBatchSize": 16}'
        )
    known = fields.setdefault(flag.name.replace("-", "_"), {})
    if name in known:
        raise UsageError(f"--{flag.name}={name} is given twice: write all fields into one of them")
    known[name] = text


_REQUIREMENTS_FILE = re.compile(r"-r +/\S+")
"""A file with packages, which pip includes where it stands."""


def _python_requirement(fields: Fields, flag: Flag, value: str) -> None:
    text = value.strip()
    is_file = _REQUIREMENTS_FILE.fullmatch(text) is not None
    if not text or (text.startswith("-") and not is_file) or "\n" in value:
        raise UsageError(
            f"--{flag.name}={value}: expected one package as pip takes it, e.g. torch==2.8, or a file of them, e.g. '-r /models/requirements.txt'; for options of pip set its variables, e.g. PIP_INDEX_URL"
        )
    fields.setdefault("python_requirement", []).append(text)


def _log_verbose(fields: Fields, flag: Flag, value: str) -> None:
    fields["log_verbose"] = int(value) if value.isdecimal() else int(boolean(flag, value))


def _metrics_config(fields: Fields, flag: Flag, value: str) -> None:
    name, equals, setting = value.partition("=")
    key = name.rpartition(",")[2]  # a group may stand before it (row 17.5)
    if not equals or not key:
        raise UsageError(f"--{flag.name}={value}: expected KEY=VALUE")
    metrics = fields.setdefault("metrics", MetricsOptions())
    if key in SWITCHES:
        if setting.lower() not in TRUE | FALSE:
            raise UsageError(
                f"--{flag.name}={value}: expected {key} as true, on, 1, false, off or 0"
            )
        fields["metrics"] = msgspec.structs.replace(metrics, **{key: setting.lower() in TRUE})
    elif key == QUANTILES:
        try:
            fields["metrics"] = msgspec.structs.replace(metrics, quantiles=quantiles(setting))
        except ValueError as error:
            raise UsageError(f"--{flag.name}={value}: {error}") from None
    else:
        fields["notes"].append(unknown_setting(key))


def _trace(fields: Fields, flag: Flag, value: str) -> None:
    take_trace(fields.setdefault("trace", []), flag.name, value)
    if flag.name != TRACE_CONFIG:
        fields["notes"].append(f"--{flag.name} is deprecated: use --{TRACE_CONFIG}")


def _address(fields: Fields, flag: Flag, value: str) -> None:
    fields[flag.field] = listen_address(flag.name, value)


def _backend_config(fields: Fields, flag: Flag, value: str) -> None:
    # What reads help and other options imports no backend.
    from naiad.options.backend_config import backend_setting  # noqa: PLC0415

    setting = backend_setting(value)
    settings = fields.setdefault("backend_config", {})
    settings.setdefault(setting.backend, {})[setting.key] = setting.value
    if setting.note:
        fields["notes"].append(setting.note)


def _memory_limit(fields: Fields, flag: Flag, value: str) -> None:
    device, size = memory_limit(flag.name, value)
    fields.setdefault("model_memory_limit", {})[device] = size


def _gpu_limit(fields: Fields, flag: Flag, value: str) -> None:
    device, fraction = gpu_fraction(flag.name, value)
    fields.setdefault("model_load_gpu_limit", {})[device] = fraction


def _rate_limit(fields: Fields, flag: Flag, value: str) -> None:
    fields["rate_limit"] = rate_limit_mode(flag.name, value)


def _rate_limit_resource(fields: Fields, flag: Flag, value: str) -> None:
    key, amount = rate_limit_resource(flag.name, value)
    known = fields.setdefault("rate_limit_resource", {})
    known[key] = min(amount, known.get(key, amount))  # as in Triton


def _host_policy(fields: Fields, flag: Flag, value: str) -> None:
    known = fields.setdefault("host_policy", {})
    name, policy = host_policy(flag.name, value, known)
    known[name] = policy


def _restricted(fields: Fields, flag: Flag, value: str) -> None:
    names, colon, rest = value.partition(":")
    key, equals, secret = rest.partition("=")
    if not (colon and equals and names and key):
        raise UsageError(f"--{flag.name}={value}: expected API,API:HEADER=VALUE")
    known = fields.setdefault(flag.name.replace("-", "_"), {})
    what = "protocol" if flag.name == "grpc-restricted-protocol" else "api"  # Triton's words
    for name in names.split(","):
        if name not in CATEGORIES:
            near = difflib.get_close_matches(name, CATEGORIES, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the APIs are {', '.join(CATEGORIES)}"
            raise UsageError(f"--{flag.name}: unknown restricted {what} '{name}'; {hint}")
        if name in known:
            raise UsageError(
                f"--{flag.name}: restricted {what} '{name}' can not be specified in multiple config groups"
            )
        known[name] = (key, secret)


def _base_path(fields: Fields, flag: Flag, value: str) -> None:
    path = value.rstrip("/")
    segments = path.split("/")[1:]
    wrong = ""
    if path and not _BASE_PATH.fullmatch(path):
        wrong = "write a path of letters, digits and - . _ ~ that begins with a slash, for example /api/predict/demo"
    elif {".", ".."} & set(segments):
        wrong = "clients resolve . and .. before they send a path: write the path without them"
    elif segments and segments[0] in _RESERVED:
        wrong = f"paths without the prefix begin with /{segments[0]} as well: choose another first segment"
    if wrong:
        raise UsageError(f"--{flag.name}={value}: {wrong}")
    fields["http_base_path"] = path


def _readiness_policy(fields: Fields, flag: Flag, value: str) -> None:
    rule, _, names = value.partition(":")
    models = tuple(dict.fromkeys(filter(None, (name.strip() for name in names.split(",")))))
    if value == "all":
        fields["readiness_policy"] = ReadinessPolicy()
    elif value == "any":
        fields["readiness_policy"] = ReadinessPolicy(rule="any")
    elif rule == "models" and models:
        fields["readiness_policy"] = ReadinessPolicy(rule="models", models=models)
    else:
        raise UsageError(
            f"--{flag.name}={value}: expected all, any, or models: with the names of models, for example models:detector,classifier"
        )


def _cache(fields: Fields, flag: Flag, value: str) -> None:
    if "legacy_cache" in fields:
        raise UsageError(_TWO_CACHES)
    take_cache(fields.setdefault("cache", {}), flag.name, value)


def _legacy_cache(fields: Fields, flag: Flag, value: str) -> None:
    if fields.get("cache"):
        raise UsageError(_TWO_CACHES)
    if not value.isdecimal():
        raise UsageError(f"--{flag.name}={value}: expected an integer")
    fields["notes"].append(f"--{flag.name} is deprecated: use --{CACHE}=local,size={value}")
    fields["legacy_cache"] = True
    if int(value):
        take_cache(fields.setdefault("cache", {}), flag.name, f"local,size={value}")


def _strict_model_config(fields: Fields, flag: Flag, value: str) -> None:
    fields["strict_model_config"] = boolean(flag, value)


SPECIAL: dict[str, collections.abc.Callable[[Fields, Flag, str], None]] = {
    "model-repository": _repository,
    "model-store": _repository,
    "model-control-mode": _control_mode,
    "load-model": _load_model,
    "model-config-override": _config_override,
    "python-requirement": _python_requirement,
    "log-verbose": _log_verbose,
    "readiness-policy": _readiness_policy,
    "strict-model-config": _strict_model_config,
    "cache-config": _cache,
    "response-cache-byte-size": _legacy_cache,
    "metrics-config": _metrics_config,
    **dict.fromkeys(
        (
            "trace-config",
            "trace-file",
            "trace-level",
            "trace-rate",
            "trace-count",
            "trace-log-frequency",
        ),
        _trace,
    ),
    "backend-config": _backend_config,
    "model-memory-limit": _memory_limit,
    "model-load-gpu-limit": _gpu_limit,
    "host-policy": _host_policy,
    "rate-limit": _rate_limit,
    "rate-limit-resource": _rate_limit_resource,
    "http-restricted-api": _restricted,
    "http-base-path": _base_path,
    "http-address": _address,
    "grpc-address": _address,
    "metrics-address": _address,
    "grpc-restricted-protocol": _restricted,
}
"""The options with a syntax of their own: what takes the value of each, by the flag's name."""
