"""The tensors that a sequence batcher adds to those of the config (rows 11.27, 11.28, 13.9, 13.19)."""

from typing import Any

import pytest
from google.protobuf import text_format

from naiad.config.model_config import ModelConfig, TensorSpec
from naiad.config.sequence_tensors import (
    added_inputs,
    added_outputs,
    model_inputs,
    model_outputs,
)
from naiad.config.typed import typed
from naiad.core import datatypes
from naiad.core.datatypes import DataType
from naiad.core.messages import model_config_pb2

CONFIG = """
max_batch_size: 4
input { name: "INPUT" data_type: TYPE_FP32 dims: 3 }
output { name: "OUTPUT" data_type: TYPE_FP32 dims: 3 }
sequence_batching {
  control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [0, 1] } }
  control_input { name: "END" control { kind: CONTROL_SEQUENCE_END fp32_false_true: [0, 1] } }
  control_input { name: "READY" control { kind: CONTROL_SEQUENCE_READY bool_false_true: [false, true] } }
  control_input { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }
  state { input_name: "S_IN" output_name: "S_OUT" data_type: TYPE_STRING dims: [2, -1] }
  state { input_name: "T_IN" output_name: "OUTPUT" data_type: TYPE_FP32 dims: 3 }
}
"""


def parsed(text: str) -> Any:
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def typed_config(text: str) -> ModelConfig:
    return typed(parsed(text))


def spec(name: str, datatype: DataType, dims: tuple[int, ...]) -> TensorSpec:
    return TensorSpec(name=name, datatype=datatype, dims=dims)


def test_a_model_is_given_controls_of_shape_1_and_states_behind_its_own_inputs() -> None:
    assert model_inputs(typed_config(CONFIG)) == (
        spec("INPUT", datatypes.FP32, (3,)),
        spec("START", datatypes.INT32, (1,)),
        spec("END", datatypes.FP32, (1,)),
        spec("READY", datatypes.BOOL, (1,)),
        spec("ID", datatypes.UINT64, (1,)),
        spec("S_IN", datatypes.BYTES, (2, -1)),
        spec("T_IN", datatypes.FP32, (3,)),
    )


def test_a_model_gives_its_states_and_one_that_is_an_output_as_that() -> None:
    assert model_outputs(typed_config(CONFIG)) == (
        spec("OUTPUT", datatypes.FP32, (3,)),
        spec("S_OUT", datatypes.BYTES, (2, -1)),
    )


def test_without_a_sequence_batcher_there_is_nothing_else() -> None:
    config = typed_config(CONFIG[: CONFIG.index("sequence_batching")])
    assert model_inputs(config) == config.inputs
    assert model_outputs(config) == config.outputs


def test_each_is_found_again_in_the_config() -> None:
    message = parsed(CONFIG)
    assert [(added.path[-3:], added.what, added.spec.name) for added in added_inputs(message)] == [
        (("control_input", 0, "name"), "sequence control", "START"),
        (("control_input", 1, "name"), "sequence control", "END"),
        (("control_input", 2, "name"), "sequence control", "READY"),
        (("control_input", 3, "name"), "sequence control", "ID"),
        (("state", 0, "input_name"), "state", "S_IN"),
        (("state", 1, "input_name"), "state", "T_IN"),
    ]
    assert [added.path[-2:] for added in added_outputs(message)] == [
        (0, "output_name"),
        (1, "output_name"),
    ]


@pytest.mark.parametrize(
    "control",
    ['control_input { name: "START" }', 'control_input { name: "START" control { } }'],
)
def test_a_control_without_a_datatype_is_named_but_not_typed(control: str) -> None:
    """Which the config's own rules refuse."""
    text = "sequence_batching { " + control + " }"
    assert [added.spec.name for added in added_inputs(parsed(text))] == ["START"]
    assert model_inputs(typed_config(text)) == ()
