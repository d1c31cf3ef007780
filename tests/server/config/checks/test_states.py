"""The rules for implicit states: config text in, exact problems out (rows 11.28, 13.21), and the files that sequences begin with."""

import os
import pathlib
import struct

import pytest

from naiad.config.resolving.resolve import Resolution
from naiad.config.sequence_states import SequenceState
from naiad.core import datatypes
from tests.server.config.model_folders import make_model, resolve

STATE = 'input_name: "S" output_name: "T" data_type: TYPE_FP32 dims: [ 2, -1 ]'
INITIAL = 'initial_state { name: "i" data_type: TYPE_FP32 dims: [ 2, 3 ] zero_data: true }'
UNNAMED = INITIAL.replace('name: "i"', "")
TO_U, FROM_R = STATE.replace('"T"', '"U"'), STATE.replace('"S"', '"R"')


def resolved(
    root: pathlib.Path, states: str, *, files: dict[str, bytes] | None = None, more: str = ""
) -> Resolution:
    config = f'backend: "python" {more}\nsequence_batching {{\n{states}\n}}'
    return resolve(make_model(root, config, files={"1/model.py": b"", **(files or {})}))


def problems(resolution: Resolution) -> list[tuple[int, str]]:
    """Line and message of each, without what another feature is refused with."""
    return [
        (problem.position.line if problem.position else 0, problem.message)
        for problem in resolution.problems
        if "not supported yet" not in problem.message
    ]


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (f"state {{ {STATE} }}", ""),
        (f"state {{ {STATE} {INITIAL} }}", ""),
        ("state { }", "state must specify 'input_name'"),
        (
            f"state {{ {STATE.replace('2, -1', '2, 0')} }}",
            "state 'S' dimension must be integer >= 1, or -1 to indicate a variable-size dimension; this is 0",
        ),
        (
            f"state {{ {STATE} {INITIAL} {INITIAL} }}",
            "initial_state field for state input 'S' must contain exactly one or zero element. Found '2' elements.",
        ),
        (
            f"state {{ {STATE} {INITIAL.replace('FP32', 'FP64')} }}",
            "The data type used for 'initial_state' field of state 'S' does not match the state data type.",
        ),
        (
            f"state {{ {STATE} {UNNAMED} }}",
            "Field 'name' must be set when using initial_state for state input 'S'.",
        ),
        (
            f"state {{ {STATE} {INITIAL.replace('2, 3', '2')} }}",
            "Number of dimensions in 'initial_state' doesn't match the size of 'state' dimensions for state input 'S'. 1 != 2",
        ),
        (
            f"state {{ {STATE} {INITIAL.replace('2, 3', '2, -1')} }}",
            "'initial_state' field for state input name 'S' contains variable dimensions.",
        ),
        (
            f"state {{ {STATE} {INITIAL.replace('2, 3', '4, 3')} }}",
            "'initial_state' dim for input name 'S' doesn't match 'state' dim description. 4 != 2",
        ),
        (
            f"state {{ {STATE} {INITIAL.replace('zero_data: true', '')} }}",
            "initial_state setting expects state'S' to have state_data set",
        ),
        (
            f"state {{ {STATE} }} state {{ {TO_U} }}",
            "State input name 'S' specified more than once: it is the input of another state of model 'm' as well",
        ),
        (
            f"state {{ {STATE} }} state {{ {FROM_R} }}",
            "State output name 'T' specified more than once: it is the output of another state of model 'm' as well",
        ),
        (
            f'control_input {{ name: "S" }} state {{ {STATE} }}',
            "State input name 'S' specified more than once: it is a control of model 'm' as well",
        ),
        (
            f"state {{ {STATE} use_growable_memory: true }}",
            "In order to 'use_growable_memory', you must also enable 'use_single_buffer' for state input name 'S'.",
        ),
        (
            f"state {{ {STATE} use_same_buffer_for_input_output: true use_growable_memory: true }}",
            "",
        ),
    ],
)
def test_each_rule_has_the_words_of_the_reference(
    tmp_path: pathlib.Path, states: str, message: str
) -> None:
    resolution = resolved(tmp_path, states)
    found = [
        problem for problem in problems(resolution) if "control" not in problem[1].split(":")[0]
    ]
    assert found[:1] == ([(3, message)] if message else [])
    assert all(problem.suggestion for problem in resolution.problems)


