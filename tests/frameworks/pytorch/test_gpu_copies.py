"""How a PyTorch instance copies to and from a made-up GPU: what a batch calls of torch, and in which order."""

import pathlib
from typing import Any

import numpy as np
import pytest
import torch

from naiad.backends.pytorch import devices
from naiad.core import datatypes
from tests.frameworks.pytorch.made_up_cuda import SPEC, Gpu, install
from tests.frameworks.pytorch.models import load, save, torch_config
from tests.server.backends.configs import inference, spec, tensor, values


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor, flag: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 2, ~flag


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    return install(monkeypatch)


@pytest.fixture
def ask(tmp_path: pathlib.Path, gpu: Gpu) -> Any:
    config = torch_config(
        inputs=[spec("x", datatypes.FP32, (-1,)), spec("flag", datatypes.BOOL, (1,))],
        outputs=[spec("OUT__0", datatypes.FP32, (-1,)), spec("OUT__1", datatypes.BOOL, (1,))],
        max_batch_size=16,
    )
    instance = load(save(tmp_path, Twice()), config).make_instance(SPEC)
    gpu.log.clear()
    gpu.entered = 0

    def asked(*widths_and_rows: tuple[int, int], start: int = 0) -> list[Any]:
        batch = []
        for width, rows in widths_and_rows:
            x = np.arange(start, start + width * rows, dtype=np.float32).reshape(rows, width)
            batch.append(inference(tensor("x", x), tensor("flag", np.zeros((rows, 1), bool)), rows=rows))  # fmt: skip
        responses = instance.execute(batch).responses
        assert None not in responses
        return [values(response) for response in responses if response is not None]

    return asked


def test_a_batch_enters_its_stream_once_and_waits_for_its_run_and_for_its_copies(
    gpu: Gpu, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = devices.CudaDevice._begun

    def seen(self: Any, at: int, result: Any, *, stays: bool) -> Any:
        gpu.log.append("copy")
        return begun(self, at, result, stays=stays)

    monkeypatch.setattr(devices.CudaDevice, "_begun", seen)
    ask((3, 2))
    # The copies are in the stream before the instance waits for the run.
    assert gpu.log == ["record", "copy", "copy", "wait", "synchronize"]
    assert gpu.entered == 1


def test_memory_is_pinned_once(gpu: Gpu, ask: Any) -> None:
    (first,) = ask((3, 2), start=1)
    assert gpu.pinned == [32, 2] * 2
    (second,) = ask((3, 2), start=7)
    third = ask((3, 1), (3, 1), start=5)
    assert gpu.pinned == [32, 2] * 2
    assert first["OUT__0"] == [[2, 4, 6], [8, 10, 12]]
    assert second["OUT__0"] == [[14, 16, 18], [20, 22, 24]]
    assert [each["OUT__0"] for each in third] == [[[10, 12, 14]]] * 2
    assert first["OUT__1"] == [[True], [True]]


def test_it_is_pinned_again_for_a_larger_batch_and_serves_smaller_and_empty_ones(
    gpu: Gpu, ask: Any
) -> None:
    ask((2, 2))
    gpu.pinned.clear()
    for width, rows in ((5, 4), (0, 3), (1, 1), (7, 2)):
        (answer,) = ask((width, rows), start=1)
        wanted = 2 * np.arange(1, 1 + width * rows, dtype=np.float32).reshape(rows, width)
        assert answer["OUT__0"] == wanted.tolist()
    assert gpu.pinned == [128, 4] * 2
