"""The options with a syntax of their own: lists, KEY=VALUE, API lists with a header."""

import collections.abc
import difflib

import msgspec

from naiad.options.table import Flag
from naiad.options.usage import UsageError
from naiad.repository.control_mode import ControlMode

TRUE = frozenset(("true", "on", "1"))
FALSE = frozenset(("false", "off", "0"))

CATEGORIES = (
    "health", "metadata", "inference", "shared-memory", "model-config", "model-repository", "statistics", "trace", "logging",
)  # fmt: skip
"""What restricted-api options may name (row 17.15)."""


class Collected(msgspec.Struct):
    """The values of the special options so far; the parser turns them into fields."""

    repositories: list[str] = msgspec.field(default_factory=list)
    backends: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    http_restricted: dict[str, tuple[str, str]] = msgspec.field(default_factory=dict)
    grpc_restricted: dict[str, tuple[str, str]] = msgspec.field(default_factory=dict)
    control_mode: ControlMode = ControlMode.NONE
    models: list[str] = msgspec.field(default_factory=list)
    log_verbose: int = 0
    counter_latencies: bool = True
    strict_model_config: bool | None = None
    notes: list[str] = msgspec.field(default_factory=list)


def boolean(flag: Flag, value: str) -> bool:
    """A boolean as row 17.1 writes it, in any case."""
    word = value.lower()
    if word in TRUE:
        return True
    if word in FALSE:
        return False
    raise UsageError(f"--{flag.name}={value}: expected true, on, 1, false, off or 0")


def _repository(collected: Collected, flag: Flag, value: str) -> None:
    if not value:
        raise UsageError(f"--{flag.name} is empty: give a folder")
    collected.repositories.append(value)


def _control_mode(collected: Collected, flag: Flag, value: str) -> None:
    try:
        mode = ControlMode(value)
    except ValueError:
        raise UsageError(f"--{flag.name}={value}: expected none or explicit") from None
    if not mode.is_supported:
        raise UsageError(
            f"--{flag.name}={value}: polling the repository is not supported yet; take explicit, and call load when a model has changed"
        )
    collected.control_mode = mode


def _load_model(collected: Collected, flag: Flag, value: str) -> None:
    if not value.strip():
        raise UsageError(f"--{flag.name} is empty: give a model's name, or * for all")
    collected.models.append(value)


def _log_verbose(collected: Collected, flag: Flag, value: str) -> None:
    collected.log_verbose = int(value) if value.isdecimal() else int(boolean(flag, value))


def _strict_model_config(collected: Collected, flag: Flag, value: str) -> None:
    collected.strict_model_config = boolean(flag, value)


def _metrics_config(collected: Collected, flag: Flag, value: str) -> None:
    key, equals, setting = value.partition("=")
    if not equals or not key:
        raise UsageError(f"--{flag.name}={value}: expected KEY=VALUE")
    if key == "counter_latencies":
        collected.counter_latencies = boolean(flag, setting)
    elif not (key in ("histogram_latencies", "summary_latencies") and setting.lower() in FALSE):
        raise UsageError(
            f"--metrics-config={value}: {key} is not supported yet; "
            "counter_latencies is, and naiad_* histograms are always on"
        )


def _backend_config(collected: Collected, flag: Flag, value: str) -> None:
    # What reads help and other options imports no backend.
    from naiad.options.backend_config import backend_setting  # noqa: PLC0415

    setting = backend_setting(value)
    collected.backends.setdefault(setting.backend, {})[setting.key] = setting.value
    if setting.note:
        collected.notes.append(setting.note)


def _http_restricted(collected: Collected, flag: Flag, value: str) -> None:
    _add_restriction(flag, value, collected.http_restricted)


def _grpc_restricted(collected: Collected, flag: Flag, value: str) -> None:
    _add_restriction(flag, value, collected.grpc_restricted)


SPECIAL: dict[str, collections.abc.Callable[[Collected, Flag, str], None]] = {
    "model-repository": _repository,
    "model-store": _repository,
    "model-control-mode": _control_mode,
    "load-model": _load_model,
    "log-verbose": _log_verbose,
    "strict-model-config": _strict_model_config,
    "metrics-config": _metrics_config,
    "backend-config": _backend_config,
    "http-restricted-api": _http_restricted,
    "grpc-restricted-protocol": _grpc_restricted,
}
"""The function that takes the value of each flag, by the flag's name."""


def _add_restriction(flag: Flag, value: str, known: dict[str, tuple[str, str]]) -> None:
    names, colon, rest = value.partition(":")
    key, equals, secret = rest.partition("=")
    if not (colon and equals and names and key):
        raise UsageError(f"--{flag.name}={value}: expected API,API:HEADER=VALUE")
    for name in names.split(","):
        if name not in CATEGORIES:
            near = difflib.get_close_matches(name, CATEGORIES, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the APIs are {', '.join(CATEGORIES)}"
            raise UsageError(f"--{flag.name}: unknown restricted api '{name}'; {hint}")
        if name in known:
            raise UsageError(
                f"--{flag.name}: restricted api '{name}' can not be specified in multiple config groups"
            )
        known[name] = (key, secret)
