"""Batches of requests whose inputs differ in shape: one flat tensor for all, tensors that say where each request's part is, and outputs cut by the inputs' shapes.

What the `batch_input` and `batch_output` of a config ask for (rows 11.14, 11.18, 11.20), the same values as the reference computes. Knows no framework.
"""

import collections.abc
import itertools
import math
from typing import Any

import numpy as np

from naiad.backends import batch as batches
from naiad.backends.batch import Array, OutputRule, broken
from naiad.backends.instance import Call, InputTensor, Output
from naiad.config.model_config import (
    BatchInput,
    BatchInputKind,
    BatchOutput,
    ModelConfig,
    TensorSpec,
)
from naiad.config.sequence_tensors import model_outputs

Inputs = collections.abc.Sequence[InputTensor]


class RaggedBatches:
    """Makes the batches of a model, and takes its outputs apart; one per model.

    Attributes:
        scattered: the outputs whose parts have the shapes of an input.
    """

    def __init__(self, config: ModelConfig) -> None:
        self._model = config.name
        self._ragged = frozenset(spec.name for spec in config.inputs if spec.ragged)
        self._batch_inputs = config.batch_inputs
        self._dims = {
            spec.name: (*((-1,) if config.max_batch_size else ()), *(spec.reshape or spec.dims))
            for spec in config.outputs
        }
        self.scattered = {output.target: output for output in config.batch_outputs}

    def merge(self, requests: collections.abc.Sequence[Inputs]) -> dict[str, Array]:
        """One array for each input of the model: ragged ones flat, the rows of others one after the other, and what the config adds.

        Args:
            requests: the inputs of each request, at least one.
        """
        plain = [[each for each in inputs if each.name not in self._ragged] for inputs in requests]
        feeds = batches.merge(plain)
        for name in self._ragged:
            given = [each.array for inputs in requests for each in inputs if each.name == name]
            if given:
                feeds[name] = batches.gather([array.reshape(-1) for array in given])
        for added in self._batch_inputs:
            values = _values(added, [_shape(inputs, added.source) for inputs in requests])
            feeds.update(dict.fromkeys(added.targets, values))
        return feeds

    def split(
        self,
        batch: collections.abc.Sequence[Call],
        requests: collections.abc.Sequence[Inputs],
        outputs: collections.abc.Sequence[tuple[OutputRule, Array]],
    ) -> list[list[Output]]:
        """As `batch.split`, with the outputs that are scattered cut by the shapes of inputs.

        Raises:
            InferenceError: INTERNAL: the model gave fewer elements, or the input has not so many dimensions.
        """
        columns = [
            (
                rule.spec.name,
                rule.spec.datatype.name,
                self._parts(batch, requests, rule.spec.name, array)
                if rule.scattered
                else batches.rows_of(batch, array),
            )
            for rule, array in outputs
        ]
        return batches.distribute(batch, columns)

    def _parts(
        self,
        batch: collections.abc.Sequence[Call],
        requests: collections.abc.Sequence[Inputs],
        name: str,
        array: Array,
    ) -> list[Array]:
        """Each request's part of an output; the parts lie one behind the other."""
        rule, values = self.scattered[name], array.reshape(-1)
        parts: list[Array] = []
        begin = 0
        for inputs in requests:
            shape = self._shape_of(rule, _shape(inputs, rule.source))
            end = begin + math.prod(shape)
            if end > values.size:
                raise broken(
                    f"output '{name}' of model '{self._model}' has {values.size} elements for a batch of {len(batch)} requests, whose shapes "
                    f"take {end} and more: by batch_output each request gets as many as the shape of its input '{rule.source}' says"
                )
            parts.append(values[begin:end].reshape(shape))
            begin = end
        return parts

    def _shape_of(self, rule: BatchOutput, source: tuple[int, ...]) -> tuple[int, ...]:
        dims = self._dims[rule.target]
        if len(dims) > len(source) and -1 in dims[len(source) :]:
            raise broken(
                f"output '{rule.target}' of model '{self._model}' has the dims {list(dims)}, and its input '{rule.source}' the shape "
                f"{list(source)}: each -1 stands for the same dimension of the input"
            )
        return tuple(source[index] if size == -1 else size for index, size in enumerate(dims))


def ragged_batches(config: ModelConfig) -> RaggedBatches | None:
    """What makes a model's batches if they need any of this; None if they do not."""
    return RaggedBatches(config) if is_ragged(config) else None


def output_rules(config: ModelConfig) -> dict[str, OutputRule]:
    """The rule of each output that a model has to give, states included, by name and in the model's order."""
    scattered = {output.target for output in config.batch_outputs}
    batched = config.max_batch_size > 0
    return {
        spec.name: OutputRule(spec, batched, spec.name in scattered)
        for spec in model_outputs(config)
    }


def batch_input_specs(config: ModelConfig) -> list[TensorSpec]:
    """The inputs that `batch_input` adds to those that a client sends."""
    return [
        TensorSpec(name=name, datatype=each.datatype, dims=(-1,))
        for each in config.batch_inputs
        for name in each.targets
    ]


def is_ragged(config: ModelConfig) -> bool:
    """Whether batches of a model need any of this."""
    return bool(
        config.batch_inputs or config.batch_outputs or any(spec.ragged for spec in config.inputs)
    )


def _shape(inputs: Inputs, name: str) -> tuple[int, ...]:
    for tensor in inputs:
        if tensor.name == name:
            shape: tuple[int, ...] = tensor.array.shape
            return shape
    raise broken(f"input '{name}', which a batch_input or batch_output is made of, is absent")


def _values(added: BatchInput, shapes: collections.abc.Sequence[tuple[int, ...]]) -> Array:
    """The tensor that the config adds, from the shapes of its source in each request."""
    counts = [math.prod(shape) for shape in shapes]
    dtype: Any = added.datatype.dtype
    match added.kind:
        case BatchInputKind.ELEMENT_COUNT:
            return np.array(counts, dtype)
        case BatchInputKind.ACCUMULATED_ELEMENT_COUNT:
            return np.array(list(itertools.accumulate(counts)), dtype)
        case BatchInputKind.ACCUMULATED_ELEMENT_COUNT_WITH_ZERO:
            return np.array([0, *itertools.accumulate(counts)], dtype)
        case BatchInputKind.MAX_ELEMENT_COUNT_AS_SHAPE:
            return np.zeros((max(counts),), dtype)
        case BatchInputKind.ITEM_SHAPE | BatchInputKind.ITEM_SHAPE_FLATTEN:
            rows = [shape[1:] for shape in shapes for _ in range(shape[0])]
            values = np.array(rows, dtype)
            return values.reshape(-1) if added.kind is BatchInputKind.ITEM_SHAPE_FLATTEN else values
