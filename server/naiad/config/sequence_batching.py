"""The sequence batcher's settings as the scheduler reads them (rows 11.26, 11.27), and their conversion from a normalised message. Pure."""

import enum
from typing import Any

import msgspec

from naiad.core import datatypes
from naiad.core.datatypes import DataType
from naiad.core.messages import model_config_pb2

DEFAULT_IDLE_US = 1_000_000
"""`max_sequence_idle_microseconds` of a config that leaves it out."""

_PAIR = 2
_Control = model_config_pb2.ModelSequenceBatching.Control


class ControlKind(enum.Enum):
    """What a control input tells the model."""

    START = _Control.CONTROL_SEQUENCE_START
    END = _Control.CONTROL_SEQUENCE_END
    READY = _Control.CONTROL_SEQUENCE_READY
    CORRID = _Control.CONTROL_SEQUENCE_CORRID


class SequenceControl(msgspec.Struct, frozen=True, kw_only=True):
    """A control input.

    Attributes:
        name: the tensor's.
        false, true: its values; without effect for a correlation ID.
    """

    kind: ControlKind
    name: str
    datatype: DataType
    false: float = 0
    true: float = 0


class DirectStrategy(msgspec.Struct, frozen=True, kw_only=True):
    """A sequence is a row of the batch: its slot (rows 13.6, 13.11).

    Attributes:
        max_queue_delay_us: how long the oldest request waits while fewer slots have one than `minimum_slot_utilization` says.
        minimum_slot_utilization: the part of the slots, 0 to 1, with which a batch does not wait; 0: none waits.
    """

    max_queue_delay_us: int = 0
    minimum_slot_utilization: float = 0


class OldestStrategy(msgspec.Struct, frozen=True, kw_only=True):
    """The next requests of several sequences are batched by age (row 13.10).

    Attributes:
        max_candidate_sequences: sequences per instance that take part; 0 means `max_batch_size`.
        preferred_batch_sizes, max_queue_delay_us, preserve_ordering: as for the dynamic batcher.
    """

    max_candidate_sequences: int = 0
    preferred_batch_sizes: tuple[int, ...] = ()
    max_queue_delay_us: int = 0
    preserve_ordering: bool = False


class SequenceBatching(msgspec.Struct, frozen=True, kw_only=True):
    """The sequence batcher of a model.

    Attributes:
        max_sequence_idle_us: how long a sequence keeps its slot without a request (row 13.14).
        controls: in the order in which the model gets them, each name once.
        iterative: the model may reschedule requests, and those without a sequence get one (row 13.23).
    """

    max_sequence_idle_us: int = DEFAULT_IDLE_US
    controls: tuple[SequenceControl, ...] = ()
    strategy: DirectStrategy | OldestStrategy = DirectStrategy()
    iterative: bool = False

    def control(self, kind: ControlKind) -> SequenceControl | None:
        """The control input of a kind, if the model has one."""
        return next((each for each in self.controls if each.kind is kind), None)

    def slots(self, max_batch_size: int) -> int:
        """How many sequences an instance works on at the same time (rows 13.6, 13.10)."""
        if isinstance(self.strategy, OldestStrategy) and self.strategy.max_candidate_sequences > 0:
            return self.strategy.max_candidate_sequences
        return max(1, max_batch_size)


def sequence_batching_of(message: Any) -> SequenceBatching:
    """The settings of a message; a control that is not valid, which another rule refuses, is left out."""
    controls: dict[str, SequenceControl] = {}
    for kind in ControlKind:
        for control_input in message.control_input:
            for each in control_input.control:
                if each.kind == kind.value:
                    control = _control(control_input.name, kind, each)
                    if control is not None:
                        controls[control_input.name] = control
    return SequenceBatching(
        max_sequence_idle_us=message.max_sequence_idle_microseconds or DEFAULT_IDLE_US,
        controls=tuple(controls.values()),
        strategy=_strategy(message),
        iterative=message.iterative_sequence,
    )


def _strategy(message: Any) -> DirectStrategy | OldestStrategy:
    if message.HasField("oldest"):
        oldest = message.oldest
        return OldestStrategy(
            max_candidate_sequences=max(0, oldest.max_candidate_sequences),
            preferred_batch_sizes=tuple(sorted(set(oldest.preferred_batch_size))),
            max_queue_delay_us=oldest.max_queue_delay_microseconds,
            preserve_ordering=oldest.preserve_ordering,
        )
    return DirectStrategy(
        max_queue_delay_us=message.direct.max_queue_delay_microseconds,
        minimum_slot_utilization=message.direct.minimum_slot_utilization,
    )


def _control(name: str, kind: ControlKind, control: Any) -> SequenceControl | None:
    if kind is ControlKind.CORRID:
        type_name = model_config_pb2.DataType.Name(control.data_type)
        datatype = datatypes.BY_CONFIG_NAME.get(type_name)
        if datatype is None:
            return None
        return SequenceControl(kind=kind, name=name, datatype=datatype)
    pairs = (
        (control.int32_false_true, datatypes.INT32),
        (control.fp32_false_true, datatypes.FP32),
        (control.bool_false_true, datatypes.BOOL),
    )
    for values, datatype in pairs:
        if len(values) == _PAIR:
            return SequenceControl(
                kind=kind, name=name, datatype=datatype, false=values[0], true=values[1]
            )
    return None
