"""Which host policy an instance follows, and that its thread or process, and what that starts, runs on its processors."""

import concurrent.futures
import os
import pathlib
import threading

import pytest

from naiad.backends.instance import InstanceSpec
from naiad.config.model_config import InstanceKind
from naiad.engine.instances.host_policies import policy_of
from naiad.hosts.worker import placement
from naiad.hosts.worker.placement import HostPolicy, fault, place, placed

CPU, GPU, MODEL = InstanceKind.CPU, InstanceKind.GPU, InstanceKind.MODEL
NAMED, ON_CPU, ON_GPU, ON_MODEL = (HostPolicy((core,)) for core in range(4))
POLICIES = {"mine": NAMED, "cpu": ON_CPU, "gpu_1": ON_GPU, "model": ON_MODEL}


@pytest.mark.parametrize(
    ("spec", "policy"),
    [
        (InstanceSpec("m_0", CPU, 0), ON_CPU),
        (InstanceSpec("m_0", GPU, 1), ON_GPU),
        (InstanceSpec("m_0", GPU, 0), None),
        (InstanceSpec("m_0", MODEL, 0), ON_MODEL),
        (InstanceSpec("m_0", CPU, 0, host_policy="mine"), NAMED),
        (InstanceSpec("m_0", CPU, 0, host_policy="other"), None),
    ],
)
def test_the_group_names_the_policy_else_the_device_does(
    spec: InstanceSpec, policy: HostPolicy | None
) -> None:
    assert policy_of(spec, POLICIES) == policy


@pytest.fixture
def one_core() -> HostPolicy:
    return HostPolicy((min(os.sched_getaffinity(0)),))


def test_a_thread_and_those_that_it_starts_run_on_the_cores(one_core: HostPolicy) -> None:
    def work() -> list[set[int]]:
        place(one_core)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return [os.sched_getaffinity(0), pool.submit(os.sched_getaffinity, 0).result()]

    found: list[set[int]] = []
    thread = threading.Thread(target=lambda: found.extend(work()))
    thread.start()
    thread.join()
    assert found == [set(one_core.cores)] * 2


def test_a_thread_that_loads_goes_back_to_where_it_was(one_core: HostPolicy) -> None:
    before = os.sched_getaffinity(0)
    with placed(one_core._replace(numa_node=0)) if _may_bind() else placed(one_core):
        assert os.sched_getaffinity(0) == set(one_core.cores)
    assert os.sched_getaffinity(0) == before
    with placed(None):
        assert os.sched_getaffinity(0) == before


def _may_bind() -> bool:
    try:
        with placed(HostPolicy((), 0)):
            return True
    except OSError:
        return False


def test_a_core_that_this_machine_lacks_is_named() -> None:
    assert "cpu-cores names 4000-4001, and this process may run on" in fault(HostPolicy((0, 4000, 4001)))  # fmt: skip
    with pytest.raises(OSError, match="cpu-cores 4000 cannot be used"), placed(HostPolicy((4000,))):
        raise AssertionError("not reached")


def test_a_node_that_this_machine_lacks_is_named(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "_NODES", tmp_path)
    for node in (0, 1):
        (tmp_path / f"node{node}").mkdir()
    assert fault(HostPolicy((), 1)) == ""
    assert fault(HostPolicy((), 2)) == "numa-node is 2, and this machine has 0-1"


def test_memory_that_must_not_be_bound_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_mode: int, _node: int | None) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(placement, "_set_mempolicy", refuse)
    with pytest.raises(OSError, match="capability SYS_NICE, or leave numa-node out"):
        place(HostPolicy((), 0))
