"""`--trace-config` and the older options for tracing, as one `TraceOptions` (rows 9.2, 9.17). Pure, but for the environment that is given."""

import collections.abc
import re

from naiad.options.usage import UsageError
from naiad.tracing.settings import (
    LEVELS,
    OPENTELEMETRY,
    TRITON,
    CollectorOptions,
    TraceOptions,
)

OPTION = "trace-config"
_GLOBAL = "level", "rate", "count", "mode"
_OF_MODE = {
    TRITON: ("file", "log-frequency"),
    OPENTELEMETRY: (
        "url", "resource", "bsp_max_queue_size", "bsp_schedule_delay", "bsp_max_export_batch_size",
    ),
}  # fmt: skip
_LEVEL_WORDS = {
    **dict.fromkeys(("false", "off", "disabled"), 0),
    **dict.fromkeys(("true", "on", "min", "max", "timestamps"), LEVELS["TIMESTAMPS"]),
    "tensors": LEVELS["TENSORS"],
}
_LEGACY = {
    "trace-file": (TRITON, "file"),
    "trace-level": ("", "level"),
    "trace-rate": ("", "rate"),
    "trace-count": ("", "count"),
    "trace-log-frequency": (TRITON, "log-frequency"),
}
_INTEGER = re.compile(r"[+-]?[0-9]{1,12}", re.ASCII).fullmatch
_RANGES = {
    "rate": (0, 2**31 - 1),
    "count": (-1, 2**31 - 1),
    "log-frequency": (0, 2**31 - 1),
    "bsp_max_queue_size": (1, 2**31 - 1),
    "bsp_schedule_delay": (0, 2**31 - 1),
    "bsp_max_export_batch_size": (1, 2**31 - 1),
}
_BATCHES = {
    "bsp_max_queue_size": 2048,
    "bsp_schedule_delay": 5000,
    "bsp_max_export_batch_size": 512,
}

Setting = tuple[str, str, str]
"""Mode ("" for all), name and value."""


def take_trace(given: list[Setting], flag: str, value: str) -> None:
    """Take the value of an option; of `--trace-config`, or of an older one, which `--trace-config` overrides.

    Raises:
        UsageError: it is not valid.
    """
    if flag != OPTION:
        mode, name = _LEGACY[flag]
        _check(flag, name, value, value)
        earlier = [setting for setting in given if setting[:2] == (mode, name)]
        if name == "level" or not earlier:
            given.append((mode, name, value))
        return
    has_mode = "," in value.partition("=")[0]
    mode, comma, rest = value.partition(",") if has_mode else ("", "", value)
    name, equals, setting = rest.partition("=")
    if not equals or not name or not setting or (comma and not mode):
        raise UsageError(
            f"--{flag}={value}: expected SETTING=VALUE or MODE,SETTING=VALUE, for example rate=100 or triton,file=/tmp/trace.json"
        )
    mode = mode.lower()
    if mode and mode not in _OF_MODE:
        raise UsageError(f"--{flag}={value}: expected the mode {TRITON} or {OPENTELEMETRY}")
    known = _OF_MODE[mode] if mode else _GLOBAL
    if name not in known:
        where = f" of the mode {mode}" if mode else " without a mode"
        raise UsageError(f"--{flag}={value}: the settings{where} are {', '.join(known)}")
    _check(flag, name, setting, value)
    given.append((mode, name, setting))


def _check(flag: str, name: str, value: str, given: str) -> None:
    if name in _RANGES:
        low, high = _RANGES[name]
        if _INTEGER(value) is None or not low <= int(value) <= high:
            raise UsageError(f"--{flag}={given}: expected {name} as a number from {low} to {high}")
    elif name == "level" and value.lower() not in _LEVEL_WORDS:
        raise UsageError(f"--{flag}={given}: expected the level OFF, TIMESTAMPS or TENSORS")
    elif name == "mode" and value.lower() not in _OF_MODE:
        raise UsageError(f"--{flag}={given}: expected the mode {TRITON} or {OPENTELEMETRY}")
    elif name == "url" and not value.lower().startswith(("http://", "https://")):
        raise UsageError(
            f"--{flag}={given}: expected url=http://HOST:PORT/v1/traces, the collector's address for OTLP over HTTP"
        )
    elif name == "resource" and not value.partition("=")[2]:
        raise UsageError(
            f"--{flag}={given}: expected resource=KEY=VALUE, for example resource=service.name=shop"
        )


def trace_options(
    given: collections.abc.Sequence[Setting], environ: collections.abc.Mapping[str, str]
) -> TraceOptions:
    """The options that settings give, in the order in which they were taken.

    Raises:
        UsageError: a variable OTEL_BSP_… is not a number.
    """
    values = {(mode, name): value for mode, name, value in given}
    levels = [_LEVEL_WORDS[value.lower()] for _, name, value in given if name == "level"]
    level = 0
    for each in levels:
        level |= each
    if 0 in levels:
        level = 0
    mode = values.get(("", "mode"), TRITON).lower()
    options = TraceOptions(
        level=level,
        rate=int(values.get(("", "rate"), "1000")),
        count=int(values.get(("", "count"), "-1")),
        log_frequency=int(values.get((TRITON, "log-frequency"), "0")) if mode == TRITON else 0,
        file=values.get((TRITON, "file"), "") if mode == TRITON else "",
        mode=mode,
    )
    if mode != OPENTELEMETRY:
        return options
    own = [(name, value) for of, name, value in given if of == OPENTELEMETRY]
    batches = {name: _batch_setting(name, values, environ) for name in _BATCHES}
    own += [
        (name, str(value)) for name, value in batches.items() if (OPENTELEMETRY, name) not in values
    ]
    resources = dict(value.split("=", 1) for name, value in own if name == "resource")
    return TraceOptions(
        level=options.level,
        rate=options.rate,
        count=options.count,
        mode=mode,
        shown=tuple(own),
        collector=CollectorOptions(
            url=values.get((OPENTELEMETRY, "url"), CollectorOptions().url),
            resource=tuple({"service.name": "triton-inference-server", **resources}.items()),
            max_queue_size=batches["bsp_max_queue_size"],
            schedule_delay_ms=batches["bsp_schedule_delay"],
            max_export_batch_size=batches["bsp_max_export_batch_size"],
        ),
    )


def _batch_setting(
    name: str,
    values: collections.abc.Mapping[tuple[str, str], str],
    environ: collections.abc.Mapping[str, str],
) -> int:
    given = values.get((OPENTELEMETRY, name))
    if given is not None:
        return int(given)
    variable = f"OTEL_{name.upper()}"
    value = environ.get(variable, str(_BATCHES[name]))
    low, high = _RANGES[name]
    if _INTEGER(value) is None or not low <= int(value) <= high:
        raise UsageError(f"{variable}={value}: expected a number from {low} to {high}")
    return int(value)
