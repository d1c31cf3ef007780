"""Batches through an ONNX model (section 16): tensors in and out, shapes, text, errors."""

import json
import pathlib
from typing import Any

import magika_features
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from naiad.core import datatypes
from naiad.core.clock import ManualClock
from naiad.core.datatypes import DataType
from naiad.core.inference import Inference
from naiad.core.tensor import Tensor
from naiad.errors import ErrorCode, FailureReason, InferenceError
from tests.server.backends.configs import (
    Instance,
    inference,
    model_config,
    run,
    spec,
    tensor,
    values,
    with_sequences,
)
from tests.server.backends.graphs import (
    ACCUMULATE,
    ADD_CONFIG,
    add,
    instance_of,
    value,
    write_accumulate,
    write_add,
    write_graph,
)

ELEMENTS = {
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BF16": TensorProto.BFLOAT16,
    "BYTES": TensorProto.STRING,
}


def accumulate(folder: pathlib.Path, **more: Any) -> Instance:
    config = model_config(
        inputs=[spec("INPUT", datatypes.FP32, (1,))],
        outputs=[spec("OUTPUT", datatypes.FP32, (1,))],
        **more,
    )
    folder = write_accumulate(folder, batched=config.max_batch_size > 0)
    return instance_of(folder, with_sequences(config, ACCUMULATE))


def step(value: float, *, start: bool = False, state: float = 0, **more: Any) -> Inference:
    return inference(
        tensor("INPUT", [[value]], datatypes.FP32),
        tensor("START", [[int(start)]], datatypes.INT32),
        tensor("STATE_IN", [[state]], datatypes.FP32),
        **more,
    )


def test_what_a_sequence_batcher_adds_goes_in_and_its_states_come_back(
    tmp_path: pathlib.Path,
) -> None:
    instance = accumulate(tmp_path)
    assert list(map(values, run(instance, step(1, start=True, state=7), step(2, state=5)))) == [
        {"OUTPUT": [[1.0]], "STATE_OUT": [[1.0]]},
        {"OUTPUT": [[7.0]], "STATE_OUT": [[7.0]]},
    ]
    only = run(instance, step(2, state=3, outputs=["STATE_OUT"]))
    assert [values(response) for response in only] == [{"STATE_OUT": [[5.0]]}]


def test_a_model_without_batches_has_controls_and_states_of_one_dimension(
    tmp_path: pathlib.Path,
) -> None:
    instance = accumulate(tmp_path, max_batch_size=0)
    request = inference(
        tensor("INPUT", [2], datatypes.FP32),
        tensor("START", [0], datatypes.INT32),
        tensor("STATE_IN", [3], datatypes.FP32),
        rows=1,
    )
    assert values(run(instance, request)[0]) == {"OUTPUT": [5.0], "STATE_OUT": [5.0]}


def identity(
    folder: pathlib.Path, datatype: DataType, dims: tuple[int, ...] = (2,), **more: Any
) -> Instance:
    """OUT = IN of one datatype."""
    element = ELEMENTS[datatype.name]
    shape = ["n", *(f"d{i}" if dim < 0 else dim for i, dim in enumerate(dims))]
    write_graph(
        folder,
        [helper.make_node("Identity", ["IN"], ["OUT"])],
        [value("IN", shape, element)],
        [value("OUT", shape, element)],
    )
    config = model_config(
        inputs=[spec("IN", datatype, dims)], outputs=[spec("OUT", datatype, dims)], **more
    )
    return instance_of(folder, config)


@pytest.mark.parametrize("datatype", datatypes.ALL, ids=lambda each: each.name)
@pytest.mark.parametrize("sizes", [(1,), (1, 2)])
def test_every_datatype_goes_in_and_comes_out(
    tmp_path: pathlib.Path, datatype: DataType, sizes: tuple[int, ...]
) -> None:
    sample = [b"", "é\0x".encode()] if datatype is datatypes.BYTES else [0, 1]
    instance = identity(tmp_path, datatype)
    batch = [inference(tensor("IN", [sample] * size, datatype)) for size in sizes]
    for size, response in zip(sizes, run(instance, *batch), strict=True):
        assert response.error is None
        (out,) = response.outputs
        assert out.datatype is datatype
        assert out.array.dtype == datatype.dtype
        assert out.shape == out.array.shape == (size, 2)
        assert out.array.tolist() == [sample] * size


