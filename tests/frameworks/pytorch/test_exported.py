"""Models of torch.export through the backend, against torch itself (row 16.16)."""

import contextlib
import io
import pathlib
import pickle
import zipfile
from typing import Any

import numpy as np
import pytest
import torch
from typing_extensions import override

from naiad.backends.pytorch import io_check, program_file
from naiad.config.model_config import ModelConfig, TensorSpec
from naiad.core import datatypes
from naiad.errors import InferenceError
from tests.frameworks.pytorch.models import export, instance_of, torch_config
from tests.server.backends.configs import inference, run, spec, tensor, values

FP32 = datatypes.FP32
ROWS = torch.export.Dim("rows", min=1, max=64)


class Nested(torch.nn.Module):
    def forward(
        self, x: torch.Tensor, more: dict[str, torch.Tensor], *, scale: torch.Tensor
    ) -> dict[str, Any]:
        return {"sum": x + more["b"], "parts": (x * scale, more["a"])}


class Double(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def nested(folder: pathlib.Path) -> pathlib.Path:
    one, two, three, four = (torch.ones(2, 2) for _ in range(4))
    rows = {0: ROWS}
    return export(
        folder,
        Nested(),
        (one, {"a": two, "b": three}),
        kwargs={"scale": four},
        dynamic_shapes={"x": rows, "more": {"a": rows, "b": rows}, "scale": rows},
    )


def double(folder: pathlib.Path, *, rows: int = 0) -> pathlib.Path:
    """A model for that many rows; 0 for any number."""
    shapes = {"dynamic_shapes": {"x": {0: ROWS}}} if not rows else {}
    return export(folder, Double(), (torch.ones(rows or 2, 2),), **shapes)


def aoti(inputs: list[TensorSpec], outputs: list[TensorSpec], **more: Any) -> ModelConfig:
    return torch_config(platform="torch_aoti", inputs=inputs, outputs=outputs, **more)


def pairs(*names: str) -> list[TensorSpec]:
    return [spec(name, FP32, (2,)) for name in names]


def test_tensors_are_named_by_place_or_by_their_way(tmp_path: pathlib.Path) -> None:
    config = aoti(
        pairs("KWARGS[scale]", "ARGS[0]", "ARGS[1][b]", "INPUT__1"),
        pairs("RESULT[parts][1]", "OUTPUT__0", "RESULT[parts][0]"),
    )
    instance = instance_of(nested(tmp_path), config)

    def asked(base: float) -> Any:
        return inference(
            *(
                tensor(name, [[base * factor] * 2], FP32)
                for name, factor in (
                    ("KWARGS[scale]", 3),
                    ("ARGS[0]", 1),
                    ("ARGS[1][b]", 10),
                    ("INPUT__1", 7),
                )
            )
        )

    first, second = run(instance, asked(1.0), asked(2.0))
    assert values(first) == {
        "RESULT[parts][1]": [[7.0] * 2],
        "OUTPUT__0": [[11.0] * 2],
        "RESULT[parts][0]": [[3.0] * 2],
    }
    assert values(second) == {
        "RESULT[parts][1]": [[14.0] * 2],
        "OUTPUT__0": [[22.0] * 2],
        "RESULT[parts][0]": [[12.0] * 2],
    }


def test_a_single_result_is_named_alone(tmp_path: pathlib.Path) -> None:
    instance = instance_of(double(tmp_path), aoti(pairs("INPUT__0"), pairs("RESULT")))
    assert values(run(instance, inference(tensor("INPUT__0", [[1.0, 2.0]], FP32)))[0]) == {
        "RESULT": [[2.0, 4.0]]
    }


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (aoti(pairs("x"), pairs("RESULT")), r"it has no input 'x'; it has INPUT__0 or ARGS\[0\]"),
        (aoti(pairs("INPUT__0"), pairs("y")), "it has no output 'y'; it has OUTPUT__0 or RESULT"),
        (
            aoti([spec("INPUT__0", datatypes.INT64, (2,))], pairs("RESULT")),
            "configuration expects datatype TYPE_INT64 for input 'INPUT__0', model provides TYPE_FP32",
        ),
        (
            aoti([spec("INPUT__0", FP32, (3,))], pairs("RESULT")),
            r"configuration expects dims \[3\] for input 'INPUT__0', model provides \[2\]",
        ),
        (
            aoti([spec("INPUT__0", FP32, (2, 2))], pairs("RESULT")),
            r"configuration expects dims \[2, 2\]",
        ),
    ],
)
def test_a_config_of_another_model_is_refused_at_the_load(
    tmp_path: pathlib.Path, config: ModelConfig, said: str
) -> None:
    with pytest.raises(InferenceError, match=said):
        instance_of(double(tmp_path), config)


def test_a_missing_input_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(
        InferenceError,
        match=r"configuration expects 1 inputs, model provides 4: add .*INPUT__3 or KWARGS\[scale\]",
    ):
        instance_of(nested(tmp_path), aoti(pairs("ARGS[0]"), pairs("OUTPUT__0")))


