"""How long the steps of a request took, as the models of the steps count it (row 14.13)."""

import collections.abc

from naiad.metrics.statistics import BatchTiming, StepTimes
from naiad.scheduling.ensemble.steps import StepCall


class RunTimes:
    """The sums over the steps of one request, in nanoseconds.

    Attributes:
        queue_ns: that its calls waited.
    """

    __slots__ = ("_infer_ns", "_input_ns", "_output_ns", "queue_ns")

    def __init__(self) -> None:
        self.queue_ns = self._input_ns = self._infer_ns = self._output_ns = 0

    @property
    def timing(self) -> BatchTiming:
        """That its calls were executed."""
        return BatchTiming(self._input_ns, self._infer_ns, self._output_ns)

    def count(
        self,
        call: StepCall,
        steps: collections.abc.Sequence[StepTimes],
        now: int,
        *,
        failed: bool = False,
    ) -> None:
        """Add a call that ends, here and to the times of its step; one that failed adds no times of its model.

        Args:
            call: its inference is still there.
            steps: the times of each step, over all requests.
            now: monotonic nanoseconds.
            failed: whether its response is an error.
        """
        queue_ns = compute_ns = 0
        inference = call.inference
        if inference is not None and not failed and (times := inference.execution) is not None:
            start_ns, end_ns = times.start_ns, times.end_ns
            queue_ns = start_ns - inference.queued_ns
            compute_ns = end_ns - start_ns
            self.queue_ns += queue_ns
            self._input_ns += times.input_end_ns - start_ns
            self._infer_ns += times.output_start_ns - times.input_end_ns
            self._output_ns += end_ns - times.output_start_ns
        step = steps[call.step.index]
        step.count += 1
        step.total_ns += now - call.received_ns
        step.queue_ns += queue_ns
        step.compute_ns += compute_ns
        if failed:
            step.failures += 1
