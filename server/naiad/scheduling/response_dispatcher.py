"""Completes inferences: counts each one, then sends its final response.

Success, a failed request, a failed batch, a rejection and a cancellation all end here, on the event loop. Counters are written before
the response is sent, or in the same step of the loop, so that a client that has its response finds it in the statistics. An exception in a response callback is logged
and does not affect the other requests of the batch.
"""

import collections.abc
import logging

from naiad.backends.instance import Execution
from naiad.core.clock import Clock
from naiad.core.inference import ExecutionTimes, Inference
from naiad.core.response import NO_OUTPUTS, NO_PARAMETERS, InferResponse
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.hosts.host import BatchOutcome, DeferredResponse
from naiad.metrics.statistics import MICROSECOND, BatchTiming, ModelStatistics
from naiad.scheduling.relays.calls import CallInProgress, TakesTogether

_log = logging.getLogger(__name__)
_MILLISECOND_NS = 1_000 * MICROSECOND


class _Progress:
    """The responses so far of an inference with deferred responses.

    Attributes:
        count: responses sent.
        since_ns: time of the last one, or of the beginning of the batch.
        failed: whether one of them was an error.
        is_first: whether none of them had outputs.
    """

    __slots__ = ("count", "failed", "is_first", "since_ns")

    def __init__(self, begun_ns: int) -> None:
        self.count = 0
        self.failed = False
        self.is_first = True
        self.since_ns = begun_ns


