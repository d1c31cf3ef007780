"""The features of Triton's configs that this server has not: those that it refuses, and a table of those that have no effect.

A model that uses a feature of the first kind is refused at its line and never served without it. One that uses a feature of the table is
served with a note, as Triton serves it while the feature is switched off: a rate limiter without `--rate-limit`, a response cache without
`--cache-config`. A field that requests nothing (`instance_group { passive: false }`) is neither refused nor noted.
The fields of `optimization` are those of `checks.optimization`. Pure.
"""

import collections.abc
import itertools
import math
from typing import Any

import msgspec

from naiad.config.backend_type import BackendType
from naiad.config.document import FieldPath, dotted, present
from naiad.config.findings import Findings
from naiad.config.histograms import FIRST_RESPONSE, HISTOGRAMS
from naiad.core.messages import model_config_pb2


class ServerFeatures(msgspec.Struct, frozen=True, kw_only=True):
    """What options switch on, without which fields of configs have no effect.

    Attributes:
        rate_limiter: `--rate-limit=execution_count`.
        response_cache: `--cache-config`.
        gpu_fallback: `--gpu-fallback=cpu`.
        host_policies: the names of `--host-policy`.
        first_response_histogram: `--metrics-config=histogram_latencies=true`.
        strategy_libraries: `--batch-strategy-libraries`.
    """

    rate_limiter: bool = False
    response_cache: bool = False
    gpu_fallback: bool = False
    host_policies: frozenset[str] = frozenset()
    first_response_histogram: bool = False
    strategy_libraries: bool = False


_NO_RATE_LIMIT = (
    "the rate limiter is off (--rate-limit), so every free instance takes the next batch"
)

_NO_CACHE = "this server has no response cache (--cache-config), so every request is executed"
_RESPONSE_CACHE = ("response_cache", "enable")
_NO_SECONDARY = "only TensorRT engines use secondary devices"
_NO_HOST_POLICY = "this server defines no host policy (--host-policy)"

NO_EFFECT = {
    _RESPONSE_CACHE: _NO_CACHE,
    ("instance_group", "*", "rate_limiter", "resources"): _NO_RATE_LIMIT,
    ("instance_group", "*", "rate_limiter", "priority"): _NO_RATE_LIMIT,
    ("instance_group", "*", "host_policy"): _NO_HOST_POLICY,
    ("instance_group", "*", "secondary_devices"): _NO_SECONDARY,
}
"""Fields that are accepted: the reason why each has no effect, as the end of a sentence. "*" stands for each index or key."""


def find_unsupported(
    message: Any,
    findings: Findings,
    *,
    gpus: collections.abc.Collection[int],
    backend: BackendType | None,
) -> None:
    """Add a problem for each thing in the config, as it was written, that is not supported yet."""

    def refuse(path: FieldPath, what: str, instead: str = "") -> None:
        field = dotted(path)
        value = f" '{getattr(message, field)}'" if field in ("platform", "runtime") else ""
        findings.add(
            path,
            f"{field}{value} is not supported yet: {what}",
            instead or f"take {field} out, or serve this model with Triton for now",
        )

    is_ensemble = message.HasField("ensemble_scheduling")  # which may have none (row 11.30)
    for index, sample in enumerate(() if is_ensemble else message.model_warmup):  # row 11.41
        if not sample.batch_size:
            findings.notes.append(f"model_warmup[{index}] has no effect: its batch_size is 0")
    reads_them = backend is None or backend.has_files_per_gpu
    if message.cc_model_filenames and not (reads_them and _on_gpus(message, gpus)):  # row 11.7
        findings.notes.append(
            "cc_model_filenames has no effect: the model runs without a GPU's own file"
        )
    _check_passive(message, findings)
    runtimes = {"", f"libtriton_{message.backend}.so"}
    if backend is not None:
        runtimes |= {backend.runtime, backend.python_runtime}
    if message.runtime not in runtimes:
        instead = "take it out to run the model with the backend as it is"
        refuse(("runtime",), "another runtime for a backend", instead)


