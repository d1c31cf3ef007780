"""The fields of features that are switched off on this server, in one table: a model with them is served, and a note says that they have no effect.

Triton serves these too: a rate limiter while `--rate-limit` is off, a response cache without `--cache-config`, a model file for
each kind of GPU on a CPU. What would change how the model is served is refused instead (`unsupported.py`). Pure.
"""

from typing import Any

import msgspec

from naiad.config.field_path import dotted, present
from naiad.config.findings import Findings


class NoEffect(msgspec.Struct, frozen=True, kw_only=True):
    """A field that is accepted and has no effect.

    Attributes:
        path: the field; "*" stands for each index or key.
        why: the reason in words, as the end of a sentence.
    """

    path: tuple[str, ...]
    why: str


_NO_RATE_LIMIT = (
    "the rate limiter is off (--rate-limit), so every free instance takes the next batch"
)

ACCEPTED = (
    NoEffect(
        path=("response_cache", "enable"),
        why="this server has no response cache (--cache-config), so every request is executed",
    ),
    NoEffect(path=("instance_group", "*", "rate_limiter", "resources"), why=_NO_RATE_LIMIT),
    NoEffect(path=("instance_group", "*", "rate_limiter", "priority"), why=_NO_RATE_LIMIT),
    NoEffect(
        path=("instance_group", "*", "host_policy"),
        why="this server defines no host policy (--host-policy)",
    ),
    NoEffect(
        path=("instance_group", "*", "secondary_devices"),
        why="only TensorRT engines use secondary devices",
    ),
    NoEffect(
        path=("model_metrics", "metric_control"),
        why="the histogram that it describes is off (--metrics-config=histogram_latencies)",
    ),
)


def note_what_has_no_effect(message: Any, findings: Findings) -> None:
    """Add a note for each field of the config that has no effect, and a problem where Triton refuses it nevertheless.

    Args:
        message: the ModelConfig as it was written.
        findings: where notes and problems go.
    """
    for accepted in ACCEPTED:
        for path in present(message, accepted.path):
            findings.notes.append(f"{dotted(path)} has no effect: {accepted.why}")
    if message.response_cache.enable and message.model_transaction_policy.decoupled:
        findings.add(
            ("response_cache", "enable"),
            f"Response Cache does not currently support model {message.name} with 'decoupled' transaction policy",
            "take response_cache out",
        )
    for index, control in enumerate(message.model_metrics.metric_control):
        _check_metric(control, findings, index)


def _check_metric(control: Any, findings: Findings, index: int) -> None:
    """A metric control names a metric and its buckets (row 11.46)."""
    path = ("model_metrics", "metric_control", index)
    if not control.metric_identifier.family:
        findings.add(
            path,
            "metric identifier must specify non-empty 'family'",
            "name the metric, or take it out",
        )
    if not control.histogram_options.buckets:
        findings.add(
            path,
            "histogram options must specify non-empty 'buckets'",
            "write buckets, or take it out",
        )
