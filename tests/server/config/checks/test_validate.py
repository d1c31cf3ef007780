"""What a config may not say: config text in, exact problems out (rows 7.20, 11.3, 11.9, 11.23, 11.33)."""

import pathlib

import pytest

from tests.server.config.model_folders import Shown, make_model, only, resolve, shown

PYTHON = 'backend: "python"\n'


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("max_batch_size: -1", [(2, 17, "'max_batch_size' must be non-negative value for m")]),
        (
            "max_batch_size: 4\ndynamic_batching { preferred_batch_size: [ 4, 0, 5, -2 ] }",
            [
                (3, 47, "dynamic batching preferred size must be positive for m; this is 0"),
                (
                    3,
                    50,
                    (
                        "dynamic batching preferred size must be <= max batch size for m; this is 5, "
                        "max_batch_size is 4"
                    ),
                ),
                (3, 53, "dynamic batching preferred size must be positive for m; this is -2"),
            ],
        ),
        (
            "dynamic_batching { priority_levels: 2 }",
            [(2, 37, "default priority level must be in range [1, 2] for m; it is 0")],
        ),
        (
            "dynamic_batching { priority_levels: 2 default_priority_level: 3 }",
            [(2, 63, "default priority level must be in range [1, 2] for m; it is 3")],
        ),
        (
            (
                "dynamic_batching { priority_levels: 2 default_priority_level: 1\n"
                "  priority_queue_policy { key: 3 value {} }\n"
                "  priority_queue_policy { key: 2 value {} } }"
            ),
            [
                (
                    3,
                    32,
                    "priority queue policy must have priority level in range [1, 2] for m; this is 3",
                )
            ],
        ),
        (
            "dynamic_batching { preserve_ordering: true priority_levels: 2 default_priority_level: 1 }",
            [
                (
                    2,
                    39,
                    "Only one priority level is allowed when 'preserve_ordering' is true for m",
                )
            ],
        ),
        (
            (
                "dynamic_batching { preserve_ordering: true priority_levels: 1 default_priority_level: 1\n"
                "  default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 1 }\n"
                "  priority_queue_policy { key: 1 value {\n"
                "    timeout_action: DELAY default_timeout_microseconds: 1 } } }"
            ),
            [
                (
                    3,
                    42,
                    (
                        "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is "
                        "true for m"
                    ),
                ),
                (
                    5,
                    21,
                    (
                        "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is "
                        "true for m"
                    ),
                ),
            ],
        ),
        (
            "dynamic_batching { preserve_ordering: true default_queue_policy { timeout_action: DELAY } }",
            [],
        ),
        (
            "instance_group [ { kind: KIND_CPU gpus: [ 0 ] }, { name: 'g' kind: KIND_MODEL gpus: 1 } ]",
            [
                (
                    2,
                    41,
                    "instance group m_0 of model m has kind KIND_CPU but specifies one or more GPUs",
                ),
                (
                    2,
                    85,
                    "instance group g of model m has kind KIND_MODEL but specifies one or more GPUs",
                ),
            ],
        ),
        (
            "instance_group { kind: KIND_GPU }",
            [(2, 24, "instance group m_0 of model m has kind KIND_GPU but no GPUs are available")],
        ),
        (
            'instance_group { profile: "1" }',
            [
                (
                    2,
                    27,
                    (
                        "instance group m_0 of model m and platform python specifies profile field which "
                        "is only supported for TensorRT models"
                    ),
                )
            ],
        ),
    ],
)
def test_each_problem_stands_at_its_field(
    tmp_path: pathlib.Path, config: str, expected: list[Shown]
) -> None:
    assert shown(resolve(make_model(tmp_path, PYTHON + config)).problems) == expected


@pytest.mark.parametrize(
    ("config", "gpus", "expected"),
    [
        (
            "instance_group { kind: KIND_GPU gpus: [ 0, 7 ] }",
            (0, 1),
            [
                (
                    2,
                    44,
                    (
                        "instance group m_0 of model m specifies invalid or unsupported gpu id 7. GPUs here "
                        "are: 0, 1"
                    ),
                )
            ],
        ),
        ("instance_group { kind: KIND_GPU gpus: [ 0 ] }", (0, 1), []),
        ("instance_group { kind: KIND_GPU }", (3,), []),
        (  # the real server takes this group for KIND_CPU, then refuses it for its GPUs
            "instance_group { gpus: [ 7 ] }",
            (0,),
            [
                (
                    2,
                    24,
                    "instance group m_0 of model m has kind KIND_CPU but specifies one or more GPUs",
                )
            ],
        ),
    ],
)
def test_gpus_are_held_against_those_that_there_are(
    tmp_path: pathlib.Path, config: str, gpus: tuple[int, ...], expected: list[Shown]
) -> None:
    assert shown(resolve(make_model(tmp_path, PYTHON + config), gpus=gpus).problems) == expected


