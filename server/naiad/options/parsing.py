"""argv -> Options: the rules of row 17.1, and one clear sentence for everything that does not fit. Pure.

Written by hand because the reference's rules are not argparse's: a boolean may stand alone or take its value as the next word,
`--flag value` and `--flag=value` both work, a unique beginning of a name is enough (getopt_long), and every mistake is exit 1.
"""

import collections.abc
import difflib
import json
import math
import os
import re
import types
from typing import Any

import msgspec

from naiad.engine.readiness_policy import ReadinessPolicy
from naiad.metrics.options import MetricsOptions
from naiad.options.addresses import listen_address, overlap
from naiad.options.cache_config import (
    notes as cache_notes,
    settings as cache_settings,
    take as take_cache,
)
from naiad.options.host_policy import host_policy
from naiad.options.memory_limits import gpu_fraction, memory_limit
from naiad.options.metrics_config import QUANTILES, SWITCHES, quantiles, unknown_setting
from naiad.options.options import FLAGS, Flag, Kind, Options
from naiad.options.rate_limit import rate_limit_mode, rate_limit_resource
from naiad.options.trace_config import OPTION as TRACE_CONFIG, take_trace, trace_options
from naiad.options.usage import HelpAsked, UsageError
from naiad.repository.control_mode import EVERY_MODEL, ControlMode

_MAX_PORT = 65535
_BASE_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+")
_RESERVED = frozenset(("v2", "docs", "openapi.json"))
"""What paths without a base path begin with."""
_CACHE = "cache-config"
_TWO_CACHES = "Incompatible flags --response-cache-byte-size and --cache-config both provided. Please provide one or the other."
_TRUE = frozenset(("true", "on", "1"))
_FALSE = frozenset(("false", "off", "0"))

CATEGORIES = (
    "health", "metadata", "inference", "shared-memory", "model-config", "model-repository", "statistics", "trace", "logging",
)  # fmt: skip
"""What restricted-api options may name (row 17.15)."""


def parse(arguments: collections.abc.Sequence[str]) -> Options:
    """Options from the words after the command.

    Raises:
        UsageError: something is wrong with them.
        HelpAsked: --help or --help-all is among them.
    """
    fields: _Fields = {"notes": []}
    for flag, value in _given(arguments):
        if flag.missing:
            _refuse_missing(flag, value)
        elif flag.idle:
            _typed(flag, value)
            fields["notes"].append(f"--{flag.name} has no effect here: {flag.idle}")
        elif (take := SPECIAL.get(flag.name)) is not None:
            take(fields, flag, value)
        else:
            fields[flag.field] = _typed(flag, value)
    if "model_repository" not in fields:
        raise UsageError(
            "--model-repository is missing: give the folder that holds one folder per model, "
            "for example --model-repository=/models"
        )
    if "strict_model_config" in fields:
        fields["disable_auto_complete_config"] = fields.pop("strict_model_config")
        fields["notes"].append(
            "--strict-model-config is deprecated: use --disable-auto-complete-config"
        )
    mode = fields.get("model_control_mode", ControlMode.NONE)
    fields["notes"] += [
        f"--{name} has no effect here: the repository is polled only with --model-control-mode=poll"
        for name in ("repository-poll-secs", "repository-quiet-secs")
        if name.replace("-", "_") in fields and not mode.polls
    ]
    if "rate_limit_resource" in fields and not fields.get("rate_limit"):
        fields["notes"].append(
            "--rate-limit-resource has no effect here: resources are granted only with --rate-limit=execution_count"
        )
    cache = fields.pop("cache", {})
    fields["cache"] = cache_settings(cache, _CACHE, os.environ)
    fields["notes"] += cache_notes(cache, _CACHE)
    if fields.get("grpc_use_ssl_mutual"):
        fields["grpc_use_ssl"] = True
    fields.pop("legacy_cache", None)
    fields["trace"] = trace_options(fields.pop("trace", ()), os.environ)
    options = Options(**{name: _frozen(value) for name, value in fields.items()})
    _check_together(options)
    return options


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(dict.fromkeys(value))
    return types.MappingProxyType(value) if isinstance(value, dict) else value


