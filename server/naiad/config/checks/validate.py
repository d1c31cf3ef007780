"""The rules for a whole config (rows 11.2, 11.3, 11.9, 11.22, 11.23, 11.31-11.33, 7.20): every problem, in one pass.

The message is the completed and normalised one; places come from the document, where the author wrote. Messages hold
the reference's words, because people search for them, and each comes with what to write instead. Pure.
"""

import collections.abc
from typing import Any

from naiad.config.backend_type import BackendType, BackendTypes, supported_names
from naiad.config.checks.batch_tensors import check_batch_tensors
from naiad.config.checks.ensemble import check_ensemble
from naiad.config.checks.sequence import check_sequence_batching
from naiad.config.checks.states import check_states
from naiad.config.checks.tensors import check_tensors
from naiad.config.document import FieldPath
from naiad.config.findings import Findings, did_you_mean
from naiad.config.gpu_fallback import OPTION, needs_gpu, without_cpu
from naiad.config.pbtxt.cursor import placeholder_in
from naiad.config.typed import MOST_INSTANCES
from naiad.core.messages import model_config_pb2

_NAME_BACKEND: tuple[FieldPath, ...] = (("backend",), ("platform",), ("default_model_filename",))

_Group = model_config_pb2.ModelInstanceGroup

_MOST_GPUS = 16
"""More of them are named by the first and the last; `naiad check` takes every id up to 63 to exist."""


def validate(
    message: Any,
    findings: Findings,
    *,
    gpus: collections.abc.Sequence[int],
    backends: BackendTypes,
    no_backend: str,
    falls_back: bool = False,
) -> None:
    """Check everything that does not depend on the model file, in a config that is completed and normalised.

    `no_backend` says what to do when neither config nor files name a backend; "" when another problem says it already. `falls_back`: models for
    GPUs are to run on the CPU.
    """
    backend = backends.find(message.backend) if message.backend else None
    _note_placeholders(message, findings)
    _check_backend(message, findings, backend, backends, no_backend)
    if message.max_batch_size < 0:
        findings.add(
            ("max_batch_size",),
            f"'max_batch_size' must be non-negative value for {message.name}",
            "write 0 for a model without a batch dimension",
        )
    check_tensors(message, findings)
    check_batch_tensors(message, findings)
    check_ensemble(message, findings)
    check_states(message, findings)
    check_sequence_batching(message, findings)
    if message.HasField("dynamic_batching"):
        _check_preferred_sizes(message, findings)
        _check_priorities(message, findings)
        _check_order(message, findings)
    for index in range(len(message.instance_group)):
        _check_group(message, findings, index, gpus=gpus, backend=backend, falls_back=falls_back)
    _check_count(message, findings)


def check_name(message: Any, findings: Findings, folder: str) -> None:
    """The name in the config, where there is one, is the folder's (row 7.20)."""
    if message.name and message.name != folder:
        findings.add(
            ("name",),
            f"unexpected directory name '{folder}' for model '{message.name}', "
            "directory name must equal model name",
            f"write name: \"{folder}\", take name out, or rename the folder to '{message.name}'",
        )


def check_backend_is_supported(
    message: Any, findings: Findings, backends: BackendTypes, *, falls_back: bool = False
) -> None:
    """The backend is one that this server can run (row 11.53). `falls_back`: models for GPUs are to run on the CPU."""
    backend = backends.find(message.backend) if message.backend else None
    if not message.backend or (backend is not None and backend.supported):
        return
    path = ("backend",) if ("backend",) in findings.document.positions else ("platform",)
    findings.add(
        path,
        f"unable to find backend library for backend '{message.backend}'",
        without_cpu(message.backend)
        if falls_back and needs_gpu(backend)
        else _instead_of(message.backend, backend, backends),
    )


def _note_placeholders(message: Any, findings: Findings) -> None:
    """Warn of placeholders in parameters: a warning only, because some models read one as "not set"."""
    for key in sorted(message.parameters):
        placeholder = placeholder_in(message.parameters[key].string_value, quoted_text=True)
        if placeholder is not None:
            findings.warnings.append(
                f"parameter '{key}' holds {placeholder}: if this file is a template, it was never filled in"
            )


_OTHER_WAYS = {
    "tensorrtllm": 'TensorRT-LLM\'s engines are not served: serve the language model with backend: "vllm", or with backend: "python" and a '
    "model.py that runs TensorRT-LLM itself"
}
"""What to write in place of backends of Triton's that are not coming."""


