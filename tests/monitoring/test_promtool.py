"""Prometheus's own tool on the rules: they parse, and fire when they should and only then.

Needs promtool (Debian's package prometheus has it); without it these tests are skipped, and CI installs it.
"""

import pathlib
import shutil
import subprocess
import typing

import pytest
import yaml

from tests.monitoring import files

PROMTOOL = shutil.which("promtool")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        PROMTOOL is None, reason="promtool is not installed: apt-get install prometheus"
    ),
]

IDENTITY = 'namespace="models",inference_service="demo",pod="demo-1"'
CONDITION = 'namespace="naiad-system",condition="ModelsLoaded",status="{}",reason="{}"'
MODEL = f'{IDENTITY},model="magika",version="1"'


def series(name: str, values: str, labels: str = MODEL) -> dict[str, str]:
    return {"series": f"{name}{{{labels}}}", "values": values}


FIRES: dict[str, tuple[str, list[dict[str, str]]]] = {
    "NaiadRequestsFail": (
        "15m",
        [
            series("nv_inference_request_success", "0+60x30"),
            series("nv_inference_request_failure", "0+12x30", f'{MODEL},reason="BACKEND"'),
            series("nv_inference_request_failure", "0+0x30", f'{MODEL},reason="CANCELED"'),
        ],
    ),
    "NaiadQueueStalled": (
        "15m",
        [
            series("nv_inference_pending_request_count", "3x30"),
            series("nv_inference_request_success", "100x30"),
            series("nv_inference_request_failure", "0x30", f'{MODEL},reason="BACKEND"'),
            # Clients that give up waiting, which is what they do then.
            series("nv_inference_request_failure", "0+6x30", f'{MODEL},reason="CANCELED"'),
        ],
    ),
    "NaiadQueueTimeHigh": (
        "25m",
        [
            series("nv_inference_queue_duration_us", "0+120000000x30"),
            series("nv_inference_request_success", "0+60x30"),
        ],
    ),
    "NaiadLatencyHigh": (
        "25m",
        [
            series("naiad_request_duration_seconds_bucket", "0+0x30", f'{MODEL},le="5"'),
            series("naiad_request_duration_seconds_bucket", "0+60x30", f'{MODEL},le="20"'),
            series("naiad_request_duration_seconds_bucket", "0+60x30", f'{MODEL},le="+Inf"'),
        ],
    ),
    "NaiadPodNotScraped": ("10m", [series("up", "0x30", IDENTITY)]),
    "NaiadServerRestarts": (
        "30m",
        [series("naiad_request_duration_seconds_count", "9 1 9 1 9 1 9 1 9 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1")],
    ),
    "NaiadGpuMemoryNearlyFull": (
        "20m",
        [
            series("nv_gpu_memory_used_bytes", "99x30", f'{IDENTITY},gpu_uuid="GPU-1"'),
            series("nv_gpu_memory_total_bytes", "100x30", f'{IDENTITY},gpu_uuid="GPU-1"'),
        ],
    ),
    "NaiadServicesNotReady": (
        "40m",
        [
            series("naiad_operator_services", "2x60", 'namespace="naiad-system",state="ModelFailed"'),
            series("naiad_operator_services", "5x60", 'namespace="naiad-system",state="Ready"'),
        ],
    ),
    "NaiadOperatorKindNotWatched": ("15m", [series("naiad_operator_unwatched", "1x30", 'namespace="naiad-system",resource="scaledobjects"')]),
    "NaiadModelsFailed": (
        "20m",
        [series("naiad_operator_conditions", "1x60", CONDITION.format("False", "ModelFailed"))],
    ),
    "NaiadUpgradePaused": ("10m", [series("naiad_operator_upgrades", "1x30", 'namespace="naiad-system",state="failed"')]),
    "NaiadOperatorErrors": (
        "30m",
        [series("naiad_operator_reconcile_errors_total", "0+30x60", 'namespace="naiad-system",error="Forbidden"')],
    ),
    "NaiadOperatorBehind": ("10m", [series("naiad_operator_queue_oldest_seconds", "90x30", 'namespace="naiad-system"')]),
    "NaiadOperatorDown": ("15m", [series("naiad_operator_leader", "0x30", 'namespace="naiad-system"')]),
}  # fmt: skip
"""For each alert, when to look and what Prometheus has seen by then."""

