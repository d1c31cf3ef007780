"""A pair of nets becomes one ONNX graph: the init net's operators and then the model's, each by the table of operators.

A blob that an operator writes again, as `Relu` in place does, is another value from there on. Nothing ends at the first fault: all operators that cannot be
translated are named at once. What depends on one of them is left out.
"""

import collections.abc
import pathlib
from typing import Any

import msgspec
import numpy as np

from naiad.backends.caffe2.arguments import Call
from naiad.backends.caffe2.graph import Dims, GraphBuilder, UnsupportedError, Value
from naiad.backends.caffe2.net import Net, NetDefError, Operator, init_path
from naiad.backends.caffe2.onnx_file import Graph, GraphTensor, size_of
from naiad.backends.caffe2.operators.table import OPERATORS
from naiad.backends.caffe2.reading import read
from naiad.backends.caffe2.ways_out import ways_out

_MAX_NAMED = 50
"""So many faults are listed in a message."""

_MAX_GRAPH = (1 << 31) - (1 << 20)
"""Bytes of the graph that onnxruntime reads: protobuf ends at 2 GiB."""


class Nets(msgspec.Struct, frozen=True, kw_only=True):
    """The two nets of a model."""

    init: Net
    model: Net

    @property
    def initialised(self) -> frozenset[str]:
        """The blobs that the init net makes."""
        return frozenset(name for each in self.init.operators for name in each.outputs)

    @property
    def read(self) -> tuple[str, ...]:
        """The blobs that come from outside of the model's net: its `external_input` or, where it has none, what its operators read before one of them makes it."""
        if self.model.inputs:
            return tuple(dict.fromkeys(self.model.inputs))
        made, found = set[str](), dict[str, None]()
        for each in self.model.operators:
            found.update(dict.fromkeys(name for name in each.inputs if name not in made))
            made.update(each.outputs)
        return tuple(found)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The blobs that a caller has to give, in the model's order."""
        made = self.initialised
        return tuple(name for name in self.read if name not in made)

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The inputs of the model that the init net fills with one value: what exporters write for those that a caller gives."""
        filled = {
            name
            for each in self.init.operators
            if each.type == "ConstantFill"
            for name in each.outputs
        }
        return tuple(name for name in self.read if name in filled)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The blobs that the model gives."""
        return tuple(dict.fromkeys(self.model.outputs))


class Translation(msgspec.Struct, frozen=True, kw_only=True):
    """A translated model: the graph, and what is known of its outputs by their names."""

    graph: Graph
    outputs: collections.abc.Mapping[str, Value]


class InputType(msgspec.Struct, frozen=True, kw_only=True):
    """An input as the config has it; -1 in `dims` for any size. The batch is among them."""

    dtype: np.dtype[Any]
    dims: Dims


def read_nets(path: pathlib.Path) -> Nets:
    """Read a model file and its init net.

    Raises:
        NetDefError: a file is missing or not whole.
    """
    model = read(path)
    try:
        init = read(init_path(path), weights=True)
    except NetDefError as error:
        raise NetDefError(
            f"{error} (the init net, which holds the weights of '{path.name}')"
        ) from None
    return Nets(init=init, model=model)


def translate(nets: Nets, inputs: collections.abc.Mapping[str, InputType]) -> Translation:
    """Translate a model whose config lists these inputs. One that the init net makes as well replaces what that makes.

    Raises:
        NetDefError: operators that cannot be translated, all of them; the message names each.
    """
    translator = _Translator(nets, inputs)
    for operator in (*nets.init.operators, *nets.model.operators):
        translator.add(operator)
    return translator.finish(nets)


