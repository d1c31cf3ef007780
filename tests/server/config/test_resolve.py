"""From a folder to a config: which file, which versions, whose completion, and what fails alone."""

import os
import pathlib
from collections.abc import Mapping
from typing import Any

import pytest

from naiad.config.config_json import to_json
from naiad.config.resolving.resolve import config_file
from naiad.core.messages import model_config_pb2
from naiad.errors import internal
from tests.server.config.model_folders import make_model, only, resolve, shown
from tests.server.config.onnx_models import model, value

X = model([value("x", ["N", 2])], [value("y", ["N", 2])])
WIDER = model([value("x", ["N", 3])], [value("y", ["N", 3])])


class Completion:
    """A backend's completion that adds one input, records its calls, and fails where a test wants it to."""

    def __init__(self, *fails: str) -> None:
        self.calls: list[tuple[str, dict[str, str]]] = []
        self.seen: list[dict[str, Any]] = []
        self._fails = fails

    def __call__(self, message: Any, version_dir: pathlib.Path, options: Mapping[str, str]) -> None:
        self.calls.append((version_dir.name, dict(options)))
        self.seen.append(to_json(message))
        message.input.add(name="half done")
        if version_dir.name in self._fails:
            raise internal(f"cannot read version {version_dir.name}")
        del message.input[:]
        message.input.add(name="x", data_type=model_config_pb2.TYPE_INT8, dims=[1])


def test_a_folder_with_only_an_onnx_file_needs_no_config(tmp_path: pathlib.Path) -> None:
    resolution = resolve(make_model(tmp_path, files={"1/model.onnx": X}))
    assert resolution.problems == ()
    assert resolution.versions == (1,)
    assert resolution.config is not None
    assert (resolution.config.name, resolution.config.backend) == ("m", "onnxruntime")
    assert resolution.config.max_batch_size == 4
    assert [group.count for group in resolution.config.instance_groups] == [2]
    assert resolution.warnings == (
        "autofilled max_batch_size to 4 for model 'm'; write max_batch_size to choose another",
    )


def test_the_named_config_is_taken_where_it_is_there(tmp_path: pathlib.Path) -> None:
    files = {"1/model.py": b"", "configs/big.pbtxt": b'backend: "python" max_batch_size: 64'}
    folder = make_model(tmp_path, 'backend: "python" max_batch_size: 2', files=files)
    assert config_file(folder, "big") == folder / "configs" / "big.pbtxt"
    for name, size in (("big", 64), ("other", 2), ("", 2)):
        config = resolve(folder, config_name=name).config
        assert config is not None
        assert config.max_batch_size == size


def test_problems_of_a_named_config_name_that_file(tmp_path: pathlib.Path) -> None:
    files = {"1/model.py": b"", "configs/big.pbtxt": b"max_batch_size: -1"}
    folder = make_model(tmp_path, files=files)
    assert only(resolve(folder, config_name="big")).path == folder / "configs" / "big.pbtxt"


@pytest.mark.parametrize(
    ("policy", "versions", "warnings"),
    [
        ("", (11,), ()),
        ("version_policy { latest { num_versions: 2 } }", (9, 11), ()),
        ("version_policy { all {} }", (2, 9, 11), ()),
        (
            "version_policy { specific { versions: [ 9, 7 ] } }",
            (9,),
            ("version 7 is specified for model 'm', but the version directory is not present",),
        ),
    ],
)
def test_the_policy_picks_the_versions(
    tmp_path: pathlib.Path, policy: str, versions: tuple[int, ...], warnings: tuple[str, ...]
) -> None:
    files = {f"{version}/model.py": b"" for version in (2, 9, 11)}
    resolution = resolve(make_model(tmp_path, f'backend: "python" {policy}', files=files))
    assert resolution.versions == versions
    assert resolution.warnings == warnings


