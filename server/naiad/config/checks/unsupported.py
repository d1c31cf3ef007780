"""The features of Triton's configs that are not supported yet, in one table: the field and the feature.

A model that uses one of these is refused at its line and never served without the feature. A field that requests nothing
(`instance_group { passive: false }`) is not refused, nor is one of a feature that is switched off on this server (`no_effect.py`). Pure.
"""

import collections.abc
from typing import Any

import msgspec

from naiad.config.backend_type import BackendType
from naiad.config.document import FieldPath
from naiad.config.field_path import dotted, present
from naiad.config.findings import Findings
from naiad.core.messages import model_config_pb2

CUSTOM_BATCHING_LIBRARY = "batchstrategy.so"


class Feature(msgspec.Struct, frozen=True, kw_only=True):
    """A feature that is not supported yet.

    Attributes:
        path: the field; "*" stands for each index or key.
        what: the feature in words.
        rows: where its behaviour is described.
        instead: what to do until it is supported; "" for leaving it out.
    """

    path: tuple[str, ...]
    what: str
    rows: str
    instead: str = ""


FEATURES = (
    Feature(path=("sequence_batching",), what="the sequence batcher", rows="11.26-11.28"),
    Feature(path=("ensemble_scheduling",), what="ensembles", rows="11.29, 11.30"),
    Feature(path=("model_repository_agents", "agents"), what="repository agents", rows="11.42"),
    Feature(path=("batch_input",), what="batch inputs", rows="11.18"),
    Feature(path=("batch_output",), what="batch outputs", rows="11.20"),
    Feature(
        path=("input", "*", "allow_ragged_batch"),
        what="ragged batches",
        rows="11.14",
        instead="take it out: requests of one shape are still batched together",
    ),
    Feature(path=("instance_group", "*", "passive"), what="passive instances", rows="11.34"),
    Feature(
        path=("parameters", "TRITON_BATCH_STRATEGY_PATH"), what="custom batching", rows="12.18"
    ),
)


WARMUP = Feature(
    path=("model_warmup",),
    what="warmup at load",
    rows="11.41",
    instead="take it out and send the first requests yourself",
)
"""Refused when a sample would run."""

MODEL_FILES = Feature(
    path=("cc_model_filenames",),
    what="a model file for each kind of GPU",
    rows="11.7",
    instead="name one file in default_model_filename",
)
"""Refused when an instance may be placed on a GPU, by a backend that looks for such a file."""


def find_unsupported(
    message: Any,
    findings: Findings,
    *,
    gpus: collections.abc.Collection[int],
    backend: BackendType | None,
) -> None:
    """Add a problem for each thing in the config that is not supported yet.

    Args:
        message: the ModelConfig as it was written.
        findings: where problems and notes go.
        gpus: the device ids of this machine.
        backend: the model's; None for an unknown one.
    """
    for index, sample in enumerate(message.model_warmup):
        if sample.batch_size:
            _refuse(findings, ("model_warmup", index), WARMUP)
        else:
            findings.notes.append(f"model_warmup[{index}] has no effect: its batch_size is 0")
    if message.cc_model_filenames:
        reads_them = backend is None or backend.has_files_per_gpu
        if reads_them and _on_gpus(message, gpus):
            _refuse(findings, ("cc_model_filenames",), MODEL_FILES)
        else:
            findings.notes.append(
                "cc_model_filenames has no effect: the model runs without a GPU's own file"
            )
    for feature in FEATURES:
        for path in present(message, feature.path):
            _refuse(findings, path, feature)
    if message.platform == "ensemble" and not message.HasField("ensemble_scheduling"):
        findings.add(
            ("platform",),
            "platform 'ensemble' is not supported yet: ensembles",
            _suggestion("platform", ""),
        )
    runtimes = {"", f"libtriton_{message.backend}.so", backend.runtime if backend else ""}
    if message.runtime not in runtimes:
        findings.add(
            ("runtime",),
            f"runtime '{message.runtime}' is not supported yet: another runtime for a backend",
            _suggestion("runtime", "take it out to run the model with the backend as it is"),
        )


def _on_gpus(message: Any, gpus: collections.abc.Collection[int]) -> bool:
    """Whether an instance of the model may be placed on a GPU."""
    cpu = model_config_pb2.ModelInstanceGroup.KIND_CPU
    groups = message.instance_group
    return bool(gpus) and (not groups or any(group.kind != cpu for group in groups))


def _refuse(findings: Findings, path: FieldPath, feature: Feature) -> None:
    field = dotted(path)
    findings.add(
        path, f"{field} is not supported yet: {feature.what}", _suggestion(field, feature.instead)
    )


def _suggestion(field: str, instead: str) -> str:
    return instead or f"take {field} out, or serve this model with Triton for now"
