"""The warmup of a model's instances, as the server has it: the samples, what becomes of them, and how they reach a worker process."""

import collections.abc
import functools

from naiad.core.clock import Clock
from naiad.core.inference import Inference
from naiad.core.record import Record
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.hosts.link import codec
from naiad.hosts.link.payload import Payload
from naiad.hosts.packing import described
from naiad.hosts.worker import warmup
from naiad.metrics.repeated import record_repeated
from naiad.metrics.statistics import MICROSECOND, BatchTiming, ModelStatistics

_MILLISECOND_NS = 1_000 * MICROSECOND


class WarmupRequest(Record, frozen=True):
    """A sample: a request of one row that is executed `batch_size` at a time, `count` times."""

    name: str
    batch_size: int
    count: int
    request: InferRequest


class Warmup:
    """The samples of a model version. All methods are called on the event loop, except `advance` and `in_thread`.

    Args:
        samples: empty for a model without any.
        batched: whether the model has a batch dimension.
        statistics: count what is executed, as any other batch (row 8.9).
        clock: gives the time.

    Attributes:
        advance: called in any thread when an instance begins an iteration of a sample.
    """

    def __init__(
        self,
        samples: collections.abc.Sequence[WarmupRequest],
        *,
        batched: bool,
        statistics: ModelStatistics,
        clock: Clock,
    ) -> None:
        self._samples = samples
        self._batched = batched
        self._statistics = statistics
        self._clock = clock
        self.advance: collections.abc.Callable[[], None] = ignore

    def __bool__(self) -> bool:
        return bool(self._samples)

    @property
    def iterations(self) -> int:
        """How often one instance calls `advance`."""
        return sum(sample.count for sample in self._samples)

    def message(self) -> tuple[bytes, Payload]:
        """The header and the tensors of WARM_UP; see `worker/warmup.py`."""
        groups = [((1, ()), described(sample.request.inputs)) for sample in self._samples]
        rest = [
            (sample.name, sample.batch_size, sample.count, self._batched)
            for sample in self._samples
        ]
        return codec.write(groups, codec.to_json(rest).encode())

    def in_thread(self, now_ns: int) -> list[warmup.Sample]:
        """The samples for an instance in a thread of the server."""
        return [
            warmup.Sample(
                sample.name,
                warmup.batch_sizes(sample.batch_size, batched=self._batched),
                sample.count,
                functools.partial(Inference, sample.request, ignore_response, 1, now_ns),
            )
            for sample in self._samples
        ]

    def ran(self, batches: collections.abc.Iterable[collections.abc.Sequence[int]]) -> None:
        """An instance has run its samples: the numbers of each `WarmupBatch`."""
        wall_ms = self._clock.wall_ns() // _MILLISECOND_NS
        for rows, begun_ns, input_end_ns, output_start_ns, ended_ns, times in batches:
            timing = BatchTiming(
                input_end_ns - begun_ns, output_start_ns - input_end_ns, ended_ns - output_start_ns
            )
            if times > 1:
                record_repeated(
                    self._statistics, rows=rows, times=times, total=timing, wall_ms=wall_ms
                )
                continue
            self._statistics.record_execution(batch_size=rows, timing=timing, wall_ms=wall_ms)
            self._statistics.record_successes(
                rows=rows,
                request_ns=[ended_ns - begun_ns] * rows,
                queue_ns=[0] * rows,
                timing=timing,
            )


def ignore() -> None:
    """While no load shows its progress."""


def ignore_response(_response: InferResponse) -> None:
    """A warmup has no client."""
