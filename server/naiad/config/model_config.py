"""A model's configuration as the server uses it: typed, normalised, every default filled in (section 11).

Made from the protobuf message by `config.resolve`, once at load. The message itself stays beside it
(`ModelConfig.message`) because `GET …/config` and ModelConfig print exactly what Triton would print.
"""

import collections.abc
import enum
import types
from typing import Any

import msgspec

from naiad.config.histograms import NO_BUCKETS, Buckets
from naiad.config.labels import NO_LABELS, Labels
from naiad.config.sequence_batching import SequenceBatching
from naiad.config.sequence_states import SequenceState
from naiad.core.datatypes import DataType


class TensorSpec(msgspec.Struct, frozen=True, kw_only=True):
    """An input or output of a model.

    Attributes:
        datatype: never None after normalisation.
        dims: without the batch dimension; -1 is any size.
        reshape: what the backend sees instead of `dims` (row 4.12); None when the same.
        is_shape_tensor: its values are a shape; TensorRT only.
        ragged: requests share a batch although its shapes differ (row 11.14).
    """

    name: str
    datatype: DataType
    dims: tuple[int, ...]
    reshape: tuple[int, ...] | None = None
    optional: bool = False
    is_shape_tensor: bool = False
    ragged: bool = False


class BatchInputKind(enum.Enum):
    """What a tensor that the server adds to a batch says of an input (row 11.18)."""

    ELEMENT_COUNT = "BATCH_ELEMENT_COUNT"
    ACCUMULATED_ELEMENT_COUNT = "BATCH_ACCUMULATED_ELEMENT_COUNT"
    ACCUMULATED_ELEMENT_COUNT_WITH_ZERO = "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO"
    MAX_ELEMENT_COUNT_AS_SHAPE = "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE"
    ITEM_SHAPE = "BATCH_ITEM_SHAPE"
    ITEM_SHAPE_FLATTEN = "BATCH_ITEM_SHAPE_FLATTEN"


class BatchInput(msgspec.Struct, frozen=True, kw_only=True):
    """A tensor that the server adds to a batch, under each of these names, made of the shapes of an input."""

    kind: BatchInputKind
    targets: tuple[str, ...]
    datatype: DataType
    source: str


class BatchOutput(msgspec.Struct, frozen=True, kw_only=True):
    """An output of which each request gets a part in the shape of its input (row 11.20)."""

    target: str
    source: str


class TimeoutAction(enum.Enum):
    """What happens to a request that was in the queue for too long (rows 12.12, 12.13)."""

    REJECT = "REJECT"
    DELAY = "DELAY"


class QueuePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The queue of one priority level.

    Attributes:
        default_timeout_us: 0 means no timeout.
        allow_timeout_override: a request's own smaller timeout counts (row 12.14).
        max_queue_size: 0 means no limit (row 12.11).
    """

    timeout_action: TimeoutAction = TimeoutAction.REJECT
    default_timeout_us: int = 0
    allow_timeout_override: bool = False
    max_queue_size: int = 0


class DynamicBatching(msgspec.Struct, frozen=True, kw_only=True):
    """The dynamic batcher's settings (row 11.22).

    Attributes:
        preferred_batch_sizes: ascending; empty means [max_batch_size].
        max_queue_delay_us: how long the oldest request may wait for company.
        preserve_ordering: responses leave in the order requests came.
        priority_levels: 0 means no priorities; level 1 is the highest.
        default_priority_level: for requests that name none or one out of range (row 4.14).
        default_queue_policy: for every level that `queue_policies` does not name.
        queue_policies: by priority level.
    """

    preferred_batch_sizes: tuple[int, ...] = ()
    max_queue_delay_us: int = 0
    preserve_ordering: bool = False
    priority_levels: int = 0
    default_priority_level: int = 0
    default_queue_policy: QueuePolicy = QueuePolicy()
    queue_policies: collections.abc.Mapping[int, QueuePolicy] = types.MappingProxyType({})

    def policy_of(self, level: int) -> QueuePolicy:
        """The queue policy of a priority level."""
        return self.queue_policies.get(level, self.default_queue_policy)

    def level_of(self, priority: int) -> int:
        """The priority level of a request that asks for this one (row 4.14); 0 without levels."""
        if 0 < priority <= self.priority_levels:
            return priority
        return self.default_priority_level if self.priority_levels else 0


class InstanceKind(enum.Enum):
    """Where an instance runs; KIND_AUTO is resolved before this type is made (row 11.31)."""

    CPU = "CPU"
    GPU = "GPU"
    MODEL = "MODEL"


class RateLimiterResource(msgspec.Struct, frozen=True, kw_only=True):
    """What an instance needs of a resource for each batch; `is_global`: all devices share the resource."""

    name: str
    count: int
    is_global: bool = False


class SecondaryDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device that an instance uses beside its own; kind "KIND_NVDLA"."""

    kind: str
    device_id: int


class InstanceGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group of instances of one kind.

    Attributes:
        name: `<model>_<i>` when the config names none (row 11.32).
        count: instances, per GPU for KIND_GPU.
        gpus: device ids for KIND_GPU, all of them when the config lists none; empty otherwise.
        resources: of the rate limiter, per instance and batch.
        priority: in the rate limiter: an instance of priority 2 is given half as many batches as one of priority 1; 0 if the config has none.
        passive: batches are only for another instance to hand on.
        profiles: optimization profiles of a TensorRT engine.
        host_policy: name of the settings of the host; "" for those of the device.
        secondary_devices: such as deep learning accelerators.
    """

    name: str
    kind: InstanceKind
    count: int
    gpus: tuple[int, ...] = ()
    resources: tuple[RateLimiterResource, ...] = ()
    priority: int = 0
    passive: bool = False
    profiles: tuple[str, ...] = ()
    host_policy: str = ""
    secondary_devices: tuple[SecondaryDevice, ...] = ()


class Accelerator(msgspec.Struct, frozen=True, kw_only=True):
    """An execution accelerator with its parameters (row 16.10)."""

    name: str
    parameters: collections.abc.Mapping[str, str] = types.MappingProxyType({})


class Optimization(msgspec.Struct, frozen=True, kw_only=True):
    """The settings for the framework.

    Attributes:
        graph_level: as written; 0 when absent (row 16.9).
        gpu_accelerators: for KIND_GPU instances, in order of preference.
        cpu_accelerators: for KIND_CPU instances.
    """

    graph_level: int = 0
    gpu_accelerators: tuple[Accelerator, ...] = ()
    cpu_accelerators: tuple[Accelerator, ...] = ()


class WarmupInput(msgspec.Struct, frozen=True, kw_only=True):
    """An input of a warmup sample.

    Attributes:
        dims: without the batch dimension; none is -1.
        file: in the folder `warmup` of the model, with its values; "" for zeros, or for random values.
        random: whether the values are random.
    """

    name: str
    datatype: DataType
    dims: tuple[int, ...]
    file: str = ""
    random: bool = False


class WarmupSample(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that each instance executes before the model is ready (row 14.31).

    Attributes:
        batch_size: how many requests of one row are executed together.
        count: how often.
    """

    name: str
    batch_size: int
    count: int
    inputs: tuple[WarmupInput, ...]


class ComposingModel(msgspec.Struct, frozen=True, kw_only=True):
    """What an ensemble needs to know of the model of a step.

    Attributes:
        dims: those of each input, by name, without the batch dimension.
        optional: the names of the inputs that may be left out.
        input_device: the GPU on which it takes its inputs; None: in the host's memory.
    """

    max_batch_size: int
    decoupled: bool
    dims: collections.abc.Mapping[str, tuple[int, ...]]
    optional: frozenset[str] = frozenset()
    input_device: int | None = None


class EnsembleStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of an ensemble (row 11.29).

    Attributes:
        model: its name.
        version: -1 means the latest one that is ready (row 14.4).
        namespace: of the model, once it is loaded; "" without namespaces.
        inputs: the ensemble's tensor of each input of the model.
        outputs: the ensemble's tensor of each output of the model that the ensemble uses.
        composing: the model's own config, as far as it matters here; None before that model is loaded.
    """

    model: str
    version: int
    namespace: str
    inputs: collections.abc.Mapping[str, str]
    outputs: collections.abc.Mapping[str, str]
    composing: ComposingModel | None = None


class Ensemble(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of an ensemble.

    Attributes:
        max_inflight_requests: how many requests of each step run at the same time, over all requests of the ensemble; 0 means no limit (row 14.12).
    """

    steps: tuple[EnsembleStep, ...]
    max_inflight_requests: int = 0

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models of the steps, each once."""
        return tuple(dict.fromkeys(step.model for step in self.steps))

    @property
    def identities(self) -> frozenset[tuple[str, str]]:
        """The models of the steps, each with its namespace."""
        return frozenset((step.model, step.namespace) for step in self.steps)


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of a model.

    Attributes:
        platform: as in the config; "" when `backend` alone says it.
        max_batch_size: 0 means no batch dimension.
        instance_groups: at least one; none of an ensemble.
        ensemble: None for a model that is not one.
        dynamic_batching: None means the default scheduler, unless there is a sequence batcher.
        sequence_batching: None for a model without sequences.
        states: the implicit states of sequences; their initial values are files of the model's folder (row 11.28).
        metric_tags: extra labels of the model's metrics (row 11.39).
        histogram_buckets: the upper bounds that it chooses for histograms, by family (row 8.24).
        op_library_filenames: custom operator libraries (row 11.42).
        message: the normalised model_config_pb2.ModelConfig; never changed.
        batch_inputs: of ragged batches, as are the outputs.
        labels: the names of the classes of outputs (row 5.4); of an ensemble also those of the models of its steps.
        warmup: the samples to run, in their order.
        response_cache: whether responses are to be cached, where the server has a cache.
        takes_device_inputs: whether its backend takes inputs on a GPU, by `BackendType.takes_device_inputs`; see `input_device`.
    """

    name: str
    platform: str
    backend: str
    default_model_filename: str
    max_batch_size: int
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    instance_groups: tuple[InstanceGroup, ...]
    dynamic_batching: DynamicBatching | None
    optimization: Optimization
    decoupled: bool
    parameters: collections.abc.Mapping[str, str]
    metric_tags: collections.abc.Mapping[str, str]
    op_library_filenames: tuple[str, ...]
    message: Any
    ensemble: Ensemble | None = None
    labels: Labels = NO_LABELS
    batch_inputs: tuple[BatchInput, ...] = ()
    batch_outputs: tuple[BatchOutput, ...] = ()
    states: tuple[SequenceState, ...] = ()
    warmup: tuple[WarmupSample, ...] = ()
    response_cache: bool = False
    sequence_batching: SequenceBatching | None = None
    takes_device_inputs: bool = False
    histogram_buckets: Buckets = NO_BUCKETS

    def with_groups(self, groups: tuple[InstanceGroup, ...]) -> "ModelConfig":
        """The same config with other instance groups."""
        return msgspec.structs.replace(self, instance_groups=groups)

    def needs_reload_for(self, other: "ModelConfig") -> bool:
        """Whether a model has to be loaded again for another config: the two differ in more than `instance_group` and `version_policy` (row 7.24)."""
        return bool(_lasting(self.message) != _lasting(other.message))


def _lasting(message: Any) -> Any:
    lasting = type(message)()
    lasting.CopyFrom(message)
    lasting.ClearField("instance_group")
    lasting.ClearField("version_policy")
    return lasting