def test_a_batch_is_split_into_each_requests_rows(tmp_path: pathlib.Path) -> None:
    instance = instance_of(write_add(tmp_path), ADD_CONFIG)
    first, second = run(
        instance,
        add([[1, 2]], [[10, 20]], request_id="one"),
        add([[3, 4], [5, 6]], [[30, 40], [50, 60]], request_id="two"),
    )
    assert (first.id, first.model_name, first.model_version) == ("one", "m", 1)
    assert values(first) == {"SUM": [[11, 22]], "DIFFERENCE": [[-9, -18]]}
    assert values(second) == {
        "SUM": [[33, 44], [55, 66]],
        "DIFFERENCE": [[-27, -36], [-45, -54]],
    }


def test_parts_of_a_batch_are_views_and_not_copies(tmp_path: pathlib.Path) -> None:
    instance = instance_of(write_add(tmp_path), ADD_CONFIG)
    first, second = run(instance, add([[1, 2]], [[1, 2]]), add([[1, 2]], [[1, 2]]))
    assert first.outputs[0].array.base is second.outputs[0].array.base is not None


def test_each_request_gets_the_outputs_that_it_asked_for_by_name(tmp_path: pathlib.Path) -> None:
    instance = instance_of(write_add(tmp_path), ADD_CONFIG)
    one = [[1, 1]]
    some, everything = run(instance, add(one, one, outputs=["DIFFERENCE"]), add(one, one))
    assert list(values(some)) == ["DIFFERENCE"]
    assert list(values(everything)) == ["DIFFERENCE", "SUM"]
    both = ["SUM", "DIFFERENCE"]
    (asked,) = run(instance, add(one, one, outputs=both))
    assert values(asked) == {"DIFFERENCE": [[0, 0]], "SUM": [[2, 2]]}
    assert list(values(asked)) == ["DIFFERENCE", "SUM"]


def test_a_request_may_lie_at_any_address(tmp_path: pathlib.Path) -> None:
    body = b"?" + np.array([[1, 2]], np.float32).tobytes()
    odd = np.frombuffer(body, np.float32, offset=1).reshape(1, 2)
    assert not odd.flags.aligned
    instance = instance_of(write_add(tmp_path), ADD_CONFIG)
    tensors = [Tensor(name, datatypes.FP32, (1, 2), odd) for name in ("A", "B")]
    assert values(run(instance, inference(*tensors))[0])["SUM"] == [[2, 4]]


def test_free_dimensions_take_any_size(tmp_path: pathlib.Path) -> None:
    instance = identity(tmp_path, datatypes.INT32, (-1, 3))
    for width in (1, 0, 5):
        shape = (2, width, 3)
        array = np.arange(2 * width * 3, dtype=np.int32).reshape(shape)
        (answer,) = run(instance, inference(tensor("IN", array)))
        assert answer.outputs[0].shape == shape
        assert (answer.outputs[0].array == array).all()


def test_text_that_is_not_utf8_fails_its_own_request_alone(tmp_path: pathlib.Path) -> None:
    instance = identity(tmp_path, datatypes.BYTES)
    good, bad, last = run(
        instance,
        inference(tensor("IN", [[b"a", b"b"]], datatypes.BYTES)),
        inference(tensor("IN", [[b"a", b"\xff"]], datatypes.BYTES), request_id="7"),
        inference(tensor("IN", [[b"c", b"d"]], datatypes.BYTES)),
    )
    assert values(good) == {"OUT": [[b"a", b"b"]]}
    assert values(last) == {"OUT": [[b"c", b"d"]]}
    assert bad.error is not None
    assert bad.error.code is ErrorCode.INVALID_ARG
    assert "element 1 of input 'IN' is not UTF-8" in bad.error.message
    assert (bad.id, bad.outputs) == ("7", [])


def test_a_batch_of_nothing_but_bad_text_does_not_run(tmp_path: pathlib.Path) -> None:
    instance = identity(tmp_path, datatypes.BYTES)
    (answer,) = run(instance, inference(tensor("IN", [[b"\xff", b""]], datatypes.BYTES)))
    assert answer.error is not None


