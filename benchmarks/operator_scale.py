"""The operator at 10, 100 and 1,000 services, against a real API server: `make bench-operator`.

One fresh control plane a size. What is measured, and where it is counted:

* from the first of n creations (copies of `examples/inferenceservice.yaml`) until every child of every service exists (seen by watches of the benchmark's own);
* until rest: Kubernetes' controllers have replaced or made the pods of every Deployment, and since then the operator has not written for five seconds. (Until
  then it has news to write into a status. Its silence alone does not show rest: on a busy machine the controllers pause for longer than that);
* the operator's writes in a minute in which nothing happens, from the API server's audit log;
* one edit among n services, until it is in the Deployment (a watch again), one at a time, p50 and p99;
* the operator's resident memory after all that;
* a restart: from the start of the process until every service was looked at, and its writes;
* the operator's requests per service and hour at rest, from the audit log, while it reconciles every service once in the quiet minute (by default it does
  that every ten minutes); without the Lease, watches and discovery, whose number does not depend on the number of services;
* one new service after another beside those, each until all its children exist, p50 and p99.

etcd, the API server and its controllers share the machine's cores with the operator: they are part of what is measured, as they
are in any cluster. The controllers run at Kubernetes' own default rates. The cluster has no nodes, so pods stay pending and no service becomes ready; that is the same for every size.

With `--write` the table goes into `docs/operator-inside.md`, with what each value should be, and the results and their plot into `benchmarks/results`.
"""

import argparse
import collections.abc
import concurrent.futures
import contextlib
import copy
import dataclasses
import functools
import json
import pathlib
import signal
import statistics
import sys
import tempfile
import threading
import time

import httpx
import psutil
import yaml

from benchmarks.operator_report import Result, in_a_line, table, written_down
from benchmarks.report import put_into
from tests.apiserver import control_plane
from tests.apiserver.client import Kubectl, Object, path_of
from tests.apiserver.objects import definitions, make_namespace
from tests.apiserver.operator import OperatorProcess
from tests.toolchain.programs import Programs, find

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_RESULTS = _ROOT / "benchmarks" / "results"
_PAGE = _ROOT / "docs" / "operator-inside.md"
SIZES = (10, 100, 1000)
_EXAMPLE = _ROOT / "examples" / "inferenceservice.yaml"
_PLAIN = ("Deployment", "Service", "PodDisruptionBudget")
_REACHED = ("Ingress", "NetworkPolicy")
"""The children of the example, and those of one that is reached from outside beside them."""
_NAMESPACE = "bench"
_QUIET_S = 60.0
_NEW_KIND_S = 2.5
"""So long after a CustomResourceDefinition was made an API server answers: before, it holds back each creation for two seconds."""
_WATCH_AGAIN_S = 0.1
_EDITS = 100
_NEW = 100
_GIVE_UP_S = 600.0


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


class Watcher:
    """Counts objects and their changes, by a watch of its own in a thread, until it is stopped.

    One that went on when its control plane is gone would ask again and again, and take the processor from what is measured next.
    """

    def __init__(self, kubectl: Kubectl, kind: str, namespace: str) -> None:
        self.names: set[str] = set()
        self.rolling: set[str] = set()
        """Those that Kubernetes' controllers still work on; of other kinds than Deployments none."""
        self._heard: dict[str, tuple[str, threading.Event]] = {}
        self._kubectl, self._path = kubectl, path_of(kind, namespace)
        self._stopped = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def expect(self, name: str, text: str) -> threading.Event:
        """Set once an object's newest version holds a text."""
        event = threading.Event()
        self._heard[name] = (text, event)
        return event

    def stop(self) -> None:
        """Asks no more, once the present watch ends."""
        self._stopped.set()

    def _run(self) -> None:
        version = "0"
        while not self._stopped.wait(_WATCH_AGAIN_S):
            query = f"?watch=true&resourceVersion={version}&timeoutSeconds=600"
            with (
                contextlib.suppress(httpx.HTTPError),
                self._kubectl.lines(self._path + query) as lines,
            ):
                for line in lines:
                    version = self._take(line) or version

    def _take(self, line: str) -> str:
        event = json.loads(line)
        metadata = event["object"].get("metadata") or {}
        name = metadata.get("name") or ""
        if name:
            self.names.add(name)
            (self.rolling.add if is_rolling(event["object"]) else self.rolling.discard)(name)
        text, heard = self._heard.get(name, ("", None))
        if heard is not None and text in line:
            heard.set()
        version: str = metadata.get("resourceVersion") or ""
        return version


