"""Measures the operator with one number of services, on a control plane of its own; `run` says what is measured and how."""

import collections.abc
import concurrent.futures
import copy
import dataclasses
import functools
import pathlib
import statistics
import tempfile
import threading
import time

import yaml

from benchmarks.operator.report import Result
from benchmarks.operator.watcher import GIVE_UP_S, SETTLED_S, Watcher, settle
from tests.apiserver import control_plane
from tests.apiserver.client import Kubectl, Object
from tests.apiserver.objects import definitions, make_namespace
from tests.apiserver.operator import OperatorProcess
from tests.toolchain.programs import Programs

_EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "inferenceservice.yaml"
_PLAIN = ("Deployment", "Service", "PodDisruptionBudget")
_REACHED = ("Ingress", "NetworkPolicy")
"""The children of the example, and those of one that is reached from outside beside them."""
_NAMESPACE = "bench"
_NEW_KIND_S = 2.5
"""So long after a CustomResourceDefinition was made an API server answers: before, it holds back each creation for two seconds."""
_EDITS = 100
_NEW = 100


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """What is created.

    Attributes:
        services: how many.
        reached: whether each has an Ingress and a NetworkPolicy too.
    """

    services: int
    reached: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of a service's children."""
        return (*_PLAIN, *_REACHED) if self.reached else _PLAIN


def measure(load: Load, binaries: Programs, *, quiet: float) -> Result:
    """Runs one size on a control plane of its own."""
    with tempfile.TemporaryDirectory(prefix="naiad-bench-") as name:
        folder = pathlib.Path(name)
        plane = control_plane.start(
            folder, binaries, crds=definitions(), autoscaler_sync="15s", manager_rate=20
        )
        try:
            time.sleep(_NEW_KIND_S)
            return _measured(load, plane, folder, quiet=quiet)
        finally:
            plane.stop()


def _measured(
    load: Load, plane: control_plane.ControlPlane, folder: pathlib.Path, *, quiet: float
) -> Result:
    admin = plane.admin()
    admin.create(control_plane.everything_for(control_plane.OPERATOR_USER))
    make_namespace(admin, _NAMESPACE)
    services = load.services
    watchers = {kind: Watcher(plane.admin(), kind, _NAMESPACE) for kind in load.kinds}
    deployments = watchers["Deployment"]
    config = plane.kubeconfig(control_plane.OPERATOR_TOKEN)
    with OperatorProcess(config, log=folder / "operator.log") as operator:
        operator.wait_ready()
        names = [f"service-{number:04d}" for number in range(services)]
        began = time.monotonic()
        _create(plane, names, load)
        _until(lambda: all(len(w.names & set(names)) == services for w in watchers.values()))
        all_children = time.monotonic() - began
        settle(plane.audit, deployments)
        all_settled = time.monotonic() - began - SETTLED_S
        wrote = plane.audit.write_count()
        used = control_plane.cpu_seconds(operator.process.pid)
        kubernetes = sum(plane.cpu_seconds().values())
        time.sleep(quiet)
        in_quiet = plane.audit.write_count() - wrote
        edits = _edit(admin, names, deployments)
        settle(plane.audit, deployments)
        memory = operator.memory_mb()
        operator.stop()
    before = plane.audit.write_count()
    began = time.monotonic()
    with OperatorProcess(config, log=folder / "again.log") as operator:
        operator.wait_ready(seconds=120)
        restart = time.monotonic() - began
        restart_writes = plane.audit.write_count() - before
        restart_memory = operator.memory_mb()
        new = _add(admin, load, watchers)
        operator.stop()
    known = services + _NEW
    with OperatorProcess(
        config, f"--resync-seconds={quiet:g}", log=folder / "at-rest.log"
    ) as operator:
        operator.wait_ready(seconds=120)
        settle(plane.audit, deployments)
        for watcher in watchers.values():
            watcher.stop()
        looked, requests = operator.looks(), plane.audit.requests()
        time.sleep(quiet * _RESYNCED)
        looked, requests = operator.looks() - looked, plane.audit.requests() - requests
        operator.stop()
    if looked < known:
        raise RuntimeError(
            f"only {looked:.0f} of {known} services were reconciled in the quiet time"
        )
    admin.close()
    rates = {
        f"{verb} {resource}": count * 3600 / (quiet * _RESYNCED)
        for (verb, resource), count in sorted(requests.items())
    }
    return Result(
        services=services,
        children=services * len(load.kinds),
        all_children=all_children,
        all_settled=all_settled,
        writes_to_settle=wrote,
        cpu_to_settle=used,
        cpu_of_kubernetes=kubernetes,
        writes_in_a_quiet_minute=in_quiet,
        edit_p50=statistics.median(edits),
        edit_p99=_p99(edits),
        memory=memory,
        restart=restart,
        restart_writes=restart_writes,
        restart_memory=restart_memory,
        requests_at_rest={name: rate / known for name, rate in rates.items() if not _own(name)},
        requests_of_its_own={name: rate for name, rate in rates.items() if _own(name)},
        new_p50=statistics.median(new),
        new_p99=_p99(new),
    )