def _check_passive(message: Any, findings: Findings) -> None:
    """Refuse a model without an instance that runs requests (row 11.34)."""
    groups = message.instance_group
    if groups and all(group.passive for group in groups):
        findings.add(
            ("instance_group", 0, "passive"),
            f"every instance group of model '{message.name}' is passive: no instance would run its requests",
            "take passive out of one group, or add a group without it",
        )


def _on_gpus(message: Any, gpus: collections.abc.Collection[int]) -> bool:
    """Whether an instance of the model may be placed on a GPU."""
    cpu = model_config_pb2.ModelInstanceGroup.KIND_CPU
    groups = message.instance_group
    return bool(gpus) and (not groups or any(group.kind != cpu for group in groups))


def note_what_has_no_effect(
    message: Any,
    findings: Findings,
    features: ServerFeatures,
    backend: BackendType | None = None,
) -> None:
    """Add a note for each field of the config that has no effect, and a problem where Triton refuses it nevertheless."""
    for pattern, why in NO_EFFECT.items():
        if why is _NO_RATE_LIMIT and features.rate_limiter:
            continue
        if why is _NO_CACHE and features.response_cache:
            continue
        if why is _NO_SECONDARY and backend is not None and backend.has_secondary_devices:
            continue
        if why is _NO_HOST_POLICY and features.host_policies:
            _check_host_policies(message, findings, features.host_policies)
            continue
        for path in present(message, pattern):
            findings.notes.append(f"{dotted(path)} has no effect: {why}")
    if backend is not None:
        findings.notes.extend(
            f"parameters {key} has no effect: {why}"
            for key, why in backend.parameters_without_effect.items()
            if key in message.parameters
        )
    _check_response_cache(message, findings)
    _check_model_metrics(message, findings, features)


def _check_response_cache(message: Any, findings: Findings) -> None:
    if message.response_cache.enable:
        for without_cache, what in (
            (message.model_transaction_policy.decoupled, "'decoupled' transaction policy"),
            (message.HasField("sequence_batching"), "sequence batching scheduler"),
        ):
            if without_cache:
                findings.add(
                    _RESPONSE_CACHE,
                    f"Response Cache does not currently support model {message.name} with {what}",
                    "take response_cache out",
                )


def _check_model_metrics(message: Any, findings: Findings, features: ServerFeatures) -> None:
    for index, control in enumerate(message.model_metrics.metric_control):  # row 11.46
        path = ("model_metrics", "metric_control", index)
        family, bounds = control.metric_identifier.family, control.histogram_options.buckets
        if not family:
            findings.add(
                path,
                "metric identifier must specify non-empty 'family'",
                "name the metric, or take it out",
            )
        elif family not in HISTOGRAMS:
            why = f"'{family}' is not one of the histograms whose buckets can be chosen: {', '.join(HISTOGRAMS)}"
            findings.notes.append(f"{dotted(path)} has no effect: {why}")
        elif family == FIRST_RESPONSE and not features.first_response_histogram:
            why = "the histogram that it describes is off (--metrics-config=histogram_latencies=true switches it on)"
            findings.notes.append(f"{dotted(path)} has no effect: {why}")
        if not bounds:
            findings.add(
                path,
                "histogram options must specify non-empty 'buckets'",
                "write buckets, or take it out",
            )
        elif math.isnan(bounds[0]) or not all(
            low < high for low, high in itertools.pairwise(bounds)
        ):
            findings.add(
                path,
                f"the buckets of '{family}' must be numbers in ascending order, each of them once",
                "sort them",
            )


def _check_host_policies(
    message: Any, findings: Findings, known: collections.abc.Collection[str]
) -> None:
    """Refuse a group whose host policy is not among those of the server: a name that is misspelt would leave its instances where they are."""
    for index, group in enumerate(message.instance_group):
        if group.host_policy and group.host_policy not in known:
            findings.add(
                ("instance_group", index, "host_policy"),
                f"instance group '{group.name}' of model '{message.name}' has host policy '{group.host_policy}', and the server defines "
                f"{', '.join(sorted(known))}",
                f"start the server with --host-policy={group.host_policy},cpu-cores=A-B, or name one of these",
            )
