"""The copies of a batch: its inputs to where the engine reads them, its outputs to the host, or to memory of the device in which they go to the next model."""

import collections.abc

import numpy as np

from naiad.backends import batch as batches
from naiad.backends.batch import Array
from naiad.backends.cuda_runtime import CudaRuntime
from naiad.backends.instance import InputTensor
from naiad.backends.placed_inputs import is_on_device
from naiad.backends.tensorrt.engine.description import Shape
from naiad.backends.tensorrt.execution.batch_inputs import Requests
from naiad.backends.tensorrt.execution.bindings import Bindings
from naiad.backends.tensorrt.execution.context import ProfileContext
from naiad.backends.tensorrt.execution.copy_plan import FromDevice, copies_of
from naiad.backends.tensorrt.execution.lent_outputs import LentOutputs
from naiad.backends.tensorrt.execution.memory import address_of
from naiad.core.datatypes import DataType
from naiad.tensors import dlpack
from naiad.tensors.device_array import DeviceArray


class Transfers:
    """Those of an instance; every method puts copies into a stream, and waits for none of them.

    Args:
        bindings: where the instance's tensors lie.
        lent: gives the memory for outputs that stay on the device.
        cuda: the runtime; the instance's device is the thread's.
        stream: of the inputs and the computation.
        copies: the stream of outputs.
        device: this process's number of the device.
    """

    def __init__(
        self,
        bindings: Bindings,
        lent: LentOutputs,
        cuda: CudaRuntime,
        *,
        stream: int,
        copies: int,
        device: int,
    ) -> None:
        self._bindings = bindings
        self._lent = lent
        self._cuda = cuda
        self._stream = stream
        self._copies = copies
        self._device = device

    def copy_in(
        self,
        requests: Requests,
        shapes: collections.abc.Mapping[str, Shape],
        rows: collections.abc.Sequence[int],
    ) -> None:
        """Bring the inputs of a batch to the device.

        Args:
            requests: the inputs of each request; what is on the device stays there until the batch has ended.
            shapes: of the batch's inputs.
            rows: of each request.
        """
        placed = {tensor.name for inputs in requests for tensor in inputs if is_on_device(tensor)}
        for name in placed:
            column = [tensor for inputs in requests for tensor in inputs if tensor.name == name]
            self._copy_mixed(name, shapes[name], column, rows)
        if placed:
            requests = [[each for each in inputs if each.name not in placed] for inputs in requests]
        if requests[0]:
            stages = self._bindings.stages
            arrays = {each.name: stages[each.name].array(shapes[each.name]) for each in requests[0]}
            batches.merge(requests, out=arrays)
            self._send(arrays)

    def copy_merged(self, merged: collections.abc.Mapping[str, Array]) -> None:
        """Bring inputs to the device that are merged already, as those of ragged batches are."""
        arrays: dict[str, Array] = {}
        for name, values in merged.items():
            arrays[name] = self._bindings.stages[name].array(values.shape)
            np.copyto(arrays[name], values)
        self._send(arrays)

    def to_host(self, context: ProfileContext, name: str) -> Array:
        """An output on the host, once the copies have ended."""
        address, shape = self._output(context, name)
        array = self._bindings.stages[name].array(shape)
        if array.nbytes:
            self._cuda.copy(address_of(array), address, array.nbytes, self._copies)
        return array

    def staying(
        self, context: ProfileContext, name: str, datatype: DataType, surplus: int
    ) -> DeviceArray:
        """An output in memory of the device of its own, once the copies have ended; without its last `surplus` rows, which a graph has added.

        Raises:
            CudaError: the device has no memory left.
        """
        address, shape = self._output(context, name)
        if surplus:
            shape = (shape[0] - surplus, *shape[1:])
        array = self._lent.array(shape, datatype, self._device)
        if array.nbytes:
            self._cuda.copy(array.address, address, array.nbytes, self._copies)
        return array

    def _output(self, context: ProfileContext, name: str) -> tuple[int, Shape]:
        """Where an output lies, and its shape."""
        growing = self._bindings.growing.get(name)
        if growing is None:
            return self._bindings.device[name], context.shape_of(name)
        return growing.address, growing.shape

    def _send(self, arrays: collections.abc.Mapping[str, Array]) -> None:
        for name, array in arrays.items():
            address = self._bindings.device[name]
            self._cuda.copy(address, address_of(array), array.nbytes, self._stream)

    def _copy_mixed(
        self,
        name: str,
        shape: Shape,
        column: collections.abc.Sequence[InputTensor],
        rows: collections.abc.Sequence[int],
    ) -> None:
        """Bring an input to the device that some requests have there already."""
        target = self._bindings.device[name]
        there = [is_on_device(each) for each in column]
        values = None if all(there) else self._bindings.stages[name].array(shape)
        for each in copies_of(rows, there):
            if isinstance(each, FromDevice):
                source = dlpack.take_any(column[each.request])
                assert isinstance(source, DeviceArray)
                start = each.row * (source.nbytes // rows[each.request])
                self._cuda.copy(target + start, source.address, source.nbytes, self._stream)
                continue
            assert values is not None
            part = values[each.row : each.row + each.rows]
            batches.gather([tensor.array for tensor in column[each.first : each.end]], part)
            start = address_of(part) - address_of(values)
            self._cuda.copy(target + start, address_of(part), part.nbytes, self._stream)
