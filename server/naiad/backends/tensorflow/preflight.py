"""What loading a TensorFlow model would refuse, seen without TensorFlow: the config against the file, and settings."""

import collections.abc
import functools
import pathlib
from typing import Any

from naiad.backends.model_files.graph_check import check_graph
from naiad.backends.model_files.wire_format import ModelFileError
from naiad.backends.tensorflow import init_ops
from naiad.backends.tensorflow.plugin import GRAPH_DEF
from naiad.backends.tensorflow.saved_model import Placeholder, read_nodes, read_signature
from naiad.backends.tensorflow.settings import settings_of
from naiad.config.checks.tensors import shown as shown_dims
from naiad.config.document import Document
from naiad.config.findings import Findings, did_you_mean
from naiad.config.model_config import ModelConfig
from naiad.config.problem import Problem
from naiad.config.refused import problems_of
from naiad.config.sequence_tensors import added_inputs
from naiad.core.messages import model_config_pb2


def check_file(message: Any, path: pathlib.Path, findings: Findings) -> None:
    """Add a problem for everything in a completed config that the model's file contradicts."""
    try:
        if message.platform == GRAPH_DEF:
            _check_nodes(message, path, findings)
            return
        signature = read_signature(
            path,
            tag=_parameter(message, "TF_GRAPH_TAG"),
            signature=_parameter(message, "TF_SIGNATURE_DEF"),
        )
    except ModelFileError as error:
        text = f"unable to load model '{message.name}', {error}"
        findings.problems.append(Problem(path=path, position=None, message=text))
        return
    check_graph(message, signature, findings)


def preflight(
    config: ModelConfig,
    *,
    document: Document,
    model_dir: pathlib.Path,
    versions: collections.abc.Sequence[int],
    options: collections.abc.Mapping[str, str],
    host: str,
) -> list[Problem]:
    """See `Preflight`: settings that no session could have."""
    file = config.parameters.get("TF_INIT_OPS_FILE", "")
    reads = [
        functools.partial(init_ops.read, model_dir / str(each), file, config.name)
        for each in versions
    ]
    return problems_of(document, [lambda: settings_of(config, options), *reads])


def _parameter(message: Any, key: str) -> str:
    return str(message.parameters[key].string_value) if key in message.parameters else ""


def _check_nodes(message: Any, path: pathlib.Path, findings: Findings) -> None:
    """A GraphDef has names: placeholders, with datatypes and shapes, for inputs, and other nodes for outputs."""
    nodes = read_nodes(path, model=message.name)
    controls = [(tensor.path, tensor.spec.name) for tensor in added_inputs(message)]
    inputs: list[tuple[Any, str]] = [
        (("input", index, "name"), spec.name) for index, spec in enumerate(message.input)
    ]
    outputs: list[tuple[Any, str]] = [
        (("output", index, "name"), spec.name) for index, spec in enumerate(message.output)
    ]
    for what, named, known in (
        ("input", [*inputs, *controls], nodes.placeholders),
        ("output", outputs, nodes.others),
    ):
        for field, name in named:
            if name and _node(name) not in known:
                shown = ", ".join(sorted(known)) if len(known) < _MANY else f"{len(known)} nodes"
                findings.add(
                    field,
                    f"unexpected inference {what} '{name}', allowed {what}s are: {shown}",
                    did_you_mean(name, list(known)),
                )
    for index, spec in enumerate(message.input):
        known_input = nodes.placeholders.get(_node(spec.name))
        if known_input is not None:
            _check_placeholder(message, index, known_input, findings)


def _check_placeholder(message: Any, index: int, known: Placeholder, findings: Findings) -> None:
    """TensorFlow takes no value of another datatype or of another shape; how many rows it takes is left to it."""
    spec = message.input[index]
    wanted = model_config_pb2.DataType.Name(spec.data_type)
    if known.type_name and wanted not in ("TYPE_INVALID", known.type_name):
        findings.add(
            ("input", index, "data_type"),
            f"unable to load model '{message.name}', configuration expects datatype {wanted} for input '{spec.name}', model provides {known.type_name}",
            f"write data_type: {known.type_name}",
        )
    field = "reshape" if spec.HasField("reshape") else "dims"
    dims = list(spec.reshape.shape if field == "reshape" else spec.dims)
    batched = message.max_batch_size > 0
    if known.shape is None or spec.allow_ragged_batch:
        return
    sizes = list(known.shape[1:] if batched else known.shape)
    if not sizes and not batched and dims == [1]:
        return  # a request has one value with a dimension of its own
    if len(dims) != len(sizes) or any(
        -1 not in (ours, theirs) and ours != theirs
        for ours, theirs in zip(dims, sizes, strict=True)
    ):
        after = " after the batch dimension" if batched else ""
        findings.add(
            ("input", index, field),
            f"model '{message.name}', tensor '{spec.name}': config says {field} {shown_dims(dims)}{after}, the graph says {shown_dims(known.shape)}",
            f"write dims: {shown_dims(sizes)}" if field == "dims" and sizes else "",
        )


_MANY = 50
"""So many names are listed in a message."""


def _node(name: str) -> str:
    """The node of a tensor's name, which may end with the number of an output."""
    node, colon, index = name.rpartition(":")
    return node if colon and index.isdigit() else name
