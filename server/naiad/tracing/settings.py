"""Trace settings, global and per model, and the decision which requests are traced (rows 9.1 to 9.11). Pure.

A change replaces a setting by a new one, as in the reference: requests that are traced keep theirs, whose counts no longer matter.
"""

import collections.abc
import re
import typing

import msgspec

from naiad.core.record import Record
from naiad.errors import InferenceError, invalid

TIMESTAMPS = 1
TENSORS = 2
LEVELS = {"TIMESTAMPS": TIMESTAMPS, "TENSORS": TENSORS}
"""The bits of a level by name; 0 is OFF."""

TRITON, OPENTELEMETRY = "triton", "opentelemetry"
"""The modes: files, and spans for a collector."""

FIELDS = ("level", "rate", "count", "log_frequency")
"""What can be changed while the server runs."""

Change = collections.abc.Mapping[str, int | None]
"""New values by field; None clears one, which then follows the global setting, or the options of the start."""

_LEADING_INTEGER = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)", re.ASCII).match
_INT = range(-(2**31), 2**31)
_MAX_UINT = 2**32 - 1
_MAX_INT = 2**31 - 1
_DIGITS = 20


class CollectorOptions(Record, frozen=True, eq=True):
    """Where spans go, and in which batches (row 9.17).

    Attributes:
        url: of the collector's OTLP over HTTP.
        resource: the attributes of this server, by key.
        max_queue_size: spans that may wait; more are dropped.
        schedule_delay_ms: how long spans are gathered.
        max_export_batch_size: spans per request.
    """

    url: str = "http://localhost:4318/v1/traces"
    resource: tuple[tuple[str, str], ...] = ()
    max_queue_size: int = 2048
    schedule_delay_ms: int = 5000
    max_export_batch_size: int = 512


class TraceOptions(Record, frozen=True, eq=True):
    """The setting that the command line gives.

    Attributes:
        level: bits of `LEVELS`.
        rate: each so many-th request is traced; 0 traces only requests of a trace that the client has begun.
        count: traces to collect; -1: without end.
        log_frequency: traces per file; 0: all in one.
        file: where traces are written; "" for none.
        mode: TRITON or OPENTELEMETRY.
        shown: further settings of the mode, as clients see them.
        collector: of the mode OPENTELEMETRY; None in the other one.
    """

    level: int = 0
    rate: int = 1000
    count: int = -1
    log_frequency: int = 0
    file: str = ""
    mode: str = TRITON
    shown: tuple[tuple[str, str], ...] = ()
    collector: CollectorOptions | None = None


class TraceSetting(msgspec.Struct, eq=False):
    """A setting in force, and which request it traces next.

    Attributes:
        count: traces that are still to be collected; -1: without end.
        specified: the fields that were set for it; the others follow the setting above.
        left: requests that come before the next one that is traced; -1: it traces none, unless the client has begun a trace.
        open: whole traces that are not complete.
        replaced: whether a change has replaced it.
        usual: whether its usual traces need nothing but their numbers (`tracing.usual`): times only, to one file, without end.
        always: whether it traces every request, in this way.
    """

    level: int
    rate: int
    count: int
    log_frequency: int
    file: str
    mode: str
    specified: frozenset[str] = frozenset()
    left: int = -1
    open: int = 0
    replaced: bool = False
    usual: bool = False
    always: bool = False

    def __post_init__(self) -> None:
        self._count_anew()
        to_one_file = self.mode == TRITON and self.count < 0 and not self.log_frequency
        self.usual = self.level == TIMESTAMPS and to_one_file
        self.always = self.usual and not self.left

    def _count_anew(self) -> None:
        self.left = self.rate - 1 if self.fault() is None else -1

    def fault(self) -> str | None:
        """Why it traces nothing, in the reference's words; "" if its count is used up, None if it traces."""
        if not self.level:
            return "tracing is disabled"
        if not self.rate:
            return "sample rate must be non-zero"
        if self.mode == TRITON and not self.file:
            return "trace file name is not given"
        return None if self.count else ""

    def samples(self, *, forced: bool = False) -> bool:
        """Whether the next request is traced; counts it.

        Args:
            forced: the client has begun a trace that the request belongs to (row 9.19).
        """
        if self.left > 0:
            self.left -= 1
        elif self.left == 0:
            self.left = self.rate - 1
            if self.count > 0:
                self.count -= 1
                self._count_anew()
            return True
        return forced


