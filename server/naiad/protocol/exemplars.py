"""Keeps the trace ids of requests as exemplars of their times: from a slow bucket of a histogram to the trace of a request in it."""

from naiad.core.clock import Clock
from naiad.metrics.histogram import Exemplar
from naiad.protocol.observer import Ended


class Exemplars:
    """An `AccessLog` that gives the histograms of a model the latest request of each bucket that came with a `traceparent`."""

    def __init__(self, clock: Clock) -> None:
        self._wall = clock.wall_ns

    def __call__(self, ended: Ended) -> None:
        """Keep a request that was executed and has a trace."""
        context = ended.context
        inference, trace = context.inference, context.trace
        if inference is None or trace is None or inference.execution is None:
            return
        times = inference.execution
        statistics = context.model.statistics
        wall_ns = self._wall()
        for histogram, took_ns in (
            (statistics.request_time, times.end_ns - inference.received_ns),
            (statistics.queue_time, times.start_ns - inference.queued_ns),
        ):
            histogram.remember(Exemplar(took_ns, trace.trace_id, wall_ns))
