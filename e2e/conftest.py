"""Fixtures of the stories. They run in the cluster's network (`make e2e`), with KUBECONFIG set, so the same tests run on a cluster of yours."""

import itertools
import os
import pathlib
import re
from collections.abc import Generator, Iterator

import pytest

from e2e import failure, services
from e2e.addons.target import Target
from e2e.cluster.cluster import Cluster
from e2e.kubernetes import Kubernetes
from e2e.registry_cluster import LABEL, LABEL_VALUE, StoriesPod, in_pod

ROOT = pathlib.Path(__file__).resolve().parents[1]
_NUMBERS = itertools.count(1)
_NO_FILE = re.compile(r"[^\w.-]+")

_namespaces: list[str] = []
"""Those of the story that runs."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A story may take minutes; what waits in it ends by itself and says what it waited for."""
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The cluster of this project, for stories that end nodes or pull cables; skipped on a cluster of the user's."""
    if in_pod():
        pytest.skip("only on this project's own cluster: it reaches into the nodes")
    return Cluster()


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> Target:
    """Where the stories run, for those that install something: this project's cluster, or one of the user's.

    The former is the same object as `cluster`, which knows the processes of nodes that a story has ended and started again.
    """
    if in_pod():
        return StoriesPod()
    own: Cluster = request.getfixturevalue("cluster")
    return own


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A story that failed shows the state of its namespaces, which still exist; the hook of a fixture's teardown comes too late."""
    report = yield
    if report.failed and report.when != "teardown":
        archive = ROOT / "build" / "e2e" / f"{_NO_FILE.sub('-', item.name)}.tar.gz"
        report.sections.append(("The cluster", failure.describe(_namespaces, archive)))
    return report


@pytest.fixture
def kubernetes() -> Iterator[Kubernetes]:
    """A namespace of its own for a test; deleted afterwards."""
    yield from _namespace()


@pytest.fixture
def neighbour() -> Iterator[Kubernetes]:
    """Another one, for a story of two teams."""
    yield from _namespace()


def _namespace() -> Iterator[Kubernetes]:
    name = f"story-{next(_NUMBERS)}-{os.getpid()}"
    admin = Kubernetes("default")
    admin.run("create", "namespace", name)
    labels = "pod-security.kubernetes.io/enforce=restricted", f"{LABEL}={LABEL_VALUE}"
    admin.run("label", "namespace", name, *labels)
    _namespaces.append(name)
    try:
        yield Kubernetes(name)
        services.end_routes(Kubernetes(name))
    finally:
        _namespaces.remove(name)
        admin.run("delete", "namespace", name, "--wait=false")