class _Translator:
    """One translation.

    Attributes:
        blobs: what each blob is now; None for one that cannot be known, because of a fault.
    """

    def __init__(self, nets: Nets, inputs: collections.abc.Mapping[str, InputType]) -> None:
        self._graph = GraphBuilder({*inputs, *nets.outputs})
        self._blobs: dict[str, Value | None] = {
            name: self._graph.input(name, each.dtype, each.dims) for name, each in inputs.items()
        }
        # An input that the config does not list: comparing the config with the model says so.
        self._blobs.update((name, None) for name in nets.inputs if name not in inputs)
        self._given = frozenset(inputs)
        self._init = nets.init.path.name
        self._faults: list[str] = []
        self._missing: list[str] = []

    def add(self, operator: Operator) -> None:
        """Translate an operator."""
        in_init = operator.where.endswith(f" of {self._init}")
        if in_init and operator.outputs and set(operator.outputs) <= self._given:
            return  # the placeholder of an input
        values = [self._read(operator, name) for name in operator.inputs]
        translate_ = OPERATORS.get(operator.type)
        outputs: list[Value] | None = None
        if translate_ is None:
            self._fault(operator, "is not in the table of operators")
            self._missing.append(operator.type)
        elif all(value is not None for value in values):
            outputs = self._translated(
                operator, translate_, [each for each in values if each is not None]
            )
        for index, name in enumerate(operator.outputs):
            if outputs is None:
                self._blobs[name] = None
            elif index < len(outputs):
                self._blobs[name] = outputs[index]
            else:
                self._blobs.pop(name, None)  # such as a mask, which only training needs

    def finish(self, nets: Nets) -> Translation:
        """The whole graph.

        Raises:
            NetDefError: there were faults.
        """
        outputs: dict[str, Value] = {}
        for name in nets.outputs:
            if name in self._given:
                self._faults.append(
                    f"external output '{name}' is an input as well: give the output another name"
                )
            elif name not in self._blobs:
                self._faults.append(f"external output '{name}' is made by no operator")
            elif (value := self._blobs[name]) is not None:
                outputs[name] = value
        if not nets.outputs:
            self._faults.append(f"'{nets.model.path.name}' has no external output")
        if self._faults:
            ways = "".join(f". {way}" for way in ways_out(self._missing))
            raise NetDefError(
                f"'{nets.model.path}' cannot be translated: {_listed(self._faults)}{ways}"
            )
        for name, value in outputs.items():
            self._graph.name_output(value, name)
        graph = Graph(
            inputs=self._graph.inputs,
            outputs=[
                GraphTensor(name=name, dtype=value.dtype, dims=value.dims)
                for name, value in outputs.items()
            ],
            nodes=self._graph.nodes,
            weights=self._graph.weights,
        )
        if (size := size_of(graph)) > _MAX_GRAPH:
            raise NetDefError(
                f"'{nets.model.path}' has weights of {size} bytes, and at most {_MAX_GRAPH} can be loaded"
            )
        return Translation(graph=graph, outputs=outputs)

    def _read(self, operator: Operator, name: str) -> Value | None:
        if name not in self._blobs:
            self._fault(
                operator,
                f"reads the blob '{name}', which no input, no weight and no operator before it makes",
            )
        return self._blobs.setdefault(name, None)

    def _translated(
        self,
        operator: Operator,
        translate_: collections.abc.Callable[[Call], list[Value]],
        values: list[Value],
    ) -> list[Value] | None:
        self._graph.label = operator.described
        call = Call(operator, values, self._graph)
        if not operator.outputs:
            self._fault(operator, "has no output")
            return None
        try:
            outputs = translate_(call)
            call.refuse_unread()
        except UnsupportedError as error:
            self._fault(operator, str(error))
            return None
        except (ArithmeticError, LookupError, MemoryError, ValueError) as error:
            # Numbers that no net has, in a combination that the table does not look for.
            self._fault(operator, f"has arguments or shapes that make no sense: {error}")
            return None
        return outputs

    def _fault(self, operator: Operator, what: str) -> None:
        self._faults.append(f"{operator.described} {what}")


def _listed(faults: list[str]) -> str:
    more = len(faults) - _MAX_NAMED
    return "; ".join(faults[:_MAX_NAMED]) + (f"; and {more} more" if more > 0 else "")
