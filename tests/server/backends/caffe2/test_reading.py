"""NetDef files: what is read of them, and what is said of other files."""

import contextlib
import pathlib
import struct

import numpy as np
import pytest
from hypothesis import given, strategies as st

from naiad.backends.caffe2.net import NetDefError
from naiad.backends.caffe2.reading import read
from naiad.backends.caffe2.translation import InputType, Nets, read_nets, translate
from tests.support.netdef import net, write

OPS = [
    ("Conv", ("x", "w"), ("y",), {"kernel": 3, "alpha": 0.5, "order": "NCHW", "flag": True}),
    (
        "Fill",
        (),
        ("y", "z"),
        {"values": [1.5, -2.0, 3.0], "shape": [-1, 2**40], "texts": [b"\xff", b""]},
    ),
]

_WHOLE = net(
    [
        ("GivenTensorFill", (), ("w",), {"shape": [2, 3, 1, 1], "values": [1.0] * 6}),
        ("Conv", ("x", "w"), ("c",), {"kernel": 1, "legacy_pad": 2, "order": "NCHW"}),
        ("MaxPool", ("c",), ("p",), {"kernels": [3, 3], "strides": [2, 2], "legacy_pad": 3}),
        ("Reshape", ("p",), ("r", "old"), {"shape": [0, -1]}),
        ("Softmax", ("r",), ("y",), {"axis": 1}),
    ],
    ["x"],
    ["y"],
)


def test_operators_with_their_arguments(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.netdef"
    path.write_bytes(net(OPS, ["x", "w"], ["y"]))
    found = read(path)
    assert (found.inputs, found.outputs) == (("x", "w"), ("y",))
    conv, fill = found.operators
    assert conv.described == "operator 0 of model.netdef (Conv -> 'y')"
    assert (conv.arguments["kernel"].i, conv.arguments["flag"].i) == (3, 1)
    assert (conv.arguments["alpha"].f, conv.arguments["order"].s) == (0.5, b"NCHW")
    assert fill.described == "operator 1 of model.netdef (Fill -> 'y', 'z')"
    assert struct.unpack("<3f", fill.arguments["values"].floats) == (1.5, -2.0, 3.0)
    assert fill.arguments["shape"].ints == [-1, 2**40]
    assert fill.arguments["texts"].strings == [b"\xff", b""]


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 200, 1000])
def test_runs_of_floats_of_any_length(tmp_path: pathlib.Path, count: int) -> None:
    values = [float(index) for index in range(count)]
    path = tmp_path / "model.netdef"
    path.write_bytes(net([("F", (), ("y",), {"values": values, "shape": [count]})]))
    (operator,) = read(path).operators
    assert struct.unpack(f"<{count}f", operator.arguments["values"].floats) == tuple(values)


def test_packed_lists(tmp_path: pathlib.Path) -> None:
    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    packed = field(5, struct.pack("<2f", 1, 2)) + field(6, bytes([5, 0x80, 1]))
    operator = field(4, b"F") + field(5, field(1, b"v") + packed)
    path = tmp_path / "model.netdef"
    path.write_bytes(field(2, operator))
    argument = read(path).operators[0].arguments["v"]
    assert (struct.unpack("<2f", argument.floats), argument.ints) == ((1.0, 2.0), [5, 128])


def test_a_file_that_is_cut_off_anywhere_is_an_error_or_has_fewer_operators(
    tmp_path: pathlib.Path,
) -> None:
    path = tmp_path / "model.netdef"
    whole = net(OPS, ["x"], ["y"])
    said: list[str] = []
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        try:
            found = read(path)
        except NetDefError as error:
            said.append(str(error))
        else:
            assert len(found.operators) <= len(OPS)
    assert len(said) > len(whole) // 2
    assert all(str(path) in each for each in said)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty: copy the model again"),
        (b"not a net at all", "is not a NetDef of Caffe2"),
        (
            b"version https://git-lfs.github.com/spec/v1\n",
            "is a Git LFS pointer, not the model itself",
        ),
        (net([]), "has no operators: it is not a NetDef of Caffe2"),
        (
            b"\x12\xff\xff\xff\xff\x7f",
            "is cut off after 6 bytes, or is not a NetDef of Caffe2: copy it again",
        ),
    ],
)
def test_other_files(tmp_path: pathlib.Path, content: bytes, said: str) -> None:
    path = tmp_path / "model.netdef"
    path.write_bytes(content)
    with pytest.raises(NetDefError, match=said):
        read(path)


@given(data=st.data())
def test_bytes_that_are_changed_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    changed = bytearray(_WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at : at + data.draw(st.integers(0, 6))] = data.draw(st.binary(max_size=6))
        changed = changed or bytearray(b"x")
    path = tmp_path_factory.getbasetemp() / "changed.netdef"
    path.write_bytes(changed)
    types = {"x": InputType(dtype=np.dtype(np.float32), dims=(-1, 3, 8, 8))}
    with contextlib.suppress(NetDefError):
        translate(Nets(init=read(path), model=read(path)), types)


def test_a_missing_init_net_is_named(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, [("Relu", ("x",), ("y",), {})], ["x"], ["y"])
    (tmp_path / "init_model.netdef").unlink()
    with pytest.raises(NetDefError) as caught:
        read_nets(path)
    assert str(caught.value) == (
        f"unable to find '{tmp_path}/init_model.netdef' (the init net, which holds the weights of 'model.netdef')"
    )
