"""The comparison of a loaded session with the config (rows 11.15, 16.2-16.4), before anything runs.

The rules are those of `graph_check`, which has compared the config with the file, with lines and columns; a session knows more, such as output
shapes that onnxruntime infers. Pure.
"""

import collections.abc
import pathlib

from naiad.backends.onnxruntime.graph_check import check_graph
from naiad.backends.onnxruntime.onnx_graph import GraphTensor, Signature
from naiad.config.document import Document
from naiad.config.findings import Findings
from naiad.config.model_config import ModelConfig
from naiad.core import datatypes
from naiad.core.datatypes import DataType
from naiad.errors import invalid

_ELEMENTS: collections.abc.Mapping[str, DataType] = {
    "bool": datatypes.BOOL,
    "uint8": datatypes.UINT8,
    "uint16": datatypes.UINT16,
    "uint32": datatypes.UINT32,
    "uint64": datatypes.UINT64,
    "int8": datatypes.INT8,
    "int16": datatypes.INT16,
    "int32": datatypes.INT32,
    "int64": datatypes.INT64,
    "float16": datatypes.FP16,
    "float": datatypes.FP32,
    "double": datatypes.FP64,
    "bfloat16": datatypes.BF16,
    "string": datatypes.BYTES,
}
"""onnxruntime's element names (row 16.12)."""

_KINDS = {"seq": "sequence", "sparse_tensor": "sparse tensor"}
"""onnxruntime's names of values that are not tensors, where the file format has others."""


def graph_tensor(
    name: str, type_text: str, shape: collections.abc.Sequence[int | str | None] | None
) -> GraphTensor:
    """A tensor as onnxruntime describes it.

    Args:
        name: its name.
        type_text: e.g. "tensor(float)" or "seq(tensor(int64))".
        shape: sizes; a name or None where any size is allowed; None when even the rank is unknown.
    """
    kind, _, rest = type_text.partition("(")
    kind = _KINDS.get(kind, kind)
    if kind != "tensor":
        shape = None
    element = rest.removesuffix(")")
    datatype = _ELEMENTS.get(element) if kind == "tensor" else None
    sizes = None if shape is None else [size if isinstance(size, int) else -1 for size in shape]
    return GraphTensor(
        name=name,
        kind=kind,
        datatype=datatype,
        type_name=datatype.config_name if datatype else type_text,
        shape=None if sizes is None else tuple(sizes),
        symbols=()
        if shape is None
        else tuple(size if isinstance(size, str) else "" for size in shape),
    )


def check(config: ModelConfig, signature: Signature) -> None:
    """Compare the config with a session.

    Raises:
        InferenceError: INVALID_ARG, the first difference.
    """
    path = pathlib.Path(config.name)
    document = Document(path=path, text="", message=config.message, positions={}, problems=())
    findings = Findings(document)
    check_graph(config.message, signature, findings, of_session=True)
    for problem in findings.problems:
        raise invalid(f"{problem.message}: {problem.suggestion}")