def _given(arguments: collections.abc.Sequence[str]) -> list[tuple[Flag, str]]:
    given = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word in ("--help", "-h", "--help-all"):
            raise HelpAsked(everything=word == "--help-all")
        if not word.startswith("--") or word == "--":
            raise UsageError(f"unexpected argument '{word}': options begin with two dashes")
        name, equals, value = word[2:].partition("=")
        flag = _find(name)
        if not equals:
            if flag.kind is Kind.BOOLEAN:
                follows = words[0].lower() if words else ""
                value = words.pop(0) if follows in _TRUE | _FALSE else "true"
            elif not words:
                raise UsageError(f"option --{flag.name} needs a value ({flag.kind.value})")
            else:
                value = words.pop(0)
        given.append((flag, value))
    return given


def _find(name: str) -> Flag:
    flag = FLAGS.get(name)
    if flag is not None:
        return flag
    longer = [other for other in FLAGS if other.startswith(name)] if name else []
    if len(longer) == 1:
        return FLAGS[longer[0]]
    if longer:
        raise UsageError(
            f"option --{name} is ambiguous: it could be {', '.join('--' + other for other in longer)}"
        )
    near = difflib.get_close_matches(name, FLAGS, n=1)
    hint = f"; did you mean --{near[0]}?" if near else "; --help-all lists all options"
    raise UsageError(f"unrecognized option '--{name}'{hint}")


def _typed(flag: Flag, value: str) -> bool | int | float | str:
    result: bool | int | float | str
    try:
        match flag.kind:
            case Kind.BOOLEAN:
                return _boolean(flag, value)
            case Kind.INTEGER:
                result = int(value)
            case Kind.FLOAT:
                result = float(value)
                if not math.isfinite(result):
                    raise UsageError(f"--{flag.name}={value}: must be a finite number")
            case Kind.STRING:
                if flag.choices and value not in flag.choices:
                    raise UsageError(
                        f"--{flag.name}={value}: expected one of {', '.join(flag.choices)}"
                    )
                return value
    except ValueError:
        raise UsageError(
            f"--{flag.name}={value}: expected {'an' if flag.kind is Kind.INTEGER else 'a'} {flag.kind.value}"
        ) from None
    _check_range(flag, value, result)
    return result


def _boolean(flag: Flag, value: str) -> bool:
    """A boolean as row 17.1 writes it, in any case."""
    word = value.lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise UsageError(f"--{flag.name}={value}: expected true, on, 1, false, off or 0")


def _check_range(flag: Flag, value: str, number: float) -> None:
    wrong = ""
    if flag.minimum == 1 and flag.kind is Kind.INTEGER and number < 1:
        wrong = "must be greater than 0"
    elif flag.minimum is not None and number < flag.minimum:
        wrong = f"must be at least {flag.minimum:g}"
    elif flag.maximum is not None and number > flag.maximum:
        wrong = f"must be at most {flag.maximum}"
    if wrong:
        raise UsageError(f"--{flag.name}={value}: {wrong}{': ' if flag.why else ''}{flag.why}")


def _refuse_missing(flag: Flag, value: str) -> None:
    if value.lower() not in flag.harmless:
        raise UsageError(
            f"--{flag.name}={value}: {flag.missing}: not supported yet; leave the option out"
        )


# ---- options with a syntax of their own

_Fields = dict[str, Any]
"""The fields of `Options` so far; a list is a field of unique values, a dict one of settings."""


def _repository(fields: _Fields, flag: Flag, value: str) -> None:
    if not value:
        raise UsageError(f"--{flag.name} is empty: give a folder")
    fields.setdefault("model_repository", []).append(value)


