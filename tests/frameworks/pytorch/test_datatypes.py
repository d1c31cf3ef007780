"""TorchScript models of every datatype, with and without batches, served and compared with torch."""
# ruff: noqa: N803 - the arguments are the inputs of the config

import collections.abc
import pathlib
import warnings
from typing import Any, List, Tuple  # noqa: UP035 - TorchScript knows them

import numpy as np
import pytest
import torch

from tests.frameworks import add_sub
from tests.frameworks.add_sub import Case, Run
from tests.frameworks.pytorch.models import save
from tests.reference.process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DTYPES = {
    "INT8": torch.int8, "INT16": torch.int16, "INT32": torch.int32, "INT64": torch.int64, "UINT8": torch.uint8, "FP16": torch.float16,
    "BF16": torch.bfloat16, "FP32": torch.float32, "FP64": torch.float64,
}  # fmt: skip
"""Torch adds no wider unsigned integers."""

OUTPUTS = ("OUTPUT__0", "OUTPUT__1")

STRING_MODELS = [Case(*three, batched=False) for three in add_sub.STRINGS[:2]]
CASES = add_sub.cases(DTYPES, *add_sub.MIXED)


class AddSub(torch.nn.Module):
    def __init__(self, first: torch.dtype, second: torch.dtype) -> None:
        super().__init__()
        self.first = first
        self.second = second

    def forward(
        self, INPUT0: torch.Tensor, INPUT1: torch.Tensor
    ) -> Tuple[torch.Tensor, torch.Tensor]:  # noqa: UP006
        return (INPUT0 + INPUT1).to(self.first), (INPUT0 - INPUT1).to(self.second)


class StringsToNumbers(torch.nn.Module):
    def forward(self, INPUT0: List[str], INPUT1: List[str]) -> Tuple[torch.Tensor, torch.Tensor]:  # noqa: UP006
        first = torch.tensor([int(each) for each in INPUT0], dtype=torch.int32)
        second = torch.tensor([int(each) for each in INPUT1], dtype=torch.int32)
        return first + second, first - second


class Strings(torch.nn.Module):
    def forward(self, INPUT0: List[str], INPUT1: List[str]) -> Tuple[List[str], List[str]]:  # noqa: UP006
        first = [int(each) for each in INPUT0]
        second = [int(each) for each in INPUT1]
        sums = [str(first[i] + second[i]) for i in range(len(first))]
        return sums, [str(first[i] - second[i]) for i in range(len(first))]


def module_of(case: Case) -> torch.nn.Module:
    if case.taken != "BYTES":
        return AddSub(DTYPES[case.first], DTYPES[case.second])
    return Strings() if case.first == "BYTES" else StringsToNumbers()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[ServerProcess]:
    models = tmp_path_factory.mktemp("datatypes") / "models"
    for case in (*CASES, *STRING_MODELS):
        save(models / case.name, module_of(case))
        add_sub.write_config(models / case.name, case, 'platform: "pytorch_libtorch"', OUTPUTS)
    with add_sub.serving(models, "pytorch") as server:
        yield server


def torch_itself(case: Case, archive: pathlib.Path) -> Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = torch.jit.load(str(archive))

    def run(first: Any, second: Any) -> tuple[Any, Any]:
        if case.taken == "BYTES":
            texts = ([text.decode() for text in each] for each in (first, second))
            return tuple(as_numpy(each) for each in module(*texts))
        if case.taken == "BF16":
            first, second = first.astype(np.float32), second.astype(np.float32)
        tensors = (torch.from_numpy(each).to(DTYPES[case.taken]) for each in (first, second))
        return tuple(as_numpy(each) for each in module(*tensors))

    return run


def as_numpy(result: Any) -> Any:
    if isinstance(result, list):
        return np.array([text.encode() for text in result], np.object_)
    return (result.float() if result.dtype is torch.bfloat16 else result).numpy()


@pytest.mark.parametrize("case", [*CASES, *STRING_MODELS], ids=lambda case: case.name)
def test_the_server_answers_as_torch_does(server: ServerProcess, case: Case) -> None:
    archive = server.log.parent / "models" / case.name / "1" / "model.pt"
    assert add_sub.differences(server, case, torch_itself(case, archive), OUTPUTS) == []
