from typing import Any

import pytest

from naiad.backends.model_files.signature import GraphTensor, Signature
from naiad.backends.onnxruntime.graph_check import check_session
from naiad.backends.onnxruntime.session import graph_tensor
from naiad.core import datatypes
from naiad.errors import InferenceError
from tests.server.backends.configs import model_config, spec


def tensor(name: str, shape: Any, type_text: str = "tensor(float)") -> GraphTensor:
    return graph_tensor(name, type_text, shape)


MODEL = Signature(
    inputs=(tensor("A", ["n", 4]),),
    overridable=(tensor("W", [4]),),
    outputs=(tensor("C", ["n", 4]), tensor("D", ["n", 4])),
)
A = spec("A", datatypes.FP32, (4,))
C = spec("C", datatypes.FP32, (4,))


def test_a_config_may_list_some_of_the_outputs() -> None:
    check_session(model_config(inputs=[A], outputs=[C]), MODEL)


def test_free_dimensions_of_the_model_may_be_fixed_for_inputs_and_must_be_equal_for_outputs() -> (
    None
):
    free = Signature(
        inputs=(tensor("A", ["n", "w"]),),
        overridable=(),
        outputs=(tensor("C", ["n", "w"]),),
    )
    any_width = spec("C", datatypes.FP32, (-1,))
    check_session(model_config(inputs=[A], outputs=[any_width]), free)
    check_session(model_config(inputs=[A], outputs=[any_width]), MODEL)
    with pytest.raises(
        InferenceError,
        match=r"tensor 'C': config says dims \[4\] after the batch dimension, the graph says \[n, w\]: 4 is not -1",
    ):
        check_session(model_config(inputs=[A], outputs=[C]), free)


@pytest.mark.parametrize(
    ("inputs", "outputs", "max_batch_size", "fragment"),
    [
        (
            [], [C], 8,
            "unable to load model 'm', configuration expects 0 inputs, model provides 1",
        ),
        (
            [spec("B", datatypes.FP32, (4,))], [C], 8,
            "unexpected inference input 'B', allowed inputs are: A, W",
        ),
        (
            [spec("A", datatypes.INT32, (4,))], [C], 8,
            "configuration expects datatype TYPE_INT32 for input 'A', model provides TYPE_FP32",
        ),
        (
            [A], [spec("C", datatypes.FP64, (4,))], 8,
            "configuration expects datatype TYPE_FP64 for output 'C', model provides TYPE_FP32",
        ),
        ([A], [spec("X", datatypes.FP32, (4,))], 8, "unexpected inference output 'X', allowed outputs are: C, D"),
        (
            [spec("A", datatypes.FP32, (5,))], [C], 8,
            "tensor 'A': config says dims [5] after the batch dimension, the graph says [n, 4]: 5 is not 4",
        ),
        (
            [A], [C], 0,
            "the graph says [n, 4]: the model expects 2 dimensions but the model configuration specifies 1",
        ),
        (
            [A, spec("W", datatypes.FP32, (4,), optional=True)], [C], 8,
            "optional input 'W' is not supported for models that support batching",
        ),
    ],
)  # fmt: skip
def test_a_difference_is_named_as_triton_names_it(
    inputs: Any, outputs: Any, max_batch_size: int, fragment: str
) -> None:
    config = model_config(inputs=inputs, outputs=outputs, max_batch_size=max_batch_size)
    with pytest.raises(InferenceError) as caught:
        check_session(config, MODEL)
    assert fragment in caught.value.message


def test_a_fixed_first_dimension_cannot_be_the_batch() -> None:
    fixed = Signature(inputs=(tensor("A", [1, 4]),), overridable=(), outputs=(tensor("C", [1, 4]),))
    with pytest.raises(InferenceError, match="the first dimension must be -1; but shape expected"):
        check_session(model_config(inputs=[A], outputs=[C]), fixed)


def test_reshape_is_what_the_model_is_held_to() -> None:
    reshaped = spec("A", datatypes.FP32, (2, 2), reshape=(4,))
    check_session(model_config(inputs=[reshaped], outputs=[C]), MODEL)


def test_a_scalar_is_one_element_of_a_model_that_does_not_batch() -> None:
    scalar = Signature(inputs=(tensor("A", []),), overridable=(), outputs=(tensor("C", []),))
    one = [spec("A", datatypes.FP32, (1,))]
    out = [spec("C", datatypes.FP32, (1,))]
    check_session(model_config(inputs=one, outputs=out, max_batch_size=0), scalar)
    with pytest.raises(InferenceError, match=r"but shape expected by the model is \[\]"):
        check_session(model_config(inputs=one, outputs=out, max_batch_size=4), scalar)
    with pytest.raises(InferenceError, match="should only provide 1 in the model configuration"):
        check_session(model_config(inputs=[A], outputs=out, max_batch_size=0), scalar)


def test_a_tensor_of_unknown_rank_is_checked_when_it_runs() -> None:
    unknown = Signature(inputs=(tensor("A", None),), overridable=(), outputs=(tensor("C", None),))
    check_session(model_config(inputs=[A], outputs=[C]), unknown)


def test_a_value_that_is_not_a_tensor_cannot_be_served() -> None:
    sequence = Signature(
        inputs=MODEL.inputs,
        overridable=(),
        outputs=(tensor("C", [], "seq(tensor(float))"),),
    )
    with pytest.raises(
        InferenceError, match="Unsupported ONNX Type 'ONNX_TYPE_SEQUENCE' for I/O 'C'"
    ):
        check_session(model_config(inputs=[A], outputs=[C]), sequence)
