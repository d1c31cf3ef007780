"""A config against its ONNX graph: what disagrees, where, and what to write (rows 16.2-16.4)."""

import pathlib

import onnx
import pytest
from onnx import TensorProto, helper

from naiad.config.problem import Problem
from tests.server.config.model_folders import Shown, make_model, only, resolve, shown
from tests.server.config.onnx_models import model, value

MAGIKA = model(
    [value("bytes", ["N", 2048], TensorProto.INT32)], [value("target_label", ["N", 214])]
)
GOOD_IN = 'input { name: "bytes" data_type: TYPE_INT32 dims: [ 2048 ] }'
GOOD_OUT = 'output { name: "target_label" data_type: TYPE_FP32 dims: [ 214 ] }'
LOAD = "unable to load model 'm', "


def problems_of(
    root: pathlib.Path, config: str, proto: onnx.ModelProto = MAGIKA
) -> tuple[Problem, ...]:
    return resolve(make_model(root, config, files={"1/model.onnx": proto})).problems


@pytest.mark.parametrize(
    ("config", "expected", "suggestion"),
    [
        (f"max_batch_size: 8\n{GOOD_IN}\n{GOOD_OUT}", [], ""),
        (
            f"max_batch_size: 8\n{GOOD_IN.replace('INT32', 'INT64')}\n{GOOD_OUT}",
            [
                (
                    2,
                    34,
                    (
                        f"{LOAD}configuration expects datatype TYPE_INT64 for input 'bytes', model "
                        "provides TYPE_INT32"
                    ),
                )
            ],
            "write data_type: TYPE_INT32",
        ),
        (
            f"max_batch_size: 8\n{GOOD_IN.replace('bytes', 'byte')}\n{GOOD_OUT}",
            [(2, 15, "unexpected inference input 'byte', allowed inputs are: bytes")],
            "did you mean 'bytes'?",
        ),
        (
            f"max_batch_size: 8\n{GOOD_IN}\n{GOOD_OUT.replace('target_label', 'zzz')}",
            [(3, 16, "unexpected inference output 'zzz', allowed outputs are: target_label")],
            'write name: "target_label"',
        ),
        (
            f"max_batch_size: 8\n{GOOD_IN.replace('2048', '2047')}\n{GOOD_OUT}",
            [
                (
                    2,
                    53,
                    (
                        "model 'm', tensor 'bytes': config says dims [2047] after the batch dimension, the "
                        "graph says [N, 2048]: 2047 is not 2048"
                    ),
                )
            ],
            "write dims: [2048]",
        ),
        (
            f"max_batch_size: 8\n{GOOD_IN.replace('2048', '-1')}\n{GOOD_OUT}",
            [
                (
                    2,
                    53,
                    (
                        "model 'm', tensor 'bytes': config says dims [-1] after the batch dimension, the "
                        "graph says [N, 2048]: -1 is not 2048"
                    ),
                )
            ],
            "write dims: [2048]",
        ),
        (
            f"max_batch_size: 8\n{GOOD_IN.replace('2048', '-1, 2048')}\n{GOOD_OUT}",
            [
                (
                    2,
                    51,
                    (
                        "model 'm', tensor 'bytes': config says dims [-1, 2048] after the batch dimension, "
                        "the graph says [N, 2048]: the model expects 2 dimensions but the model "
                        "configuration specifies 3"
                    ),
                )
            ],
            "write dims: [2048]: dims leave the batch dimension out, because max_batch_size is above 0",
        ),
        (
            f"{GOOD_IN}\n{GOOD_OUT.replace('214', '-1, 214')}",
            [
                (
                    1,
                    51,
                    (
                        "model 'm', tensor 'bytes': config says dims [2048], the graph says [N, 2048]: the "
                        "model expects 2 dimensions but the model configuration specifies 1"
                    ),
                )
            ],
            "write max_batch_size: 8 (or as much as you like), or dims: [-1, 2048]",
        ),
        (
            f"{GOOD_IN.replace('2048', '5, 2048')}\n{GOOD_OUT.replace('214', '-1, 214')}",
            [],
            "",
        ),
        (
            f"max_batch_size: 8\n{GOOD_IN}\n{GOOD_IN.replace('bytes', 'more')}\n{GOOD_OUT}",
            [(3, 15, "unexpected inference input 'more', allowed inputs are: bytes")],
            "",
        ),
    ],
)
def test_what_disagrees_is_said_at_its_place(
    tmp_path: pathlib.Path, config: str, expected: list[Shown], suggestion: str
) -> None:
    problems = problems_of(tmp_path, config)
    assert shown(problems) == expected
    assert [problem.suggestion for problem in problems] == [suggestion] * len(expected)


