"""TorchScript models through the backend, against torch itself (rows 16.13 to 16.15)."""

import pathlib
from typing import Any, Dict, List, Tuple  # noqa: UP035 - TorchScript knows these

import numpy as np
import pytest
import torch

from naiad.config.model_config import BatchInput, BatchInputKind
from naiad.core import datatypes
from naiad.core.tensor import Tensor, object_array
from naiad.errors import ErrorCode, FailureReason, InferenceError
from tests.frameworks.pytorch.models import SPEC, instance_of, load, save, torch_config
from tests.server.backends.configs import inference, run, spec, tensor, values

FP32 = datatypes.FP32


class Linear(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


class Two(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:  # noqa: UP006
        return a + b, a - b


class Identity(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


LINEAR = torch_config(inputs=[spec("x", FP32, (4,))], outputs=[spec("OUT__0", FP32, (3,))])


def test_a_batch_is_what_torch_gives_for_its_rows(tmp_path: pathlib.Path) -> None:
    instance = instance_of(save(tmp_path, Linear()), LINEAR)
    rows = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)
    first, second = run(
        instance, inference(tensor("x", rows[:2])), inference(tensor("x", rows[2:]))
    )
    with torch.no_grad():
        expected = Linear()(torch.from_numpy(rows)).numpy()
    np.testing.assert_allclose(
        np.concatenate([first.outputs[0].array, second.outputs[0].array]), expected, rtol=1e-6
    )


def test_outputs_come_by_name_as_in_triton(tmp_path: pathlib.Path) -> None:
    config = torch_config(
        inputs=[spec("a", FP32, (1,)), spec("b", FP32, (1,))],
        outputs=[spec("sum__0", FP32, (1,)), spec("difference__1", FP32, (1,))],
    )
    instance = instance_of(save(tmp_path, Two()), config)
    (one,) = run(instance, inference(tensor("a", [[3]], FP32), tensor("b", [[2]], FP32)))
    assert [(output.name, output.array.tolist()) for output in one.outputs] == [("difference__1", [[1.0]]), ("sum__0", [[5.0]])]  # fmt: skip


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("b", "a"), [[1.0]]),
        (("x__1", "y__0"), [[1.0]]),
        (("left", "right"), [[-1.0]]),
    ],
    ids=["arguments", "indexes", "order"],
)
def test_inputs_find_their_arguments(
    tmp_path: pathlib.Path, names: tuple[str, str], expected: list[list[float]]
) -> None:
    config = torch_config(
        inputs=[spec(name, FP32, (1,)) for name in names],
        outputs=[spec("D__1", FP32, (1,)), spec("S__0", FP32, (1,))],
    )
    instance = instance_of(save(tmp_path, Two()), config)
    request = inference(tensor(names[0], [[2.0]], FP32), tensor(names[1], [[3.0]], FP32))
    assert values(run(instance, request)[0]) == {"D__1": expected, "S__0": [[5.0]]}


def test_only_requested_outputs_are_given(tmp_path: pathlib.Path) -> None:
    config = torch_config(
        inputs=[spec("a", FP32, (1,)), spec("b", FP32, (1,))],
        outputs=[spec("S__0", FP32, (1,)), spec("D__1", FP32, (1,))],
    )
    instance = instance_of(save(tmp_path, Two()), config)
    one = tensor("a", [[2.0]], FP32), tensor("b", [[3.0]], FP32)
    alone, both = run(instance, inference(*one, outputs=["D__1"]), inference(*one))
    assert values(alone) == {"D__1": [[-1.0]]}
    assert values(both) == {"S__0": [[5.0]], "D__1": [[-1.0]]}


