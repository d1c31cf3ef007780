"""Three control planes for the tests of this folder, each as long as they run; a namespace and an operator for each module."""

import contextlib
import functools
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.apiserver import control_plane, foreign
from tests.apiserver.client import Kubectl
from tests.apiserver.control_plane import OPERATOR_TOKEN, OPERATOR_USER, ControlPlane
from tests.apiserver.kubelet import Kubelet
from tests.apiserver.objects import definitions, make_namespace
from tests.apiserver.operator import OperatorProcess, bugs
from tests.apiserver.proxy import Proxy, proxying
from tests.toolchain.programs import BuildError, find

_HERE = Path(__file__).parent

Start = Callable[..., OperatorProcess]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks this folder's tests."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.apiserver)
            # Polls end by themselves and say what they waited for; this is only for what hangs.
            item.add_marker(pytest.mark.timeout(600))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Builds what is missing, or waits for the process that builds it, outside of a test's own time: minutes inside would end the test."""
    if item.get_closest_marker("apiserver"):
        _provide_programs()
    return (yield)


@functools.cache
def _provide_programs() -> None:
    with contextlib.suppress(BuildError):  # the control plane's fixture reports it
        find(control_plane.PROGRAMS)


@pytest.fixture(scope="package")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that knows the resource; the operator's user may do everything in it."""
    folder = tmp_path_factory.mktemp("kubernetes")
    with control_plane.running(folder, crds=definitions()) as started:
        admin = started.admin()
        with control_plane.may_do_everything(OPERATOR_USER, admin):
            Kubelet(admin).register(resources={"nvidia.com/gpu": "8"})
            yield started
        admin.close()


@pytest.fixture(scope="package")
def kubectl(plane: ControlPlane) -> Iterator[Kubectl]:
    """A person with all rights."""
    admin = plane.admin()
    yield admin
    admin.close()


@pytest.fixture(scope="package")
def bare_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with nothing of ours in it but what test_helm leaves: its namespaces, and definitions as Helm keeps them."""
    folder = tmp_path_factory.mktemp("kubernetes")
    with control_plane.running(folder) as started:
        yield started


@pytest.fixture(scope="module")
def own_plane(bare_plane: ControlPlane) -> ControlPlane:
    """The control plane of modules whose operator has no more rights than it is given; a module says which."""
    return bare_plane


@pytest.fixture(scope="module")
def admin(own_plane: ControlPlane) -> Iterator[Kubectl]:
    """A person with all rights there."""
    client = own_plane.admin()
    yield client
    client.close()


@pytest.fixture(scope="package")
def full_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that knows every optional kind beside ours, and grants no rights; modules share it as their `own_plane`."""
    folder = tmp_path_factory.mktemp("kubernetes")
    with control_plane.running(folder, crds=[*foreign.definitions(), *definitions()]) as started:
        yield started


@pytest.fixture(scope="module")
def namespace(request: pytest.FixtureRequest, kubectl: Kubectl) -> str:
    """A namespace of the module's own."""
    return make_namespace(kubectl, request.module.__name__.rpartition(".")[2])


@pytest.fixture(scope="package")
def kubelet(kubectl: Kubectl) -> Kubelet:
    """The node's side of things."""
    return Kubelet(kubectl)


@pytest.fixture(scope="module")
def start(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts operators, which end with the module; none of them may have had a bug."""
    started: list[OperatorProcess] = []

    def one(*arguments: str, kubeconfig: Path | None = None) -> OperatorProcess:
        log = tmp_path_factory.mktemp("operator") / "operator.log"
        config = kubeconfig or plane.kubeconfig(OPERATOR_TOKEN)
        process = OperatorProcess(
            config, "--default-image=registry.example.com/naiad:1", *arguments, log=log
        )
        started.append(process)
        return process

    yield one
    for process in started:
        if process.process.poll() is None:
            assert process.stop() == 0, process.tail()
    found = [bug for process in started for bug in bugs(process.lines())]
    assert not found, "\n".join(found)


@pytest.fixture(scope="module")
def operator(start: Start, namespace: str) -> OperatorProcess:
    """A running operator that watches the module's namespace."""
    return start(f"--watch-namespaces={namespace}").wait_ready()


@pytest.fixture
def proxy(plane: ControlPlane) -> Iterator[Proxy]:
    """A proxy in front of the API server that breaks what a test asks for."""
    with proxying(plane.server, str(plane.certificates.ca)) as running:
        yield running
