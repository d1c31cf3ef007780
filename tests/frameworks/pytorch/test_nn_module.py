"""Models that are a `torch.nn.Module` in model.py (row 16.17)."""

import logging
import pathlib
from typing import Any

import pytest
import torch
from typing_extensions import override

from naiad.config.model_config import ModelConfig
from naiad.core import datatypes
from naiad.errors import ErrorCode, InferenceError
from tests.frameworks.pytorch.models import instance_of, save, torch_config
from tests.frameworks.pytorch.test_torchscript import Two
from tests.server.backends.configs import Instance, inference, run, spec, tensor, values

FP32 = datatypes.FP32
CODE = """\
import torch
from torch.nn import Module


class Scaled(Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, a, b):
        return a * self.scale + b, a - b
"""


def config(**more: Any) -> ModelConfig:
    return torch_config(
        runtime="model.py",
        inputs=[spec("A", FP32, (1,)), spec("B", FP32, (1,))],
        outputs=[spec("SUM", FP32, (1,)), spec("DIFFERENCE", FP32, (1,))],
        parameters={"TORCH_COMPILE_OPTIONAL_PARAMETERS": '{"disable": true}', **more},
    )


def written(folder: pathlib.Path, code: str = CODE, scale: float | None = None) -> Instance:
    version = folder / "1"
    version.mkdir(exist_ok=True)
    (version / "model.py").write_text(code)
    if scale is not None:
        torch.save({"scale": torch.full((1,), scale)}, version / "model.pt")
    return instance_of(folder, config())


def answers(instance: Instance) -> dict[str, Any]:
    return values(
        run(instance, inference(tensor("A", [[4.0]], FP32), tensor("B", [[1.0]], FP32)))[0]
    )


def test_inputs_and_outputs_go_by_the_configs_order(tmp_path: pathlib.Path) -> None:
    assert answers(written(tmp_path)) == {"SUM": [[5.0]], "DIFFERENCE": [[3.0]]}


def test_weights_beside_the_code_are_loaded(tmp_path: pathlib.Path) -> None:
    assert answers(written(tmp_path, scale=10.0))["SUM"] == [[41.0]]


def test_a_batch_is_split_into_its_requests(tmp_path: pathlib.Path) -> None:
    instance = written(tmp_path)
    requests = [
        inference(tensor("A", [[value]] * 2, FP32), tensor("B", [[0.0]] * 2, FP32))
        for value in (1.0, 2.0)
    ]
    assert [values(each)["SUM"] for each in run(instance, *requests)] == [[[1.0]] * 2, [[2.0]] * 2]


def test_torchscript_is_run_where_there_is_no_code(tmp_path: pathlib.Path) -> None:
    assert answers(instance_of(save(tmp_path, Two()), config())) == {
        "SUM": [[5.0]],
        "DIFFERENCE": [[3.0]],
    }


def test_the_first_class_by_name_is_the_model(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        instance = written(
            tmp_path,
            CODE
            + "\n\nclass Another(Scaled):\n    def forward(self, a, b):\n        return b, a\n",
        )
    assert answers(instance) == {"SUM": [[1.0]], "DIFFERENCE": [[4.0]]}
    assert (
        "defines several subclasses of torch.nn.Module (Another, Scaled): Another is the model"
        in caplog.text
    )


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import torch\n", "Cannot find a subclass of torch.nn.Module in model.py of model 'm'"),
        ("def (", "SyntaxError"),
        ("import nonesuch_package\n", "No module named 'nonesuch_package'"),
        (
            CODE.replace("super().__init__()", "raise ValueError('no weights')"),
            "ValueError: no weights",
        ),
    ],
)
def test_code_that_cannot_be_loaded_says_why(tmp_path: pathlib.Path, code: str, said: str) -> None:
    with pytest.raises(InferenceError) as caught:
        written(tmp_path, code)
    assert said in caught.value.message


def test_weights_that_do_not_fit_say_why(tmp_path: pathlib.Path) -> None:
    (tmp_path / "1").mkdir()
    torch.save({"other": torch.ones(1)}, tmp_path / "1" / "model.pt")
    with pytest.raises(InferenceError, match='Missing key\\(s\\) in state_dict: "scale"'):
        written(tmp_path)


def test_weights_are_never_unpickled_as_code(tmp_path: pathlib.Path) -> None:
    class Bomb:
        @override
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return open, (str(tmp_path / "ran"), "w")

    (tmp_path / "1").mkdir()
    torch.save({"scale": Bomb()}, tmp_path / "1" / "model.pt")
    with pytest.raises(InferenceError, match="failed to load model 'm'") as caught:
        written(tmp_path)
    assert not (tmp_path / "ran").exists()
    assert "something else than weights, which may run any code and is not read: it asks for io.open: save it" in caught.value.message  # fmt: skip
    assert "\n" not in caught.value.message


def test_a_folder_without_a_model_is_unavailable(tmp_path: pathlib.Path) -> None:
    (tmp_path / "1").mkdir()
    with pytest.raises(InferenceError, match="No model found in") as caught:
        instance_of(tmp_path, config())
    assert caught.value.code is ErrorCode.UNAVAILABLE


def test_a_list_of_text_is_one_output_and_a_dict_is_refused(tmp_path: pathlib.Path) -> None:
    texts = torch_config(
        runtime="model.py", max_batch_size=0, inputs=[spec("A", datatypes.BYTES, (-1,))], outputs=[spec("B", datatypes.BYTES, (-1,))],
        parameters={"TORCH_COMPILE_OPTIONAL_PARAMETERS": '{"disable": true}'},
    )  # fmt: skip
    code = "import torch\nclass Net(torch.nn.Module):\n    def forward(self, a):\n        return [each + '!' for each in a]\n"
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model.py").write_text(code)
    instance = instance_of(tmp_path, texts)
    for given in ([b"a", b"\xc3\xa9"], []):
        request = inference(tensor("A", given, datatypes.BYTES), rows=1)
        assert values(run(instance, request)[0])["B"] == [each + b"!" for each in given]
    for returned, kind in (("{'B': a}", "dict"), ("torch.ones(2).to_sparse()", "torch.sparse_coo")):
        (tmp_path / "1" / "model.py").write_text(
            code.replace("[each + '!' for each in a]", returned)
        )
        with pytest.raises(InferenceError, match=f"an output must be .*received .*{kind}"):
            run(
                instance_of(tmp_path, texts),
                inference(tensor("A", [b"a"], datatypes.BYTES), rows=1),
            )
