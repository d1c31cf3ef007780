"""The metrics page, read back by the Prometheus client's own parser."""

import collections.abc
import itertools
import math

import pytest
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

from naiad.core.clock import ManualClock
from naiad.errors import FailureReason
from naiad.metrics.collect import Counted, model_series
from naiad.metrics.exposition import (
    OPEN_METRICS_END,
    Rendered,
    Sample,
    Series,
    open_metrics_pieces,
    page,
)
from naiad.metrics.families import Family
from naiad.metrics.histogram import NO_BUCKETS, Buckets, Exemplar
from naiad.metrics.memory import MemoryUsage
from naiad.metrics.options import MetricsOptions
from naiad.metrics.statistics import (
    BatchTiming,
    CloseReason,
    ModelStatistics,
    RestartReason,
    StepTimes,
)


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
    series = samples(page(model_series([counted()])))
    assert series["nv_inference_request_success"][MODEL] == 2
    assert series["nv_inference_count"][MODEL] == 3
    assert series["nv_inference_exec_count"][MODEL] == 1
    assert series["nv_inference_request_duration_us"][MODEL] == 8_000
    assert series["nv_inference_queue_duration_us"][MODEL] == 2_000
    assert series["nv_inference_compute_input_duration_us"][MODEL] == 3
    assert series["nv_inference_pending_request_count"][MODEL] == 2
    assert series["nv_model_load_duration_secs"][MODEL] == 1.25


def test_every_failure_reason_has_a_series_from_the_start() -> None:
    series = samples(page(model_series([counted(statistics=ModelStatistics())])))
    reasons = {
        dict(labels)["reason"]: value
        for labels, value in series["nv_inference_request_failure"].items()
    }
    assert reasons == {"REJECTED": 0, "CANCELED": 0, "BACKEND": 0, "OTHER": 0}


def test_histograms_are_cumulative_and_end_in_their_count() -> None:
    series = samples(page(model_series([counted()])))
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
    assert name not in page(model_series([counters])).decode()
    statistics.memory = (
        MemoryUsage(type="CPU", id=0, byte_size=1200, estimated=True),
        MemoryUsage(type="GPU", id=1, byte_size=3400, estimated=False),
    )
    lines = page(model_series([counters])).decode().splitlines()
    assert [line for line in lines if line.startswith(name)] == [
        f'{name}{{estimated="true",id="0",model="m",type="CPU",version="1"}} 1200',
        f'{name}{{estimated="false",id="1",model="m",type="GPU",version="1"}} 3400',
    ]


def test_rows_that_were_added_to_batches_are_counted_apart_from_their_own() -> None:
    model = statistics()
    timing = BatchTiming(1, 1, 1)
    model.record_execution(batch_size=5, timing=timing, wall_ms=0, padding_rows=3)
    model.record_execution(batch_size=7, timing=timing, wall_ms=0, padding_rows=1)
    series = samples(page(model_series([counted(statistics=model)])))
    assert series["naiad_batch_padding_rows_total"][MODEL] == 4
    assert series["naiad_batch_size_sum"][MODEL] == 15


def test_times_of_responses_are_shown_of_decoupled_models_only() -> None:
    model = statistics()
    model.first_response_time.observe(3_000_000)
    model.response_interval.observe(400_000)
    for model.streams in (False, True):
        series = samples(page(model_series([counted(statistics=model)], counter_latencies=True)))
        for name in ("naiad_first_response_duration_seconds", "naiad_response_interval_seconds"):
            assert (f"{name}_count" in series) is model.streams
    assert series["naiad_first_response_duration_seconds_sum"][MODEL] == 0.003
    assert series["naiad_response_interval_seconds_bucket"][(("le", "0.0005"), *MODEL)] == 1


def test_why_batches_closed_is_counted() -> None:
    series = samples(page(model_series([counted()])))
    closes = {
        dict(labels)["reason"]: value
        for labels, value in series["naiad_batch_closed_total"].items()
    }
    assert closes["idle_instance"] == 1
    assert closes["full"] == 0


def test_labels_stand_in_tritons_order() -> None:
    text = page(model_series([counted()])).decode()
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
    text = page(model_series([tagged])).decode()
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
    found = samples(page(model_series(shown)))["naiad_worker_restarts_total"]
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


def with_options(options: MetricsOptions, buckets: Buckets = NO_BUCKETS) -> ModelStatistics:
    """Two requests of one batch, a cache hit, a cache miss and a failed request."""
    kept = ModelStatistics(options, buckets=buckets, clock=ManualClock())
    timing = BatchTiming(1_500, 2_000_000, 3_000)
    kept.record_successes(
        rows=3, request_ns=[4_000_000, 8_000_000], queue_ns=[1_000_000] * 2, timing=timing
    )
    kept.record_cache_hit(request_ns=20_000, queue_ns=0, lookup_ns=15_000)
    kept.record_cache_miss(30_000)
    kept.record_failure(reason=FailureReason.REJECTED, request_ns=10_000)
    return kept


def families_of(statistics: ModelStatistics) -> str:
    return page(model_series([counted(statistics=statistics)])).decode()


