"""Outputs that are inputs: of one that lies in a file of the server, the outcome says which input it is, and it is not copied.

A model may return an input, as it is or changed in place. Whatever still refers to that memory, other than the batch that ends, could change it while the server sends it: then the output
is copied as any other. So the references to the request, the input, the file and the output are counted, and compared with those of a batch to which nothing else refers.

Limits: standard library and numpy, Python 3.8.
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from naiad.backends.instance import Response
from naiad.hosts.worker.received_tensors import ReceivedTensor
from naiad.hosts.worker.requests import ReceivedRequest
from naiad.tensors.shared_slots import SHARED_FROM, Place

_BYTES = "BYTES"


def refer_to_inputs(
    requests: "Sequence[ReceivedRequest]",
    responses: "Sequence[Response | None]",
    files: "list[Any]",
) -> None:
    """Replace the outputs that are an input by which one it is. The caller must refer to the requests and to the outputs by these lists only.

    Args:
        requests: of the batch.
        responses: to them.
        files: those of the server, as uint8, by slot.
    """
    for index in range(len(requests)):
        response = responses[index]
        if response is None or response.error is not None:
            continue
        outputs = response.outputs
        for at in range(len(outputs)):
            name, datatype, values = outputs[at]
            del values
            found = _input_of(requests[index].inputs, outputs[at], files)
            if found is None:
                continue
            which, slot, beside = found
            request, given, array, file, output = _counts(
                requests, index, outputs, at, files, slot, which
            )
            if (request, given, array, file - beside, output) in _ALONE:
                outputs[at] = name, datatype, Place(outputs[at][2].shape, which, 0)


def _input_of(
    inputs: "list[Any]", output: "tuple[str, str, Any]", files: "list[Any]"
) -> "tuple[int, int, int] | None":
    """Which input an output is, the slot of its file, and how many other inputs lie in this file; None if it is not an input."""
    _, datatype, values = output
    if (
        type(values) is not np.ndarray
        or datatype == _BYTES
        or values.nbytes < SHARED_FROM
        or not values.flags.c_contiguous
    ):
        return None
    base = values.base
    slots = [slot for slot, file in enumerate(files) if file is not None and file is base]
    if not slots:
        return None
    which, beside = -1, -1
    for at, each in enumerate(inputs):
        if type(each) is not ReceivedTensor or each.array.base is not base:
            continue
        beside += 1
        if each.array is values or (
            each.array.nbytes == values.nbytes and _address(each.array) == _address(values)
        ):
            which = at
    return None if which < 0 else (which, slots[0], beside)


def _address(array: Any) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _counts(  # noqa: PLR0917 - an object for them would refer to what is counted
    requests: "Sequence[Any]", index: int, outputs: "list[Any]", at: int, files: "list[Any]", slot: int, which: int,
) -> "tuple[int, int, int, int, int]":  # fmt: skip
    """The references to a request, to an input of it, to the array of this, to its file and to an output."""
    count, inputs = sys.getrefcount, requests[index].inputs
    return (
        count(requests[index]), count(inputs[which]), count(inputs[which].array), count(files[slot]), count(outputs[at][2]),
    )  # fmt: skip


def _alone(*, view: bool) -> "tuple[int, int, int, int, int]":
    """The references if nothing but the batch refers to them: other numbers in other interpreters. `view`: the output is not the array of the input, but a view of it."""
    files = [np.frombuffer(bytearray(8), np.uint8)]
    request = ReceivedRequest(0)
    request.inputs = [ReceivedTensor("", "", np.ndarray((8,), np.uint8, files[0]))]
    requests = [request]
    del request
    array = requests[0].inputs[0].array
    outputs = [("", "", array.reshape(2, 4) if view else array)]
    del array
    return _counts(requests, 0, outputs, 0, files, 0, 0)


_ALONE = _alone(view=False), _alone(view=True)