@pytest.mark.parametrize(
    ("policy", "place", "there"),
    [
        ("version_policy { specific { versions: [ 7 ] } }", (2, 1), "1, 3"),
        ("version_policy { latest { num_versions: 0 } }", (2, 1), "1, 3"),
    ],
)
def test_a_policy_that_serves_nothing_is_a_problem(
    tmp_path: pathlib.Path, policy: str, place: tuple[int, int], there: str
) -> None:
    files = {"1/model.py": b"", "3/model.py": b""}
    resolution = resolve(make_model(tmp_path, f'backend: "python"\n{policy}', files=files))
    assert shown(resolution.problems) == [
        (
            *place,
            (
                "at least one version must be available under the version policy of model 'm'; "
                f"versions present: {there}"
            ),
        )
    ]


def test_the_error_of_a_model_without_versions_says_where_the_file_belongs(
    tmp_path: pathlib.Path,
) -> None:
    folder = make_model(tmp_path, 'backend: "python"', files={"model.py": b"", "01/model.py": b""})
    resolution = resolve(folder)
    assert only(resolution).message == (
        "at least one version must be available under the version policy of model 'm'; "
        "versions present: none"
    )
    assert only(resolution).suggestion == (
        f"move model.py into {folder / '1'}: a version is a folder with a number for a name"
    )
    assert resolution.warnings[0].startswith("ignore version directory '01'")


def test_a_backend_completes_the_highest_version_with_its_options(tmp_path: pathlib.Path) -> None:
    completion = Completion()
    files = {f"{version}/model.py": b"" for version in (1, 2)}
    resolution = resolve(
        make_model(tmp_path, "version_policy { all {} }", files=files),
        complete={"python": completion}.get,
        backend_options={"": {"a": "1", "b": "1"}, "python": {"b": "2"}, "other": {"c": "3"}},
    )
    assert completion.calls == [("2", {"a": "1", "b": "2"})]
    assert resolution.config is not None
    assert [spec.name for spec in resolution.config.inputs] == ["x"]


def test_completion_sees_the_defaults_as_in_triton(tmp_path: pathlib.Path) -> None:
    completion = Completion()
    folder = make_model(tmp_path, "max_batch_size: 2 dynamic_batching {}")
    resolve(folder, complete=lambda _backend: completion)
    seen = completion.seen[0]
    assert seen["version_policy"] == {"latest": {"num_versions": 1}}
    assert seen["dynamic_batching"]["preferred_batch_size"] == [2]
    assert seen["instance_group"][0]["name"] == "m"


def test_a_version_that_cannot_be_read_fails_alone(tmp_path: pathlib.Path) -> None:
    completion = Completion("2")
    files = {f"{version}/model.py": b"" for version in (1, 2)}
    folder = make_model(tmp_path, "version_policy { all {} }", files=files)
    resolution = resolve(folder, complete=lambda _backend: completion)
    assert [version for version, _ in completion.calls] == ["2", "1"]
    assert resolution.versions == (1, 2)
    assert resolution.config is not None
    assert [spec.name for spec in resolution.config.inputs] == ["x"]
    assert [(fault.version, fault.message) for fault in resolution.faults] == [
        (2, "cannot read version 2")
    ]


def test_when_no_version_can_be_read_there_is_no_model(tmp_path: pathlib.Path) -> None:
    files = {f"{version}/model.py": b"" for version in (1, 2)}
    folder = make_model(tmp_path, "version_policy { all {} }", files=files)
    resolution = resolve(folder, complete=lambda _backend: Completion("1", "2"))
    assert resolution.config is None
    assert {(p.path, p.message) for p in resolution.problems} == {
        (folder / "1" / "model.py", "cannot read version 1"),
        (folder / "2" / "model.py", "cannot read version 2"),
    }


