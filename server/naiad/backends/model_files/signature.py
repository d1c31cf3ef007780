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


def fixed_first(graph: Signature) -> list[GraphTensor]:
    """The inputs and outputs that keep a graph from taking batches: their first dimension is not free."""
    return [
        tensor
        for tensor in (*graph.inputs, *graph.outputs)
        if tensor.shape is not None and tensor.shape[:1] != (-1,)
    ]


def unsupported_kind(tensor: GraphTensor) -> str:
    """The reference's error message for a value that is not a tensor."""
    onnx_type = f"ONNX_TYPE_{tensor.kind.replace(' ', '').upper()}"
    return (
        f"Unsupported ONNX Type '{onnx_type}' for I/O '{tensor.name}', expected 'ONNX_TYPE_TENSOR'."
    )


def export_help(tensor: GraphTensor) -> str:
    """How to export such a value as a tensor; "" where no common exporter makes such a value."""
    if tensor.kind not in {"sequence", "map"}:
        return ""
    return ": for a scikit-learn classifier, pass options={'zipmap': False} to skl2onnx"