def _control_mode(fields: _Fields, flag: Flag, value: str) -> None:
    try:
        mode = ControlMode(value.lower())  # any case, as Triton
    except ValueError:
        raise UsageError(f"--{flag.name}={value}: expected none, poll or explicit") from None
    fields["model_control_mode"] = mode


def _load_model(fields: _Fields, flag: Flag, value: str) -> None:
    if not value.strip():
        raise UsageError(f"--{flag.name} is empty: give a model's name, or * for all")
    fields.setdefault("load_model", []).append(value)


def _config_override(fields: _Fields, flag: Flag, value: str) -> None:
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


def _python_requirement(fields: _Fields, flag: Flag, value: str) -> None:
    text = value.strip()
    is_file = _REQUIREMENTS_FILE.fullmatch(text) is not None
    if not text or (text.startswith("-") and not is_file) or "\n" in value:
        raise UsageError(
            f"--{flag.name}={value}: expected one package as pip takes it, e.g. torch==2.8, or a file of them, e.g. '-r /models/requirements.txt'; for options of pip set its variables, e.g. PIP_INDEX_URL"
        )
    fields.setdefault("python_requirement", []).append(text)


def _log_verbose(fields: _Fields, flag: Flag, value: str) -> None:
    fields["log_verbose"] = int(value) if value.isdecimal() else int(_boolean(flag, value))


def _metrics_config(fields: _Fields, flag: Flag, value: str) -> None:
    name, equals, setting = value.partition("=")
    key = name.rpartition(",")[2]  # a group may stand before it (row 17.5)
    if not equals or not key:
        raise UsageError(f"--{flag.name}={value}: expected KEY=VALUE")
    metrics = fields.setdefault("metrics", MetricsOptions())
    if key in SWITCHES:
        fields["metrics"] = msgspec.structs.replace(metrics, **{key: _boolean(flag, setting)})
    elif key == QUANTILES:
        try:
            fields["metrics"] = msgspec.structs.replace(metrics, quantiles=quantiles(setting))
        except ValueError as error:
            raise UsageError(f"--{flag.name}={value}: {error}") from None
    else:
        fields["notes"].append(unknown_setting(key))


def _trace(fields: _Fields, flag: Flag, value: str) -> None:
    take_trace(fields.setdefault("trace", []), flag.name, value)
    if flag.name != TRACE_CONFIG:
        fields["notes"].append(f"--{flag.name} is deprecated: use --{TRACE_CONFIG}")


def _address(fields: _Fields, flag: Flag, value: str) -> None:
    fields[flag.field] = listen_address(flag.name, value)


def _backend_config(fields: _Fields, flag: Flag, value: str) -> None:
    # What reads help and other options imports no backend.
    from naiad.options.backend_config import backend_setting  # noqa: PLC0415

    setting = backend_setting(value)
    settings = fields.setdefault("backend_config", {})
    settings.setdefault(setting.backend, {})[setting.key] = setting.value
    if setting.note:
        fields["notes"].append(setting.note)


def _memory_limit(fields: _Fields, flag: Flag, value: str) -> None:
    device, size = memory_limit(flag.name, value)
    fields.setdefault("model_memory_limit", {})[device] = size


def _gpu_limit(fields: _Fields, flag: Flag, value: str) -> None:
    device, fraction = gpu_fraction(flag.name, value)
    fields.setdefault("model_load_gpu_limit", {})[device] = fraction


def _rate_limit(fields: _Fields, flag: Flag, value: str) -> None:
    fields["rate_limit"] = rate_limit_mode(flag.name, value)


def _rate_limit_resource(fields: _Fields, flag: Flag, value: str) -> None:
    key, amount = rate_limit_resource(flag.name, value)
    known = fields.setdefault("rate_limit_resource", {})
    known[key] = min(amount, known.get(key, amount))  # as in Triton


def _host_policy(fields: _Fields, flag: Flag, value: str) -> None:
    known = fields.setdefault("host_policy", {})
    name, policy = host_policy(flag.name, value, known)
    known[name] = policy


def _restricted(fields: _Fields, flag: Flag, value: str) -> None:
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


