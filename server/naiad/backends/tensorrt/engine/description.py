"""An engine as its plan describes it: tensors and optimization profiles, apart from TensorRT. What decides about a model reads nothing else."""

import collections.abc

import msgspec

from naiad.core import datatypes
from naiad.core.datatypes import DataType

DATATYPES: collections.abc.Mapping[str, DataType] = {
    "FLOAT": datatypes.FP32,
    "HALF": datatypes.FP16,
    "BF16": datatypes.BF16,
    "INT8": datatypes.INT8,
    "UINT8": datatypes.UINT8,
    "INT32": datatypes.INT32,
    "INT64": datatypes.INT64,
    "BOOL": datatypes.BOOL,
}
"""TensorRT's names of datatypes to ours; the others (FP8, INT4 …) cannot be served."""

LINEAR = "LINEAR"

Shape = tuple[int, ...]


class Range(msgspec.Struct, frozen=True):
    """What a profile allows: of a tensor's dimensions, or of the values of a shape tensor; the engine is fastest at `best`."""

    least: Shape
    best: Shape
    most: Shape


class IoTensor(msgspec.Struct, frozen=True, kw_only=True):
    """An input or output of an engine.

    Attributes:
        type_name: its datatype, by TensorRT's name.
        shape: the batch included; -1 is any size.
        is_shape: its values are a shape, and lie in the host's memory.
        layout: how its elements lie, by TensorRT's name.
    """

    name: str
    is_input: bool
    type_name: str
    shape: Shape
    is_shape: bool = False
    layout: str = LINEAR

    @property
    def datatype(self) -> DataType | None:
        """Its datatype; None for one that cannot be served."""
        return DATATYPES.get(self.type_name)

    @property
    def config_type(self) -> str:
        """Its datatype as a config has it."""
        return self.datatype.config_name if self.datatype else "TYPE_INVALID"


class Profile(msgspec.Struct, frozen=True):
    """An optimization profile.

    Attributes:
        shapes: of each input.
        values: of each input that is a shape tensor.
    """

    shapes: dict[str, Range]
    values: dict[str, Range] = {}


class EngineDescription(msgspec.Struct, frozen=True):
    """An engine. Its tensors have the engine's order."""

    tensors: tuple[IoTensor, ...]
    profiles: tuple[Profile, ...]

    @property
    def inputs(self) -> tuple[IoTensor, ...]:
        """The inputs."""
        return tuple(each for each in self.tensors if each.is_input)

    @property
    def outputs(self) -> tuple[IoTensor, ...]:
        """The outputs."""
        return tuple(each for each in self.tensors if not each.is_input)

    def find(self, name: str) -> IoTensor | None:
        """The tensor of that name."""
        return next((each for each in self.tensors if each.name == name), None)


def shown(shape: collections.abc.Iterable[int]) -> str:
    """A shape as Triton writes it: `[3,-1]`."""
    return f"[{','.join(map(str, shape))}]"
