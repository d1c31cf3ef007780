"""`naiad check`: what it prints, and the exit status."""

import errno
import importlib.util
import json
import os
import pathlib

import pytest
from onnx import TensorProto, helper

from naiad.check import main

_GOOD = """\
backend: "python"
max_batch_size: 4
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 2 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 2 ] } ]
"""
_TENSORS = _GOOD.split("\n", 2)[2]
_MODEL = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"


def _model(
    repository: pathlib.Path, name: str, config: str | None = _GOOD, *, source: str = _MODEL
) -> pathlib.Path:
    folder = repository / name
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.py").write_text(source)
    if config is not None:
        (folder / "config.pbtxt").write_text(config)
    return folder


def test_clean_models_are_listed_and_the_status_is_0(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _model(tmp_path, "one")
    _model(tmp_path, "two")

    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == (
        "ok  one: python, version 1, max_batch_size 4\n"
        "ok  two: python, version 1, max_batch_size 4\n"
        "\n"
        "2 models checked, no problems\n"
    )


def test_problems_of_every_model_are_shown_and_the_status_is_1(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _model(tmp_path, "good")
    _model(tmp_path, "bad", "max_batchsize: 4\nmax_batch_size: ${size}\n" + _GOOD.split("\n", 2)[2])
    _model(tmp_path, "worse", "instance_group { kind: GPU }\n" + _GOOD.replace("[ 2 ]", "[ 0 ]"))

    assert main([str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    config = tmp_path / "bad" / "config.pbtxt"
    assert f'{config}:1:1: error: unknown field "max_batchsize"' in shown
    assert f"{config}:2:17: error: ${{size}} was never filled in" in shown
    assert "did you mean KIND_GPU?" in shown
    assert shown.count("^") > 3
    assert "ok  good: python" in shown
    assert shown.endswith("5 problems in 2 of 3 models: bad, worse\n")


def test_programs_get_the_same_as_json(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _model(tmp_path, "good")
    _model(tmp_path, "bad", "max_batchsize: 4\n" + _GOOD)

    assert main([str(tmp_path), "--format", "json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert [(model["name"], model["ok"]) for model in answer["models"]] == [
        ("bad", False),
        ("good", True),
    ]
    assert answer["models"][1]["versions"] == [1]
    assert answer["problems"] == [
        {
            "path": str(tmp_path / "bad" / "config.pbtxt"),
            "line": 1,
            "column": 1,
            "width": 13,
            "message": 'unknown field "max_batchsize" at the top level of the file',
            "suggestion": 'did you mean "max_batch_size"?',
        }
    ]


def test_the_folder_of_one_model_will_do(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _model(tmp_path, "one")
    without_config = _model(tmp_path, "two", None)
    monkeypatch.chdir(folder)

    assert main([str(folder), str(without_config)]) == 0
    assert "2 models checked" in capsys.readouterr().out
    assert main(["."]) == 0
    assert "ok  one" in capsys.readouterr().out


def test_a_name_in_two_repositories_is_a_problem_of_both(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = _model(tmp_path / "a", "same")
    other = _model(tmp_path / "b", "same")

    assert main([str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    shown = capsys.readouterr().out
    for folder, twin in ((one, other), (other, one)):
        assert f"{folder}: error: model appears in two or more repositories\n" in shown
        assert f"'same' is also {twin}, and none of them is served" in shown


_STEP = """platform: "ensemble"
max_batch_size: 4
input {{ name: "X" data_type: TYPE_FP32 dims: 4 }}
output {{ name: "Y" data_type: TYPE_FP32 dims: 4 }}
ensemble_scheduling {{ step {{ model_name: "{model}" model_version: -1
  input_map {{ key: "IN" value: "X" }} output_map {{ key: "OUT" value: "Y" }} }} }}
"""
_PLAIN = """backend: "python"
max_batch_size: {batch}
input {{ name: "IN" data_type: TYPE_FP32 dims: 4 }}
output {{ name: "OUT" data_type: TYPE_FP32 dims: 4 }}
"""


def test_with_namespaces_a_step_is_the_model_of_its_own_repository(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _model(tmp_path / "a", "same", _PLAIN.format(batch=4))
    _model(tmp_path / "b", "same", _PLAIN.format(batch=2))
    _model(tmp_path / "b", "other", _PLAIN.format(batch=4))
    for repository in "ab":
        _model(tmp_path / repository, "of_same", _STEP.format(model="same"))
    _model(tmp_path / "a", "of_other", _STEP.format(model="other"))
    _model(tmp_path / "c", "ambiguous", _STEP.format(model="same"))
    folders = [str(tmp_path / repository) for repository in "abc"]

    assert main(["--model-namespacing", *folders]) == 1
    shown = capsys.readouterr().out
    assert "2 problems in 2 of 7 models: of_same, ambiguous" in shown
    assert shown.count("allows maximum batch size 4, but it contains model same") == 1
    assert "ensemble ambiguous contains models that are not available or ambiguous: same" in shown
    assert main(folders) == 1
    assert "model appears in two or more repositories" in capsys.readouterr().out


def test_a_repository_given_twice_is_checked_once(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _model(tmp_path, "one")

    assert main([str(tmp_path), str(tmp_path)]) == 0


def test_a_name_that_is_not_the_folders_is_a_problem(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _model(tmp_path, "one", 'name: "two"\n' + _GOOD)

    assert main([str(tmp_path)]) == 1
    assert "unexpected directory name 'one' for model 'two'" in capsys.readouterr().out


def test_a_repository_in_place_of_a_model_is_a_problem_and_the_others_are_checked(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _model(tmp_path, "good")
    _model(tmp_path / "models", "inner")

    assert main([str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    models = tmp_path / "models"
    assert (
        f"{models}: error: this is not a model, because it holds models itself; give {models} as the repository\n"
        in shown
    )
    assert shown.endswith("1 problem in 1 of 2 models: models\n")


def test_a_missing_version_or_model_file_is_a_problem(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (_model(tmp_path, "no_file") / "1" / "model.py").unlink()
    folder = _model(tmp_path, "no_version")
    (folder / "1" / "model.py").unlink()
    (folder / "1").rmdir()

    assert main([str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "Python model file not found" in shown
    assert "at least one version must be available" in shown


def test_a_models_code_is_read_but_never_run(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = tmp_path / "ran"
    source = f"open({str(mark)!r}, 'w')\nraise SystemExit('no')\n"
    _model(tmp_path / "repository", "one", source=source)

    assert main([str(tmp_path / "repository")]) == 0
    assert not mark.exists()


def test_code_that_python_cannot_read_is_a_problem_at_its_line(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _model(tmp_path, "one", source="import os\n\ndef broken(:\n    pass\n")

    assert main([str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert f"{folder}/1/model.py:3:12: error: unable to load model 'one': SyntaxError: invalid" in (
        shown
    )
    assert " 3 | def broken(:\n   |            ^\n" in shown


def test_a_warning_of_the_compiler_is_not_a_problem(tmp_path: pathlib.Path) -> None:
    _model(tmp_path, "one", source=_MODEL + 'PATTERN = "\\d"\n')

    assert main([str(tmp_path)]) == 0


def test_another_config_of_a_model_is_chosen_by_name(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _model(tmp_path, "one")
    (folder / "configs").mkdir()
    (folder / "configs" / "big.pbtxt").write_text("max_batchsize: 8")

    assert main([str(tmp_path)]) == 0
    assert main([str(tmp_path), "--model-config-name", "big"]) == 1
    assert f"{folder}/configs/big.pbtxt:1:1: error" in capsys.readouterr().out


def test_without_auto_complete_a_config_must_be_there(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _model(tmp_path, "one", None)

    assert main([str(tmp_path)]) == 0
    assert main([str(tmp_path), "--disable-auto-complete-config"]) == 1
    assert "config.pbtxt" in capsys.readouterr().out


def test_gpus_are_those_of_the_serving_machine(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _model(tmp_path, "one", _GOOD + "instance_group { kind: KIND_GPU gpus: [ 3 ] }\n")

    assert main([str(tmp_path)]) == 0
    assert main([str(tmp_path), "--gpus", "4"]) == 0
    assert main([str(tmp_path), "--gpus", "2"]) == 1
    assert "gpu id 3" in capsys.readouterr().out
    assert main([str(tmp_path), "--gpus", "0"]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{tmp}/none"], "none does not exist: give a model repository"),
        (["{tmp}/file"], "file is a file: give a model repository"),
        (["{tmp}/empty"], "empty holds no model: a repository holds one folder per model"),
        (
            ["s3://bucket/models"],
            "naiad check: s3://bucket/models: only local folders can be read here; run naiad fetch",
        ),
        (["{tmp}/empty", "--backend-config", "onnxruntime"], "write BACKEND,KEY=VALUE"),
        ([], "the following arguments are required: DIR"),
        (["{tmp}", "--format", "xml"], "invalid choice: 'xml'"),
    ],
)
def test_a_command_that_cannot_be_meant_says_what_to_give(
    arguments: list[str], message: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()

    assert main([word.format(tmp=tmp_path) for word in arguments]) == 2
    output = capsys.readouterr()
    assert message in output.err
    assert output.out == ""


def test_help_exits_with_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "Exit status" in capsys.readouterr().out


def test_colours_are_for_terminals_and_those_who_ask(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _model(tmp_path, "one", "x: 1")

    main([str(tmp_path)])
    assert "\x1b" not in capsys.readouterr().out
    main([str(tmp_path), "--color", "always"])
    assert "\x1b[1;31merror:\x1b[0m" in capsys.readouterr().out


def test_what_an_onnx_session_could_not_be_given_is_a_problem_at_its_parameter(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "net"
    (folder / "1").mkdir(parents=True)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        "g",
        [value("x", TensorProto.FLOAT, ["N", 4])],
        [value("y", TensorProto.FLOAT, ["N", 4])],
    )
    (folder / "1" / "model.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    (folder / "config.pbtxt").write_text(
        'backend: "onnxruntime"\nmax_batch_size: 4\n'
        'parameters { key: "intra_op_thread_count" value { string_value: "many" } }\n'
    )

    assert main([str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert f"{folder / 'config.pbtxt'}:3:19: error: failed to convert 'many'" in shown
    assert "1 problem in 1 of 1 model" in shown


def test_models_of_a_python_based_backend_are_checked_with_the_code_of_the_backend(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = tmp_path / "backends" / "greeting" / "model.py"
    code.parent.mkdir(parents=True)
    code.write_text(_MODEL)
    folder = tmp_path / "models" / "hello"
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(_GOOD.replace("python", "greeting"))
    command = [str(tmp_path / "models"), f"--backend-directory={tmp_path / 'backends'}"]

    assert main(command) == 0
    assert "ok  hello: greeting, version 1" in capsys.readouterr().out

    code.write_text("class TritonPythonModel\n")
    assert main(command) == 1
    assert f"{code}:1:24: error: unable to load model 'hello': SyntaxError" in (
        capsys.readouterr().out
    )

    assert main(command[:1]) == 1
    assert "unable to find backend library for backend 'greeting'" in capsys.readouterr().out


def test_files_that_a_repository_agent_may_change_are_not_checked(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = 'model_repository_agents {{ agents {{ name: "{}" }} }}\n{}'
    agents = tmp_path / "agents"
    (agents / "unpack").mkdir(parents=True)
    (agents / "unpack" / "agent.py").write_text("raise SystemExit('never run')")
    command = [str(tmp_path / "models"), f"--repoagent-directory={agents}"]
    tmp_path /= "models"
    (_model(tmp_path, "packed", agent.format("unpack", _GOOD)) / "1" / "model.py").unlink()
    assert main(command) == 0
    assert "ok  packed: files not checked, repository agents may change them: unpack" in (
        capsys.readouterr().out
    )
    _model(tmp_path, "odd", agent.format("unpack", "max_batch: 3"))
    (_model(tmp_path, "lost", agent.format("checksum", _GOOD)) / "1" / "model.py").unlink()
    assert main(command) == 1
    shown = capsys.readouterr().out
    assert 'error: unknown field "max_batch"' in shown
    assert "lost" in shown.splitlines()[-1]


def _onnx(repository: pathlib.Path, name: str, config: str = "") -> pathlib.Path:
    """A model that adds "x" to itself, with a batch dimension and four columns."""
    folder = repository / name
    (folder / "1").mkdir(parents=True)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        "g",
        [value("x", TensorProto.FLOAT, ["N", 4])],
        [value("y", TensorProto.FLOAT, ["N", 4])],
    )
    (folder / "1" / "model.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    if config:
        (folder / "config.pbtxt").write_text(config)
    return folder


def test_what_is_completed_is_printed_as_lines_that_can_be_copied_into_the_config(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _onnx(tmp_path, "net")

    assert main([str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    head, lines = shown.split("    completed, as lines for config.pbtxt:\n")
    lines = lines.split("\n\n")[0]
    assert head.startswith("ok  net: onnxruntime, version 1, max_batch_size 4\n")
    assert [line.strip() for line in lines.splitlines()] == [
        "max_batch_size: 4",
        'input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] }',
        'output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }',
        "dynamic_batching { }",
    ]

    (folder / "config.pbtxt").write_text(lines)
    assert main([str(tmp_path)]) == 0
    assert "completed" not in capsys.readouterr().out


def test_a_config_that_says_everything_completes_nothing(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _model(tmp_path, "one")

    assert main([str(tmp_path), "--format=json"]) == 0
    assert json.loads(capsys.readouterr().out)["models"][0]["completed"] == []


def test_notes_are_shown_beside_problems(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _model(tmp_path, "one", "max_batchsize: 4\nresponse_cache { enable: true }\n" + _GOOD)

    assert main([str(tmp_path)]) == 1
    assert "\nnote: one: response_cache.enable has no effect" in capsys.readouterr().out


def test_everything_wrong_is_said_in_one_round_the_config_first(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A field that cannot be read, a setting, the environment and the code; and of a graph what disagrees beside an unread field."""
    wrong = 'parameters { key: "naiad.host" value { string_value: "elsewhere" } }\n'
    environment = 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/e.tgz" } }\n'
    _model(
        tmp_path, "a", "max_batch_size: oops\n" + wrong + environment + _TENSORS, source="def (:"
    )
    _onnx(
        tmp_path,
        "b",
        'max_batch_size: oops\ninput { name: "x" data_type: TYPE_INT8 dims: [ 4 ] }\n'
        'parameters { key: "execution_mode" value { string_value: "7" } }\n',
    )

    assert main([str(tmp_path), "--format=json"]) == 1
    problems = json.loads(capsys.readouterr().out)["problems"]
    places = [
        (problem["path"].removeprefix(f"{tmp_path}/"), problem["line"]) for problem in problems
    ]
    assert places == [
        ("a/config.pbtxt", 1),
        ("a/config.pbtxt", 2),
        ("a/config.pbtxt", 3),
        ("a/1/model.py", 1),
        ("b/config.pbtxt", 1),
        ("b/config.pbtxt", 2),
        ("b/config.pbtxt", 3),
    ]


def test_with_load_a_models_code_runs_and_its_error_is_a_problem(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = _MODEL + "    def initialize(self, args):\n        raise OSError('no weights')\n"
    folder = _model(tmp_path, "broken", source=broken)
    completes = "    @staticmethod\n    def auto_complete_config(config):\n"
    completes += "        config.add_input({'name': 'A', 'data_type': 'TYPE_FP32', 'dims': [1]})\n"
    _model(tmp_path, "good", None, source=_MODEL + completes + "        return config\n")
    command = [str(tmp_path), "--backend-config=python,host=thread", "--gpus=0"]

    assert main(command) == 0
    assert "note: its code completes the config when it is loaded" in capsys.readouterr().out
    assert main([*command, "--load"]) == 1
    shown = capsys.readouterr().out
    assert f"{folder}/1/model.py: error: failed to initialize model 'broken'" in shown
    assert "OSError: no weights" in shown
    assert 'input { name: "A" data_type: TYPE_FP32 dims: [ 1 ] }' in shown


def test_a_model_that_calls_the_server_when_it_is_loaded_is_a_note_and_not_a_problem(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = "import triton_python_backend_utils as pb_utils\n" + _MODEL
    calls += "    def initialize(self, args):\n        pb_utils.load_model('other')\n"
    _model(tmp_path, "one", source=calls)

    assert main([str(tmp_path), "--backend-config=python,host=thread", "--load"]) == 0
    assert "note: version 1 was not loaded: its initialize calls the server" in (
        capsys.readouterr().out
    )


def test_what_this_machine_lacks_is_a_note_where_another_one_serves(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _model(tmp_path, "one", source="import nonesuch_package\n" + _MODEL)

    assert main([str(tmp_path)]) == 1
    assert "ModuleNotFoundError: No module named 'nonesuch_package'" in capsys.readouterr().out
    assert main([str(tmp_path), "--elsewhere"]) == 0
    assert "note: on this machine: unable to load model 'one': ModuleNotFoundError" in (
        capsys.readouterr().out
    )


def test_a_backend_whose_package_is_missing_is_a_problem_in_the_words_of_a_load(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _onnx(tmp_path, "net")
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else find_spec(name)
    )

    assert main([str(tmp_path)]) == 1
    assert (
        "unable to load backend 'onnxruntime': its package onnxruntime is not installed "
        "(No module named 'onnxruntime'): "
    ) in capsys.readouterr().out


@pytest.mark.parametrize(
    "source",
    [
        "import sys\nsys.path.insert(0, 'lib')\nimport nonesuch_package\n" + _MODEL,
        "try:\n    import nonesuch_package\nexcept ImportError:\n    pass\n" + _MODEL,
        "import helper\nimport nonesuch_package\n" + _MODEL,
        "from helper import *\n",
        "globals()['Triton' + 'PythonModel'] = object\n",
        "import triton_python_backend_utils as pb_utils\n" + _MODEL,
        "class Base:\n    def execute(self, requests): ...\nclass TritonPythonModel(Base): ...\n",
    ],
)
def test_code_that_may_well_load_is_not_a_problem(tmp_path: pathlib.Path, source: str) -> None:
    (_model(tmp_path, "one", source=source) / "1" / "helper.py").touch()

    assert main([str(tmp_path)]) == 0


def test_a_config_that_only_loading_completes_is_not_completed_by_guess(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An output has five rows whatever the batch, which only the session knows."""
    folder = tmp_path / "top"
    (folder / "1").mkdir(parents=True)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("ReduceMax", ["x"], ["highest"], axes=[0], keepdims=0),
            helper.make_node("TopK", ["highest", "five"], ["scores", "index"]),
        ],
        "g",
        [value("x", TensorProto.FLOAT, ["N", 100])],
        [value("scores", TensorProto.FLOAT, ["K"])],
        [helper.make_tensor("five", TensorProto.INT64, [1], [5])],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    (folder / "1" / "model.onnx").write_bytes(model.SerializeToString())

    assert main([str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "note: an output names its first dimension otherwise than the inputs" in shown
    assert "completed" not in shown

    assert main([str(tmp_path), "--load"]) == 0
    assert 'output { name: "scores" data_type: TYPE_FP32 dims: [ 5 ] }' in capsys.readouterr().out


def test_a_folder_that_may_not_be_searched_is_a_problem_and_ends_no_check(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As of a folder of another user; root, who may run this test, may search every folder."""
    folder = _model(tmp_path, "closed")
    stat = pathlib.Path.stat

    def refuse(path: pathlib.Path, **more: bool) -> os.stat_result:
        if path.is_relative_to(folder / "1") and path != folder / "1":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **more)

    monkeypatch.setattr(pathlib.Path, "stat", refuse)

    assert main([str(tmp_path)]) == 1
    assert f"unable to read '{folder}/1/model.py': Permission denied" in capsys.readouterr().out
