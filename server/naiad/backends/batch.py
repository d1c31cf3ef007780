"""From requests to one batch and back: arrays merged along the first dimension, outputs cut into each request's part.

Merging is the only copy on the way in, and there is none for a request that runs alone without added rows; parts of outputs are views. What
is here knows no framework; a backend that gives each request to its model as it is (Python) needs only `client_shape`.
"""

import collections.abc
import itertools
import typing
from typing import Any

import msgspec
import numpy as np

from naiad.backends.instance import Call, InputTensor, Output
from naiad.config.model_config import TensorSpec
from naiad.core import datatypes
from naiad.errors import FailureReason, InferenceError, internal
from naiad.tensors.device_array import DeviceArray

Array = np.ndarray[Any, Any]

_LARGE = 1 << 14
"""Bytes of a request's input from which a copy costs more than to look whether it is necessary."""


def merge(
    requests: collections.abc.Sequence[collections.abc.Sequence[InputTensor]],
    padding: int = 0,
    out: collections.abc.Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """One array for each input, the requests' rows one after the other.

    Args:
        requests: the inputs of each request, at least one; all requests have the same inputs, and these agree in datatype
            and in every dimension but the first.
        padding: how often the last row is added behind them.
        out: by name, the memory into which rows are copied (pinned memory, a segment): arrays of just the shapes that the inputs will have; None:
            they are copied only where that is unavoidable.

    Returns:
        By name: the array of `out`, if there is one. Else the request's own array when there is one request and no padding (copied only if it lies
        at an address that its datatype cannot be read from), else as `gather`.

    Raises:
        ValueError: an array of `out` has another shape.
    """
    first = requests[0]
    if out is None and not padding:
        if len(requests) == 1:
            return {tensor.name: _readable(tensor.array) for tensor in first}
        if len(first) == 1:  # as of most models
            return {first[0].name: gather([inputs[0].array for inputs in requests])}
    columns: dict[str, list[Array]] = {tensor.name: [] for tensor in first}
    for inputs in requests:
        for tensor in inputs:
            columns[tensor.name].append(tensor.array)
    if padding:
        for arrays in columns.values():
            last = arrays[-1][-1:]
            arrays.append(np.broadcast_to(last, (padding, *last.shape[1:])))
    return {
        name: gather(arrays, None if out is None else out[name]) for name, arrays in columns.items()
    }


def gather(arrays: collections.abc.Sequence[Array], out: Array | None = None) -> Array:
    """The rows of several arrays in one, one after the other.

    Args:
        arrays: at least one; they agree in datatype and in every dimension but the first.
        out: where they are copied to; None: a new array, or none at all: in a segment the tensors of a batch often lie one behind the other, and
            the result is a view of them.

    Raises:
        ValueError: `out` has another shape.
    """
    if out is not None:
        if out.ndim == 0:  # of a model without a batch dimension, whose batches are one request
            np.copyto(out, arrays[0])
            return out
        return np.concatenate(arrays, out=out)
    joined = _adjacent(arrays)
    return np.concatenate(arrays) if joined is None else joined


def _adjacent(arrays: collections.abc.Sequence[Array]) -> Array | None:
    """One view of arrays that lie one behind the other in the same memory; None if they do not, or are too small for the question to pay."""
    first = arrays[0]
    memory = first.base
    if first.nbytes < _LARGE or not isinstance(memory, np.ndarray) or memory.dtype != np.uint8:
        return None
    start = end = _address(first)
    rows = 0
    for array in arrays:
        if array.base is not memory or not array.flags.c_contiguous or _address(array) != end:
            return None
        end += array.nbytes
        rows += len(array)
    offset = start - _address(memory)
    return np.ndarray((rows, *first.shape[1:]), first.dtype, memory, offset)


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _readable(array: Array) -> Array:
    """The array, aligned and in C order. A view of a client's bytes may begin at any address; native code may not."""
    flags = array.flags
    return array if flags.aligned and flags.c_contiguous else array.copy()


def wanted_names(batch: collections.abc.Sequence[Call], all_names: list[str]) -> list[str]:
    """The outputs that some request of the batch asks for, in the model's order; `all_names` itself when that is all."""
    requested: set[str] = set()
    for inference in batch:
        request = inference.request
        if not request.requested_outputs:
            return all_names
        requested.update(request.output_names)
    return [name for name in all_names if name in requested]


def staying(batch: collections.abc.Sequence[Call], names: list[str], device: int) -> set[str]:
    """The outputs that stay on a GPU: those that every request of the batch takes there.

    Args:
        batch: requests as a worker process has them; those of a thread of the server take all in the host's memory.
        names: outputs.
        device: the server's number of the GPU.
    """
    found = set(names)
    for call in batch:
        wanted = getattr(call.request, "on_device", None)
        if not isinstance(wanted, (list, tuple)) or wanted[0] not in (-1, device):
            return set()
        if wanted[1] is not None:
            found.intersection_update(wanted[1])
    return found


def described(values: DeviceArray) -> Array:
    """An array of the datatype and the shape of values on a device, of one element in memory, for `OutputRule.check`."""
    dtype = datatypes.BY_NAME[values.datatype].dtype
    return np.broadcast_to(np.zeros((), dtype), values.shape)


class OutputRule(msgspec.Struct, frozen=True):
    """How an output of the model becomes an output of a response; if `batched`, the first dimension is the batch; if `scattered`, its shape is any."""

    spec: TensorSpec
    batched: bool
    scattered: bool = False

    def checked(self, array: Array, *, rows: int, model: str) -> Array:
        """The output of a whole batch, a scalar of a model without a batch in the config's dims. Arguments and errors are those of `check`."""
        if array.ndim == 0 and not self.batched:
            array = array.reshape((1,) * len(self.spec.reshape or self.spec.dims))
        self.check(array, rows=rows, model=model)
        return array

    def check(self, array: Array, *, rows: int, model: str) -> None:
        """Hold an output of a whole batch against the config (row 4.17). `rows`, the size of the batch, counts only when `batched`.

        Raises:
            InferenceError: INTERNAL: another datatype, another shape, or another number of rows than went in.
        """
        spec = self.spec
        if array.dtype is not spec.datatype.dtype and array.dtype != spec.datatype.dtype:
            raise broken(
                f"unexpected datatype {array.dtype} of output '{spec.name}' for model '{model}': "
                f"its config says {spec.datatype.config_name}"
            )
        if self.scattered:
            return
        shape = array.shape
        expected = spec.dims if spec.reshape is None else spec.reshape
        if self.batched:
            if not shape or shape[0] != rows:
                raise broken(
                    f"failed to split the output tensor '{spec.name}' in responses: expected batch size of "
                    f"{rows} in model output, got {shape[0] if shape else 'a scalar'} (shape {list(shape)}): the first dimension of every output "
                    f"of model '{model}' must be the batch, because its max_batch_size is not 0"
                )
            shape = shape[1:]
        if shape != expected and not _fits(shape, expected):
            raise broken(
                f"unexpected shape of output '{spec.name}' for model '{model}': the model gave {list(array.shape)}, "
                f"its config says {[-1, *expected] if self.batched else list(expected)}"
            )


def client_shape(spec: TensorSpec, shape: tuple[int, ...], *, batched: bool) -> tuple[int, ...]:
    """What clients see of an output that the model gave in its `reshape` (row 4.12).

    Free dimensions of `reshape` give their sizes to those of `dims`, in order; the batch dimension stays. A shape that is not
    the one of `reshape` is given back as it is.
    """
    if spec.reshape is None:
        return shape
    batch, rest = (shape[:1], shape[1:]) if batched else ((), shape)
    if not _fits(rest, spec.reshape):
        return shape
    free = iter([size for size, dim in zip(rest, spec.reshape, strict=True) if dim < 0])
    return batch + tuple(next(free) if dim < 0 else dim for dim in spec.dims)


def split(
    batch: collections.abc.Sequence[Call],
    outputs: collections.abc.Sequence[tuple[OutputRule, typing.Any]],
) -> list[list[Output]]:
    """Each request's outputs, only those it asked for: views of the batch's arrays, and of what is on a device.

    Args:
        batch: the requests that ran, in the order in which they were merged.
        outputs: checked arrays of the whole batch, in the model's order: those that some request asks for (`wanted_names`).
    """
    if len(batch) == 1:
        return [[(rule.spec.name, rule.spec.datatype.name, array) for rule, array in outputs]]
    return distribute(
        batch,
        [
            (rule.spec.name, rule.spec.datatype.name, rows_of(batch, array))
            for rule, array in outputs
        ],
    )


def distribute(
    batch: collections.abc.Sequence[Call],
    columns: collections.abc.Sequence[tuple[str, str, list[Array]]],
) -> list[list[Output]]:
    """Each request's outputs, only those it asked for.

    Args:
        batch: the requests that ran.
        columns: for each output that some request asks for its name, its datatype and the part of each request.
    """
    if len(columns) == 1:  # which every request asks for
        ((name, datatype, parts),) = columns
        return [[(name, datatype, part)] for part in parts]
    answers: list[list[Output]] = []
    for i, inference in enumerate(batch):
        request = inference.request
        names = request.output_names if request.requested_outputs else None
        answers.append(
            [
                (name, datatype, parts[i])
                for name, datatype, parts in columns
                if not names or name in names
            ]
        )
    return answers


def rows_of(batch: collections.abc.Sequence[Call], array: typing.Any) -> list[typing.Any]:
    """Each request's rows of one output, an array or a `DeviceArray`, as views."""
    sizes = [inference.batch_size for inference in batch]
    if len(sizes) == 1:
        return [array]
    if sizes.count(1) == len(sizes) and isinstance(array, np.ndarray):
        # One row each: iterating over a longer shape makes the views in C, twice as fast as slicing.
        return list(array[:, np.newaxis])
    ends = itertools.accumulate(sizes)
    if isinstance(array, DeviceArray):
        return [array.rows(end - size, size) for size, end in zip(sizes, ends, strict=True)]
    return [array[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def broken(message: str) -> InferenceError:
    """The model did what its config says it does not: INTERNAL, counted as the backend's failure."""
    error = internal(message)
    error.reason = FailureReason.BACKEND
    return error


def _fits(shape: tuple[int, ...], expected: typing.Sequence[int]) -> bool:
    return len(shape) == len(expected) and all(
        dim in (-1, size) for size, dim in zip(shape, expected, strict=True)
    )