TWO = model([value("a", ["N", 2]), value("b", ["N"])], [value("y", ["N", 2]), value("z", ["N", 2])])
A = 'input { name: "a" data_type: TYPE_FP32 dims: 2 }'
Y = 'output { name: "y" data_type: TYPE_FP32 dims: 2 }'


def test_a_missing_input_is_counted_and_written_out(tmp_path: pathlib.Path) -> None:
    problem = only(
        resolve(make_model(tmp_path, f"max_batch_size: 4\n{A}\n{Y}", files={"1/model.onnx": TWO}))
    )
    assert problem.message == f"{LOAD}configuration expects 1 inputs, model provides 2"
    assert problem.position is not None
    assert problem.position.line == 2
    assert problem.suggestion == 'add input { name: "b" data_type: TYPE_FP32 dims: [1] }'


def test_without_completion_missing_inputs_are_counted_too(tmp_path: pathlib.Path) -> None:
    folder = make_model(tmp_path, "max_batch_size: 4", files={"1/model.onnx": TWO})
    problem = only(resolve(folder, auto_complete=False))
    assert problem.message == f"{LOAD}configuration expects 0 inputs, model provides 2"
    assert (
        'input { name: "a" data_type: TYPE_FP32 dims: [2] }, input { name: "b"'
        in problem.suggestion
    )


def test_some_of_the_outputs_are_enough(tmp_path: pathlib.Path) -> None:
    b = 'input { name: "b" data_type: TYPE_FP32 dims: 1 reshape {} }'
    assert problems_of(tmp_path, f"max_batch_size: 4\n{A}\n{b}\n{Y}", TWO) == ()


def test_an_initialiser_among_the_inputs_may_be_given_or_left_out(tmp_path: pathlib.Path) -> None:
    proto = model([value("x", [2]), value("w", [2])], [value("y", [2])], initializers={"w": [1, 2]})
    x = 'input { name: "x" data_type: TYPE_FP32 dims: 2 }'
    w = 'input { name: "w" data_type: TYPE_FP32 dims: 2 optional: true }'
    assert problems_of(tmp_path, f"{x}\n{Y}", proto) == ()
    assert problems_of(tmp_path, f"{x}\n{w}\n{Y}", proto) == ()
    (problem,) = problems_of(tmp_path, f"{x}\n{w.replace('optional: true', '')}\n{Y}", proto)
    assert problem.message == f"{LOAD}configuration expects 2 inputs, model provides 1"
    assert problem.suggestion.startswith("add optional: true to 'w'")
    (problem,) = problems_of(tmp_path, f"{x.replace('2 }', '2 optional: true }')}\n{Y}", proto)
    assert problem.message == f"{LOAD}configuration expects 0 inputs, model provides 1"
    assert problem.suggestion.startswith("take optional out")


def test_an_optional_input_does_not_go_with_batches(tmp_path: pathlib.Path) -> None:
    proto = model(
        [value("x", ["N", 2]), value("w", ["N", 2])],
        [value("y", ["N", 2])],
        initializers={"w": [1]},
    )
    x = 'input { name: "x" data_type: TYPE_FP32 dims: 2 }'
    w = 'input { name: "w" data_type: TYPE_FP32 dims: 2 optional: true }'
    problems = problems_of(tmp_path, f"max_batch_size: 2\n{x}\n{w}\n{Y}", proto)
    assert shown(problems) == [
        (3, 58, f"{LOAD}optional input 'w' is not supported for models that support batching")
    ]


