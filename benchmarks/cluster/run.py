"""`make bench-cluster`: what a start, a first answer and replaced pods take on the cluster of this project.

It has a cluster of its own in `$NAIAD_CLUSTER` or `/var/tmp/naiad-bench`, which it starts twice and ends. What needs the cluster's network
runs there, as a process of its own: `python -m benchmarks.cluster.run --inside FILE`.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys

from benchmarks.cluster import first_answer, rates, start
from benchmarks.cluster.report import Result, table
from benchmarks.report import put_into
from e2e.cluster import steps
from e2e.cluster.cluster import Cluster
from e2e.cluster.layout import FOLDER_VARIABLE

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_DOCUMENT = _ROOT / "docs" / "cluster.md"
_IMAGES = _ROOT / "build" / "bench-images"
_RUNS = 3


def main() -> int:
    """Measures and prints; the exit status is 1 when a bound does not hold."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster.run", description=__doc__)
    parser.add_argument("--runs", type=int, default=_RUNS, help="of the first answer, the rolling update and the drain")  # fmt: skip
    parser.add_argument("--write", action="store_true", help="put the table into docs/cluster.md")
    parser.add_argument("--inside", type=pathlib.Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        results = [*first_answer.measure(given.runs, _say), *rates.measure(given.runs, _say)]
        given.inside.write_text(json.dumps([dataclasses.asdict(one) for one in results]))
        return 0
    results = _measured(given.runs)
    text = table(results)
    print(f"\n{text}")
    if given.write:
        put_into(_DOCUMENT, marker="bench-cluster", text=text)
    return 0 if all(result.holds for result in results) else 1


def _measured(runs: int) -> list[Result]:
    os.environ.setdefault(FOLDER_VARIABLE, "/var/tmp/naiad-bench")  # noqa: S108 - made by root
    cluster = Cluster()
    try:
        results = start.measure(_IMAGES, steps.printer())
        cluster = Cluster()
        cluster.kubectl("delete", "-f", str(_ROOT / "examples" / "quickstart.yaml"))
        file = cluster.folders.root / "results.json"
        command = cluster.run(sys.executable, "-m", "benchmarks.cluster.run", "--inside", str(file), f"--runs={runs}")  # fmt: skip
        subprocess.run(command, cwd=_ROOT, check=True)  # noqa: S603 - our own words
        return [*results, *(Result(**{**one, "values": tuple(one["values"])}) for one in json.loads(file.read_text()))]  # fmt: skip
    finally:
        Cluster().down()  # as it is now, not as it was before the start
        shutil.rmtree(_IMAGES, ignore_errors=True)


def _say(message: str) -> None:
    print(f"          {message}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