def is_rolling(resource: Object) -> bool:
    """Whether it is a Deployment whose controllers have not done all that they can do without nodes.

    They replace pods one by one, and wait for the first new one to become ready, which it does not.
    """
    if resource["kind"] != "Deployment":
        return False
    spec, status = resource["spec"], resource.get("status") or {}
    seen = (status.get("observedGeneration") or 0) >= resource["metadata"]["generation"]
    return not (
        seen and status.get("replicas") == spec["replicas"] and status.get("updatedReplicas")
    )


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
        settle(plane, deployments)
        all_settled = time.monotonic() - began - _SETTLED_S
        wrote = plane.write_count()
        used = control_plane.cpu_seconds(operator.process.pid)
        kubernetes = sum(plane.cpu_seconds().values())
        time.sleep(quiet)
        in_quiet = plane.write_count() - wrote
        edits = _edit(admin, names, deployments)
        settle(plane, deployments)
        memory = operator.memory_mb()
        operator.stop()
    before = plane.write_count()
    began = time.monotonic()
    with OperatorProcess(config, log=folder / "again.log") as operator:
        operator.wait_ready(seconds=120)
        restart = time.monotonic() - began
        restart_writes = plane.write_count() - before
        restart_memory = operator.memory_mb()
        new = _add(admin, load, watchers)
        operator.stop()
    known = services + _NEW
    with OperatorProcess(
        config, f"--resync-seconds={quiet:g}", log=folder / "at-rest.log"
    ) as operator:
        operator.wait_ready(seconds=120)
        settle(plane, deployments)
        for watcher in watchers.values():
            watcher.stop()
        looked, requests = operator.looks(), plane.requests()
        time.sleep(quiet * _RESYNCED)
        looked, requests = operator.looks() - looked, plane.requests() - requests
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


_SETTLED_S = 5.0
_RESYNCED = 1.2
"""In so many resync periods each service is reconciled at least once: each period varies by up to a tenth."""


def settle(
    plane: control_plane.ControlPlane,
    deployments: Watcher,
    *,
    seconds: float = _SETTLED_S,
    give_up: float = _GIVE_UP_S,
) -> None:
    """Waits until no Deployment is rolling out and the operator has not written since then for some seconds.

    Raises:
        TimeoutError: that did not come.
    """
    count, since = plane.write_count(), time.monotonic()
    started = since
    while time.monotonic() - since < seconds:
        time.sleep(min(0.25, seconds))
        now = plane.write_count()
        if now != count or deployments.rolling:
            count, since = now, time.monotonic()
        if time.monotonic() - started > give_up:
            raise TimeoutError(f"no rest; still rolling out: {sorted(deployments.rolling)[:5]}")


def _until(holds: collections.abc.Callable[[], bool]) -> None:
    deadline = time.monotonic() + _GIVE_UP_S
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


def main(argv: collections.abc.Sequence[str] | None = None) -> None:
    """Measures, prints, and writes the results if asked to; however it ends, it leaves no process."""
    signal.signal(signal.SIGTERM, _end)
    try:
        run(argv)
    finally:
        _end_children()


def run(argv: collections.abc.Sequence[str] | None = None) -> None:
    """The same without an end of processes, which would be those of a test, too."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.operator_scale", description=__doc__
    )
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="services, by commas")
    parser.add_argument(
        "--reached", action="store_true", help="with an Ingress and a NetworkPolicy each"
    )
    parser.add_argument(
        "--quiet", type=float, default=_QUIET_S, help="seconds in which nothing happens"
    )
    parser.add_argument("--write", action="store_true", help="put the table into the docs")
    parser.add_argument("--out", type=pathlib.Path, help="another folder for the results")
    given = parser.parse_args(argv)
    binaries = find(control_plane.PROGRAMS)
    results: list[Result] = []
    for size in (int(part) for part in given.sizes.split(",")):
        load = Load(size, reached=given.reached)
        results.append(measure(load, binaries, quiet=given.quiet))
        print(f"[bench] {in_a_line(results[-1])}", flush=True)
    if given.out or given.write:
        written_down(results, given.out or _RESULTS)
    if given.write:
        put_into(_PAGE, marker="bench-operator", text=table(results))
    print(table(results))


def _end(*_: object) -> None:
    """As Ctrl-C does, SIGTERM leaves by every `with` and `finally` on the way: none of the programs that were started runs on."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + signal.SIGTERM)


def _end_children() -> None:
    """Ends programs that were being started when a signal arrived, which no other code ends."""
    left = psutil.Process().children()
    for child in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    psutil.wait_procs(left, timeout=10)


if __name__ == "__main__":
    main()
