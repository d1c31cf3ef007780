"""Values of programs as tensors: what has a value in the datatype, becomes it, and nothing else does."""

import decimal
import fractions
import typing

import numpy as np
import pytest

from naiad.core import datatypes
from naiad.core.values import to_tensor
from naiad.errors import InferenceError


@pytest.mark.parametrize(
    ("datatype", "values", "wanted"),
    [
        ("INT32", [1, np.int8(2), True], [1, 2, 1]),
        ("UINT64", [2**63, 1], [2**63, 1]),
        ("UINT64", [2**64 - 1], [2**64 - 1]),
        ("BOOL", [True, 0], [True, False]),
        ("FP32", [1, 2.5, float("inf")], [1, 2.5, float("inf")]),
        ("FP32", [fractions.Fraction(1, 2), decimal.Decimal(3)], [0.5, 3]),
        ("FP32", [2**70], [2.0**70]),
        ("FP32", [], []),
        ("BF16", [1.5], [1.5]),
        ("BYTES", ["a", b"b"], [b"a", b"b"]),
    ],
)
def test_lists_become_what_the_config_says(datatype: str, values: typing.Any, wanted: list[typing.Any]) -> None:  # fmt: skip
    tensor = to_tensor("x", values, datatypes.BY_NAME[datatype])
    assert tensor.datatype.name == datatype
    assert tensor.array.tolist() == wanted


@pytest.mark.parametrize(
    ("datatype", "values", "words"),
    [
        ("INT32", [1, 1.7], "1.7 is not an integer"),
        ("INT32", [2.0], "2.0 is not an integer"),
        ("INT32", ["1"], "'1' is not an integer"),
        ("UINT8", [300], "out of bounds for uint8"),
        ("BOOL", ["false"], "'false' is not True or False"),
        ("FP32", ["1"], "'1' is not a number"),
        ("FP32", [[None]], "None is not a number"),
        ("FP32", None, "None is not a number"),
        ("FP32", [1e300], r"1e\+300 is too big"),
        ("FP16", [70000], "70000 is too big"),
    ],
)
def test_values_that_would_become_others_are_refused(datatype: str, values: typing.Any, words: str) -> None:  # fmt: skip
    with pytest.raises(InferenceError, match=f"the values of 'x' cannot become a tensor of {datatype}: .*{words}"):  # fmt: skip
        to_tensor("x", values, datatypes.BY_NAME[datatype])
