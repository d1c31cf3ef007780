"""A Caffe2 model's config: what is filled in, and what `naiad check` and a load say of it, in the same words."""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from naiad.backends.backend import ModelSource
from naiad.backends.caffe2.backend import Caffe2Backend
from naiad.backends.caffe2.preflight import preflight
from naiad.backends.catalog import Catalog
from naiad.backends.instance import InstanceSpec
from naiad.backends.onnxruntime.backend import OnnxRuntimeBackend
from naiad.config.document import Document
from naiad.config.model_config import InstanceKind
from naiad.config.resolving.resolve import Resolution, resolve
from naiad.core import datatypes
from naiad.core.clock import ManualClock
from naiad.errors import InferenceError
from tests.server.backends.configs import Instance, Loaded, inference, run, tensor, values
from tests.support.netdef import Op, net, write

OPS: list[Op] = [
    ("FC", ("data", "w", "b"), ("fc",), {}),
    ("Relu", ("fc",), ("fc",), {}),
    ("Copy", ("fc",), ("y",), {}),
]
BLOBS = {"w": np.array([[1, 2], [0, -1], [3, 0]], np.float32), "b": np.array([0, 1, 0], np.float32)}
INPUT = 'input { name: "data" data_type: TYPE_FP32 dims: 2 }'
SPEC = InstanceSpec(name="m_0_0", kind=InstanceKind.CPU, device_id=0)


def model(folder: pathlib.Path, config: str, ops: Sequence[Op] = OPS, **more: Any) -> pathlib.Path:
    """Y = relu(w data + b) in `<folder>/m`."""
    write(folder / "m" / "1", ops, ["data"], ["y"], BLOBS, **more)
    (folder / "m" / "config.pbtxt").write_text(config)
    return folder / "m"


def resolved(folder: pathlib.Path, config: str, ops: Sequence[Op] = OPS, **more: Any) -> Resolution:
    return resolve(model(folder, config, ops, **more), backends=Catalog())


def problems(resolution: Resolution) -> str:
    return "; ".join(
        ": ".join(filter(None, (each.message, each.suggestion))) for each in resolution.problems
    )


def load(folder: pathlib.Path) -> Loaded:
    config = resolve(folder, backends=Catalog()).config
    assert config is not None
    source = ModelSource(config=config, version=1, model_dir=folder, options={})
    backend = Caffe2Backend(OnnxRuntimeBackend(clock=ManualClock()))
    return Loaded(backend.load(source), config)


def test_the_file_says_the_backend_and_the_net_the_outputs(tmp_path: pathlib.Path) -> None:
    found = resolved(tmp_path, f"max_batch_size: 8 {INPUT}")
    assert not found.problems
    assert found.config is not None
    assert (found.config.backend, found.config.message.platform) == ("caffe2", "caffe2_netdef")
    (output,) = found.config.outputs
    assert (output.name, output.datatype, output.dims) == ("y", datatypes.FP32, (3,))
    assert found.config.max_batch_size == 8


def test_a_net_without_external_inputs_has_those_that_it_reads_first(
    tmp_path: pathlib.Path,
) -> None:
    folder = model(tmp_path, f"max_batch_size: 8 {INPUT}")
    (folder / "1" / "model.netdef").write_bytes(net(OPS, outputs=["y"]))
    (answer,) = run(instance_of(folder), inference(tensor("data", [[1, 1]], datatypes.FP32)))
    assert values(answer) == {"y": [[3.0, 0.0, 3.0]]}
    (folder / "config.pbtxt").write_text(f"max_batch_size: 8 {INPUT.replace('data', 'Data', 1)}")
    said = problems(resolve(folder, backends=Catalog()))
    assert 'add input { name: "data" data_type: … dims: [ … ] }' in said


