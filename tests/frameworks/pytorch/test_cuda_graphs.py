"""CUDA graphs of PyTorch models on a made-up GPU: which batches run in one, that their outputs are right, and that a model without one is served."""

import logging
import pathlib
from typing import Any

import numpy as np
import pytest
import torch
from google.protobuf import text_format

from naiad.backends.pytorch import devices
from naiad.backends.pytorch.devices import CAPTURING
from naiad.config.model_config import DynamicBatching, ModelConfig
from naiad.core import datatypes
from naiad.errors import ErrorCode, InferenceError
from naiad.tensors import copies
from tests.frameworks.pytorch.made_up_cuda import NOT_PERMITTED, SPEC, Gpu, install
from tests.frameworks.pytorch.models import export, load, save, torch_config
from tests.server.backends.configs import Instance, inference, run, spec, tensor, values

FP32 = datatypes.FP32


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    return install(monkeypatch)


class Sums(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(self.layer(x)) + y, x.sum(1, keepdim=True)


class Branches(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if bool((x.sum() > 0).item()):
            x = x + 1
        return x + y, x.sum(1, keepdim=True)


class Counts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.count.add_(1)
        return x + y, (x.sum(1, keepdim=True) * 0) + self.count


class Assigns(torch.nn.Module):
    last: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.last = torch.zeros(1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.last = self.last + 1
        return x + y, (x.sum(1, keepdim=True) * 0) + self.last


CODE = """import torch
class Sums(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
    def forward(self, x, y):
        return torch.relu(self.layer(x)) + y, x.sum(1, keepdim=True)
"""


def config_of(
    graphs: str = "", *, batcher: bool = False, most: int = 8, names: str = "x y a b", **more: Any
) -> ModelConfig:
    x, y, a, b = names.split()
    config = torch_config(
        inputs=[spec(x, FP32, (2,)), spec(y, FP32, (2,))],
        outputs=[spec(a, FP32, (2,)), spec(b, FP32, (1,))],
        max_batch_size=most,
        dynamic_batching=DynamicBatching() if batcher else None,
        **more,
    )
    text = (
        "optimization { cuda { graphs: true " + graphs + " } }" + " dynamic_batching {}" * batcher
    )
    text_format.Merge(text, config.message)
    return config


def module_config(**more: Any) -> ModelConfig:
    parameters = {"TORCH_COMPILE_OPTIONAL_PARAMETERS": '{"disable": true}'}
    return config_of(runtime="model.py", platform="", parameters=parameters, **more)


def script(folder: pathlib.Path, module: torch.nn.Module, config: ModelConfig) -> Instance:
    return load(save(folder, module), config).make_instance(SPEC)


def inside(instance: Instance) -> Any:
    return instance.instance


def graphs_in(instance: Instance) -> Any:
    return inside(instance)._graphs


def rows(count: int, start: int = 0) -> Any:
    return np.arange(start, start + 2 * count, dtype=np.float32).reshape(count, 2)


def ask(instance: Instance, *given: Any, names: str = "x y") -> tuple[Any, list[dict[str, Any]]]:
    """The execution of a batch of requests with these rows, and the outputs of each."""
    x, y = names.split()
    batch = [inference(tensor(x, each), tensor(y, each * 3)) for each in given]
    execution = instance.execute(batch)
    answers = []
    for response in execution.responses:
        assert response is not None
        answers.append(values(response))
    return execution, answers


def expected(module: torch.nn.Module, given: Any) -> list[Any]:
    with torch.no_grad():
        return [
            each.numpy() for each in module(torch.from_numpy(given), torch.from_numpy(given * 3))
        ]


def check(answers: list[dict[str, Any]], module: Any, *given: Any, names: str = "a b") -> None:
    for answer, each in zip(answers, given, strict=True):
        for name, wanted in zip(names.split(), expected(module, each), strict=True):
            np.testing.assert_allclose(answer[name], wanted, rtol=1e-6)


def test_a_batch_runs_in_the_graph_of_just_its_shapes_or_without_one(
    tmp_path: pathlib.Path, gpu: Gpu
) -> None:
    net = Sums().eval()
    config = config_of("graph_spec { batch_size: 2 } graph_spec { batch_size: 4 }")
    instance = script(tmp_path, net, config)
    assert [line for line in gpu.log if "captured" in line] == ["captured 1", "captured 2"]
    kept = []
    for count in (2, 4, 3, 2, 1):
        del gpu.log[:]
        given = rows(count, count)
        execution, answers = ask(instance, given)
        kept.append((given, answers))
        assert execution.padding_rows == 0
        replays = {2: ["replay 2"], 4: ["replay 1"]}
        assert gpu.log == [*replays.get(count, []), "record", "wait", "synchronize"]
    for given, answers in kept:
        check(answers, net, given)
    instance.close()
    assert gpu.log.count("reset") == 2


def test_batches_are_filled_up_to_the_next_larger_graph(tmp_path: pathlib.Path, gpu: Gpu) -> None:
    net = Sums().eval()
    instance = script(tmp_path, net, config_of(batcher=True))
    assert len([line for line in gpu.log if "captured" in line]) == 4
    for counts, padding, graph in (((3,), 1, 2), ((2, 1), 1, 2), ((2, 2, 1), 3, 1), ((1,), 0, 4), ((8,), 0, 1)):  # fmt: skip
        del gpu.log[:]
        given = [rows(count, 7 * at) for at, count in enumerate(counts)]
        execution, answers = ask(instance, *given)
        assert execution.padding_rows == padding
        assert gpu.log[0] == f"replay {graph}"
        check(answers, net, *given)


def test_no_batch_is_filled_where_the_model_wants_none(tmp_path: pathlib.Path, gpu: Gpu) -> None:
    config = config_of(batcher=True, parameters={"naiad.fill_batches": "off"})
    instance = script(tmp_path, Sums(), config)
    del gpu.log[:]
    assert ask(instance, rows(3))[0].padding_rows == 0
    assert not any("replay" in line for line in gpu.log)


def test_the_rows_that_are_added_are_copies_of_the_last_one(
    tmp_path: pathlib.Path, gpu: Gpu
) -> None:
    made = script(tmp_path, Sums(), config_of(batcher=True))
    ask(made, rows(3, 5))
    graph, padding = graphs_in(made).graph_of({"x": (3, 2), "y": (3, 2)})
    assert padding == 1
    assert graph.inputs["x"].tolist() == [[5, 6], [7, 8], [9, 10], [9, 10]]


def test_programs_of_torch_export_and_modules_in_python(tmp_path: pathlib.Path, gpu: Gpu) -> None:
    torch.manual_seed(3)
    net = Sums().eval()
    count = torch.export.Dim("count", min=1, max=8)
    given = (torch.zeros(2, 2), torch.zeros(2, 2))
    folder = export(tmp_path / "e", net, given, dynamic_shapes=({0: count}, {0: count}))
    names = "INPUT__0 INPUT__1 OUTPUT__0 OUTPUT__1"
    exported = load(
        folder, config_of(batcher=True, names=names, platform="torch_aoti")
    ).make_instance(SPEC)
    code = tmp_path / "c" / "1"
    code.mkdir(parents=True)
    (code / "model.py").write_text(CODE)
    torch.save(net.state_dict(), code / "model.pt")
    module = load(tmp_path / "c", module_config(batcher=True)).make_instance(SPEC)
    for instance, inputs, outputs in ((exported, "INPUT__0 INPUT__1", "OUTPUT__0 OUTPUT__1"), (module, "x y", "a b")):  # fmt: skip
        for rows_of in (3, 1, 8):
            del gpu.log[:]
            answers = ask(instance, rows(rows_of), names=inputs)[1]
            assert gpu.log[0].startswith("replay")
            check(answers, net, rows(rows_of), names=outputs)


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (Branches(), "unable to record CUDA graph"),
        (Counts(), "a run of the model changes its buffers"),
        (Assigns(), "a run of the model sets its attribute 'last'"),
    ],
    ids=["branches", "counts", "assigns"],
)
def test_a_model_that_cannot_be_captured_is_served_without_and_one_line_says_why(
    tmp_path: pathlib.Path, gpu: Gpu, caplog: pytest.LogCaptureFixture, module: Any, why: str
) -> None:
    with caplog.at_level(logging.WARNING, "naiad.backends"):
        instance = script(tmp_path, module, config_of())
    (line,) = [each.getMessage() for each in caplog.records if "CUDA graph" in each.getMessage()]
    assert why in line
    assert "instance 'm_0_0' of model 'm' on GPU 0" in line
    assert not CAPTURING.locked()
    assert gpu.capturing is None
    given = rows(2, 1)
    del gpu.log[:]
    for run_number in (1, 2):
        _, (answer,) = ask(instance, given)
        if isinstance(module, Branches):
            check([answer], Branches(), given)
        else:  # what it keeps is as if no run had been tried
            assert answer["b"] == [[run_number], [run_number]]
    assert not any("replay" in line for line in gpu.log)


def test_the_line_has_the_reason_of_the_framework(
    tmp_path: pathlib.Path, gpu: Gpu, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "1").mkdir()
    code = CODE.replace("return", "assert x.sum().item() < 1e9; return")
    (tmp_path / "1" / "model.py").write_text(code)
    instance = load(tmp_path, module_config(batcher=True)).make_instance(SPEC)
    assert NOT_PERMITTED in caplog.text
    assert len(ask(instance, rows(3))[1]) == 1


def test_after_a_capture_that_cannot_be_ended_torch_gives_memory_back_as_before(
    tmp_path: pathlib.Path, gpu: Gpu
) -> None:
    script(tmp_path, Branches(), config_of())
    after = gpu.log[gpu.log.index("_cuda_endAllocateToPool") :]
    assert after == ["_cuda_endAllocateToPool", "_cuda_releasePool", "reset", "cleaned"]


def test_where_memory_runs_out_smaller_graphs_are_captured(
    tmp_path: pathlib.Path, gpu: Gpu, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    zeros = torch.zeros

    def limited(shape: Any, **named: Any) -> Any:
        if shape[0] > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4 TiB")
        return zeros(shape, **named)

    monkeypatch.setattr(torch, "zeros", limited)
    with caplog.at_level(logging.INFO, "naiad.backends"):
        script(tmp_path, Sums(), config_of(batcher=True))
    monkeypatch.undo()
    assert caplog.text.count("CUDA out of memory. Tried to allocate 4 TiB") == 2
    assert len([line for line in gpu.log if "captured" in line]) == 2


def test_what_the_config_rules_out_is_said_without_a_run(
    tmp_path: pathlib.Path, gpu: Gpu, caplog: pytest.LogCaptureFixture
) -> None:
    config = config_of()
    free = torch_config(inputs=[spec("x", FP32, (-1,)), spec("y", FP32, (-1,))], outputs=config.outputs)  # fmt: skip
    text_format.Merge("optimization { cuda { graphs: true } }", free.message)
    instance = script(tmp_path, Sums(), free)
    (line,) = [each.getMessage() for each in caplog.records]
    assert "input 'x' has free dimensions: write its shape into optimization, cuda, graph_spec" in line  # fmt: skip
    assert len(ask(instance, rows(2))[1]) == 1
    with pytest.raises(InferenceError, match="expects 'batch_size' to be >= 1 and <= 8") as refused:
        script(tmp_path, Sums(), config_of("graph_spec { batch_size: 9 }"))
    assert refused.value.code is ErrorCode.INVALID_ARG


def test_an_output_that_stays_on_the_gpu_is_a_copy_which_the_next_run_does_not_change(
    tmp_path: pathlib.Path, gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = Sums().eval()
    made = script(tmp_path, net, config_of(batcher=True))
    device = inside(made)._device
    monkeypatch.setattr(device, "staying", lambda batch, names: set(names))
    kept: list[Any] = []

    def taken(result: Any) -> Any:
        kept.append(result)
        return result.numpy()

    monkeypatch.setattr(copies, "array_of", taken)
    for start in (1, 9):
        ask(made, rows(3, start))
    for at, start in enumerate((1, 9)):
        outputs = [each.tolist() for each in kept[2 * at : 2 * at + 2]]
        check([dict(zip("ab", outputs, strict=True))], net, rows(3, start))


def test_inputs_that_are_on_the_gpu_are_joined_in_the_graph(
    tmp_path: pathlib.Path, gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = Sums().eval()
    made = script(tmp_path, net, config_of(batcher=True))
    monkeypatch.setattr(devices, "is_on_device", lambda given: given.name == "x")
    monkeypatch.setattr(torch, "from_dlpack", lambda given: torch.from_numpy(given.array))
    for given in ([rows(4)], [rows(3, 1)], [rows(2, 1), rows(1, 7)]):
        check(ask(made, *given)[1], net, *given)
    assert graphs_in(made).graph_of({"x": (3, 2), "y": (3, 2)})[0].inputs["x"].tolist()[3] == [7, 8]  # fmt: skip


def test_an_input_without_dimensions_and_bf16_are_gathered_for_a_gpu(
    tmp_path: pathlib.Path, gpu: Gpu
) -> None:
    class Adds(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return (x + y).reshape(1)

    for datatype in (FP32, datatypes.BF16):
        inputs = [spec("x", datatype, ()), spec("y", datatype, ())]
        config = torch_config(inputs=inputs, outputs=[spec("a", datatype, (1,))], max_batch_size=0)
        text_format.Merge("optimization { cuda { graphs: true } }", config.message)
        instance = script(tmp_path / datatype.name, Adds(), config)
        del gpu.log[:]
        given = (tensor("x", 2, datatype), tensor("y", 3, datatype))
        (answer,) = run(instance, inference(*given, rows=1))
        assert values(answer)["a"] == [5]
        assert gpu.log[0] == "replay 1"