FIXED = model([value("a", [1, 2])], [value("y", [1, 2]), value("z", ["N", 2])])


def test_a_fixed_first_dimension_takes_no_batches(tmp_path: pathlib.Path) -> None:
    problems = problems_of(tmp_path, f"max_batch_size: 8\n{A}\n{Y}", FIXED)
    assert shown(problems) == [
        (
            1,
            17,
            (
                "model 'm', tensor 'a': for the model to support batching the shape should have at least 1 "
                "dimension and the first dimension must be -1; but shape expected by the model is [1, 2]; "
                "so with 'y' [1, 2]"
            ),
        )
    ]
    assert (
        "write max_batch_size: 0 and the whole shape as dims, here [1, 2]" in problems[0].suggestion
    )


SCALAR = model([value("a", [])], [value("y", [])])


@pytest.mark.parametrize(("dims", "good"), [("[ 1 ]", True), ("[ 1, 1 ]", True), ("[ 2 ]", False)])
def test_a_scalar_has_dims_of_one(tmp_path: pathlib.Path, dims: str, *, good: bool) -> None:
    config = f"{A}\n{Y}".replace("dims: 2", f"dims: {dims}")
    messages = [problem.message for problem in problems_of(tmp_path, config, SCALAR)]
    if good:
        assert messages == []
    else:
        assert messages == [
            f"{LOAD}scalar tensor '{name}', should only provide 1 in the model configuration when the "
            "model doesn't support batching. Model configuration provided: [2]."
            for name in ("a", "y")
        ]


def test_a_scalar_takes_no_batches(tmp_path: pathlib.Path) -> None:
    config = f"max_batch_size: 2 {A}\n{Y}".replace("dims: 2", "dims: 1")
    (problem,) = problems_of(tmp_path, config, SCALAR)
    assert "but shape expected by the model is []" in problem.message


def test_the_shape_compared_is_the_reshaped_one(tmp_path: pathlib.Path) -> None:
    proto = model([value("a", ["N", 2, 3])], [value("y", ["N", 2])])
    shaped = 'input { name: "a" data_type: TYPE_FP32 dims: 6 reshape { shape: [ 2, 3 ] } }'
    assert problems_of(tmp_path, f"max_batch_size: 2\n{shaped}\n{Y}", proto) == ()
    (problem,) = problems_of(
        tmp_path, f"max_batch_size: 2\n{shaped.replace('2, 3', '3, 2')}\n{Y}", proto
    )
    assert (
        "config says reshape [3, 2] after the batch dimension, the graph says [N, 2, 3]"
        in problem.message
    )
    assert problem.message.endswith(": 3 is not 2, 2 is not 3")
    assert problem.suggestion == "reshape to [2, 3]"


def test_an_output_that_the_file_leaves_free_is_not_held_against_the_config(
    tmp_path: pathlib.Path,
) -> None:
    proto = model([value("a", ["N", 2])], [value("y", ["N", "k"])])
    assert problems_of(tmp_path, f"max_batch_size: 2\n{A}\n{Y}", proto) == ()
    proto = model([value("a", ["N", 2])], [value("y", None)])
    assert problems_of(tmp_path, f"max_batch_size: 2\n{A}\n{Y}", proto) == ()


