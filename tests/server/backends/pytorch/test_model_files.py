"""What is known of PyTorch model files without torch: their format, and the arguments of a TorchScript model."""

import pathlib
import pickle

import pytest
from typing_extensions import override

from naiad.backends.pytorch import archive
from naiad.backends.pytorch.archive import Kind
from naiad.backends.pytorch.naming import DICT, LIST, TENSOR, Argument
from naiad.backends.pytorch.script_code import forward_arguments
from naiad.errors import InferenceError
from tests.server.backends.pytorch import archives


def kind_of(path: pathlib.Path, content: bytes) -> Kind:
    path.write_bytes(content)
    return archive.kind_of(path)


def test_each_format_is_recognised(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model"
    assert archive.kind_of(archives.script(path)) is Kind.TORCHSCRIPT
    whole = path.read_bytes()
    assert archive.kind_of(archives.exported(path)) is Kind.EXPORTED
    assert archive.kind_of(archives.compiled(path)) is Kind.COMPILED
    assert archive.kind_of(archives.checkpoint(path)) is Kind.CHECKPOINT
    assert archive.kind_of(archives.zipped(path, {"a": b""})) is Kind.ANOTHER_ARCHIVE
    assert kind_of(path, pickle.dumps({})) is Kind.NO_ARCHIVE
    assert kind_of(path, b"") is Kind.NO_ARCHIVE
    assert kind_of(path, whole[: len(whole) // 2]) is Kind.NO_ARCHIVE


@pytest.mark.parametrize(
    ("kind", "program", "said"),
    [
        (Kind.CHECKPOINT, False, 'write runtime: "model.py"'),
        (Kind.CHECKPOINT, True, "opening it may run any code"),
        (Kind.EXPORTED, False, 'write platform: "torch_aoti"'),
        (Kind.COMPILED, False, 'write platform: "torch_aoti"'),
        (Kind.TORCHSCRIPT, True, 'write platform: "pytorch_libtorch"'),
        (Kind.NO_ARCHIVE, False, "it is cut off, or of another format"),
        (Kind.ANOTHER_ARCHIVE, True, "torch.export.save("),
    ],
)
def test_a_file_of_another_format_is_refused_with_the_way_out(
    tmp_path: pathlib.Path, kind: Kind, *, program: bool, said: str
) -> None:
    with pytest.raises(InferenceError) as caught:
        archive.check(tmp_path / "model.pt", kind, model="m", expects_program=program)
    assert (
        f"failed to load model 'm': 'model.pt' is {kind.value}, but the model's platform needs "
        in caught.value.message
    )
    assert said in caught.value.message


def test_the_arguments_of_forward_are_read_from_the_code(tmp_path: pathlib.Path) -> None:
    path = archives.script(
        tmp_path / "model.pt",
        "x: Tensor,\n    words: List[str],\n    more: Dict[str, Tensor],\n    n: int",
    )
    assert forward_arguments(path) == (
        Argument("x", TENSOR),
        Argument("words", LIST),
        Argument("more", DICT),
        Argument("n", "int"),
    )


def test_nothing_is_known_of_a_file_that_is_not_understood(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.pt"
    assert forward_arguments(path) == ()
    assert forward_arguments(archives.checkpoint(path)) == ()
    assert forward_arguments(archives.script(path, "x: Tensor) -> None: pass\n  def (")) == ()
    path.write_bytes(b"PK\x03\x04 cut off")
    assert forward_arguments(path) == ()


def test_nothing_is_unpickled(tmp_path: pathlib.Path) -> None:
    class Bomb:
        @override
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return pathlib.Path.touch, (tmp_path / "ran",)  # type: ignore[return-value]

    path = archives.zipped(
        tmp_path / "model.pt",
        {"data.pkl": pickle.dumps(Bomb()), "constants.pkl": pickle.dumps(Bomb())},
    )
    assert archive.kind_of(path) is Kind.TORCHSCRIPT
    assert forward_arguments(path) == ()
    assert not (tmp_path / "ran").exists()
