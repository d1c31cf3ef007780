"""The typed config holds what the message says."""

import pathlib

import pytest
from google.protobuf import text_format

from naiad.config.model_config import (
    Accelerator,
    DynamicBatching,
    InstanceGroup,
    InstanceKind,
    Optimization,
    QueuePolicy,
    RateLimiterResource,
    SecondaryDevice,
    TensorSpec,
    TimeoutAction,
)
from naiad.config.typed import typed
from naiad.core import datatypes
from naiad.core.messages import model_config_pb2
from tests.server.config.model_folders import make_model, resolve

CONFIG = """
backend: "python" max_batch_size: 8 default_model_filename: "model.py"
input [
  { name: "a" data_type: TYPE_STRING dims: [ -1, 2 ] optional: true },
  { name: "b" data_type: TYPE_BF16 dims: [ 6 ] reshape { shape: [ 2, 3 ] } }
]
output { name: "c" data_type: TYPE_BOOL dims: [ 1 ] reshape { shape: [] } label_filename: "l.txt" }
version_policy { specific { versions: [ 1 ] } }
dynamic_batching {
  preferred_batch_size: [ 8, 4, 4 ] max_queue_delay_microseconds: 100
  priority_levels: 3 default_priority_level: 2
  default_queue_policy { max_queue_size: 5 allow_timeout_override: true }
  priority_queue_policy { key: 3 value { timeout_action: DELAY default_timeout_microseconds: 9 } }
}
instance_group [ { count: 2 kind: KIND_GPU gpus: [ 1 ] }, { name: "own" kind: KIND_MODEL } ]
optimization {
  graph { level: -1 }
  execution_accelerators {
    gpu_execution_accelerator: { name: "tensorrt" parameters { key: "precision_mode" value: "FP16" } }
    cpu_execution_accelerator: { name: "openvino" }
  }
}
parameters { key: "k" value { string_value: "v" } }
metric_tags { key: "team" value: "blue" }
model_operations { op_library_filename: "ops.so" }
model_transaction_policy { decoupled: true }
"""


def test_every_field_arrives(tmp_path: pathlib.Path) -> None:
    folder = make_model(tmp_path, CONFIG, files={"1/model.py": b"", "l.txt": b""})
    config = resolve(folder, gpus=(0, 1)).config
    assert config is not None
    assert (config.name, config.backend, config.platform) == ("m", "python", "")
    assert (config.default_model_filename, config.max_batch_size) == ("model.py", 8)
    assert config.inputs == (
        TensorSpec(name="a", datatype=datatypes.BYTES, dims=(-1, 2), optional=True),
        TensorSpec(name="b", datatype=datatypes.BF16, dims=(6,), reshape=(2, 3)),
    )
    assert config.outputs == (TensorSpec(name="c", datatype=datatypes.BOOL, dims=(1,), reshape=()),)
    assert config.dynamic_batching == DynamicBatching(
        preferred_batch_sizes=(4, 8),
        max_queue_delay_us=100,
        priority_levels=3,
        default_priority_level=2,
        default_queue_policy=QueuePolicy(max_queue_size=5, allow_timeout_override=True),
        queue_policies={3: QueuePolicy(timeout_action=TimeoutAction.DELAY, default_timeout_us=9)},
    )
    assert config.instance_groups == (
        InstanceGroup(name="m_0", kind=InstanceKind.GPU, count=2, gpus=(1,)),
        InstanceGroup(name="own", kind=InstanceKind.MODEL, count=1),
    )
    assert config.optimization == Optimization(
        graph_level=-1,
        gpu_accelerators=(Accelerator(name="tensorrt", parameters={"precision_mode": "FP16"}),),
        cpu_accelerators=(Accelerator(name="openvino"),),
    )
    assert config.parameters == {"k": "v"}
    assert config.metric_tags == {"team": "blue"}
    assert config.op_library_filenames == ("ops.so",)
    assert config.decoupled
    assert config.message.instance_group[1].name == "own"


def test_a_reshape_to_the_same_shape_is_dropped(tmp_path: pathlib.Path) -> None:
    text = 'backend: "python" input { name: "a" data_type: TYPE_INT8 dims: 2 reshape { shape: 2 } }'
    config = resolve(make_model(tmp_path, text)).config
    assert config is not None
    assert config.inputs[0].reshape is None


def test_the_default_scheduler(tmp_path: pathlib.Path) -> None:
    config = resolve(make_model(tmp_path, 'backend: "python"')).config
    assert config is not None
    assert config.dynamic_batching is None


@pytest.mark.parametrize(
    ("more", "needs_reload"),
    [
        ("", False),
        ("# a comment", False),
        ("instance_group { kind: KIND_CPU count: 3 }", False),
        ("version_policy { all { } }", False),
        ('parameters { key: "k" value { string_value: "v" } }', True),
        ("max_batch_size: 4", True),
        ("dynamic_batching { }", True),
    ],
)
def test_other_instances_and_versions_need_no_reload(
    tmp_path: pathlib.Path, more: str, *, needs_reload: bool
) -> None:
    text = """
        backend: "python"
        input { name: "a" data_type: TYPE_FP32 dims: 1 }
        output { name: "b" data_type: TYPE_FP32 dims: 1 }
    """
    files = {"1/model.py": b""}
    before = resolve(make_model(tmp_path / "before", text, files=files)).config
    after = resolve(make_model(tmp_path / "after", text + more, files=files)).config
    assert before is not None
    assert after is not None
    assert before.needs_reload_for(after) is needs_reload


def test_every_setting_of_an_instance_group_arrives() -> None:
    group = text_format.Parse(
        """
        name: "g" kind: KIND_CPU count: 1 passive: true profile: [ "2", "7" ] host_policy: "p"
        rate_limiter {
          resources [ { name: "R" count: 2 }, { name: "S" global: true count: 1 } ] priority: 3
        }
        secondary_devices { kind: KIND_NVDLA device_id: 4 }
        """,
        model_config_pb2.ModelInstanceGroup(),
    )
    config = typed(model_config_pb2.ModelConfig(name="m", instance_group=[group]))
    assert config.instance_groups == (
        InstanceGroup(
            name="g",
            kind=InstanceKind.CPU,
            count=1,
            resources=(
                RateLimiterResource(name="R", count=2),
                RateLimiterResource(name="S", count=1, is_global=True),
            ),
            priority=3,
            passive=True,
            profiles=("2", "7"),
            host_policy="p",
            secondary_devices=(SecondaryDevice(kind="KIND_NVDLA", device_id=4),),
        ),
    )
