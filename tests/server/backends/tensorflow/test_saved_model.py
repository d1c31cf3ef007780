"""The signatures of a SavedModel, read without TensorFlow."""

import pathlib

import pytest

from naiad.backends.model_files.wire_format import ModelFileError
from naiad.backends.tensorflow.saved_model import Placeholder, read_nodes, read_signature
from naiad.core import datatypes
from tests.server.backends.tensorflow.saved_models import (
    COMPLEX64,
    FLOAT,
    STRING,
    graph_def,
    part,
    saved_model,
    signature,
    tensor,
    varint,
)

ADD = signature({"x": tensor("in:0", FLOAT, [-1, 2])}, {"y": tensor("out:0", STRING, None)})
OTHER = signature({}, {"z": tensor("z:0", COMPLEX64, [3])})


def test_tensors_are_those_of_the_signature(tmp_path: pathlib.Path) -> None:
    found = read_signature(saved_model(tmp_path / "m", {"serving_default": ADD, "other": OTHER}))
    assert found.key == "serving_default"
    assert set(found.tags) == {"serve"}
    (x,), (y,) = found.inputs, found.outputs
    assert (x.name, x.datatype, x.shape) == ("x", datatypes.FP32, (-1, 2))
    assert (y.name, y.datatype, y.shape) == ("y", datatypes.BYTES, None)
    assert (found.inputs_in_graph, found.outputs_in_graph) == ({"x": "in:0"}, {"y": "out:0"})


def test_a_signature_is_chosen_by_name(tmp_path: pathlib.Path) -> None:
    folder = saved_model(tmp_path / "m", {"serving_default": ADD, "other": OTHER})
    (z,) = read_signature(folder, signature="other").outputs
    assert (z.datatype, z.type_name) == (None, "DT_COMPLEX64")
    with pytest.raises(
        ModelFileError, match=r"expected 'third' signature; .* has other, serving_default"
    ):
        read_signature(folder, signature="third")


def test_without_the_usual_signature_another_one_is_served_but_none_for_training(
    tmp_path: pathlib.Path,
) -> None:
    folder = saved_model(tmp_path / "m", {"__saved_model_init_op": OTHER, "predict": ADD})
    assert read_signature(folder).key == "predict"
    folder = saved_model(tmp_path / "n", {"__saved_model_init_op": OTHER})
    with pytest.raises(ModelFileError, match="expected 'serving_default' signature"):
        read_signature(folder)


def test_a_graph_is_chosen_by_its_tag(tmp_path: pathlib.Path) -> None:
    folder = saved_model(tmp_path / "m", {"serving_default": ADD}, tags=["serve", "gpu"])
    assert read_signature(folder, tag="gpu").tags == {"serve", "gpu"}
    with pytest.raises(ModelFileError, match=r"expected 'train' tag; .* has gpu serve"):
        read_signature(folder, tag="train")


def test_a_file_that_is_not_whole_says_so(tmp_path: pathlib.Path) -> None:
    folder = saved_model(tmp_path / "m", {"serving_default": ADD})
    file = folder / "saved_model.pb"
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(
        ModelFileError, match=r"is cut off after .* bytes, or is not a SavedModel of TensorFlow"
    ):
        read_signature(folder)
    file.unlink()
    with pytest.raises(ModelFileError, match="unable to find"):
        read_signature(folder)


def test_placeholders_of_a_graph_may_be_inputs_and_all_other_nodes_outputs(
    tmp_path: pathlib.Path,
) -> None:
    nodes = read_nodes(graph_def(tmp_path / "g", {"A": "Placeholder", "SUM": "AddV2"}), model="m")
    assert (set(nodes.placeholders), set(nodes.others)) == ({"A"}, {"SUM"})
    with pytest.raises(ModelFileError, match="is empty"):
        read_nodes(graph_def(tmp_path / "h", {}), model="m")


def test_the_datatypes_of_placeholders_are_known_where_the_file_says_them(
    tmp_path: pathlib.Path,
) -> None:
    nodes = {"A": "Placeholder", "B": "Placeholder", "C": "Placeholder", "SUM": "AddV2"}
    path = graph_def(tmp_path / "g", nodes, {"A": 1, "B": 20, "SUM": 1})
    assert read_nodes(path, model="m").placeholders == {
        "A": Placeholder("TYPE_FP32"),
        "B": Placeholder("DT_RESOURCE"),
        "C": Placeholder(),
    }


def test_the_shapes_of_placeholders_are_known_where_the_file_says_them(
    tmp_path: pathlib.Path,
) -> None:
    def shape(*sizes: int) -> bytes:
        dims = b"".join(part(2, b"\x08" + varint(size % (1 << 64))) for size in sizes)
        return part(5, part(1, "shape") + part(2, part(7, dims)))

    path = tmp_path / "g"
    anyhow = part(5, part(1, "shape") + part(2, part(7, b"\x18\x01")))
    nodes = {"A": shape(-1, 2), "B": shape(), "C": anyhow, "D": b""}
    path.write_bytes(
        b"".join(
            part(1, part(1, name) + part(2, "Placeholder") + more) for name, more in nodes.items()
        )
    )
    found = read_nodes(path, model="m").placeholders
    assert {name: each.shape for name, each in found.items()} == {
        "A": (-1, 2),
        "B": None,
        "C": None,
        "D": None,
    }