def _instead_of(name: str, backend: BackendType | None, backends: BackendTypes) -> str:
    names = supported_names(backends)
    here = f"this server has {', '.join(names)}"
    if backend is not None:  # not a typing mistake
        return f"that backend is not supported yet: {here}"
    return _OTHER_WAYS.get(name) or did_you_mean(name, names) or here


def _check_backend(
    message: Any,
    findings: Findings,
    backend: BackendType | None,
    backends: BackendTypes,
    no_backend: str,
) -> None:
    if message.platform == "ensemble" and message.backend:
        findings.add(
            ("backend",),
            f"Ensemble model '{message.name}' must have platform type 'ensemble' and empty backend type",
            "take backend out, or take platform out if it is not an ensemble",
        )
    if message.platform == "ensemble" or message.HasField("ensemble_scheduling"):
        return  # checked with its steps
    if not message.backend and not message.platform:
        if no_backend and all(map(findings.trusted, _NAME_BACKEND)):
            findings.add(
                ("default_model_filename",),
                f"must specify 'platform' or 'backend' for '{message.name}': Invalid model name: Could not determine backend "
                f"for model '{message.name}' with no backend in model configuration. Expected model name of the form 'model.<backend_name>'.",
                no_backend,
            )
    elif not message.backend:
        as_backend = backends.find(message.platform)
        platforms = [platform for entry in backends for platform in entry.platforms]
        findings.add(
            ("platform",),
            f"unexpected platform type '{message.platform}' for {message.name}",
            f'write backend: "{message.platform}"'
            if as_backend is not None
            else did_you_mean(message.platform, platforms)
            or f"platforms are {', '.join(platforms)}",
        )
    elif not fits(message.platform, backend):
        written = ("platform",) if ("platform",) in findings.document.positions else ("backend",)
        findings.add(
            written,
            f"unexpected 'platform' and 'backend' pair, got:{message.platform}, {message.backend}",
            "leave platform out: backend says it all",
        )


def fits(platform: str, backend: BackendType | None) -> bool:
    """Whether a platform may stand beside a backend (row 11.3); a backend without a platform of its own takes any."""
    platforms = backend.platforms if backend is not None else ()
    return not platforms or platform in platforms


def _check_preferred_sizes(message: Any, findings: Findings) -> None:
    limit = message.max_batch_size
    limit_known = findings.trusted(("max_batch_size",))
    for index, size in enumerate(message.dynamic_batching.preferred_batch_size):
        path = ("dynamic_batching", "preferred_batch_size", index)
        if size <= 0:
            findings.add(
                path,
                f"dynamic batching preferred size must be positive for {message.name}; this is {size}",
                "take it out",
            )
        elif size > limit and limit_known:
            findings.add(
                path,
                f"dynamic batching preferred size must be <= max batch size for {message.name}; "
                f"this is {size}, max_batch_size is {limit}",
                f"write max_batch_size: {size}, or a preferred size up to {limit}"
                if limit
                else f"write max_batch_size: {size}: without it the model has no batches",
            )


def _check_priorities(message: Any, findings: Findings) -> None:
    batching = message.dynamic_batching
    levels = batching.priority_levels
    if levels == 0:
        return
    span = f"in range [1, {levels}] for {message.name}"
    default = batching.default_priority_level
    path = ("dynamic_batching", "default_priority_level")
    if not 1 <= default <= levels and findings.trusted(path):
        findings.add(
            path
            if path in findings.document.positions
            else ("dynamic_batching", "priority_levels"),
            f"default priority level must be {span}; it is {default}",
            f"write default_priority_level: 1 to {levels}, or raise priority_levels"
            if path in findings.document.positions
            else "add default_priority_level, the level of requests that name none; 1 is the highest",
        )
    for level in sorted(batching.priority_queue_policy):
        if not 1 <= level <= levels:
            findings.add(
                ("dynamic_batching", "priority_queue_policy", level),
                f"priority queue policy must have priority level {span}; this is {level}",
                f"write key: 1 to {levels}, or raise priority_levels",
            )


def _check_order(message: Any, findings: Findings) -> None:
    batching = message.dynamic_batching
    if not batching.preserve_ordering:
        return
    path: FieldPath = ("dynamic_batching", "preserve_ordering")
    if batching.priority_levels > 1:
        findings.add(
            path,
            f"Only one priority level is allowed when 'preserve_ordering' is true for {message.name}",
            "take preserve_ordering out, or write priority_levels: 1",
        )
    policies: list[tuple[FieldPath, Any]] = [
        (("dynamic_batching", "default_queue_policy"), batching.default_queue_policy)
    ]
    policies += [
        (("dynamic_batching", "priority_queue_policy", level), policy)
        for level, policy in sorted(batching.priority_queue_policy.items())
    ]
    for policy_path, policy in policies:
        delays = policy.timeout_action == model_config_pb2.ModelQueuePolicy.DELAY
        if delays and policy.default_timeout_microseconds:
            findings.add(
                (*policy_path, "timeout_action"),
                "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true "
                f"for {message.name}",
                "write timeout_action: REJECT, or take preserve_ordering out",
            )


