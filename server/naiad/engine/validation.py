"""Validates a request against the config of its model, before it can affect a batch (section 4 of docs/reference/triton-behaviour.md).

Pure. The order of checks is the reference's (infer_request.cc, Normalize): inputs sent twice, requested outputs, number of inputs, names and batch
dimension, batch size, then for each input datatype, shape and byte size. The common case costs one dictionary look-up per input:
a shape that was accepted is cached (bounded), with its batch size.
"""

import collections
import collections.abc
import math
import typing

import msgspec

from naiad.config.model_config import ModelConfig, TensorSpec
from naiad.core.datatypes import DataType
from naiad.core.device_tensor import DeviceTensor
from naiad.core.request import InferRequest, RequestedOutput
from naiad.core.tensor import PackedStrings, Tensor, UnreadTensor, packed_strings
from naiad.errors import invalid

_CACHED_SHAPES = 256
"""Shapes cached per input; requests with other shapes get the full check each time and cost no memory."""

_MAX_BYTES = 2**63 - 1


class _InvalidError(Exception):
    """What is wrong with a request, without its label."""


class _InputRule:
    """The spec of an input, and the shapes that were accepted."""

    __slots__ = ("accepted", "datatype", "name", "spec")

    def __init__(self, spec: TensorSpec) -> None:
        self.name = spec.name
        self.spec = spec
        self.datatype: DataType = spec.datatype
        self.accepted: dict[tuple[int, ...], int] = {}


