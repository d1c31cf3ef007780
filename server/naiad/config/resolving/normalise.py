"""What a config leaves out: backend, platform and model file, each from the others, and defaults (rows 11.3-11.6, 11.8, 11.21, 11.22, 11.31-11.33).

Every function changes the message it is given, so that `GET …/config` prints what Triton prints. Running one twice
changes nothing more. Pure.
"""

import collections.abc
from typing import Any

from naiad.config.backend_type import BackendType, BackendTypes, ModelFormat
from naiad.config.sequence_batching import DEFAULT_IDLE_US
from naiad.core.messages import model_config_pb2

_Group = model_config_pb2.ModelInstanceGroup

Listing = collections.abc.Mapping[str, bool]
"""The entries of a version folder: name to whether it is a folder."""


def autofill(message: Any, listing: Listing, backends: BackendTypes) -> None:
    """Fill in `backend`, `platform` and `default_model_filename` where they follow from the config or the version folder.

    Of the backends, in the order in which Triton asks, the first one that the config or the folder names wins.
    """
    match = _match(message, listing, backends)
    if match is not None:
        backend, model_format = match
        message.backend = message.backend or backend.name
        message.platform = message.platform or model_format.platform
        if not message.default_model_filename and not _is_code(message, backend):
            chosen = backend.chosen_file(message) if backend.chosen_file is not None else ""
            message.default_model_filename = chosen or model_format.filename
    elif not _names_a_backend(message) and "." in message.name:
        message.backend = message.name.partition(".")[2]
        message.default_model_filename = f"model.{message.backend}"


def _is_code(message: Any, backend: BackendType) -> bool:
    """Whether the model is code beside its file, so that no file is the only one (row 16.17)."""
    return bool(message.runtime) and bool(message.runtime == backend.python_runtime)


def _names_a_backend(message: Any) -> bool:
    return bool(message.backend or message.platform or message.default_model_filename)


def _match(
    message: Any, listing: Listing, backends: BackendTypes
) -> tuple[BackendType, ModelFormat] | None:
    """The backend and format that the config names, or else those whose file is in the folder."""
    if message.backend:
        backend = backends.find(message.backend)
        if backend is None or not backend.formats:
            return None
        formats = (entry for entry in backend.formats if _is_meant(entry, message, listing))
        return backend, next(formats, backend.formats[0])
    if not _names_a_backend(message) and not listing:
        return None
    return next(
        (
            (backend, entry)
            for backend in backends
            for entry in backend.formats
            if _is_meant(entry, message, listing)
        ),
        None,
    )


def _is_meant(model_format: ModelFormat, message: Any, listing: Listing) -> bool:
    if message.platform:
        return message.platform in {model_format.platform, *model_format.aliases}
    if message.default_model_filename:
        return bool(message.default_model_filename == model_format.filename)
    return model_format.is_in(listing)


def normalise(message: Any) -> None:
    """Fill in version policy, batcher and buffer defaults.

    Run before a backend completes the config, which then sees what Triton's would, and again after it.
    """
    if not message.HasField("version_policy"):
        message.version_policy.latest.num_versions = 1
    if message.HasField("dynamic_batching"):
        batching = message.dynamic_batching
        if not batching.preferred_batch_size and message.max_batch_size > 0:
            batching.preferred_batch_size.append(message.max_batch_size)
    if message.HasField("sequence_batching"):  # row 11.26
        sequences = message.sequence_batching
        sequences.max_sequence_idle_microseconds = (
            sequences.max_sequence_idle_microseconds or DEFAULT_IDLE_US
        )
        has_sizes = not sequences.HasField("oldest") or sequences.oldest.preferred_batch_size
        if not has_sizes and message.max_batch_size > 0:
            sequences.oldest.preferred_batch_size.append(message.max_batch_size)
    if message.HasField("ensemble_scheduling"):  # which may have no optimization (row 11.30)
        return
    optimization = message.optimization
    for buffer in ("input_pinned_memory", "output_pinned_memory"):
        if not optimization.HasField(buffer):
            getattr(optimization, buffer).enable = True


def normalise_instance_groups(
    message: Any, gpus: collections.abc.Sequence[int], backend: BackendType | None
) -> None:
    """Give every instance group its name, kind, count and GPUs; make one where there is none. `backend` is None for an unknown one."""
    if message.HasField("ensemble_scheduling"):  # which has no instances
        return
    takes_gpus = backend is None or "KIND_GPU" in backend.instance_kinds
    if not message.instance_group:
        message.instance_group.add(name=message.name)
    for index, group in enumerate(message.instance_group):
        group.name = group.name or f"{message.name}_{index}"
        if group.kind == _Group.KIND_AUTO:
            on_gpus = takes_gpus and bool(gpus) and all(gpu in gpus for gpu in group.gpus)
            group.kind = _Group.KIND_GPU if on_gpus else _Group.KIND_CPU
        if group.count < 1:
            on_cpu = group.kind == _Group.KIND_CPU
            group.count = backend.cpu_instances if on_cpu and backend is not None else 1
        if group.kind == _Group.KIND_GPU and not group.gpus:
            group.gpus.extend(gpus)
