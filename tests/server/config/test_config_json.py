"""The config as JSON (rows 2.19-2.21). The long expectation is what a real tritonserver 2.51 answered, byte for byte."""

import json
from typing import Any

import pytest
from google.protobuf import json_format, text_format
from hypothesis import given, strategies as st

from naiad.backends.catalog import Catalog
from naiad.config.config_json import to_json
from naiad.config.resolving.normalise import normalise, normalise_instance_groups
from naiad.core.messages import model_config_pb2

FULL = """
name: "full" backend: "python" default_model_filename: "model.py" max_batch_size: 8
input [ { name: "a" data_type: TYPE_FP32 dims: [2] } ] output [ { name: "b" data_type: TYPE_FP32 dims: [2] } ]
dynamic_batching {
  max_queue_delay_microseconds: 5 priority_levels: 2 default_priority_level: 1
  default_queue_policy { max_queue_size: 3 }
  priority_queue_policy { key: 2 value { timeout_action: DELAY default_timeout_microseconds: 7 } }
}
instance_group [ { count: 2 kind: KIND_CPU }, { name: "zz" kind: KIND_MODEL } ]
parameters { key: "b" value { string_value: "1" } } parameters { key: "a" value { string_value: "2" } }
metric_tags { key: "t" value: "v" }
optimization {
  cuda { graph_spec { batch_size: 1 input { key: "a" value { dim: [3] } } } }
  execution_accelerators {
    cpu_execution_accelerator: [ { name: "openvino" parameters { key: "k" value: "v" } } ]
  }
}
version_policy { specific { versions: [1, 3] } } model_transaction_policy { decoupled: true }
"""

ANSWER = (
    '{"name":"full","platform":"","backend":"python","runtime":"",'
    '"version_policy":{"specific":{"versions":[1,3]}},"max_batch_size":8,'
    '"input":[{"name":"a","data_type":"TYPE_FP32","format":"FORMAT_NONE","dims":[2],"is_shape_tensor":false,'
    '"allow_ragged_batch":false,"optional":false,"is_non_linear_format_io":false}],'
    '"output":[{"name":"b","data_type":"TYPE_FP32","dims":[2],"label_filename":"","is_shape_tensor":false,'
    '"is_non_linear_format_io":false}],"batch_input":[],"batch_output":[],'
    '"optimization":{"priority":"PRIORITY_DEFAULT","cuda":{"graphs":false,"busy_wait_events":false,'
    '"graph_spec":[{"batch_size":1,"input":{"a":{"dim":["3"]}}}],"output_copy_stream":false},'
    '"execution_accelerators":{"gpu_execution_accelerator":[],"cpu_execution_accelerator":'
    '[{"name":"openvino","parameters":{"k":"v"}}]},"input_pinned_memory":{"enable":true},'
    '"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},'
    '"dynamic_batching":{"preferred_batch_size":[8],"max_queue_delay_microseconds":5,"preserve_ordering":false,'
    '"priority_levels":2,"default_priority_level":1,"default_queue_policy":{"timeout_action":"REJECT",'
    '"default_timeout_microseconds":0,"allow_timeout_override":false,"max_queue_size":3},'
    '"priority_queue_policy":{"2":{"timeout_action":"DELAY","default_timeout_microseconds":7,'
    '"allow_timeout_override":false,"max_queue_size":0}}},'
    '"instance_group":[{"name":"full_0","kind":"KIND_CPU","count":2,"gpus":[],"secondary_devices":[],'
    '"profile":[],"passive":false,"host_policy":""},{"name":"zz","kind":"KIND_MODEL","count":1,"gpus":[],'
    '"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],'
    '"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{"t":"v"},'
    '"parameters":{"a":{"string_value":"2"},"b":{"string_value":"1"}},"model_warmup":[],'
    '"model_transaction_policy":{"decoupled":true}}'
)


def test_the_real_server_prints_the_same_bytes() -> None:
    message = text_format.Parse(FULL, model_config_pb2.ModelConfig())
    normalise(message)
    normalise_instance_groups(message, (), Catalog().find(message.backend))
    assert json.dumps(to_json(message), separators=(",", ":")) == ANSWER


