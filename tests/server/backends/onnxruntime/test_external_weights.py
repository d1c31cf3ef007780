"""Weights in files of their own: what onnxruntime will not read is named before a session is made, and nothing else."""

import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from tests.server.config.model_folders import make_model, only, resolve
from tests.server.config.onnx_models import model, value

WEIGHTS = numpy_helper.from_array(np.zeros(64, np.float32), "w")


def test_weights_that_are_not_beside_the_model_are_named(tmp_path: pathlib.Path) -> None:
    proto = model([value("a", ["N", 2])], [value("y", ["N", 2])], initializers={"w": [1.0]})
    weight = proto.graph.initializer[0]
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="w.bin")
    folder = make_model(tmp_path, files={"1/model.onnx": proto})
    problem = only(resolve(folder))
    assert problem.path == folder / "1" / "model.onnx"
    assert problem.message == "the weights file 'w.bin' that this model names is not beside it"
    (folder / "1" / "w.bin").write_bytes(b"")
    assert resolve(folder).problems == ()


def with_weights(folder: pathlib.Path, location: str = "w.bin") -> pathlib.Path:
    """A model y = x + w in `<folder>/1`, with its weights in w.bin and the location as the model has it; gives the version's folder."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "g", [value("x", ["N", 64])], [value("y", ["N", 64])], [WEIGHTS],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    version = folder / "1"
    version.mkdir(parents=True)
    onnx.save_model(
        proto,
        version / "model.onnx",
        save_as_external_data=True,
        location="w.bin",
        size_threshold=0,
    )
    proto = onnx.load(version / "model.onnx", load_external_data=False)
    proto.graph.initializer[0].external_data[0].value = location
    onnx.save_model(proto, version / "model.onnx")
    return version


def linked(path: pathlib.Path, target: pathlib.Path) -> None:
    """Move a file there and leave a link."""
    target.parent.mkdir(exist_ok=True)
    path.rename(target)
    path.symlink_to(target)


def test_weights_that_a_link_leads_out_of_the_models_folder_are_named_as_onnxruntime_refuses_them(
    tmp_path: pathlib.Path,
) -> None:
    version = with_weights(tmp_path / "m")
    linked(version / "w.bin", tmp_path / "store" / "data")
    problem = only(resolve(tmp_path / "m"))
    assert problem.message == (
        f"the weights file 'w.bin' that this model names is '{tmp_path}/store/data', outside of '{version}': onnxruntime reads weights only below the "
        "folder of the model file: copy or hard-link the file into that folder under a name without '..', or make model.onnx a link to a file in "
        f"'{tmp_path}/store' as well"
    )
    assert not opens(version)


def test_weights_above_the_models_folder_are_named(tmp_path: pathlib.Path) -> None:
    version = with_weights(tmp_path / "m", "../w.bin")
    (version / "w.bin").rename(tmp_path / "m" / "w.bin")
    problem = only(resolve(tmp_path / "m"))
    assert f"the weights file '../w.bin' that this model names is '{tmp_path}/m/w.bin'" in (
        problem.message
    )
    assert not opens(version)


def test_weights_with_an_absolute_path_are_named(tmp_path: pathlib.Path) -> None:
    version = with_weights(tmp_path / "m", str(tmp_path / "m" / "1" / "w.bin"))
    assert "is an absolute path, which onnxruntime refuses" in only(resolve(tmp_path / "m")).message
    assert not opens(version)


def test_weights_that_onnxruntime_reads_are_accepted(tmp_path: pathlib.Path) -> None:
    """Both files are links into one folder, as in the cache of Hugging Face; a folder below; a link to there; the version is a link."""
    both = with_weights(tmp_path / "both")
    linked(both / "w.bin", tmp_path / "blobs" / "2")
    linked(both / "model.onnx", tmp_path / "blobs" / "1")
    below = with_weights(tmp_path / "below", "data/w.bin")
    linked(below / "w.bin", below / "data" / "w.bin")
    inside = with_weights(tmp_path / "inside")
    linked(inside / "w.bin", inside / "data" / "other")
    with_weights(tmp_path / "elsewhere")
    (tmp_path / "version").mkdir()
    (tmp_path / "version" / "1").symlink_to(tmp_path / "elsewhere" / "1")
    for name in ("both", "below", "inside", "version"):
        assert resolve(tmp_path / name).problems == ()
        assert opens(tmp_path / name / "1")


def opens(version: pathlib.Path) -> bool:
    """Whether onnxruntime makes a session of the model; if not, it is because of where its weights are."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    refused = ""
    try:
        onnxruntime.InferenceSession(
            version / "model.onnx", options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # noqa: BLE001 - onnxruntime has no common class for its errors
        refused = str(error)
    assert not refused or "External data path" in refused
    return not refused
