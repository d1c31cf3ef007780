"""Defaults, held against what the real server prints (rows 11.8, 11.21, 11.22, 11.31-11.33)."""

import pytest
from google.protobuf import text_format

from naiad.backends.catalog import Catalog
from naiad.config.config_json import to_json
from naiad.config.normalise import normalise, normalise_instance_groups
from naiad.core.messages import model_config_pb2


def groups(config: str, *, gpus: tuple[int, ...] = ()) -> list[tuple[str, str, int, list[int]]]:
    message = text_format.Parse(f'name: "m" {config}', model_config_pb2.ModelConfig())
    normalise_instance_groups(message, gpus, Catalog().find(message.backend))
    once = to_json(message)
    normalise_instance_groups(message, gpus, Catalog().find(message.backend))
    assert to_json(message) == once
    return [(g["name"], g["kind"], g["count"], g["gpus"]) for g in once["instance_group"]]


@pytest.mark.parametrize(
    ("config", "gpus", "expected"),
    [
        ('backend: "python"', (), [("m", "KIND_CPU", 1, [])]),
        ('backend: "onnxruntime"', (), [("m", "KIND_CPU", 2, [])]),
        ('backend: "tensorflow"', (), [("m", "KIND_CPU", 2, [])]),
        ('backend: "onnxruntime"', (0, 1), [("m", "KIND_GPU", 1, [0, 1])]),
        ('backend: "onnxruntime" instance_group {}', (), [("m_0", "KIND_CPU", 2, [])]),
        ('backend: "onnxruntime" instance_group { count: 3 }', (), [("m_0", "KIND_CPU", 3, [])]),
        ('backend: "onnxruntime" instance_group { count: -3 }', (), [("m_0", "KIND_CPU", 2, [])]),
        (
            'backend: "onnxruntime" instance_group { kind: KIND_CPU }',
            (0,),
            [("m_0", "KIND_CPU", 2, [])],
        ),
        (
            'backend: "onnxruntime" instance_group { kind: KIND_MODEL }',
            (0,),
            [("m_0", "KIND_MODEL", 1, [])],
        ),
        ('backend: "x" instance_group { gpus: [1] }', (0, 1), [("m_0", "KIND_GPU", 1, [1])]),
        ('backend: "x" instance_group { gpus: [0, 5] }', (0, 1), [("m_0", "KIND_CPU", 1, [0, 5])]),
        (
            'backend: "x" instance_group { kind: KIND_GPU gpus: [5] }',
            (0, 1),
            [("m_0", "KIND_GPU", 1, [5])],
        ),
        (
            'backend: "x" instance_group { name: "a" } instance_group {} instance_group { count: 2 }',
            (),
            [("a", "KIND_CPU", 1, []), ("m_1", "KIND_CPU", 1, []), ("m_2", "KIND_CPU", 2, [])],
        ),
    ],
)
def test_instance_groups_get_name_kind_count_and_gpus(
    config: str, gpus: tuple[int, ...], expected: list[tuple[str, str, int, list[int]]]
) -> None:
    assert groups(config, gpus=gpus) == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("", "version_policy { latest { num_versions: 1 } }"),
        ("version_policy { all {} }", "version_policy { all {} }"),
        (
            "max_batch_size: 8 dynamic_batching {}",
            (
                "max_batch_size: 8 version_policy { latest { num_versions: 1 } } "
                "dynamic_batching { preferred_batch_size: 8 }"
            ),
        ),
        (
            "dynamic_batching {}",
            "version_policy { latest { num_versions: 1 } } dynamic_batching {}",
        ),
        (
            "max_batch_size: 8 dynamic_batching { preferred_batch_size: [2, 4] }",
            (
                "max_batch_size: 8 version_policy { latest { num_versions: 1 } } "
                "dynamic_batching { preferred_batch_size: [2, 4] }"
            ),
        ),
    ],
)
def test_version_policy_and_batcher_get_their_defaults(config: str, expected: str) -> None:
    message = text_format.Parse(config, model_config_pb2.ModelConfig())
    normalise(message)
    optimization = message.optimization
    assert optimization.input_pinned_memory.enable
    assert optimization.output_pinned_memory.enable
    message.ClearField("optimization")
    assert message == text_format.Parse(expected, model_config_pb2.ModelConfig())


def test_pinned_memory_that_is_switched_off_stays_off() -> None:
    message = text_format.Parse(
        "optimization { input_pinned_memory { enable: false } }", model_config_pb2.ModelConfig()
    )
    normalise(message)
    assert not message.optimization.input_pinned_memory.enable
    assert message.optimization.output_pinned_memory.enable
