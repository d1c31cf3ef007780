import numpy as np
import pytest

from naiad.core.datatypes import BYTES, FP32, DataType
from naiad.core.tensor import Tensor
from naiad.engine.api import ModelTraits, TensorMetadata
from naiad.errors import ErrorCode, InferenceError
from naiad.protocol.http.codec import raw_request
from naiad.protocol.http.codec.infer_json import Target
from naiad.protocol.http.codec.reply_json import ALL_BINARY


def traits_of(*dims: int, datatype: DataType = FP32, batch: int = 0, count: int = 1) -> ModelTraits:
    inputs = tuple(
        TensorMetadata(name=f"IN{i}", datatype=datatype, shape=dims) for i in range(count)
    )
    return ModelTraits(decoupled=False, max_batch_size=batch, inputs=inputs)


def decode(body: bytes, traits: ModelTraits, *, limit: int = 1000) -> Tensor:
    decoded = raw_request.decode(body, traits, Target("m", -1, limit))
    assert decoded.form is ALL_BINARY
    (only,) = decoded.request.inputs
    return only


def refused(body: bytes, traits: ModelTraits, *, limit: int = 1000) -> InferenceError:
    with pytest.raises(InferenceError) as caught:
        decode(body, traits, limit=limit)
    assert caught.value.code is ErrorCode.INVALID_ARG
    return caught.value


BODY = np.arange(6, dtype=np.float32).tobytes()


@pytest.mark.parametrize(
    ("traits", "dims"),
    [
        (traits_of(2, 3), (2, 3)),
        (traits_of(2, 3, batch=8), (1, 2, 3)),
        (traits_of(-1, 3), (2, 3)),
        (traits_of(2, -1, batch=8), (1, 2, 3)),
        (traits_of(-1), (6,)),
    ],
)
def test_the_body_is_the_only_input_in_the_models_shape(
    traits: ModelTraits, dims: tuple[int, ...]
) -> None:
    only = decode(BODY, traits)
    assert (only.name, only.shape, only.fault) == ("IN0", dims, None)
    assert only.array.ravel().tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("traits", [traits_of(7), traits_of(-1, 4), traits_of(2, 2)])
def test_a_body_that_does_not_fill_the_shape_is_a_fault(traits: ModelTraits) -> None:
    assert "input byte size mismatch for input 'IN0' for model 'm'" in str(
        decode(BODY, traits).fault
    )


def test_an_empty_body_fills_a_variable_dimension_of_zero() -> None:
    assert decode(b"", traits_of(-1, 3)).array.shape == (0, 3)
    assert "Expected 24, got 0" in str(decode(b"", traits_of(2, 3)).fault)


@pytest.mark.parametrize(("batch", "dims"), [(0, (1,)), (4, (1, 1))])
def test_a_string_model_gets_the_whole_body_as_its_one_string(
    batch: int, dims: tuple[int, ...]
) -> None:
    only = decode(b"any \xff bytes", traits_of(1, datatype=BYTES, batch=batch))
    assert only.shape == dims
    assert only.array.ravel().tolist() == [b"any \xff bytes"]


@pytest.mark.parametrize("dims", [(2,), (-1,), (1, 2)])
def test_a_string_model_of_any_other_shape_is_refused(dims: tuple[int, ...]) -> None:
    message = refused(b"x", traits_of(*dims, datatype=BYTES)).message
    assert "For BYTE datatype raw input 'IN0', the model must have input shape [1]" in message
    assert message.startswith("[request id: <id_unknown>] ")


@pytest.mark.parametrize("count", [0, 2])
def test_a_model_of_several_inputs_is_refused(count: int) -> None:
    message = refused(b"x", traits_of(1, count=count)).message
    assert (
        f"Raw request must only have 1 input (found 1) to be deduced but got {count} inputs in 'm'"
        in message
    )


def test_more_than_one_variable_dimension_is_refused() -> None:
    message = refused(BODY, traits_of(-1, -1)).message
    assert "can not be deduced because there are more than one variable-sized dimension" in message


def test_a_body_longer_than_the_limit_is_refused() -> None:
    message = refused(BODY, traits_of(-1), limit=23).message
    assert (
        "Raw input has a byte_size (24 bytes) that exceeds the maximum allowed value of 23 bytes"
        in message
    )
    assert "Use --http-max-input-size to increase the limit." in message
