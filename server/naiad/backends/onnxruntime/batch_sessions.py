"""The sessions that run a model's batches: one, or one for each size that batches are filled up to (`batch_sizes` decides).

Every further size is a session of its own, with weights, arena and plans of its own: onnxruntime for Python cannot share weights that are in a device's
memory. So the sizes are made one after the other, each is run a few times before the model is ready, and the load goes on with those that there are when
time or memory runs out or one cannot be made.
"""

import collections.abc
import logging
import typing

import numpy as np

from naiad.backends import device_errors, reasons
from naiad.backends.batch import Array
from naiad.backends.filled_sizes import size_for
from naiad.backends.onnxruntime import batch_sizes
from naiad.backends.onnxruntime.batch_sizes import Memory, Progress
from naiad.backends.onnxruntime.runner import SessionRunner
from naiad.errors import internal

log = logging.getLogger("naiad.backends")

_SECOND_NS = 1_000_000_000
_MILLISECOND_NS = 1_000_000


class BatchSessions:
    """The sessions of an instance, or of all CPU instances of a model. Several threads may use it at once.

    Args:
        first: takes every batch where there are no sizes.
        by_size: by the number of rows that each one runs.
        costs: how long a run of each takes, in nanoseconds; 0 where that is not known.
        label: the model and where it runs, for the log.
    """

    def __init__(
        self,
        first: SessionRunner,
        by_size: collections.abc.Mapping[int, SessionRunner] | None = None,
        costs: collections.abc.Mapping[int, int] | None = None,
        *,
        label: str = "",
    ) -> None:
        self.first = first
        self.sizes = tuple(sorted(by_size or ()))
        self._by_size = by_size or {}
        self._costs = costs or {}
        self._runs: dict[int, tuple[int, ...]] = {}
        self._label = label
        self._failures = 0
        self._warned = False

    def runs(self, rows: int) -> tuple[int, ...]:
        """The sizes of the runs of a batch, the largest first; of a model that has sizes. Empty for one run with the rows that it has."""
        if not 0 < rows <= self.sizes[-1] or self._failures >= batch_sizes.MAX_FAILURES:
            return ()
        runs = self._runs.get(rows)
        if runs is None:
            runs = self._runs[rows] = batch_sizes.runs_of(rows, self._costs)
        return runs if runs != (rows,) else ()

    def runner(self, rows: int) -> SessionRunner:
        """The session for one run with the rows that a batch has."""
        return self._by_size[size_for(self.sizes, rows)] if self.sizes else self.first

    def run(
        self, names: list[str], feeds: dict[str, Array], *, rows: int, runs: tuple[int, ...]
    ) -> list[Array]:
        """Run a filled batch, whose own rows are the first ones; gives the outputs of these.

        Raises:
            Exception: what onnxruntime raises.
            ValueError: an output has another number of rows than went in.
        """
        if len(runs) == 1:
            arrays = self._by_size[runs[0]].run_rows(names, feeds, rows=runs[0])
        else:
            parts: list[list[Array]] = []
            begin = 0
            for size in runs:
                part = {name: array[begin : begin + size] for name, array in feeds.items()}
                parts.append(self._by_size[size].run_rows(names, part, rows=size))
                begin += size
            arrays = [np.concatenate(column) for column in zip(*parts, strict=True)]
        return [array[:rows] for array in arrays]

    def filled(self) -> None:
        """A filled batch has run."""
        self._failures = 0

    def failed(self, error: Exception) -> None:
        """A filled batch failed, and succeeded without the added rows. The first one is logged, and the one after which no batch is filled."""
        self._failures += 1
        if self._failures == batch_sizes.MAX_FAILURES:
            log.warning(
                "%s: %d batches in a row failed because of the rows that were added to them, and ran again without them; batches are not filled any more "
                "until the model is loaded again: %s",
                self._label,
                self._failures,
                error,
            )
        elif not self._warned:
            self._warned = True
            log.warning(
                "%s: a batch failed because of the rows that were added to it, and ran again without them; further ones are not logged: %s",
                self._label,
                error,
            )


class LoadContext(typing.NamedTuple):
    """What making sessions depends on.

    Attributes:
        now_ns: the monotonic time.
        memory: of the device, now; None where it is not known.
        stopping: whether the server stops.
    """

    now_ns: collections.abc.Callable[[], int]
    memory: collections.abc.Callable[[], Memory | None]
    stopping: collections.abc.Callable[[], bool]


