"""The ONNX graph that a net becomes, while it is built: values with what is known of their type and shape, and the nodes that make them."""

import collections.abc
import math
import types
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from naiad.backends.caffe2.onnx_file import ELEMENTS, Attribute, GraphTensor, Node

Array = npt.NDArray[Any]
Dims = tuple[int, ...]

FLOAT = np.dtype(np.float32)
INT32 = np.dtype(np.int32)
INT64 = np.dtype(np.int64)
BOOL = np.dtype(np.bool_)


_MARK = "#"
"""Stands before the number that makes a name unique."""


_ALIKE = frozenset(
    (
        "Add", "And", "BatchNormalization", "Concat", "Conv", "ConvTranspose", "Div", "Equal", "Gemm", "Greater", "GreaterOrEqual", "InstanceNormalization",
        "Less", "LessOrEqual", "MatMul", "Max", "Mean", "Min", "Mul", "Or", "PRelu", "Sub", "Sum", "Xor",
    )
)  # fmt: skip
"""The operators of ONNX whose inputs have one datatype."""

_LISTS = types.MappingProxyType(
    {"ReduceSum": "axes", "Split": "split", "Squeeze": "axes", "Unsqueeze": "axes"}
)
"""The operators of ONNX that take a list of integers as an input, and here as an attribute."""