@pytest.mark.parametrize(
    "datatype",
    [
        datatypes.BOOL, datatypes.UINT8, datatypes.INT8, datatypes.INT16, datatypes.INT32, datatypes.INT64, datatypes.FP16, datatypes.FP32,
        datatypes.FP64, datatypes.BF16,
    ],
    ids=lambda datatype: datatype.name,
)  # fmt: skip
@pytest.mark.parametrize("batched", [True, False])
def test_every_datatype_goes_through(
    tmp_path: pathlib.Path, datatype: datatypes.DataType, *, batched: bool
) -> None:
    dims = (3,) if batched else (2, 3)
    config = torch_config(
        inputs=[spec("x", datatype, dims)],
        outputs=[spec("y", datatype, dims)],
        max_batch_size=8 if batched else 0,
    )
    instance = instance_of(save(tmp_path, Identity()), config)
    given = Tensor("x", datatype, (2, 3), np.array([[0, 1, 2], [3, 1, 0]]).astype(datatype.dtype))
    (response,) = run(instance, inference(given, rows=2 if batched else 1))
    (output,) = response.outputs
    assert output.datatype is datatype
    assert output.array.dtype == datatype.dtype
    assert output.array.tobytes() == given.array.tobytes()


def test_inputs_of_no_elements(tmp_path: pathlib.Path) -> None:
    config = torch_config(inputs=[spec("x", FP32, (-1,))], outputs=[spec("y", FP32, (-1,))])
    instance = instance_of(save(tmp_path, Identity()), config)
    (response,) = run(instance, inference(Tensor("x", FP32, (2, 0), np.zeros((2, 0), np.float32))))
    assert response.outputs[0].shape == (2, 0)


class Upper(torch.nn.Module):
    def forward(self, words: List[str], n: torch.Tensor) -> Tuple[List[str], torch.Tensor]:  # noqa: UP006
        found: List[str] = []  # noqa: UP006
        for word in words:
            found.append(word.upper())  # noqa: PERF401 - TorchScript
        return found, n + len(words)


def test_text_is_a_list(tmp_path: pathlib.Path) -> None:
    config = torch_config(
        inputs=[spec("words", datatypes.BYTES, (1,), reshape=()), spec("n", datatypes.INT64, (1,))],
        outputs=[
            spec("U__0", datatypes.BYTES, (1,), reshape=()),
            spec("N__1", datatypes.INT64, (1,)),
        ],
    )
    instance = instance_of(save(tmp_path, Upper()), config)

    def asked(*words: bytes) -> object:
        texts = Tensor("words", datatypes.BYTES, (len(words),), object_array(list(words)))
        return inference(texts, tensor("n", [[0]] * len(words), datatypes.INT64), rows=len(words))

    one, bad, two = run(instance, asked(b"a"), asked(b"\xff"), asked("ö".encode(), b"c"))  # type: ignore[arg-type]
    assert values(one) == {"U__0": [[b"A"]], "N__1": [[3]]}
    assert values(two) == {"U__0": [["ö".encode()], [b"C"]], "N__1": [[3], [3]]}
    assert bad.error is not None
    assert "element 0 of input 'words' is not UTF-8" in bad.error.message


class ByName(torch.nn.Module):
    def forward(self, tensors: Dict[str, torch.Tensor]) -> torch.Tensor:  # noqa: UP006
        return tensors["a"] * 10 + tensors["b"]


def test_a_dict_takes_all_inputs(tmp_path: pathlib.Path) -> None:
    config = torch_config(
        inputs=[spec("b", FP32, (1,)), spec("a", FP32, (1,))], outputs=[spec("y", FP32, (1,))]
    )
    instance = instance_of(save(tmp_path, ByName()), config)
    request = inference(tensor("b", [[2.0]], FP32), tensor("a", [[1.0]], FP32))
    assert values(run(instance, request)[0]) == {"y": [[12.0]]}


