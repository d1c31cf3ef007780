"""`--trace-config` and the older options for tracing."""

import typing

import pytest

from naiad.options.parsing import parse
from naiad.options.usage import UsageError
from naiad.tracing.settings import TENSORS, TIMESTAMPS, TraceOptions


def trace(*options: str) -> TraceOptions:
    return parse(["--model-repository=/m", *options]).trace


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), {}),
        (("--trace-config=level=TIMESTAMPS",), {"level": TIMESTAMPS}),
        (("--trace-config=level=timestamps", "--trace-config=level=Tensors"), {"level": TIMESTAMPS | TENSORS}),
        (("--trace-config=level=OFF", "--trace-config=level=TENSORS"), {"level": 0}),
        (("--trace-config=rate=7", "--trace-config", "count=3"), {"rate": 7, "count": 3}),
        (("--trace-config=triton,file=/a,b=c.json",), {"file": "/a,b=c.json"}),
        (("--trace-config=Triton,log-frequency=50", "--trace-config=mode=triton"), {"log_frequency": 50}),
        (
            ("--trace-file=f", "--trace-level=TIMESTAMPS", "--trace-rate=5", "--trace-count=6", "--trace-log-frequency=8"),
            {"file": "f", "level": TIMESTAMPS, "rate": 5, "count": 6, "log_frequency": 8},
        ),
        (("--trace-config=rate=7", "--trace-rate=5"), {"rate": 7}),
        (("--trace-rate=5", "--trace-config=rate=7"), {"rate": 7}),
        (("--trace-level=disabled", "--trace-file="), {}),
    ],
)  # fmt: skip
def test_what_options_mean(options: tuple[str, ...], expected: dict[str, typing.Any]) -> None:
    assert trace(*options) == TraceOptions(**expected)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--trace-config=rate", "expected SETTING=VALUE or MODE,SETTING=VALUE"),
        ("--trace-config=rate=", "expected SETTING=VALUE"),
        ("--trace-config=,rate=5", "expected SETTING=VALUE"),
        ("--trace-config=zipkin,url=x", "expected the mode triton or opentelemetry"),
        ("--trace-config=mode=zipkin", "expected the mode triton or opentelemetry"),
        ("--trace-config=file=x", "the settings without a mode are level, rate, count, mode"),
        ("--trace-config=triton,rate=1", "the settings of the mode triton are file, log-frequency"),
        ("--trace-config=rate=-1", "expected rate as a number from 0 to 2147483647"),
        ("--trace-config=count=-2", "expected count as a number from -1"),
        ("--trace-config=opentelemetry,url=ftp://x", "opentelemetry,url=ftp://x: expected url=http://HOST:PORT/v1/traces"),
        ("--trace-config=level=LOUD", "--trace-config=level=LOUD: expected the level OFF, TIMESTAMPS or TENSORS"),
        ("--trace-level=LOUD", "--trace-level=LOUD: expected the level"),
        ("--trace-rate=x", "--trace-rate=x: expected rate as a number"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(option: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        trace(option)


def test_the_older_options_are_noted() -> None:
    options = parse(["--model-repository=/m", "--trace-rate=5"])
    assert options.notes == ("--trace-rate is deprecated: use --trace-config",)
