"""The rules for the steps of an ensemble that its own config shows, in the reference's words (rows 11.29, 11.30, 14.2)."""

import pathlib

import pytest

from tests.server.config.model_folders import make_model, resolve, shown

IN = 'input { name: "X" data_type: TYPE_FP32 dims: 4 }\n'
OUT = 'output { name: "Y" data_type: TYPE_FP32 dims: 4 }\n'
HEAD = 'platform: "ensemble"\n' + IN + OUT


def step(model: str, reads: str, writes: str) -> str:
    inputs = "".join(
        f' input_map {{ key: "I{k}" value: "{name}" }}' for k, name in enumerate(reads.split())
    )
    outputs = "".join(
        f' output_map {{ key: "O{k}" value: "{name}" }}' for k, name in enumerate(writes.split())
    )
    return f'step {{ model_name: "{model}" model_version: -1{inputs}{outputs} }}\n'


def scheduling(*steps: str, more: str = "") -> str:
    return "ensemble_scheduling {\n" + "".join(steps) + more + "}\n"


def problems(folder: pathlib.Path, text: str) -> list[tuple[int, int, str]]:
    return shown(resolve(make_model(folder, text, files={"1/model.py": b""})).problems)


def test_an_ensemble_has_its_steps_and_no_instances(tmp_path: pathlib.Path) -> None:
    text = HEAD + scheduling(
        step("a", "X", "t"), step("b", "t", "Y"), more="max_inflight_requests: 3\n"
    )
    resolution = resolve(make_model(tmp_path, text, files={"1/.keep": b""}))
    config = resolution.config
    assert resolution.problems == ()
    assert config is not None
    assert config.ensemble is not None
    assert config.instance_groups == ()
    assert [(each.model, each.version) for each in config.ensemble.steps] == [("a", -1), ("b", -1)]
    assert config.ensemble.steps[1].inputs == {"I0": "t"}
    assert config.ensemble.steps[1].outputs == {"O0": "Y"}
    assert config.ensemble.max_inflight_requests == 3
    assert not config.message.HasField("optimization")
    assert not config.message.instance_group


GOOD = scheduling(step("a", "X", "Y"))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (
            'platform: "ensemble"\n' + IN + OUT,
            1,
            "ensemble scheduling must be set for ensemble m whose platform is ensemble",
        ),
        (
            'backend: "python"\n' + IN + OUT + GOOD,
            4,
            "ensemble scheduling cannot be set for model 'm' whose platform is not ensemble",
        ),
        (
            HEAD + GOOD + "instance_group { count: 1 }\n",
            7,
            "instance group should not be specified for ensemble 'm'",
        ),
        (
            HEAD + GOOD + "optimization { }\n",
            7,
            "optimization should not be specified for ensemble 'm'",
        ),
        (
            HEAD + GOOD + 'model_warmup { name: "w" batch_size: 1 }\n',
            7,
            "model_warmup can not be specified for ensemble 'm'",
        ),
        (HEAD + scheduling(), 4, "must specify 'step' for ensemble 'm'"),
        (
            HEAD + scheduling(step("", "X", "Y")),
            5,
            "must specify 'model_name' in step 0 of ensemble 'm'",
        ),
        (
            HEAD + scheduling(step("a", "X", "Y"), step("b", "", "t")),
            6,
            "must specify 'input_map' in step 1 of ensemble 'm'",
        ),
        (
            HEAD + scheduling(step("a", "X", "")),
            5,
            "must specify 'output_map' in step 0 of ensemble 'm'",
        ),
        (
            HEAD + scheduling(step("a", "X", "Y"), step("b", "X", "Y")),
            6,
            "ensemble tensor 'Y' can appear in an output map only once for ensemble 'm' step 1: step 0 (model 'a') writes it already",
        ),
        (
            HEAD + scheduling(step("a", "X", "Y X")),
            5,
            "ensemble tensor 'X' can appear in an output map only once for ensemble 'm' step 0: it is an input of the ensemble",
        ),
        (
            HEAD + 'input { name: "Z" data_type: TYPE_FP32 dims: 4 }\n' + GOOD,
            4,
            "ensemble input 'Z' for ensemble m' is not used",
        ),
        (
            HEAD + 'output { name: "Z" data_type: TYPE_FP32 dims: 4 }\n' + GOOD,
            4,
            "ensemble output 'Z' for ensemble m' is not used",
        ),
        (
            HEAD + scheduling(step("a", "X u", "Y")),
            3,
            "output 'Y' for ensemble 'm' is not written: at least one of its depending tensors, 'u', is not connected",
        ),
        (
            HEAD + scheduling(step("a", "X", "Y t")),
            5,
            "ensemble tensor 't' is unused in ensemble 'm'",
        ),
    ],
)
def test_what_is_wrong_is_said_once_at_its_line(
    tmp_path: pathlib.Path, text: str, line: int, message: str
) -> None:
    assert [(at, what) for at, _, what in problems(tmp_path, text)] == [(line, message)]


def test_a_cycle_is_drawn_with_its_steps_and_tensors(tmp_path: pathlib.Path) -> None:
    text = HEAD + scheduling(
        step("a", "X v", "t"), step("b", "t", "u"), step("c", "u", "v w"), step("d", "w", "Y")
    )
    (problem,) = resolve(make_model(tmp_path, text, files={"1/.keep": b""})).problems
    assert problem.message.startswith("output 'Y' for ensemble 'm' is not written")
    assert (
        "step 0 (model 'a') -> 't' -> step 1 (model 'b') -> 'u' -> step 2 (model 'c') -> 'v' -> step 0 (model 'a')"
        in problem.suggestion
    )