HEALTHY = [
    series("nv_inference_request_success", "0+600x60"),
    series("nv_inference_request_failure", "0+0x60", f'{MODEL},reason="BACKEND"'),
    # Clients that disconnect do not count as failures of the service.
    series("nv_inference_request_failure", "0+600x60", f'{MODEL},reason="CANCELED"'),
    series("nv_inference_queue_duration_us", "0+600000x60"),
    series("nv_inference_pending_request_count", "4x60"),
    series("naiad_request_duration_seconds_bucket", "0+600x60", f'{MODEL},le="0.1"'),
    series("naiad_request_duration_seconds_bucket", "0+600x60", f'{MODEL},le="+Inf"'),
    series("naiad_request_duration_seconds_count", "0+600x60"),
    series("up", "1x60", IDENTITY),
    series("nv_gpu_memory_used_bytes", "50x60", f'{IDENTITY},gpu_uuid="GPU-1"'),
    series("nv_gpu_memory_total_bytes", "100x60", f'{IDENTITY},gpu_uuid="GPU-1"'),
    series("naiad_operator_services", "5x60", 'namespace="naiad-system",state="Ready"'),
    series("naiad_operator_services", "1x60", 'namespace="naiad-system",state="Suspended"'),
    series("naiad_operator_services", "1x60", 'namespace="naiad-system",state="SchedulingGated"'),
    series("naiad_operator_conditions", "5x60", CONDITION.format("True", "Loaded")),
    series("naiad_operator_conditions", "1x60", CONDITION.format("False", "Loading")),
    series("naiad_operator_reconcile_errors_total", "1x60", 'namespace="naiad-system",error="Conflict"'),
    series("naiad_operator_queue_oldest_seconds", "0x60", 'namespace="naiad-system"'),
    series("naiad_operator_leader", "1x60", 'namespace="naiad-system"'),
    # A pod that was started again once, with four models: each has counters of its own.
    *(
        series("naiad_request_duration_seconds_count", "9x40 1x20", f'{IDENTITY.replace("demo-1", "demo-2")},model="{model}",version="1"')
        for model in "abcd"
    ),
    # A service without traffic.
    series("nv_inference_request_success", "0x60", 'namespace="models",inference_service="idle",pod="idle-1",model="m",version="1"'),
    series("nv_inference_queue_duration_us", "0x60", 'namespace="models",inference_service="idle",pod="idle-1",model="m",version="1"'),
    series("nv_inference_pending_request_count", "0x60", 'namespace="models",inference_service="idle",pod="idle-1",model="m",version="1"'),
]  # fmt: skip


def promtool(*arguments: str) -> str:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def rule_file(folder: pathlib.Path) -> pathlib.Path:
    """The groups alone, which is what Prometheus reads."""
    path = folder / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": files.ALERTS["spec"]["groups"]}))
    return path


def run_test(folder: pathlib.Path, *tests: dict[str, typing.Any]) -> str:
    path = folder / "test.yaml"
    body = {
        "rule_files": [str(rule_file(folder))],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", **test} for test in tests],
    }
    path.write_text(yaml.safe_dump(body))
    return promtool("test", "rules", str(path))


def test_the_rules_parse(tmp_path: pathlib.Path) -> None:
    assert promtool("check", "rules", str(rule_file(tmp_path))) == ""


def test_every_query_of_the_dashboard_parses(tmp_path: pathlib.Path) -> None:
    queries = [
        target["expr"].replace("$__rate_interval", "5m").replace("$", "")
        for panel in files.DASHBOARD["panels"]
        for target in panel.get("targets", ())
    ]
    rules = [
        {"record": f"dashboard:{number}", "expr": query} for number, query in enumerate(queries)
    ]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert promtool("check", "rules", str(path)) == ""
    path.write_text(
        yaml.safe_dump({"groups": [{"name": "bad", "rules": [{"record": "a", "expr": "sum(("}]}]})
    )
    assert "parse error" in promtool("check", "rules", str(path))


def test_every_alert_has_a_case() -> None:
    assert {rule["alert"] for rule in files.RULES} == FIRES.keys()


def silent(alert: str, when: str) -> dict[str, typing.Any]:
    """That an alert does not fire; where it does, promtool prints it."""
    return {"eval_time": when, "alertname": alert, "exp_alerts": []}


@pytest.fixture(scope="module")
def fired(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What promtool says of all alerts, each on what should make it fire."""
    tests = [
        {"input_series": seen, "alert_rule_test": [silent(alert, when)]}
        for alert, (when, seen) in FIRES.items()
    ]
    return run_test(tmp_path_factory.mktemp("fired"), *tests)


@pytest.mark.parametrize("alert", FIRES)
def test_an_alert_fires(alert: str, fired: str) -> None:
    assert f'alertname="{alert}"' in fired


def test_every_alert_is_silent_while_all_is_well(tmp_path: pathlib.Path) -> None:
    rules = [silent(alert, "50m") for alert in FIRES]
    assert run_test(tmp_path, {"input_series": HEALTHY, "alert_rule_test": rules}) == ""


ADAPTER_CASES: dict[str, tuple[list[dict[str, str]], float]] = {
    "one model is busy and one is idle": (
        [
            series("nv_inference_queue_duration_us", "0+300000x10"),
            series("nv_inference_request_success", "0+60x10"),
            series(
                "nv_inference_queue_duration_us", "0x10", f'{IDENTITY},model="idle",version="1"'
            ),
            series("nv_inference_request_success", "0x10", f'{IDENTITY},model="idle",version="1"'),
        ],
        5000.0,
    ),
    "without traffic": (
        [
            series("nv_inference_queue_duration_us", "0x10"),
            series("nv_inference_request_success", "0x10"),
        ],
        0.0,
    ),
    "the container was started again": (
        [
            series(
                "nv_inference_queue_duration_us",
                "0 300000 600000 900000 1200000 1500000 0 300000 600000 900000 1200000",
            ),
            series("nv_inference_request_success", "0 60 120 180 240 300 0 60 120 180 240"),
        ],
        5000.0,
    ),
}


@pytest.mark.parametrize("case", ADAPTER_CASES)
def test_the_adapters_average_is_right_when(case: str, tmp_path: pathlib.Path) -> None:
    seen, average = ADAPTER_CASES[case]
    query = files.ADAPTER["rules"]["custom"][0]["metricsQuery"]
    query = query.replace("<<.LabelMatchers>>", 'namespace="models",pod=~"demo-1"')
    query = query.replace("<<.GroupBy>>", "pod")
    sample = {"labels": '{pod="demo-1"}', "value": average}
    test = {"expr": query, "eval_time": "8m", "exp_samples": [sample]}
    assert run_test(tmp_path, {"input_series": seen, "promql_expr_test": [test]}) == ""
