"""Which tensor is which argument of a TorchScript model (row 16.13)."""

import pytest

from naiad.backends.pytorch.naming import (
    DICT,
    LIST,
    TENSOR,
    Argument,
    index_of,
    plan_inputs,
    plan_outputs,
    unnamed,
)
from naiad.config.model_config import TensorSpec
from naiad.core import datatypes
from naiad.errors import ErrorCode, InferenceError
from tests.server.backends.configs import spec

XY = (Argument("x", TENSOR), Argument("y", TENSOR))


def tensors(*names: str) -> list[TensorSpec]:
    return [spec(name, datatypes.FP32, (2,)) for name in names]


def names(
    arguments: tuple[Argument, ...], *inputs: str, added: tuple[str, ...] = ()
) -> tuple[str, ...]:
    plan = plan_inputs("m", arguments, tensors(*inputs), added=tensors(*added), batched=True)
    assert not plan.as_dict
    return plan.names


def refused(*inputs: str, arguments: tuple[Argument, ...] = XY) -> InferenceError:
    with pytest.raises(InferenceError) as caught:
        plan_inputs("m", arguments, tensors(*inputs), batched=True)
    return caught.value


def test_the_names_of_the_arguments_come_first() -> None:
    assert names(XY, "y", "x") == ("x", "y")


def test_else_the_index_in_the_name_decides() -> None:
    assert names(XY, "second__1", "first__0") == ("first__0", "second__1")
    assert names(XY, "x", "b__0") == ("x", "b__0"), (
        "one name that is not an argument: the indexes decide"
    )


def test_else_the_order_of_the_config_decides() -> None:
    assert names(XY, "b", "a") == ("b", "a")
    assert unnamed(tensors("b", "a"), XY) == "b"
    assert not unnamed(tensors("y", "x"), XY)
    assert not unnamed(tensors("b__1", "a__0"), XY)


def test_without_a_signature_the_index_or_the_order_decides() -> None:
    assert names((), "b__1", "a__0") == ("a__0", "b__1")
    assert names((), "b", "a") == ("b", "a")


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("INPUT__0", 0),
        ("a__12", 12),
        ("a__", 0),
        ("a", None),
        ("a_1", None),
        ("a__b__1", None),
        ("a__-1", None),
        ("a__²", None),
    ],
)
def test_the_index_stands_behind_the_first_two_underscores(name: str, index: int | None) -> None:
    assert index_of(name) == index


def test_controls_and_states_stand_at_their_index() -> None:
    assert names((*XY, Argument("start", TENSOR)), "a__0", "b__2", added=("start__1",)) == (
        "a__0",
        "start__1",
        "b__2",
    )
    with pytest.raises(
        InferenceError, match="input 'START' does not follow <name>__<index> naming convention"
    ):
        names(XY, "x", added=("START",))


def test_one_argument_that_is_a_dict_takes_all() -> None:
    plan = plan_inputs("m", (Argument("d", DICT),), tensors("b", "a"), batched=True)
    assert plan.as_dict
    assert plan.names == ("b", "a")


def test_a_model_of_another_number_of_arguments_is_refused() -> None:
    error = refused("x")
    assert error.code is ErrorCode.INVALID_ARG
    assert (
        error.message
        == "unable to load model 'm', configuration expects 1 inputs, model provides 2 (x, y)"
    )


def test_arguments_of_other_types_are_refused() -> None:
    assert (
        "An input of type 'int' was detected in the model."
        in refused("x", "y", arguments=(XY[0], Argument("y", "int"))).message
    )
    error = refused("x", "y", arguments=(XY[0], Argument("y", DICT)))
    assert error.code is ErrorCode.INTERNAL
    assert error.message.startswith("Multiple inputs of kind DictType were detected.")
    assert names((XY[0], Argument("texts", LIST)), "x", "texts") == ("x", "texts")


def test_positions_that_do_not_exist_or_are_taken_are_refused() -> None:
    assert "input 'b__2' has index 2, but the model has 2 inputs" in refused("a__0", "b__2").message
    assert "inputs 'a__0' and 'b__0' are both argument 0" in refused("a__0", "b__0").message
    assert "must contain at least one input" in refused(arguments=()).message


def test_outputs_go_by_index_or_by_order() -> None:
    assert plan_outputs("m", tensors("b__1", "a__0"), batched=True) == {"b__1": 1, "a__0": 0}
    assert plan_outputs("m", tensors("b__1", "a"), batched=True) == {"b__1": 0, "a": 1}
    with pytest.raises(InferenceError, match="must contain at least one output"):
        plan_outputs("m", [], batched=True)


@pytest.mark.parametrize("datatype", [datatypes.UINT16, datatypes.UINT32, datatypes.UINT64])
def test_datatypes_that_torch_has_not_are_refused(datatype: datatypes.DataType) -> None:
    with pytest.raises(
        InferenceError,
        match=f"unsupported datatype {datatype.config_name} for input 'x' for model 'm'",
    ):
        plan_inputs("m", XY[:1], [spec("x", datatype, (1,))], batched=True)


def test_text_has_one_dimension() -> None:
    texts = (Argument("t", LIST),)
    plan_inputs("m", texts, [spec("t", datatypes.BYTES, (-1,))], batched=False)
    plan_inputs("m", texts, [spec("t", datatypes.BYTES, (1,), reshape=())], batched=True)
    with pytest.raises(
        InferenceError, match="only supports 1 dimensional List of String as input for 't'"
    ):
        plan_inputs("m", texts, [spec("t", datatypes.BYTES, (-1,))], batched=True)
    with pytest.raises(
        InferenceError, match="only supports 1 dimensional List of String as output for 't'"
    ):
        plan_outputs("m", [spec("t", datatypes.BYTES, (-1, 2))], batched=False)
