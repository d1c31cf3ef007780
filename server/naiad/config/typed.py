"""The conversion of a normalised message to `ModelConfig`, which the rest of the server reads. Pure."""

import collections.abc
import types
from typing import Any

from naiad.config.histograms import buckets
from naiad.config.labels import NO_LABELS, Labels
from naiad.config.model_config import (
    Accelerator,
    BatchInput,
    BatchInputKind,
    BatchOutput,
    DynamicBatching,
    Ensemble,
    EnsembleStep,
    InstanceGroup,
    InstanceKind,
    ModelConfig,
    Optimization,
    QueuePolicy,
    RateLimiterResource,
    SecondaryDevice,
    TensorSpec,
    TimeoutAction,
    WarmupInput,
    WarmupSample,
)
from naiad.config.sequence_batching import sequence_batching_of
from naiad.config.sequence_states import sequence_states
from naiad.core import datatypes
from naiad.core.messages import model_config_pb2

_KINDS = {
    model_config_pb2.ModelInstanceGroup.KIND_CPU: InstanceKind.CPU,
    model_config_pb2.ModelInstanceGroup.KIND_GPU: InstanceKind.GPU,
    model_config_pb2.ModelInstanceGroup.KIND_MODEL: InstanceKind.MODEL,
}


_NO_FILES: collections.abc.Mapping[str, bytes] = types.MappingProxyType({})

MOST_INSTANCES = 1_024
"""The most instances of a model, over all of its groups and the GPUs that they list."""

_MOST_GPUS = 64
"""The most GPUs of a machine."""


def is_typed(message: Any) -> bool:
    """Whether a message that has problems can be converted: its tensors have datatypes, its instances kinds, and these are not far too many."""
    invalid = model_config_pb2.TYPE_INVALID
    tensors = (*message.input, *message.output, *message.sequence_batching.state)
    instances = sum(group.count * max(1, len(group.gpus)) for group in message.instance_group)
    return (
        all(spec.data_type != invalid for spec in tensors)
        and all(
            given.data_type != invalid
            for sample in message.model_warmup
            for given in sample.inputs.values()
        )
        and all(group.kind in _KINDS for group in message.instance_group)
        and instances <= MOST_INSTANCES * _MOST_GPUS
    )


def typed(
    message: Any,
    labels: Labels = NO_LABELS,
    initial_states: collections.abc.Mapping[str, bytes] = _NO_FILES,
    *,
    takes_device_inputs: bool = False,
) -> ModelConfig:
    """The typed config of a message that is normalised and without problems; `initial_states` are the files of `sequence_states`."""
    return ModelConfig(
        name=message.name,
        platform=message.platform,
        backend=message.backend,
        default_model_filename=message.default_model_filename,
        max_batch_size=message.max_batch_size,
        inputs=tuple(map(_tensor, message.input)),
        outputs=tuple(map(_tensor, message.output)),
        instance_groups=tuple(map(_instance_group, message.instance_group)),
        dynamic_batching=(
            _dynamic_batching(message.dynamic_batching)
            if message.HasField("dynamic_batching")
            else None
        ),
        optimization=_optimization(message.optimization),
        decoupled=message.model_transaction_policy.decoupled,
        parameters=types.MappingProxyType(
            {key: value.string_value for key, value in message.parameters.items()}
        ),
        metric_tags=types.MappingProxyType(dict(message.metric_tags)),
        histogram_buckets=buckets(message),
        op_library_filenames=tuple(message.model_operations.op_library_filename),
        message=message,
        ensemble=(
            _ensemble(message.ensemble_scheduling)
            if message.HasField("ensemble_scheduling")
            else None
        ),
        labels=labels,
        batch_inputs=tuple(map(_batch_input, message.batch_input)),
        batch_outputs=tuple(
            BatchOutput(target=target, source=next(iter(output.source_input), ""))
            for output in message.batch_output
            for target in output.target_name
        ),
        states=sequence_states(message, initial_states),
        response_cache=message.response_cache.enable,
        warmup=tuple(map(_warmup, (each for each in message.model_warmup if each.batch_size))),
        sequence_batching=(
            sequence_batching_of(message.sequence_batching)
            if message.HasField("sequence_batching")
            else None
        ),
        takes_device_inputs=takes_device_inputs,
    )


