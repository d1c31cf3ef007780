"""The graph of an ensemble: what a request for some outputs needs, and which steps can run when a tensor arrives (rows 14.1, 14.5, 14.7, 14.9). Pure.

A decoupled step gives each of its tensors many values. A value is known by its key: () for what the request brought and all that was made of it,
(i,) for what was made of the i-th response of a decoupled step, (i, j) behind a second one. A step runs once for each key that all its inputs have,
so that the values of parallel branches are joined as they belong together, in whatever order they arrive.
"""

import collections.abc

from naiad.config.model_config import ComposingModel, Ensemble, ModelConfig
from naiad.core.device_tensor import DeviceTensor, OnDevice
from naiad.core.record import Record
from naiad.core.request import RequestedOutput
from naiad.core.tensor import PackedStrings, Tensor, packed_strings

_CACHED_SELECTIONS = 256
"""Sets of requested outputs for which the graph is kept; others are computed again for each request."""

Key = tuple[int, ...]


class PlannedStep(Record, frozen=True):
    """A step.

    Attributes:
        inputs: of the model, each with the ensemble's tensor and the model's dims.
        tensors: that it needs, each once.
        outputs: the ensemble's tensor of each output of the model.
        batched: whether the model has a batch dimension.
        input_device: the GPU on which the model takes its inputs; None: in the host's memory.
    """

    index: int
    model: str
    version: int
    namespace: str
    inputs: tuple[tuple[str, str, tuple[int, ...]], ...]
    tensors: tuple[str, ...]
    outputs: collections.abc.Mapping[str, str]
    batched: bool
    decoupled: bool
    input_device: int | None


class Value(Record, frozen=True):
    """A value of a tensor.

    Attributes:
        tensor: None if the request left out an optional input, or a model did not send the output.
        batch_size: of the request that it belongs to; 0 if its maker has no batch dimension.
        sequence: id and flags that its model has answered with; None of an input of the ensemble.
    """

    tensor: Tensor | None
    batch_size: int
    sequence: tuple[int | str, int] | None = None


class Following(Record, frozen=True):
    """The step that needs the only output of another one, and nothing else.

    Attributes:
        output: of the other step's model; of the first step of a chain the ensemble's input.
        input: of this step's model.
        requested: the outputs that the step is asked for.
        on_device: those that stay on a GPU, see `Selection`.
    """

    output: str
    input: str
    step: PlannedStep
    requested: list[RequestedOutput]
    on_device: OnDevice | None


class Last(Record, frozen=True):
    """The step whose only output is the response.

    Attributes:
        index: of the step.
        output: of its model.
        name: of the ensemble's output, which has the same shape.
    """

    index: int
    output: str
    name: str


class Selection(Record, frozen=True):
    """What a set of requested outputs needs.

    Attributes:
        steps: their indexes.
        readers: the steps that need each tensor.
        uses: how often each tensor is taken, by a step or for the response; a tensor that is not here is not needed.
        awaited: what gets each tensor: indexes of steps, and the number of all steps for the response.
        missing: how many tensors each step, and at last the response, needs; 0 for a step that is not needed.
        requested: the outputs that each step is asked for.
        on_device: those of each step that stay on a GPU, because all that take them do so there.
        outputs: the tensors of the response, in the order of the config.
        following: behind each step of a chain the next one, which runs as soon as that has ended.
        first: the step that needs the only input of the ensemble, which nothing else needs; None without such a step.
        last: the step that makes the only output of the response; None if there are several, or its shape differs.
    """

    steps: frozenset[int]
    readers: collections.abc.Mapping[str, tuple[int, ...]]
    uses: dict[str, int]
    awaited: dict[str, tuple[int, ...]]
    missing: list[int]
    requested: collections.abc.Mapping[int, list[RequestedOutput]]
    on_device: collections.abc.Mapping[int, OnDevice]
    outputs: tuple[str, ...]
    following: collections.abc.Mapping[int, Following]
    first: Following | None
    last: Last | None


