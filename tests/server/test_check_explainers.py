"""`naiad check` of explainers that configs name: what is not there, or cannot explain, is a problem in the words of `:explain`."""

import json
import pathlib
import re
import urllib.error
import urllib.request

import pytest

import naiad
from naiad.check import main
from naiad.check.parameters import KNOWN

TENSORS = """\
backend: "python"
input { name: "IN" data_type: TYPE_FP32 dims: 2 }
output { name: "OUT" data_type: TYPE_FP32 dims: 2 }
parameters { key: "naiad.host" value { string_value: "thread" } }
"""
CODE = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
EXPLAINED = 'parameters {{ key: "naiad.explainer" value {{ string_value: "{}" }} }}\n'
STEP = """\
platform: "ensemble"
input { name: "IN" data_type: TYPE_FP32 dims: 2 }
output { name: "OUT" data_type: TYPE_FP32 dims: 2 }
ensemble_scheduling { step { model_name: "income" model_version: -1 input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" } } }
"""
DECOUPLED = "model_transaction_policy { decoupled: true }\n"


def add(root: pathlib.Path, name: str, config: str) -> None:
    (root / name / "1").mkdir(parents=True)
    (root / name / "config.pbtxt").write_text(config)
    if "ensemble" not in config:
        (root / name / "1" / "model.py").write_text(CODE)


def problem(root: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert main([str(root), "--format=json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["problems"]
    assert pathlib.Path(found["path"]) == root / "income" / "config.pbtxt"
    assert found["line"] == 5
    return dict(found)


def explained(root: pathlib.Path, name: str) -> str:
    """What a server says to `:explain`."""
    with naiad.Server(root) as server:
        address = server.serve_http(0)
        request = urllib.request.Request(
            f"http://{address}/v1/models/{name}:explain", b'{"instances": [[1, 2]]}'
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request)
        with refused.value as reply:
            return str(json.load(reply)["error"])


@pytest.mark.parametrize(
    ("named", "words", "help_"),
    [
        ("nowhere", "Request for unknown model: 'nowhere' is not found", "add the model 'nowhere'"),
        ("incom_explainer", "Request for unknown model", "did you mean 'income_explainer'?"),
        ("streams", "KServe's v1 doesn't support models with", "one response to a request"),
    ],
)
def test_one_that_cannot_explain_is_a_problem_at_its_line_in_the_words_of_the_server(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    named: str,
    words: str,
    help_: str,
) -> None:
    add(tmp_path, "income", TENSORS + EXPLAINED.format(named))
    add(tmp_path, "income_explainer", TENSORS)
    add(tmp_path, "streams", TENSORS + DECOUPLED)
    found = problem(tmp_path, capsys)
    assert str(found["message"]).startswith(f"the explainer of model 'income': {words}")
    assert help_ in str(found["suggestion"])
    assert explained(tmp_path, "income").startswith(str(found["message"]))


def test_a_name_that_is_empty_is_a_problem(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(tmp_path, "income", TENSORS + EXPLAINED.format(""))
    assert problem(tmp_path, capsys)["message"] == "'naiad.explainer' names no model"


def test_a_model_without_its_explainer_is_a_step_nevertheless_as_the_server_loads_it(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(tmp_path, "income", TENSORS + EXPLAINED.format("nowhere"))
    add(tmp_path, "steps", STEP)
    problem(tmp_path, capsys)


def test_one_that_is_there_is_clean_and_one_beside_a_single_folder_is_a_note(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(tmp_path, "income", TENSORS + EXPLAINED.format("income_explainer"))
    add(tmp_path, "income_explainer", TENSORS)
    assert main([str(tmp_path)]) == 0
    capsys.readouterr()
    assert main([str(tmp_path / "income")]) == 0
    assert "its explainer 'income_explainer' is not checked with it" in capsys.readouterr().out


def test_a_parameter_that_is_nearly_one_of_naiads_is_a_note(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = EXPLAINED.format("income").replace("naiad.explainer", "Naiad.explaner")
    add(tmp_path, "income", TENSORS + wrong + 'parameters { key: "naiad.of_mine" value {} }\n')
    assert main([str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "the parameter 'Naiad.explaner' has no effect: did you mean 'naiad.explainer'?" in shown
    assert "of_mine" not in shown


def test_the_parameters_that_are_known_are_those_of_the_documentation() -> None:
    page = pathlib.Path("docs/configuration.md").read_text()
    named = re.findall(r"^\| `(naiad\.\w+)` \|", page, re.MULTILINE)
    assert sorted(named) == sorted(KNOWN)