def test_versions_of_different_shape_are_held_against_the_config_one_by_one(
    tmp_path: pathlib.Path,
) -> None:
    files = {"1/model.onnx": WIDER, "2/model.onnx": X}
    config = 'version_policy { all {} } max_batch_size: 1 platform: "onnxruntime_onnx"'
    resolution = resolve(make_model(tmp_path, config, files=files))
    assert resolution.config is not None
    assert resolution.config.inputs[0].dims == (2,)
    assert {fault.version for fault in resolution.faults} == {1}
    for fault, tensor in zip(resolution.faults, "xy", strict=True):
        assert fault.message.startswith(f"model 'm', tensor '{tensor}'")


def test_without_completion_only_the_file_decides(tmp_path: pathlib.Path) -> None:
    completion = Completion()
    folder = make_model(tmp_path, "max_batch_size: 3")
    resolution = resolve(folder, auto_complete=False, complete=lambda _backend: completion)
    assert completion.calls == []
    assert resolution.config is not None
    assert resolution.config.backend == "python"  # the real server (2.51) looks at the files, too
    assert resolution.config.inputs == ()


def test_without_completion_the_file_must_be_there(tmp_path: pathlib.Path) -> None:
    problem = only(resolve(make_model(tmp_path), auto_complete=False))
    assert problem.path == tmp_path / "m"
    assert problem.message.startswith("failed to open text file for read")


@pytest.mark.parametrize(
    ("config", "files", "expected", "suggestion"),
    [
        (
            'backend: "onnxruntime"',
            {"1/net.onnx": b""},
            (1, 10, "unable to load model 'm': unable to find 'M/1/model.onnx'"),
            'write default_model_filename: "net.onnx", or rename that file',
        ),
        (
            'platform: "onnxruntime_onnx"\ndefault_model_filename: "a.onnx"',
            {"1/readme": b""},
            (2, 25, "unable to load model 'm': unable to find 'M/1/a.onnx'"),
            "put it there: M/1 has readme",
        ),
        (
            'backend: "python"',
            {"1/Model.py": b""},
            (1, 10, "Python model file not found in 'M/1/model.py'"),
            'write default_model_filename: "Model.py", or rename that file',
        ),
    ],
)
def test_a_model_file_that_is_not_there_is_named(
    tmp_path: pathlib.Path,
    config: str,
    files: dict[str, bytes],
    expected: tuple[int, int, str],
    suggestion: str,
) -> None:
    folder = make_model(tmp_path, config, files=files)
    problem = only(resolve(folder))
    line, column, message = expected
    assert shown([problem]) == [(line, column, message.replace("M/", f"{folder}/"))]
    assert problem.suggestion == suggestion.replace("M/", f"{folder}/")


@pytest.mark.parametrize("filename", ["model.py", "model.onnx"])
@pytest.mark.parametrize("auto_complete", [True, False])
def test_a_pipe_in_place_of_the_model_file_is_named_and_not_opened(
    tmp_path: pathlib.Path, filename: str, *, auto_complete: bool
) -> None:
    backend = {"model.py": "python", "model.onnx": "onnxruntime"}[filename]
    folder = make_model(tmp_path, f'backend: "{backend}" max_batch_size: 0', files={})
    path = folder / "1" / filename
    path.parent.mkdir()
    os.mkfifo(path)

    problem = only(resolve(folder, auto_complete=auto_complete))

    assert problem.path == path
    assert problem.message == (
        f"unable to load model 'm': '{path}' is a named pipe (FIFO), and not a file"
    )


def test_a_link_to_a_device_in_place_of_the_model_file_is_named(tmp_path: pathlib.Path) -> None:
    folder = make_model(tmp_path, files={"1/other": b""})
    (folder / "1" / "model.onnx").symlink_to("/dev/zero")

    assert "is a device, and not a file" in only(resolve(folder)).message