@pytest.mark.parametrize("caches", [False, True])
def test_summaries_show_what_succeeded_and_no_request_time_of_a_model_with_a_cache(
    *, caches: bool
) -> None:
    kept = with_options(MetricsOptions(summary_latencies=True, quantiles=((0.5, 0.05), (1.0, 0.0))))
    kept.caches = caches
    found = samples(families_of(kept).encode())
    infer = "nv_inference_compute_infer_summary_us"
    assert found[f"{infer}_count"][MODEL] == 2
    assert found[f"{infer}_sum"][MODEL] == 4_000
    assert found["nv_inference_queue_summary_us_count"][MODEL] == 3
    quantiles = {dict(labels)["quantile"]: value for labels, value in found[infer].items()}
    assert quantiles == {each: pytest.approx(2_000, rel=0.01) for each in ("0.5", "1")}
    assert ("nv_inference_request_summary_us" in found) == (not caches)
    assert ("nv_cache_hit_summary_per_model" in found) == caches
    if caches:
        assert found["nv_cache_hit_summary_per_model_sum"][MODEL] == 15
        assert found["nv_cache_miss_summary_per_model_sum"][MODEL] == 30


def test_without_the_settings_neither_summaries_nor_the_first_response_are_kept() -> None:
    text = families_of(with_options(MetricsOptions()))
    assert "summary" not in text
    assert "first_response" not in text


def test_a_model_may_choose_the_buckets_of_each_histogram() -> None:
    chosen = {
        "nv_inference_first_response_histogram_ms": (5.0,),
        "naiad_request_duration_seconds": (0.005, 1.0),
        "naiad_batch_size": (3.0,),
    }
    kept = with_options(MetricsOptions(histogram_latencies=True), chosen)
    kept.record_first_response(5_900_000)
    kept.record_execution(batch_size=4, timing=BatchTiming(1, 1, 1), wall_ms=0)
    found = samples(families_of(kept).encode())

    def buckets(family: str) -> dict[str, float]:
        return {dict(labels)["le"]: value for labels, value in found[f"{family}_bucket"].items()}

    # 5.9 ms are 5 whole ones, as in the reference; the hit is the other response.
    assert buckets("nv_inference_first_response_histogram_ms") == {"5": 2, "+Inf": 2}
    assert found["nv_inference_first_response_histogram_ms_sum"][MODEL] == 5
    assert buckets("naiad_request_duration_seconds") == {"0.005": 3, "1": 4, "+Inf": 4}
    assert buckets("naiad_batch_size") == {"3": 0, "+Inf": 1}
    assert "0.0001" in buckets("naiad_queue_duration_seconds")


def open_metrics(series: collections.abc.Iterable[Series | Rendered]) -> str:
    body = b"".join(itertools.chain.from_iterable(map(open_metrics_pieces, series)))
    return (body + OPEN_METRICS_END).decode()


def test_openmetrics_has_the_same_names_and_exemplars_in_their_buckets() -> None:
    kept = with_options(MetricsOptions(histogram_latencies=True, exemplars=True))
    trace = "0af7651916cd43dd8448eb211c80319c"
    kept.request_time.remember(Exemplar(4_000_000, trace, 1_700_000_000_250_000_000))
    shown = [counted(statistics=kept, tags={"title": "5", "text": '{le="5"}'})]
    text = open_metrics(model_series(shown, exemplars=True))
    found = {
        family.name: family
        for family in openmetrics_parser.text_string_to_metric_families(text)  # type: ignore[no-untyped-call] # it has no types
    }
    assert found["nv_inference_request_success"].type == "unknown"
    assert found["naiad_batch_closed"].type == "counter"
    assert "naiad_batch_closed_total{" in text
    exemplars = {
        sample.labels["le"]: sample.exemplar
        for sample in found["naiad_request_duration_seconds"].samples
        if sample.exemplar is not None
    }
    assert list(exemplars) == ["0.005"]
    assert exemplars["0.005"].labels == {"trace_id": trace}
    assert exemplars["0.005"].value == 0.004
    assert float(exemplars["0.005"].timestamp) == 1_700_000_000.25
    assert 'le="100.0"' in text
    assert '_title="5"' in text
    assert trace not in page(model_series(shown)).decode()


def test_help_in_openmetrics_has_its_quotes_escaped() -> None:
    family = Family("f_total", 'of "x"', "counter")
    text = open_metrics([Series(family, (Sample((), 1),))])
    assert text == '# HELP f of \\"x\\"\n# TYPE f counter\nf_total 1\n# EOF\n'


def test_each_step_of_an_ensemble_has_a_series_with_its_model() -> None:
    kept = ModelStatistics()
    kept.steps = [
        StepTimes(model="cut"),
        StepTimes(model='"%s"', count=3, failures=1, total_ns=1_500_000),
    ]
    lines = families_of(kept).splitlines()
    step = 'model="m",step="1",step_model="\\"%s\\"",version="1"'
    assert f"naiad_ensemble_step_calls_total{{{step}}} 3" in lines
    assert f"naiad_ensemble_step_failures_total{{{step}}} 1" in lines
    assert f"naiad_ensemble_step_duration_seconds_total{{{step}}} 0.0015" in lines
    assert (
        'naiad_ensemble_step_calls_total{model="m",step="0",step_model="cut",version="1"} 0'
        in lines
    )
