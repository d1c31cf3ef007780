"""Tensors on a GPU go from model to model as they are where both are on it, else through the host's memory once; nothing leaks. The GPUs are made up."""

import collections.abc
import concurrent.futures
import os
import signal

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.utils

from tests.reference.process import ServerProcess
from tests.support import cuda
from tests.support.waiting import wait_until
from tests.wire.models.device_models import ask, serving

Served = tuple[ServerProcess, cuda.State]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[Served]:
    explicit = ("--model-control-mode=explicit", "--load-model=*")
    with serving(tmp_path_factory.mktemp("gpus"), *explicit) as found:
        yield found


def only_pools(state: cuda.State) -> bool:
    """Whether no tensor is kept: of allocations only the producer's pool is left."""
    return state.live(cuda.ALLOCATED) == [1 << 16]


def test_an_output_on_a_gpu_comes_to_a_client(served: Served) -> None:
    server, state = served
    assert ask(server, "producer", [1, 2]) == ([2, 4], "")
    assert ask(server, "host", [1, 2]) == ([2, 3], "cpu")
    wait_until(lambda: only_pools(state))


@pytest.mark.parametrize(
    ("second", "where"), [("same_gpu", "gpu 0"), ("other_gpu", "cpu"), ("host", "cpu")]
)
def test_an_ensemble_passes_it_on(served: Served, second: str, where: str) -> None:
    server, state = served
    opened, copied = state.counts.opens, state.counts.copied
    for each in range(3):
        assert ask(server, f"to_{second}", [each, 2]) == ([each * 2 + 1, 5], where)
    wait_until(lambda: only_pools(state))
    assert state.counts.opens - opened == (second == "same_gpu"), "an open allocation is used again"
    # Both models make 8 bytes there, and both are read once: those between them by the second model, or by the worker that sends them.
    assert state.counts.copied - copied == 3 * 4 * 8


@pytest.mark.parametrize(
    ("model", "memory", "where"),
    [
        ("same_gpu", "", "gpu 0, gpu 0"),
        ("same_gpu", "gpu", "gpu 0, gpu 0"),
        ("same_gpu", "cpu", "gpu 0, cpu"),
        ("host", "", "cpu, gpu 0"),
        ("host", "cpu", "cpu, cpu"),
        ("other_gpu", "", "cpu, cpu"),
        ("other_gpu", "gpu", "cpu, gpu 0"),
    ],
)
def test_a_call_between_models(served: Served, model: str, memory: str, where: str) -> None:
    server, state = served
    for _ in range(2):
        assert ask(server, "caller", [1, 2], MODEL=model, MEMORY=memory) == ([2, 3], where)
    wait_until(lambda: only_pools(state))


def test_a_tensor_that_cannot_be_opened_fails_its_request_alone(served: Served) -> None:
    server, state = served
    ask(server, "to_same_gpu", [1])
    state.fail("cudaIpcGetMemHandle", 2)
    with pytest.raises(tritonclient.utils.InferenceServerException, match="cudaIpcGetMemHandle"):
        ask(server, "to_same_gpu", [1])
    state.fail("", 0)
    assert ask(server, "to_same_gpu", [1]) == ([3], "gpu 0")
    wait_until(lambda: only_pools(state))


def test_many_tensors_at_once_leave_nothing_behind(served: Served) -> None:
    server, state = served
    opened = state.counts.opens

    def both(number: int) -> None:
        assert ask(server, "to_same_gpu", [number]) == ([2 * number + 1], "gpu 0")
        assert ask(server, "caller", [number], MODEL="same_gpu", MEMORY="")[0] == [number + 1]

    with concurrent.futures.ThreadPoolExecutor(8) as clients:
        list(clients.map(both, range(40)))
    wait_until(lambda: only_pools(state))
    assert state.counts.opens - opened <= 2 * 40 + 1
    assert max(state.live(cuda.OPENED)) <= 1 << 16


@pytest.mark.parametrize("end", ["kill", "unload", "drop"])
def test_a_receiver_that_ends_returns_what_it_kept(served: Served, end: str) -> None:
    server, state = served
    for _ in range(3):
        _, said = ask(server, "caller", [5], MODEL="holder", MEMORY="")
    pid = int(said.partition(",")[0])
    assert sorted(state.live(cuda.ALLOCATED)) == [4, 4, 4, 1 << 16]
    if end == "kill":
        os.kill(pid, signal.SIGKILL)
    elif end == "unload":
        with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
            client.unload_model("holder")
            wait_until(lambda: only_pools(state))
            client.load_model("holder")
    else:
        ask(server, "caller", [0], MODEL="holder", MEMORY="")
    wait_until(lambda: only_pools(state))
    wait_until(lambda: holds(server, 0))


def holds(server: ServerProcess, first: float) -> bool:
    """Whether the model serves, once its worker is restarted."""
    try:
        ask(server, "caller", [first], MODEL="holder", MEMORY="")
    except tritonclient.utils.InferenceServerException:
        return False
    return True


def test_what_an_owner_that_ends_has_lent_is_used_to_its_end_and_then_closed(
    served: Served,
) -> None:
    server, state = served
    ask(server, "caller", [7, 7, 7], MODEL="holder", MEMORY="")
    assert state.live(cuda.OPENED).count(12) == 1
    _, pid = ask(server, "caller", [1], MODEL="pid", MEMORY="")
    os.kill(int(pid), signal.SIGKILL)
    wait_until(lambda: only_pools(state))
    assert state.live(cuda.OPENED).count(12) == 1
    wait_until(lambda: holds(server, 0))  # which reads what it kept
    wait_until(lambda: 12 not in state.live(cuda.OPENED))


def test_a_client_that_has_gone_leaves_nothing_behind(served: Served) -> None:
    server, state = served
    x = tritonclient.grpc.InferInput("X", [1], "FP32")
    x.set_data_from_numpy(np.array([-1], np.float32))
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        for _ in range(3):
            with pytest.raises(tritonclient.utils.InferenceServerException, match="Deadline"):
                client.infer("to_holder", [x], client_timeout=0.1)
    ask(server, "to_holder", [0])
    wait_until(lambda: only_pools(state))
