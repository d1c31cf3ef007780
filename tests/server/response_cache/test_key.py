"""Keys: what is part of them, and which ones are made in a thread."""

from typing import Any

import numpy as np
import pytest

from naiad.core import datatypes
from naiad.core.request import InferRequest, RequestedOutput
from naiad.core.tensor import Tensor, pack, packed_strings
from naiad.response_cache.key import ASIDE_BYTES, KeyMaker, hashed_aside
from tests.server.backends.configs import tensor

KEY, FULL = KeyMaker(b"m", full=False), KeyMaker(b"m", full=True)


def request(*inputs: Tensor, outputs: tuple[str, ...] = (), **more: Any) -> InferRequest:
    parameters = more.pop("parameters", {})
    wanted = [RequestedOutput(name) for name in outputs]
    return InferRequest("m", 1, more.pop("id", ""), list(inputs), wanted, parameters, **more)


ONE, TWO = tensor("A", [[1.0, 2.0]]), tensor("B", [[3]])


@pytest.mark.parametrize(
    ("other", "same", "same_full"),
    [
        (request(ONE, TWO), True, True),
        (request(TWO, ONE), True, True),
        (request(ONE, TWO, id="7", priority=3, timeout_us=5), True, True),
        (request(ONE, TWO, parameters={"p": 1}), True, False),
        (request(ONE, TWO, parameters={"naiad_deadline_ms": 20}), True, True),
        (request(ONE, TWO, outputs=("Y",)), True, False),
        (request(tensor("A", [[1.0], [2.0]]), TWO), True, False),
        (request(tensor("A", [[1.0, 2.5]]), TWO), False, False),
        (request(ONE), False, False),
        (request(tensor("C", [[1.0, 2.0]]), TWO), False, False),
    ],
)
def test_what_is_part_of_a_key(other: InferRequest, same: bool, same_full: bool) -> None:  # noqa: FBT001 - cases
    assert (KEY(other) == KEY(request(ONE, TWO))) is same
    assert (FULL(other) == FULL(request(ONE, TWO))) is same_full


def test_another_model_has_other_keys() -> None:
    assert KEY(request(ONE)) != KeyMaker(b"n", full=False)(request(ONE))
    assert len(KEY(request(ONE))) == 16


def test_strings_have_one_key_however_they_came() -> None:
    array = np.array([[b"a", b"bc"]], dtype=object)
    packed = packed_strings("S", (1, 2), pack(array))
    assert KEY(request(packed)) == KEY(request(Tensor("S", datatypes.BYTES, (1, 2), array)))


@pytest.mark.parametrize("datatype", datatypes.ALL, ids=lambda each: each.name)
@pytest.mark.parametrize("shape", [(0, 2), (3, 2), ()])
def test_every_datatype_has_a_key(datatype: datatypes.DataType, shape: tuple[int, ...]) -> None:
    if datatype is datatypes.BYTES:
        array = np.full(shape, b"x", dtype=object)
    else:
        array = np.ones(shape, datatype.dtype)
    whole = request(Tensor("X", datatype, shape, array))
    assert KEY(whole) == KEY(whole)
    assert not hashed_aside(whole)


def test_a_view_has_the_key_of_its_values() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    view, copy = array[:, 1:3], array[:, 1:3].copy()
    keys = [KEY(request(Tensor("X", datatypes.FP32, (3, 2), each))) for each in (view, copy)]
    assert keys[0] == keys[1]


def test_large_inputs_are_hashed_in_a_thread() -> None:
    at_most = tensor("X", np.zeros(ASIDE_BYTES, np.uint8))
    assert not hashed_aside(request(at_most))
    assert hashed_aside(request(at_most, ONE))
    strings = Tensor("S", datatypes.BYTES, (2000,), np.full(2000, b"", dtype=object))
    assert hashed_aside(request(strings))


def test_a_small_input_of_numbers_is_a_key_itself() -> None:
    key = KEY.plain(request(ONE))
    assert key is not None
    assert key == KEY.plain(request(tensor("A", [[1.0], [2.0]]), id="7"))
    assert key != KEY.plain(request(tensor("A", [[1.0, 3.0]])))
    assert key != KeyMaker(b"n", full=False).plain(request(ONE))
    assert len(key) > len(KEY(request(ONE)))


@pytest.mark.parametrize(
    "other",
    [
        request(ONE, TWO),
        request(),
        request(tensor("A", np.zeros(513, np.uint8))),
        request(Tensor("S", datatypes.BYTES, (1,), np.full(1, b"", dtype=object))),
        request(packed_strings("S", (0,), np.empty(0, np.uint8))),
    ],
)
def test_others_are_hashed(other: InferRequest) -> None:
    assert KEY.plain(other) is None
    assert FULL.plain(request(ONE)) is None
