"""Requests and responses of KServe's v1, which are those of TensorFlow Serving's REST API: `instances` and `inputs` in, `predictions` and `outputs` out. Pure.

Rows (`instances`) are an object of named tensors each, or a value each for a model with one input; they become a batch. Columns (`inputs`) are whole tensors. A
model that does not batch takes one row, or rows that are its first dimension. A response is written in the form of its request. What a request holds beside
these members has no effect: transformers in front of KServe's predictors send members of their own.
"""

import enum
import typing

import numpy as np
import orjson

from naiad.core.record import Record
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.engine.api import ModelTraits, TensorMetadata
from naiad.errors import ErrorCode, InferenceError, invalid
from naiad.protocol.http.codec import cloud_events, predict_values
from naiad.protocol.http.codec.infer_json import Target
from naiad.protocol.http.codec.json_document import parse
from naiad.protocol.http.codec.json_values import MAX_DEPTH
from naiad.protocol.http.codec.predict_values import B64, Source, depth_of, is_bytes

Json = typing.Any
Members = dict[str, Json]

_ROWS, _COLUMNS = "instances", "inputs"
_FORMS = '{"instances": [row, …]} or {"inputs": …}'
_MOST_NAMES = 8
_LONGEST_NAME = 80


class Rows(enum.IntEnum):
    """What the rows of a request were made, so that those of the response are what they were.

    Attributes:
        NONE: the request had columns.
        STACKED: the first dimension of every tensor.
        WHOLE: the one row is all of every tensor.
    """

    NONE = 0
    STACKED = 1
    WHOLE = 2


class PredictForm(Record, frozen=True):
    """How a response is written.

    Attributes:
        member: of the rows: predictions, or explanations.
    """

    rows: Rows
    member: str


class Predict(Record, frozen=True):
    """A request, and how to write its response."""

    request: InferRequest
    form: PredictForm


class Model(Record, frozen=True):
    """The model that a body is for.

    Attributes:
        member: of the rows of its responses.
    """

    traits: ModelTraits
    target: Target
    member: str = "predictions"


def decode(body: bytes, model: Model, request_id: str) -> Predict:
    """Read a decompressed body.

    Raises:
        InferenceError: INVALID_ARG, whatever is wrong with it.
    """
    root = _parsed(body)
    if type(root) is dict and "specversion" in root and not (_ROWS in root or _COLUMNS in root):
        root = cloud_events.data_of(root)
    if type(root) is not dict:
        raise invalid(f"the request is not a JSON object: send {_FORMS}")
    signature = root.get("signature_name", "")
    if type(signature) is not str:
        raise invalid(
            "'signature_name' is not a string: leave it out, the model's config names the signature"
        )
    rows = _ROWS in root
    if rows and _COLUMNS in root:
        raise invalid(
            "the request has both 'instances' and 'inputs': send rows in 'instances', or whole tensors in 'inputs'"
        )
    if not rows and _COLUMNS not in root:
        members = _listed(list(root)) or "no members"
        raise invalid(
            f"the request has neither 'instances' nor 'inputs': it has {members}; send {_FORMS}"
        )
    reader = _Reader(model)
    form = Rows.NONE
    if rows:
        tensors, form = reader.rows(root[_ROWS])
    else:
        tensors = reader.columns(root[_COLUMNS])
    target = model.target
    request = InferRequest(target.model, target.version, request_id, tensors, [], {})
    return Predict(request, PredictForm(form, model.member))


def _parsed(body: bytes) -> Json:
    try:
        return parse(body)
    except InferenceError as error:
        if error.code is ErrorCode.INTERNAL:
            raise invalid(error.message) from None
        raise invalid(
            f"JSON nesting depth exceeds maximum allowed limit ({MAX_DEPTH}): send as many levels of lists as the tensor has dimensions"
        ) from None