def test_a_sequence_is_not_a_tensor(tmp_path: pathlib.Path) -> None:
    sequence = helper.make_tensor_sequence_value_info("z", TensorProto.FLOAT, [1])
    proto = model([value("a", ["N", 2])], [value("y", ["N", 2]), sequence])
    assert problems_of(tmp_path, f"max_batch_size: 2\n{A}\n{Y}", proto) == ()
    (problem,) = problems_of(
        tmp_path, f"max_batch_size: 2\n{A}\n{Y.replace('y', 'z', 1)}".replace('"y"', '"z"'), proto
    )
    assert "Unsupported ONNX Type 'ONNX_TYPE_SEQUENCE' for I/O 'z'" in problem.message
    assert problem.suggestion.endswith("pass options={'zipmap': False} to skl2onnx")


LABELS = model(
    [value("X", [None, 4])],
    [value("label", [None], TensorProto.INT64), value("probabilities", [None, 2])],
)
"""What skl2onnx makes of a classifier: one label per row of the batch, in a shape `[?]`."""


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        ("", "max_batch_size, which the config leaves out, is completed to 4"),
        ("max_batch_size: 8\n", "max_batch_size is above 0"),
    ],
)
def test_the_advice_for_one_value_per_row_works(
    tmp_path: pathlib.Path, batch: str, reason: str
) -> None:
    works = "dims: [ 1 ] reshape { shape: [ ] }"
    probabilities = 'output { name: "probabilities" data_type: TYPE_FP32 dims: [ 2 ] }'
    for number, given in enumerate(
        ("dims: [ 1 ]", "dims: [ -1 ]", "dims: [ 1 ] reshape { shape: [ 1, 1 ] }")
    ):
        config = f'{batch}output {{ name: "label" data_type: TYPE_INT64 {given} }}\n{probabilities}'
        resolution = resolve(
            make_model(tmp_path / f"{number} notes", config, files={"1/model.onnx": LABELS})
        )
        if not batch and not resolution.problems:  # right if the session shows no batches
            (note,) = (each for each in resolution.notes if each.startswith("if the model takes"))
            assert "model 'm', tensor 'label': config says" in note
            continue
        (problem,) = problems_of(tmp_path / str(number), config, LABELS)
        advice, _, why = problem.suggestion.partition(": dims leave the batch dimension out, ")
        assert advice == f"write {works}"
        assert why in {f"because {reason}", ""}
        fixed = config.replace(given, works)
        assert problems_of(tmp_path / f"{number} fixed", fixed, LABELS) == ()


def test_an_unfilled_batch_size_does_not_make_the_dims_wrong(tmp_path: pathlib.Path) -> None:
    problems = problems_of(tmp_path, f"max_batch_size: ${{size}}\n{GOOD_IN}\n{GOOD_OUT}")
    assert [problem.position and problem.position.line for problem in problems] == [1]
    problems = problems_of(tmp_path, f"zzz: 3\n{GOOD_IN}\n{GOOD_OUT}")
    assert [problem.position and problem.position.line for problem in problems] == [1]


def test_dims_that_could_not_be_read_are_not_compared_and_the_rest_is(
    tmp_path: pathlib.Path,
) -> None:
    config = f"max_batch_size: 8\n{GOOD_IN.replace('2048', '2048, ${n}')}\n{GOOD_OUT.replace('214', '9')}"
    assert [(line, column) for line, column, _ in shown(problems_of(tmp_path, config))] == [
        (2, 59),
        (3, 60),
    ]


def test_an_output_that_the_config_leaves_out_does_not_count(tmp_path: pathlib.Path) -> None:
    """Neither its name counts nor a first dimension that would keep the model from batching (row 16.3)."""
    more = model([value("x", ["N", 3])], [value("y", ["N", 3]), value("count", [1])])
    config = (
        'max_batch_size: 8 input { name: "x" data_type: TYPE_FP32 dims: 3 } '
        'output { name: "y" data_type: TYPE_FP32 dims: 3 }'
    )
    assert problems_of(tmp_path, config, more) == ()


