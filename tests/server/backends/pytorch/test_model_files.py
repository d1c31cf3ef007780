"""What is known of PyTorch model files without torch: their format, and the arguments of a TorchScript model."""

import json
import pathlib
import pickle
import struct
import zipfile
from typing import Any

import pytest
from typing_extensions import override

from naiad.backends.pytorch import archive, module_files, program_file
from naiad.backends.pytorch.archive import Kind
from naiad.backends.pytorch.io_check import Described, Known, Other
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
    assert forward_arguments(path, "m") == (
        Argument("x", TENSOR),
        Argument("words", LIST),
        Argument("more", DICT),
        Argument("n", "int"),
    )


def test_nothing_is_known_of_a_file_that_is_not_understood(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.pt"
    assert forward_arguments(path, "m") == ()
    assert forward_arguments(archives.checkpoint(path), "m") == ()
    assert forward_arguments(archives.script(path, "x: Tensor) -> None: pass\n  def ("), "m") == ()
    path.write_bytes(b"PK\x03\x04 cut off")
    assert forward_arguments(path, "m") == ()


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
    assert forward_arguments(path, "m") == ()
    assert not (tmp_path / "ran").exists()


def with_weights(
    path: pathlib.Path, elements: int, size: int, *, kind: str = "Float"
) -> pathlib.Path:
    """A TorchScript archive with one tensor, as torch pickles it: the word "storage" comes from the memo the second time."""
    storage = (
        b"(X\x07\x00\x00\x00storageq\x03ctorch\n" + kind.encode() + b"Storage\nq\x04X\x01\x00\x00\x000q\x05X\x03\x00\x00\x00cpuq\x06"
        b"\x8a\x08" + elements.to_bytes(8, "little", signed=True) + b"tQ"
    )  # fmt: skip
    again = storage.replace(b"X\x07\x00\x00\x00storageq\x03", b"h\x03").replace(
        b"\x01\x00\x00\x000", b"\x01\x00\x00\x001"
    )
    return archives.zipped(
        path,
        {"data.pkl": b"\x80\x02(" + storage + again + b"t.", "constants.pkl": b"\x80\x02).", "data/0": bytes(1 << 20), "data/1": bytes(size)},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "elements", "size", "is_short"),
    [("Float", 2, 8, False), ("Float", 2, 7, True), ("Double", 25_000_000_000, 8, True), ("Float", -1, 8, True), ("Unknown", 1 << 40, 8, False)],
)  # fmt: skip
def test_every_byte_of_a_tensor_has_to_be_in_the_archive(
    tmp_path: pathlib.Path, kind: str, elements: int, size: int, *, is_short: bool
) -> None:
    path = with_weights(tmp_path / "model.pt", elements, size, kind=kind)
    if not is_short:
        archive.check(path, Kind.TORCHSCRIPT, model="m", expects_program=False)
        return
    with pytest.raises(
        InferenceError, match=r"'model.pt' is damaged: a tensor takes .* copy it again"
    ):
        archive.check(path, Kind.TORCHSCRIPT, model="m", expects_program=False)


PROGRAM: dict[str, Any] = {
    "graph_module": {
        "graph": {
            "tensor_values": {
                "p_w": {"dtype": 7, "sizes": [{"as_int": 2}]},
                "x": {"dtype": 5, "sizes": [{"as_expr": {"expr_str": "Symbol('s0', positive=True, integer=True)"}}, {"as_int": 2}]},
                "z": {"dtype": 5, "sizes": [{"as_expr": {"expr_str": "2*Symbol('s0', positive=True)"}}]},
                "y": {"dtype": 34, "sizes": []},
            }
        },
        "signature": {
            "input_specs": [{"parameter": {"arg": {"name": "p_w"}}}, {"user_input": {"arg": {"as_tensor": {"name": "x"}}}}, {"constant_input": {"name": "k", "value": {"as_int": 3}}}, {"user_input": {"arg": {"as_none": True}}}, {"user_input": {"arg": {"as_tensor": {"name": "z"}}}}],
            "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "y"}}}}, {"user_output": {"arg": {"as_sym_int": {"as_name": "s"}}}}],
        },
        "module_call_graph": [{"fqn": "", "signature": {"in_spec": "[1, {}]", "out_spec": "[1, []]"}}],
    },
    "range_constraints": {"s0": {"min_val": 0, "max_val": 4}},
}  # fmt: skip


