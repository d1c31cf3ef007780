"""What Prometheus answers KEDA: when a request starts the first pod, and what a service without pods looks like."""

import pathlib
import shutil
import subprocess
import typing

import pytest
import yaml

from naiad_operator.api.parsing import service
from naiad_operator.builders import build
from tests.support import manifests

PROMTOOL = shutil.which("promtool")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        PROMTOOL is None, reason="promtool is not installed: apt-get install prometheus"
    ),
]

Series = dict[str, str]

POD = 'namespace="models",pod="demo-5f6d8b9c7d-abcde"'
NGINX = 'namespace="ingress",pod="controller-1",service="ingress-nginx-controller-metrics"'
TRAEFIK = 'namespace="traefik",pod="traefik-1",service="traefik"'
THERE: dict[str, list[Series]] = {
    "nginx": [{"series": f"nginx_ingress_controller_build_info{{{NGINX}}}", "values": "1x30"}],
    "traefik": [{"series": f"traefik_config_reloads_total{{{TRAEFIK}}}", "values": "3x30"}],
}


def nginx(values: str, *, target: str = NGINX, name: str = "demo", status: str = "503") -> Series:
    prefix = "exported_" if target else ""
    labels = f'{prefix}namespace="models",{prefix}service="{name}",status="{status}"'
    return {"series": f"nginx_ingress_controller_requests{{{','.join(filter(None, (target, labels)))}}}", "values": values}  # fmt: skip


def traefik(values: str, route: str = "models-demo-http") -> Series:
    labels = f'{TRAEFIK},exported_service="{route}@kubernetes",code="503"'
    return {"series": f"traefik_router_requests_total{{{labels}}}", "values": values}


def pods(values: str, up: str = "1x30") -> list[Series]:
    metrics = ("nv_inference_queue_duration_us", "nv_inference_request_success", "nv_inference_pending_request_count")  # fmt: skip
    return [
        {"series": f"up{{{POD}}}", "values": up},
        *({"series": f'{metric}{{{POD},model="m"}}', "values": values} for metric in metrics),
    ]


def query(trigger: int, source: str, **autoscaling: typing.Any) -> str:
    """The query of one of our triggers."""
    fields = {"class": "keda", "minReplicas": 0, "activation": {"source": source}, **autoscaling}
    children = build(service.parse(manifests.resource(autoscaling=fields)), manifests.facts())
    [scaler] = [child for child in children if child["kind"] == "ScaledObject"]
    text: str = scaler["spec"]["triggers"][trigger]["metadata"]["query"]
    return text


CASES: dict[str, tuple[str, str, list[Series], float | None]] = {
    "no request for minutes": ("nginx", "15m", [*THERE["nginx"], nginx("7x30")], 0),
    "no request ever": ("nginx", "15m", THERE["nginx"], 0),
    "the very first request": ("nginx", "10m", [*THERE["nginx"], nginx("_x9 1x20")], 1),
    "a first request of another kind": (
        "nginx",
        "10m",
        [*THERE["nginx"], nginx("7x30"), nginx("_x9 2x20", status="499")],
        2,
    ),
    "a request after a quiet hour": ("nginx", "10m", [*THERE["nginx"], nginx("7x9 8x20")], 1 / 120),
    "a controller whose labels nothing hides": (
        "nginx",
        "10m",
        [*THERE["nginx"], nginx("_x9 1x20", target="")],
        1,
    ),
    "a gRPC request": ("nginx", "10m", [*THERE["nginx"], nginx("_x9 1x20", name="demo-grpc")], 1),
    "a request for another service": (
        "nginx",
        "10m",
        [*THERE["nginx"], nginx("_x9 1x20", name="demo-2"), nginx("_x9 1x20", name="a-demo")],
        0,
    ),
    "a controller that nothing scrapes": ("nginx", "15m", [], None),
    "Traefik's first request": ("traefik", "10m", [*THERE["traefik"], traefik("_x9 1x20")], 1),
    "Traefik's first gRPC request": (
        "traefik",
        "10m",
        [*THERE["traefik"], traefik("_x9 1x20", "models-demo-grpc-grpc")],
        1,
    ),
    "a request for another route": (
        "traefik",
        "10m",
        [*THERE["traefik"], traefik("_x9 1x20", "models-demo-2-http"), traefik("_x9 1x20", "a-models-demo-http")],
        0,
    ),
}  # fmt: skip
"""The controller, when KEDA asks, what Prometheus has seen by then, and the answer; None for an error."""


def check(
    tmp_path: pathlib.Path,
    expression: str,
    when: str,
    seen: list[Series],
    samples: list[dict[str, typing.Any]],
) -> str:
    """Promtool's complaint; "" if the query has just these samples."""
    test = {
        "interval": "1m",
        "input_series": seen,
        "promql_expr_test": [{"expr": expression, "eval_time": when, "exp_samples": samples}],
    }
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [], "tests": [test]}))
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, "test", "rules", str(file)], capture_output=True, text=True, check=False)  # fmt: skip
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize("case", CASES)
def test_requests_start_the_first_pod(tmp_path: pathlib.Path, case: str) -> None:
    source, when, seen, value = CASES[case]
    samples = [] if value is None else [{"labels": "{}", "value": value}]
    assert check(tmp_path, query(-1, source), when, seen, samples) == ""


@pytest.mark.parametrize("trigger", [0, 1], ids=["queue time", "waiting requests"])
@pytest.mark.parametrize(
    ("seen", "value"),
    [([], 0), (pods("0x30"), 0), (pods("_x30"), None), (pods("_x30", up="0x30"), None)],
    ids=["no pod", "an idle pod", "a pod without metrics", "a pod that cannot be scraped"],
)
def test_lost_metrics_are_an_error_and_no_pod_is_not(
    tmp_path: pathlib.Path, trigger: int, seen: list[Series], value: float | None
) -> None:
    """An error leaves the number of pods as it is, and is shown; at zero pods it would be shown for ever."""
    expression = query(trigger, "nginx", queueTimeMs=5, pendingRequests=16)
    samples = [] if value is None else [{"labels": "{}", "value": value}]
    assert check(tmp_path, expression, "15m", seen, samples) == ""
