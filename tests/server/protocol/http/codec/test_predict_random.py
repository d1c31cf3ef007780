"""Random tensors and random bodies of KServe's v1: what is written is read as it was, and whatever comes is read or refused with 400."""

import json
import math
import typing

import numpy as np
import orjson
from hypothesis import given, strategies as st

from naiad.core.datatypes import ALL, BYTES, DataType, Kind
from naiad.core.response import NO_PARAMETERS, InferResponse
from naiad.core.tensor import Tensor, object_array
from naiad.engine.api import ModelTraits, TensorMetadata
from naiad.errors import ErrorCode, InferenceError
from naiad.protocol.http.codec import predict_json
from naiad.protocol.http.codec.infer_json import Target
from naiad.protocol.http.codec.predict_json import Model, PredictForm, Rows

DIMS = st.lists(st.integers(1, 3), max_size=3)


def model(inputs: dict[str, tuple[DataType, tuple[int, ...]]], *, batch: int) -> Model:
    specs = tuple(
        TensorMetadata(name=name, datatype=datatype, shape=shape)
        for name, (datatype, shape) in inputs.items()
    )
    traits = ModelTraits(decoupled=False, max_batch_size=batch, inputs=specs)
    return Model(traits, Target("m", -1, 1 << 20))


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    """A tensor of a batch, of any datatype, without NaN and infinities, which are written as null."""
    datatype = draw(st.sampled_from(ALL))
    shape = (draw(st.integers(1, 4)), *draw(DIMS))
    count = math.prod(shape)
    if datatype is BYTES:
        values = object_array(draw(st.lists(st.binary(max_size=4), min_size=count, max_size=count)))
        return Tensor("x", datatype, shape, values.reshape(shape))
    raw = draw(st.binary(min_size=8 * count, max_size=8 * count))
    wide = np.frombuffer(raw, np.int64)
    if datatype.kind is Kind.FLOAT:
        array = (wide % 4001 / 16 - 125).astype(datatype.dtype)
    else:
        array = wide.astype(datatype.dtype)
    return Tensor("x", datatype, shape, array.reshape(shape))


@given(
    tensor=tensors(),
    rows=st.sampled_from([Rows.STACKED, Rows.NONE]),
    batches=st.booleans(),
    any_size=st.booleans(),
)
def test_what_is_written_is_read_as_it_was(
    tensor: Tensor, rows: Rows, *, batches: bool, any_size: bool
) -> None:
    response = InferResponse("m", 1, "", [tensor], NO_PARAMETERS)
    member = "instances" if rows is Rows.STACKED else "inputs"
    (written,) = orjson.loads(
        predict_json.encode(response, PredictForm(rows, "predictions"))
    ).values()
    shape = tensor.shape[1:] if batches else tensor.shape
    dims = (-1,) * len(shape) if any_size else shape
    target = model({"x": (tensor.datatype, dims)}, batch=4 if batches else 0)
    (got,) = predict_json.decode(orjson.dumps({member: written}), target, "").request.inputs
    assert (got.shape, got.datatype, got.array.dtype) == (
        tensor.shape,
        tensor.datatype,
        tensor.array.dtype,
    )
    assert got.array.tolist() == tensor.array.tolist()


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=3),
    st.sampled_from([{"b64": "/w=="}, {"b64": 5}, {"b64": "?"}, {}]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)
    ),
    max_leaves=8,
)
ROWS = st.lists(st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=3), max_size=3)
BODIES = st.one_of(
    VALUES,
    st.fixed_dictionaries(
        {}, optional={"instances": VALUES, "inputs": VALUES, "signature_name": VALUES}
    ),
    st.fixed_dictionaries({"instances": ROWS}),
)
INPUTS = st.dictionaries(
    st.sampled_from("xyz"),
    st.tuples(st.sampled_from(ALL), st.lists(st.integers(-1, 2), max_size=3).map(tuple[int, ...])),
    max_size=3,
)


@given(BODIES, INPUTS, st.sampled_from([0, 4]))
def test_whatever_comes_is_read_or_refused(
    body: typing.Any, inputs: dict[str, tuple[DataType, tuple[int, ...]]], batch: int
) -> None:
    refused: InferenceError | None = None
    read: list[Tensor] = []
    try:
        target = model(inputs, batch=batch)
        read = predict_json.decode(json.dumps(body).encode(), target, "").request.inputs
    except InferenceError as error:
        refused = error
    assert refused is None or refused.code is ErrorCode.INVALID_ARG
    assert refused is None or len(refused.message) < 1000
    for tensor in read:
        assert tensor.array.shape == tensor.shape
        assert tensor.array.dtype == tensor.datatype.dtype