def test_a_program_says_what_it_takes_and_gives(tmp_path: pathlib.Path) -> None:
    path = archives.zipped(tmp_path / "m.pt2", {"models/model.json": json.dumps(PROGRAM).encode()})
    assert program_file.read(path) == Described(
        in_spec="[1, {}]",
        out_spec="[1, []]",
        inputs=(
            Known("TYPE_INT64", (-1, 2), 4),
            Other("3"),
            Other("None"),
            Known("TYPE_INT64", (-1,)),
        ),
        outputs=(None, Other("sym_int")),
    )


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"graph_module": 1}', b"[" * 100_000])
def test_a_program_that_is_not_understood_is_left_to_torch(
    tmp_path: pathlib.Path, content: bytes
) -> None:
    path = archives.zipped(tmp_path / "m.pt2", {"models/model.json": content})
    assert program_file.read(path) is None
    path.write_bytes(content)
    assert program_file.read(path) is None
    assert program_file.read(archives.compiled(path)) is None


def spoiled(path: pathlib.Path, how: str) -> pathlib.Path:
    """An archive that was packed again, whose entries are encrypted, compressed in an unknown way, or damaged."""
    with zipfile.ZipFile(path) as made:
        contents = {name: made.read(name) for name in made.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in contents.items():
            packed.writestr(name, content * 50)
        entries = packed.infolist()
    data = bytearray(path.read_bytes())
    for mark, flags, method in ((b"PK\x03\x04", 6, 8), (b"PK\x01\x02", 8, 10)):
        at = -1
        for entry in entries:
            at = data.index(mark, at + 1)
            if how == "encrypted":
                data[at + flags] |= 1
            elif how == "unknown":
                struct.pack_into("<H", data, at + method, 99)
            elif mark == b"PK\x03\x04":
                begin = at + 30 + len(entry.filename)
                data[begin : begin + 2] = b"\xff" * 2  # an empty entry has no more
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("how", ["encrypted", "unknown", "damaged"])
def test_entries_that_cannot_be_read_are_left_to_torch(tmp_path: pathlib.Path, how: str) -> None:
    script = spoiled(archives.script(tmp_path / "model.pt"), how)
    archive.check(script, archive.kind_of(script), model="m", expects_program=False)
    assert forward_arguments(script, "m") == ()
    program = spoiled(archives.exported(tmp_path / "model.pt2"), how)
    assert program_file.read(program) is None
    if how == "damaged":  # torch would say which byte of a text cannot be decoded
        with pytest.raises(InferenceError, match=r"'model.pt2' is damaged: .* copy it again"):
            archive.check(program, archive.kind_of(program), model="m", expects_program=True)
    else:
        archive.check(program, archive.kind_of(program), model="m", expects_program=True)


def test_a_class_without_forward_is_refused(tmp_path: pathlib.Path) -> None:
    path = archives.script(tmp_path / "model.pt", "x: Tensor")
    archives.renamed(path, b"def forward", b"def predict")
    with pytest.raises(InferenceError, match=r"'m': it has no method forward\(\): define one"):
        forward_arguments(path, "m")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import torch\nclass Net(torch.nn.Module): pass", ""),
        ("import torch\ndef forward(x): return x", "Cannot find a subclass of torch.nn.Module"),
        ("import torch\nNet = type('Net', (torch.nn.Module,), {})", ""),
        ("import nonesuch", ""),
        ("def (", r"SyntaxError: .*model\.py, line 1"),
    ],
)
def test_code_that_surely_cannot_be_a_module_is_refused(
    tmp_path: pathlib.Path, code: str, said: str
) -> None:
    path = tmp_path / "model.py"
    path.write_text(code)
    if not said:
        module_files.check_code(path, "m")
        return
    with pytest.raises(InferenceError, match=said):
        module_files.check_code(path, "m")


def test_the_reason_of_a_refused_pickle_is_one_line_and_does_not_say_how_to_run_it() -> None:
    text = (
        "Weights only load failed. In PyTorch 2.6, we changed the default. Re-running `torch.load` with `weights_only` set to `False` will likely "
        "succeed, but it can result in arbitrary code execution.\n\nTrying to load unsupported GLOBAL posix.system whose module posix is blocked.\n\nCheck"
    )
    message = module_files.load_error("m", pickle.UnpicklingError(text)).message
    assert "\n" not in message
    assert "Re-running" not in message
    assert "is not read: it asks for posix.system: save it by torch.save" in message  # fmt: skip
