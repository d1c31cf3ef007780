"""Pipelines through the instance of a worker process, against Pillow and numpy."""

import pathlib
import sys
from typing import Any

import numpy as np
import pytest
from nvidia.dali import fn, types

from naiad.backends.backend import ModelSource
from naiad.backends.catalog import Catalog
from naiad.backends.dali.backend import DaliBackend
from naiad.backends.dali.serialized import Operator, of_bytes
from naiad.backends.dali.worker_model import WorkerModel, describe
from naiad.backends.instance import InstanceSpec
from naiad.config.model_config import InstanceKind
from naiad.config.resolving.resolve import resolve
from naiad.core import datatypes
from naiad.core.tensor import Tensor
from naiad.errors import FailureReason, InferenceError
from tests.frameworks.dali import pipelines
from tests.server.backends.configs import Instance, Loaded, inference, run, tensor, values

UINT8, FP32 = datatypes.UINT8, datatypes.FP32
SPEC = InstanceSpec(name="m_0_0", kind=InstanceKind.CPU, device_id=0)
TOLERANCE = 2
"""Of 255: DALI and Pillow decode JPEG files by different arithmetic."""


@pytest.fixture(autouse=True)
def _imports_end_with_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """What running the code of a model changes in a worker process is as before."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "dont_write_bytecode", sys.dont_write_bytecode)
    for name in ("naiad_dali_pipeline", "naiad_test_graphs"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def load(model: pathlib.Path, **options: str) -> Loaded:
    """Load version 1 as a worker process does."""
    backend = DaliBackend()

    def complete(_: str) -> Any:
        def by_code(message: Any, version_dir: pathlib.Path, options: Any) -> None:
            plan = backend.completion_plan(message, version_dir, options)
            backend.take_completion(message, describe(dict(plan.settings)))

        return by_code

    in_python = (model / "1" / "dali.py").exists()
    resolution = resolve(model, backends=Catalog(), complete=complete if in_python else None)
    assert resolution.config is not None, resolution.problems
    source = ModelSource(config=resolution.config, version=1, model_dir=model, options=options)
    plan = backend.worker_plan(source, SPEC)
    return Loaded(WorkerModel(dict(plan.settings)), resolution.config)


def instance_of(model: pathlib.Path) -> Instance:
    """An instance on the CPU."""
    return load(model).make_instance(SPEC)


def request(name: str, *rows: Any, **more: Any) -> Any:
    """A request with these rows, of UINT8."""
    array = np.stack(rows)
    return inference(Tensor(name, UINT8, array.shape, array), **more)


def output(response: Any, index: int = 0) -> Any:
    assert response.error is None, response.error
    return response.outputs[index].array


def test_jpeg_files_of_several_lengths_become_one_batch(tmp_path: pathlib.Path) -> None:
    instance = instance_of(pipelines.write(tmp_path / "m", pipelines.resized()))
    files = [pipelines.jpeg(300, 200), pipelines.jpeg(640, 480, 2), pipelines.jpeg(100, 120, 3)]
    assert len({len(each) for each in files}) == 3
    responses = run(instance, *(request("JPEG", each) for each in files))
    for file, response in zip(files, responses, strict=True):
        found = output(response)
        assert found.shape == (1, 64, 64, 3)
        away = np.abs(found[0].astype(int) - pipelines.by_pillow(file, 64))
        assert away.max() <= TOLERANCE


def test_requests_of_several_rows_are_split_again(tmp_path: pathlib.Path) -> None:
    instance = instance_of(pipelines.write(tmp_path / "m", pipelines.resized()))
    one, two = pipelines.jpeg(300, 200), pipelines.jpeg(300, 200, 2)
    # Rows of one tensor are of one length; what lies behind the end of a JPEG file is not read.
    length = max(len(one), len(two))
    padded = [np.pad(each, (0, length - len(each))) for each in (one, two)]
    first, second = run(instance, request("JPEG", *padded), request("JPEG", one))
    assert output(first).shape == (2, 64, 64, 3)
    assert output(second).shape == (1, 64, 64, 3)
    assert np.array_equal(output(first)[0], output(second)[0])
    assert not np.array_equal(output(first)[1], output(second)[0])


def test_outputs_of_several_shapes_go_to_their_requests(tmp_path: pathlib.Path) -> None:
    instance = instance_of(pipelines.write(tmp_path / "m", pipelines.decoded()))
    small, large = pipelines.jpeg(100, 120), pipelines.jpeg(300, 200)
    first, second = run(instance, request("JPEG", small), request("JPEG", large))
    assert output(first).shape == (1, 120, 100, 3)
    assert output(second).shape == (1, 200, 300, 3)
    assert np.abs(output(second)[0].astype(int) - pipelines.by_pillow(large)).max() <= TOLERANCE


def test_rows_of_one_request_whose_outputs_differ_are_refused_alone(tmp_path: pathlib.Path) -> None:
    instance = instance_of(pipelines.write(tmp_path / "m", pipelines.decoded()))
    small, large = pipelines.jpeg(100, 120), pipelines.jpeg(300, 200)
    padded = np.pad(small, (0, len(large) - len(small)))
    failed, served = run(instance, request("JPEG", padded, large), request("JPEG", small))
    assert failed.error is not None
    assert "[120, 100, 3], [200, 300, 3]" in failed.error.message
    assert "send each in a request of its own" in failed.error.message
    assert output(served).shape == (1, 120, 100, 3)


def test_a_wav_file_becomes_a_spectrogram(tmp_path: pathlib.Path) -> None:
    model = pipelines.write(tmp_path / "m", pipelines.CODE, 'output { name: "SPECTROGRAM" }')
    instance = instance_of(model)
    files = [pipelines.wav(16000), pipelines.wav(8000, rate=8000)]
    responses = run(instance, *(request("WAV", each) for each in files))
    for file, rate, response in zip(files, (16000.0, 8000.0), responses, strict=True):
        names = [each.name for each in response.outputs]
        assert names[0] == "SPECTROGRAM", "outputs have the names of the config, by their order"
        expected = pipelines.by_numpy(file)
        assert output(response).shape == (1, *expected.shape)
        assert np.abs(output(response)[0] - expected).max() <= 1e-3 * expected.max()
        assert output(response, 1).tolist() == [[rate]]


def test_a_file_that_is_not_a_jpeg_fails_with_dali_s_reason_and_nothing_else_does(
    tmp_path: pathlib.Path,
) -> None:
    instance = instance_of(pipelines.write(tmp_path / "m", pipelines.resized()))
    good, bad = pipelines.jpeg(100, 120), np.arange(100, dtype=np.uint8)
    used = instance.instance._pipeline  # type: ignore[attr-defined]
    with pytest.raises(InferenceError) as alone:
        run(instance, request("JPEG", bad))
    built = instance.instance._pipeline  # type: ignore[attr-defined]
    assert built is not used, "DALI says that a pipeline which failed is no longer valid"
    assert "nvidia.dali.fn.decoders.image: nvImageCodec failure" in alone.value.message
    assert "/" not in alone.value.message.replace("nvImageCodec", ""), "no path of the server"
    assert alone.value.reason is FailureReason.BACKEND
    assert output(run(instance, request("JPEG", good))[0]).shape == (1, 64, 64, 3)
    first, failed, last = run(
        instance, request("JPEG", good), request("JPEG", bad), request("JPEG", good)
    )
    assert failed.error is not None
    assert failed.error.message == alone.value.message
    assert np.array_equal(output(first), output(last))
    assert instance.ready()


def test_an_answer_outlives_the_runs_after_it(tmp_path: pathlib.Path) -> None:
    instance = instance_of(
        pipelines.write(tmp_path / "m", pipelines.identity(types.FLOAT, 1), _typed("FP32", "3"))
    )
    assert instance.keeps_arrays
    (kept,) = run(instance, inference(tensor("X", [[1, 2, 3]], FP32)))
    for number in range(20):
        (later,) = run(instance, inference(tensor("X", [[number] * 3], FP32)))
        assert values(later) == {"Y": [[number] * 3]}
    assert values(kept) == {"Y": [[1, 2, 3]]}


def _typed(name: str, dims: str, batch: str = "max_batch_size: 4") -> str:
    return (
        f'{batch} input {{ name: "X" data_type: TYPE_{name} dims: [ {dims} ] }} '
        f'output {{ name: "Y" data_type: TYPE_{name} dims: [ {dims} ] }}'
    )


@pytest.mark.parametrize(
    "name",
    [
        "BOOL",
        "UINT8",
        "UINT16",
        "UINT32",
        "UINT64",
        "INT8",
        "INT16",
        "INT32",
        "INT64",
        "FP16",
        "FP32",
        "FP64",
    ],
)
def test_every_datatype_goes_through(tmp_path: pathlib.Path, name: str) -> None:
    datatype = datatypes.BY_NAME[name]
    instance = instance_of(pipelines.write(tmp_path / "m", pipelines.identity(), _typed(name, "2")))
    given = np.array([[0, 1], [1, 1]]).astype(datatype.dtype)
    given.setflags(write=False)
    (response,) = run(instance, inference(Tensor("X", datatype, (2, 2), given)))
    assert response.outputs[0].datatype is datatype
    assert response.outputs[0].array.tolist() == given.tolist()


def test_inputs_go_by_name_and_outputs_by_order(tmp_path: pathlib.Path) -> None:
    config = (
        'max_batch_size: 4 input { name: "B" data_type: TYPE_FP32 dims: [ 2 ] } input { name: "A" data_type: TYPE_FP32 dims: [ 2 ] } '
        'output { name: "SUM" data_type: TYPE_FP32 dims: [ 2 ] } output { name: "FIRST" data_type: TYPE_FP32 dims: [ 2 ] }'
    )
    instance = instance_of(pipelines.write(tmp_path / "m", pipelines.sums(), config))
    b, a = tensor("B", [[10, 20]], FP32), tensor("A", [[1, 2]], FP32)
    assert values(run(instance, inference(b, a))[0]) == {"SUM": [[11, 22]], "FIRST": [[1, 2]]}
    assert values(run(instance, inference(b, a, outputs=["FIRST"]))[0]) == {"FIRST": [[1, 2]]}


def test_without_batches_the_first_dimension_counts_the_samples(tmp_path: pathlib.Path) -> None:
    config = _typed("FP32", "-1, 2", "max_batch_size: 0")
    instance = instance_of(
        pipelines.write(tmp_path / "m", pipelines.identity(types.FLOAT, 1), config)
    )
    rows = [[1, 2], [3, 4], [5, 6]]
    assert values(run(instance, inference(tensor("X", rows, FP32), rows=1))[0]) == {"Y": rows}
    with pytest.raises(
        InferenceError, match="9 samples for model 'm': its pipeline takes at most 8"
    ):
        run(instance, inference(tensor("X", [[1, 2]] * 9, FP32), rows=1))


def test_the_samples_of_a_request_agree_in_number(tmp_path: pathlib.Path) -> None:
    config = "".join(
        f'{side} {{ name: "{name}" data_type: TYPE_FP32 dims: [ -1 ] }} '
        for side, name in (("input", "A"), ("input", "B"), ("output", "S"), ("output", "F"))
    )
    instance = instance_of(
        pipelines.write(tmp_path / "m", pipelines.sums(), "max_batch_size: 0 " + config)
    )
    with pytest.raises(InferenceError, match=r"the same number of samples.*A: 2, B: 1"):
        run(instance, inference(tensor("A", [1, 2], FP32), tensor("B", [1], FP32), rows=1))
    assert values(
        run(instance, inference(tensor("A", [1, 2], FP32), tensor("B", [3, 4], FP32), rows=1))[0]
    ) == {"S": [4, 6], "F": [1, 2]}


def test_the_config_says_how_large_batches_are_and_how_many_threads_run(
    tmp_path: pathlib.Path,
) -> None:
    config = _typed("FP32", "1", "max_batch_size: 12") + (
        ' parameters { key: "num_threads" value { string_value: "2" } }'
    )
    instance = instance_of(pipelines.write(tmp_path / "m", pipelines.identity(), config))
    rows = [[each] for each in range(12)]
    assert values(run(instance, inference(tensor("X", rows, FP32)))[0]) == {"Y": rows}
    pipeline = instance.instance._pipeline  # type: ignore[attr-defined]
    assert (pipeline.max_batch_size, pipeline.num_threads) == (12, 2)


def test_samples_are_split_along_their_first_dimension(tmp_path: pathlib.Path) -> None:
    config = (
        'max_batch_size: 4 input { name: "X" data_type: TYPE_FP32 dims: [ -1, 2 ] allow_ragged_batch: true } '
        'output { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] } '
        'parameters { key: "split_along_outer_axis" value { string_value: "Y" } }'
    )
    instance = instance_of(
        pipelines.write(tmp_path / "m", pipelines.identity(types.FLOAT, 2), config)
    )
    one = inference(tensor("X", [[[1, 2], [3, 4]]], FP32))
    two = inference(tensor("X", [[[5, 6]], [[7, 8]]], FP32))
    first, second = run(instance, one, two)
    assert output(first).tolist() == [[1, 2], [3, 4]]
    assert output(second).tolist() == [[5, 6], [7, 8]]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (_typed("FP32", "2"), "unexpected datatype float64 of output 'Y'"),
        (
            _typed("FP64", "3").replace("dims: [ 3 ]", "dims: [ 2 ]", 1),
            "the pipeline gave [1, 2], its config says [-1, 3]",
        ),
    ],
    ids=["datatype", "shape"],
)
def test_outputs_that_are_not_what_the_config_says_fail_the_request(
    tmp_path: pathlib.Path, config: str, said: str
) -> None:
    config = config.replace("TYPE_FP32", "TYPE_FP64", 1)
    instance = instance_of(pipelines.write(tmp_path / "m", pipelines.identity(), config))
    given = tensor("X", [[1, 2]], datatypes.FP64)
    with pytest.raises(InferenceError) as caught:
        run(instance, inference(given))
    assert said in caught.value.message
    assert instance.ready()


def test_a_description_read_without_dali_is_what_dali_wrote() -> None:
    pipeline = of_bytes(pipelines.resized())
    assert pipeline.batch_size == 8
    (given,), (made,) = pipeline.inputs, pipeline.outputs
    assert (given.name, given.data_type, given.ndim) == ("JPEG", "TYPE_UINT8", 1)
    assert (made.data_type, made.ndim, made.device) == ("TYPE_UINT8", 3, "cpu")
    assert pipeline.operators[1] == Operator(
        schemas=("decoders__Image",), label="nvidia.dali.fn.decoders.image", device="cpu"
    )
    assert not pipeline.needing_gpu()
    assert not pipeline.refusal()


def test_a_pipeline_for_gpus_is_refused_on_the_cpu(tmp_path: pathlib.Path) -> None:
    pipeline = pipelines.resized(device="mixed")
    assert (
        of_bytes(pipeline).needing_gpu()
        == "operator nvidia.dali.fn.decoders.image (device 'mixed')"
    )
    model = pipelines.write(tmp_path / "m", pipeline, "instance_group { kind: KIND_CPU }")
    with pytest.raises(
        InferenceError, match=r"decoders\.image \(device 'mixed'\) needs a GPU.*KIND_CPU"
    ):
        load(model)


def test_a_video_input_is_refused(tmp_path: pathlib.Path) -> None:
    def graph() -> Any:
        return fn.experimental.inputs.video(name="V", sequence_length=4)

    reason = of_bytes(pipelines.serialized(graph)).refusal()
    assert "nvidia.dali.fn.experimental.inputs.video splits one video" in reason


PYTHON_FUNCTION = pipelines.CODE.replace(
    "    return fn",
    "    samples = fn.python_function(samples, function=lambda x: x)\n    return fn",
)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise ValueError('no luck')  # autoserialize", "ValueError: no luck"),
        (
            pipelines.CODE.replace('name="WAV"', "name=1 / 0"),
            "its pipeline spectrogram cannot be serialised: ZeroDivisionError",
        ),
        (PYTHON_FUNCTION, "Could not serialize the operator: `nvidia.dali.fn.python_function`"),
    ],
    ids=["raises", "pipeline raises", "Python function"],
)
def test_code_that_makes_no_pipeline_says_why(tmp_path: pathlib.Path, code: str, said: str) -> None:
    pipelines.write(tmp_path / "m", code)
    with pytest.raises(InferenceError) as caught:
        describe(
            {
                "name": "m",
                "path": str(tmp_path / "m" / "1" / "dali.py"),
                "root": str(tmp_path / "m"),
                "plugins": [],
            }
        )
    assert caught.value.message.startswith("unable to load model 'm': ")
    assert said in caught.value.message


def test_the_pipeline_may_be_in_a_module_beside_the_file(tmp_path: pathlib.Path) -> None:
    model = pipelines.write(tmp_path / "m", "from naiad_test_graphs import spectrogram  # noqa")
    (model / "naiad_test_graphs.py").write_text(pipelines.CODE)
    found = describe(
        {"name": "m", "path": str(model / "1" / "dali.py"), "root": str(model), "plugins": []}
    )
    assert found["pipeline"]["inputs"][0]["name"] == "WAV"


def test_a_library_that_is_not_there_is_named(tmp_path: pathlib.Path) -> None:
    model = pipelines.write(tmp_path / "m", pipelines.resized())
    with pytest.raises(
        InferenceError, match=r"unable to load '/nonesuch\.so', which plugin_libs names"
    ):
        load(model, plugin_libs="/nonesuch.so")
