"""Where a model's instances run, and how long a batch and a load may take there, from its config alone. Pure."""

import collections.abc
import math
from typing import Any

from naiad.backends.backend import instance_specs
from naiad.backends.visible_devices import beyond_a_thread
from naiad.config.backend_type import HostKind
from naiad.config.model_config import InstanceKind, ModelConfig
from naiad.core.messages import model_config_pb2
from naiad.errors import InferenceError, invalid
from naiad.hosts.host import EXECUTE, LOAD, Limit, Limits

HOST_PARAMETER = "naiad.host"
COMPLETION_TIMEOUT_S = 120.0
"""How long the code of a model may take to complete its config, where its load has no limit."""

_PRIORITY_MIN = model_config_pb2.ModelOptimizationPolicy.PRIORITY_MIN
_NICE = 10
"""With it a busy process gets about a tenth of the time of one that has the server's priority."""


def host_of(
    config: ModelConfig,
    default: HostKind,
    options: collections.abc.Mapping[str, str],
    slices: frozenset[int] = frozenset(),
) -> HostKind:
    """Where a model's instances run: the model's setting, else `--backend-config`, else the backend's default; on GPUs by default in processes.

    An error that CUDA does not survive ends the process that had it, which must not be the server's; a thread of the server would cost it a
    context of hundreds of megabytes, and reaches one MIG slice only.

    Raises:
        InferenceError: INVALID_ARG: the host is not a valid one, or cannot reach the GPUs of the model's instances.
    """
    chosen = config.parameters.get(HOST_PARAMETER) or options.get("host")
    specs = instance_specs(config)
    beyond = beyond_a_thread(specs, slices)
    if not chosen and any(spec.kind is InstanceKind.GPU for spec in specs):
        return "process"
    host = known_host(chosen or default, config.name, config.backend)
    if host == "thread" and beyond:
        raise invalid(
            f"model '{config.name}' has instances on GPU {', '.join(map(str, beyond))} and host=thread: CUDA opens one MIG slice per process, "
            f"and the server's is GPU 0: remove host=thread (parameter {HOST_PARAMETER}, or --backend-config), or write gpus: [ 0 ]"
        )
    return host


def nice_of(config: ModelConfig) -> int:
    """How much lower the priority of a model's worker processes is than the server's; 0 for the same (row 11.21).

    It is never higher: that takes a privilege, which a server rarely has.
    """
    return _NICE if config.message.optimization.priority == _PRIORITY_MIN else 0


def known_host(wanted: str, model: str, backend: str) -> HostKind:
    """The host of that name.

    Raises:
        InferenceError: INVALID_ARG: there is no such host.
    """
    if wanted == "thread":
        return "thread"
    if wanted == "process":
        return "process"
    raise invalid(
        f"model '{model}' has host={wanted}, which is not a valid host: choose thread or process (parameter {HOST_PARAMETER}, or "
        f"--backend-config={backend},host=…)"
    )


def limits_of(config: ModelConfig) -> Limits:
    """How long a batch and a load may take in a worker process.

    Raises:
        InferenceError: INVALID_ARG: one of them is not a valid number of seconds.
    """
    return Limits(execute=_limit(config, EXECUTE), load=_limit(config, LOAD))


def completion_limit(message: Any) -> Limit:
    """How long the code of a model may take to complete its config, by the config's message: as long as its load; two minutes unless that is limited.

    Raises:
        InferenceError: as `limits_of`.
    """
    chosen = message.parameters.get(LOAD)
    limit = _limit_of(message.name, LOAD, chosen.string_value if chosen else "")
    return limit if limit.seconds else Limit("", COMPLETION_TIMEOUT_S)


def _limit(config: ModelConfig, parameter: str) -> Limit:
    return _limit_of(config.name, parameter, config.parameters.get(parameter) or "")


def _limit_of(model: str, parameter: str, text: str) -> Limit:
    try:
        seconds = float(text or "0")
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise invalid(
            f"model '{model}': parameter {parameter} is '{text}': it must be a number of seconds, e.g. 2.5"
        )
    return Limit(parameter, seconds)


def check_limits(config: ModelConfig, host: HostKind) -> None:
    """Check that what a model's config says of limits is valid, and that its host can keep to it.

    Raises:
        InferenceError: INVALID_ARG: it is not, or a limit is set for a thread.
    """
    limits = limits_of(config)
    for limit in (limits.execute, limits.load):
        if limit.seconds and host == "thread":
            raise _needs_a_process(config, limit)


def _needs_a_process(config: ModelConfig, limit: Limit) -> InferenceError:
    return invalid(
        f"model '{config.name}' sets {limit.parameter} and runs in a thread of the server, which cannot be ended: let it run in a "
        f'process (parameter {HOST_PARAMETER} "process", or --backend-config={config.backend},host=process), or remove the limit'
    )
