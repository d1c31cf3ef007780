"""Models that misbehave when a request says so, and files with an operator or a claim that no framework takes; written as those of `good_models`.

The largest value of the request says what a model does, see `WRONG`. 1 PiB is more than a process can address, so that no machine has it.
"""

# ruff: noqa: PLC0415 - a process imports one framework

import collections.abc
import pathlib
import zipfile
from typing import Any

import numpy as np

from tests.frameworks.broken import good_models
from tests.support import netdef

EDGE = 1 << 16
"""Its third power of floats are 1 PiB."""

CLAIM = 25_000_000_000
"""So many floats are 100 GB."""

MEMORY, ROWS, DIMS, RAISES, DATATYPE, SCALAR = 1, 2, 3, 4, 5, 6
"""It allocates 1 PiB; it gives twice as many rows, or values per row; it raises; it gives another datatype, or a scalar."""


def edited(path: pathlib.Path, edit: collections.abc.Callable[[str, bytes], bytes]) -> None:
    """Change the files in an archive."""
    with zipfile.ZipFile(path) as archive:
        contents = {each: edit(each, archive.read(each)) for each in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


def replaced(path: pathlib.Path, old: bytes, new: bytes) -> None:
    """Change a file, in which the old text must be."""
    content = path.read_bytes()
    assert old in content, (path, old)
    path.write_bytes(content.replace(old, new))


def script_odd(model: pathlib.Path) -> None:
    from tests.frameworks.broken.twice import Odd
    from tests.frameworks.pytorch.models import save

    save(model, Odd(EDGE))


def script_operator(model: pathlib.Path) -> None:
    good_models.write_torchscript(model)
    edited(model / "1" / "model.pt", lambda _, content: content.replace(b"torch.mul", b"ops.mylib.frobnicate"))  # fmt: skip


def script_claim(model: pathlib.Path) -> None:
    """The storage of the weights has 100 GB by its description, and so have the weights."""
    good_models.write_torchscript(model)
    many = b"\x8a\x08" + CLAIM.to_bytes(8, "little")

    def edit(name: str, content: bytes) -> bytes:
        if not name.endswith("data.pkl"):
            return content
        changed = content.replace(b"K\x02tQ", many + b"tQ").replace(b"(K\x02t", b"(" + many + b"t")
        assert changed.count(many) == 2, content
        return changed

    edited(model / "1" / "model.pt", edit)


def exported_odd(model: pathlib.Path) -> None:
    """With 8 rows it allocates 1 PiB."""
    import torch

    from tests.frameworks.broken.twice import Grows
    from tests.frameworks.pytorch.models import export

    export(model, Grows(), (torch.ones(5, 2),), dynamic_shapes=({0: torch.export.Dim("n")},))


def exported_operator(model: pathlib.Path) -> None:
    good_models.write_exported(model)
    edited(model / "1" / "model.pt2", lambda _, content: content.replace(b"torch.ops.aten.mul.Tensor", b"torch.ops.mylib.frobnicate.default"))  # fmt: skip


def exported_claim(model: pathlib.Path) -> None:
    good_models.write_exported(model)
    many = b'"sizes": [{"as_int": %d}]' % CLAIM
    edited(model / "1" / "model.pt2", lambda _, content: content.replace(b'"sizes": [{"as_int": 2}]', many))  # fmt: skip


def write_graph(model: pathlib.Path, nodes: list[Any], initializers: list[Any], **more: int) -> None:  # fmt: skip
    from onnx import TensorProto, helper

    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "odd", [value("x", TensorProto.FLOAT, ["n", 2])], [value("y", TensorProto.FLOAT, ["m", 2])], initializers
    )  # fmt: skip
    versions = [helper.make_opsetid("", more.get("opset", 17)), helper.make_opsetid("my.lib", 1)]
    made = helper.make_model(graph, opset_imports=versions, ir_version=9)
    (model / "1" / "model.onnx").write_bytes(made.SerializeToString())


def onnx_odd(model: pathlib.Path) -> None:
    from onnx import helper, numpy_helper

    node = helper.make_node
    constants: dict[str, Any] = {
        "one": np.array(MEMORY, np.float32), "edges": np.full(3, EDGE, np.int64), "which": np.array([ROWS, DIMS], np.float32),
        "ones": np.ones(2, np.int64),
    }  # fmt: skip
    nodes = [
        node("ReduceMax", ["x"], ["most"], keepdims=0),
        node("Equal", ["most", "one"], ["memory"]), node("Cast", ["memory"], ["times"], to=7),
        node("Mul", ["edges", "times"], ["shape"]), node("ConstantOfShape", ["shape"], ["big"]), node("ReduceSum", ["big"], ["sum"], keepdims=0),
        node("Equal", ["most", "which"], ["wrong"]), node("Cast", ["wrong"], ["more"], to=7), node("Add", ["more", "ones"], ["repeats"]),
        node("Tile", ["x", "repeats"], ["tiled"]), node("Add", ["tiled", "sum"], ["y"]),
    ]  # fmt: skip
    write_graph(model, nodes, [numpy_helper.from_array(array, name) for name, array in constants.items()])  # fmt: skip