class Writes(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.add_(1)


def test_a_model_that_writes_to_its_input_is_given_a_copy(tmp_path: pathlib.Path) -> None:
    config = torch_config(inputs=[spec("x", FP32, (1,))], outputs=[spec("y", FP32, (1,))])
    instance = instance_of(save(tmp_path, Writes()), config)
    memory = np.zeros((1, 1), np.float32)
    memory.setflags(write=False)
    for _ in range(2):
        assert values(run(instance, inference(Tensor("x", FP32, (1, 1), memory)))[0]) == {
            "y": [[1.0]]
        }


class Counts(torch.nn.Module):
    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen = self.seen + self.weight
        return x * 0 + self.seen


def test_instances_share_weights_and_keep_their_own_state(tmp_path: pathlib.Path) -> None:
    config = torch_config(inputs=[spec("x", FP32, (1,))], outputs=[spec("y", FP32, (1,))])
    loaded = load(save(tmp_path, Counts()), config)
    one, two = loaded.make_instance(SPEC), loaded.make_instance(SPEC)
    request = inference(tensor("x", [[0.0]], FP32))
    assert [values(run(each, request)[0])["y"] for each in (one, one, two)] == [
        [[1.0]],
        [[2.0]],
        [[1.0]],
    ]
    modules: list[Any] = [getattr(each.instance, "_program")._module for each in (one, two)]  # noqa: B009
    assert modules[0].weight.data_ptr() == modules[1].weight.data_ptr()


def test_nothing_is_recorded_for_gradients(tmp_path: pathlib.Path) -> None:
    for mode in ("true", "false"):
        config = torch_config(
            inputs=[spec("x", FP32, (4,))],
            outputs=[spec("OUT__0", FP32, (3,))],
            parameters={"INFERENCE_MODE": mode},
        )
        instance = instance_of(save(tmp_path, Linear()), config)
        assert not run(instance, inference(tensor("x", [[0.0] * 4], FP32)))[0].error


class Raises(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert bool((x > 0).all()), "only positive values"
        return x


def test_a_model_that_raises_fails_the_batch_and_answers_the_next(tmp_path: pathlib.Path) -> None:
    config = torch_config(inputs=[spec("x", FP32, (1,))], outputs=[spec("y", FP32, (1,))])
    instance = instance_of(save(tmp_path, Raises()), config)
    with pytest.raises(InferenceError) as caught:
        run(instance, inference(tensor("x", [[-1.0]], FP32)))
    assert caught.value.message.startswith("PyTorch execute failure: ")
    assert "only positive values" in caught.value.message
    assert caught.value.reason is FailureReason.BACKEND
    assert values(run(instance, inference(tensor("x", [[1.0]], FP32)))[0]) == {"y": [[1.0]]}


class Huge(torch.nn.Module):
    def forward(self, n: torch.Tensor) -> torch.Tensor:
        return torch.zeros([int(n[0])])[:1] + n


def test_a_request_without_enough_memory_fails_alone(tmp_path: pathlib.Path) -> None:
    config = torch_config(
        inputs=[spec("n", datatypes.INT64, (1,))], outputs=[spec("y", FP32, (1,))], max_batch_size=0
    )
    instance = instance_of(save(tmp_path, Huge()), config)
    with pytest.raises(InferenceError, match=r"(?i)memory"):
        run(instance, inference(tensor("n", [1 << 50], datatypes.INT64), rows=1))
    assert values(run(instance, inference(tensor("n", [3], datatypes.INT64), rows=1))[0]) == {
        "y": [3.0]
    }


class Odd(torch.nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind == "scalar":
            return x.sum()
        if self.kind == "int":
            return x.to(torch.int64)
        return x[:1]


@pytest.mark.parametrize(
    ("kind", "said", "code"),
    [
        ("scalar", "output 'y' is a scalar which is not supported.", ErrorCode.INTERNAL),
        (
            "int",
            "configuration expects datatype TYPE_FP32 for output 'y', model provides TYPE_INT64",
            ErrorCode.INVALID_ARG,
        ),
        ("rows", "expected batch size of 2", ErrorCode.INTERNAL),
    ],
)
def test_an_output_that_is_not_what_the_config_says_is_an_error(
    tmp_path: pathlib.Path, kind: str, said: str, code: ErrorCode
) -> None:
    config = torch_config(inputs=[spec("x", FP32, (1,))], outputs=[spec("y", FP32, (1,))])
    instance = instance_of(save(tmp_path, Odd(kind)), config)
    with pytest.raises(InferenceError) as caught:
        run(instance, inference(tensor("x", [[1.0], [2.0]], FP32)))
    assert said in caught.value.message
    assert caught.value.code is code


class Lists(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> List[torch.Tensor]:  # noqa: UP006
        return [x]


def test_a_list_of_tensors_is_refused_as_in_the_reference(tmp_path: pathlib.Path) -> None:
    config = torch_config(inputs=[spec("x", FP32, (1,))], outputs=[spec("y", FP32, (1,))])
    with pytest.raises(
        InferenceError,
        match=r"output must be of type Tensor or List\[str\], received List\[Tensor\]",
    ):
        run(instance_of(save(tmp_path, Lists()), config), inference(tensor("x", [[1.0]], FP32)))


def test_an_output_behind_the_last_is_named(tmp_path: pathlib.Path) -> None:
    config = torch_config(inputs=[spec("x", FP32, (4,))], outputs=[spec("OUT__3", FP32, (3,))])
    instance = instance_of(save(tmp_path, Linear()), config)
    with pytest.raises(
        InferenceError,
        match="The output OUT__3 in the model configuration refers to an output index which doesn't exist",
    ):
        run(instance, inference(tensor("x", [[0.0] * 4], FP32)))


class Number(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n


def test_a_config_of_another_model_is_refused_at_the_load(tmp_path: pathlib.Path) -> None:
    two = torch_config(
        inputs=[spec("x", FP32, (4,)), spec("y", FP32, (4,))], outputs=[spec("z", FP32, (3,))]
    )
    with pytest.raises(InferenceError, match="configuration expects 2 inputs, model provides 1"):
        instance_of(save(tmp_path / "linear", Linear()), two)
    with pytest.raises(InferenceError, match="An input of type 'int' was detected in the model"):
        instance_of(save(tmp_path / "number", Number()), two)


def test_another_file_is_refused_with_the_reason(tmp_path: pathlib.Path) -> None:
    folder = save(tmp_path, Linear())
    path = folder / "1" / "model.pt"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InferenceError, match="is not an archive"):
        instance_of(folder, LINEAR)
    torch.save(Linear().state_dict(), path)
    with pytest.raises(InferenceError, match=r"is a checkpoint of torch\.save"):
        instance_of(folder, LINEAR)
    path.unlink()
    with pytest.raises(InferenceError, match="unable to find") as caught:
        instance_of(folder, LINEAR)
    assert caught.value.code is ErrorCode.UNAVAILABLE


def test_parameters_reach_the_executor(tmp_path: pathlib.Path) -> None:
    config = torch_config(
        inputs=[spec("x", FP32, (4,))],
        outputs=[spec("OUT__0", FP32, (3,))],
        parameters={"DISABLE_OPTIMIZED_EXECUTION": "true"},
    )
    for each, expected in ((config, False), (LINEAR, True)):
        run(instance_of(save(tmp_path, Linear()), each), inference(tensor("x", [[0.0] * 4], FP32)))
        assert torch._C._get_graph_executor_optimize() is expected


class Sums(torch.nn.Module):
    """The sum of each request's values."""

    def forward(self, values: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        sums = torch.cumsum(values, 0)[ends.long() - 1]
        return torch.diff(sums, prepend=torch.zeros(1)).reshape(-1, 1)


def test_requests_of_different_shapes_share_a_batch(tmp_path: pathlib.Path) -> None:
    config = torch_config(
        inputs=[spec("values__0", FP32, (-1,), ragged=True)],
        outputs=[spec("SUM__0", FP32, (1,))],
        batch_inputs=(
            BatchInput(
                kind=BatchInputKind.ACCUMULATED_ELEMENT_COUNT,
                targets=("ends__1",),
                datatype=FP32,
                source="values__0",
            ),
        ),
    )
    instance = instance_of(save(tmp_path, Sums()), config)
    one, two = run(
        instance,
        inference(tensor("values__0", [[1.0, 2.0]], FP32)),
        inference(tensor("values__0", [[3.0, 4.0, 5.0]], FP32)),
    )
    assert values(one) == {"SUM__0": [[3.0]]}
    assert values(two) == {"SUM__0": [[12.0]]}
