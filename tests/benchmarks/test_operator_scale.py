"""When the operator's benchmark says that nothing happens any more: not while Kubernetes' controllers have yet to replace pods."""

import threading
import time
import typing

import pytest

from benchmarks.operator_scale import Watcher, is_rolling, settle
from tests.apiserver.control_plane import ControlPlane

Object = dict[str, typing.Any]


def deployment(*, replicas: int = 0, updated: int = 0, observed: int = 2) -> Object:
    """One of two pods in its second generation."""
    status = {"observedGeneration": observed, "replicas": replicas, "updatedReplicas": updated}
    return {
        "kind": "Deployment",
        "metadata": {"generation": 2},
        "spec": {"replicas": 2},
        "status": {name: value for name, value in status.items() if value},
    }


@pytest.mark.parametrize(
    ("resource", "rolling"),
    [
        (deployment(observed=0), True),
        (deployment(replicas=2, updated=2, observed=1), True),
        (deployment(replicas=2), True),
        (deployment(replicas=1), True),
        # The first pod is replaced, and does not become ready: the controller waits with the second one.
        (deployment(replicas=2, updated=1), False),
        (deployment(replicas=2, updated=2), False),
        ({"kind": "Service", "metadata": {}, "spec": {}}, False),
    ],
)
def test_a_deployment_rolls_out_until_its_controller_waits_for_pods(
    resource: Object, *, rolling: bool
) -> None:
    assert is_rolling(resource) is rolling


class _Plane:
    def write_count(self) -> int:
        return 7


class _Deployments:
    def __init__(self, *rolling: str) -> None:
        self.rolling = set(rolling)


def settled(deployments: _Deployments, *, give_up: float) -> float:
    """How long it takes until rest; three hundredths of a second without a write are one."""
    plane = typing.cast("ControlPlane", _Plane())
    watcher = typing.cast("Watcher", deployments)
    began = time.monotonic()
    settle(plane, watcher, seconds=0.03, give_up=give_up)
    return time.monotonic() - began


def test_an_operator_that_does_not_write_while_controllers_are_late_is_not_at_rest() -> None:
    deployments = _Deployments("service-0000")
    late = threading.Timer(0.3, deployments.rolling.clear)
    late.start()
    assert settled(deployments, give_up=30) >= 0.3
    late.join()


def test_rollouts_without_end_are_an_error_that_names_them() -> None:
    with pytest.raises(TimeoutError, match="service-0001"):
        settled(_Deployments("service-0001"), give_up=0.1)