class UnsupportedError(Exception):
    """Why an operator cannot be translated; completes a sentence that begins with the operator."""


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A tensor of the graph.

    Attributes:
        name: in the graph.
        dims: -1 for a size that is not known; None where not even their number is.
        constant: its contents, of a weight.
    """

    name: str
    dtype: np.dtype[Any]
    dims: Dims | None
    constant: Array | None = None

    @property
    def rank(self) -> int | None:
        """How many dimensions it has; None if that is not known."""
        return None if self.dims is None else len(self.dims)

    def size(self, axis: int) -> int:
        """The size of a dimension; -1 if that is not known."""
        if self.dims is None or not -len(self.dims) <= axis < len(self.dims):
            return -1
        return self.dims[axis]

    def need_rank(self, why: str) -> int:
        """How many dimensions it has.

        Raises:
            UnsupportedError: that is not known.
        """
        if self.dims is None:
            raise UnsupportedError(
                f"{why} needs the number of dimensions of its input, which is not known here"
            )
        return len(self.dims)


class GraphBuilder:
    """Collects inputs, weights and nodes. Names of nodes say which operator of the net they come from, for what the runtime says of them.

    Args:
        reserved: names of inputs and outputs, which nothing else may have.
    """

    def __init__(self, reserved: collections.abc.Set[str]) -> None:
        self._reserved = reserved
        self.inputs: list[GraphTensor] = []
        self.nodes: list[Node] = []
        self.weights: dict[str, Array] = {}
        self.label = ""
        self.filled = 0
        self._count = 0

    def input(self, name: str, dtype: np.dtype[Any], dims: Dims) -> Value:
        """Add an input."""
        self.inputs.append(GraphTensor(name=name, dtype=dtype, dims=dims))
        return Value(name=name, dtype=dtype, dims=dims)

    def constant(self, array: Array | list[int], name: str = "") -> Value:
        """A weight; a list is one of int64. It is in the graph once a node takes it."""
        made = np.asarray(array, np.int64) if isinstance(array, list) else array
        unique = self._unique(name or "constant")
        return Value(name=unique, dtype=made.dtype, dims=made.shape, constant=made)

    def scalar(self, value: float, dtype: np.dtype[Any]) -> Value:
        """A weight without dimensions."""
        return self.constant(np.asarray(value, dtype))

    def node(
        self,
        operator: str,
        inputs: collections.abc.Sequence[Value | None],
        dims: Dims | None,
        *,
        dtype: np.dtype[Any] | None = None,
        more: collections.abc.Mapping[str, Attribute] = types.MappingProxyType({}),
        **attributes: Attribute,
    ) -> Value:
        """Add a node with one output, which has the first input's dtype unless another one is given; `more` are further attributes.

        Raises:
            UnsupportedError: the inputs differ in their datatype, and may not.
        """
        first = inputs[0]
        assert first is not None
        dtypes = {each.dtype.name for each in inputs if each is not None}
        if len(dtypes) > 1 and operator in _ALIKE:
            raise UnsupportedError(
                f"takes {' and '.join(sorted(dtypes))} together: inputs of the config have the datatype of the net's weights"
            )
        self._weigh(inputs)
        output = Value(name=self._unique(operator), dtype=dtype or first.dtype, dims=dims)
        self._add(operator, inputs, (output,), {**attributes, **more})
        return output

    def nodes_of(
        self,
        operator: str,
        inputs: collections.abc.Sequence[Value | None],
        outputs: collections.abc.Sequence[tuple[np.dtype[Any], Dims | None]],
        **attributes: Attribute,
    ) -> list[Value]:
        """Add a node with several outputs, each with its dtype and dims."""
        self._weigh(inputs)
        made = [
            Value(name=self._unique(operator), dtype=dtype, dims=dims) for dtype, dims in outputs
        ]
        self._add(operator, inputs, made, attributes)
        return made

    def name_output(self, value: Value, name: str) -> None:
        """Give a value out of the graph under a name."""
        self._weigh([value])
        node = Node(
            operator="Identity",
            name=f"output {name}",
            inputs=[value.name],
            outputs=[name],
            attributes={},
        )
        self.nodes.append(node)

    def transposed(self, value: Value, order: collections.abc.Sequence[int]) -> Value:
        """A value with its dimensions in another order; of a weight, another weight."""
        if value.constant is not None and value.constant.ndim == len(order):
            return self.constant(np.ascontiguousarray(value.constant.transpose(order)), value.name)
        dims = None if value.dims is None else tuple(value.size(axis) for axis in order)
        return self.node("Transpose", [value], dims, perm=list(order))

    def reshaped(self, value: Value, shape: list[int], dims: Dims | None) -> Value:
        """A value in another shape, as ONNX's Reshape has it; of a weight, another weight."""
        if value.constant is not None and 0 not in shape:
            return self.constant(value.constant.reshape(shape), value.name)
        return self.node("Reshape", [value, self.constant(shape)], dims)

    def cast(self, value: Value, dtype: np.dtype[Any]) -> Value:
        """A value as another dtype; itself where it is of that one."""
        if value.dtype == dtype:
            return value
        return self.node("Cast", [value], value.dims, dtype=dtype, to=ELEMENTS[dtype.name])

    def shape_of(self, value: Value) -> Value:
        """The shape of a value, as a value of int64."""
        return self.node(
            "Shape", [value], (-1 if value.dims is None else len(value.dims),), dtype=INT64
        )

    def _add(
        self,
        operator: str,
        inputs: collections.abc.Sequence[Value | None],
        outputs: collections.abc.Sequence[Value],
        attributes: collections.abc.Mapping[str, Attribute],
    ) -> None:
        name = _LISTS.get(operator, "")
        values = attributes.get(name)
        if isinstance(values, list):
            given = self.constant(values)
            self._weigh([given])
            inputs = [*inputs, given]
            attributes = {key: value for key, value in attributes.items() if key != name}
        self.nodes.append(
            Node(
                operator=operator,
                name=f"{self.label}: {outputs[0].name}",
                inputs=["" if each is None else each.name for each in inputs],
                outputs=[each.name for each in outputs],
                attributes=attributes,
            )
        )

    def _weigh(self, inputs: collections.abc.Iterable[Value | None]) -> None:
        for each in inputs:
            if each is not None and each.constant is not None:
                self.weights[each.name] = each.constant

    def _unique(self, name: str) -> str:
        while True:
            self._count += 1
            unique = f"{name.partition(_MARK)[0]}{_MARK}{self._count}"
            if unique not in self._reserved:
                return unique


def product(dims: collections.abc.Iterable[int]) -> int:
    """How many elements there are; -1 if a size is not known."""
    sizes = tuple(dims)
    if 0 in sizes:
        return 0
    return -1 if min(sizes, default=1) < 0 else math.prod(sizes)


def broadcast(*shapes: Dims | None) -> Dims | None:
    """The shape of an element-wise result, as numpy broadcasts."""
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return None
    rank = max(map(len, known))
    padded = [(1,) * (rank - len(shape)) + shape for shape in known]
    sizes: list[int] = []
    for column in zip(*padded, strict=True):
        fixed = {size for size in column if size > 1}
        if len(fixed) > 1:
            raise UnsupportedError(
                f"the shapes {' and '.join(str(list(each)) for each in known)} do not fit each other"
            )
        sizes.append(fixed.pop() if fixed else min(column))
    return tuple(sizes)
