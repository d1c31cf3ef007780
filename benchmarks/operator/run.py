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
import contextlib
import pathlib
import signal
import sys

import psutil

from benchmarks.operator.report import Result, in_a_line, table, written_down
from benchmarks.operator.scale import Load, measure
from benchmarks.report import put_into
from tests.apiserver import control_plane
from tests.toolchain.programs import find

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_RESULTS = _ROOT / "benchmarks" / "results"
_PAGE = _ROOT / "docs" / "operator-inside.md"
SIZES = (10, 100, 1000)
_QUIET_S = 60.0


def main(argv: collections.abc.Sequence[str] | None = None) -> None:
    """Measures, prints, and writes the results if asked to; however it ends, it leaves no process."""
    signal.signal(signal.SIGTERM, _end)
    try:
        run(argv)
    finally:
        _end_children()


def run(argv: collections.abc.Sequence[str] | None = None) -> None:
    """The same without an end of processes, which would be those of a test, too."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operator.run", description=__doc__)
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
