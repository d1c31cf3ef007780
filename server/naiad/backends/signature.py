"""The tensors that a model file or a session of it takes and gives, for the comparison with a config and for its completion."""

import msgspec

from naiad.core.datatypes import DataType


class GraphTensor(msgspec.Struct, frozen=True, kw_only=True):
    """An input or output of the graph.

    Attributes:
        name: as in the graph.
        kind: "tensor", or what it is instead ("sequence", "map", …), which cannot be served.
        datatype: None when the element type is one that cannot be served.
        type_name: the element type in words, for messages.
        shape: -1 where any size is allowed; None when the graph does not say how many dimensions there are.
        symbols: for each dimension the name the graph gives a free one, or "".
    """

    name: str
    kind: str
    datatype: DataType | None
    type_name: str
    shape: tuple[int, ...] | None
    symbols: tuple[str, ...]

    @property
    def shape_text(self) -> str:
        """The shape as the graph writes it, e.g. "[N, 2048]"."""
        if self.shape is None:
            return "of unknown rank"
        sizes = (
            symbol or ("?" if size < 0 else str(size))
            for size, symbol in zip(self.shape, self.symbols, strict=True)
        )
        return f"[{', '.join(sizes)}]"


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """The tensors that a model takes and gives, as its file or a session describes them.

    Attributes:
        inputs: what a caller must give, in the graph's order; without the initialisers that are listed among the inputs.
        overridable: initialisers listed among the inputs: a caller may give them (row 16.3).
        outputs: in the graph's order.
    """

    inputs: tuple[GraphTensor, ...]
    overridable: tuple[GraphTensor, ...]
    outputs: tuple[GraphTensor, ...]