def test_inputs_that_a_batcher_adds_are_not_asked_for(tmp_path: pathlib.Path) -> None:
    """A sequence's controls and states, and batch inputs, are inputs of the graph and not of requests."""
    names = ["INPUT", "START", "READY", "state_in", "lengths"]
    graph = model([value(name, ["N", 1]) for name in names], [value("OUTPUT", ["N", 1])])
    config = (
        'max_batch_size: 8 input { name: "INPUT" data_type: TYPE_FP32 dims: 1 } '
        'output { name: "OUTPUT" data_type: TYPE_FP32 dims: 1 } '
        'sequence_batching { control_input { name: "START" } control_input { name: "READY" } '
        'state { input_name: "state_in" output_name: "OUTPUT" } } '
        'batch_input { kind: BATCH_ITEM_SHAPE target_name: "lengths" data_type: TYPE_FP32 source_input: "INPUT" }'
    )
    messages = [problem.message for problem in problems_of(tmp_path, config, graph)]
    assert not any("batch" in message for message in messages)
    assert not any("configuration expects" in message for message in messages)


SEQUENCE = model(
    [
        value("INPUT", ["N", 3]),
        value("START", ["N", 1], TensorProto.INT32),
        value("S_IN", ["N", 2]),
    ],
    [value("OUTPUT", ["N", 3]), value("S_OUT", ["N", 2])],
)
START = 'control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [0, 1] } }'
STATE = 'state { input_name: "S_IN" output_name: "S_OUT" data_type: TYPE_FP32 dims: 2 }'


@pytest.mark.parametrize(
    ("graph", "added", "message"),
    [
        (SEQUENCE, f"{START} {STATE}", ""),
        (
            SEQUENCE,
            f"{START.replace('START', 'BEGIN', 1)} {STATE}",
            "configuration specified sequence control 'BEGIN', but model does not provide that input",
        ),
        (
            SEQUENCE,
            f"{START.replace('int32', 'fp32')} {STATE}",
            f"{LOAD}sequence control 'START', the model expects data-type TYPE_INT32 but the model configuration specifies data-type TYPE_FP32",
        ),
        (
            SEQUENCE,
            f"{START} {STATE.replace('S_IN', 'S')}",
            "configuration specified input state 'S', but model does not provide that input",
        ),
        (
            SEQUENCE,
            f"{START} {STATE.replace('S_OUT', 'T_OUT')}",
            "configuration specified output state 'T_OUT', but model does not provide that output",
        ),
        (
            SEQUENCE,
            f"{START} {STATE.replace('FP32', 'INT64')}",
            f"{LOAD}input state 'S_IN', the model expects data-type TYPE_FP32 but the model configuration specifies data-type TYPE_INT64",
        ),
        (
            SEQUENCE,
            f"{START} {STATE.replace('dims: 2', 'dims: 4')}",
            "model 'm', input state 'S_IN': config says dims [4], the graph says [N, 2]",
        ),
        (SEQUENCE, STATE, f"{LOAD}configuration expects 1 inputs, model provides 2"),
        (
            model(
                [
                    value("INPUT", ["N", 3]),
                    value("START", ["N", 2], TensorProto.INT32),
                    value("S_IN", ["N", 2]),
                ],
                [value("OUTPUT", ["N", 3]), value("S_OUT", ["N", 2])],
            ),
            f"{START} {STATE}",
            f"{LOAD}sequence control 'START' in model has dims [2] but dims [1] is expected",
        ),
    ],
)
def test_controls_and_states_are_held_against_the_graph(
    tmp_path: pathlib.Path, graph: onnx.ModelProto, added: str, message: str
) -> None:
    config = (
        'max_batch_size: 8 input { name: "INPUT" data_type: TYPE_FP32 dims: 3 } '
        'output { name: "OUTPUT" data_type: TYPE_FP32 dims: 3 } '
        f"sequence_batching {{ {added} }}"
    )
    problems = problems_of(tmp_path, config, graph)
    said = [problem.message for problem in problems if "not supported yet" not in problem.message]
    assert said[:1] == ([message] if message else [])
    assert all(problem.position is not None and problem.suggestion for problem in problems)