def _check_group(
    message: Any,
    findings: Findings,
    index: int,
    *,
    gpus: collections.abc.Sequence[int],
    backend: BackendType | None,
    falls_back: bool,
) -> None:
    group = message.instance_group[index]
    path: FieldPath = ("instance_group", index)
    label = f"instance group {group.name} of model {message.name}"
    kind = _Group.Kind.Name(group.kind)
    if needs_gpu(backend) and not gpus and not _is_written(findings, index, group.kind):
        assert backend is not None
        findings.add(
            path,
            f"{label} needs a GPU but no GPUs are available, and backend '{backend.name}' has no form for the CPU",
            without_cpu(backend.name),
        )
    elif backend is not None and backend.supported and kind not in backend.instance_kinds:
        findings.add(
            (*path, "kind"),
            f"{label} has kind {kind}, which backend '{backend.name}' does not support"
            + (f", because {backend.no_gpu}" if backend.no_gpu else ""),
            f"write kind: {' or '.join(sorted(backend.instance_kinds))}"
            + (f", or start with {OPTION}" if backend.no_gpu else ""),
        )
    elif group.kind == _Group.KIND_GPU:
        if falls_back and backend is not None and not gpus and backend.supported:
            findings.add(
                (*path, "kind"),
                f"{label} has kind KIND_GPU but no GPUs are available, and backend '{backend.name}' has no form for the CPU ({OPTION})",
                without_cpu(backend.name),
            )
        else:
            _check_gpus(findings, path, group, label, gpus)
    elif group.gpus:
        findings.add(
            (*path, "gpus"),
            f"{label} has kind {kind} but specifies one or more GPUs",
            "write kind: KIND_GPU, or take gpus out"
            if gpus
            else "take gpus out: this machine has no GPU",
        )
    if group.profile and not (backend is not None and backend.has_profiles):
        findings.add(
            (*path, "profile"),
            f"{label} and platform {message.platform or message.backend} specifies profile field which is "
            "only supported for TensorRT models",
            "take profile out",
        )


def _is_written(findings: Findings, index: int, kind: int) -> bool:
    """Whether the author has written this kind, rather than that it follows from the machine."""
    written = findings.document.message.instance_group
    return index < len(written) and bool(written[index].kind == kind)


def _check_count(message: Any, findings: Findings) -> None:
    """Each instance has a thread or a process; a list of two billion of them would take all memory before the first is made."""
    written = findings.document.message.instance_group
    total = 0
    for index, group in enumerate(message.instance_group):
        # The GPUs of a group that lists none are those of the machine, which `naiad check` does not know.
        listed = len(written[index].gpus) if index < len(written) else 0
        total += group.count * max(1, listed)
        if total > MOST_INSTANCES:
            each = f" on each of {listed} GPUs" if listed > 1 else ""
            others = " together with the groups before it" if index else ""
            findings.add(
                ("instance_group", index, "count"),
                f"instance group {group.name} of model {message.name} has count {group.count}{each}: a model may have {MOST_INSTANCES:,} "
                f"instances, and this makes {total:,}{others}",
                "write a smaller count: an instance is a thread or a process of its own, so more than there are processors seldom help",
            )
            return


def _check_gpus(
    findings: Findings,
    path: FieldPath,
    group: Any,
    label: str,
    gpus: collections.abc.Sequence[int],
) -> None:
    if not gpus:
        findings.add(
            (*path, "kind"),
            f"{label} has kind KIND_GPU but no GPUs are available",
            f"write kind: KIND_CPU, or KIND_AUTO to take a GPU only where there is one, or start the server with {OPTION}",
        )
        return
    listed = len(gpus) <= _MOST_GPUS
    ids = ", ".join(map(str, gpus)) if listed else f"{gpus[0]} to {gpus[-1]}"
    for index, gpu in enumerate(group.gpus):
        if gpu not in gpus:
            findings.add(
                (*path, "gpus", index),
                f"{label} specifies invalid or unsupported gpu id {gpu}. GPUs here are: {ids}",
                "leave gpus out to use all of them",
            )