class ResponseDispatcher:
    """Counts and responds for one model version.

    Args:
        model: the name of the model, for error responses.
        version: its version.
        statistics: the counters.
        clock: gives the time.
    """

    __slots__ = ("_model", "_now", "_progress", "_statistics", "_version", "_wall")

    def __init__(
        self, *, model: str, version: int, statistics: ModelStatistics, clock: Clock
    ) -> None:
        self._model = model
        self._version = version
        self._statistics = statistics
        self._now = clock.monotonic_ns
        self._wall = clock.wall_ns
        self._progress: dict[Inference, _Progress] = {}

    def fail(self, inference: Inference, error: InferenceError, *, counted: int = 1) -> None:
        """Respond with an error, counted under its reason; does nothing for an inference that is completed.

        `counted`: how often it counts; twice for an ensemble whose step failed, as in the reference (row 8.16).
        """
        if inference.completed:
            return
        now = self._now()
        request_ns = now - inference.received_ns
        inference.answered_ns = now
        progress = self._progress.pop(inference, None) if self._progress else None
        if progress is None:
            self._statistics.record_first_response(request_ns)
        for _ in range(counted):
            self._statistics.record_failure(reason=error.reason, request_ns=request_ns)
        request_id = inference.request.id
        self._send(
            inference,
            InferResponse(
                self._model, self._version, request_id, NO_OUTPUTS, NO_PARAMETERS, error.bare()
            ),
        )

    def respond(self, deferred: DeferredResponse) -> None:
        """Send a deferred response; the final one counts and completes the inference.

        The inference failed if any of its responses was an error. It computed from the beginning of its batch to its final response.
        """
        inference, response = deferred.inference, deferred.response
        if inference.completed:
            return
        now = self._now()
        progress = self._progress.pop(inference, None) or _Progress(deferred.begun_ns)
        if not progress.count:
            self._statistics.record_first_response(now - inference.received_ns)
        self._count_response(progress, inference, response, now)
        if not response.final:
            self._progress[inference] = progress
            self._send(inference, response)
            return
        if progress.failed:
            error = response.error
            reason = FailureReason.BACKEND if error is None else error.reason
            self._statistics.record_failure(reason=reason, request_ns=now - inference.received_ns)
        else:
            self._statistics.record_successes(
                rows=inference.batch_size,
                request_ns=[now - inference.received_ns],
                queue_ns=[deferred.begun_ns - inference.queued_ns],
                timing=BatchTiming(0, now - deferred.begun_ns, 0),
            )
        begun_ns = deferred.begun_ns
        inference.execution = ExecutionTimes(
            self._version, begun_ns, begun_ns, now, now, responded_ns=0 if response.empty else now
        )
        self._send(inference, response)

    def respond_composed(
        self,
        inference: Inference,
        response: InferResponse,
        *,
        queue_ns: int,
        timing: BatchTiming,
        streams: bool,
    ) -> None:
        """Send a response that other models have made; the final one counts and completes the inference (row 14.13).

        Args:
            inference: not failed.
            response: without an error.
            queue_ns: that its parts waited, in all.
            timing: that they were executed, in all.
            streams: whether each response is counted (row 8.6).
        """
        if inference.completed:
            return
        now = self._now()
        if streams:
            progress = self._progress.pop(inference, None) or _Progress(inference.queued_ns)
            if not progress.count:
                self._statistics.record_first_response(now - inference.received_ns)
            self._count_response(progress, inference, response, now)
            if not response.final:
                self._progress[inference] = progress
        elif self._statistics.first_response is not None:
            self._statistics.record_first_response(now - inference.received_ns)
        if response.final:
            rows = inference.batch_size
            self._statistics.record_alone(
                rows=rows,
                request_ns=now - inference.received_ns,
                queue_ns=queue_ns,
                timing=timing,
                wall_ms=self._wall() // _MILLISECOND_NS,
            )
            start = inference.queued_ns + queue_ns
            input_end = start + timing.compute_input_ns
            output_start = input_end + timing.compute_infer_ns
            inference.execution = ExecutionTimes(
                self._version,
                start,
                input_end,
                output_start,
                output_start + timing.compute_output_ns,
            )
        self._send(inference, response)
        if response.final:
            inference.on_response = _sent  # as in `respond_cached`: the steps may all be hits

    def respond_cached(
        self,
        inference: Inference,
        response: InferResponse,
        *,
        request_ns: int,
        queue_ns: int,
        lookup_ns: int,
    ) -> None:
        """Send a response from the response cache; it counts and completes the inference.

        Args:
            inference: not completed.
            response: the only one.
            request_ns: since it was received.
            queue_ns: that it waited before the look-up.
            lookup_ns: of the look-up.
        """
        inference.answered_ns = inference.received_ns + request_ns
        self._statistics.record_cache_hit(
            request_ns=request_ns, queue_ns=queue_ns, lookup_ns=lookup_ns
        )
        self._send(inference, response)
        # Before `submit` has returned, so that the handle which the protocol gets then would make a cycle of what belongs to the request.
        inference.on_response = _sent

    def _count_response(
        self, progress: "_Progress", inference: Inference, response: InferResponse, now: int
    ) -> None:
        """Count a response under its index among those of its request, with the time since the one before (row 8.6)."""
        counted = self._statistics.response(progress.count)
        counted.record(
            now - progress.since_ns,
            failed=response.error is not None,
            empty=not response.outputs,
            cancelled=inference.cancelled,
        )
        if response.outputs and response.error is None and not inference.cancelled:
            if progress.is_first:
                self._statistics.first_response_time.observe(now - inference.received_ns)
                progress.is_first = False
            else:
                self._statistics.response_interval.observe(now - progress.since_ns)
        progress.count += 1
        progress.since_ns = now
        if response.error is not None:
            progress.failed = True

    def deliver(self, outcome: BatchOutcome) -> None:
        """Respond to every request of a batch that came back, whatever its outcome."""
        try:
            execution = outcome.execution
            if execution is not None:
                if len(outcome.batch) > 1 or not self._deliver_alone(outcome, execution):
                    self._deliver(outcome, execution)
                return
            error = outcome.error
            message = f"model '{self._model}': its instance gave neither responses nor an error"
        except Exception as failure:  # noqa: BLE001  an invalid outcome may fail anywhere, and every client still waits
            _log.exception("model '%s' gave invalid responses", self._model)
            error = None
            message = f"model '{self._model}' gave invalid responses: {failure}"
        if error is None:
            error = InferenceError(ErrorCode.INTERNAL, message, reason=FailureReason.BACKEND)
        ended = outcome.compute_end_ns
        times = ExecutionTimes(
            self._version,
            outcome.compute_start_ns,
            outcome.input_end_ns,
            ended,
            ended,
            len(outcome.batch),
        )
        for inference in outcome.batch:
            if inference.traced is not None:  # a trace shows when it was executed all the same
                inference.execution = times
            self.fail(inference, error)

    def _deliver_alone(self, outcome: BatchOutcome, execution: Execution[InferResponse]) -> bool:
        """As `_deliver`, for the usual outcome of a batch of one request, in half as many steps; False, and nothing done, for any other."""
        (inference,), (response,) = outcome.batch, execution.responses
        statistics = self._statistics
        if (
            response is None
            or response.error is not None
            or inference.completed
            or inference.called
            or statistics.first_response is not None
        ):
            return False
        started, input_end = outcome.compute_start_ns, outcome.input_end_ns
        output_start, ended = execution.output_start_ns, outcome.compute_end_ns
        now = self._now()
        inference.execution = ExecutionTimes(
            self._version, started, input_end, output_start, ended, responded_ns=now
        )
        self._send(inference, response)
        # Behind the response, whose client is on its way meanwhile: nothing else of the loop comes in between that could read the counters.
        statistics.record_alone(
            rows=inference.batch_size,
            request_ns=now - inference.received_ns,
            queue_ns=started - inference.queued_ns,
            timing=BatchTiming(input_end - started, output_start - input_end, ended - output_start),
            wall_ms=self._wall() // _MILLISECOND_NS,
            padding_rows=execution.padding_rows,
        )
        return True

    def _deliver(self, outcome: BatchOutcome, execution: Execution[InferResponse]) -> None:
        started, input_end = outcome.compute_start_ns, outcome.input_end_ns
        timing = BatchTiming(
            input_end - started,
            execution.output_start_ns - input_end,
            outcome.compute_end_ns - execution.output_start_ns,
        )
        # One loop and no comprehensions: each would be a call per batch.
        now = self._now()
        executed_rows = rows = failures = 0
        request_ns: list[int] = []
        queue_ns: list[int] = []
        for inference, response in zip(outcome.batch, execution.responses, strict=True):
            executed_rows += inference.batch_size
            if response is None:
                continue
            if response.error is not None:
                failures += 1
            elif not inference.completed:
                rows += inference.batch_size
                request_ns.append(now - inference.received_ns)
                queue_ns.append(started - inference.queued_ns)
        statistics = self._statistics
        if statistics.first_response is not None:
            took_ns = request_ns
            if failures:
                took_ns = [
                    now - inference.received_ns
                    for inference, response in zip(outcome.batch, execution.responses, strict=True)
                    if response is not None and not inference.completed
                ]
            statistics.record_first_responses(took_ns)
        if failures < len(outcome.batch):
            # An execution counts unless all its requests failed (row 8.11); its batch size includes the failed ones.
            statistics.record_execution(
                batch_size=executed_rows,
                timing=timing,
                wall_ms=self._wall() // _MILLISECOND_NS,
                padding_rows=execution.padding_rows,
            )
        times = ExecutionTimes(
            self._version,
            started,
            input_end,
            execution.output_start_ns,
            outcome.compute_end_ns,
            len(outcome.batch),
            now,
        )
        statistics.record_successes(
            rows=rows, request_ns=request_ns, queue_ns=queue_ns, timing=timing
        )
        traced = outcome.batch[0].traced if outcome.batch else None
        if traced is None:
            self._send_all(outcome.batch, execution.responses, times, now)
            return
        traced.answers_begin()
        try:
            self._send_all(outcome.batch, execution.responses, times, now)
        finally:
            traced.answers_end()

    def _send_all(
        self,
        batch: collections.abc.Iterable[Inference],
        responses: collections.abc.Iterable[InferResponse | None],
        times: ExecutionTimes,
        now: int,
    ) -> None:
        """Send the responses of a batch; those to calls that take them together go there at last, and all at once."""
        statistics = self._statistics
        together: dict[TakesTogether, list[tuple[CallInProgress, InferResponse]]] = {}
        before: TakesTogether | None = None  # mostly that of all
        answered: list[tuple[CallInProgress, InferResponse]] = []
        for inference, response in zip(batch, responses, strict=True):
            if response is None or inference.completed:
                continue
            inference.execution = times
            if response.error is not None:
                statistics.record_failure(
                    reason=response.error.reason, request_ns=now - inference.received_ns
                )
            elif inference.called and response.final:
                call = inference.on_response
                if isinstance(call, CallInProgress) and (takes := call.together) is not None:
                    inference.completed = True
                    inference.on_cancel = None
                    if takes is not before:
                        before, answered = takes, together.setdefault(takes, [])
                    answered.append((call, response))
                    continue
            self._send(inference, response)
        for those, theirs in together.items():
            those.take(theirs)

    def _send(self, inference: Inference, response: InferResponse) -> None:
        """Send a response; the final one completes the inference."""
        if response.final:
            inference.completed = True
            inference.on_cancel = None
            if inference.flow is not None:
                inference.flow.close()
        try:
            inference.on_response(response)
        except Exception:  # noqa: BLE001  a callback may raise anything, and the other requests of the batch still wait
            _log.exception(
                "%sthe response of model '%s' could not be sent",
                inference.request.label,
                self._model,
            )


def _sent(_: InferResponse) -> None:
    """The callback of an inference whose final response was sent."""
