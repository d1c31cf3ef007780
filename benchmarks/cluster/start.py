"""How long the cluster takes to start and to end, and the demo until its first answer; with programs, base image and wheels in the cache."""

import pathlib
import shutil
import time
from collections.abc import Callable

from benchmarks.cluster.report import Result
from e2e import demo
from e2e.cluster.cluster import Cluster
from e2e.imagebuild.build import Images

Say = Callable[[str], None]


def measure(folder: pathlib.Path, say: Say) -> list[Result]:
    """Starts the demo from nothing twice, and leaves it running.

    Args:
        folder: for the images; emptied first.
        say: called with each step that is done.
    """
    with Images(demo.ROOT, folder, say) as images:
        images.prepare()  # into the caches outside of the folder
    shutil.rmtree(folder, ignore_errors=True)
    cluster = Cluster()
    cluster.down()
    ready, first = _demo(cluster, folder, say)
    say(f"demo with images built again: {first:.1f} s")
    ended = [_timed(cluster.down)]
    again_ready, again_first = _demo(cluster, folder, say)
    say(f"demo with images of before: {again_first:.1f} s")
    second = _timed(lambda: Cluster().up())
    whole = _timed(lambda: demo.first_answer(cluster, folder, lambda _: None))
    say(f"the demo on the running cluster: {whole:.1f} s")
    return [
        Result("from nothing until both nodes are Ready", (ready, again_ready), bound=10),
        Result("the demo's first answer from nothing, images built again", (first,), bound=90),
        Result("the same, sources not changed", (again_first,), bound=90),
        Result("a second start of the running cluster", (second,), bound=5),
        Result("the whole demo again on the running cluster", (whole,)),
        Result("the cluster's end, with everything on it", tuple(ended), bound=5),
    ]


def _demo(cluster: Cluster, folder: pathlib.Path, say: Say) -> tuple[float, float]:
    """The seconds until the nodes are Ready, and until the first answer."""
    started = time.monotonic()
    cluster.up()
    ready = time.monotonic() - started
    say(f"both nodes Ready: {ready:.1f} s")
    demo.first_answer(cluster, folder, say)
    return ready, time.monotonic() - started


def _timed(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started
