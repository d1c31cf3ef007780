"""A config held against the tensors of its model: those of a model file, or of a session that was made of it (rows 16.2-16.4).

Compared are names, datatypes and dims, with the words of the reference where it has some. Outputs are held to less than in the reference: a dimension that
the file leaves free may be known only to the framework, which works out shapes. Pure.
"""

import collections.abc
from typing import Any

from naiad.backends.model_files.signature import (
    GraphTensor,
    Signature,
    export_help,
    fixed_first,
    unsupported_kind,
)
from naiad.config.checks.tensors import shown
from naiad.config.document import FieldPath
from naiad.config.findings import Findings, did_you_mean
from naiad.config.sequence_tensors import CONTROL, AddedTensor, added_inputs, added_outputs
from naiad.core.messages import model_config_pb2

_TYPE_INVALID = model_config_pb2.TYPE_INVALID


def check_graph(
    message: Any, graph: Signature, findings: Findings, *, of_session: bool = False
) -> None:
    """Add a problem for everything in a completed config that the graph contradicts: the graph of a model file, or `of_session`.

    Of a session, an output's free dimension is free in the config too, and one that is known may be free there, because the config may have
    been completed from the file.
    """
    _Check(message, graph, findings, of_session=of_session).all()


def _dimensions(count: int) -> str:
    return "1 dimension" if count == 1 else f"{count} dimensions"


def _how_to_have(type_name: str) -> str:
    """How to write a control of a datatype."""
    values = {"TYPE_INT32": "int32", "TYPE_FP32": "fp32", "TYPE_BOOL": "bool"}
    if type_name in values:
        kind = values[type_name]
        pair = "[ false, true ]" if kind == "bool" else "[ 0, 1 ]"
        return f"write {kind}_false_true: {pair}, or, for a correlation ID, data_type: {type_name}"
    return f"write data_type: {type_name} for a correlation ID; START, END and READY are TYPE_INT32, TYPE_FP32 or TYPE_BOOL"


