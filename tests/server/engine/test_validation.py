"""What a request must look like, in the words of section 4."""

from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from naiad.config.model_config import ModelConfig, TensorSpec
from naiad.core import datatypes
from naiad.core.request import LATEST, InferRequest, RequestedOutput
from naiad.core.tensor import Tensor
from naiad.engine.validation import RequestValidator
from naiad.errors import ErrorCode, InferenceError
from tests.support.inferences import make_config, make_spec


def config(*inputs: TensorSpec, max_batch_size: int = 8) -> ModelConfig:
    return make_config(max_batch_size=max_batch_size, inputs=inputs, outputs=(make_spec("OUT"),))


def spec(name: str = "IN", *dims: int, **more: Any) -> TensorSpec:
    return TensorSpec(name=name, datatype=datatypes.FP32, dims=dims or (16,), **more)


def tensor(
    name: str, *shape: int, datatype: datatypes.DataType = datatypes.FP32, fault: str | None = None
) -> Tensor:
    return Tensor(name, datatype, shape, np.zeros(shape, datatype.dtype), fault)


def request(*inputs: Tensor, outputs: tuple[str, ...] = (), id: str = "") -> InferRequest:  # noqa: A002 - the protocol's name
    return InferRequest(
        "m", LATEST, id, list(inputs), [RequestedOutput(name) for name in outputs], {}
    )


def refusal(validator: RequestValidator, invalid_request: InferRequest) -> str:
    with pytest.raises(InferenceError) as caught:
        validator.validate(invalid_request)
    assert caught.value.code is ErrorCode.INVALID_ARG
    return caught.value.message


def test_a_valid_request_gives_its_batch_size() -> None:
    validator = RequestValidator(config(spec()))
    for _ in range(2):  # the second time from memory
        assert validator.validate(request(tensor("IN", 3, 16))) == 3
        assert validator.validate(request(tensor("IN", 8, 16))) == 8


def test_without_a_batch_dimension_a_request_counts_one() -> None:
    validator = RequestValidator(config(spec("IN", 16, -1), max_batch_size=0))
    assert validator.validate(request(tensor("IN", 16, 5))) == 1


def test_every_message_begins_with_the_request_id() -> None:
    validator = RequestValidator(config(spec()))
    assert refusal(validator, request(id="r7")).startswith("[request id: r7] ")
    assert refusal(validator, request()).startswith("[request id: <id_unknown>] ")


@pytest.mark.parametrize(
    ("invalid_request", "message"),
    [
        (request(), "expected 1 inputs but got 0 inputs for model 'm'. Got input(s) [], but missing required input(s) ['IN']"),
        (request(tensor("IN", 1, 16), tensor("IN", 1, 16)), "input 'IN' already exists in request"),
        (request(tensor("IN", 1, 16), tensor("X", 1)), "expected 1 inputs but got 2 inputs"),
        (request(tensor("X", 1, 16)), "unexpected inference input 'X' for model 'm'; its inputs are ['IN']"),
        (request(tensor("IN", 1, 16, datatype=datatypes.INT8)), "inference input 'IN' data-type is 'INT8', but model 'm' expects 'FP32'"),
        (request(tensor("IN", 1, 15)), "unexpected shape for input 'IN' for model 'm'. Expected [-1,16], got [1,15]"),
        (request(tensor("IN", 16)), "For one item send [1,16]"),
        (request(tensor("IN", 9, 16)), "inference request batch-size must be <= 8 for 'm', got 9"),
        (request(tensor("IN", 0, 16)), "The batch dimension must be at least 1"),
        (request(tensor("IN")), "input 'IN' has no shape but model requires batch dimension for 'm'"),
        (request(tensor("IN", 1, 16), outputs=("NO",)), "unexpected inference output 'NO' for model 'm'; its outputs are ['OUT']"),
        (request(tensor("IN", 1, 16), outputs=("OUT", "OUT")), "output 'OUT' already exists in request"),
        (request(tensor("IN", 1, 16, fault="input byte size mismatch for input 'IN' for model 'm'. Expected 64, got 8")), "input byte size mismatch for input 'IN' for model 'm'. Expected 64, got 8"),
    ],
)  # fmt: skip
def test_an_invalid_request_is_refused_with_a_message(
    invalid_request: InferRequest, message: str
) -> None:
    assert message in refusal(RequestValidator(config(spec())), invalid_request)


def test_a_remembered_shape_does_not_hide_a_fault() -> None:
    validator = RequestValidator(config(spec()))
    validator.validate(request(tensor("IN", 1, 16)))
    assert "too short" in refusal(validator, request(tensor("IN", 1, 16, fault="too short")))


def test_the_shape_is_checked_before_the_byte_size() -> None:
    validator = RequestValidator(config(spec()))
    assert "unexpected shape" in refusal(validator, request(tensor("IN", 1, 15, fault="too short")))


