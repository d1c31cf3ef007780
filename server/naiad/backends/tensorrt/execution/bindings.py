"""Where the tensors of an instance lie: on the device, each large enough for the largest batch, at the same address for every batch and profile."""

import math

from naiad.backends.cuda_runtime import CudaRuntime
from naiad.backends.tensorrt.engine.description import EngineDescription, IoTensor
from naiad.backends.tensorrt.execution.context import ProfileContext
from naiad.backends.tensorrt.execution.memory import GrowingOutput, Memory, Stage
from naiad.backends.tensorrt.settings import Settings
from naiad.core.datatypes import DataType
from naiad.errors import internal


class Bindings:
    """The memory of an instance's tensors, bound to all of its contexts.

    Attributes:
        device: the address of each input and of each output whose size is known.
        growing: the outputs whose shapes depend on values.
        values: the host's memory of shape tensors, inputs and outputs.
        stages: from and to where the others are copied.
    """

    def __init__(
        self,
        engine: EngineDescription,
        contexts: list[ProfileContext],
        memory: Memory,
        cuda: CudaRuntime,
        *,
        stream: int,
        settings: Settings,
        instance: str,
    ) -> None:
        self._memory = memory
        self._cuda = cuda
        self._stream = stream
        self._instance = instance
        self.device: dict[str, int] = {}
        self.growing: dict[str, GrowingOutput] = {}
        self.values: dict[str, Stage] = {}
        self.stages: dict[str, Stage] = {}
        for tensor in engine.inputs:
            self._bind_input(tensor, contexts)
        for context in contexts:
            if missing := context.unspecified():
                raise internal(f"{instance} has no shape for {', '.join(missing)}")
        for tensor in engine.outputs:
            self._bind_output(tensor, contexts)
        for tensor in engine.tensors:
            if not tensor.is_shape:
                pinned = settings.pinned_inputs if tensor.is_input else settings.pinned_outputs
                self.stages[tensor.name] = Stage(memory, _datatype(tensor).dtype, pinned=pinned)
        cuda.synchronize(stream)

    def set_values(self, context: ProfileContext, name: str, values: tuple[int, ...]) -> None:
        """Write the values of a shape tensor, and bind it again: TensorRT may have kept what it read."""
        array = self.values[name].array((len(values),))
        array[:] = values
        context.bind(name, array.__array_interface__["data"][0])

    def _bind_input(self, tensor: IoTensor, contexts: list[ProfileContext]) -> None:
        name, datatype = tensor.name, _datatype(tensor)
        if tensor.is_shape:
            self.values[name] = Stage(self._memory, datatype.dtype, pinned=True)
            for context in contexts:  # the most that it may say decides how large outputs become
                context.set_shapes({name: context.profile.shapes[name].most})
                self.set_values(context, name, context.profile.values[name].most)
            return
        size = max(math.prod(each.profile.shapes[name].most) for each in contexts) * datatype.size
        address = self._allocated(size, "input", name)
        self._cuda.zero(address, size, self._stream)
        self.device[name] = address
        for context in contexts:
            context.set_shapes({name: context.profile.shapes[name].most})
            context.bind(name, address)

    def _bind_output(self, tensor: IoTensor, contexts: list[ProfileContext]) -> None:
        name = tensor.name
        if tensor.is_shape:
            stage = self.values[name] = Stage(self._memory, _datatype(tensor).dtype, pinned=True)
            array = stage.array((math.prod(tensor.shape),))
            for context in contexts:
                context.bind(name, array.__array_interface__["data"][0])
            return
        if any(-1 in context.shape_of(name) for context in contexts):
            output = self.growing[name] = GrowingOutput(self._memory)
            for context in contexts:
                context.bind_growing(name, output)
            return
        sizes = [context.most_bytes(name) for context in contexts]
        if min(sizes) < 0:
            raise internal(f"unable to allocate memory for output '{name}' for {self._instance}")
        address = self.device[name] = self._allocated(max(sizes), "output", name)
        for context in contexts:
            context.bind(name, address)

    def _allocated(self, size: int, side: str, name: str) -> int:
        try:
            return self._memory.on_device(size)
        except RuntimeError as error:
            raise internal(
                f"{error} (unable to allocate {size} bytes for {side} '{name}' for {self._instance}: a smaller max_batch_size, or smaller dims in the "
                "config, take less)"
            ) from error


def _datatype(tensor: IoTensor) -> DataType:
    datatype = tensor.datatype
    assert datatype is not None, "checked"
    return datatype
