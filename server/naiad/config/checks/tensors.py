"""The rules for one input or output of a config (rows 11.10-11.13, 11.17). Pure."""

import collections.abc
import math
from typing import Any

from naiad.config.document import FieldPath
from naiad.config.findings import Findings
from naiad.core import datatypes
from naiad.core.messages import model_config_pb2

WILDCARD = -1
_INT64_MAX = (1 << 63) - 1
_IMAGE_DIMS = 3
_FORMATS = {
    model_config_pb2.ModelInput.FORMAT_NHWC: "FORMAT_NHWC",
    model_config_pb2.ModelInput.FORMAT_NCHW: "FORMAT_NCHW",
}


def check_tensors(message: Any, findings: Findings) -> None:
    """Check every input and output."""
    for side in ("input", "output"):
        names: set[str] = set()
        for index, spec in enumerate(getattr(message, side)):
            _Check(message, findings, (side, index), spec).all()
            if spec.name and spec.name in names:
                findings.warnings.append(f"{side} '{spec.name}' stands in the config twice")
            names.add(spec.name)


class _Check:
    """The rules for one tensor, all of which add to the findings."""

    def __init__(self, message: Any, findings: Findings, path: FieldPath, spec: Any) -> None:
        self._message = message
        self._findings = findings
        self._path = path
        self._spec = spec
        self._side = str(path[0])
        self._label = f"model {self._side} " + (f"'{spec.name}' " if spec.name else "")

    def all(self) -> None:
        """Run every rule. A rule that needs a field which another rule requires passes when the field is missing."""
        self._required()
        self._sizes("dims", self._spec.dims)
        if self._spec.HasField("reshape"):
            self._sizes("reshape", self._spec.reshape.shape)
            self._reshape()
        self._layout()

    def _add(self, field: str, text: str, suggestion: str = "") -> None:
        message = f"{self._label}{text} for {self._message.name}"
        self._findings.add((*self._path, field), message, suggestion)

    def _required(self) -> None:
        spec = self._spec
        if not spec.name and self._is_absent("name"):
            self._add("name", "must specify 'name'", f"add the tensor's name to this {self._side}")
        if spec.data_type == model_config_pb2.TYPE_INVALID and self._is_absent("data_type"):
            types = ", ".join(datatype.config_name for datatype in datatypes.ALL)
            self._add("data_type", "must specify 'data_type'", f"add data_type, one of {types}")
        if not spec.dims and self._is_absent("dims"):
            batch = ", without the batch dimension" if self._message.max_batch_size > 0 else ""
            self._add(
                "dims",
                "must specify 'dims'",
                f"add dims{batch}; -1 stands for any size, [ 1 ] for one value",
            )

    def _is_absent(self, field: str) -> bool:
        """Whether it was left out, or written as nothing (`dims: []`)."""
        return self._findings.trusted((*self._path, field))

    def _sizes(self, field: str, sizes: collections.abc.Sequence[int]) -> None:
        what = "dimension" if field == "dims" else "reshape dimensions"
        for index, size in enumerate(sizes):
            if size < 1 and size != WILDCARD:
                path = (*self._path, "dims", index)
                if field == "reshape":
                    path = (*self._path, "reshape", "shape", index)
                self._findings.add(
                    path,
                    f"{self._label}{what} must be integer >= 1, or -1 to indicate a variable-size "
                    f"dimension for {self._message.name}; this is {size}",
                    "write -1 for any size",
                )
        if math.prod(size for size in sizes if size > 0) > _INT64_MAX:
            self._findings.add(
                (*self._path, field),
                f"element count for tensor '{self._spec.name} {field}' exceeds maximum size of {_INT64_MAX}",
            )

    def _reshape(self) -> None:
        """Both shapes hold the same elements, between any two free dimensions too (row 11.12)."""
        dims, shape = list(self._spec.dims), list(self._spec.reshape.shape)
        if not shape and self._unbatched():
            self._add(
                "reshape",
                "cannot have empty reshape for non-batching model as scalar tensors are not supported",
                "write reshape { shape: [ 1 ] }, or set max_batch_size",
            )
        if not dims or any(size < 1 and size != WILDCARD for size in dims + shape):
            return
        ours, theirs = _trunks(dims), _trunks(shape)
        if len(ours) > 1 and len(theirs) > 1 and len(ours) != len(theirs):
            self._add(
                "reshape",
                "has different number of variable-size dimensions for dims and reshape",
                f"dims {shown(dims)} has {len(ours) - 1}, reshape {shown(shape)} has {len(theirs) - 1}",
            )
        elif ours != theirs:
            self._add(
                "reshape",
                "has different size for dims and reshape",
                f"dims {shown(dims)} holds {_elements(ours)}, reshape {shown(shape)} holds {_elements(theirs)}",
            )

    def _unbatched(self) -> bool:
        return self._message.max_batch_size == 0 and self._findings.trusted(("max_batch_size",))

    def _layout(self) -> None:
        spec, tensorrt = self._spec, self._message.platform == "tensorrt_plan"
        known = bool(spec.dims) and self._findings.trusted((*self._path, "dims"))
        if (
            self._side == "input"
            and spec.format in _FORMATS
            and known
            and len(spec.dims) != _IMAGE_DIMS
        ):
            self._findings.add(
                (*self._path, "format"),
                f"model input NHWC/NCHW require 3 dims for {self._message.name}; '{spec.name}' has "
                f"{len(spec.dims)}",
                f"take format: {_FORMATS[spec.format]} out, or write dims as height, width and channels",
            )
        if spec.is_shape_tensor and not tensorrt:
            self._findings.add(
                (*self._path, "is_shape_tensor"),
                f"shape tensors are only supported for TensorRT platform for {self._message.name}",
                "take is_shape_tensor out",
            )
        if spec.is_non_linear_format_io:
            field = (*self._path, "is_non_linear_format_io")
            if not tensorrt:
                self._findings.add(
                    field,
                    "Non-linear IO format is only supported for the TensorRT platform for "
                    f"{self._message.name}",
                    "take is_non_linear_format_io out",
                )
            elif known and len(spec.dims) != _IMAGE_DIMS:
                self._findings.add(field, f"Non-linear IO format {self._side} requires 3 dims")


def _trunks(shape: list[int]) -> list[int]:
    """Element counts of the runs between free dimensions: [2, 4, -1, 6] is [8, 6]."""
    counts = [1]
    for size in shape:
        if size == WILDCARD:
            counts.append(1)
        else:
            counts[-1] *= size
    return counts


def shown(shape: collections.abc.Sequence[int]) -> str:
    """A shape as people write it: `[3, -1]`."""
    return f"[{', '.join(map(str, shape))}]"


def _elements(counts: list[int]) -> str:
    return " x any x ".join(map(str, counts)) + " elements"
