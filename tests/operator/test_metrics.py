"""The operator's metrics page, read by Prometheus' own parser."""

from prometheus_client.parser import text_string_to_metric_families

from naiad_operator.metrics import Gauges, Metrics, page

GAUGES = Gauges(
    queue_depth=3,
    queue_oldest=1.5,
    queue_failing=1,
    children=12,
    upgrades={"waiting": 5, "failed": 1},
    blocked_upgrades=[("payments", "ledger")],
    watch_restarts={"pods": 4},
    unwatched={"scaledobjects": 2},
    left_out={"flooded": 36},
    leader=True,
    model_polls={"ok": 7, "unreachable": 2},
    conditions={
        ("Ready", "True", "Ready"): 2,
        ("Ready", "False", "RollingOut"): 1,
        ("ModelsLoaded", "False", "ModelFailed"): 1,
    },
)


def values(metrics: Metrics) -> dict[str, float]:
    found = {}
    for family in text_string_to_metric_families(page(metrics, GAUGES)):
        for sample in family.samples:
            labels = ",".join(f"{k}={v}" for k, v in sample.labels.items())
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def test_gauges_have_the_current_values() -> None:
    by_series = values(Metrics())
    assert by_series["naiad_operator_queue_depth"] == 3
    assert by_series["naiad_operator_queue_oldest_seconds"] == 1.5
    assert by_series["naiad_operator_services{state=Ready}"] == 2
    assert by_series["naiad_operator_watch_restarts_total{resource=pods}"] == 4
    assert by_series["naiad_operator_upgrades{state=waiting}"] == 5
    named = "service=ledger,service_namespace=payments"
    assert by_series[f"naiad_operator_upgrade_blocked{{{named}}}"] == 1
    assert by_series["naiad_operator_unwatched{resource=scaledobjects}"] == 2
    assert by_series["naiad_operator_objects_left_out{object_namespace=flooded}"] == 36
    assert by_series["naiad_operator_leader"] == 1
    assert by_series["naiad_operator_model_polls_total{result=unreachable}"] == 2
    failed = "condition=ModelsLoaded,reason=ModelFailed,status=False"
    assert by_series[f"naiad_operator_conditions{{{failed}}}"] == 1


def test_a_reconcile_is_counted_by_its_result_and_in_every_bucket_above_it() -> None:
    metrics = Metrics()
    metrics.observe(0.02, "ok")
    metrics.observe(99.0, "retry")
    metrics.errors["Conflict"] += 1
    by_series = values(metrics)
    assert by_series["naiad_operator_reconciles_total{result=ok}"] == 1
    assert by_series["naiad_operator_reconcile_errors_total{error=Conflict}"] == 1
    buckets = [
        by_series[f"naiad_operator_reconcile_seconds_bucket{{le={le}}}"]
        for le in ("0.01", "0.025", "30", "+Inf")
    ]
    assert buckets == [0, 1, 1, 2]
    assert by_series["naiad_operator_reconcile_seconds_sum"] == 99.02
