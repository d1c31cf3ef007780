"""Warmup samples of a config: what can be run, and what is wrong with the others, by the names of sample and input."""

import pathlib
import struct

import pytest

from tests.server.config.model_folders import make_model, only, resolve

HEAD = """backend: "python"
max_batch_size: 4
input [ { name: "X" data_type: TYPE_FP32 dims: [ -1 ] }, { name: "S" data_type: TYPE_STRING dims: [ 2 ] optional: true } ]
output { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }
"""
X = 'inputs { key: "X" value { data_type: TYPE_FP32 dims: [ 3 ] zero_data: true } }'


def strings(*elements: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(each)) + each for each in elements)


def sample(inputs: str, *, batch_size: int = 1) -> str:
    return f'model_warmup {{ name: "w" batch_size: {batch_size} {inputs} }}'


def test_every_kind_of_value_becomes_part_of_the_typed_config(tmp_path: pathlib.Path) -> None:
    text = HEAD + sample(
        """
        count: 5
        inputs { key: "X" value { data_type: TYPE_FP32 dims: [ 3 ] random_data: true } }
        inputs { key: "S" value { data_type: TYPE_STRING dims: [ 2 ] input_data_file: "words" } }
        """,
        batch_size=4,
    )
    folder = make_model(
        tmp_path, text, files={"1/model.py": b"", "warmup/words": strings(b"a", b"bc")}
    )
    found = resolve(folder)
    assert found.problems == ()
    assert found.config is not None
    (made,) = found.config.warmup
    assert (made.name, made.batch_size, made.count) == ("w", 4, 5)
    assert [(each.name, each.dims, each.file, each.random) for each in made.inputs] == [
        ("S", (2,), "words", False),
        ("X", (3,), "", True),
    ]


def test_a_sample_without_batches_is_left_out_with_a_note(tmp_path: pathlib.Path) -> None:
    found = resolve(make_model(tmp_path, HEAD + 'model_warmup { name: "w" }'))
    assert found.config is not None
    assert found.config.warmup == ()
    assert "model_warmup[0] has no effect: its batch_size is 0" in found.notes


def test_a_count_of_nothing_is_one(tmp_path: pathlib.Path) -> None:
    found = resolve(make_model(tmp_path, HEAD + sample(X)))
    assert found.config is not None
    assert found.config.warmup[0].count == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            sample(X, batch_size=5),
            "model_warmup[0] 'w': batch size 5 for 'm', max allowed is 4",
        ),
        (
            sample(""),
            "model_warmup[0] 'w': expected 2 inputs but got 0 inputs for model 'm'. Got input(s) [], but missing required input(s) ['X']. Please provide all required input(s).",
        ),
        (
            sample(X.replace("[ 3 ]", "[ -1 ]")),
            "model_warmup[0] 'w', input 'X': warmup setting expects all variable-size dimensions are specified for input 'X'; got [-1]",
        ),
        (
            sample(X.replace("FP32", "INT8")),
            "model_warmup[0] 'w', input 'X': inference input 'X' data-type is 'TYPE_INT8', but model 'm' expects 'TYPE_FP32'",
        ),
        (
            sample(X.replace("[ 3 ]", "[ 1, 3 ]")),
            "model_warmup[0] 'w', input 'X': unexpected shape for input 'X' for model 'm'. Expected [-1], got [1,3]",
        ),
        (
            sample(X.replace("zero_data: true", "")),
            "model_warmup[0] 'w', input 'X': warmup setting expects input 'X' to have input_data_type set",
        ),
        (
            sample(X.replace("data_type: TYPE_FP32", "")),
            "model_warmup[0] 'w', input 'X': data_type is missing",
        ),
        (
            sample(X + X.replace('"X"', '"Z"')),
            "model_warmup[0] 'w', input 'Z': unexpected inference input 'Z' for model 'm'; its inputs are ['X','S']",
        ),
        (
            sample(X.replace("zero_data: true", 'input_data_file: "short"')),
            "model_warmup[0] 'w', input 'X': warmup setting expects 12 bytes, but the data provided from short only has 5 bytes",
        ),
        (
            sample(X.replace("[ 3 ]", "[ 1000000000 ]")),
            "model_warmup[0] 'w': its inputs have 4000000000 bytes, the most is 2147483648",
        ),
    ],
)
def test_what_cannot_be_run_is_a_problem_of_its_sample_and_input(
    tmp_path: pathlib.Path, text: str, message: str
) -> None:
    folder = make_model(tmp_path, HEAD + text, files={"1/model.py": b"", "warmup/short": b"12345"})
    problem = only(resolve(folder))
    assert problem.message == message
    assert problem.position is not None
    assert problem.position.line == 5


