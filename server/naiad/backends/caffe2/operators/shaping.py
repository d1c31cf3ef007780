"""Operators that change the shape or the order of the dimensions, or nothing at all."""

import collections.abc

from naiad.backends.caffe2.arguments import Call
from naiad.backends.caffe2.graph import INT32, INT64, Dims, UnsupportedError, Value, product
from naiad.backends.caffe2.operators.fills import element_type

Operator = collections.abc.Callable[[Call], list[Value]]

_LAST = (1 << 63) - 1
"""A position past the end of any dimension."""


def nothing(call: Call) -> list[Value]:
    """The input itself: copies, and marks for training."""
    return [call.x]


def reshape(call: Call) -> list[Value]:
    """Reshape: by the argument or the second input; gives the old shape as well."""
    graph, x = call.graph, call.x
    shape = call.integers("shape")
    if len(call.inputs) > 1:
        given = call.inputs[1]
        if given.constant is None:
            wide = graph.cast(given, INT64)
            rank = given.size(0)
            dims = None if rank < 0 else (-1,) * rank
            return [graph.node("Reshape", [x, wide], dims), graph.shape_of(x)]
        shape = [int(size) for size in given.constant.reshape(-1)]
    elif not call.has("shape"):
        raise UnsupportedError("has neither an argument 'shape' nor a second input")
    if shape.count(-1) > 1 or min(shape, default=0) < -1:
        raise UnsupportedError(
            f"argument 'shape' is {shape}, expected sizes of which at most one is -1"
        )
    return [
        graph.node("Reshape", [x, graph.constant(shape)], _reshaped(x, shape)),
        graph.shape_of(x),
    ]


def like_another(call: Call) -> list[Value]:
    """ResizeLike: in the shape of the second input."""
    shape = call.graph.shape_of(call.input(1))
    return [call.graph.node("Reshape", [call.x, shape], call.input(1).dims)]


def flatten(call: Call) -> list[Value]:
    """Flatten to a matrix."""
    axis = call.axis("axis", 1, call.x.rank, more=1)
    dims: Dims = (-1, -1)
    if call.x.dims is not None:
        dims = (product(call.x.dims[:axis]), product(call.x.dims[axis:]))
    return [call.graph.node("Flatten", [call.x], dims, axis=axis)]


def flatten_to_vector(call: Call) -> list[Value]:
    """FlattenToVec."""
    size = -1 if call.x.dims is None else product(call.x.dims)
    return [call.graph.node("Reshape", [call.x, call.graph.constant([-1])], (size,))]


def expand(call: Call) -> list[Value]:
    """ExpandDims: `dims` are those of the result that have the size 1."""
    axes = sorted(set(call.integers("dims")))
    if not axes or axes[0] < 0:
        raise UnsupportedError(f"argument 'dims' is {axes}, expected dimensions from 0 on")
    dims: Dims | None = None
    if call.x.dims is not None:
        sizes = list(call.x.dims)
        if axes[-1] > len(sizes) + len(axes) - 1:
            raise UnsupportedError(f"argument 'dims' is {axes} for {len(sizes)} dimensions")
        for axis in axes:
            sizes.insert(axis, 1)
        dims = tuple(sizes)
    return [call.graph.node("Unsqueeze", [call.x], dims, axes=axes)]


def squeeze(call: Call) -> list[Value]:
    """Squeeze: drops `dims`, whose size is 1."""
    axes = sorted(set(call.integers("dims")))
    if not axes or axes[0] < 0:
        raise UnsupportedError(f"argument 'dims' is {axes}, expected dimensions from 0 on")
    dims: Dims | None = None
    if call.x.dims is not None:
        for axis in axes:
            if axis >= len(call.x.dims) or call.x.dims[axis] not in (1, -1):
                raise UnsupportedError(
                    f"argument 'dims' is {axes} for the shape {list(call.x.dims)}: only a size of 1 can go"
                )
        dims = tuple(size for axis, size in enumerate(call.x.dims) if axis not in axes)
    return [call.graph.node("Squeeze", [call.x], dims, axes=axes)]


