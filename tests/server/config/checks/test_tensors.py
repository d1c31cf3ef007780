"""The rules for inputs and outputs: config text in, exact problems out (rows 11.10-11.13, 11.17)."""

import pathlib

import pytest

from naiad.config.problem import Problem
from tests.server.config.model_folders import Shown, make_model, only, resolve, shown

DIMENSION = (
    "dimension must be integer >= 1, or -1 to indicate a variable-size dimension for m; this is"
)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            "input { }",
            [
                (2, 1, "model input must specify 'name' for m"),
                (2, 1, "model input must specify 'data_type' for m"),
                (2, 1, "model input must specify 'dims' for m"),
            ],
        ),
        (
            'output [ { name: "y" data_type: TYPE_FP32 },\n  { dims: 1 } ]',
            [
                (2, 10, "model output 'y' must specify 'dims' for m"),
                (3, 3, "model output must specify 'name' for m"),
                (3, 3, "model output must specify 'data_type' for m"),
            ],
        ),
        (
            'input { name: "" data_type: TYPE_INVALID dims: [] }',
            [
                (2, 15, "model input must specify 'name' for m"),
                (2, 29, "model input must specify 'data_type' for m"),
                (2, 48, "model input must specify 'dims' for m"),
            ],
        ),
        (
            'input { name: "x" data_type: TYPE_FP32 dims: [ 3, 0, -1, -2 ] }',
            [(2, 51, f"model input 'x' {DIMENSION} 0"), (2, 58, f"model input 'x' {DIMENSION} -2")],
        ),
        (
            'input { name: "x" data_type: TYPE_FP32 dims: 2 reshape { shape: [ 0, 2 ] } }',
            [
                (
                    2,
                    67,
                    f"model input 'x' reshape {DIMENSION.replace('dimension ', 'dimensions ', 1)} 0",
                )
            ],
        ),
        (
            'input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] format: FORMAT_NCHW }',
            [(2, 60, "model input NHWC/NCHW require 3 dims for m; 'x' has 1")],
        ),
        ('input { name: "x" data_type: TYPE_FP32 dims: [ 3, 2, 2 ] format: FORMAT_NHWC }', []),
        (
            'input { name: "x" data_type: TYPE_FP32 dims: 1 is_shape_tensor: true }',
            [(2, 65, "shape tensors are only supported for TensorRT platform for m")],
        ),
        (
            'output { name: "x" data_type: TYPE_FP32 dims: 1 is_non_linear_format_io: true }',
            [(2, 74, "Non-linear IO format is only supported for the TensorRT platform for m")],
        ),
        (
            'input { name: "x" data_type: TYPE_FP32 dims: [ 4294967296, 4294967296 ] }',
            [
                (
                    2,
                    46,
                    "element count for tensor 'x dims' exceeds maximum size of 9223372036854775807",
                )
            ],
        ),
    ],
)
def test_each_problem_stands_at_its_field(
    tmp_path: pathlib.Path, config: str, expected: list[Shown]
) -> None:
    assert shown(resolve(make_model(tmp_path, f'backend: "python"\n{config}')).problems) == expected


SIZE = "has different size for dims and reshape"
COUNT = "has different number of variable-size dimensions for dims and reshape"
EMPTY = "cannot have empty reshape for non-batching model as scalar tensors are not supported"


@pytest.mark.parametrize(
    ("max_batch_size", "dims", "shape", "expected"),
    [
        (0, "2, 3", "6", None),
        (0, "2, 3", "5", SIZE),
        (0, "2, 3", "2, 3", None),
        (0, "2, 4, -1, 6", "8, -1, 1, 6", None),
        (0, "2, 4, -1, 6", "8, -1, 5", SIZE),
        (0, "2, -1", "-1, 2", SIZE),
        (0, "-1, 2, -1", "-1, 2", COUNT),
        (0, "-1", "4", SIZE),
        (8, "1", "", None),
        (8, "1, 1", "", None),
        (8, "2", "", SIZE),
        (0, "1", "", EMPTY),
    ],
)
def test_a_reshape_holds_the_same_elements(
    tmp_path: pathlib.Path, max_batch_size: int, dims: str, shape: str, expected: str | None
) -> None:
    config = (
        f'backend: "python" max_batch_size: {max_batch_size}\n'
        f'output {{ name: "y" data_type: TYPE_FP32 dims: [ {dims} ]\n'
        f"reshape {{ shape: [ {shape} ] }} }}"
    )
    resolution = resolve(make_model(tmp_path, config))
    if expected is None:
        assert resolution.problems == ()
    else:
        assert shown(resolution.problems) == [(3, 1, f"model output 'y' {expected} for m")]