class _Reader:
    """Reads the tensors of a body."""

    def __init__(self, model: Model) -> None:
        self._model = model.target.model
        self._limit = model.target.max_input_size
        self._batches = model.traits.max_batch_size > 0
        self._inputs = {spec.name: spec for spec in model.traits.inputs}

    def rows(self, instances: Json) -> tuple[list[Tensor], Rows]:
        """The tensors of `instances`, and what its rows are."""
        if type(instances) is not list:
            raise invalid("'instances' is not a list: send one element per row, also for one row")
        if not instances:
            raise invalid("'instances' is empty: send one row or more")
        named = self._is_named(instances[0])
        if named:
            columns = self._named_rows(instances)
        else:
            columns = {self._only("instances").name: self._unnamed_rows(instances)}
        form = Rows.STACKED if self._batches else self._form_of(columns, len(instances))
        tensors = [
            self._of_rows(name, values, form, named=named) for name, values in columns.items()
        ]
        return tensors, form

    def columns(self, inputs: Json) -> list[Tensor]:
        """The tensors of `inputs`."""
        if type(inputs) is list and inputs and _is_v2(inputs[0]):
            raise invalid(
                f"'inputs' holds tensors with name, shape and datatype, the form of v2: send them to /v2/models/{self._model}/infer, "
                'or send {"inputs": {"NAME": values}} here'
            )
        if not self._is_named(inputs):
            return [self._column(self._only("inputs"), inputs, named=False)]
        if not inputs:
            raise invalid(f"'inputs' names no tensors: this model has {self._names()}")
        for name in inputs:
            self._known(name, "'inputs'")
        return [
            self._column(self._inputs[name], value, named=True) for name, value in inputs.items()
        ]

    def _is_named(self, value: Json) -> bool:
        """Whether a row, or all columns, are an object of named tensors, and not one that holds bytes."""
        return type(value) is dict and not (is_bytes(value) and B64 not in self._inputs)

    def _named_rows(self, instances: list[Json]) -> dict[str, list[Json]]:
        first = instances[0]
        if not first:
            raise invalid(f"row 0 (instances[0]) names no tensors: this model has {self._names()}")
        names = first.keys()
        for at, row in enumerate(instances):
            if type(row) is dict and row.keys() == names:
                continue
            if not self._is_named(row):
                raise invalid(
                    f"row {at} (instances[{at}]) is not an object, but row 0 is one: send every row as an object of named tensors"
                )
            for name in row:
                self._known(name, f"row {at} (instances[{at}])")
            raise _unequal(at, row, first)
        for name in first:
            self._known(name, "row 0 (instances[0])")
        return {name: [row[name] for row in instances] for name in first}

    def _unnamed_rows(self, instances: list[Json]) -> list[Json]:
        if dict not in set(map(type, instances)):
            return instances
        for at, row in enumerate(instances):
            if self._is_named(row):
                raise invalid(
                    f"row {at} (instances[{at}]) is an object, but row 0 is a value: send every row in one form"
                )
        return instances

    def _form_of(self, columns: dict[str, list[Json]], rows: int) -> Rows:
        """What rows are for a model that does not batch: with one more dimension than their values have, or one row that is everything."""
        missing = set[int]()
        for name, values in columns.items():
            rank = len(self._inputs[name].shape)
            missing.add(rank - depth_of(values[0], rank + 1))
        if missing == {1}:
            return Rows.STACKED
        if rows == 1:
            return Rows.WHOLE
        raise invalid(
            f"'instances' has {rows} rows, but model '{self._model}' does not batch (max_batch_size 0): send one row in a request, "
            "or whole tensors in 'inputs'"
        )

    def _of_rows(self, name: str, values: list[Json], form: Rows, *, named: bool) -> Tensor:
        spec = self._inputs[name]
        if self._batches:
            return predict_values.read(
                values, self._source(spec, spec.shape, rows=True, named=named)
            )
        if form is Rows.STACKED:
            first, *dims = spec.shape
            if first not in (-1, len(values)):
                raise invalid(
                    f"'instances' has {len(values)} rows, which are the first dimension of input '{name}' of shape {list(spec.shape)}, "
                    f"because model '{self._model}' does not batch: send {first} rows"
                )
            return predict_values.read(
                values, self._source(spec, tuple(dims), rows=True, named=named)
            )
        tensor = predict_values.read(values, self._source(spec, spec.shape, rows=True, named=named))
        array = tensor.array[0] if spec.shape else tensor.array.reshape(())
        return Tensor(name, spec.datatype, tensor.shape[1:], array)

    def _column(self, spec: TensorMetadata, value: Json, *, named: bool) -> Tensor:
        dims = (-1, *spec.shape) if self._batches else spec.shape
        return predict_values.read([value], self._source(spec, dims, rows=False, named=named))

    def _source(
        self, spec: TensorMetadata, dims: tuple[int, ...], *, rows: bool, named: bool
    ) -> Source:
        return Source(spec.name, spec.datatype, dims, rows, named, self._limit)

    def _only(self, member: str) -> TensorMetadata:
        """The input that a value without a name is for."""
        if len(self._inputs) == 1:
            return next(iter(self._inputs.values()))
        send = "a row as {…}" if member == _ROWS else '{"inputs": {…}}'
        raise invalid(
            f"'{member}' has values without a name, but model '{self._model}' has {self._names()}: send {send} with the names of the inputs"
        )

    def _known(self, name: str, where: str) -> None:
        if name not in self._inputs:
            raise invalid(
                f"{where} has a tensor '{name[:_LONGEST_NAME]}', which is not an input of model '{self._model}': it has {self._names()}"
            )

    def _names(self) -> str:
        count = len(self._inputs)
        return (
            f"{count} input{'' if count == 1 else 's'}: {_listed(list(self._inputs))}"
            if count
            else "no inputs"
        )


