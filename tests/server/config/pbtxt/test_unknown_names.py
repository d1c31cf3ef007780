"""Which name was meant, and when no guess is better than one."""

import pytest

from naiad.config.pbtxt.spelling import closest, distance
from naiad.config.pbtxt.unknown_names import explain, homes, meant_field, meant_value
from naiad.core.messages import model_config_pb2

_CONFIG = model_config_pb2.ModelConfig.DESCRIPTOR
_INPUT = _CONFIG.fields_by_name["input"].message_type
_BATCHING = _CONFIG.fields_by_name["dynamic_batching"].message_type
_DATATYPE = _INPUT.fields_by_name["data_type"].enum_type
_KIND = _CONFIG.fields_by_name["instance_group"].message_type.fields_by_name["kind"].enum_type


def test_edits_are_counted_and_swapped_neighbours_are_one() -> None:
    assert distance("", "abc", limit=5) == 3
    assert distance("kitten", "sitting", limit=5) == 3
    assert distance("bacth", "batch", limit=5) == 1
    assert distance("abcdef", "uvwxyz", limit=2) == 3


def test_two_names_equally_near_give_no_guess() -> None:
    assert closest("input_c", ["input_a", "input_b"]) is None


def test_short_words_and_endless_ones_give_no_guess() -> None:
    assert closest("ab", ["ac"]) is None
    assert closest("a" * 1000, ["a" * 999]) is None
    assert closest("", ["a"]) is None


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("max_batchsize", "max_batch_size"),
        ("maxBatchSize", "max_batch_size"),
        ("Max-Batch-Size", "max_batch_size"),
        ("max_bacth_size", "max_batch_size"),
        ("inputs", "input"),
        ("instance_groups", "instance_group"),
        ("optimisation", "optimization"),
        ("dynamic_batch", "dynamic_batching"),
        ("batching", "dynamic_batching"),
        ("params", "parameters"),
    ],
)
def test_names_of_the_top_level_are_recognised(word: str, name: str) -> None:
    meant = meant_field(_CONFIG, word)

    assert meant is not None
    assert meant.name == name


@pytest.mark.parametrize(
    ("word", "name"), [("dtype", "data_type"), ("shape", "dims"), ("dim", "dims"), ("nam", "name")]
)
def test_names_that_other_tools_use_are_recognised(word: str, name: str) -> None:
    meant = meant_field(_INPUT, word)

    assert meant is not None
    assert meant.name == name


@pytest.mark.parametrize("word", ["colour", "x", "batch", "foo_bar", "kind"])
def test_a_wild_guess_is_not_made(word: str) -> None:
    assert meant_field(_INPUT, word) is None


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("FP32", "TYPE_FP32"),
        ("float32", "TYPE_FP32"),
        ("TYPE_FLOAT32", "TYPE_FP32"),
        ("tensor(float)", "TYPE_FP32"),
        ("type_fp32", "TYPE_FP32"),
        ("BYTES", "TYPE_STRING"),
        ("TYPE_BYTES", "TYPE_STRING"),
        ("str", "TYPE_STRING"),
        ("bfloat16", "TYPE_BF16"),
        ("Int64", "TYPE_INT64"),
        ("TYPE-INT8", "TYPE_INT8"),
    ],
)
def test_datatypes_are_recognised_by_what_others_call_them(word: str, value: str) -> None:
    assert meant_value(_DATATYPE, word) == value


@pytest.mark.parametrize("word", ["FP8", "UINT", "INVALID", "TYPE_", "?"])
def test_a_datatype_that_there_is_not_is_not_guessed(word: str) -> None:
    assert meant_value(_DATATYPE, word) is None


def test_kinds_are_recognised() -> None:
    assert meant_value(_KIND, "KIND-GPU") == "KIND_GPU"
    assert meant_value(_KIND, "cuda") == "KIND_GPU"
    assert meant_value(_KIND, "TPU") is None


def test_the_homes_of_a_field_are_all_blocks_that_have_it() -> None:
    assert homes("max_batch_size") == ((),)
    assert homes("max_queue_delay_microseconds") == (
        ("dynamic_batching",),
        ("sequence_batching", "direct"),
        ("sequence_batching", "oldest"),
    )
    assert homes("nonesuch") == ()


def test_a_near_name_here_wins_over_the_same_name_elsewhere() -> None:
    explanation = explain(_INPUT, "dim", block=("input",))

    assert explanation.suggestion == 'did you mean "dims"?'
    assert explanation.meant is not None


def test_the_same_name_elsewhere_wins_over_a_far_one_here() -> None:
    explanation = explain(_BATCHING, "level", block=("dynamic_batching",))

    assert explanation.suggestion == "level belongs in optimization { graph { level: … } }"
    assert explanation.meant is None


def test_a_block_without_fields_says_so() -> None:
    policy = _CONFIG.fields_by_name["version_policy"].message_type
    everything = policy.fields_by_name["all"].message_type

    explanation = explain(everything, "xyz", block=("version_policy", "all"))

    assert explanation.suggestion == "all takes no fields: write all { }"
