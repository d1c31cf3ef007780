"""What torch compiles: packages of AOTInductor (row 16.16), and modules through `torch.compile` (row 16.17).

A C++ compiler takes half a minute of the processor for the smallest package, so one serves all tests.
"""

import collections.abc
import pathlib
import shutil
import warnings

import numpy as np
import pytest
import torch

from naiad.core import datatypes
from naiad.errors import InferenceError
from tests.frameworks.pytorch.models import instance_of, torch_config
from tests.frameworks.pytorch.test_exported import ROWS, aoti, pairs
from tests.frameworks.pytorch.test_nn_module import CODE
from tests.server.backends.configs import inference, run, spec, tensor, values

FP32 = datatypes.FP32

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler"),
]


class Wave(torch.nn.Module):
    def forward(
        self, x: torch.Tensor, more: dict[str, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.sin(x) * more["scale"], x + more["scale"]


@pytest.fixture(scope="module", autouse=True)
def caches(
    tmp_path_factory: pytest.TempPathFactory,
) -> collections.abc.Iterator[None]:
    """What the compiler keeps goes into a folder of the tests, and headers are not compiled ahead for it."""
    with pytest.MonkeyPatch.context() as patched:
        folder = tmp_path_factory.mktemp("inductor")
        patched.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder))
        patched.setattr(torch._inductor.config, "cpp_cache_precompile_headers", False)
        yield


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("package")
    path = folder / "1" / "model.pt2"
    path.parent.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = {0: ROWS}
        program = torch.export.export(
            Wave(),
            (torch.ones(3, 2), {"scale": torch.ones(3, 2)}),
            dynamic_shapes={"x": rows, "more": {"scale": rows}},
        )
        torch._inductor.aoti_compile_and_package(
            program,
            package_path=str(path),
            inductor_configs={"aot_inductor.compile_wrapper_opt_level": "O0"},
        )
    return folder


def test_a_package_answers_batches_of_any_size(package: pathlib.Path) -> None:
    config = aoti(pairs("ARGS[1][scale]", "ARGS[0]"), pairs("RESULT[1]", "OUTPUT__0"))
    instance = instance_of(package, config)
    for sizes in ((1,), (3, 1), (8,)):
        arrays = [
            np.random.default_rng(size).normal(size=(size, 2)).astype(np.float32) for size in sizes
        ]
        requests = [
            inference(tensor("ARGS[0]", x), tensor("ARGS[1][scale]", x + 1)) for x in arrays
        ]
        for x, outcome in zip(arrays, run(instance, *requests), strict=True):
            got = values(outcome)
            np.testing.assert_allclose(got["OUTPUT__0"], np.sin(x) * (x + 1), rtol=1e-5)
            np.testing.assert_allclose(got["RESULT[1]"], x + (x + 1), rtol=1e-6)


def test_a_package_is_held_against_its_config(package: pathlib.Path) -> None:
    with pytest.raises(InferenceError, match=r"it has no input 'x'; it has INPUT__0 or ARGS\[0\]"):
        instance_of(package, aoti(pairs("x", "INPUT__1"), pairs("OUTPUT__0")))
    with pytest.raises(
        InferenceError, match="configuration expects 1 inputs, model provides 2: add"
    ):
        instance_of(package, aoti(pairs("INPUT__0"), pairs("OUTPUT__0")))


def test_a_module_is_compiled_and_answers_as_it_did(tmp_path: pathlib.Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model.py").write_text(CODE)
    config = torch_config(
        runtime="model.py",
        inputs=[spec("A", FP32, (1,)), spec("B", FP32, (1,))],
        outputs=[spec("SUM", FP32, (1,)), spec("DIFFERENCE", FP32, (1,))],
        parameters={"TORCH_COMPILE_OPTIONAL_PARAMETERS": '{"dynamic": true, "fullgraph": true}'},
    )
    compiled: list[object] = []
    with pytest.MonkeyPatch.context() as patched:
        compile_ = torch.compile

        def noted(module: torch.nn.Module, **parameters: object) -> object:
            compiled.append(parameters)
            return compile_(module, **parameters)

        patched.setattr(torch, "compile", noted)
        instance = instance_of(tmp_path, config)
    assert compiled == [{"dynamic": True, "fullgraph": True}]
    for rows in (1, 4):
        a, b = [[4.0]] * rows, [[1.0]] * rows
        (outcome,) = run(instance, inference(tensor("A", a, FP32), tensor("B", b, FP32)))
        assert values(outcome) == {"SUM": [[5.0]] * rows, "DIFFERENCE": [[3.0]] * rows}