def test_a_file_outside_the_model_is_one_problem(tmp_path: pathlib.Path) -> None:
    outside = INITIAL.replace("zero_data: true", 'data_file: "../../start.bin"')
    ((_, message),) = problems(resolved(tmp_path, f"state {{ {STATE} {outside} }}"))
    assert message.endswith("'../../start.bin' leads out of the model's folder")


def test_how_a_state_lies_in_memory_has_no_effect(tmp_path: pathlib.Path) -> None:
    states = f"state {{ {STATE} use_same_buffer_for_input_output: true use_growable_memory: true }}"
    assert resolved(tmp_path, states).notes[-2:] == (
        "sequence_batching.state[0].use_same_buffer_for_input_output has no effect: the state that a model gives replaces the last one, and may have any size",
        "sequence_batching.state[0].use_growable_memory has no effect: the state that a model gives replaces the last one, and may have any size",
    )


def test_an_output_that_is_a_state_has_one_datatype_and_one_shape(tmp_path: pathlib.Path) -> None:
    output = 'output { name: "T" data_type: TYPE_FP32 dims: [ 2, 2 ] reshape { shape: [ 4 ] } }'
    assert problems(resolved(tmp_path / "a", f"state {{ {STATE} }}", more=output)) == [
        (
            3,
            "output 'T' of model 'm' has a reshape and is a state as well: the model would be given another shape than it gives",
        )
    ]
    output = 'output { name: "T" data_type: TYPE_INT64 dims: [ 2, 2 ] }'
    assert problems(resolved(tmp_path / "b", f"state {{ {STATE} }}", more=output)) == [
        (
            3,
            "state output 'T' of model 'm' is TYPE_FP32, and the output of that name is TYPE_INT64",
        )
    ]


OF_FILE = INITIAL.replace("zero_data: true", 'data_file: "i.bin"')
FROM_FILE = f"state {{ {STATE} {OF_FILE} }}"
TEXTS = FROM_FILE.replace("FP32", "STRING")


def packed(*texts: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


@pytest.mark.parametrize(
    ("states", "content", "message"),
    [
        (FROM_FILE, bytes(24), ""),
        (FROM_FILE, bytes(25), ""),
        (
            FROM_FILE,
            bytes(23),
            "initial_state setting expects 24 bytes, but the data provided from i.bin only has 23 bytes.",
        ),
        (TEXTS, packed(b"a", b"bc", b"", b"", b"", b"f"), ""),
        (
            TEXTS,
            packed(b"a", b"bc"),
            "initial_state setting expects 6 strings, but the data provided from i.bin has others: 2 elements or more, expected 6",
        ),
    ],
)
def test_a_file_has_to_hold_the_state(
    tmp_path: pathlib.Path, states: str, content: bytes, message: str
) -> None:
    resolution = resolved(tmp_path, states, files={"initial_state/i.bin": content})
    assert problems(resolution) == ([(3, message)] if message else [])


def test_a_file_that_cannot_be_read_is_a_problem_and_a_pipe_is_not_opened(
    tmp_path: pathlib.Path,
) -> None:
    file = tmp_path / "m/initial_state/i.bin"
    start = f"failed to open text file for read {file}: "
    assert problems(resolved(tmp_path, FROM_FILE)) == [(3, f"{start}No such file or directory")]
    file.parent.mkdir()
    os.mkfifo(file)
    assert problems(resolved(tmp_path, FROM_FILE)) == [(3, f"{start}it is a named pipe (FIFO)")]


def test_the_states_of_a_config(tmp_path: pathlib.Path) -> None:
    """Free dimensions begin as 1, or as the initial state says."""
    content = bytes(range(24))
    states = (
        FROM_FILE
        + ' state { input_name: "A" output_name: "OUT" data_type: TYPE_STRING dims: [ -1, 4 ] }'
    )
    output = 'output { name: "OUT" data_type: TYPE_STRING dims: [ -1, 4 ] }'
    resolution = resolved(
        tmp_path, states, more=output, files={"initial_state/i.bin": content + b"more"}
    )
    assert resolution.draft is not None
    assert resolution.draft.states == (
        SequenceState(
            input_name="S",
            output_name="T",
            datatype=datatypes.FP32,
            dims=(2, -1),
            is_output=False,
            initial_dims=(2, 3),
            initial=content,
        ),
        SequenceState(
            input_name="A",
            output_name="OUT",
            datatype=datatypes.BYTES,
            dims=(-1, 4),
            is_output=True,
            initial_dims=(1, 4),
        ),
    )
