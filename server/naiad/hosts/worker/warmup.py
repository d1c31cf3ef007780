"""Runs the warmup samples of a model on one instance (row 14.31), the same in a thread of the server and in a worker process.

Limits: standard library and numpy, Python 3.8.
"""

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from naiad.backends.instance import Instance, Response
from naiad.errors import ErrorCode, InferenceError
from naiad.hosts.link import codec, layouts
from naiad.hosts.worker.received_tensors import resolved, tensors_of
from naiad.hosts.worker.requests import MOST_REQUESTS, ReceivedRequest


class Sample(NamedTuple):
    """A sample.

    Attributes:
        name: its name.
        batch_sizes: of the batches of one iteration: one batch of so many requests, or several of one for a model without a batch dimension.
        iterations: how often.
        make_call: makes a request of one row, as the instance executes it.
    """

    name: str
    batch_sizes: "Iterable[int]"
    iterations: int
    make_call: "Callable[[], Any]"


MOST_BATCHES = 1_000
"""Batches with times of their own; of a warmup with more, those of each would fill the memory."""


class WarmupBatch(NamedTuple):
    """A batch that was executed: its rows, and its times (monotonic).

    Attributes:
        times: how many batches of as many rows it stands for; with more than one, the times are as if they had run one after the other from 0 on, each
            part of all of them behind the part before.
    """

    rows: int
    begun_ns: int
    input_end_ns: int
    output_start_ns: int
    ended_ns: int
    times: int = 1


class _Ran:
    """The batches that were executed, in bounded memory."""

    def __init__(self) -> None:
        self._first: list[WarmupBatch] = []
        self._others: dict[int, list[int]] = {}

    def add(self, batch: WarmupBatch) -> None:
        if len(self._first) < MOST_BATCHES:
            self._first.append(batch)
            return
        sums = self._others.setdefault(batch.rows, [0, 0, 0, 0])
        sums[0] += batch.input_end_ns - batch.begun_ns
        sums[1] += batch.output_start_ns - batch.begun_ns
        sums[2] += batch.ended_ns - batch.begun_ns
        sums[3] += 1

    def all(self) -> "list[WarmupBatch]":
        others = [WarmupBatch(rows, 0, *sums) for rows, sums in self._others.items()]
        return self._first + others


def run(
    instance: Instance,
    samples: "Sequence[Sample]",
    advance: "Callable[[], None]",
    now_ns: "Callable[[], int]",
) -> "list[WarmupBatch]":
    """Run all samples. The instance responds through another responder afterwards: set it again.

    Args:
        instance: runs them.
        samples: in their order.
        advance: called as each iteration of a sample begins.
        now_ns: the monotonic clock.

    Raises:
        InferenceError: INVALID_ARG: a request failed (row 14.33).
    """
    responder = _Responder()
    instance.respond_through(responder)
    ran = _Ran()
    for sample in samples:
        for _ in range(sample.iterations):
            advance()
            for size in sample.batch_sizes:
                calls = [sample.make_call() for _ in range(size)]
                ran.add(_execute(instance, sample.name, calls, responder, now_ns))
    return ran.all()


def _execute(
    instance: Instance,
    name: str,
    calls: "list[Any]",
    responder: "_Responder",
    now_ns: "Callable[[], int]",
) -> WarmupBatch:
    pending = responder.expect(calls)
    begun_ns = now_ns()
    errors: list[InferenceError] = []
    input_end_ns = output_start_ns = begun_ns
    try:
        execution = instance.execute(calls)
    except InferenceError as error:
        errors.append(error)
    except BaseException as error:  # noqa: BLE001 - also SystemExit: a model may not end the worker or the thread
        errors.append(InferenceError(ErrorCode.INTERNAL, f"{type(error).__name__}: {error}"))
    else:
        input_end_ns, output_start_ns = execution.input_end_ns, execution.output_start_ns
        for response, deferred in zip(execution.responses, pending):  # noqa: B905 - 3.8 knows no strict
            if response is None:
                deferred.over.wait()
                errors += deferred.errors
                output_start_ns = now_ns()
            elif response.error is not None:
                errors.append(response.error)
    responder.forget()
    if errors:
        raise _failed(name, errors)
    return WarmupBatch(len(calls), begun_ns, input_end_ns, output_start_ns, now_ns())


def _failed(name: str, errors: "list[InferenceError]") -> InferenceError:
    """The reference's words; each different error once."""
    messages = "; ".join(dict.fromkeys(error.message for error in errors))
    failed = InferenceError(
        ErrorCode.INVALID_ARG, f"failed to run warmup sample '{name}': {messages}"
    )
    failed.lost_device = next((each.lost_device for each in errors if each.lost_device), None)
    return failed


class _Deferred:
    """A request whose responses may be deferred.

    Attributes:
        over: set with its final response.
        errors: those of its responses.
    """

    __slots__ = ("call", "errors", "over")

    def __init__(self, call: Any) -> None:
        self.call = call
        self.over = threading.Event()
        self.errors: list[InferenceError] = []


class _Responder:
    """Implements `Responder`: responses of a warmup go nowhere, and their errors are kept."""

    def __init__(self) -> None:
        self._pending: list[_Deferred] = []

    def expect(self, calls: "list[Any]") -> "list[_Deferred]":
        """These are executed next."""
        self._pending = [_Deferred(call) for call in calls]
        return self._pending

    def forget(self) -> None:
        """They have ended."""
        self._pending = []

    def send(self, call: Any, response: "Response | None", *, final: bool, begun_ns: int) -> None:
        """See `Responder`."""
        for deferred in self._pending:
            if deferred.call is call:
                if response is not None and response.error is not None:
                    deferred.errors.append(response.error)
                if final:
                    deferred.over.set()
                return

    def wait_for_capacity(self, call: Any) -> None:
        """See `Responder`: at once."""


def batch_sizes(batch_size: int, *, batched: bool) -> "Iterable[int]":
    """See `Sample.batch_sizes`; can be read any number of times."""
    return (batch_size,) if batched else _Ones(batch_size)


class _Ones:
    """So many ones, without a list of them."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __iter__(self) -> "Iterator[int]":
        return itertools.repeat(1, self._number)


def received(base: Any, header: "bytes | bytearray", number: int) -> "list[Sample]":
    """The samples of a WARM_UP message: a group of tensors for each, and `[[name, batch size, count, batched], …]` behind them.

    Args:
        base: where the tensors are; views of it are in the requests.
        header: the message's.
        number: that the requests have.
    """
    layout, rest = layouts.Reader(resolved).read(header, MOST_REQUESTS)
    samples: list[Sample] = []
    for group, (name, batch_size, count, batched) in zip(layout.groups, codec.read_json(rest)):  # noqa: B905 - 3.8 knows no strict
        inputs = tensors_of(base, group)
        samples.append(
            Sample(name, batch_sizes(batch_size, batched=batched), count, _maker(inputs, number))
        )
    return samples


def _maker(inputs: "list[Any]", number: int) -> "Callable[[], ReceivedRequest]":
    def make() -> ReceivedRequest:
        request = ReceivedRequest(number)
        request.batch_size = 1
        request.output_names = []
        request.inputs = inputs
        return request

    return make
