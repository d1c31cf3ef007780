"""An output that is an input in a file which the worker shares with the server is not copied, unless the model still refers to it."""

from typing import Any

import numpy as np
import pytest

from naiad.core import datatypes
from naiad.core.inference import Inference
from naiad.core.tensor import Tensor
from naiad.hosts.host import BatchOutcome
from naiad.hosts.unpacking import tensors_of
from naiad.tensors.shared_pool import SharedPool
from naiad.tensors.shared_slots import SHARED, Place
from tests.server.backends.configs import inference, spec, tensor
from tests.server.hosts.process.workers import SAME, Hosts

WIDTH = 1 << 14
BYTES = 4 * WIDTH
WIDE: dict[str, Any] = {"outputs": [spec("OUT", datatypes.FP32, (-1,))]}
TWO: dict[str, Any] = {
    "inputs": [spec(name, datatypes.FP32, (-1,)) for name in ("A", "B")],
    "outputs": [spec(name, datatypes.FP32, (-1,)) for name in ("OUT", "MORE")],
}

KEEPS = """
kept = []

def execute(self, requests):
    responses = same(requests)
    for array in self.kept:
        array[:] = -1
    self.kept[:] = [{kept} for each in requests]
    return responses
"""
"""It refers to its inputs until the next batch, and writes over them then."""

CHANGES = """
def execute(self, requests):
    for each in requests:
        each.inputs()[0].as_numpy()[:] += 1
    return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", each.inputs()[0].as_numpy().reshape(1, -1)[:, :])]) for each in requests]
"""

TURNS = """
def execute(self, requests):
    arrays = [[tensor.as_numpy() for tensor in each.inputs()] for each in requests]
    return [
        pb_utils.InferenceResponse([pb_utils.Tensor("OUT", b), pb_utils.Tensor("MORE", {more})]) for a, b in arrays
    ]
"""


def shared(pool: SharedPool, *numbers: float, names: tuple[str, ...] = ("IN",)) -> Inference:
    """A request with tensors of equal numbers, all of them in one file that workers can have."""
    lease = pool.take(len(numbers) * BYTES)
    assert lease is not None
    found: list[Tensor] = []
    for at, (name, number) in enumerate(zip(names, numbers, strict=True)):
        array: np.ndarray[Any, Any] = np.ndarray((1, WIDTH), np.float32, lease, at * BYTES)
        array[:] = number
        found.append(tensor(name, array))
    return inference(*found)


def outputs_of(outcome: BatchOutcome) -> list[list[Any]]:
    assert outcome.execution is not None, outcome.error
    return [
        [output.array for output in each.outputs]
        for each in outcome.execution.responses
        if each is not None
    ]


def is_input(array: Any, request: Inference, which: int = 0) -> bool:
    return np.shares_memory(array, request.request.inputs[which].array)


async def test_an_input_that_is_returned_is_not_copied(hosts: Hosts) -> None:
    hosted, pool = await hosts.start(SAME, **WIDE), SharedPool()
    for turn in range(3):
        batch = [shared(pool, turn), shared(pool, 10 + turn)]
        (first,), (second,) = outputs_of(await hosted.run(*batch))
        assert is_input(first, batch[0])
        assert is_input(second, batch[1])
        assert (first == turn).all()
        assert (second == 10 + turn).all()
        assert first.shape == (1, WIDTH)


async def test_one_that_the_model_has_changed_in_place_is_returned_as_it_is_then(hosts: Hosts) -> None:  # fmt: skip
    hosted = await hosts.start(CHANGES, **WIDE)
    request = shared(SharedPool(), 4)
    ((found,),) = outputs_of(await hosted.run(request))
    assert is_input(found, request)
    assert (found == 5).all()


@pytest.mark.parametrize(
    "kept",
    [
        "each.inputs()[0].as_numpy()",
        "each.inputs()[0].as_numpy()[:, 1:]",
        "np.frombuffer(memoryview(each.inputs()[0].as_numpy()), np.float32)",
    ],
)
async def test_one_to_which_the_model_still_refers_is_copied(hosts: Hosts, kept: str) -> None:
    hosted, pool = await hosts.start(KEEPS.format(kept=kept), **WIDE), SharedPool()
    first = shared(pool, 1)
    ((found,),) = outputs_of(await hosted.run(first))
    assert not is_input(found, first)
    await hosted.run(shared(pool, 2))
    assert (found == 1).all()


async def test_one_whose_request_or_tensor_the_model_keeps_is_copied(hosts: Hosts) -> None:
    for kept in ("each", "each.inputs()[0]"):
        code = KEEPS.format(kept=kept).replace("array[:] = -1", "pass")
        hosted, request = await hosts.start(code, **WIDE), shared(SharedPool(), 1)
        ((found,),) = outputs_of(await hosted.run(request))
        assert not is_input(found, request)
        assert (found == 1).all()


async def test_the_other_inputs_in_the_same_file_do_not_matter(hosts: Hosts) -> None:
    hosted = await hosts.start(TURNS.format(more="a"), **TWO)
    request = shared(SharedPool(), 1, 2, names=("A", "B"))
    # The outputs are two views of the file: each is one more reference to it for the other.
    ((out, more),) = outputs_of(await hosted.run(request))
    assert (out == 2).all()
    assert (more == 1).all()
    assert is_input(out, request, 1)
    assert is_input(more, request, 0)


@pytest.mark.parametrize("more", ["b", "b[:, 1:]", "np.ones((1, 3), np.float32)"])
async def test_what_is_returned_twice_or_in_part_is_right(hosts: Hosts, more: str) -> None:
    hosted = await hosts.start(TURNS.format(more=more), **TWO)
    request = shared(SharedPool(), 1, 2, names=("A", "B"))
    ((out, other),) = outputs_of(await hosted.run(request))
    assert (out == 2).all()
    assert (other == (1 if "ones" in more else 2)).all()


def test_an_output_that_is_not_in_a_shared_file_is_refused() -> None:
    request = inference(tensor("IN", np.zeros((1, WIDTH), np.float32)))
    resolved = ("OUT", datatypes.FP32, (1, WIDTH), (1, WIDTH), SHARED)
    for which in (0, 1):
        descriptor = Place((1, WIDTH), which, 0).descriptor
        with pytest.raises(ValueError, match=f"input {which} with {BYTES} bytes as an output"):
            tensors_of(descriptor, ((), [(resolved, 0, len(descriptor))]), None, request)
