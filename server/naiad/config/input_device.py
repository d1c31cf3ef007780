"""Which models' inputs the server need not read: on which GPU a model takes them, so that they need not come back to the host's memory between two models. Pure."""

from naiad.config.model_config import InstanceKind, ModelConfig

_HOST = "naiad.host"
_STRATEGY = "TRITON_BATCH_STRATEGY_PATH"


def server_reads_inputs(config: ModelConfig) -> bool:
    """Whether the server reads inputs of a model itself, as it does for sequences, the response cache, inputs that it adds, shape tensors, ragged batches and strategies of batching."""
    return bool(
        config.ensemble is not None
        or config.sequence_batching is not None
        or config.response_cache
        or config.batch_inputs
        or config.states
        or _STRATEGY in config.parameters
        or any(spec.is_shape_tensor or spec.ragged for spec in config.inputs)
    )


def input_device(config: ModelConfig) -> int | None:
    """The server's number of the GPU; None: in the host's memory.

    All its instances are KIND_GPU, in worker processes, on that one GPU; and the server reads no input itself.
    """
    if (
        not config.takes_device_inputs
        or config.parameters.get(_HOST) == "thread"
        or server_reads_inputs(config)
    ):
        return None
    devices = {
        gpu if group.kind is InstanceKind.GPU else None
        for group in config.instance_groups
        for gpu in (group.gpus or (None,))
    }
    return devices.pop() if len(devices) == 1 else None