@pytest.mark.parametrize(
    ("groups", "problem"),
    [
        ("{ count: 1024 }", None),
        ("{ count: 1000 }, { count: 24 }", None),
        ("{ kind: KIND_GPU count: 1024 }", None),
        ("{ kind: KIND_GPU count: 512 gpus: [ 0, 1 ] }", None),
        (
            "{ count: 2147483647 }",
            (2, 27, "m_0 of model m has count 2147483647: a model may have 1,024 instances, and this makes 2,147,483,647"),
        ),
        (
            "{ count: 1000 }, { count: 25 }",
            (
                2, 44,
                "m_1 of model m has count 25: a model may have 1,024 instances, and this makes 1,025 together with the groups before it",
            ),
        ),
        (
            "{ kind: KIND_GPU count: 513 gpus: [ 0, 1 ] }",
            (2, 42, "m_0 of model m has count 513 on each of 2 GPUs: a model may have 1,024 instances, and this makes 1,026"),
        ),
    ],
)  # fmt: skip
def test_the_number_of_instances_is_bounded(
    tmp_path: pathlib.Path, groups: str, problem: tuple[int, int, str] | None
) -> None:
    folder = make_model(tmp_path, PYTHON + f"instance_group [ {groups} ]")
    expected = [] if problem is None else [(*problem[:2], "instance group " + problem[2])]
    assert shown(resolve(folder, gpus=(0, 1)).problems) == expected


@pytest.mark.parametrize(
    ("config", "place", "fragment", "suggestion"),
    [
        (
            'platform: "onnxruntime_onx"',
            (1, 11),
            "unexpected platform type 'onnxruntime_onx' for m",
            "did you mean 'onnxruntime_onnx'?",
        ),
        (
            'platform: "python"',
            (1, 11),
            "unexpected platform type 'python' for m",
            'write backend: "python"',
        ),
        (
            'platform: "zzz"',
            (1, 11),
            "unexpected platform type 'zzz' for m",
            (
                "platforms are tensorflow_savedmodel, tensorflow_graphdef, tensorrt_plan, onnxruntime_onnx, "
                "pytorch_libtorch, torch_aoti"
            ),
        ),
        (
            'default_model_filename: "net.py"',
            (1, 25),
            "must specify 'platform' or 'backend' for 'm': Invalid model name: Could not determine backend for model 'm'",
            'write backend: "python"',
        ),
        (
            'name: "n" backend: "python"',
            (1, 7),
            "unexpected directory name 'm' for model 'n', directory name must equal model name",
            "write name: \"m\", take name out, or rename the folder to 'n'",
        ),
    ],
)
def test_backend_and_name_are_explained(
    tmp_path: pathlib.Path, config: str, place: tuple[int, int], fragment: str, suggestion: str
) -> None:
    problem = only(resolve(make_model(tmp_path, config)))
    assert problem.position is not None
    assert (problem.position.line, problem.position.column) == place
    assert problem.message.startswith(fragment)
    assert problem.suggestion.startswith(suggestion)
    assert problem.line_text == config


def test_a_platform_of_another_backend_is_refused(tmp_path: pathlib.Path) -> None:
    folder = make_model(tmp_path, 'platform: "onnxruntime_onnx" backend: "tensorrt"')
    problem, *_, without_gpu = resolve(folder).problems
    assert shown([problem]) == [
        (1, 11, "unexpected 'platform' and 'backend' pair, got:onnxruntime_onnx, tensorrt")
    ]
    assert problem.suggestion == "leave platform out: backend says it all"
    assert without_gpu.message == (
        "instance group m of model m needs a GPU but no GPUs are available, and backend 'tensorrt' has no form for the CPU"
    )
    assert without_gpu.suggestion.startswith("serve the ONNX file that the plan was built from")