def test_a_named_config_that_is_a_pipe_is_not_passed_over(tmp_path: pathlib.Path) -> None:
    folder = make_model(tmp_path, "max_batch_size: 0")
    (folder / "configs").mkdir()
    os.mkfifo(folder / "configs" / "v2.pbtxt")

    (problem, *_) = resolve(folder, config_name="v2").problems

    assert (problem.path.name, problem.message) == ("v2.pbtxt", "this is a named pipe (FIFO)")


def test_a_damaged_onnx_file_is_said_with_its_path(tmp_path: pathlib.Path) -> None:
    folder = make_model(tmp_path, files={"1/model.onnx": X.SerializeToString()[:40]})
    problem = only(resolve(folder))
    assert problem.path == folder / "1" / "model.onnx"
    assert "is cut off after 40 bytes" in problem.message


def test_syntax_and_meaning_are_reported_together_and_no_code_runs(tmp_path: pathlib.Path) -> None:
    completion = Completion()
    folder = make_model(tmp_path, "max_batchsize: 4\ndynamic_batching { preferred_batch_size: 8 }")
    problems = resolve(folder, complete=lambda _backend: completion).problems
    assert [problem.position and problem.position.line for problem in problems] == [1, 2]
    assert completion.calls == []


def test_a_folder_that_cannot_be_read_is_a_problem(tmp_path: pathlib.Path) -> None:
    problems = resolve(tmp_path / "gone").problems
    assert any(problem.message.startswith("unable to read") for problem in problems)


def test_the_document_is_not_changed_by_completion(tmp_path: pathlib.Path) -> None:
    resolution = resolve(make_model(tmp_path, "max_batch_size: 2", files={"1/model.onnx": X}))
    assert list(resolution.document.message.input) == []
    assert resolution.document.message.name == ""


@pytest.mark.parametrize(
    ("name", "fault"),
    [("a\\000b", "holds a zero character"), ("a" * 300, "is longer than 255 bytes")],
)
def test_a_file_name_that_no_file_can_have_is_refused_at_its_line(
    tmp_path: pathlib.Path, name: str, fault: str
) -> None:
    text = (
        'backend: "onnxruntime"\n'
        f'default_model_filename: "{name}"\n'
        f'output {{ name: "y" data_type: TYPE_FP32 dims: 2\nlabel_filename: "{name}" }}\n'
    )
    found = resolve(make_model(tmp_path, text, files={"1/model.onnx": X})).problems
    said = [problem for problem in found if fault in problem.message]
    assert [each.position.line for each in said if each.position is not None] == [2, 4]


def test_the_end_of_a_file_name_is_not_a_pattern(tmp_path: pathlib.Path) -> None:
    text = 'backend: "onnxruntime" default_model_filename: "model.**"'
    found = resolve(make_model(tmp_path, text, files={"1/model.onnx": X})).problems
    assert "unable to find" in found[0].message


@pytest.mark.parametrize(
    ("config", "place", "field"),
    [
        (
            'default_model_filename: "../../other/1/model.py"',
            (1, 25),
            "default_model_filename '../../other/1/model.py'",
        ),
        ('default_model_filename: "/etc/passwd"', (1, 25), "default_model_filename '/etc/passwd'"),
        (
            'cc_model_filenames { key: "7.5" value: "../../n/1/model.onnx" }',
            (1, 40),
            "cc_model_filenames.7.5 '../../n/1/model.onnx'",
        ),
        (
            'model_warmup { inputs { key: "x" value { input_data_file: "../../../etc/passwd" } } }',
            (1, 59),
            "model_warmup[0].inputs.x.input_data_file '../../../etc/passwd'",
        ),
        (
            'sequence_batching { state { initial_state { data_file: "../../n/1/model.onnx" } } }',
            (1, 56),
            "sequence_batching.state[0].initial_state[0].data_file '../../n/1/model.onnx'",
        ),
    ],
)
def test_a_path_that_leads_out_of_the_models_folder_is_refused_and_not_opened(
    tmp_path: pathlib.Path, config: str, place: tuple[int, int], field: str
) -> None:
    make_model(tmp_path, 'backend: "python"', name="other")
    folder = make_model(tmp_path, f'{config} backend: "python"')
    (problem,) = (each for each in resolve(folder).problems if "leads out" in each.message)

    assert shown([problem]) == [(*place, f"{field} leads out of the model's folder")]
    assert problem.suggestion == "write the name of a file in the model's folder"


