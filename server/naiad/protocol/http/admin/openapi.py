"""The API's description: what it shows of each operation, with schemas and examples; data only. Infer itself never uses them."""

import re
import typing

import msgspec

from naiad.core import datatypes
from naiad.protocol.http.paths import ApiPath

Schema = dict[str, typing.Any]

DATATYPES = list(datatypes.BY_NAME)

OBJECT: Schema = {"type": "object"}
_STRING: Schema = {"type": "string"}
_BOOLEAN: Schema = {"type": "boolean"}
_INTEGER: Schema = {"type": "integer"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_SHAPE: Schema = {"type": "array", "items": _COUNT}
_DATA: Schema = {
    "type": "array",
    "items": {},
    "description": "The elements in row-major order, flat or nested.",
}
_SCALAR: Schema = {"type": ["string", "number", "boolean"]}


def _object(*required: str, **properties: Schema) -> Schema:
    """An object with these properties, some of them required."""
    needed = {"required": list(required)} if required else {}
    return {"type": "object", **needed, "properties": properties}


_TENSOR = {
    "name": _STRING,
    "shape": _SHAPE,
    "datatype": {**_STRING, "enum": DATATYPES},
    "data": _DATA,
}

_PARAMETERS: Schema = {
    "type": "object",
    "additionalProperties": _SCALAR,
    "properties": {
        "priority": _COUNT,
        "timeout": {**_COUNT, "description": "Microseconds it may wait in the queue."},
        "sequence_id": {"type": ["integer", "string"]},
        "sequence_start": _BOOLEAN,
        "sequence_end": _BOOLEAN,
        "binary_data_output": {
            **_BOOLEAN,
            "description": "Send outputs that are not listed as binary data.",
        },
    },
}
_BYTES_BEHIND = {
    **_COUNT,
    "description": "Instead of data: the tensor's bytes follow behind the JSON.",
}

INFER_REQUEST = _object(
    "inputs",
    id=_STRING,
    parameters=_PARAMETERS,
    inputs={
        "type": "array",
        "items": _object(
            "name",
            "shape",
            "datatype",
            **_TENSOR,
            parameters=_object(binary_data_size=_BYTES_BEHIND),
        ),
    },
    outputs={
        "type": "array",
        "description": "Leave it out for all outputs.",
        "items": _object("name", name=_STRING, parameters=_object(binary_data=_BOOLEAN)),
    },
)

INFER_REQUEST_EXAMPLE: Schema = {
    "id": "my-request",
    "inputs": [
        {"name": "INPUT0", "shape": [1, 4], "datatype": "FP32", "data": [1.0, 2.0, 3.0, 4.0]}
    ],
    "outputs": [{"name": "OUTPUT0"}],
}

INFER_RESPONSE = _object(
    "model_name",
    "model_version",
    "outputs",
    id=_STRING,
    model_name=_STRING,
    model_version=_STRING,
    parameters={"type": "object", "additionalProperties": _SCALAR},
    outputs={
        "type": "array",
        "items": _object(
            "name", "datatype", "shape", **_TENSOR, parameters=_object(binary_data_size=_INTEGER)
        ),
    },
)

INFER_RESPONSE_EXAMPLE: Schema = {
    "id": "my-request",
    "model_name": "my_model",
    "model_version": "1",
    "outputs": [
        {"name": "OUTPUT0", "datatype": "FP32", "shape": [1, 4], "data": [2.0, 3.0, 4.0, 5.0]}
    ],
}

INDEX_REQUEST = _object(
    ready=_BOOLEAN,
    memory={
        "type": "boolean",
        "description": "Naiad's own: whether entries have `memory_usage`, what loading the version took.",
    },
)
INDEX_RESPONSE: Schema = {"type": "array", "items": OBJECT}
LOAD_PROGRESS_EXAMPLE: Schema = {
    "loads": [
        {
            "name": "my_model",
            "phase": "fetching",
            "bytes_done": 300_000_000,
            "bytes_total": 1_200_000_000,
            "elapsed_seconds": 2.5,
        },
        {
            "name": "warm",
            "version": "1",
            "phase": "warming",
            "warmups_begun": 3,
            "warmups_total": 10,
            "elapsed_seconds": 1.2,
        },
        {"name": "other", "version": "1", "phase": "loaded", "elapsed_seconds": 0.8},
    ]
}

LOAD_REQUEST = _object(
    parameters={
        "type": "object",
        "description": "`config` and `file:<path>` will stand here; this version of the server refuses them.",
    }
)
UNLOAD_REQUEST = _object(parameters=_object(unload_dependents=_BOOLEAN))
CONTROL_NOTE = "Needs `--model-control-mode=explicit`; answers 503 otherwise."

ERROR = _object("error", error=_STRING)

BINARY_NOTE = (
    "The body is JSON. Binary tensors may follow behind it, in the order of the inputs that have a `binary_data_size`; the "
    "header `Inference-Header-Content-Length` then says how long the JSON is, in the reply too. With that header 0, or an "
    "empty body, the whole body is the model's only input."
)


def content(schema: Schema, example: typing.Any = None) -> Schema:
    """A JSON body of a schema, as OpenAPI writes it."""
    body: Schema = {"schema": schema}
    if example is not None:
        body["example"] = example
    return {"application/json": body}


def answers(
    *statuses: int, ok: Schema | None = None, example: typing.Any = None
) -> dict[int | str, Schema]:
    """The replies of an operation: errors with these statuses, and a 200 of the schema `ok`; None when its body is empty."""
    good: Schema = {"description": "OK"}
    if ok is not None:
        good["content"] = content(ok, example)
    replies: dict[int | str, Schema] = {200: good}
    for status in statuses:
        replies[status] = {"description": _MEANINGS[status], "content": content(ERROR)}
    return replies


_MEANINGS = {
    400: "The request is wrong; the message says what to send instead.",
    404: "There is no such model, version or region.",
    500: "Malformed JSON, or the model failed.",
    501: "This server does not do that.",
    503: "Not now: the model is not ready, a queue is full or a timeout expired.",
}

GENERATE_NOTE = (
    "The body is one flat JSON object: a key that is an input's name holds a value or a flat list for that input, any other key is a "
    "parameter of the request, and `id` is the request's id."
)
GENERATE_EXAMPLE: Schema = {"text_input": "Hello", "max_tokens": 8}
GENERATE_ANSWERS = answers(
    400, 404, 500, 503, ok=OBJECT, example={"model_name": "m", "model_version": "1", "text": "Hi"}
)
EVENTS_ANSWERS = answers(400, 404, 500, 503)
EVENTS_ANSWERS[200] = {
    "description": "Each response as an event, `data: <JSON>`, while the model makes them.",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}

PREDICT_NOTE = (
    "KServe's v1. `instances` has a row per element: an object of named tensors, or a value for a model with one input; `inputs` has whole tensors. Bytes are "
    '`{"b64": "…"}`. The response has `predictions` for rows and `outputs` for tensors.'
)
EXPLAIN_NOTE = "KServe's v1. The model that the parameter `naiad.explainer` of the model's config names responds; rows are `explanations`."
_PREDICT_BODY: Schema = {
    "required": True,
    "content": content(
        _object(signature_name=_STRING, instances={"type": "array", "items": {}}, inputs={}),
        {"instances": [{"INPUT0": [1.0, 2.0, 3.0, 4.0]}]},
    ),
}


class Operation(msgspec.Struct, frozen=True):
    """What the description shows of an operation: its group, texts in Markdown, replies by status, and JSON body, as OpenAPI writes it."""

    tag: str
    summary: str
    responses: dict[int | str, Schema]
    note: str = ""
    body: Schema | None = None


def _body(schema: Schema, example: typing.Any = None, *, required: bool = False) -> Schema:
    return {"required": required, "content": content(schema, example)}


_OF_MODEL = answers(400, 404, 503, ok=OBJECT)
_GENERATE_BODY = _body(OBJECT, GENERATE_EXAMPLE, required=True)
_CONTROL_ANSWERS = answers(400, 500, 501, 503)

OPERATIONS: dict[str, Operation] = {
    "server_live": Operation("health", "Does the process serve?", answers(400, 503)),
    "server_ready": Operation("health", "Are all models ready?", answers(400, 503)),
    "model_ready": Operation("health", "Is the model ready?", answers(400, 404, 503)),
    "infer": Operation(
        "inference",
        "Run a model",
        answers(400, 404, 500, 501, 503, ok=INFER_RESPONSE, example=INFER_RESPONSE_EXAMPLE),
        BINARY_NOTE,
        _body(INFER_REQUEST, INFER_REQUEST_EXAMPLE, required=True),
    ),
    "generate": Operation(
        "inference", "Run a model with flat JSON", GENERATE_ANSWERS, GENERATE_NOTE, _GENERATE_BODY
    ),
    "generate_stream": Operation(
        "inference",
        "Run a model and stream its responses",
        EVENTS_ANSWERS,
        GENERATE_NOTE,
        _GENERATE_BODY,
    ),
    "predict": Operation(
        "inference",
        "Run a model with rows or columns",
        answers(
            400, 404, 500, 501, 503, ok=OBJECT, example={"predictions": [[2.0, 3.0, 4.0, 5.0]]}
        ),
        PREDICT_NOTE,
        _PREDICT_BODY,
    ),
    "explain": Operation(
        "inference",
        "Explain a model's predictions",
        answers(400, 404, 500, 501, 503, ok=OBJECT, example={"explanations": [[0.5, 0.5]]}),
        EXPLAIN_NOTE,
        _PREDICT_BODY,
    ),
    "v1_model_ready": Operation(
        "health", "Is the model ready, as KServe's v1 asks?", answers(404, 503, ok=OBJECT)
    ),
    "v1_models": Operation("repository", "The models that are ready", answers(ok=OBJECT)),
    "server_metadata": Operation(
        "metadata", "The server's name, version, extensions", answers(ok=OBJECT)
    ),
    "all_statistics": Operation("statistics", "Counters of all models", answers(ok=OBJECT)),
    "model_metadata": Operation("metadata", "The model's inputs and outputs", _OF_MODEL),
    "model_config": Operation("metadata", "The model's whole config", _OF_MODEL),
    "model_graph": Operation("statistics", "The steps of an ensemble and their times", _OF_MODEL),
    "model_queue": Operation("statistics", "What waits, and for how long", _OF_MODEL),
    "model_statistics": Operation("statistics", "The model's counters", _OF_MODEL),
    "index": Operation(
        "repository",
        "Models, versions and their states",
        answers(400, 500, ok=INDEX_RESPONSE),
        body=_body(INDEX_REQUEST, {"ready": True}),
    ),
    "load_progress": Operation(
        "repository",
        "What each load does now, and how the last ones ended",
        answers(ok=OBJECT, example=LOAD_PROGRESS_EXAMPLE),
        "Naiad's own. `phase` is waiting, fetching, agents, reading_config or loading; loaded or failed once the load has ended.",
    ),
    "load": Operation(
        "repository",
        "Load a model, or reload it",
        _CONTROL_ANSWERS,
        CONTROL_NOTE,
        _body(LOAD_REQUEST),
    ),
    "unload": Operation(
        "repository", "Unload a model", _CONTROL_ANSWERS, CONTROL_NOTE, _body(UNLOAD_REQUEST)
    ),
}
"""Operations that the server does; others are not described, nor are paths with a repository, which Triton ignores."""


def operation_of(path: ApiPath) -> Operation | None:
    """What the description shows of a path; None for a path that it leaves out."""
    return None if "{repository}" in path.template else OPERATIONS.get(path.operation)


def extra_of(path: ApiPath, operation: Operation) -> Schema:
    """The parameters of a path and its body, as OpenAPI writes them."""
    extra: Schema = {
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"{(\w+)}", path.template)
        ]
    }
    if operation.body is not None:
        extra["requestBody"] = operation.body
    return extra