def test_without_batches_the_dims_are_whole(tmp_path: pathlib.Path) -> None:
    whole = INPUT.replace("dims: 2", "dims: [ 4, 2 ]")
    found = resolved(tmp_path, f'platform: "caffe2_netdef" {whole}')
    assert not found.problems
    assert found.config is not None
    assert found.config.outputs[0].dims == (4, 3)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            "max_batch_size: 8",
            'the config has to list the inputs: add input { name: "data" data_type: … dims: [ … ] } with the datatype',
        ),
        (
            'max_batch_size: 8 input { name: "date" data_type: TYPE_FP32 dims: 2 } output { name: "y" data_type: TYPE_FP32 dims: 3 }',
            "the net needs the inputs 'data', the configuration lists 'date': add input { name: \"data\"",
        ),
        (
            f'max_batch_size: 8 {INPUT} output {{ name: "z" data_type: TYPE_FP32 dims: 3 }}',
            "unexpected inference output 'z', allowed outputs are: y",
        ),
        (
            f'max_batch_size: 8 {INPUT} output {{ name: "y" data_type: TYPE_INT32 dims: 3 }}',
            "configuration expects datatype TYPE_INT32 for output 'y', model provides TYPE_FP32: write data_type: TYPE_FP32",
        ),
        (
            f'max_batch_size: 8 {INPUT} output {{ name: "y" data_type: TYPE_FP32 dims: 4 }}',
            "config says dims [4] after the batch dimension, the graph says [?, 3]: 4 is not 3: write dims: [3]",
        ),
        (
            f'max_batch_size: 8 {INPUT.replace("dims: 2", "dims: 5")}',
            "(FC -> 'fc') has weights for 2 inputs, and gets 5 from the shape [-1, 5]",
        ),
        (
            f'max_batch_size: 8 {INPUT.replace("FP32", "STRING")}',
            "unsupported datatype TYPE_STRING for input 'data' for model 'm'",
        ),
    ],
)  # fmt: skip
def test_a_config_that_does_not_fit_its_net(tmp_path: pathlib.Path, config: str, said: str) -> None:
    assert said in problems(resolved(tmp_path, config))


def test_a_net_with_a_number_of_rows_of_its_own_takes_no_batches(tmp_path: pathlib.Path) -> None:
    ops = [*OPS[:2], ("Reshape", ("fc",), ("y", "old"), {"shape": [1, 3]})]
    found = problems(resolved(tmp_path, f"max_batch_size: 8 {INPUT}", ops))
    assert "the first dimension must be -1; but shape expected by the model is [1, 3]" in found


def test_check_and_load_name_the_same_operators(tmp_path: pathlib.Path) -> None:
    ops = [*OPS, ("Mystery", ("fc",), ("q",), {})]
    folder = model(tmp_path, f"max_batch_size: 8 {INPUT}")
    config = resolve(folder, backends=Catalog()).config
    assert config is not None
    checked = problems(resolved(tmp_path, f"max_batch_size: 8 {INPUT}", ops))
    said = (
        f"unable to load model 'm': '{folder}/1/model.netdef' cannot be translated: "
        "operator 3 of model.netdef (Mystery -> 'q') is not in the table of operators. Mystery: export the model to ONNX by the framework that trained it, or compute them in a Python model, as a "
        "step of an ensemble"
    )
    assert checked == said
    source = ModelSource(config=config, version=1, model_dir=folder, options={})
    with pytest.raises(InferenceError) as caught:
        Caffe2Backend(OnnxRuntimeBackend(clock=ManualClock())).load(source)
    assert caught.value.message == said


def test_settings_are_those_of_onnxruntime(tmp_path: pathlib.Path) -> None:
    wrong = 'parameters { key: "execution_mode" value { string_value: "2" } }'
    config = resolved(tmp_path, f"max_batch_size: 8 {INPUT} {wrong}").config
    assert config is not None
    document = Document(path=tmp_path, text="", message=config.message, positions={}, problems=())
    (problem,) = preflight(
        config,
        document=document,
        model_dir=tmp_path / "m",
        versions=[1],
        options={},
        host="thread",
    )
    assert "Expected values for execution_mode are 0 or 1 but got 2" in problem.message
    with pytest.raises(InferenceError) as caught:
        load(tmp_path / "m")
    assert caught.value.message == problem.message


