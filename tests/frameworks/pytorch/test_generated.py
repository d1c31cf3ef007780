"""TorchScript models with identities, reshapes, ragged batches, sequences and implicit states, served and compared with torch."""
# ruff: noqa: N803 - the arguments are the inputs of the config

import collections.abc
import pathlib
import warnings
from typing import Any, List, Tuple  # noqa: UP035 - TorchScript knows them

import numpy as np
import pytest
import torch

from tests.frameworks import add_sub, generated
from tests.frameworks.generated import DYNAMIC, KINDS, Kind, Run
from tests.frameworks.pytorch.models import save
from tests.reference.process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def names_of(kind: Kind) -> dict[str, str]:
    """By the places of arguments and results, which controls and states need."""
    inputs = {name: f"{name}__{place}" for place, name in enumerate(kind.inputs)}
    return {**inputs, "OUTPUT": "OUTPUT__0", "OUTPUT_STATE": "OUTPUT_STATE__1"}


SERVED = [
    *(kind for kind in (*KINDS, *DYNAMIC) if kind.datatype != "BYTES"),
    Kind("text", "BYTES", batched=False),
    Kind("text", "BYTES"),
    Kind("text_implicit", "BYTES", batched=False),
]
"""Text is a list, so that it has one dimension, and with batches an empty reshape: as in Triton's own models."""


class Identity(torch.nn.Module):
    def forward(self, INPUT: torch.Tensor) -> torch.Tensor:
        return INPUT


class Text(torch.nn.Module):
    def forward(self, INPUT: List[str]) -> List[str]:  # noqa: UP006
        return INPUT


class TextImplicit(torch.nn.Module):
    def forward(self, INPUT: List[str], INPUT_STATE: List[str]) -> Tuple[List[str], List[str]]:  # noqa: UP006
        total: List[str] = []  # noqa: UP006
        for given, state in zip(INPUT, INPUT_STATE):  # noqa: B905 - TorchScript knows no strict
            total.append(str(int("0" + given) + int("0" + state)))
        return total, total


class Reshape(torch.nn.Module):
    def __init__(self, shape: list[int]) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, INPUT: torch.Tensor) -> torch.Tensor:
        return INPUT.reshape(self.shape)


class Ragged(torch.nn.Module):
    def forward(self, INPUT: torch.Tensor, INDEX: torch.Tensor) -> torch.Tensor:
        return INPUT + INPUT + 0 * INDEX.sum()


class Sequence(torch.nn.Module):
    def forward(self, INPUT: torch.Tensor, START: torch.Tensor, READY: torch.Tensor) -> torch.Tensor:  # fmt: skip
        return (INPUT + START) * READY


class DynaSequence(torch.nn.Module):
    def forward(
        self, INPUT: torch.Tensor, START: torch.Tensor, READY: torch.Tensor, END: torch.Tensor, CORRID: torch.Tensor
    ) -> torch.Tensor:  # fmt: skip
        return (INPUT + START + END * CORRID.float()) * READY


class Implicit(torch.nn.Module):
    def forward(
        self, INPUT: torch.Tensor, INPUT_STATE: torch.Tensor
    ) -> Tuple[torch.Tensor, torch.Tensor]:  # noqa: UP006
        total = INPUT + INPUT_STATE
        return total, total


class DynaImplicit(torch.nn.Module):
    def forward(  # noqa: PLR0917 - as many as the config has
        self,
        INPUT: torch.Tensor,
        INPUT_STATE: torch.Tensor,
        START: torch.Tensor,
        READY: torch.Tensor,
        END: torch.Tensor,
        CORRID: torch.Tensor,
    ) -> Tuple[torch.Tensor, torch.Tensor]:  # noqa: UP006
        total = INPUT + INPUT_STATE * READY * (1 - START)
        return total, total


class Growing(torch.nn.Module):
    def forward(
        self, INPUT: torch.Tensor, INPUT_STATE: torch.Tensor
    ) -> Tuple[torch.Tensor, torch.Tensor]:  # noqa: UP006
        longer = torch.cat([INPUT_STATE, INPUT], -1)
        return longer, longer


def module_of(kind: Kind) -> torch.nn.Module:
    if kind.name == "reshape":
        return Reshape([-1, 4][not kind.batched :])
    makers: dict[str, type[torch.nn.Module]] = {
        "identity": Identity, "text": Text, "ragged": Ragged, "sequence": Sequence, "dyna_sequence": DynaSequence, "implicit": Implicit,
        "dyna_implicit": DynaImplicit, "growing": Growing, "text_implicit": TextImplicit,
    }  # fmt: skip
    return makers[kind.name]()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[ServerProcess]:
    models = tmp_path_factory.mktemp("generated") / "models"
    for kind in SERVED:
        save(models / kind.model, module_of(kind))
        generated.write_config(
            models / kind.model, kind, 'platform: "pytorch_libtorch"', names_of(kind)
        )
    with add_sub.serving(models, "pytorch") as server:
        yield server


def torch_itself(path: pathlib.Path) -> Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = torch.jit.load(str(path))

    def run(**feeds: Any) -> Any:
        arguments = [
            [text.decode() for text in each.ravel()]
            if each.dtype == np.object_
            else torch.from_numpy(each)
            for each in feeds.values()
        ]
        result = module(*arguments)
        if isinstance(result, tuple):
            result = result[0]
        if isinstance(result, list):
            return np.array([text.encode() for text in result], np.object_)
        return result.numpy()

    return run


def _archive(server: ServerProcess, kind: Kind) -> pathlib.Path:
    return server.log.parent / "models" / kind.model / "1" / "model.pt"


@pytest.mark.parametrize("kind", SERVED, ids=lambda kind: kind.model)
def test_the_server_answers_as_torch_does(server: ServerProcess, kind: Kind) -> None:
    assert generated.differences(server, kind, torch_itself(_archive(server, kind)), names_of(kind)) == []  # fmt: skip


def test_ragged_requests_of_one_batch_get_their_own_values(server: ServerProcess) -> None:
    kind = Kind("ragged")
    assert generated.merged_differences(server, kind, torch_itself(_archive(server, kind)), names_of(kind)) == []  # fmt: skip


def test_the_check_finds_nothing_wrong_with_what_is_served(server: ServerProcess) -> None:
    assert generated.check_problems(server.log.parent / "models", SERVED) == {}