def transpose(call: Call) -> list[Value]:
    """Transpose: by `axes`, or the dimensions in reverse."""
    axes = call.integers("axes")
    if not axes:
        axes = list(reversed(range(call.x.need_rank("reversing the dimensions"))))
    if sorted(axes) != list(range(len(axes))) or call.x.rank not in (None, len(axes)):
        raise UnsupportedError(
            f"argument 'axes' is {axes}, expected the dimensions 0 to {(call.x.rank or len(axes)) - 1} in some order"
        )
    return [call.graph.transposed(call.x, axes)]


def reorder(*, last: bool) -> Operator:
    """NCHW2NHWC (`last`) and NHWC2NCHW."""

    def translate(call: Call) -> list[Value]:
        rank = call.x.rank or 4
        if rank < 3:  # noqa: PLR2004 - a row of pixels with channels
            raise UnsupportedError(f"reorders {rank} dimensions, expected 3 to 5")
        order = [0, *range(2, rank), 1] if last else [0, rank - 1, *range(1, rank - 1)]
        return [call.graph.transposed(call.x, order)]

    return translate


def concat(call: Call) -> list[Value]:
    """Concat, of which the second output is how much each input takes; with `add_axis` in a new dimension."""
    graph = call.graph
    values = [call.x, *call.inputs[1:]]
    added = 1 if call.integer("add_axis", 0) else 0
    rank = call.x.rank
    axis = _channel_axis(call, None if rank is None else rank + added)
    if added:
        values = [
            graph.node("Unsqueeze", [each], _inserted(each.dims, axis), axes=[axis])
            for each in values
        ]
    outputs = [graph.node("Concat", values, _joined(values, axis), axis=axis)]
    if len(call.operator.outputs) > 1:
        sizes = [
            graph.node("Gather", [graph.shape_of(each), graph.constant([axis])], (1,))
            for each in values
        ]
        lengths = graph.node("Concat", sizes, (len(sizes),), axis=0)
        outputs.append(graph.cast(lengths, INT32))
    return outputs