def onnx_domain(model: pathlib.Path) -> None:
    from onnx import helper

    write_graph(model, [helper.make_node("Frobnicate", ["x"], ["y"], domain="my.lib")], [])


def onnx_operator(model: pathlib.Path) -> None:
    from onnx import helper

    write_graph(model, [helper.make_node("Frobnicate", ["x"], ["y"])], [])


def onnx_opset(model: pathlib.Path) -> None:
    from onnx import helper

    write_graph(model, [helper.make_node("Identity", ["x"], ["y"])], [], opset=99)


def onnx_claim(model: pathlib.Path) -> None:
    from onnx import helper, numpy_helper

    weights = numpy_helper.from_array(np.ones(2, np.float32), "weights")
    weights.dims[:] = [CLAIM]
    nodes = [helper.make_node("ReduceSum", ["weights"], ["sum"], keepdims=0), helper.make_node("Mul", ["x", "sum"], ["y"])]  # fmt: skip
    write_graph(model, nodes, [weights])


def openvino_odd(model: pathlib.Path) -> None:
    import openvino
    from openvino import opset13 as ops

    def integers(*values: int) -> object:
        return ops.constant(np.array(values, np.int64))

    given = ops.parameter([-1, 2], np.float32, name="x")
    most = ops.reduce_max(given, integers(0, 1), False)
    times = ops.convert(ops.equal(most, ops.constant(np.float32(MEMORY))), "i64")
    shape = ops.multiply(integers(EDGE, EDGE, EDGE), times)
    total = ops.reduce_sum(ops.broadcast(most, shape), integers(0, 1, 2), False)
    wrong = ops.convert(ops.equal(most, ops.constant(np.array([ROWS, DIMS], np.float32))), "i64")
    result = ops.add(ops.tile(given, ops.add(wrong, integers(1, 1))), total)
    result.output(0).get_tensor().set_names({"y"})
    given.output(0).get_tensor().set_names({"x"})
    path = str(model / "1" / "model.xml")
    openvino.save_model(openvino.Model([result], [given]), path, compress_to_fp16=False)


def openvino_operator(model: pathlib.Path) -> None:
    good_models.write_openvino(model)
    replaced(model / "1" / "model.xml", b'type="Multiply"', b'type="Frobnicate"')


def openvino_opset(model: pathlib.Path) -> None:
    good_models.write_openvino(model)
    replaced(model / "1" / "model.xml", b'version="opset1"', b'version="opset99"')


def openvino_claim(model: pathlib.Path) -> None:
    good_models.write_openvino(model)
    xml = model / "1" / "model.xml"
    replaced(xml, b'size="8"', b'size="%d"' % (CLAIM * 4))
    replaced(xml, b'shape="2"', b'shape="%d"' % CLAIM)


def savedmodel_odd(model: pathlib.Path) -> None:
    import tensorflow as tf

    module = tf.Module()

    def odd(x: tf.Tensor) -> dict[str, tf.Tensor]:
        most = tf.reduce_max(x)
        times = tf.cast(tf.equal(most, MEMORY), tf.int64)
        total = tf.reduce_sum(tf.fill(tf.constant([EDGE] * 3, tf.int64) * times, 1.0))
        wrong = tf.cast(tf.equal(most, tf.constant([ROWS, DIMS], tf.float32)), tf.int32)
        return {"y": tf.tile(x, 1 + wrong) + total}

    module.odd = tf.function(odd, input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    path = str(model / "1" / "model.savedmodel")
    tf.saved_model.save(module, path, signatures={"serving_default": module.odd})


def savedmodel_operator(model: pathlib.Path) -> None:
    good_models.write_tensorflow(model)
    replaced(model / "1" / "model.savedmodel" / "saved_model.pb", b"\x12\x03Mul", b"\x12\x03Mal")


def graphdef_operator(model: pathlib.Path) -> None:
    good_models.write_graphdef(model)
    replaced(model / "1" / "model.graphdef", b"\x12\x03Mul", b"\x12\x03Mal")


def graphdef_claim(model: pathlib.Path) -> None:
    good_models.write_graphdef(model, CLAIM)


def caffe2_operator(model: pathlib.Path) -> None:
    good_models.write_caffe2(model)
    net = netdef.net([("Frobnicate", ["x"], ["y"], {})], ["x"], ["y"])
    (model / "1" / "model.netdef").write_bytes(net)


def caffe2_claim(model: pathlib.Path) -> None:
    good_models.write_caffe2(model)
    net = netdef.net([("ConstantFill", [], ["unused"], {"shape": [CLAIM]})])
    (model / "1" / "init_model.netdef").write_bytes(net)


def forest_operator(model: pathlib.Path) -> None:
    good_models.write_forest(model)
    replaced(model / "1" / "xgboost.json", b"reg:squarederror", b"reg:frobnicate")


def forest_claim(model: pathlib.Path) -> None:
    good_models.write_forest(model)
    replaced(model / "1" / "xgboost.json", b'"num_feature":"5"', b'"num_feature":"%d"' % CLAIM)
