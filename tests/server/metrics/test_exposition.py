"""The metrics page, read back by the Prometheus client's own parser."""

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from naiad.errors import FailureReason
from naiad.metrics.collect import Counted, model_series
from naiad.metrics.exposition import Sample, Series, page
from naiad.metrics.families import Family
from naiad.metrics.memory import MemoryUsage
from naiad.metrics.statistics import BatchTiming, CloseReason, ModelStatistics, RestartReason


def statistics() -> ModelStatistics:
    """Three requests: two answered in one batch of 3 rows, one rejected."""
    counted = ModelStatistics()
    timing = BatchTiming(1_500, 2_000_000, 3_000)
    counted.record_successes(
        rows=3, request_ns=[4_000_000] * 2, queue_ns=[1_000_000] * 2, timing=timing
    )
    counted.record_execution(batch_size=3, timing=timing, wall_ms=1_700_000_000_000)
    counted.record_failure(reason=FailureReason.REJECTED, request_ns=10_000)
    counted.closes[CloseReason.IDLE] += 1
    counted.pending = 2
    counted.load_ns = 1_250_000_000
    return counted


def samples(text: bytes) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Sample name -> labels -> value."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            # The parser gives counters the ending that Triton's do not have.
            name = (
                sample.name
                if f"\n{sample.name}{{" in "\n" + text.decode()
                else sample.name.removesuffix("_total")
            )
            found.setdefault(name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def counted(**more: object) -> Counted:
    fields = {"name": "m", "version": 1, "statistics": statistics(), "tags": {}} | more
    return Counted(**fields)  # type: ignore[arg-type] # the test names the fields it cares about


MODEL = (("model", "m"), ("version", "1"))


def test_tritons_counters_have_their_exact_names_and_values() -> None:
    series = samples(page(model_series([counted()], counter_latencies=True)))
    assert series["nv_inference_request_success"][MODEL] == 2
    assert series["nv_inference_count"][MODEL] == 3
    assert series["nv_inference_exec_count"][MODEL] == 1
    assert series["nv_inference_request_duration_us"][MODEL] == 8_000
    assert series["nv_inference_queue_duration_us"][MODEL] == 2_000
    assert series["nv_inference_compute_input_duration_us"][MODEL] == 3
    assert series["nv_inference_pending_request_count"][MODEL] == 2
    assert series["nv_model_load_duration_secs"][MODEL] == 1.25


def test_every_failure_reason_has_a_series_from_the_start() -> None:
    series = samples(
        page(model_series([counted(statistics=ModelStatistics())], counter_latencies=True))
    )
    reasons = {
        dict(labels)["reason"]: value
        for labels, value in series["nv_inference_request_failure"].items()
    }
    assert reasons == {"REJECTED": 0, "CANCELED": 0, "BACKEND": 0, "OTHER": 0}


def test_histograms_are_cumulative_and_end_in_their_count() -> None:
    series = samples(page(model_series([counted()], counter_latencies=True)))
    buckets = {
        dict(labels)["le"]: value
        for labels, value in series["naiad_request_duration_seconds_bucket"].items()
    }
    assert buckets["0.0025"] == 1  # the rejected one
    assert buckets["0.005"] == 3
    assert buckets["+Inf"] == 3
    assert series["naiad_request_duration_seconds_count"][MODEL] == 3
    assert math.isclose(series["naiad_request_duration_seconds_sum"][MODEL], 0.00801)
    assert series["naiad_batch_size_sum"][MODEL] == 3


def test_each_memory_of_a_model_has_a_series() -> None:
    statistics = ModelStatistics()
    counters = counted(statistics=statistics)
    name = "naiad_model_memory_bytes"
    assert name not in page(model_series([counters], counter_latencies=True)).decode()
    statistics.memory = (
        MemoryUsage(type="CPU", id=0, byte_size=1200, estimated=True),
        MemoryUsage(type="GPU", id=1, byte_size=3400, estimated=False),
    )
    lines = page(model_series([counters], counter_latencies=True)).decode().splitlines()
    assert [line for line in lines if line.startswith(name)] == [
        f'{name}{{estimated="true",id="0",model="m",type="CPU",version="1"}} 1200',
        f'{name}{{estimated="false",id="1",model="m",type="GPU",version="1"}} 3400',
    ]


def test_rows_that_were_added_to_batches_are_counted_apart_from_their_own() -> None:
    model = statistics()
    timing = BatchTiming(1, 1, 1)
    model.record_execution(batch_size=5, timing=timing, wall_ms=0, padding_rows=3)
    model.record_execution(batch_size=7, timing=timing, wall_ms=0, padding_rows=1)
    series = samples(page(model_series([counted(statistics=model)], counter_latencies=True)))
    assert series["naiad_batch_padding_rows_total"][MODEL] == 4
    assert series["naiad_batch_size_sum"][MODEL] == 15


def test_why_batches_closed_is_counted() -> None:
    series = samples(page(model_series([counted()], counter_latencies=True)))
    closes = {
        dict(labels)["reason"]: value
        for labels, value in series["naiad_batch_closed_total"].items()
    }
    assert closes["idle_instance"] == 1
    assert closes["full"] == 0


def test_labels_stand_in_tritons_order() -> None:
    text = page(model_series([counted()], counter_latencies=True)).decode()
    assert 'nv_inference_request_failure{model="m",reason="BACKEND",version="1"} ' in text


def test_latency_counters_can_be_switched_off() -> None:
    series = samples(page(model_series([counted()], counter_latencies=False)))
    assert "nv_inference_request_duration_us" not in series
    assert series["nv_inference_request_success"][MODEL] == 0
    assert series["naiad_request_duration_seconds_count"][MODEL] == 3


def test_metric_tags_and_gpus_are_labels() -> None:
    tagged = counted(tags={"team": "vision"}, gpu_uuids=("GPU-1",))
    assert tagged.labels() == (
        ("_team", "vision"), ("gpu_uuid", "GPU-1"), ("model", "m"), ("version", "1"),
    )  # fmt: skip
    text = page(model_series([tagged], counter_latencies=True)).decode()
    assert (
        'nv_inference_request_failure{_team="vision",gpu_uuid="GPU-1",model="m",reason="OTHER",version="1"} 0\n'
        in text
    )


def test_no_model_writes_lines_of_another_or_breaks_the_page() -> None:
    names = ['say "hi"', "100 %", "%s %d", "\1\2", "new\nline"]
    text = page(
        model_series(
            [counted(name=name, tags={"tag": name}) for name in names], counter_latencies=True
        )
    )
    series = samples(text)
    assert len(series["nv_inference_count"]) == len(names)
    for name in names:
        labels = (("_tag", name), ("model", name), ("version", "1"))
        assert series["nv_inference_count"][labels] == 3
        assert series["naiad_request_duration_seconds_count"][labels] == 3


def test_only_models_with_workers_have_restarts() -> None:
    with_worker = statistics()
    with_worker.worker_restarts = dict.fromkeys(RestartReason, 0)
    with_worker.record_restart(RestartReason.DIED)
    shown = [counted(), counted(name="w", statistics=with_worker)]
    found = samples(page(model_series(shown, counter_latencies=True)))[
        "naiad_worker_restarts_total"
    ]
    assert {dict(labels)["model"] for labels in found} == {"w"}
    assert {dict(labels)["reason"]: value for labels, value in found.items()} == {
        "died": 1, "timeout": 0, "load": 0,
    }  # fmt: skip


@pytest.mark.parametrize("value", ['say "hi"', "back\\slash", "two\nlines", "ünïcode"])
def test_label_values_are_escaped(value: str) -> None:
    text = page([Series(Family("f", "help", "gauge"), (Sample((("l", value),), 1.5),))])
    assert samples(text)["f"] == {(("l", value),): 1.5}


def test_a_family_without_samples_is_left_out() -> None:
    assert page([Series(Family("f", "help", "gauge"), ())]) == b""