def test_the_init_net_of_another_file_name(tmp_path: pathlib.Path) -> None:
    folder = model(
        tmp_path, f'max_batch_size: 8 {INPUT} default_model_filename: "net.pb" backend: "caffe2"'
    )
    for name in ("", "init_"):
        (folder / "1" / f"{name}model.netdef").rename(folder / "1" / f"{name}net.pb")
    assert not resolve(folder, backends=Catalog()).problems


def test_what_onnxruntime_refuses_is_said_with_the_operator(tmp_path: pathlib.Path) -> None:
    config = 'max_batch_size: 4 input { name: "data" data_type: TYPE_INT32 dims: 2 }'
    folder = model(tmp_path, config, [("Elu", ("data",), ("y",), {})])
    with pytest.raises(InferenceError) as caught:
        load(folder)
    said = caught.value.message
    assert said.startswith(
        f"unable to load model 'm': onnxruntime refuses what '{folder}/1/model.netdef' was translated to: "
    )
    assert "operator 0 of model.netdef (Elu -> 'y')" in said
    assert "/proc/" not in said


def instance_of(folder: pathlib.Path) -> Instance:
    return load(folder).make_instance(SPEC)


def test_a_batch_is_split_into_its_requests(tmp_path: pathlib.Path) -> None:
    instance = instance_of(model(tmp_path, f"max_batch_size: 8 {INPUT}"))
    one, two = run(
        instance,
        inference(tensor("data", [[1, 1]], datatypes.FP32)),
        inference(tensor("data", [[0, 2], [-1, 0]], datatypes.FP32)),
    )
    assert values(one) == {"y": [[3.0, 0.0, 3.0]]}
    assert values(two) == {"y": [[4.0, 0.0, 0.0], [0.0, 1.0, 0.0]]}


def test_the_dims_that_are_filled_in_are_those_of_the_load(tmp_path: pathlib.Path) -> None:
    # The runtime does not work out the shape of this output by itself.
    config = 'max_batch_size: 8 input { name: "data" data_type: TYPE_FP32 dims: [ 5, 2 ] }'
    folder = model(tmp_path, config, [("FC", ("data", "w", "b"), ("y",), {"axis": 2})])
    resolution = resolve(folder, backends=Catalog())
    assert resolution.config is not None
    assert [list(each.dims) for each in resolution.config.message.output] == [[5, 3]]
    (answer,) = run(
        instance_of(folder), inference(tensor("data", [[[1, 1]] * 5] * 3, datatypes.FP32))
    )
    assert values(answer) == {"y": [[[3.0, 0.0, 3.0]] * 5] * 3}


def test_instances_on_the_cpu_share_one_session_and_the_translation_is_gone(
    tmp_path: pathlib.Path,
) -> None:
    before = set(pathlib.Path("/proc/self/fd").iterdir())
    loaded = load(
        model(tmp_path, f"max_batch_size: 8 {INPUT} instance_group {{ count: 3 kind: KIND_CPU }}")
    )
    made = [loaded.make_instance(SPEC) for _ in range(3)]
    for instance in made:
        (response,) = run(instance, inference(tensor("data", [[1, 1]], datatypes.FP32)))
        assert values(response) == {"y": [[3.0, 0.0, 3.0]]}
    assert set(pathlib.Path("/proc/self/fd").iterdir()) == before


def test_a_load_that_fails_leaves_no_file_open(tmp_path: pathlib.Path) -> None:
    folder = model(tmp_path, f"max_batch_size: 8 {INPUT}")
    config = resolve(folder, backends=Catalog()).config
    assert config is not None
    (folder / "1" / "init_model.netdef").write_bytes(b"gone")
    before = set(pathlib.Path("/proc/self/fd").iterdir())
    source = ModelSource(config=config, version=1, model_dir=folder, options={})
    with pytest.raises(
        InferenceError, match=r"init_model.netdef' is not a NetDef of Caffe2 \(the init net, which"
    ):
        Caffe2Backend(OnnxRuntimeBackend(clock=ManualClock())).load(source)
    assert set(pathlib.Path("/proc/self/fd").iterdir()) == before