def test_a_reshape_that_does_not_fit_is_shown_in_numbers(tmp_path: pathlib.Path) -> None:
    config = (
        'backend: "python" input { name: "x" data_type: TYPE_FP32 dims: [ 2, -1, 3 ] '
        "reshape { shape: [ 2, 3, -1 ] } }"
    )
    assert only(resolve(make_model(tmp_path, config))).suggestion == (
        "dims [2, -1, 3] holds 2 x any x 3 elements, reshape [2, 3, -1] holds 6 x any x 1 elements"
    )


def test_what_could_not_be_read_is_not_said_to_be_missing(tmp_path: pathlib.Path) -> None:
    config = 'backend: "python"\ninput { name: ${n} data_type: FLOAT dims: [ ${d} ] }'
    places = [
        problem.position and problem.position.column for problem in _problems(tmp_path, config)
    ]
    assert places == [15, 31, 45]


def test_what_is_missing_beside_something_unreadable_is_still_said(tmp_path: pathlib.Path) -> None:
    config = 'backend: "python"\ninput { name: ${n} data_type: TYPE_FP32 }'
    assert [problem.message.partition(" for m")[0] for problem in _problems(tmp_path, config)] == [
        "model input must specify 'dims'",
        "${n} was never filled in: this file is a template",
    ]


def test_a_tensor_given_twice_is_a_warning_as_it_loads_in_triton(tmp_path: pathlib.Path) -> None:
    config = 'backend: "python"' + ' input { name: "x" data_type: TYPE_FP32 dims: 1 }' * 2
    resolution = resolve(make_model(tmp_path, config))
    assert resolution.config is not None
    assert resolution.warnings == ("input 'x' stands in the config twice",)


def test_a_control_that_is_an_input_as_well_is_a_warning(
    tmp_path: pathlib.Path,
) -> None:
    controls = " ".join(
        f'control_input {{ name: "{name}" control {{ kind: CONTROL_SEQUENCE_{name} int32_false_true: [ 0, 1 ] }} }}'
        for name in ("START", "END")
    )
    config = (
        'backend: "python" input { name: "END" data_type: TYPE_INT32 dims: 1 } output { name: "y" data_type: TYPE_INT32 dims: 1 } '
        f"sequence_batching {{ {controls} }}"
    )
    resolution = resolve(make_model(tmp_path, config))
    assert resolution.config is not None
    (warning,) = resolution.warnings
    assert warning.startswith("sequence batching control tensor 'END' is an input as well: ")


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("../labels.txt", "is outside model directory"),
        ("/etc/passwd", "is outside model directory"),
        ("nothing.txt", "failed to open text file for read"),
        ("labels.txt", None),
    ],
)
def test_a_label_file_is_in_the_folder(
    tmp_path: pathlib.Path, label: str, message: str | None
) -> None:
    config = (
        'backend: "python" output { name: "y" data_type: TYPE_FP32 dims: 1\n'
        f'label_filename: "{label}" }}'
    )
    (tmp_path / "labels.txt").write_text("a")
    folder = make_model(tmp_path, config, files={"labels.txt": b"a", "1/model.py": b""})
    problems = resolve(folder).problems
    assert [(line, column) for line, column, _ in shown(problems)] == ([(2, 17)] if message else [])
    assert all(message is not None and message in problem.message for problem in problems)


def _problems(tmp_path: pathlib.Path, config: str) -> tuple[Problem, ...]:
    return resolve(make_model(tmp_path, config)).problems
