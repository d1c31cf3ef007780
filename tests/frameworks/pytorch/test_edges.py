"""TorchScript at the edges: memory that the model may not write to, no rows, no texts, tensors that are not in one piece, and what torch says of failures."""

import pathlib
from typing import Any, List  # noqa: UP035 - TorchScript knows it

import numpy as np
import pytest
import torch

from naiad.core import datatypes
from naiad.core.tensor import Tensor
from naiad.errors import ErrorCode, InferenceError
from tests.frameworks.pytorch.models import instance_of, save, torch_config
from tests.server.backends.configs import Instance, inference, run, spec, tensor, values

FP32, BYTES = datatypes.FP32, datatypes.BYTES


class Adds(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.add_(1)


class Strided(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x, -x], 1).transpose(0, 1)[0]


class Expanded(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :1].expand(-1, 2)


class Texts(torch.nn.Module):
    def forward(self, x: List[str]) -> List[str]:  # noqa: UP006
        return x


def instance(folder: pathlib.Path, module: torch.nn.Module, dims: int = 2, **more: Any) -> Instance:
    config = torch_config(
        inputs=[spec("x", FP32, (dims,))], outputs=[spec("y", FP32, (dims,))], **more
    )
    return instance_of(save(folder, module), config)


def adjacent(rows: int, columns: int) -> tuple[Any, list[Tensor]]:
    """Memory as of a segment, and tensors that lie one behind the other in it, of so many rows each."""
    memory = np.zeros(2 * rows * columns * 4, np.uint8)
    size = memory.nbytes // 2
    arrays = [np.ndarray((rows, columns), np.float32, memory, at) for at in (0, size)]
    return memory, [Tensor("x", FP32, (rows, columns), array) for array in arrays]


def test_a_model_that_writes_to_its_inputs_writes_to_no_memory_of_requests(
    tmp_path: pathlib.Path,
) -> None:
    adds = instance(tmp_path, Adds(), dims=4096)
    memory, given = adjacent(2, 4096)
    answers = run(adds, *(inference(each) for each in given))
    assert [set(values(each)["y"][0]) for each in answers] == [{1.0}, {1.0}]
    assert not memory.any()


@pytest.mark.parametrize("module", [Strided(), Expanded()], ids=["strided", "expanded"])
def test_results_that_are_not_in_one_piece_are_given_whole(
    tmp_path: pathlib.Path, module: torch.nn.Module
) -> None:
    made = instance(tmp_path, module)
    requests = [inference(tensor("x", [[1, 1]], FP32)), inference(tensor("x", [[2, 2], [3, 3]], FP32))]  # fmt: skip
    assert [values(each)["y"] for each in run(made, *requests)] == [[[1, 1]], [[2, 2], [3, 3]]]


def test_no_rows_give_no_rows(tmp_path: pathlib.Path) -> None:
    made = instance(tmp_path, Strided())
    empty = Tensor("x", FP32, (0, 2), np.zeros((0, 2), np.float32))
    one, two = run(made, inference(empty), inference(tensor("x", [[1, 2]], FP32)))
    assert (values(one)["y"], values(two)["y"]) == ([], [[1, 2]])


@pytest.mark.parametrize("texts", [[], [b""], [b"", "é".encode()]])
def test_empty_texts_go_through(tmp_path: pathlib.Path, texts: list[bytes]) -> None:
    config = torch_config(
        inputs=[spec("x", BYTES, (-1,))], outputs=[spec("y", BYTES, (-1,))], max_batch_size=0
    )
    made = instance_of(save(tmp_path, Texts()), config)
    array = np.array([*texts, None], np.object_)[:-1]
    (answer,) = run(made, inference(Tensor("x", BYTES, array.shape, array), rows=1))
    assert values(answer)["y"] == texts


def test_a_library_of_operators_that_is_not_there_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InferenceError) as caught:
        instance(tmp_path, Adds(), op_library_filenames=("/nonesuch/operators.so",))
    assert caught.value.code is ErrorCode.INVALID_ARG
    assert (
        "unable to load model 'm': custom operator library '/nonesuch/operators.so'"
        in caught.value.message
    )
