"""A batching strategy of a model's own (row 12.18): code that says which requests join a batch. It runs on the event loop, once per request.

The code is a class `BatchStrategy`. It must have `include(batch, request)`; the others are optional: `initialize(model)` once after it is made,
`begin_batch()` makes what `include` gets as `batch`, `end_batch(batch)` ends it, `finalize()` is last. An exception costs its batch nothing but the
strategy: it is formed by the default rules.
"""

import collections.abc
import logging
import statistics as numbers
import time
from typing import Any

import msgspec

from naiad.core.inference import Inference
from naiad.core.tensor import Tensor
from naiad.metrics.statistics import ModelStatistics

_log = logging.getLogger("naiad.scheduling")

MEASURED = 100
"""Calls of which the median is taken."""

SLOW_NS = 1_000_000
"""A median of the thread's CPU time above is reported: no other request is served meanwhile."""

_FAULTS = Exception, SystemExit


class StrategyModel(msgspec.Struct, frozen=True, kw_only=True):
    """The model that a strategy is for; `config` is the config as a dict, as `GET …/config` shows it, and `parameters` are its texts."""

    name: str
    version: int
    max_batch_size: int
    parameters: collections.abc.Mapping[str, str]
    config: collections.abc.Mapping[str, Any]


class StrategyRequest:
    """A request as a strategy sees it; read only."""

    __slots__ = ("_inference",)

    def __init__(self, inference: Inference) -> None:
        self._inference = inference

    @property
    def id(self) -> str:
        """The client's id; "" if there is none."""
        return self._inference.request.id

    @property
    def batch_size(self) -> int:
        """Its rows."""
        return self._inference.batch_size

    @property
    def parameters(self) -> dict[str, Any]:
        """The client's parameters."""
        return self._inference.request.parameters

    @property
    def priority(self) -> int:
        """Its priority level; 0 for a model without priorities."""
        return self._inference.priority_level

    @property
    def correlation_id(self) -> int | str:
        """Its sequence; 0 or "" for none."""
        return self._inference.request.correlation_id

    @property
    def inputs(self) -> dict[str, Tensor]:
        """By name: `datatype.name`, `shape` with the batch dimension, and `array`."""
        return {tensor.name: tensor for tensor in self._inference.request.inputs}

    @property
    def byte_size(self) -> int:
        """The bytes of its inputs, of text only the references."""
        return sum(tensor.array.nbytes for tensor in self._inference.request.inputs)


class Strategy:
    """Calls the code of a strategy, for one queue.

    Args:
        code: an object as the module's docstring has it.
        model: its name, for the log.
        statistics: counts failures and slow calls.
        cpu_ns: CPU time of this thread.
        forget: called when it is closed.
    """

    def __init__(
        self,
        code: Any,
        *,
        model: str,
        statistics: ModelStatistics,
        cpu_ns: collections.abc.Callable[[], int] = time.thread_time_ns,
        forget: collections.abc.Callable[[], None] = lambda: None,
    ) -> None:
        self._code: Any = code
        self._model = model
        self._statistics = statistics
        self._cpu_ns = cpu_ns
        self._forget = forget
        self._batch: Any = None
        self._is_open = self._failed = self._was_slow = False
        self._took: list[int] = []

    def begin(self) -> None:
        """A batch begins; the one before is over."""
        self._end()
        self._failed = False
        begin_batch = getattr(self._code, "begin_batch", None)
        self._is_open = True
        try:
            self._batch = None if begin_batch is None else begin_batch()
        except _FAULTS:
            self._fail("begin_batch")

    def include(self, inference: Inference) -> bool:
        """Whether a request joins the batch; always where the code failed for this batch."""
        if self._failed or self._code is None:
            return True
        began = self._cpu_ns()
        try:
            joins = bool(self._code.include(self._batch, StrategyRequest(inference)))
        except _FAULTS:
            self._fail("include")
            return True
        self._measure(self._cpu_ns() - began)
        return joins

    def close(self) -> None:
        """The model is unloaded. Idempotent."""
        self._end()
        code, self._code = self._code, None
        self._forget()
        finalize = getattr(code, "finalize", None)
        if finalize is not None:
            try:
                finalize()
            except _FAULTS:
                self._fail("finalize")

    def _end(self) -> None:
        was_open, self._is_open = self._is_open, False
        batch, self._batch = self._batch, None
        end_batch = getattr(self._code, "end_batch", None)
        if not was_open or self._failed or end_batch is None:
            return
        try:
            end_batch(batch)
        except _FAULTS:
            self._fail("end_batch")

    def _fail(self, what: str) -> None:
        self._failed = True
        self._statistics.strategy_failures += 1
        _log.exception(
            "the batching strategy of model '%s' failed in %s: this batch is formed by the default rules",
            self._model,
            what,
        )

    def _measure(self, took_ns: int) -> None:
        self._took.append(took_ns)
        if len(self._took) < MEASURED:
            return
        median = numbers.median(self._took)
        self._took.clear()
        is_slow = median > SLOW_NS
        if is_slow:
            self._statistics.strategy_slow += 1
        if is_slow and not self._was_slow:
            _log.warning(
                "the batching strategy of model '%s' takes %.1f ms of CPU time per request (median of %d): no other request of the server is served "
                "meanwhile; look at shapes and parameters only, or prepare in initialize",
                self._model,
                median / 1e6,
                MEASURED,
            )
        self._was_slow = is_slow
