"""Sequences and slots: the objects that the table of sequences and the batchers of instances share. Pure."""

import collections
import collections.abc
import typing

from naiad.core.inference import Inference
from naiad.core.tensor import Tensor
from naiad.scheduling.timers.wakeup import NEVER

Key = int | str
"""A correlation ID; 5 and "5" are two sequences (row 13.5)."""


class Sequence:
    """A sequence that has requests, or may get further ones.

    Attributes:
        key: its correlation ID.
        slot: where it runs; None while it waits in the backlog, and after it gave its slot back.
        home: the slot that it has or had; None while it waits in the backlog.
        waiting: its requests that no batch has yet, in order.
        taken: how many of its requests are in a batch, or were issued to the queue in front of one.
        closed: whether it takes no more requests: END came, or it was ended early.
        last: its last request.
        due_ns: when it expires in the backlog (monotonic); 0: never.
        cached: the tensor of its correlation ID, once it was made.
        states: of a model with implicit state, as inputs of its next request; empty before the first one.
    """

    __slots__ = (
        "cached",
        "closed",
        "due_ns",
        "home",
        "key",
        "last",
        "slot",
        "states",
        "taken",
        "waiting",
    )

    def __init__(self, key: Key, first: Inference) -> None:
        self.key = key
        self.slot: Slot | None = None
        self.home: Slot | None = None
        self.waiting = collections.deque[Inference]()
        self.taken = 0
        self.closed = False
        self.last = first
        self.due_ns = 0
        self.cached: typing.Any = None
        self.states: tuple[Tensor, ...] = ()


Prepare = collections.abc.Callable[[Sequence, Inference], None]
"""Gives a request what only its sequence knows and batches are formed by: its implicit states."""


class SlotBatcher(typing.Protocol):
    """Forms the batches of one instance from its slots.

    Attributes:
        number: tells instances apart.
        slots: the instance's.
        usable: whether sequences may get its slots: its worker runs, and it is not to be removed.
    """

    number: int
    slots: "list[Slot]"
    usable: bool

    def changed(self, slot: "Slot", now: int) -> None:
        """The slot's sequence or its waiting requests have changed."""
        ...

    def withdraw(self, slot: "Slot", inference: Inference, now: int) -> bool:
        """Remove a request that was taken from its slot and is in no batch; False if it is in a batch."""
        ...

    def drop(self) -> "list[Taken]":
        """Remove and return all requests that were taken from their slots and are in no batch."""
        ...


class Slot:
    """A place for one sequence on an instance.

    Attributes:
        batcher: of its instance.
        row: its number there: the row of the batch in the direct strategy.
        sequence: which one has it; None if it is free.
        busy: whether a request that was taken from it has not come back.
        listed: whether the table lists it as free.
        since_ns: when its sequence got it (monotonic); 0 while it is free.
    """

    __slots__ = ("batcher", "busy", "listed", "row", "sequence", "since_ns")

    def __init__(self, batcher: SlotBatcher, row: int) -> None:
        self.batcher = batcher
        self.row = row
        self.sequence: Sequence | None = None
        self.busy = False
        self.listed = False
        self.since_ns = 0


def oldest_waiting_ns(slots: collections.abc.Iterable[Slot]) -> int:
    """The arrival of the request that waits longest among those that no batch has; `NEVER` if none does."""
    heads = (slot.sequence.waiting for slot in slots if slot.sequence is not None)
    return min((waiting[0].queued_ns for waiting in heads if waiting), default=NEVER)


class Taken(typing.NamedTuple):
    """A request that was taken from its slot for a batch."""

    slot: Slot
    sequence: Sequence
    inference: Inference