def test_a_model_for_a_fixed_number_of_rows_takes_no_batches(tmp_path: pathlib.Path) -> None:
    folder = double(tmp_path, rows=2)
    with pytest.raises(
        InferenceError,
        match="it was exported for 2 rows of input 'INPUT__0', and its max_batch_size is 8",
    ):
        instance_of(folder, aoti(pairs("INPUT__0"), pairs("RESULT")))
    config = aoti(
        [spec("INPUT__0", FP32, (2, 2))], [spec("RESULT", FP32, (2, 2))], max_batch_size=0
    )
    request = inference(tensor("INPUT__0", np.ones((2, 2), np.float32)), rows=1)
    assert values(run(instance_of(folder, config), request)[0]) == {"RESULT": [[2.0, 2.0]] * 2}


@pytest.mark.parametrize("name", ["data/sample_inputs/model.pt", "data/constants/opaque_obj_0"])
def test_no_pickle_of_an_archive_is_opened(tmp_path: pathlib.Path, name: str) -> None:
    folder = double(tmp_path)
    path = folder / "1" / "model.pt2"

    class Bomb:
        @override
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return open, (str(tmp_path / "ran"), "w")

    content = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(content, "w") as new:
        names = old.namelist()
        for each in names:
            if not each.endswith(name):
                new.writestr(each, old.read(each))
        bomb = io.BytesIO()
        torch.save(Bomb(), bomb)
        data = pickle.dumps(Bomb()) if "opaque" in name else bomb.getvalue()
        new.writestr(f"{names[0].partition('/')[0]}/{name}", data)
    path.write_bytes(content.getvalue())
    with pytest.raises(InferenceError, match="failed to load model 'm'"):
        instance_of(folder, aoti(pairs("INPUT__0"), pairs("RESULT")))
    assert not (tmp_path / "ran").exists()


def test_a_sequence_batcher_is_refused(tmp_path: pathlib.Path) -> None:
    config = aoti(pairs("INPUT__0"), pairs("RESULT"))
    config.message.sequence_batching.SetInParent()
    with pytest.raises(InferenceError, match="platform torch_aoti has no sequence batching"):
        instance_of(double(tmp_path), config)


def test_more_rows_than_a_model_was_exported_for_are_refused_at_the_load(
    tmp_path: pathlib.Path,
) -> None:
    few = torch.export.Dim("few", min=1, max=4)
    folder = export(tmp_path, Double(), (torch.ones(2, 2),), dynamic_shapes={"x": {0: few}})
    with pytest.raises(
        InferenceError, match="for at most 4 rows of input 'INPUT__0', and its max_batch_size is 8"
    ):
        instance_of(folder, aoti(pairs("INPUT__0"), pairs("RESULT")))
    instance_of(folder, aoti(pairs("INPUT__0"), pairs("RESULT"), max_batch_size=4))


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor, k: int, y: torch.Tensor, z: Any) -> Any:
        return x * k + y, x.shape[0]


def test_arguments_that_are_not_tensors_have_the_values_of_the_export(
    tmp_path: pathlib.Path,
) -> None:
    given = (torch.ones(2, 2), 3, torch.ones(2, 2), None)
    shapes = ({0: ROWS}, None, {0: ROWS}, None)
    folder = export(tmp_path, Scaled(), given, dynamic_shapes=shapes)
    names = pairs("INPUT__0", "ARGS[2]")
    for config in (aoti(names, pairs("RESULT[0]")), aoti(names[::-1], pairs("RESULT[0]"))):
        x, y = tensor("INPUT__0", [[1.0, 2.0]], FP32), tensor("ARGS[2]", [[10.0, 20.0]], FP32)
        request = inference(*((x, y) if config.inputs[0].name == "INPUT__0" else (y, x)))
        assert values(run(instance_of(folder, config), request)[0]) == {"RESULT[0]": [[13.0, 26.0]]}
    with pytest.raises(InferenceError, match="expects 1 inputs, model provides 2: add INPUT__2"):
        instance_of(folder, aoti(pairs("INPUT__0"), pairs("RESULT[0]")))
    with pytest.raises(InferenceError, match="'INPUT__1' is not a tensor: it always has the value that the model was exported with, 3"):  # fmt: skip
        instance_of(folder, aoti([*names, *pairs("INPUT__1")], pairs("RESULT[0]")))
    with pytest.raises(InferenceError, match=r"output 'RESULT\[1\]' is not a tensor"):
        instance_of(folder, aoti(names, pairs("RESULT[1]")))
    # What `naiad check` reads without torch says the same.
    for config, said in ((aoti(names, pairs("RESULT[0]")), ""), (aoti(names, pairs("RESULT[1]")), "not a tensor"), (aoti([*names, *pairs("KWARGS[k]")], pairs("RESULT[0]")), "no input")):  # fmt: skip
        program = program_file.read(folder / "1" / "model.pt2")
        assert program is not None
        with pytest.raises(InferenceError, match=said) if said else contextlib.nullcontext():
            io_check.check(config, program)