class EnsemblePlan:
    """The graph of one ensemble, whose steps have the configs of their models."""

    def __init__(self, config: ModelConfig) -> None:
        assert isinstance(config.ensemble, Ensemble), "it is an ensemble"
        self.steps = tuple(
            PlannedStep(
                index=index,
                model=step.model,
                version=step.version,
                namespace=step.namespace,
                inputs=tuple(
                    (name, tensor, _known(step.composing).dims.get(name, ()))
                    for name, tensor in step.inputs.items()
                ),
                tensors=tuple(dict.fromkeys(step.inputs.values())),
                outputs=dict(step.outputs),
                batched=_known(step.composing).max_batch_size > 0,
                decoupled=_known(step.composing).decoupled,
                input_device=_known(step.composing).input_device,
            )
            for index, step in enumerate(config.ensemble.steps)
        )
        self._inputs = tuple(spec.name for spec in config.inputs)
        self._batched = config.max_batch_size > 0
        self._reshaped = {spec.name for spec in config.outputs if spec.reshape is not None}
        self.optional = tuple(spec.name for spec in config.inputs if spec.optional)
        self.output_names = tuple(spec.name for spec in config.outputs)
        self._writers = {
            tensor: step.index for step in self.steps for tensor in step.outputs.values()
        }
        self._selections: dict[tuple[str, ...], Selection] = {}

    def select(self, requested: collections.abc.Iterable[str]) -> Selection:
        """What a request for these outputs needs; none requested means all."""
        names = tuple(requested)
        selection = self._selections.get(names)
        if selection is None:
            selection = self._selected(frozenset(names or self.output_names))
            if len(self._selections) < _CACHED_SELECTIONS:
                self._selections[names] = selection
        return selection

    def _selected(self, outputs: frozenset[str]) -> Selection:
        steps = set[int]()
        needed, pending = set(outputs), list(outputs)
        while pending:
            writer = self._writers.get(pending.pop())
            if writer is None or writer in steps:
                continue
            steps.add(writer)
            more = set(self.steps[writer].tensors) - needed
            needed |= more
            pending += more
        readers = {
            tensor: tuple(index for index in sorted(steps) if tensor in self.steps[index].tensors)
            for tensor in needed
        }
        response = len(self.steps)
        requested = {
            index: [
                RequestedOutput(name)
                for name, tensor in self.steps[index].outputs.items()
                if tensor in needed
            ]
            for index in steps
        }
        on_device = self._on_device(steps, readers, outputs)
        following, first = self._chains(needed - outputs, readers, requested, on_device)
        return Selection(
            steps=frozenset(steps),
            awaited={
                tensor: (*those, response) if tensor in outputs else those
                for tensor, those in readers.items()
            },
            missing=[
                *(len(step.tensors) if step.index in steps else 0 for step in self.steps),
                len(outputs.intersection(self.output_names)),
            ],
            readers=readers,
            uses={tensor: len(readers[tensor]) + (tensor in outputs) for tensor in needed},
            requested=requested,
            on_device=on_device,
            outputs=tuple(name for name in self.output_names if name in outputs),
            following=following,
            first=first,
            last=self._last(needed, readers, outputs),
        )

    def _last(
        self,
        needed: collections.abc.Set[str],
        readers: collections.abc.Mapping[str, tuple[int, ...]],
        outputs: frozenset[str],
    ) -> Last | None:
        """See `Selection`."""
        if len(outputs) != 1:
            return None
        (name,) = outputs
        index = self._writers.get(name)
        if index is None or readers[name] or name in self._reshaped:
            return None
        step = self.steps[index]
        made = {output for output, tensor in step.outputs.items() if tensor in needed}
        if len(made) != 1 or step.batched != self._batched:
            return None
        return Last(index, made.pop(), name)

    def _chains(
        self,
        between: collections.abc.Set[str],
        readers: collections.abc.Mapping[str, tuple[int, ...]],
        requested: collections.abc.Mapping[int, list[RequestedOutput]],
        on_device: collections.abc.Mapping[int, OnDevice],
    ) -> tuple[dict[int, Following], Following | None]:
        """`following` and `first` of a `Selection`; `between`: tensors that the response does not need."""

        def behind(output: str, tensor: str, *, batched: bool) -> Following | None:
            if len(readers[tensor]) != 1 or tensor not in between:
                return None
            step = self.steps[readers[tensor][0]]
            if len(step.inputs) != 1 or step.batched != batched:
                return None
            index = step.index
            return Following(
                output, step.inputs[0][0], step, requested[index], on_device.get(index)
            )

        found: dict[int, Following] = {}
        for step in self.steps:
            made = {name: tensor for name, tensor in step.outputs.items() if tensor in readers}
            if len(made) != 1:
                continue
            ((output, tensor),) = made.items()
            following = behind(output, tensor, batched=step.batched)
            if following is not None:
                found[step.index] = following
        first = None
        if len(self._inputs) == 1 and self._inputs[0] in readers:
            (name,) = self._inputs
            first = behind(name, name, batched=self._batched)
        return found, first

    def _on_device(
        self,
        steps: set[int],
        readers: collections.abc.Mapping[str, tuple[int, ...]],
        outputs: frozenset[str],
    ) -> dict[int, OnDevice]:
        """See `Selection`. Tensors of the response go to the host's memory, as do all of an ensemble with decoupled steps, whose size is counted."""
        if any(step.decoupled for step in self.steps):
            return {}
        found: dict[int, OnDevice] = {}
        for index in steps:
            taken: dict[int, set[str]] = {}
            for name, tensor in self.steps[index].outputs.items():
                devices = {self.steps[each].input_device for each in readers.get(tensor, ())}
                device = devices.pop() if len(devices) == 1 and tensor not in outputs else None
                if device is not None:
                    taken.setdefault(device, set()).add(name)
            if len(taken) == 1:
                ((device, names),) = taken.items()
                found[index] = OnDevice(device, frozenset(names))
        return found