def test_reshape_is_undone_on_the_way_out(tmp_path: pathlib.Path) -> None:
    """Clients see [2, -1, 2]; the model [4, -1], its free dimension twice as long."""
    write_graph(
        tmp_path,
        [helper.make_node("Identity", ["IN"], ["OUT"])],
        [value("IN", ["n", 4, "w"])],
        [value("OUT", ["n", 4, "w"])],
    )
    dims = {"dims": (2, -1, 2), "reshape": (4, -1)}
    config = model_config(
        inputs=[spec("IN", datatypes.FP32, **dims)], outputs=[spec("OUT", datatypes.FP32, **dims)]
    )
    instance = instance_of(tmp_path, config)
    array = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    (answer,) = run(instance, inference(tensor("IN", array)))
    assert answer.outputs[0].shape == (2, 2, 3, 2)
    assert answer.outputs[0].array.ravel().tolist() == list(range(24))


def test_a_reshape_to_nothing_gives_a_vector_of_the_batch(tmp_path: pathlib.Path) -> None:
    write_graph(
        tmp_path,
        [helper.make_node("Neg", ["IN"], ["OUT"])],
        [value("IN", ["n"])],
        [value("OUT", ["n"])],
    )
    config = model_config(
        inputs=[spec("IN", datatypes.FP32, (1,), reshape=())],
        outputs=[spec("OUT", datatypes.FP32, (1,), reshape=())],
    )
    instance = instance_of(tmp_path, config)
    first, second = run(
        instance,
        inference(tensor("IN", [1], datatypes.FP32)),
        inference(tensor("IN", [2, 3], datatypes.FP32)),
    )
    assert values(first) == {"OUT": [[-1]]}
    assert values(second) == {"OUT": [[-2], [-3]]}


def test_scalars_are_one_element_to_clients_and_none_to_the_model(tmp_path: pathlib.Path) -> None:
    """WRAPPED has one dimension more than what the model sees of IN: that is, one."""
    write_graph(
        tmp_path,
        [
            helper.make_node("Neg", ["IN"], ["OUT"]),
            helper.make_node("Unsqueeze", ["IN", "axes"], ["WRAPPED"]),
        ],
        [value("IN", [])],
        [value("OUT", []), value("WRAPPED", [1])],
        initializer=[numpy_helper.from_array(np.array([0]), "axes")],
    )
    config = model_config(
        inputs=[spec("IN", datatypes.FP32, (1,))],
        outputs=[spec("OUT", datatypes.FP32, (1,)), spec("WRAPPED", datatypes.FP32, (1,))],
        max_batch_size=0,
    )
    instance = instance_of(tmp_path, config)
    (answer,) = run(instance, inference(tensor("IN", [2], datatypes.FP32), rows=1))
    assert values(answer) == {"OUT": [-2], "WRAPPED": [2]}
    assert answer.outputs[0].shape == (1,)


def test_a_tensor_of_unknown_rank_takes_any_shape(tmp_path: pathlib.Path) -> None:
    """A session describes it as it describes a scalar; only the file tells them apart."""
    write_graph(
        tmp_path,
        [helper.make_node("Neg", ["IN"], ["OUT"])],
        [value("IN", None)],
        [value("OUT", None)],
    )
    config = model_config(
        inputs=[spec("IN", datatypes.FP32, (2, -1))],
        outputs=[spec("OUT", datatypes.FP32, (2, -1))],
    )
    instance = instance_of(tmp_path, config)
    (answer,) = run(instance, inference(tensor("IN", [[[1, 2], [3, 4]]], datatypes.FP32)))
    assert values(answer) == {"OUT": [[[-1, -2], [-3, -4]]]}


def test_an_initialiser_may_be_given_or_left_out(tmp_path: pathlib.Path) -> None:
    write_graph(
        tmp_path,
        [helper.make_node("Add", ["A", "W"], ["OUT"])],
        [value("A", [2]), value("W", [2])],
        [value("OUT", [2])],
        initializer=[numpy_helper.from_array(np.array([10, 20], np.float32), "W")],
    )
    config = model_config(
        inputs=[
            spec("A", datatypes.FP32, (2,)),
            spec("W", datatypes.FP32, (2,), optional=True),
        ],
        outputs=[spec("OUT", datatypes.FP32, (2,))],
        max_batch_size=0,
    )
    instance = instance_of(tmp_path, config)
    a = tensor("A", [1, 2], datatypes.FP32)
    assert values(run(instance, inference(a, rows=1))[0]) == {"OUT": [11, 22]}
    w = tensor("W", [0, 0], datatypes.FP32)
    assert values(run(instance, inference(a, w, rows=1))[0]) == {"OUT": [1, 2]}