def test_two_inputs_must_agree_on_the_batch() -> None:
    validator = RequestValidator(config(spec("A"), spec("B")))
    validator.validate(request(tensor("A", 2, 16), tensor("B", 2, 16)))
    validator.validate(request(tensor("A", 3, 16), tensor("B", 3, 16)))
    message = refusal(validator, request(tensor("A", 2, 16), tensor("B", 3, 16)))
    assert "input 'B' batch size does not match other inputs for 'm'" in message


def test_the_same_input_twice_is_refused_even_when_both_fit() -> None:
    validator = RequestValidator(config(spec("A"), spec("B", optional=True)))
    validator.validate(request(tensor("A", 1, 16), tensor("B", 1, 16)))
    message = refusal(validator, request(tensor("A", 1, 16), tensor("A", 1, 16)))
    assert "input 'A' already exists in request" in message


def test_optional_inputs_may_be_left_out() -> None:
    validator = RequestValidator(config(spec("A"), spec("B", optional=True)))
    assert validator.validate(request(tensor("A", 1, 16))) == 1
    assert "expected number of inputs between 1 and 2 but got 0" in refusal(validator, request())
    assert "missing required input(s) ['A']" in refusal(validator, request(tensor("B", 1, 16)))


def test_a_required_input_is_missed_whatever_was_accepted_before() -> None:
    validator = RequestValidator(
        config(spec("A"), spec("B", optional=True), spec("C", optional=True))
    )
    for names in ("A", "AB", "AC", "ABC"):
        assert validator.validate(request(*(tensor(name, 2, 16) for name in names))) == 2
    for names in ("B", "C", "BC"):
        for _ in range(2):
            message = refusal(validator, request(*(tensor(name, 2, 16) for name in names)))
            assert "missing required input(s) ['A']" in message
    for names in ("A", "AB", "AC", "ABC"):
        assert validator.validate(request(*(tensor(name, 2, 16) for name in names))) == 2


def test_a_shape_tensor_does_not_tell_the_batch_size_of_a_later_request() -> None:
    validator = RequestValidator(
        config(spec("A", optional=True), spec("S", 2, is_shape_tensor=True, optional=True))
    )
    assert validator.validate(request(tensor("A", 3, 16), tensor("S", 2))) == 3
    assert validator.validate(request(tensor("S", 2))) == 1


def test_all_inputs_optional_and_none_sent_is_a_batch_of_one() -> None:
    assert RequestValidator(config(spec("A", optional=True))).validate(request()) == 1


def test_reshape_changes_what_the_backend_sees() -> None:
    validator = RequestValidator(config(spec("IN", -1, 4, reshape=(2, -1, 2))))
    sent = request(tensor("IN", 3, 5, 4))
    validator.validate(sent)
    assert validator.has_reshape
    inner = validator.reshaped(sent).inputs[0]
    assert inner.shape == (3, 2, 5, 2)
    assert inner.array.shape == (3, 2, 5, 2)


def test_memory_of_shapes_is_bounded() -> None:
    validator = RequestValidator(config(spec("IN", -1)))
    for size in range(1, 1000):
        assert validator.validate(request(tensor("IN", 1, size))) == 1
    assert len(validator._rules["IN"].accepted) == 256


def test_the_error_of_too_many_inputs_names_those_that_the_model_lacks() -> None:
    validator = RequestValidator(config(spec("IN", 16)))
    message = refusal(validator, request(tensor("IN", 1, 16), tensor("X", 1)))
    assert message.endswith("The model has no input(s) ['X']: leave them out.")
    assert "leave them out" not in refusal(validator, request())


def test_a_model_whose_config_lists_no_tensors_is_said_to_need_a_config() -> None:
    validator = RequestValidator(make_config(max_batch_size=0, inputs=(), outputs=()))
    message = refusal(validator, request(tensor("X", 1)))
    assert "expected 0 inputs but got 1 inputs for model 'm'" in message
    assert "write its inputs and outputs into config.pbtxt" in message
    assert "leave them out" not in message


class Counted(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    comparisons = 0

    @override
    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("count", [1_000, 20_000])
def test_the_work_on_names_grows_with_their_number_and_no_faster(count: int) -> None:
    outputs = tuple(Counted(f"o{number}") for number in range(count))
    inputs = tuple(tensor(Counted(f"i{number}"), 1, 16) for number in range(count))
    Counted.comparisons = 0
    many = RequestValidator(config(*[spec(Counted(f"m{number}")) for number in range(count)]))
    repeated = request(*inputs[:1], outputs=(*outputs, Counted(outputs[-1])))
    assert "already exists in request" in refusal(many, repeated)
    assert f"expected {count} inputs" in refusal(many, request(*inputs[1:]))
    assert Counted.comparisons < 10 * count