class TensorTable:
    """The values of one request that are still needed. A value is dropped with its last use."""

    __slots__ = ("_left", "_plan", "_selection", "_values")

    def __init__(self, plan: EnsemblePlan, selection: Selection) -> None:
        self._plan = plan
        self._selection = selection
        self._values: dict[tuple[str, Key], Value] = {}
        self._left: dict[tuple[str, Key], int] = {}

    def add(self, tensor: str, key: Key, value: Value) -> list[PlannedStep]:
        """Add a value; returns the steps that can run for this key now, which they could not before."""
        uses = self._selection.uses.get(tensor, 0)
        if not uses:
            return []
        values, steps = self._values, self._plan.steps
        values[tensor, key] = value
        self._left[tensor, key] = uses
        return [
            steps[index]
            for index in self._selection.readers[tensor]
            if all((each, key) in values for each in steps[index].tensors)
        ]

    def take(self, tensors: collections.abc.Iterable[str], key: Key) -> dict[str, Value]:
        """Take the values of a key for one of their uses."""
        return {tensor: self._take(tensor, key) for tensor in tensors}

    def take_outputs(self, key: Key) -> dict[str, Value] | None:
        """Take the values for a response, if all are there."""
        outputs = self._selection.outputs
        if not all((tensor, key) in self._values for tensor in outputs):
            return None
        return self.take(outputs, key)

    def clear(self) -> None:
        """Drop all values: the request has failed."""
        self._values.clear()
        self._left.clear()

    def __len__(self) -> int:
        return len(self._values)

    def _take(self, tensor: str, key: Key) -> Value:
        at = tensor, key
        left = self._left[at] - 1
        if left:
            self._left[at] = left
            return self._values[at]
        del self._left[at]
        return self._values.pop(at)


def batch_shape(
    shape: tuple[int, ...], dims: tuple[int, ...], *, batched: bool, batch_size: int
) -> tuple[int, ...]:
    """The shape that a tensor has for its reader (row 14.5): with or without a batch dimension where reader and maker differ in that.

    Args:
        shape: that it has.
        dims: that the reader expects, without the batch dimension.
        batched: whether the reader has one.
        batch_size: of the value; 0 if its maker has no batch dimension.
    """
    if batched == (batch_size > 0):
        return shape
    fits = len(shape) == len(dims) and all(
        wanted in (-1, size) for wanted, size in zip(dims, shape, strict=True)
    )
    if batched:
        return (1, *shape) if fits else shape
    return shape[1:] if not fits and batch_size == 1 else shape


def as_named(tensor: Tensor, name: str, shape: tuple[int, ...]) -> Tensor:
    """The same values under another name, perhaps with another shape; nothing is copied, and no reader can change them."""
    if type(tensor) is PackedStrings:
        return packed_strings(name, shape, tensor.packed)
    if type(tensor) is DeviceTensor:
        return tensor.named(name, shape)
    array = tensor.array
    if tensor.shape is not shape:
        array = array.reshape(shape)
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    elif tensor.shape is shape and tensor.name == name:
        return tensor
    return Tensor(name, tensor.datatype, shape, array)


def _known(composing: ComposingModel | None) -> ComposingModel:
    assert composing is not None, "an ensemble is loaded with the configs of its steps"
    return composing