def reshaper(folder: pathlib.Path, *, max_batch_size: int) -> Instance:
    """OUT = IN in the shape that the request's own TARGET says, though the graph promises IN's shape."""
    write_graph(
        folder,
        [helper.make_node("Reshape", ["IN", "TARGET"], ["OUT"])],
        [value("IN", ["n", 4]), value("TARGET", ["k"], TensorProto.INT64)],
        [value("OUT", ["n", 4])],
    )
    if max_batch_size:
        dims: tuple[int, ...] = (4,)
        target = spec("TARGET", datatypes.INT64, (1,), reshape=())
    else:
        dims = (-1, 4)
        target = spec("TARGET", datatypes.INT64, (-1,))
    config = model_config(
        inputs=[spec("IN", datatypes.FP32, dims), target],
        outputs=[spec("OUT", datatypes.FP32, dims)],
        max_batch_size=max_batch_size,
    )
    return instance_of(folder, config)


def reshape_to(target: list[int]) -> Inference:
    return inference(
        tensor("IN", [[1, 2, 3, 4], [5, 6, 7, 8]], datatypes.FP32),
        tensor("TARGET", target, datatypes.INT64),
    )


def test_an_output_of_another_batch_size_fails_the_batch_and_says_so(
    tmp_path: pathlib.Path,
) -> None:
    instance = reshaper(tmp_path, max_batch_size=8)
    assert run(instance, reshape_to([2, 4]))[0].error is None
    with pytest.raises(InferenceError) as caught:
        run(instance, reshape_to([4, 2]))
    assert caught.value.code is ErrorCode.INTERNAL
    assert caught.value.reason is FailureReason.BACKEND
    assert (
        "failed to split the output tensor 'OUT' in responses: expected batch size of 2 in model output, got 4"
        in caught.value.message
    )


def test_an_output_of_another_shape_than_its_config_fails_the_batch(tmp_path: pathlib.Path) -> None:
    instance = reshaper(tmp_path, max_batch_size=0)
    assert run(instance, reshape_to([2, 4]))[0].error is None
    with pytest.raises(InferenceError) as caught:
        run(instance, reshape_to([4, 2]))
    assert "unexpected shape of output 'OUT' for model 'm'" in caught.value.message
    assert "the model gave [4, 2], its config says [-1, 4]" in caught.value.message


def test_a_run_that_fails_gives_onnxruntimes_reason_first(tmp_path: pathlib.Path) -> None:
    instance = reshaper(tmp_path, max_batch_size=0)
    with pytest.raises(InferenceError) as caught:
        run(instance, reshape_to([3, 5]))
    assert caught.value.code is ErrorCode.INTERNAL
    assert caught.value.reason is FailureReason.BACKEND
    assert caught.value.message.startswith("[ONNXRuntimeError]")
    assert "model 'm', instance 'm_0_0'" in caught.value.message


def test_the_moments_of_a_run_come_from_the_clock(tmp_path: pathlib.Path) -> None:
    clock = ManualClock(now_ns=5)
    instance = instance_of(write_add(tmp_path), ADD_CONFIG, clock=clock)
    execution = instance.execute([add([[1, 2]], [[1, 2]])])
    assert (execution.input_end_ns, execution.output_start_ns) == (5, 5)


EXAMPLES = pathlib.Path(__file__).parents[4] / "examples" / "model_repository"


def test_magika_tells_file_types_apart(tmp_path: pathlib.Path) -> None:
    folder = EXAMPLES / "magika" / "1"
    labels = magika_features.labels(EXAMPLES)
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model.onnx").write_bytes((folder / "model.onnx").read_bytes())
    config = model_config(
        inputs=[spec("bytes", datatypes.INT32, (2048,))],
        outputs=[spec("target_label", datatypes.FP32, (len(labels),))],
    )
    instance = instance_of(tmp_path, config)
    samples = {
        "python": pathlib.Path(__file__).read_bytes(),
        "json": json.dumps({"names": [f"value {i}" for i in range(200)]}, indent=2).encode(),
        "onnx": (folder / "model.onnx").read_bytes(),
    }
    answers = run(
        instance,
        *(
            inference(tensor("bytes", [magika_features.features(sample)], datatypes.INT32))
            for sample in samples.values()
        ),
    )
    best = [labels[int(answer.outputs[0].array.argmax())] for answer in answers]
    assert best == list(samples)