def _own(request: str) -> bool:
    """Whether an operator sends such requests however many services there are: watches, discovery (/api, /apis), the Lease."""
    return request.startswith("watch ") or " /" in request or request.endswith(" leases")


_RESYNCED = 1.2
"""In so many resync periods each service is reconciled at least once: each period varies by up to a tenth."""


def _until(holds: collections.abc.Callable[[], bool]) -> None:
    deadline = time.monotonic() + GIVE_UP_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError("the children are not all there")
        time.sleep(0.02)


@functools.cache
def _example() -> Object:
    example: Object = yaml.safe_load(_EXAMPLE.read_text(encoding="utf-8"))
    return example


def _service(name: str, load: Load) -> Object:
    """The example under another name. No autoscaler: without a metrics API its controller alone would take a core."""
    service: Object = copy.deepcopy(_example())
    service["metadata"] = {"name": name, "namespace": _NAMESPACE}
    if load.reached:
        service["spec"]["ingress"] = {"enabled": True, "host": f"{name}.example.com"}
        service["spec"]["networkPolicy"] = {"enabled": True}
    return service


def _create(plane: control_plane.ControlPlane, names: list[str], load: Load) -> None:
    given_up = threading.Event()

    def some(part: list[str]) -> None:
        kubectl = plane.admin()
        for name in part:
            if given_up.is_set():
                break
            kubectl.create(_service(name, load))
        kubectl.close()

    parts = [names[start::4] for start in range(4)]
    with concurrent.futures.ThreadPoolExecutor(len(parts)) as threads:
        try:
            for done in [threads.submit(some, part) for part in parts]:
                done.result()
        except BaseException:
            given_up.set()
            raise


def _edit(admin: Kubectl, names: list[str], watcher: Watcher) -> list[float]:
    """Edits one service at a time; the time until each is in its Deployment."""
    times = []
    for number in range(_EDITS):
        name = names[(number * 37) % len(names)]
        mark = f"edit-{number}-of-the-benchmark"
        heard = watcher.expect(name, mark)
        body = {"spec": {"predictor": {"env": [{"name": "MARK", "value": mark}]}}}
        began = time.monotonic()
        admin.patch("InferenceService", name, _NAMESPACE, body=body)
        if not heard.wait(60):
            raise TimeoutError(f"the edit of {name} did not reach its Deployment")
        times.append(time.monotonic() - began)
    return times


def _add(
    admin: Kubectl, load: Load, watchers: collections.abc.Mapping[str, Watcher]
) -> list[float]:
    """Makes one new service at a time; the time until each has all its children."""
    times = []
    for number in range(_NEW):
        name = f"new-{number:03d}"
        heard = [watcher.expect(name, name) for watcher in watchers.values()]
        began = time.monotonic()
        admin.create(_service(name, load))
        if not all(event.wait(60) for event in heard):
            raise TimeoutError(f"the children of {name} are not all there")
        times.append(time.monotonic() - began)
    return times


def _p99(times: collections.abc.Collection[float]) -> float:
    return sorted(times)[max(0, round(len(times) * 0.99) - 1)]
