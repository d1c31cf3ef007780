import json
from typing import Any

import pytest

from naiad.backends.python.api.model_config import ModelConfig

A = {"name": "A", "data_type": "TYPE_FP32", "dims": [4]}


def config(**more: Any) -> ModelConfig:
    given = {"name": "m", "max_batch_size": 0, "input": [], "output": []}
    return ModelConfig(json.dumps({**given, **more}))


def test_tensors_are_added_and_repeating_them_changes_nothing() -> None:
    model_config = config()
    model_config.add_input({**A, "optional": True})
    model_config.add_input(A)
    model_config.add_output(A)
    assert model_config.as_dict()["input"] == [{**A, "optional": True}]
    assert model_config.as_dict()["output"] == [A]


def test_what_the_config_leaves_open_is_filled_in() -> None:
    model_config = config(input=[{"name": "A", "data_type": "TYPE_INVALID", "dims": []}])
    model_config.add_input(A)
    assert model_config.as_dict()["input"] == [A]


@pytest.mark.parametrize(
    ("given", "fragment"),
    [
        ({**A, "layout": "NCHW"}, "input 'A' .* contains property other than 'name', 'data_type', 'dims' and 'optional'. It is 'layout'."),
        ({"data_type": "TYPE_FP32", "dims": [1]}, "input in auto-complete-config .* is missing 'name' property"),
        ({"name": "A", "dims": [1]}, "input 'A' .* is missing 'data_type' property"),
        ({"name": "A", "data_type": "TYPE_FP32"}, "input 'A' .* is missing 'dims' property"),
        ({**A, "data_type": "TYPE_INT8"}, "expects datatype TYPE_FP32 for input 'A', model provides TYPE_INT8"),
        ({**A, "dims": [5]}, r"expects dims \[5\] but the model configuration specifies dims \[4\]"),
        ({**A, "optional": True}, "expects optional True but the model configuration specifies optional False"),
    ],
)  # fmt: skip
def test_a_tensor_that_contradicts_the_config_is_refused(
    given: dict[str, Any], fragment: str
) -> None:
    with pytest.raises(ValueError, match=fragment):
        config(input=[{**A, "optional": False}]).add_input(given)


def test_an_output_cannot_be_optional() -> None:
    with pytest.raises(
        ValueError,
        match=r"output 'A' .* contains property other than 'name', 'data_type' and 'dims'\.",
    ):
        config().add_output({**A, "optional": True})


def test_the_batch_size_only_grows() -> None:
    model_config = config(max_batch_size=4)
    model_config.set_max_batch_size(8)
    assert model_config.as_dict()["max_batch_size"] == 8
    with pytest.raises(ValueError, match="configuration specified max_batch_size 8, but in auto"):
        model_config.set_max_batch_size(2)


def test_dynamic_batching_is_set_beside_no_other_scheduler() -> None:
    model_config = config(dynamic_batching={"preferred_batch_size": [4]})
    model_config.set_dynamic_batching()
    assert model_config.as_dict()["dynamic_batching"] == {"preferred_batch_size": [4]}
    for other in ("sequence_batching", "ensemble_scheduling"):
        with pytest.raises(ValueError, match=f"specified scheduling_choice as '{other}'"):
            config(**{other: {}}).set_dynamic_batching()


def test_the_transaction_policy_is_set_once() -> None:
    model_config = config()
    model_config.set_model_transaction_policy({"decoupled": True})
    model_config.set_model_transaction_policy({"decoupled": True})
    assert model_config.as_dict()["model_transaction_policy"] == {"decoupled": True}
    with pytest.raises(ValueError, match="which is already set to 'True'"):
        model_config.set_model_transaction_policy({"decoupled": False})
    with pytest.raises(
        ValueError, match=r"contains property other than 'decoupled'\. It is 'fast'"
    ):
        model_config.set_model_transaction_policy({"fast": True})
