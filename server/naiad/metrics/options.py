"""Which metrics a server keeps: the settings of `--metrics-config`."""

import collections.abc

import msgspec

QUANTILES = ((0.5, 0.05), (0.9, 0.01), (0.95, 0.001), (0.99, 0.001), (0.999, 0.001))
"""Triton's (row 8.25): each with the error in rank that it permits."""


class MetricsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The settings.

    Attributes:
        counter_latencies: the counters of durations; without them the counters of requests stay at 0 (row 8.18).
        histogram_latencies: the time to the first response of a request as a histogram (row 8.23).
        summary_latencies: quantiles of durations over the last minute (row 8.25).
        quantiles: those of the summaries.
        exemplars: an observation of `naiad_request_duration_seconds` and `naiad_queue_duration_seconds` shows the client's trace id, to scrapers
            that ask for OpenMetrics.
    """

    counter_latencies: bool = True
    histogram_latencies: bool = False
    summary_latencies: bool = False
    quantiles: collections.abc.Sequence[tuple[float, float]] = QUANTILES
    exemplars: bool = False
