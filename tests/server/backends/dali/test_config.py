"""What is known of a DALI model without DALI: what its config gets from the pipeline, and what is refused."""

import importlib.util
import pathlib
from typing import Any

import pytest

from naiad.backends.backend import ModelSource
from naiad.backends.catalog import Catalog
from naiad.backends.dali.backend import DaliBackend
from naiad.backends.dali.plugin import PLUGIN
from naiad.backends.dali.settings import Settings, settings_of
from naiad.backends.instance import InstanceSpec
from naiad.config.model_config import InstanceKind
from naiad.config.resolving.resolve import Resolution, resolve
from naiad.core.messages import model_config_pb2
from naiad.engine.preflight import preflight
from naiad.errors import ErrorCode, InferenceError
from tests.server.backends.dali import pipeline_bytes as made

CODE = "import nvidia.dali as dali\n\n\n@autoserialize\n@dali.pipeline_def\ndef pipe():\n    pass\n"


def write(
    folder: pathlib.Path, config: str = "", content: bytes | str = made.IMAGES
) -> pathlib.Path:
    version = folder / "m" / "1"
    version.mkdir(parents=True)
    if isinstance(content, bytes):
        (version / "model.dali").write_bytes(content)
    else:
        (version / "dali.py").write_text(content)
    if config:
        (folder / "m" / "config.pbtxt").write_text(config)
    return folder / "m"


def resolved(
    folder: pathlib.Path, config: str = "", content: bytes | str = made.IMAGES
) -> Resolution:
    return resolve(write(folder, config, content), backends=Catalog())


def problems(resolution: Resolution) -> str:
    return "; ".join(f"{each.message}: {each.suggestion}" for each in resolution.problems)


def message_of(resolution: Resolution) -> Any:
    assert resolution.config is not None, resolution.problems
    return resolution.config.message


def dims(spec: Any) -> list[int]:
    return list(spec.dims)


@pytest.mark.parametrize("config", ["", 'backend: "dali"'], ids=["no config", "a backend"])
def test_a_pipeline_is_a_whole_config(tmp_path: pathlib.Path, config: str) -> None:
    message = message_of(resolved(tmp_path, config))
    (given,), (output,) = message.input, message.output
    assert (message.backend, message.default_model_filename) == ("dali", "model.dali")
    assert message.max_batch_size == 8
    assert (given.name, given.data_type, dims(given)) == ("JPEG", model_config_pb2.TYPE_UINT8, [-1])
    assert given.allow_ragged_batch
    assert (output.name, dims(output)) == ("__Image_0", [-1, -1, -1])
    assert message.HasField("dynamic_batching")


def test_what_a_config_says_stays(tmp_path: pathlib.Path) -> None:
    config = 'max_batch_size: 4 input { name: "JPEG" dims: [ -1 ] } output { name: "IMAGE" dims: [ 8, 8, 3 ] }'
    message = message_of(resolved(tmp_path, config))
    assert message.max_batch_size == 4
    assert not message.input[0].allow_ragged_batch
    assert (message.output[0].name, dims(message.output[0])) == ("IMAGE", [8, 8, 3])
    assert message.output[0].data_type == model_config_pb2.TYPE_UINT8


def test_a_batch_size_of_0_makes_the_first_dimension_count_the_samples(
    tmp_path: pathlib.Path,
) -> None:
    message = message_of(resolved(tmp_path, 'max_batch_size: 0 output { name: "IMAGE" }'))
    assert message.max_batch_size == 0
    assert (dims(message.input[0]), dims(message.output[0])) == ([-1, -1], [-1, -1, -1, -1])
    assert not message.HasField("dynamic_batching")


def test_a_pipeline_in_python_is_found_beside_none_that_is_serialised(
    tmp_path: pathlib.Path,
) -> None:
    message = message_of(resolved(tmp_path, "", CODE))
    assert (message.backend, message.default_model_filename) == ("dali", "dali.py")


def test_each_version_has_the_file_that_it_has(tmp_path: pathlib.Path) -> None:
    model = write(tmp_path, "version_policy { all {} } " + INPUT + "max_batch_size: 8 " + OUTPUT)
    (model / "2").mkdir()
    (model / "2" / "dali.py").write_text(CODE)
    resolution = resolve(model, backends=Catalog())
    assert (resolution.versions, resolution.faults) == ((1, 2), ())


def test_a_named_file_that_is_not_there_is_the_code_beside_it(tmp_path: pathlib.Path) -> None:
    config = 'backend: "dali" default_model_filename: "images.dali"'
    resolution = resolved(tmp_path, config, CODE + CODE)
    assert "Found 2 in" in problems(resolution)


def test_check_says_that_only_code_knows_the_rest(tmp_path: pathlib.Path) -> None:
    resolution = resolved(tmp_path, 'output { name: "Y" }', CODE)
    assert not resolution.problems
    assert [note for note in resolution.notes if "its code says what its pipeline is" in note]