def test_a_path_that_leads_out_of_the_version_and_stays_in_the_model_is_taken(
    tmp_path: pathlib.Path,
) -> None:
    config = f'backend: "python" default_model_filename: "../shared/model.py" {ONE_OUTPUT}'
    files = {"1/note.txt": b"", "shared/model.py": b""}
    assert resolve(make_model(tmp_path, config, files=files)).problems == ()


ONE_OUTPUT = 'output { name: "y" data_type: TYPE_FP32 dims: 1 }'


@pytest.mark.parametrize(
    ("files", "suggestion"),
    [
        (["model.onnx"], "move model.onnx into {folder}/1: a version is a folder with a number"),
        (["1/note.txt", "model.onnx"], "move model.onnx into {folder}/1"),
        (["1/note.txt", "net.onnx"], "move net.onnx into {folder}/1"),
        (
            ["1/net.onnx"],
            '{folder}/1 holds net.onnx: rename it to model.onnx, or write backend: "onnxruntime" and default_model_filename: "net.onnx"',
        ),
        (
            ["1/model.savedmodel"],
            "{folder}/1/model.savedmodel is a file, and a model of tensorflow is a folder of that name: copy the folder there",
        ),
        (
            ["1/model.pt/data.pkl"],
            "{folder}/1/model.pt is a folder, and a model of pytorch is a file of that name: copy the file there",
        ),
        (
            ["1/weights.bin"],
            (
                'write backend: "tensorflow" or backend: "tensorrt" or backend: "onnxruntime" or backend: "openvino" or backend: "pytorch" or backend: "caffe2" or backend: "python" or backend: "dali" or backend: "fil", or put '
                "model.savedmodel or model.plan or model.onnx or model.xml or model.pt or model.netdef or model.py or model.dali or xgboost.model into"
            ),
        ),
        (["notes.txt"], "put the model file into {folder}/1"),
    ],
)
def test_a_model_file_in_the_wrong_place_is_one_problem_that_says_where_it_belongs(
    tmp_path: pathlib.Path, files: list[str], suggestion: str
) -> None:
    folder = make_model(tmp_path, files=dict.fromkeys(files, b""))
    assert only(resolve(folder)).suggestion.startswith(suggestion.format(folder=folder))


def test_a_value_that_cannot_be_read_does_not_make_the_graphs_inputs_missing(
    tmp_path: pathlib.Path,
) -> None:
    folder = make_model(tmp_path, "max_batch_size: oops", files={"1/model.onnx": X})
    assert shown(resolve(folder).problems) == [(1, 17, "max_batch_size takes an integer, not oops")]


def test_a_model_without_inputs_and_outputs_is_served_with_a_note(tmp_path: pathlib.Path) -> None:
    """A model.py that may complete its config is asked when it is loaded only."""
    bare = b"class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
    warning = (
        "the config lists neither inputs nor outputs, so that requests can neither send nor get a tensor: write a config.pbtxt with "
        "input and output, or an auto_complete_config in model.py"
    )
    folder = make_model(tmp_path, files={"1/model.py": bare})
    assert resolve(folder).warnings == (warning,)
    assert resolve(folder, complete=lambda _: None).warnings == (warning,)

    (folder / "1" / "model.py").write_bytes(bare + b"    def auto_complete_config(c): ...\n")
    assert resolve(folder).warnings == ()
    assert resolve(folder).notes[0].startswith("its code completes the config when it is loaded")
    assert resolve(folder, complete=lambda _: None).warnings == (warning,)