def _unequal(at: int, row: Members, first: Members) -> InferenceError:
    missing, more = (
        [each for each in first if each not in row],
        [each for each in row if each not in first],
    )
    differs = f"lacks {_listed(missing)}" if missing else f"also has {_listed(more)}"
    return invalid(
        f"row {at} (instances[{at}]) {differs}: row 0 has {_listed(list(first))}; send the same tensors in every row"
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(f"'{name[:_LONGEST_NAME]}'" for name in names[:_MOST_NAMES]) + more


def _is_v2(value: Json) -> bool:
    return type(value) is dict and "name" in value and ("data" in value or "datatype" in value)


def encode(response: InferResponse, form: PredictForm) -> bytes:
    """A successful response as JSON. The name of an output is left out where there is only one, as in TensorFlow Serving.

    Raises:
        InferenceError: INVALID_ARG: rows were asked for, and the outputs have none.
    """
    outputs = response.outputs
    if form.rows is Rows.STACKED:
        member, value = form.member, _stacked(outputs, response.model_name)
    else:
        values = {tensor.name: predict_values.write(tensor) for tensor in outputs}
        whole: Json = next(iter(values.values())) if len(values) == 1 else values
        member, value = ("outputs", whole) if form.rows is Rows.NONE else (form.member, [whole])
    return orjson.dumps({member: value}, None, orjson.OPT_SERIALIZE_NUMPY)


def _stacked(outputs: list[Tensor], model: str) -> Json:
    """Outputs row by row."""
    counts = {tensor.shape[0] if tensor.shape else None for tensor in outputs}
    if len(counts) > 1 or None in counts:
        shapes = ", ".join(f"'{tensor.name}' {list(tensor.shape)}" for tensor in outputs)
        raise invalid(
            f"the outputs of model '{model}' have no common rows, because their first dimensions differ: {shapes}; send the tensors in 'inputs', "
            "not in 'instances'"
        )
    values = [predict_values.write(tensor) for tensor in outputs]
    if len(values) == 1:
        return values[0]
    names = [tensor.name for tensor in outputs]
    return [dict(zip(names, row, strict=True)) for row in zip(*map(_items, values), strict=True)]


def _items(value: Json) -> list[Json]:
    """The rows of a list, or of an array: numbers of a row of one dimension as Python's."""
    if type(value) is np.ndarray and value.ndim == 1:
        return value.tolist()  # type: ignore[no-any-return]  # numpy says Any
    return list(value)