def _base_path(fields: _Fields, flag: Flag, value: str) -> None:
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


def _readiness_policy(fields: _Fields, flag: Flag, value: str) -> None:
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


def _cache(fields: _Fields, flag: Flag, value: str) -> None:
    if "legacy_cache" in fields:
        raise UsageError(_TWO_CACHES)
    take_cache(fields.setdefault("cache", {}), flag.name, value)


def _legacy_cache(fields: _Fields, flag: Flag, value: str) -> None:
    if fields.get("cache"):
        raise UsageError(_TWO_CACHES)
    if not value.isdecimal():
        raise UsageError(f"--{flag.name}={value}: expected an integer")
    fields["notes"].append(f"--{flag.name} is deprecated: use --{_CACHE}=local,size={value}")
    fields["legacy_cache"] = True
    if int(value):
        take_cache(fields.setdefault("cache", {}), flag.name, f"local,size={value}")


def _strict_model_config(fields: _Fields, flag: Flag, value: str) -> None:
    fields["strict_model_config"] = _boolean(flag, value)


SPECIAL: dict[str, collections.abc.Callable[[_Fields, Flag, str], None]] = {
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


# ---- rules that concern several options


def _check_models(options: Options) -> None:
    """Check `--load-model` (row 7.31)."""
    if options.load_model and not options.model_control_mode.allows_load_model:
        raise UsageError(
            "Use of '--load-model' requires setting '--model-control-mode=explicit' as well: without it, all models are loaded"
        )
    if EVERY_MODEL in options.load_model and len(options.load_model) > 1:
        raise UsageError(
            "Wildcard model name '*' must be the ONLY startup model if specified at all: "
            "give --load-model=* alone, or the models by name"
        )


def _check_memory(options: Options) -> None:
    """Check that an evicted model can be loaded again."""
    if options.evicted_model_wait_secs and not options.model_memory_limit:
        raise UsageError(
            "--evicted-model-wait-secs needs --model-memory-limit: no other option unloads models"
        )
    if not (
        not options.model_memory_limit
        or options.evicted_model_wait_secs
        or options.model_control_mode.allows_requests
    ):
        raise UsageError(
            f"--model-memory-limit with --model-control-mode={options.model_control_mode.value}: nothing would load a model again that was unloaded: "
            "give --evicted-model-wait-secs as well, so that requests do, or take --model-control-mode=explicit"
        )


def _check_together(options: Options) -> None:
    """Check the rules that concern several options (row 17.11)."""
    _check_models(options)
    _check_memory(options)
    if not options.strict_readiness and options.readiness_policy != ReadinessPolicy():
        raise UsageError(
            "--strict-readiness=false makes the server ready whatever its models do: leave it out, or --readiness-policy"
        )
    ports: list[tuple[str, int, str]] = []
    listeners = (
        ("http-port", options.allow_http, options.http_address, options.http_port),
        ("grpc-port", options.allow_grpc, options.grpc_address, options.grpc_port),
        (
            "metrics-port", options.allow_metrics,
            options.metrics_address or options.http_address, options.metrics_port,
        ),
    )  # fmt: skip
    for name, allowed, address, port in listeners:
        if port > _MAX_PORT:
            raise UsageError(f"--{name}={port}: must be at most {_MAX_PORT}")
        if not allowed or port == 0:
            continue
        for other_address, other_port, other in ports:
            if port == other_port and overlap(address, other_address):
                raise UsageError(
                    f"--{name} and --{other} are both {address}:{port}: give each a port of its own"
                )
        ports.append((address, port, name))
    if not (options.allow_http or options.allow_grpc or options.allow_metrics):
        raise UsageError(
            "--allow-http, --allow-grpc and --allow-metrics are all off: nothing would be served"
        )
    if options.grpc_use_ssl and not (options.grpc_server_cert and options.grpc_server_key):
        raise UsageError("--grpc-use-ssl needs --grpc-server-cert and --grpc-server-key")
