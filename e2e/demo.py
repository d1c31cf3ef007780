"""`make cluster-demo`: from nothing to the first answer on a real Kubernetes, each step with its seconds, and what to try next."""

import concurrent.futures
import json
import pathlib
import signal
import sys
import time
import tomllib
import typing
from collections.abc import Callable

from e2e.addons import install
from e2e.addons.target import Target
from e2e.cluster import steps
from e2e.cluster.cluster import Cluster
from e2e.cluster.namespaces import ComponentError
from e2e.imagebuild.build import PARTS, Images
from e2e.imagebuild.buildah import BuildahError
from e2e.kubernetes import condition_of

ROOT = pathlib.Path(__file__).resolve().parents[1]
IMAGES = ROOT / "build" / "images"
_READY_S = 120
INTERRUPTED = 128 + signal.SIGINT


def main() -> int:
    """The exit status."""
    step = steps.printer()
    # As by Ctrl-C: what was started and mounted is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _demo(step)
    except (ComponentError, BuildahError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: make cluster-demo goes on from here, make cluster-down removes what was started", file=sys.stderr)  # fmt: skip
        return INTERRUPTED
    return 0


def version() -> str:
    """This tree's version, which is the tag of its images."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def install_all(cluster: Cluster, folder: pathlib.Path, say: Callable[[str], None]) -> None:
    """The add-ons, and meanwhile the images of this tree in `folder`, and then the chart by helm."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        images = pool.submit(import_images, cluster, folder, say)
        install.everything(cluster, say)
        images.result()
    install_chart(cluster)
    say("chart installed")


def import_images(cluster: Cluster, folder: pathlib.Path, say: Callable[[str], None]) -> None:
    """Builds the images of this tree unless that was done before, both at the same time, and imports them."""
    with Images(ROOT, folder, say) as images, concurrent.futures.ThreadPoolExecutor() as pool:
        images.prepare()
        for image in pool.map(images.build, PARTS):
            cluster.import_archive(image.archive)
            say(f"{image.name} {'built' if image.is_new else 'has not changed'}, imported")


def install_chart(cluster: Target, *values: str, options: "typing.Sequence[str]" = ()) -> None:
    """Installs or upgrades this tree's chart, and waits until the operator is ready. What is not given is as usual again.

    Args:
        cluster: the cluster.
        values: like `serverImage=…`.
        options: of helm, for values that are lists or objects.
    """
    chart = str(ROOT / "charts" / "naiad")
    given = ",".join(("ingressNamespace=ingress", *cluster.chart_values, *values))
    install.helm(cluster, "upgrade", "--install", "naiad", chart, "-n", "naiad-system", "--create-namespace", "--wait", "--timeout=2m", "--set", given, *options)  # fmt: skip


def first_answer(cluster: Cluster, folder: pathlib.Path, say: Callable[[str], None]) -> None:
    """Everything from a running cluster on: add-ons, images, chart, the example, and an answer of it over HTTP and gRPC.

    Raises:
        RuntimeError: something failed, or was not in time.
    """
    install_all(cluster, folder, say)
    applied = time.monotonic()
    cluster.kubectl("apply", "-f", str(ROOT / "examples" / "quickstart.yaml"))
    _wait_until_ready(cluster)
    say("the InferenceService is Ready")
    answers = install.run(cluster, [sys.executable, "-m", "e2e.first_answer"])
    say(f"answers over HTTP and gRPC, {time.monotonic() - applied:.1f} s after kubectl apply\n{answers}")  # fmt: skip


def _demo(say: Callable[[str], None]) -> None:
    cluster = Cluster(step=say)
    cluster.up()
    first_answer(cluster, IMAGES, say)
    print(
        """
Try next:
  .venv/bin/python -m e2e.cluster kubectl get infsvc,pods -A
  .venv/bin/python -m e2e.cluster kubectl describe infsvc quickstart
  .venv/bin/python -m e2e.cluster run curl -s http://quickstart.example.com/v2/models/magika
  .venv/bin/python -m e2e.cluster kubectl scale infsvc quickstart --replicas=2
  make cluster-down"""
    )


def _wait_until_ready(cluster: Cluster) -> None:
    deadline = time.monotonic() + _READY_S
    while True:
        text = cluster.kubectl("get", "infsvc", "quickstart", "-o", "json")
        ready = condition_of(json.loads(text), "Ready")
        if ready.get("status") == "True":
            return
        if time.monotonic() > deadline:
            pods = cluster.kubectl("get", "pods,events", "-o", "wide")
            raise ComponentError(f"quickstart is not Ready: {ready.get('message', '')}\n{pods}")
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
