"""A tensor that goes to another process as a descriptor. Limits: standard library, Python 3.8."""

from naiad.tensors.memory import Memory


class Exported:
    """A tensor that goes to another process as its descriptor.

    Attributes:
        shape: of the tensor.
        placed: its memory, numbered as the server does.
        descriptor: its descriptor's bytes.
    """

    __slots__ = ("descriptor", "placed", "shape")

    def __init__(self, shape: "tuple[int, ...]", placed: Memory, descriptor: bytes) -> None:
        self.shape = shape
        self.placed = placed
        self.descriptor = descriptor
