"""Batches on a made-up TensorRT and a made-up CUDA, whose streams run nothing before the host waits for them."""

import pathlib
import sys
from typing import Any

import numpy as np
import pytest

from naiad.backends import device_errors
from naiad.core import datatypes
from naiad.core.datatypes import DataType
from naiad.errors import ErrorCode, InferenceError
from tests.server.backends.configs import inference, run, tensor, values
from tests.server.backends.tensorrt.models import GPU, Model
from tests.support.made_up_gpu import plans

TWO = """max_batch_size: 8
input { name: "X" data_type: TYPE_FP32 dims: 4 } output { name: "Y" data_type: TYPE_FP32 dims: 4 }
"""
SHAPES = """max_batch_size: 8
input { name: "D" data_type: TYPE_FP32 dims: 2 } input { name: "S" data_type: TYPE_INT32 dims: 2 is_shape_tensor: true }
output { name: "Y" data_type: TYPE_FP32 dims: [ -1, -1 ] } output { name: "T" data_type: TYPE_INT64 dims: 2 is_shape_tensor: true }
"""


def rows(count: int, start: float = 0) -> Any:
    return np.arange(start, start + 4 * count, dtype=np.float32).reshape(count, 4)


def test_a_batch_is_gathered_run_and_split(tmp_path: pathlib.Path, cuda: Any) -> None:
    with Model(tmp_path, plans.doubling(), TWO) as model:
        (instance,) = model.instances
        for start in (0, 100):
            one, two = rows(1, start), rows(3, start + 50)
            answers = run(instance, inference(tensor("X", one)), inference(tensor("X", two)))
            assert [values(each)["Y"] for each in answers] == [
                (one * 2).tolist(),
                (two * 2).tolist(),
            ]
        copies = [size for what, size in cuda.log if what == "copy"]
    assert copies == [64, 64] * 2, "one copy of 4 rows in and one out for each batch"
    assert (cuda.allocated, cuda.open) == (0, 0)


def test_shape_tensors_reach_the_model_behind_the_rows_of_the_batch(
    tmp_path: pathlib.Path, cuda: Any
) -> None:
    def asks(count: int) -> Any:
        ones = np.ones((count, 2), np.float32)
        return inference(tensor("D", ones), tensor("S", [4, 6], datatypes.INT32), rows=count)

    with Model(tmp_path, plans.shape_tensors(), SHAPES) as model:
        answers = run(model.instances[0], asks(1), asks(2), asks(1))
        shapes = [
            (answer.outputs[0].array.shape, values(answer)["T"], values(answer)["Y"][0][0][0])
            for answer in answers
        ]
        with pytest.raises(
            InferenceError,
            match="The shape value at index 2 is expected to be in range from 1 to 32, Got: 33",
        ):
            run(
                model.instances[0],
                inference(
                    tensor("D", np.ones((1, 2), np.float32)),
                    tensor("S", [4, 33], datatypes.INT32),
                    rows=1,
                ),
            )
    assert shapes == [
        ((1, 4, 6), [[4, 6]], 4),
        ((2, 4, 6), [[4, 6]] * 2, 4),
        ((1, 4, 6), [[4, 6]], 4),
    ]


def test_an_output_may_have_a_shape_that_follows_from_values(
    tmp_path: pathlib.Path, cuda: Any
) -> None:
    config = """input { name: "X" data_type: TYPE_FP32 dims: -1 } output { name: "I" data_type: TYPE_INT64 dims: -1 }"""
    with Model(tmp_path, plans.nonzero(), config) as model:
        for given, expected in (([0, 3, 0, 1], [1, 3]), ([1] * 16, list(range(16))), ([0, 0], [])):
            (answer,) = run(
                model.instances[0], inference(tensor("X", np.array(given, np.float32)), rows=1)
            )
            assert values(answer)["I"] == expected
    assert cuda.allocated == 0


@pytest.mark.parametrize(
    ("name", "datatype"),
    [
        ("FLOAT", datatypes.FP32),
        ("HALF", datatypes.FP16),
        ("BF16", datatypes.BF16),
        ("INT8", datatypes.INT8),
        ("UINT8", datatypes.UINT8),
        ("INT32", datatypes.INT32),
        ("INT64", datatypes.INT64),
        ("BOOL", datatypes.BOOL),
    ],
)
def test_datatypes(tmp_path: pathlib.Path, cuda: Any, name: str, datatype: DataType) -> None:
    config = TWO.replace("TYPE_FP32", datatype.config_name)
    given = [[1, 0, 3, 2]]
    with Model(tmp_path, plans.doubling(dtype=name), config) as model:
        (answer,) = run(model.instances[0], inference(tensor("X", given, datatype)))
    expected = [[False, True, False, False]] if name == "BOOL" else [[2, 0, 6, 4]]
    assert answer.outputs[0].array.astype(object).tolist() == expected