def test_a_missing_file_is_named(tmp_path: pathlib.Path) -> None:
    text = HEAD + sample(X.replace("zero_data: true", 'input_data_file: "none"'))
    folder = make_model(tmp_path, text)
    assert only(resolve(folder)).message == (
        f"model_warmup[0] 'w', input 'X': failed to open text file for read {folder}/warmup/none: No such file or directory"
    )


def test_a_folder_in_place_of_a_file_is_said_to_be_one(tmp_path: pathlib.Path) -> None:
    text = HEAD + sample(X.replace("zero_data: true", 'input_data_file: "data"'))
    folder = make_model(tmp_path, text, files={"1/model.py": b"", "warmup/data/0": b"12345"})
    assert only(resolve(folder)).message.endswith(f"{folder}/warmup/data: Is a directory")


def test_a_file_outside_the_model_is_one_problem(tmp_path: pathlib.Path) -> None:
    text = HEAD + sample(X.replace("zero_data: true", 'input_data_file: "../../data"'))
    problem = only(resolve(make_model(tmp_path, text)))
    assert problem.message.endswith("'../../data' leads out of the model's folder")


def test_bytes_behind_the_values_are_a_note(tmp_path: pathlib.Path) -> None:
    text = HEAD + sample(X.replace("zero_data: true", 'input_data_file: "long"'))
    folder = make_model(tmp_path, text, files={"1/model.py": b"", "warmup/long": b"0" * 14})
    found = resolve(folder)
    assert found.problems == ()
    assert (
        "model_warmup[0] 'w', input 'X': the last 2 of the 14 bytes of long are not used"
        in found.notes
    )


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (strings(b"a"), "1 elements"),
        (strings(b"a", b"b", b"c"), "more than 2 elements"),
        (strings(b"a", b"bcd")[:-1], "a last element that is cut off"),
        (strings(b"a") + b"\1\0", "a last element that is cut off"),
    ],
)
def test_a_file_of_strings_has_as_many_as_the_shape(
    tmp_path: pathlib.Path, content: bytes, what: str
) -> None:
    words = 'inputs { key: "S" value { data_type: TYPE_STRING dims: 2 input_data_file: "words" } }'
    folder = make_model(
        tmp_path, HEAD + sample(X + words), files={"1/model.py": b"", "warmup/words": content}
    )
    assert only(resolve(folder)).message == (
        f"model_warmup[0] 'w', input 'S': warmup setting expects 2 elements, but the data provided from words has {what}"
    )


def test_without_a_batch_dimension_any_batch_size_is_run_one_by_one(tmp_path: pathlib.Path) -> None:
    found = resolve(
        make_model(tmp_path, HEAD.replace("max_batch_size: 4", "") + sample(X, batch_size=9))
    )
    assert found.problems == ()


def test_inputs_of_the_sequence_batcher_may_be_listed_and_those_left_out_are_a_note(
    tmp_path: pathlib.Path,
) -> None:
    """A sample has only what it lists (row 14.34)."""
    controls = """
    sequence_batching { control_input [
      { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } },
      { name: "READY" control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } } ] }
    """
    start = 'inputs { key: "START" value { data_type: TYPE_INT32 dims: 1 zero_data: true } }'
    found = resolve(make_model(tmp_path, HEAD + controls + sample(X + start)))
    assert found.problems == ()
    assert (
        "model_warmup[0] 'w': runs without the inputs ['READY'] of sequence_batching, because it does not list them"
        in found.notes
    )
