"""The histograms whose bounds a config may choose: `model_metrics { metric_control { metric_identifier { family } histogram_options { buckets } } }` (row 8.24)."""

import collections.abc
import math
import types
from typing import Any

FIRST_RESPONSE = "nv_inference_first_response_histogram_ms"
"""The reference's only one; milliseconds. It is off by default."""

HISTOGRAMS = (
    FIRST_RESPONSE,
    "naiad_request_duration_seconds",
    "naiad_first_response_duration_seconds",
    "naiad_response_interval_seconds",
    "naiad_queue_duration_seconds",
    "naiad_compute_duration_seconds",
    "naiad_batch_size",
)

Buckets = collections.abc.Mapping[str, tuple[float, ...]]
"""Upper bounds by family, in the family's unit, ascending, without the infinite one."""
NO_BUCKETS: Buckets = types.MappingProxyType({})


def buckets(message: Any) -> Buckets:
    """The bounds that a model_config_pb2.ModelConfig without problems chooses; of a family that it names twice the last ones, as in the reference."""
    return types.MappingProxyType(
        {
            control.metric_identifier.family: tuple(
                bound for bound in control.histogram_options.buckets if not math.isinf(bound)
            )
            for control in message.model_metrics.metric_control
            if control.metric_identifier.family in HISTOGRAMS
        }
    )