def make_sessions(
    make: collections.abc.Callable[[], SessionRunner],
    sizes: tuple[int, ...],
    context: LoadContext,
    *,
    label: str,
) -> BatchSessions:
    """Make the session of a model, or one for each of these sizes, as far as time and memory allow.

    Raises:
        InferenceError: not even the first one can be made.
    """
    if not sizes:
        return BatchSessions(make())
    log.info(
        "%s: batches are filled up to %s rows; making a session for each", label, _listed(sizes)
    )
    maker = _SessionMaker(make, context, label=label)
    first, *further = batch_sizes.in_order(sizes)
    maker.add(first)
    why = ""
    for size in further:
        why = maker.reason_to_stop() or maker.try_to_add(size)
        if why:
            break
    made = tuple(sorted(maker.made))
    seconds = (context.now_ns() - maker.begun_ns) / _SECOND_NS
    if why:
        log.warning("%s: batches are filled up to %s rows only: %s", label, _listed(made), why)
    log.info("%s: %d sessions made and run in %.1f s", label, len(made), seconds)
    return BatchSessions(maker.made[first], maker.made, maker.costs, label=label)


class _SessionMaker:
    """Makes the sessions of one instance and measures what each takes."""

    def __init__(
        self,
        make: collections.abc.Callable[[], SessionRunner],
        context: LoadContext,
        *,
        label: str,
    ) -> None:
        self._make = make
        self._context = context
        self._label = label
        self.made: dict[int, SessionRunner] = {}
        self.costs: dict[int, int] = {}
        self.begun_ns = self._now_ns = context.now_ns()
        self._memory = context.memory()
        self._last_ns = 0
        self._last_bytes = 0
        self._extra_bytes = 0
        self._warms = True

    def add(self, size: int) -> None:
        """Make the first session, which the model needs in any case.

        Raises:
            InferenceError: it cannot be made, or has broken the device.
        """
        runner = self._make()
        cost = None
        try:
            cost = runner.warm_up(size, self._context.now_ns)
            self._warms = cost is not None
        except Exception as error:  # noqa: BLE001 - whatever onnxruntime raises: the model may refuse zeros, which says nothing about real requests
            self._raise_if_unrecoverable(error, size)
            self._warms = False
            log.warning(
                "%s: sessions are not run before the model is ready, because a batch of zeros fails: %s",
                self._label,
                error,
            )
        self._measure(size, runner, cost)

    def try_to_add(self, size: int) -> str:
        """Make a further session; returns why it could not be made, or "".

        Raises:
            InferenceError: it has broken the device.
        """
        cost = None
        try:
            runner = self._make()
            if self._warms:
                cost = runner.warm_up(size, self._context.now_ns)
        except Exception as error:  # noqa: BLE001 - as above, and the model can be served without it
            self._raise_if_unrecoverable(error, size)
            return f"the session for {size} rows failed: {reasons.said(error)}"
        self._measure(size, runner, cost)
        return ""

    def reason_to_stop(self) -> str:
        """Why no further session is made; "" to go on."""
        if self._context.stopping():
            return "the server stops"
        progress = Progress(
            spent_ns=self._now_ns - self.begun_ns,
            last_ns=self._last_ns,
            last_bytes=self._last_bytes,
            extra_bytes=self._extra_bytes,
            memory=self._memory,
        )
        return batch_sizes.reason_to_stop(progress)

    def _raise_if_unrecoverable(self, error: Exception, size: int) -> None:
        """A process whose device is broken serves nothing: the load fails."""
        if device_errors.unrecoverable(error) is not None:
            raise internal(
                f"{reasons.explained(error)} (running {size} rows of zeros, {self._label})"
            ) from error

    def _measure(self, size: int, runner: SessionRunner, cost: int | None) -> None:
        self.made[size] = runner
        self.costs[size] = cost or 0
        now_ns, memory = self._context.now_ns(), self._context.memory()
        self._last_ns, self._now_ns = now_ns - self._now_ns, now_ns
        if self._memory is not None and memory is not None:
            self._last_bytes = max(self._memory.free - memory.free, 0)
            if len(self.made) > 1:
                self._extra_bytes += self._last_bytes
        self._memory = memory
        log.info(
            "%s: the session for %d rows took %.1f s, a run of it %.2f ms",
            self._label,
            size,
            self._last_ns / _SECOND_NS,
            (cost or 0) / _MILLISECOND_NS,
        )


def _listed(sizes: collections.abc.Iterable[int]) -> str:
    return ", ".join(map(str, sizes))