def test_an_ensemble_has_no_backend(tmp_path: pathlib.Path) -> None:
    folder = make_model(tmp_path, 'platform: "ensemble" backend: "python"')
    assert shown(resolve(folder).problems) == [
        (1, 31, "Ensemble model 'm' must have platform type 'ensemble' and empty backend type")
    ]


def test_a_folder_that_says_nothing_of_a_backend_is_explained(tmp_path: pathlib.Path) -> None:
    problem = only(resolve(make_model(tmp_path, files={"1/weights.bin": b""})))
    assert problem.path == tmp_path / "m"
    assert problem.position is None
    assert "must specify 'platform' or 'backend' for 'm'" in problem.message


def test_a_group_with_gpus_says_so_where_there_are_none(tmp_path: pathlib.Path) -> None:
    config = 'backend: "python" instance_group { kind: KIND_CPU gpus: 0 }'
    assert only(resolve(make_model(tmp_path, config))).suggestion == (
        "take gpus out: this machine has no GPU"
    )
    assert only(resolve(make_model(tmp_path, config), gpus=(0,))).suggestion == (
        "write kind: KIND_GPU, or take gpus out"
    )


def test_all_problems_of_a_file_come_in_one_pass_in_its_order(tmp_path: pathlib.Path) -> None:
    config = """\
name: "other"
max_batchsize: 8
backend: "python"
input [ { name: "a" data_type: TYPE_FLOAT32 dims: [ 0 ] } ]
dynamic_batching { preferred_batch_size: [ 16 ] }
instance_group [ { kind: KIND_CPU gpus: [ 0 ] passive: true } ]
"""
    problems = resolve(make_model(tmp_path, config)).problems
    assert [problem.position and problem.position.line for problem in problems] == [
        1,
        2,
        4,
        4,
        5,
        6,
        6,
    ]
    assert [problem.line_text for problem in problems] == [
        config.splitlines()[line - 1] for line in (1, 2, 4, 4, 5, 6, 6)
    ]


@pytest.mark.parametrize(
    ("config", "place", "backend", "suggestion"),
    [
        ('backend: "pyton"', (1, 10), "pyton", "did you mean 'python'?"),
        (
            'backend: "elsewhere"',
            (1, 10),
            "elsewhere",
            "this server has caffe2, dali, fil, onnxruntime, openvino, python, pytorch, tensorflow, tensorrt, vllm",
        ),
        (
            'backend: "tensorrtllm"',
            (1, 10),
            "tensorrtllm",
            (
                'TensorRT-LLM\'s engines are not served: serve the language model with backend: "vllm", or with '
                'backend: "python" and a model.py that runs TensorRT-LLM itself'
            ),
        ),
    ],
)
def test_a_backend_that_is_not_there_is_refused_at_its_line(
    tmp_path: pathlib.Path, config: str, place: tuple[int, int], backend: str, suggestion: str
) -> None:
    folder = make_model(tmp_path, config)
    problem = only(resolve(folder))
    assert shown([problem]) == [(*place, f"unable to find backend library for backend '{backend}'")]
    assert problem.suggestion == suggestion


def test_the_error_of_a_level_out_of_range_names_the_range_and_a_missing_one_is_asked_for(
    tmp_path: pathlib.Path,
) -> None:
    config = PYTHON + "max_batch_size: 8 dynamic_batching { priority_levels: 2 "
    wrong = resolve(make_model(tmp_path / "a", config + "default_priority_level: 3 }"))
    missing = resolve(make_model(tmp_path / "b", config + "}"))

    assert (
        wrong.problems[0].suggestion
        == "write default_priority_level: 1 to 2, or raise priority_levels"
    )
    assert missing.problems[0].suggestion.startswith("add default_priority_level")


def test_many_gpus_are_named_by_the_first_and_the_last(tmp_path: pathlib.Path) -> None:
    config = PYTHON + "instance_group { kind: KIND_GPU gpus: 99 }"
    (problem,) = resolve(make_model(tmp_path, config), gpus=range(64)).problems

    assert problem.message.endswith("gpu id 99. GPUs here are: 0 to 63")


def test_an_unfilled_parameter_is_noted_and_left_to_the_model(tmp_path: pathlib.Path) -> None:
    config = PYTHON + 'parameters { key: "engine" value { string_value: "${engine_dir}" } }'
    resolution = resolve(make_model(tmp_path, config))

    assert resolution.problems == ()
    assert resolution.warnings == (
        "parameter 'engine' holds ${engine_dir}: if this file is a template, it was never filled in",
    )