def test_messages_that_are_not_set_are_not_there() -> None:
    shown = to_json(model_config_pb2.ModelConfig())
    assert shown["max_batch_size"] == 0
    assert shown["input"] == []
    assert shown["parameters"] == {}
    absent = {
        "version_policy",
        "optimization",
        "dynamic_batching",
        "response_cache",
        "sequence_batching",
    }
    assert not absent & shown.keys()


@pytest.mark.parametrize("value", [2**63 - 1, -1])
def test_large_numbers_are_numbers(value: int) -> None:
    message = model_config_pb2.ModelConfig()
    message.input.add(dims=[value])
    assert to_json(message)["input"][0]["dims"] == [value]


def test_a_set_message_without_content_is_an_empty_object() -> None:
    message = model_config_pb2.ModelConfig()
    message.version_policy.all.SetInParent()
    assert to_json(message)["version_policy"] == {"all": {}}


def numbers(value: Any) -> Any:
    """The official printer's values, with its texts of numbers as numbers; texts here never are digits."""
    if isinstance(value, dict):
        return {key: numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [numbers(item) for item in value]
    if isinstance(value, str) and value.removeprefix("-").isdecimal():
        return int(value)
    return value


BLOCKS = (
    'name: "x" max_batch_size: 3',
    "input { dims: [-1, 9223372036854775807] reshape {} format: FORMAT_NCHW optional: true }",
    'output { name: "o" data_type: TYPE_BF16 reshape { shape: 2 } label_filename: "l" }',
    "version_policy { latest { num_versions: 2 } }",
    "version_policy { all {} }",
    "version_policy { specific { versions: [3, 1] } }",
    "dynamic_batching { default_queue_policy {} priority_queue_policy { key: 3 value { max_queue_size: 2 } } }",
    "dynamic_batching { preferred_batch_size: [1, 2] max_queue_delay_microseconds: 9 priority_levels: 4 }",
    "sequence_batching { state { dims: 1 initial_state { dims: 2 zero_data: true } } oldest {} }",
    "sequence_batching { control_input { control { bool_false_true: [false, true] } } direct {} }",
    'ensemble_scheduling { step { model_version: -1 input_map { key: "a" value: "b" } } }',
    'instance_group { secondary_devices { device_id: 4 } profile: "1" rate_limiter { resources {} } }',
    "optimization { cuda { graph_spec { graph_lower_bound { batch_size: 1 } } } graph { level: -1 } }",
    'cc_model_filenames { key: "7.5" value: "f" } parameters { key: "k" value {} }',
    'model_warmup { inputs { key: "i" value { dims: 1 random_data: true } } count: 1 }',
    'model_operations { op_library_filename: "a.so" } response_cache {} model_repository_agents {}',
    'batch_input { kind: BATCH_ITEM_SHAPE source_input: "i" } batch_output { target_name: "t" }',
    "model_metrics { metric_control { histogram_options { buckets: [0.5, 2] } } }",
)


@given(blocks=st.lists(st.sampled_from(BLOCKS), max_size=6))
def test_but_for_its_texts_of_numbers_the_official_printer_says_the_same(blocks: list[str]) -> None:
    message = model_config_pb2.ModelConfig()
    for block in blocks:
        message.MergeFrom(text_format.Parse(block, model_config_pb2.ModelConfig()))
    official = json_format.MessageToDict(
        message, always_print_fields_with_no_presence=True, preserving_proto_field_name=True
    )
    assert numbers(to_json(message)) == numbers(official)


def test_numbers_of_32_bits_are_as_short_as_protobuf_prints_them() -> None:
    message = model_config_pb2.ModelConfig()
    shown = {0.0: "0", 1.0: "1", 0.5: "0.5", 0.1: "0.1", 0.12345678: "0.12345678"}
    for number, text in shown.items():
        message.sequence_batching.direct.minimum_slot_utilization = number
        direct = to_json(message)["sequence_batching"]["direct"]
        assert repr(direct["minimum_slot_utilization"]) == text