INPUT = 'input { name: "JPEG" data_type: TYPE_UINT8 dims: [ -1 ] } '
OUTPUT = 'output { name: "Y" data_type: TYPE_UINT8 dims: [ -1, -1, 3 ] } '


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            INPUT.replace("JPEG", "FILE") + OUTPUT,
            "config for FILE but such input is not present in the pipeline.: its inputs are JPEG",
        ),
        (INPUT.replace("UINT8", "INT8") + OUTPUT, 'Mismatch of data_type config for "JPEG".'),
        (
            INPUT.replace("UINT8", "STRING") + OUTPUT,
            "write TYPE_UINT8 and dims: [ -1 ] for the bytes of a file",
        ),
        (INPUT.replace("UINT8", "BF16") + OUTPUT, "DALI has no TYPE_BF16"),
        (INPUT + OUTPUT.replace("-1, -1, 3", "-1, 3"), 'Mismatch in number of dimensions for "Y"'),
        (
            INPUT + OUTPUT + OUTPUT.replace('"Y"', '"Z"'),
            "Model config outputs: 2 Pipeline outputs: 1",
        ),
        (
            "max_batch_size: 0 " + INPUT + OUTPUT,
            "write dims: [ -1, -1 ], of which the first counts the samples",
        ),
    ],
    ids=["input", "datatype", "strings", "BF16", "dims", "outputs", "no batch"],
)
def test_a_config_that_the_pipeline_contradicts_is_refused(
    tmp_path: pathlib.Path, config: str, said: str
) -> None:
    batch = "" if "max_batch_size" in config else "max_batch_size: 8 "
    assert said in problems(resolved(tmp_path, batch + config))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (made.IMAGES[:40], "is cut off after 40 bytes, or is not a serialised DALI pipeline"),
        (
            made.pipeline(
                made.external_source("X"), made.operator("PythonFunction", "f"), made.tensor(7, "f")
            ),
            "calls a Python function",
        ),
        (CODE + CODE, "Found 2 in"),
        ("import nvidia.dali\n", "Found none in"),
        ("def pipe(:\n", "SyntaxError: invalid syntax"),
    ],
    ids=["truncated", "Python function", "two", "none", "no Python"],
)
def test_files_that_hold_no_single_pipeline_are_refused(
    tmp_path: pathlib.Path, content: bytes | str, said: str
) -> None:
    found = problems(resolved(tmp_path, 'backend: "dali"', content))
    assert found.startswith("unable to load model 'm': ")
    assert said in found


@pytest.mark.parametrize("answer", ["none", "no package around it"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    def find_spec(name: str) -> None:
        if answer != "none":
            raise ModuleNotFoundError("No module named 'nvidia'", name="nvidia")

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    config = resolved(tmp_path).config
    assert config is not None
    source = ModelSource(config=config, version=1, model_dir=tmp_path / "m", options={})
    spec = InstanceSpec(name="m_0_0", kind=InstanceKind.CPU, device_id=0)
    with pytest.raises(
        InferenceError, match=r"its package nvidia\.dali is not installed.*\[dali\]"
    ) as caught:
        DaliBackend().worker_plan(source, spec)
    assert caught.value.code is ErrorCode.UNAVAILABLE


def refused(folder: pathlib.Path, config: str, content: bytes | str = made.IMAGES) -> list[Any]:
    """What `naiad check` says besides, but for a package that is not installed."""
    resolution = resolved(folder, config, content)
    assert resolution.config is not None, resolution.problems
    found = preflight(
        PLUGIN,
        resolution.config,
        document=resolution.document,
        model_dir=folder / "m",
        versions=[1],
        options={},
    )
    return [each for each in found if "its package nvidia.dali" not in each.message]


def parameter(key: str, value: str) -> str:
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (parameter("naiad.host", "thread"), "pipelines of DALI run in worker processes alone"),
        (parameter("num_threads", "many"), "the parameter 'num_threads' is 'many'"),
        (
            parameter("split_along_outer_axis", "Z"),
            "names the output 'Z', which the model does not have: its outputs are __Image_0",
        ),
        (
            "model_transaction_policy { decoupled: true }",
            "split videos into many responses, and these are not served",
        ),
        (INPUT.replace("dims", "optional: true dims"), "input 'JPEG' is optional"),
    ],
    ids=["thread", "threads", "split", "decoupled", "optional"],
)
def test_settings_that_no_load_takes_are_refused(
    tmp_path: pathlib.Path, config: str, said: str
) -> None:
    (problem,) = refused(tmp_path, "max_batch_size: 8 " + config)
    assert said in problem.message


def test_a_pipeline_for_gpus_is_a_problem_where_the_config_says_the_cpu(
    tmp_path: pathlib.Path,
) -> None:
    decoder = made.operator("decoders__Image", "I", device="mixed")
    content = made.pipeline(
        made.external_source("JPEG", 0, 1), decoder, made.tensor(7, "I", "gpu", 0, 3)
    )
    (problem,) = refused(tmp_path / "cpu", "instance_group { kind: KIND_CPU }", content)
    assert "its operator decoders__Image (device 'mixed') needs a GPU" in problem.message
    (default,) = refused(tmp_path / "auto", 'backend: "dali"', content)
    assert (problem.scope.value, default.scope.value) == ("anywhere", "here")


def test_a_thread_of_the_server_loads_no_pipeline() -> None:
    with pytest.raises(InferenceError, match="worker processes alone"):
        DaliBackend().complete(model_config_pb2.ModelConfig(name="m"), pathlib.Path("m/1"), {})


def test_settings_are_read() -> None:
    parameters = {"num_threads": "4", "split_along_outer_axis": "A:B"}
    options = {"plugin_libs": "/a.so:/b.so"}
    assert settings_of("m", parameters, options, outputs=["A", "B"]) == Settings(
        threads=4, split=("A", "B"), plugins=("/a.so", "/b.so")
    )
    assert settings_of("m", {"num_threads": "-1"}, {}, outputs=[]) == Settings()
