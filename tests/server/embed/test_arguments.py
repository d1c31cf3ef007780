"""Arguments of a request of a wrong type or value: INVALID_ARG, in words that say what was given and what is expected."""

import math
import pathlib
import re
import typing

import numpy as np
import pytest

import naiad
from tests.server.embed.conftest import some
from tests.server.embed.test_server import X

HALF = "\ud800"

WRONG: list[tuple[dict[str, typing.Any], str]] = [
    *[
        ({"timeout": given}, re.escape(f"timeout={given!r}: expected seconds, a number from 0 on"))
        for given in (-1, -0.5, math.nan, math.inf, 1e300, "1", True)
    ],
    ({"timeout": 10**5000}, "timeout=<int>: expected seconds"),
    ({"timeout": np.float32("nan")}, r"timeout=.*nan.*: expected seconds"),
    ({"priority": "x"}, r"priority='x': expected an integer from 0 to 2\*\*64 - 1"),
    ({"priority": 2**64}, r"priority=18446744073709551616: expected an integer from 0"),
    ({"priority": True}, "priority=True: expected an integer"),
    ({"queue_timeout_us": "x"}, "queue_timeout_us='x': expected an integer"),
    ({"queue_timeout_us": 1.5}, "queue_timeout_us=1.5: expected an integer"),
    ({"inputs": [X]}, "inputs=.*: expected arrays or lists by name"),
    ({"inputs": X}, "inputs=.*: expected arrays or lists by name"),
    ({"inputs": {1: X}}, r"a name in inputs=1: expected text \(str\)"),
    ({"inputs": {HALF: X}}, "without half of a surrogate pair"),
    (
        {"inputs": {"x": X.astype(">f4")}},
        r"'x' is an array of >f4.* give array.astype\('float32'\)",
    ),
    ({"model": 5}, r"model=5: expected text \(str\)"),
    ({"parameters": ["a"]}, r"parameters=\['a'\]: expected values by name"),
    (
        {"parameters": {"a": [1]}},
        r"parameters\['a'\]=\[1\]: expected a bool, an integer of 64 bits",
    ),
    ({"parameters": {"a": None}}, r"parameters\['a'\]=None: expected a bool"),
    ({"parameters": {"a": 2**64}}, r"parameters\['a'\]=18446744073709551616: expected a bool"),
    ({"parameters": {"a": HALF}}, "without half of a surrogate pair"),
    ({"parameters": {5: "a"}}, "a name in parameters=5: expected text"),
    ({"version": "1"}, "version='1': expected an integer: the version's number, or -1"),
    ({"version": [1]}, r"version=\[1\]: expected an integer"),
    ({"version": 2**70}, "version=1180591620717411303424: expected an integer"),
    ({"request_id": 5}, r"request_id=5: expected text \(str\)"),
    ({"request_id": HALF}, "without half of a surrogate pair"),
    ({"sequence_id": 1.5}, "sequence_id=1.5: expected an integer from 0 .*, or text"),
    ({"sequence_id": -1}, "sequence_id=-1: expected an integer from 0"),
    ({"sequence_start": "yes"}, "sequence_start='yes': expected True or False"),
    ({"outputs": 5}, "outputs=5: expected a list of names of outputs"),
    ({"outputs": [[1]]}, r"a name in outputs=\[1\]: expected text"),
    ({"request_id": ["a" * 500]}, r"request_id=\['a{78}\.\.\.: expected text"),
]


@pytest.mark.parametrize(("given", "words"), WRONG)
@pytest.mark.parametrize("how", ["infer", "stream"])
def test_a_wrong_argument_is_refused_in_words(
    server: naiad.Server, given: dict[str, typing.Any], words: str, how: str
) -> None:
    with pytest.raises(naiad.InferenceError, match=words) as caught:
        getattr(server, how)(**{"model": "add", "inputs": {"x": X}, **given})
    assert caught.value.code is naiad.ErrorCode.INVALID_ARG


async def test_so_it_is_on_the_loop_of_the_program(models: pathlib.Path) -> None:
    options = {"model_control_mode": "explicit", "load_model": "add"}
    async with naiad.AsyncServer(models, **options) as server:  # type: ignore[arg-type]
        for given, words in WRONG:
            arguments: dict[str, typing.Any] = {"model": "add", "inputs": {"x": X}, **given}
            with pytest.raises(naiad.InferenceError, match=words) as caught:
                await server.infer(**arguments)
            assert caught.value.code is naiad.ErrorCode.INVALID_ARG
            with pytest.raises(naiad.InferenceError, match=words):
                server.stream(**arguments)


def test_numbers_of_numpy_are_numbers(models: pathlib.Path) -> None:
    parameters = {"a": np.int64(1), "b": np.float32(0.5), "c": np.bool_(True), "d": "é"}
    with some(models, "add") as server:
        result = server.infer(
            "add",
            {"x": X},
            timeout=typing.cast("float", np.float32(30)),
            version=typing.cast("int", np.int32(1)),
            outputs=("y",),
            parameters=typing.cast("dict[str, int]", parameters),
            priority=typing.cast("int", np.uint8(0)),
        )
        assert result["y"].tolist() == [[2, 4, 6, 8]]