def _batch_input(added: Any) -> BatchInput:
    return BatchInput(
        kind=BatchInputKind(added.Kind.Name(added.kind)),
        targets=tuple(added.target_name),
        datatype=datatypes.BY_CONFIG_NAME.get(
            model_config_pb2.DataType.Name(added.data_type), datatypes.INT32
        ),
        source=next(iter(added.source_input), ""),
    )


def _tensor(spec: Any) -> TensorSpec:
    """An input or an output; what only the other one has is left at its default."""
    reshaped = spec.HasField("reshape") and list(spec.reshape.shape) != list(spec.dims)
    return TensorSpec(
        name=spec.name,
        datatype=datatypes.BY_CONFIG_NAME[model_config_pb2.DataType.Name(spec.data_type)],
        dims=tuple(spec.dims),
        reshape=tuple(spec.reshape.shape) if reshaped else None,
        optional=getattr(spec, "optional", False),
        is_shape_tensor=spec.is_shape_tensor,
        ragged=getattr(spec, "allow_ragged_batch", False),
    )


def _instance_group(group: Any) -> InstanceGroup:
    return InstanceGroup(
        name=group.name,
        kind=_KINDS[group.kind],
        count=group.count,
        gpus=tuple(group.gpus),
        resources=tuple(
            RateLimiterResource(
                name=resource.name, count=resource.count, is_global=getattr(resource, "global")
            )
            for resource in group.rate_limiter.resources
        ),
        priority=group.rate_limiter.priority,
        passive=group.passive,
        profiles=tuple(group.profile),
        host_policy=group.host_policy,
        secondary_devices=tuple(
            SecondaryDevice(
                kind=device.SecondaryDeviceKind.Name(device.kind), device_id=device.device_id
            )
            for device in group.secondary_devices
        ),
    )


def _warmup(sample: Any) -> WarmupSample:
    return WarmupSample(
        name=sample.name,
        batch_size=sample.batch_size,
        count=max(1, sample.count),
        inputs=tuple(
            WarmupInput(
                name=name,
                datatype=datatypes.BY_CONFIG_NAME[model_config_pb2.DataType.Name(given.data_type)],
                dims=tuple(given.dims),
                file=given.input_data_file,
                random=given.WhichOneof("input_data_type") == "random_data",
            )
            for name, given in sorted(sample.inputs.items())
        ),
    )


def _queue_policy(policy: Any) -> QueuePolicy:
    delay = policy.timeout_action == model_config_pb2.ModelQueuePolicy.DELAY
    return QueuePolicy(
        timeout_action=TimeoutAction.DELAY if delay else TimeoutAction.REJECT,
        default_timeout_us=policy.default_timeout_microseconds,
        allow_timeout_override=policy.allow_timeout_override,
        max_queue_size=policy.max_queue_size,
    )


def _dynamic_batching(batching: Any) -> DynamicBatching:
    return DynamicBatching(
        preferred_batch_sizes=tuple(sorted(set(batching.preferred_batch_size))),
        max_queue_delay_us=batching.max_queue_delay_microseconds,
        preserve_ordering=batching.preserve_ordering,
        priority_levels=batching.priority_levels,
        default_priority_level=batching.default_priority_level,
        default_queue_policy=_queue_policy(batching.default_queue_policy),
        queue_policies=types.MappingProxyType(
            {
                level: _queue_policy(policy)
                for level, policy in sorted(batching.priority_queue_policy.items())
            }
        ),
    )


def _ensemble(scheduling: Any) -> Ensemble:
    return Ensemble(
        steps=tuple(
            EnsembleStep(
                model=step.model_name,
                version=step.model_version,
                namespace=step.model_namespace,
                inputs=types.MappingProxyType(dict(sorted(step.input_map.items()))),
                outputs=types.MappingProxyType(dict(sorted(step.output_map.items()))),
            )
            for step in scheduling.step
        ),
        max_inflight_requests=getattr(scheduling, "max_inflight_requests", 0),
    )


def _optimization(optimization: Any) -> Optimization:
    accelerators = optimization.execution_accelerators
    return Optimization(
        graph_level=optimization.graph.level,
        gpu_accelerators=tuple(map(_accelerator, accelerators.gpu_execution_accelerator)),
        cpu_accelerators=tuple(map(_accelerator, accelerators.cpu_execution_accelerator)),
    )


def _accelerator(accelerator: Any) -> Accelerator:
    return Accelerator(
        name=accelerator.name, parameters=types.MappingProxyType(dict(accelerator.parameters))
    )
