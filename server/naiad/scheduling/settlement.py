"""The end of an inference: its one final answer, counted first.

Success, a failed request, a failed batch, a rejection and a cancel all end here, on the event loop. Counters are written before
the client is told, so that whoever asks for statistics after an answer finds it in them. What a client's callback raises
is logged and stays its own trouble: the other requests of the batch get their answers.
"""

import logging

from naiad.backends.backend import Answer
from naiad.core.clock import Clock
from naiad.core.inference import ExecutionTimes, Inference
from naiad.core.response import NO_OUTPUTS, NO_PARAMETERS, InferResponse
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.hosts.host import BatchOutcome
from naiad.metrics.statistics import MICROSECOND, BatchTiming, ModelStatistics

_log = logging.getLogger(__name__)
_MILLISECOND_NS = 1_000 * MICROSECOND


class _Progress:
    """An inference that is answered apart, so far.

    Attributes:
        count: responses given.
        since_ns: when the last one was given, or its batch began to compute.
        failed: one of them was an error.
    """

    __slots__ = ("count", "failed", "since_ns")

    def __init__(self, begun_ns: int) -> None:
        self.count = 0
        self.failed = False
        self.since_ns = begun_ns


class Settlement:
    """Answers and counts, for one model version.

    Args:
        model: its name, for responses made here (errors).
        version: its version.
        statistics: the counters.
        clock: the time.
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

    def fail(self, inference: Inference, error: InferenceError) -> None:
        """Answer with an error, counted under its reason; nothing happens to one that is settled already."""
        if inference.settled:
            return
        request_ns = self._now() - inference.received_ns
        if self._progress:
            self._progress.pop(inference, None)
        self._statistics.record_failure(reason=error.reason, request_ns=request_ns)
        request_id = inference.request.id
        self._answer(
            inference,
            InferResponse(
                self._model, self._version, request_id, NO_OUTPUTS, NO_PARAMETERS, error.bare()
            ),
        )

    def respond(self, answer: Answer) -> None:
        """Hand on a response of an inference that is answered apart; the final one counts and settles it.

        It failed if any of its responses was an error. Its time of computing is that from its batch's beginning to its end.
        """
        inference, response = answer.inference, answer.response
        if inference.settled:
            return
        now = self._now()
        progress = self._progress.pop(inference, None) or _Progress(answer.begun_ns)
        self._count_response(progress, inference, response, now)
        if not response.final:
            self._progress[inference] = progress
            self._tell(inference, response)
            return
        if progress.failed:
            error = response.error
            reason = FailureReason.BACKEND if error is None else error.reason
            self._statistics.record_failure(reason=reason, request_ns=now - inference.received_ns)
        else:
            self._statistics.record_successes(
                rows=inference.batch_size,
                request_ns=[now - inference.received_ns],
                queue_ns=[answer.begun_ns - inference.queued_ns],
                timing=BatchTiming(0, now - answer.begun_ns, 0),
            )
        begun_ns = answer.begun_ns
        inference.execution = ExecutionTimes(self._version, begun_ns, begun_ns, now, now)
        self._answer(inference, response)

    def _count_response(
        self, progress: "_Progress", inference: Inference, response: InferResponse, now: int
    ) -> None:
        """Row 8.6: by its place among the responses to its request; its time is that since the one before."""
        counted = self._statistics.response(progress.count)
        counted.record(
            now - progress.since_ns,
            failed=response.error is not None,
            empty=not response.outputs,
            cancelled=inference.cancelled,
        )
        progress.count += 1
        progress.since_ns = now
        if response.error is not None:
            progress.failed = True

    def deliver(self, outcome: BatchOutcome) -> None:
        """Answer everybody in a batch that came back, whatever state its outcome is in."""
        try:
            self._deliver(outcome)
        except Exception as failure:  # noqa: BLE001  a malformed outcome may fail anywhere, and everybody still waits
            _log.exception("model '%s' gave answers that cannot be used", self._model)
            message = f"model '{self._model}' gave answers that cannot be used: {failure}"
            error = InferenceError(ErrorCode.INTERNAL, message, reason=FailureReason.BACKEND)
            for inference in outcome.batch:
                self.fail(inference, error)

    def _deliver(self, outcome: BatchOutcome) -> None:
        execution = outcome.execution
        if execution is None:
            error = outcome.error
            if error is None:
                message = f"model '{self._model}': its instance gave neither an answer nor a reason"
                error = InferenceError(ErrorCode.INTERNAL, message, reason=FailureReason.BACKEND)
            for inference in outcome.batch:
                self.fail(inference, error)
            return
        started = outcome.compute_start_ns
        timing = BatchTiming(
            execution.input_end_ns - started,
            execution.output_start_ns - execution.input_end_ns,
            outcome.compute_end_ns - execution.output_start_ns,
        )
        self._count_execution(outcome, timing)
        answers = [
            (inference, response)
            for inference, response in zip(outcome.batch, execution.responses, strict=True)
            if response is not None and not inference.settled
        ]
        times = ExecutionTimes(
            self._version,
            started,
            execution.input_end_ns,
            execution.output_start_ns,
            outcome.compute_end_ns,
        )
        now = self._now()
        well = [inference for inference, response in answers if response.error is None]
        self._statistics.record_successes(
            rows=sum([inference.batch_size for inference in well]),
            request_ns=[now - inference.received_ns for inference in well],
            queue_ns=[started - inference.queued_ns for inference in well],
            timing=timing,
        )
        for inference, response in answers:
            inference.execution = times
            if response.error is not None:
                self._statistics.record_failure(
                    reason=response.error.reason, request_ns=now - inference.received_ns
                )
            self._answer(inference, response)

    def _count_execution(self, outcome: BatchOutcome, timing: BatchTiming) -> None:
        """A batch whose requests all failed is no execution (row 8.11); a total batch size counts the failed ones too."""
        assert outcome.execution is not None
        for response in outcome.execution.responses:
            if response is None or response.error is None:
                break
        else:
            return
        rows = 0
        for inference in outcome.batch:
            rows += inference.batch_size
        self._statistics.record_execution(
            batch_size=rows, timing=timing, wall_ms=self._wall() // _MILLISECOND_NS
        )

    def _answer(self, inference: Inference, response: InferResponse) -> None:
        inference.settled = True
        inference.on_cancel = None
        if inference.flow is not None:
            inference.flow.close()
        self._tell(inference, response)

    def _tell(self, inference: Inference, response: InferResponse) -> None:
        try:
            inference.on_response(response)
        except Exception:  # noqa: BLE001  a client's callback may raise anything; its batch-mates still wait
            _log.exception(
                "%sthe answer of model '%s' could not be delivered",
                inference.request.label,
                self._model,
            )
