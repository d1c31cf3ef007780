"""How long the steps of a request took, as the models of the steps count it (row 14.13)."""

import collections.abc

import msgspec

from naiad.metrics.statistics import BatchTiming, StepTimes
from naiad.scheduling.ensemble.steps import StepCall


class RunTimes(msgspec.Struct, eq=False, gc=False):
    """The sums over the steps of one request, in nanoseconds.

    Attributes:
        queue_ns: that its calls waited.
        input_ns, infer_ns, output_ns: of their executions.
    """

    queue_ns: int = 0
    input_ns: int = 0
    infer_ns: int = 0
    output_ns: int = 0

    @property
    def timing(self) -> BatchTiming:
        """That its calls were executed."""
        return BatchTiming(self.input_ns, self.infer_ns, self.output_ns)

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
        step = steps[call.step.index]
        step.count += 1
        step.total_ns += now - call.received_ns
        inference = call.inference
        if failed:
            step.failures += 1
        elif inference is not None and (times := inference.execution) is not None:
            start_ns, input_end_ns = times.start_ns, times.input_end_ns
            output_start_ns, end_ns = times.output_start_ns, times.end_ns
            queue_ns = start_ns - inference.queued_ns
            self.queue_ns += queue_ns
            self.input_ns += input_end_ns - start_ns
            self.infer_ns += output_start_ns - input_end_ns
            self.output_ns += end_ns - output_start_ns
            step.queue_ns += queue_ns
            step.compute_ns += end_ns - start_ns