class RequestValidator:
    """Validates the requests of one model."""

    def __init__(self, config: ModelConfig) -> None:
        self._model = config.name
        self._max_batch_size = config.max_batch_size
        self._rules = {spec.name: _InputRule(spec) for spec in config.inputs}
        self._only = next(iter(self._rules.values())) if len(self._rules) == 1 else None
        self._specs = config.inputs
        self._outputs = frozenset(spec.name for spec in config.outputs)
        self._accepted_outputs: list[RequestedOutput] | None = None
        self._input_count = len(config.inputs)
        self._required = frozenset(spec.name for spec in config.inputs if not spec.optional)
        self._required_count = len(self._required)
        self.has_reshape = any(spec.reshape is not None for spec in config.inputs)
        """Whether `reshaped` has any effect."""
        self.has_shape_tensors = any(spec.is_shape_tensor for spec in config.inputs)
        """Whether an input is valid, or not, for more than its name, datatype and shape."""

    def validate(self, request: InferRequest) -> int:
        """Validate a request, and return its batch size; 1 without a batch dimension.

        Raises:
            InferenceError: INVALID_ARG, prefixed with the request's id (row 1.3), with the messages of rows 4.1 to 4.10.
        """
        inputs = request.inputs
        count = len(inputs)
        try:
            wanted = request.requested_outputs
            if wanted and wanted is not self._accepted_outputs:
                self._check_outputs(request)
            only = self._only
            if only is not None and count == 1:
                # As below, for the only input of a model.
                (tensor,) = inputs
                if (
                    only.name == tensor.name
                    and only.datatype is tensor.datatype
                    and tensor.fault is None
                    and (found := only.accepted.get(tensor.shape)) is not None
                    and found > 0
                ):
                    return found
            if count > self._input_count or count < self._required_count:
                _check_repeated(inputs)
                raise self._wrong_count(inputs)
            batch_size = -1
            rules = self._rules
            for tensor in inputs:
                rule = rules.get(tensor.name)
                if (
                    rule is None
                    or rule.datatype is not tensor.datatype
                    or tensor.fault is not None
                    or (size := rule.accepted.get(tensor.shape)) is None
                    or batch_size not in (size, -1)
                ):
                    return self._check_all(inputs)
                batch_size = size
            # With all inputs of the model, each once, none of the required ones is missing.
            if (count > 1 and len({tensor.name for tensor in inputs}) != count) or (
                count != self._input_count
                and not self._required.issubset([tensor.name for tensor in inputs])
            ):
                return self._check_all(inputs)
        except _InvalidError as error:
            raise invalid(f"{request.label}{error}") from None
        return 1 if batch_size == -1 else batch_size

    def reshaped(self, request: InferRequest) -> InferRequest:
        """The request with inputs in the shapes that the backend sees (row 4.12); call after `validate`."""
        inputs = [self._reshape(tensor) for tensor in request.inputs]
        return msgspec.structs.replace(request, inputs=inputs)

    def _check_outputs(self, request: InferRequest) -> None:
        wanted = request.output_names
        if len(set(wanted)) != len(wanted):
            counts = collections.Counter(wanted)
            twice = next(name for name in wanted if counts[name] > 1)
            raise _InvalidError(
                f"output '{twice}' already exists in request: name each requested output once"
            )
        for name in wanted:
            if name not in self._outputs:
                raise _InvalidError(
                    f"unexpected inference output '{name}' for model '{self._model}'; its outputs are {_names(self._outputs)}"
                )
        # The steps of ensembles ask with one list over and over. One with regions would keep them.
        if all(output.place is None for output in request.requested_outputs):
            self._accepted_outputs = request.requested_outputs

    def _check_all(self, inputs: list[Tensor]) -> int:
        """All checks in the reference's order; caches the shapes of a valid request."""
        self._check_names(inputs)
        batch_size = self._batch_size(inputs) if self._max_batch_size > 0 else 1
        for tensor in inputs:
            self._check_input(tensor)
        for tensor in inputs:
            rule = self._rules[tensor.name]
            # The shape of a shape tensor does not give the batch size.
            if len(rule.accepted) < _CACHED_SHAPES and not rule.spec.is_shape_tensor:
                rule.accepted[tensor.shape] = batch_size
        return batch_size

    def _check_names(self, inputs: list[Tensor]) -> None:
        _check_repeated(inputs)
        for tensor in inputs:
            if tensor.name not in self._rules:
                raise _InvalidError(
                    f"unexpected inference input '{tensor.name}' for model '{self._model}'; its inputs are {_names(self._rules)}"
                )
        if not self._required.issubset([tensor.name for tensor in inputs]):
            raise self._wrong_count(inputs)

    def _batch_size(self, inputs: list[Tensor]) -> int:
        batch_size = -1
        first = ""
        for tensor in inputs:
            if self._rules[tensor.name].spec.is_shape_tensor:
                continue
            if not tensor.shape:
                raise _InvalidError(
                    f"input '{tensor.name}' has no shape but model requires batch dimension for '{self._model}': "
                    f"send shape {_dims((1, *self._rules[tensor.name].spec.dims))} for one item"
                )
            if batch_size == -1:
                batch_size, first = tensor.shape[0], tensor.name
            elif tensor.shape[0] != batch_size:
                raise _InvalidError(
                    f"input '{tensor.name}' batch size does not match other inputs for '{self._model}': "
                    f"its first dimension is {tensor.shape[0]}, that of '{first}' is {batch_size}"
                )
        if batch_size == -1:
            return 1
        if batch_size > self._max_batch_size:
            advice = "send the items in several requests"
            for tensor in inputs:
                if _fits(tensor.shape, self._rules[tensor.name].spec.dims):
                    advice = (
                        f"input '{tensor.name}' has no batch dimension. {_one_item(tensor.shape)}"
                    )
            raise _InvalidError(
                f"inference request batch-size must be <= {self._max_batch_size} for '{self._model}', got {batch_size}: "
                + advice
            )
        return batch_size

    def _check_input(self, tensor: Tensor) -> None:
        spec = self._rules[tensor.name].spec
        if tensor.datatype is not spec.datatype:
            raise _InvalidError(
                f"inference input '{tensor.name}' data-type is '{tensor.datatype.name}', "
                f"but model '{self._model}' expects '{spec.datatype.name}'"
            )
        batched = self._max_batch_size > 0 and not spec.is_shape_tensor
        if not _fits(tensor.shape[1:] if batched else tensor.shape, spec.dims):
            raise _InvalidError(self._wrong_shape(tensor, spec, batched=batched))
        if batched and tensor.shape[0] == 0:
            raise _InvalidError(
                f"unexpected shape for input '{tensor.name}' for model '{self._model}'. Expected "
                f"{_dims((-1, *spec.dims))}, got {_dims(tensor.shape)}. The batch dimension must be at least 1."
            )
        if math.prod(tensor.shape) * max(1, spec.datatype.size) > _MAX_BYTES:
            raise _InvalidError(
                f"shape {_dims(tensor.shape)} of input '{tensor.name}' exceeds the maximum allowed size of a tensor"
            )
        if tensor.fault is not None:
            named = self._model in tensor.fault
            raise _InvalidError(
                tensor.fault if named else f"{tensor.fault} (model '{self._model}')"
            )

    def _wrong_shape(self, tensor: Tensor, spec: TensorSpec, *, batched: bool) -> str:
        full = (-1, *spec.dims) if batched else spec.dims
        message = (
            f"unexpected shape for input '{tensor.name}' for model '{self._model}'. "
            f"Expected {_dims(full)}, got {_dims(tensor.shape)}."
        )
        if not batched:
            return message
        hint = (
            " NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each "
            f"input shape: the first -1 is the batch, 1 to {self._max_batch_size}."
        )
        if _fits(tensor.shape, spec.dims):
            hint += " " + _one_item(tensor.shape)
        return message + hint

    def _wrong_count(self, inputs: list[Tensor]) -> Exception:
        sent = [tensor.name for tensor in inputs]
        names = set(sent)
        missing = [
            spec.name for spec in self._specs if not spec.optional and spec.name not in names
        ]
        unknown = [name for name in sent if name not in self._rules]
        surplus = (
            f" The model has no input(s) {_names(unknown)}: leave them out." if unknown else ""
        )
        if not self._specs and not self._outputs:
            return _InvalidError(
                f"expected 0 inputs but got {len(sent)} inputs for model '{self._model}'. Got input(s) {_names(sent)}, but its "
                "configuration lists no input: write its inputs and outputs into config.pbtxt, or complete them in auto_complete_config, "
                "and load the model again"
            )
        if self._required_count == self._input_count:
            expected = f"expected {self._input_count} inputs but got {len(sent)} inputs"
        else:
            expected = (
                f"expected number of inputs between {self._required_count} and {self._input_count} "
                f"but got {len(sent)} inputs"
            )
        return _InvalidError(
            f"{expected} for model '{self._model}'. Got input(s) {_names(sent)}, but missing required input(s) "
            f"{_names(missing)}. Please provide all required input(s)." + surplus
        )

    def _reshape(self, tensor: Tensor) -> Tensor:
        rule = self._rules.get(tensor.name)
        if rule is None or rule.spec.reshape is None:
            return tensor
        spec = rule.spec
        assert spec.reshape is not None
        batch = 1 if self._max_batch_size > 0 else 0
        sizes = iter(
            sent
            for wanted, sent in zip(spec.dims, tensor.shape[batch:], strict=True)
            if wanted == -1
        )
        shape = (
            *tensor.shape[:batch],
            *(next(sizes) if size == -1 else size for size in spec.reshape),
        )
        if type(tensor) is PackedStrings:
            return packed_strings(tensor.name, shape, tensor.packed)
        if type(tensor) is DeviceTensor:
            return tensor.named(tensor.name, shape)
        if type(tensor) is UnreadTensor:
            return tensor.shaped(shape)
        return Tensor(tensor.name, tensor.datatype, shape, tensor.array.reshape(shape))


def _check_repeated(inputs: list[Tensor]) -> None:
    """An input that is sent twice (row 3.20); the reference checks this before it counts the inputs."""
    seen = set[str]()
    for tensor in inputs:
        if tensor.name in seen:
            raise _InvalidError(
                f"input '{tensor.name}' already exists in request: send each input once"
            )
        seen.add(tensor.name)


def _one_item(shape: tuple[int, ...]) -> str:
    return f"For one item send {_dims((1, *shape))}."


def _fits(shape: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    return len(shape) == len(dims) and all(
        wanted in (-1, sent) for wanted, sent in zip(dims, shape, strict=True)
    )


def _dims(shape: collections.abc.Sequence[int]) -> str:
    return "[" + ",".join(str(size) for size in shape) + "]"


def _names(names: typing.Iterable[str]) -> str:
    return "[" + ",".join(f"'{name}'" for name in names) + "]"