POLICY = """optimization { priority: PRIORITY_MAX cuda { graphs: true busy_wait_events: true output_copy_stream: true
graph_spec { batch_size: 4 input { key: "X" value { dim: 4 } } graph_lower_bound { batch_size: 3 input { key: "X" value { dim: 4 } } } } }
input_pinned_memory { enable: false } output_pinned_memory { enable: false } }
"""


def test_graphs_priorities_and_streams_of_copies(tmp_path: pathlib.Path, cuda: Any) -> None:
    with Model(tmp_path, plans.doubling(), TWO + POLICY) as model:
        (instance,) = model.instances
        launched: list[int] = []
        for count in (4, 3, 2, 8, 3):
            before = [what for what, _ in cuda.log].count("launch")
            given = rows(count, count)
            execution = instance.execute([inference(tensor("X", given))])
            (answer,) = execution.responses
            assert answer is not None
            assert values(answer)["Y"] == (given * 2).tolist()
            launched.append([what for what, _ in cuda.log].count("launch") - before)
            assert execution.padding_rows == (1 if count == 3 else 0)
    assert launched == [1, 1, 0, 0, 1], "3 and 4 rows run in the graph of 4"
    assert [value for what, value in cuda.log if what == "create_stream"] == [-5, -5]
    assert {value for what, value in cuda.log if what == "create_event"} == {0}, "none sleeps"
    assert "wait_for" in {what for what, _ in cuda.log}, "outputs wait for the computation"
    assert (cuda.allocated, cuda.open) == (0, 0)


def test_a_batch_runs_in_its_profile(tmp_path: pathlib.Path, cuda: Any) -> None:
    plan = plans.plan(
        [plans.tensor("X", [-1, -1]), plans.tensor("Y", [-1, -1], value="X + 1")],
        [
            plans.profile(X=[[1, 1], [2, 4], [4, 8]]),
            plans.profile(X=[[1, 8], [4, 64], [8, 64]]),
        ],
    )
    config = TWO.replace("dims: 4", "dims: -1") + GPU.replace("}", 'profile: [ "0", "1" ] }')
    with Model(tmp_path, plan, config) as model:
        (instance,) = model.instances
        for shape in ((1, 4), (8, 64), (4, 8), (5, 30), (1, 4)):
            given = np.full(shape, 7, np.float32)
            (answer,) = run(instance, inference(tensor("X", given)))
            assert values(answer)["Y"] == (given + 1).tolist()
        with pytest.raises(
            InferenceError, match="request specifies invalid shape for input 'X' for m_0_0"
        ):
            run(instance, inference(tensor("X", np.zeros((5, 4), np.float32))))