def split(call: Call) -> list[Value]:
    """Split: by the argument, the second input, or in equal parts."""
    x, count = call.x, len(call.operator.outputs)
    axis = _channel_axis(call, x.rank)
    sizes = call.integers("split")
    if len(call.inputs) > 1:
        sizes = [int(size) for size in call.constant_input(1, "the sizes of the parts").reshape(-1)]
    whole = x.size(axis)
    if not sizes and whole > 0:
        if whole % count:
            raise UnsupportedError(f"splits {whole} into {count} equal parts")
        sizes = [whole // count] * count
    if sizes and (len(sizes) != count or (whole > 0 and sum(sizes) != whole)):
        raise UnsupportedError(
            f"splits {whole if whole > 0 else 'a dimension'} into {sizes} for {count} outputs"
        )
    outputs = [(x.dtype, _replaced(x.dims, axis, size)) for size in sizes or [-1] * count]
    if sizes:
        return call.graph.nodes_of("Split", [x], outputs, axis=axis, split=sizes)
    return call.graph.nodes_of("Split", [x], outputs, axis=axis)


def cut(call: Call) -> list[Value]:
    """Slice: -1 as an end is the end of the dimension, and -2 the one before."""
    starts, ends = call.integers("starts"), call.integers("ends")
    if len(call.inputs) > 1:
        starts, ends = (
            [int(each) for each in call.constant_input(index, what).reshape(-1)]
            for index, what in ((1, "the starts"), (2, "the ends"))
        )
    if not starts or len(starts) != len(ends):
        raise UnsupportedError(f"has {len(starts)} starts and {len(ends)} ends")
    if call.x.rank is not None and len(starts) > call.x.rank:
        raise UnsupportedError(f"has {len(starts)} starts for {call.x.rank} dimensions")
    dims: Dims | None = None
    if call.x.dims is not None:
        sizes = list(call.x.dims)
        for axis, (start, end) in enumerate(zip(starts, ends, strict=True)):
            sizes[axis] = _cut_size(sizes[axis], start, end)
        dims = tuple(sizes)
    bounds = [call.graph.constant([_position(each) for each in side]) for side in (starts, ends)]
    axes = call.graph.constant(list(range(len(starts))))
    return [call.graph.node("Slice", [call.x, *bounds, axes], dims)]


def shape(call: Call) -> list[Value]:
    """Shape, or the sizes of some `axes`."""
    whole = call.graph.shape_of(call.x)
    axes = call.integers("axes")
    if not axes:
        return [whole]
    return [call.graph.node("Gather", [whole, call.graph.constant(axes)], (len(axes),))]


def cast(call: Call) -> list[Value]:
    """Cast to a type, by its number or its name."""
    given = call.argument("to")
    call.has("from_type")
    if given is None:
        raise UnsupportedError("has no argument 'to'")
    dtype = element_type(given.s.decode("utf-8", "replace").upper() if given.s else given.i or 0)
    return [call.graph.cast(call.x, dtype)]


def tile(call: Call) -> list[Value]:
    """Tile: repeats along an axis."""
    tiles = call.integer("tiles", 1)
    if len(call.inputs) > 1:
        raise UnsupportedError("computes how often while it runs, which is not in the table")
    rank = call.x.need_rank("Tile")
    axis = call.axis("axis", 0, rank)
    if tiles < 1:
        raise UnsupportedError(f"argument 'tiles' is {tiles}, expected at least 1")
    repeats = [1] * rank
    repeats[axis] = tiles
    size = call.x.size(axis)
    dims = _replaced(call.x.dims, axis, size * tiles if size >= 0 else -1)
    return [call.graph.node("Tile", [call.x, call.graph.constant(repeats)], dims)]


def _channel_axis(call: Call, rank: int | None) -> int:
    """The argument `axis`, or that of the channels."""
    return call.axis("axis", 3 if call.channels_last else 1, rank)


def _reshaped(x: Value, shape: list[int]) -> Dims:
    sizes = [x.size(axis) if size == 0 else size for axis, size in enumerate(shape)]
    inferred = [axis for axis, size in enumerate(shape) if size == -1]
    if inferred and x.dims is not None:
        # A size that is kept counts on neither side.
        kept = {axis for axis, size in enumerate(shape) if size == 0}
        total = product(size for axis, size in enumerate(x.dims) if axis not in kept)
        rest = product(size for axis, size in enumerate(sizes) if axis not in {*kept, *inferred})
        if total > 0 and rest > 0:
            if total % rest:
                raise UnsupportedError(f"makes the shape {shape} of {list(x.dims)}")
            sizes[inferred[0]] = total // rest
    elif (
        not inferred
        and x.dims is not None
        and -1 not in (product(x.dims), product(sizes))
        and product(x.dims) != product(sizes)
    ):
        raise UnsupportedError(f"makes the shape {shape} of {list(x.dims)}")
    return tuple(sizes)


def _replaced(dims: Dims | None, axis: int, size: int) -> Dims | None:
    if dims is None:
        return None
    if axis >= len(dims):
        raise UnsupportedError(f"names dimension {axis} of {len(dims)}")
    return (*dims[:axis], size, *dims[axis + 1 :])


def _inserted(dims: Dims | None, axis: int) -> Dims | None:
    return None if dims is None else (*dims[:axis], 1, *dims[axis:])


def _joined(values: list[Value], axis: int) -> Dims | None:
    known = [each.dims for each in values if each.dims is not None]
    if len(known) < len(values):
        return None
    first = known[0]
    if axis >= len(first):
        raise UnsupportedError(f"names dimension {axis} of {len(first)}")
    for other in known[1:]:
        fits = len(other) == len(first) and all(
            at == axis or -1 in (mine, theirs) or mine == theirs
            for at, (mine, theirs) in enumerate(zip(first, other, strict=True))
        )
        if not fits:
            raise UnsupportedError(
                f"joins the shapes {' and '.join(str(list(each)) for each in known)} at dimension {axis}"
            )
    sizes = [each[axis] for each in known]
    return (*first[:axis], -1 if -1 in sizes else sum(sizes), *first[axis + 1 :])


def _position(index: int) -> int:
    """A position as ONNX counts: Caffe2 counts -1 from after the last one."""
    if index >= 0:
        return index
    return _LAST if index == -1 else index + 1


def _cut_size(size: int, start: int, end: int) -> int:
    if size < 0:
        return -1
    first, last = (min(size, each if each >= 0 else size + 1 + each) for each in (start, end))
    if first < 0 or last < first:
        raise UnsupportedError(f"cuts from {start} to {end} of {size}")
    return last - first
