"""What a model's config asks of the sequence batcher: the table of its sequences, and a batcher for each instance. Pure."""

import typing

from naiad.config.model_config import DynamicBatching, ModelConfig
from naiad.config.sequence_batching import OldestStrategy, SequenceBatching
from naiad.config.sequence_tensors import model_inputs
from naiad.scheduling.batching import Dispatch, WaitUntil, batching_policy
from naiad.scheduling.queue import MICROSECOND_NS
from naiad.scheduling.sequence.direct import DirectBatcher
from naiad.scheduling.sequence.oldest import OldestBatcher
from naiad.scheduling.sequence.slot import Prepare, Sequence, SlotBatcher, Taken
from naiad.scheduling.sequence.table import SequenceTable


class Batcher(SlotBatcher, typing.Protocol):
    """Forms the batches of one instance, in one of the two strategies."""

    @property
    def waits(self) -> bool:
        """Whether a request waits for a batch."""
        ...

    def next(self, now: int, *, draining: bool = False) -> Dispatch | WaitUntil | None:
        """What the free instance does next; None if no request waits. `draining`: no sequence may start, so none is waited for."""
        ...

    def take(self, count: int, now: int) -> list[Taken | None]:
        """The requests of a batch; None for a null row."""
        ...

    def batches_before(self, sequence: Sequence | None) -> int:
        """How many batches would run before that of a sequence's next request, without the one in execution; None: a sequence without requests."""
        ...

    def oldest_ns(self) -> int:
        """The arrival of the request that waits longest, for a batch or behind others of its sequence; `NEVER` if none waits."""
        ...


class SequencePlan:
    """The sequence batcher of a model.

    Args:
        config: it has a sequence batcher.
        prepare: see the batchers.

    Attributes:
        table: of the model's sequences.
        slots: how many each instance has.
        single: an instance runs one request at a time, so no other one is worth a wait.
    """

    def __init__(self, config: ModelConfig, *, prepare: Prepare | None = None) -> None:
        batching = config.sequence_batching
        assert batching is not None
        self.batching: SequenceBatching = batching
        self._model = config.name
        self.slots = batching.slots(config.max_batch_size)
        self.single = config.max_batch_size <= 1
        self.table = SequenceTable(
            model=config.name,
            idle_ns=batching.max_sequence_idle_us * MICROSECOND_NS,
            iterative=batching.iterative,
        )
        strategy = batching.strategy
        sizes: tuple[int, ...] = ()
        if isinstance(strategy, OldestStrategy):
            sizes = strategy.preferred_batch_sizes
        dynamic = DynamicBatching(
            preferred_batch_sizes=sizes, max_queue_delay_us=strategy.max_queue_delay_us
        )
        self._policy = batching_policy(model_inputs(config), config.max_batch_size, dynamic)
        self._prepare = prepare

    def batcher(self, number: int) -> Batcher:
        """The batcher of an instance; `number` tells instances apart."""
        strategy = self.batching.strategy
        if isinstance(strategy, OldestStrategy):
            return OldestBatcher(
                number,
                candidates=self.slots,
                table=self.table,
                model=self._model,
                policy=self._policy,
                prepare=self._prepare,
            )
        return DirectBatcher(
            number,
            rows=self.slots,
            table=self.table,
            policy=self._policy,
            delay_ns=strategy.max_queue_delay_us * MICROSECOND_NS,
            utilization=strategy.minimum_slot_utilization,
            prepare=self._prepare,
        )
