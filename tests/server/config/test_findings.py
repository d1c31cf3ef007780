"""What may be concluded from a file that could not be read whole."""

import pathlib

import pytest

from naiad.config.document import FieldPath
from naiad.config.findings import Findings, did_you_mean, in_order
from naiad.config.pbtxt import parser as pbtxt
from naiad.config.problem import Position, Problem

PATH = pathlib.Path("config.pbtxt")


def findings(text: str) -> Findings:
    return Findings(pbtxt.parse(text, path=PATH))


@pytest.mark.parametrize(
    ("text", "path", "trusted"),
    [
        ("max_batch_size: 8", ("max_batch_size",), True),
        ("", ("max_batch_size",), True),
        ("max_batch_size: ${x}", ("max_batch_size",), False),
        ("max_batch_size: 8\nzzz: 1", ("max_batch_size",), True),
        ("zzz: 1", ("max_batch_size",), False),
        ("max_batch_size: x", ("backend",), True),
        ('input { name: "a" dims: [ 1, ${x} ] }', ("input", 0, "dims"), False),
        ('input { name: "a" dims: [ ${x} ] }', ("input", 0, "dims"), False),
        ('input { name: "a" dims: [ 1 ] zzz: 2 }', ("input", 0, "name"), True),
        ('input { name: "a" zzz: 2 }', ("input", 0, "dims"), False),
        ('input { name: "a" data_type: 77 }', ("input", 0, "dims"), True),
        ("version_policy { latest { num_versions: x } }", ("version_policy",), False),
    ],
)
def test_a_field_is_trusted_when_nothing_unread_could_be_it(
    text: str, path: FieldPath, *, trusted: bool
) -> None:
    assert findings(text).trusted(path) is trusted


def test_problems_come_in_the_order_of_the_file_and_once() -> None:
    late = Problem(path=PATH, position=Position(3, 1), message="c")
    early = Problem(path=PATH, position=Position(1, 9), message="a")
    first = Problem(path=PATH, position=Position(1, 2), message="b")
    whole = Problem(path=PATH, position=None, message="d")
    assert in_order([whole, late, early, first, late]) == (first, early, late, whole)


def test_suggestions_know_case_and_typos() -> None:
    assert did_you_mean("INPUT_0", ["output", "input_0"]) == "did you mean 'input_0'?"
    assert did_you_mean("inptu", ["output", "input"]) == "did you mean 'input'?"
    assert did_you_mean("zzz", ["output"]) == ""
