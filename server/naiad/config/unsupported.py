"""What a config may ask of Triton and cannot get here yet, in one table: a field, and what it would have done.

A model that asks for one of these is refused at its line and never served without it. Whoever builds the feature takes
its row out. A field that is written and asks for nothing (`response_cache { enable: false }`) is no reason to refuse. Pure.
"""

import collections.abc
from typing import Any

import msgspec

from naiad.config.document import FieldPath
from naiad.config.findings import Findings

CUSTOM_BATCHING_LIBRARY = "batchstrategy.so"


class Feature(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not there yet.

    Attributes:
        path: the field; "*" stands for each index or key.
        what: the feature in words.
        rows: where its behaviour is described.
        instead: what to do until it is there; "" for nothing better than leaving it out.
    """

    path: tuple[str, ...]
    what: str
    rows: str
    instead: str = ""


FEATURES = (
    Feature(path=("sequence_batching",), what="the sequence batcher", rows="11.26-11.28"),
    Feature(path=("ensemble_scheduling",), what="ensembles", rows="11.29, 11.30"),
    Feature(path=("response_cache", "enable"), what="the response cache", rows="11.45"),
    Feature(
        path=("model_warmup",),
        what="warmup at load",
        rows="11.41",
        instead="take it out and send the first requests yourself",
    ),
    Feature(path=("model_repository_agents", "agents"), what="repository agents", rows="11.42"),
    Feature(
        path=("model_metrics", "metric_control"), what="metrics of a model's own", rows="11.46"
    ),
    Feature(
        path=("cc_model_filenames",),
        what="a model file for each kind of GPU",
        rows="11.7",
        instead="name one file in default_model_filename",
    ),
    Feature(path=("batch_input",), what="batch inputs", rows="11.18"),
    Feature(path=("batch_output",), what="batch outputs", rows="11.20"),
    Feature(
        path=("input", "*", "allow_ragged_batch"),
        what="ragged batches",
        rows="11.14",
        instead="take it out: requests of one shape are still batched together",
    ),
    Feature(
        path=("instance_group", "*", "rate_limiter", "resources"),
        what="the rate limiter",
        rows="11.38",
        instead="take it out: every free instance then takes the next batch",
    ),
    Feature(
        path=("instance_group", "*", "rate_limiter", "priority"),
        what="the rate limiter",
        rows="11.38",
        instead="take it out: every free instance then takes the next batch",
    ),
    Feature(path=("instance_group", "*", "passive"), what="passive instances", rows="11.34"),
    Feature(
        path=("instance_group", "*", "secondary_devices"), what="secondary devices", rows="11.34"
    ),
    Feature(path=("instance_group", "*", "host_policy"), what="host policies", rows="11.34"),
    Feature(
        path=("parameters", "TRITON_BATCH_STRATEGY_PATH"), what="custom batching", rows="12.18"
    ),
)


def find_unsupported(message: Any, findings: Findings) -> None:
    """Add a problem for each thing in the config that is not there yet.

    Args:
        message: the ModelConfig as it was written.
        findings: where problems go.
    """
    for feature in FEATURES:
        for path in _asked_for(message, feature.path, ()):
            _refuse(findings, path, feature)
    if message.platform == "ensemble" and not message.HasField("ensemble_scheduling"):
        findings.add(
            ("platform",),
            "platform 'ensemble' is not there yet: ensembles",
            _suggestion("platform", ""),
        )
    if message.runtime and message.runtime != f"libtriton_{message.backend}.so":
        findings.add(
            ("runtime",),
            f"runtime '{message.runtime}' is not there yet: another runtime for a backend",
            _suggestion("runtime", "take it out to run the model with the backend as it is"),
        )


def _refuse(findings: Findings, path: FieldPath, feature: Feature) -> None:
    field = dotted(path)
    findings.add(
        path, f"{field} is not there yet: {feature.what}", _suggestion(field, feature.instead)
    )


def _suggestion(field: str, instead: str) -> str:
    return instead or f"take {field} out, or serve this model with Triton for now"


def _asked_for(
    value: Any, pattern: tuple[str, ...], path: FieldPath
) -> collections.abc.Iterator[FieldPath]:
    """The places where the message really holds what the pattern names."""
    if not pattern:
        yield path
        return
    name, rest = pattern[0], pattern[1:]
    if name == "*":
        for index, item in enumerate(value):
            yield from _asked_for(item, rest, (*path, index))
    elif hasattr(value, "DESCRIPTOR"):
        field = value.DESCRIPTOR.fields_by_name[name]
        part = getattr(value, name)
        if value.HasField(name) if field.has_presence else bool(part):
            yield from _asked_for(part, rest, (*path, name))
    elif name in value:
        yield from _asked_for(value[name], rest, (*path, name))


def dotted(path: FieldPath) -> str:
    """A field as people write it: `instance_group[0].passive`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