class _Check:
    """One comparison."""

    def __init__(
        self, message: Any, graph: Signature, findings: Findings, *, of_session: bool
    ) -> None:
        self._message = message
        self._graph = graph
        self._findings = findings
        self._load = f"unable to load model '{message.name}', "
        self._batching = message.max_batch_size > 0
        self._added = {"input": added_inputs(message), "output": added_outputs(message)}
        added = [tensor.spec for side in self._added.values() for tensor in side]
        listed = {spec.name for spec in (*message.input, *message.output, *added)}
        fixed = fixed_first(graph) if self._batching else []
        self._fixed = [tensor for tensor in fixed if tensor.name in listed]
        self._of_session = of_session
        self._scattered = {name for each in message.batch_output for name in each.target_name}

    def all(self) -> None:
        """Every rule."""
        inputs = {tensor.name: tensor for tensor in (*self._graph.inputs, *self._graph.overridable)}
        outputs = {tensor.name: tensor for tensor in self._graph.outputs}
        self._count()
        self._first_dimension()
        for side, known in (("input", inputs), ("output", outputs)):
            for index, spec in enumerate(getattr(self._message, side)):
                path = (side, index)
                tensor = known.get(spec.name)
                if tensor is not None:
                    self._tensor(path, spec, tensor)
                elif spec.name:
                    self._unknown(path, spec.name, known)
            for added in self._added[side]:
                self._added_tensor(side, added, known)
        for index, batch in enumerate(self._message.batch_input):
            self._batch_input(index, batch, inputs)

    def _added_tensor(
        self, side: str, added: AddedTensor, known: collections.abc.Mapping[str, GraphTensor]
    ) -> None:
        """A control input or a state that the sequence batcher adds."""
        spec, block = added.spec, added.path[:-1]
        if not spec.name or spec.data_type == _TYPE_INVALID:
            return  # a problem already
        what = added.what if added.what == CONTROL else f"{side} {added.what}"
        tensor = known.get(spec.name)
        if tensor is None:
            self._findings.add(
                added.path,
                f"configuration specified {what} '{spec.name}', but model does not provide that {side}",
                did_you_mean(spec.name, list(known)) or f"the model has {', '.join(sorted(known))}",
            )
            return
        if tensor.kind != "tensor":
            self._findings.add(
                added.path,
                f"{self._load}{unsupported_kind(tensor)}",
                f"export it as a tensor{export_help(tensor)}",
            )
            return
        name = model_config_pb2.DataType.Name(spec.data_type)
        if tensor.type_name != name:
            self._findings.add(
                block,
                f"{self._load}{what} '{spec.name}', the model expects data-type {tensor.type_name} but the model configuration "
                f"specifies data-type {name}",
                _how_to_have(tensor.type_name)
                if added.what == CONTROL
                else f"write data_type: {tensor.type_name}",
            )
        if tensor.shape is None or tensor in self._fixed:
            return
        dims = list(tensor.shape[1:] if self._batching else tensor.shape)
        if added.what == CONTROL and dims != [1]:
            self._findings.add(
                added.path,
                f"{self._load}{what} '{spec.name}' in model has dims {shown(dims)} but dims [1] is expected",
                "export the model with one value per row"
                if self._batching
                else "export the model with one value of one dimension",
            )
        elif added.what != CONTROL and not self._fits(spec.dims, dims):
            self._findings.add(
                (*block, "dims"),
                f"model '{self._message.name}', {what} '{spec.name}': config says dims {shown(spec.dims)}, the graph says {tensor.shape_text}",
                f"write dims: {shown(dims)}"
                + (": dims leave the batch dimension out" if self._batching else ""),
            )

    def _batch_input(
        self, index: int, batch: Any, known: collections.abc.Mapping[str, GraphTensor]
    ) -> None:
        """A tensor that the server adds to a batch is an input of the graph, of its datatype and rank."""
        wanted = model_config_pb2.DataType.Name(batch.data_type)
        rank = 2 if batch.kind == model_config_pb2.BatchInput.BATCH_ITEM_SHAPE else 1
        for name in batch.target_name:
            path: FieldPath = ("batch_input", index, "target_name")
            tensor = known.get(name)
            if tensor is None:
                self._findings.add(
                    path,
                    f"{self._load}batch input '{name}' is not an input of the model",
                    did_you_mean(name, list(known)) or f"the model has {', '.join(sorted(known))}",
                )
            elif tensor.type_name != wanted:
                self._findings.add(
                    ("batch_input", index, "data_type"),
                    f"{self._load}configuration expects datatype {wanted} for batch input '{name}', model provides {tensor.type_name}",
                    f"write data_type: {tensor.type_name}"
                    if tensor.type_name in ("TYPE_INT32", "TYPE_FP32")
                    else "export the model with INT32 or FP32 there",
                )
            elif tensor.shape is not None and len(tensor.shape) != rank:
                kind = batch.Kind.Name(batch.kind)
                self._findings.add(
                    path,
                    f"{self._load}batch input '{name}' of kind {kind} has {_dimensions(rank)}, the graph says {tensor.shape_text}",
                    "take another kind, or export the model with that shape",
                )

    def _ragged(self, path: FieldPath, spec: Any, tensor: GraphTensor) -> None:
        """The requests of a ragged batch come as one flat tensor."""
        begin = f"{self._load}configuration expects model provides input with shape [-1] for ragged input '{spec.name}'"
        if spec.optional:
            self._findings.add(
                (*path, "optional"),
                f"{begin}, which is not supported for optional input",
                "take optional out, or allow_ragged_batch",
            )
        elif tensor.shape is not None and tensor.shape != (-1,):
            self._findings.add(
                (*path, "allow_ragged_batch"),
                f"{begin}, model provides {tensor.shape_text}",
                "export the model with one free dimension there, or take allow_ragged_batch out",
            )

    def _fits(self, dims: collections.abc.Sequence[int], sizes: list[int]) -> bool:
        """Whether the dims of a state are possible in the graph; a free dimension of either fits all."""
        if not sizes and not self._batching:
            return all(size == 1 for size in dims)  # as of other scalars
        return len(dims) == len(sizes) and all(
            -1 in (ours, theirs) or ours == theirs for ours, theirs in zip(dims, sizes, strict=True)
        )

    def _count(self) -> None:
        """As many inputs as the graph has, apart from those that may be left out."""
        specs, graph = self._message.input, self._graph
        expected = sum(not spec.optional for spec in specs)
        given = {spec.name for spec in specs}
        sequence = {tensor.spec.name for tensor in self._added["input"]}
        added = sequence.union(
            name for batch in self._message.batch_input for name in batch.target_name
        )
        required = [tensor for tensor in graph.inputs if tensor.name not in added - given]
        missing = [tensor for tensor in required if tensor.name not in given]
        unknown = (given | sequence) - {
            tensor.name for tensor in (*graph.inputs, *graph.overridable)
        }
        if expected == len(required) or not self._all_inputs_are_clear():
            return
        if unknown and len(missing) <= len(unknown):
            return  # the unknown names are the reason, and each is a problem of its own
        message = (
            f"{self._load}configuration expects {expected} inputs, model provides {len(required)}"
        )
        if missing:
            self._findings.add(
                ("input",), message, "add " + ", ".join(self._block(t) for t in missing)
            )
            return
        names = {tensor.name for tensor in graph.inputs}
        for index, spec in enumerate(specs):
            if spec.optional and spec.name in names:
                self._findings.add(
                    ("input", index, "optional"),
                    message,
                    f"take optional out: the graph has no value for '{spec.name}' of its own",
                )
            elif not spec.optional and spec.name not in names:
                self._findings.add(
                    ("input", index),
                    message,
                    f"add optional: true to '{spec.name}': the graph has a value for it, or leave it out",
                )

    def _all_inputs_are_clear(self) -> bool:
        specs, findings = self._message.input, self._findings
        return findings.missing(("input", len(specs))) and all(
            findings.trusted(("input", index, field))
            for index in range(len(specs))
            for field in ("name", "optional")
        )

    def _block(self, tensor: GraphTensor) -> str:
        """The config that would describe an input."""
        dims = [*(tensor.shape or ())][1 if self._batching else 0 :] or [1]
        return (
            f'input {{ name: "{tensor.name}" data_type: {tensor.type_name} dims: {shown(dims)} }}'
        )

    def _first_dimension(self) -> None:
        """A model with batches has a free first dimension everywhere."""
        if not self._fixed:
            return
        first = self._fixed[0]
        others = [f"'{tensor.name}' {tensor.shape_text}" for tensor in self._fixed[1:]]
        also = f"; so with {', '.join(others)}" if others else ""
        self._findings.add(
            ("max_batch_size",),
            f"model '{self._message.name}', tensor '{first.name}': for the model to support batching the "
            "shape should have at least 1 dimension and the first dimension must be -1; but shape "
            f"expected by the model is {first.shape_text}{also}",
            f"write max_batch_size: 0 and the whole shape as dims, here {shown(first.shape or (1,))}; "
            "or export the model with a free first dimension",
        )

    def _unknown(self, path: FieldPath, name: str, known: dict[str, GraphTensor]) -> None:
        listed = {spec.name for spec in getattr(self._message, str(path[0]))}
        free = [other for other in known if other not in listed]
        allowed = ", ".join(sorted(known))
        only = f'write name: "{free[0]}"' if len(free) == 1 else ""
        self._findings.add(
            (*path, "name"),
            f"unexpected inference {path[0]} '{name}', allowed {path[0]}s are: {allowed}",
            did_you_mean(name, free) or only,
        )

    def _tensor(self, path: FieldPath, spec: Any, tensor: GraphTensor) -> None:
        side = path[0]
        if tensor.kind != "tensor":
            self._findings.add(
                path,
                f"{self._load}{unsupported_kind(tensor)}",
                f"take this {side} out of the config, or export it as a tensor{export_help(tensor)}",
            )
            return
        if side == "input" and spec.optional and self._batching:
            self._findings.add(
                (*path, "optional"),
                f"{self._load}optional input '{spec.name}' is not supported for models that "
                "support batching",
                "take optional out, or write max_batch_size: 0",
            )
        self._datatype(path, spec, tensor)
        if side == "input" and spec.allow_ragged_batch:
            self._ragged(path, spec, tensor)
        elif spec.name not in self._scattered and all(
            self._findings.trusted((*path, field)) for field in ("dims", "reshape")
        ):
            self._dims(path, spec, tensor)

    def _datatype(self, path: FieldPath, spec: Any, tensor: GraphTensor) -> None:
        if spec.data_type == _TYPE_INVALID:
            return  # a problem already
        name = model_config_pb2.DataType.Name(spec.data_type)
        if tensor.type_name != name:
            self._findings.add(
                (*path, "data_type"),
                f"{self._load}configuration expects datatype {name} for {path[0]} '{spec.name}', "
                f"model provides {tensor.type_name}",
                f"write data_type: {tensor.type_name}"
                if tensor.datatype is not None
                else "export the model with another element type: this one has no datatype in the protocol",
            )

    def _dims(self, path: FieldPath, spec: Any, tensor: GraphTensor) -> None:
        """The config's shape, as the graph sees it, fits the graph's (CompareDimsSupported in the reference)."""
        field = "reshape" if spec.HasField("reshape") else "dims"
        dims = list(spec.reshape.shape if field == "reshape" else spec.dims)
        if tensor.shape is None or tensor in self._fixed or (not dims and field == "dims"):
            return
        if not self._batching and not self._findings.trusted(("max_batch_size",)):
            return  # max_batch_size may be what could not be read
        label = f"model '{self._message.name}', tensor '{spec.name}': "
        if not tensor.shape:
            if any(size != 1 for size in dims):
                self._findings.add(
                    (*path, field),
                    f"{self._load}scalar tensor '{spec.name}', should only provide 1 in the model "
                    "configuration when the model doesn't support batching. Model configuration "
                    f"provided: {shown(dims)}.",
                    "write dims: [ 1 ]",
                )
            return
        full = [-1, *dims] if self._batching else dims
        whole = f"{field} {shown(dims)}" + (" after the batch dimension" if self._batching else "")
        says = f"{label}config says {whole}, the graph says {tensor.shape_text}"
        right = list(tensor.shape[1:] if self._batching else tensor.shape)
        fix = f"write dims: {shown(right)}" if field == "dims" else f"reshape to {shown(right)}"
        if not right:  # one value per row of the batch; dims may not be empty
            fix = "write dims: [ 1 ] reshape { shape: [ ] }"
        if len(full) != len(tensor.shape):
            self._findings.add(
                (*path, field),
                f"{says}: the model expects {_dimensions(len(tensor.shape))} but the model configuration "
                f"specifies {len(full)}",
                self._rank_help(full, tensor, right, fix),
            )
            return
        exact = self._of_session and path[0] == "output"
        wrong = {
            index - self._batching: f"{ours} is not {theirs}"
            for index, (ours, theirs) in enumerate(zip(full, tensor.shape, strict=True))
            if (ours not in (-1, theirs) if exact else theirs not in (-1, ours))
        }
        if wrong:
            at = (*path, field) if field == "dims" else (*path, field, "shape")
            place = (*at, *wrong) if len(wrong) == 1 else at
            self._findings.add(place, f"{says}: {', '.join(wrong.values())}", fix)

    def _rank_help(self, full: list[int], tensor: GraphTensor, right: list[int], fix: str) -> str:
        """What is most likely meant when the number of dimensions differs: mostly the batch dimension."""
        shape = tensor.shape or ()
        if self._batching and len(full) == len(shape) + 1:
            batches = (
                f"max_batch_size, which the config leaves out, is completed to {self._message.max_batch_size}"
                if self._findings.missing(("max_batch_size",))
                else "max_batch_size is above 0"
            )
            return f"{fix}: dims leave the batch dimension out, because {batches}"
        if not self._batching and len(full) == len(shape) - 1 and shape[0] == -1:
            return f"write max_batch_size: 8 (or as much as you like), or dims: {shown(right)}"
        return fix
