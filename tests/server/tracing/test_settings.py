"""Trace settings: which requests are traced, what a change makes of a setting, and what is refused."""

import pytest

from naiad.errors import InferenceError
from naiad.tracing.settings import (
    TENSORS,
    TIMESTAMPS,
    TraceOptions,
    TraceSettings,
    level,
    level_names,
    number,
    shown,
)


def settings(**options: int | str) -> TraceSettings:
    return TraceSettings(TraceOptions(file="t.json", **options))  # type: ignore[arg-type]  # each of its type


def traced(
    table: TraceSettings, requests: int, model: str = "m", *, forced: bool = False
) -> list[int]:
    """Which of the next requests are traced."""
    return [n for n in range(1, requests + 1) if table.of(model).samples(forced=forced)]


def test_each_so_many_th_request_is_traced() -> None:
    assert traced(settings(level=TIMESTAMPS, rate=3), 7) == [3, 6]


def test_a_count_ends_tracing_and_is_what_is_left() -> None:
    table = settings(level=TIMESTAMPS, rate=2, count=2)
    assert traced(table, 9) == [2, 4]
    assert table.overall.count == 0
    assert table.overall.left == -1


def test_nothing_is_traced_when_off_without_a_file_or_without_a_rate() -> None:
    assert traced(settings(level=0, rate=1), 3) == []
    assert traced(TraceSettings(TraceOptions(level=TIMESTAMPS, rate=1)), 3) == []
    assert traced(settings(level=TIMESTAMPS, rate=0), 3) == []


def test_a_request_of_a_trace_that_the_client_began_is_traced_whatever_rate_and_count_are() -> None:
    table = settings(level=TIMESTAMPS, rate=0, count=0, mode="opentelemetry")
    assert traced(table, 2, forced=True) == [1, 2]


def test_models_follow_the_global_setting_in_what_they_do_not_set() -> None:
    table = settings(level=TIMESTAMPS, rate=10)
    table.change("m", {"rate": 2})
    table.change("", {"rate": 5, "log_frequency": 7})
    assert (table.of("m").rate, table.of("m").log_frequency) == (2, 7)
    assert (table.of("n").rate, table.of("n").log_frequency) == (5, 7)


def test_null_clears_to_the_setting_above() -> None:
    table = settings(level=TIMESTAMPS, rate=10)
    table.change("", {"rate": 5})
    table.change("m", {"rate": 2, "log_frequency": 3})
    table.change("m", {"rate": None})
    assert (table.of("m").rate, table.of("m").log_frequency) == (5, 3)
    table.change("m", {"log_frequency": None})
    assert table.of("m") is table.overall
    table.change("", {"rate": None})
    assert table.overall.rate == 10


def test_a_change_counts_requests_again_and_keeps_what_is_left_of_a_count() -> None:
    table = settings(level=TIMESTAMPS, rate=1, count=-1)
    table.change("m", {"count": 5})
    assert traced(table, 2) == [1, 2]
    replaced = table.change("m", {"log_frequency": 9})
    assert [setting.count for setting in replaced] == [3]
    assert (table.of("m").count, table.of("m").left) == (3, 0)


@pytest.mark.parametrize(
    ("options", "change", "fault"),
    [
        ({"level": TIMESTAMPS}, {"rate": 0}, "sample rate must be non-zero"),
        ({"level": TIMESTAMPS}, {"count": 0}, ""),
        ({}, {"level": TENSORS, "rate": 0}, "sample rate must be non-zero"),
    ],
)
def test_a_setting_that_would_trace_and_cannot_is_refused_and_changes_nothing(
    options: dict[str, int], change: dict[str, int | None], fault: str
) -> None:
    table = settings(**options)
    before = shown(table.overall, table.options)
    with pytest.raises(InferenceError) as refused:
        table.change("", change)
    assert refused.value.message == f"Attempting to set invalid trace setting :{fault}"
    assert shown(table.overall, table.options) == before


def test_tracing_without_a_file_is_refused() -> None:
    table = TraceSettings(TraceOptions())
    with pytest.raises(InferenceError, match="trace file name is not given"):
        table.change("", {"level": TIMESTAMPS})
    table.change("", {"rate": 0})  # as long as it is off, all is allowed


def test_a_used_up_count_of_a_model_does_not_keep_others_from_a_change() -> None:
    table = settings(level=TIMESTAMPS, rate=1)
    table.change("m", {"count": 1})
    traced(table, 1)
    table.change("", {"rate": 4})
    assert (table.overall.rate, table.of("m").count) == (4, 0)


@pytest.mark.parametrize(
    ("text", "value"),
    [("7", 7), (" 7x", 7), ("+3", 3), ("-1", 2**32 - 1), ("2147483647", 2**31 - 1)],
)
def test_a_number_is_read_as_the_reference_does(text: str, value: int) -> None:
    assert number("trace_rate", text) == value


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("trace_rate", "x", "Unable to parse 'trace_rate', got: x"),
        ("trace_rate", "", "Unable to parse 'trace_rate', got: "),
        ("log_frequency", "2147483648", "Unable to parse 'log_frequency', value is out of range [ 0, 4294967295 ], got: 2147483648"),
        ("trace_count", "9" * 5000, f"Unable to parse 'trace_count', value is out of range [ -1, 2147483647 ], got: {'9' * 5000}"),
        ("trace_count", "-2", "Unable to parse 'trace_count'. Expecting value >= -1, got:-2"),
    ],
)  # fmt: skip
def test_what_is_not_a_number_is_refused_in_the_references_words(
    name: str, text: str, message: str
) -> None:
    with pytest.raises(InferenceError) as refused:
        number(name, text)
    assert refused.value.message == message


def test_levels() -> None:
    assert level(["TENSORS", "TIMESTAMPS"]) == TENSORS | TIMESTAMPS
    assert level(["OFF"]) == 0
    assert level(["bogus"]) is None
    assert level([]) is None
    with pytest.raises(InferenceError, match="Expect only one trace level 'OFF' is specified"):
        level(["OFF", "TENSORS"])
    assert level_names(0) == ["OFF"]
    assert level_names(TENSORS | TIMESTAMPS) == ["TIMESTAMPS", "TENSORS"]