class TraceSettings:
    """The global setting, and those of models."""

    def __init__(self, options: TraceOptions) -> None:
        self.options = options
        self._start = _setting(options, frozenset())
        self.overall = _setting(options, frozenset())
        self.models: dict[str, TraceSetting] = {}

    def of(self, model: str) -> TraceSetting:
        """The setting of a model; of all models for ""."""
        return self.models.get(model) or self.overall

    def all(self) -> list[TraceSetting]:
        """Every setting."""
        return [self.overall, *self.models.values()]

    def change(self, model: str, change: Change) -> list[TraceSetting]:
        """Change the setting of a model, or the global one, which those of models follow where they set nothing themselves.

        Returns:
            The settings that were replaced.

        Raises:
            InferenceError: INVALID_ARG: the setting would trace, and cannot. Nothing was changed.
        """
        if not model:
            made = _changed(self.overall, self._start, change)
            replaced, self.overall = self.overall, made
            return [replaced, *self._follow()]
        current = self.models.get(model)
        made = _changed(current, self.overall, change)
        if made.specified:
            self.models[model] = made
        else:
            self.models.pop(model, None)
        return [] if current is None else [current]

    def _follow(self) -> list[TraceSetting]:
        """Make the settings of models again after a change of the global one. A model that could not be traced with the new values keeps its own."""
        replaced = []
        for name, current in list(self.models.items()):
            if current.specified.issuperset(FIELDS):
                continue
            try:
                self.models[name] = _changed(current, self.overall, {})
            except InferenceError:
                continue
            replaced.append(current)
        return replaced


def _setting(options: TraceOptions, specified: frozenset[str]) -> TraceSetting:
    return TraceSetting(
        options.level,
        options.rate,
        options.count,
        options.log_frequency,
        options.file,
        options.mode,
        specified,
    )


def _changed(current: TraceSetting | None, above: TraceSetting, change: Change) -> TraceSetting:
    """A setting after a change; `above` has the values of the fields that are not specified."""
    known = frozenset() if current is None else current.specified
    specified = {field for field in FIELDS if change.get(field, field in known or None) is not None}

    def value(field: str) -> int:
        given = change.get(field)
        if given is not None:
            return given
        number: int = getattr(current if field in specified else above, field)
        return number

    made = TraceSetting(
        value("level"),
        value("rate"),
        value("count"),
        value("log_frequency"),
        above.file,
        above.mode,
        frozenset(specified),
    )
    fault = made.fault()
    if made.level and fault is not None and specified | change.keys():
        raise invalid(f"Attempting to set invalid trace setting :{fault}")
    return made


def number(name: str, text: str, *, spaced: bool = False) -> int:
    """The value of a field that clients send as text.

    Args:
        name: the setting's name in the protocol: `trace_rate`, `trace_count` or `log_frequency`.
        text: begins with an integer.
        spaced: whether an error about a count has a space before the value, as over gRPC.

    Raises:
        InferenceError: INVALID_ARG (row 9.7).
    """
    match = _LEADING_INTEGER(text)
    if match is None:
        raise invalid(f"Unable to parse '{name}', got: {text}")
    low, high = (-1, _MAX_INT) if name == "trace_count" else (0, _MAX_UINT)
    value = int(match[1]) if len(match[1]) <= _DIGITS else _MAX_UINT + 1
    if value not in _INT:
        raise invalid(
            f"Unable to parse '{name}', value is out of range [ {low}, {high} ], got: {text}"
        )
    if name != "trace_count":
        return value & _MAX_UINT  # as the reference does with a negative number
    if value < low:
        space = " " if spaced else ""
        raise invalid(f"Unable to parse '{name}'. Expecting value >= {low}, got:{space}{text}")
    return value


def level(names: collections.abc.Iterable[str]) -> int | None:
    """The level that names give; None if no known one is among them, which changes nothing.

    Raises:
        InferenceError: INVALID_ARG: OFF beside others (row 9.3).
    """
    given = list(names)
    if "OFF" in given:
        if len(given) > 1:
            raise invalid("Expect only one trace level 'OFF' is specified")
        return 0
    bits = 0
    for name in given:
        bits |= LEVELS.get(name, 0)
    return bits or None


def level_names(bits: int) -> list[str]:
    """The reverse of `level`."""
    return [name for name, bit in LEVELS.items() if bits & bit] or ["OFF"]


def shown(setting: TraceSetting, options: TraceOptions) -> dict[str, typing.Any]:
    """A setting as clients see it: text, and a list for the level (rows 9.1, 9.10)."""
    values: dict[str, typing.Any] = {
        "trace_level": level_names(setting.level),
        "trace_rate": str(setting.rate),
        "trace_count": str(setting.count),
    }
    if setting.mode == TRITON:
        values["log_frequency"] = str(setting.log_frequency)
        values["trace_file"] = setting.file
    values["trace_mode"] = setting.mode
    values.update(options.shown)
    return values