def test_instances_on_a_device_share_the_engine(
    tmp_path: pathlib.Path, cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorrt  # noqa: PLC0415 - the made-up one

    made: list[bytes] = []
    deserialize = tensorrt.Runtime.deserialize_cuda_engine

    def counted(runtime: Any, serialized_engine: bytes) -> Any:
        made.append(serialized_engine)
        return deserialize(runtime, serialized_engine)

    monkeypatch.setattr(tensorrt.Runtime, "deserialize_cuda_engine", counted)
    with Model(tmp_path, plans.doubling(), TWO + GPU.replace("count: 1", "count: 2")) as model:
        for instance in model.instances:
            (answer,) = run(instance, inference(tensor("X", rows(2))))
            assert values(answer)["Y"] == (rows(2) * 2).tolist()
    assert len(model.instances) == 2
    assert len(made) == 1
    assert cuda.allocated == 0


def test_a_plan_of_another_release_runs_where_it_may_bring_its_code(
    tmp_path: pathlib.Path, cuda: Any
) -> None:
    older = plans.doubling().replace(bytes(plans.VERSION), bytes((10, 3, 0, 26)))
    model = Model(tmp_path, older, TWO, **{"version-compatible": "true"})
    with model:
        (answer,) = run(model.instances[0], inference(tensor("X", rows(1))))
        assert values(answer)["Y"] == (rows(1) * 2).tolist()
    with pytest.raises(InferenceError) as refused, Model(tmp_path, older, TWO):
        pass
    assert refused.value.message.startswith(
        "unable to create TensorRT engine: IRuntime::deserializeCudaEngine: Error Code 1"
    )
    assert "pip install 'tensorrt==10.3.0.26'" in refused.value.message


def test_a_run_that_fails_says_why_and_the_next_one_runs(
    tmp_path: pathlib.Path, cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorrt  # noqa: PLC0415 - the made-up one

    with Model(tmp_path, plans.doubling(), TWO) as model:
        (instance,) = model.instances
        with monkeypatch.context() as failing:
            failing.setattr(tensorrt.IExecutionContext, "fails", lambda self: True)
            with pytest.raises(InferenceError) as failed:
                run(instance, inference(tensor("X", rows(1))))
        assert failed.value.message == (
            "IExecutionContext::enqueueV3: Error Code 1: Cask (a made-up kernel failed) (unable to enqueue for inference m_0_0)"
        )
        (answer,) = run(instance, inference(tensor("X", rows(2))))
        assert values(answer)["Y"] == (rows(2) * 2).tolist()


def test_an_error_that_cuda_does_not_survive_is_recognised(
    tmp_path: pathlib.Path, cuda: Any
) -> None:
    with Model(tmp_path, plans.doubling(), TWO) as model:
        cuda.lost = 700
        with pytest.raises(
            InferenceError, match="an illegal memory access was encountered"
        ) as failed:
            run(model.instances[0], inference(tensor("X", rows(1))))
        lost = device_errors.unrecoverable(failed.value)
        assert lost is not None
        assert (lost.code, lost.certain) == (700, True)
        cuda.lost = 0


def test_a_lack_of_memory_fails_the_load_and_leaves_nothing(
    tmp_path: pathlib.Path, cuda: Any
) -> None:
    cuda.limit = 64
    with pytest.raises(InferenceError) as failed, Model(tmp_path, plans.doubling(), TWO):
        pass
    assert failed.value.message.startswith(
        "cudaMalloc: CUDA error 2 (cudaErrorMemoryAllocation): out of memory"
    )
    assert "128 bytes for input 'X' for m_0_0" in failed.value.message
    assert (cuda.allocated, cuda.open) == (0, 0)


def test_what_is_missing_is_named(
    tmp_path: pathlib.Path, cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorrt  # noqa: PLC0415 - the made-up one

    with monkeypatch.context() as older:
        older.setattr(tensorrt, "__version__", "8.6.1")
        with pytest.raises(
            InferenceError,
            match=r"TensorRT 8\.6\.1 is installed, and this server needs 10 or newer",
        ):
            Model(tmp_path, plans.doubling(), TWO)
    monkeypatch.setattr(type(cuda), "devices", lambda self: 0)
    with pytest.raises(
        InferenceError, match="CUDA sees no GPU: a TensorRT plan needs an NVIDIA GPU"
    ) as failed:
        Model(tmp_path, plans.doubling(), TWO)
    assert failed.value.code is ErrorCode.UNAVAILABLE


def test_without_the_package_the_command_that_installs_it_is_named(
    tmp_path: pathlib.Path, cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    with pytest.raises(InferenceError) as failed:
        Model(tmp_path, plans.doubling(), TWO)
    assert failed.value.message.startswith(
        "unable to load backend 'tensorrt': its package tensorrt is not installed"
    )
    assert "tensorrt]" in failed.value.message


def test_shapes_are_set_where_they_are_other_ones_than_before(
    tmp_path: pathlib.Path, cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorrt  # noqa: PLC0415 - the made-up one

    from naiad.backends.tensorrt.execution.context import ProfileContext  # noqa: PLC0415 - it imports TensorRT

    calls: list[str] = []
    for owner, name in (
        (tensorrt.IExecutionContext, "set_input_shape"),
        (ProfileContext, "unspecified"),
    ):
        real = getattr(owner, name)

        def counted(self: Any, *given: Any, name: str = name, real: Any = real) -> Any:
            calls.append(name)
            return real(self, *given)

        monkeypatch.setattr(owner, name, counted)
    with Model(tmp_path, plans.doubling(), TWO) as model:
        (instance,) = model.instances
        for count, expected in ((2, ["set_input_shape", "unspecified"]), (2, []), (3, ["set_input_shape", "unspecified"])):  # fmt: skip
            calls.clear()
            (answer,) = run(instance, inference(tensor("X", rows(count, count))))
            assert values(answer)["Y"] == (rows(count, count) * 2).tolist()
            assert calls == expected


def test_the_models_of_a_process_share_the_library_and_its_log(
    tmp_path: pathlib.Path, cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorrt  # noqa: PLC0415 - the made-up one

    loggers: list[Any] = []
    runtime = tensorrt.Runtime

    def made(logger: Any) -> Any:
        loggers.append(logger)
        return runtime(logger)

    monkeypatch.setattr(tensorrt, "Runtime", made)
    for name in ("one", "two"):
        with Model(tmp_path / name, plans.doubling(), TWO):
            pass
    assert len(loggers) == 2
    assert loggers[0] is loggers[1]
