"""The API's description: what it shows of each operation, with schemas and examples; data only. Infer itself never uses them."""

import re
import typing

import msgspec

from naiad.protocol.http.paths import ApiPath

Schema = dict[str, typing.Any]

DATATYPES = [
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64",
    "FP16", "FP32", "FP64", "BF16", "BYTES",
]  # fmt: skip

_SHAPE: Schema = {"type": "array", "items": {"type": "integer", "minimum": 0}}
_DATA: Schema = {
    "type": "array",
    "items": {},
    "description": "The elements in row-major order, flat or nested.",
}
_SCALAR: Schema = {"type": ["string", "number", "boolean"]}

_PARAMETERS: Schema = {
    "type": "object",
    "additionalProperties": _SCALAR,
    "properties": {
        "priority": {"type": "integer", "minimum": 0},
        "timeout": {
            "type": "integer",
            "minimum": 0,
            "description": "Microseconds it may wait in the queue.",
        },
        "sequence_id": {"type": ["integer", "string"]},
        "sequence_start": {"type": "boolean"},
        "sequence_end": {"type": "boolean"},
        "binary_data_output": {
            "type": "boolean",
            "description": "Send outputs that are not listed as binary data.",
        },
    },
}

INFER_REQUEST: Schema = {
    "type": "object",
    "required": ["inputs"],
    "properties": {
        "id": {"type": "string"},
        "parameters": _PARAMETERS,
        "inputs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "shape", "datatype"],
                "properties": {
                    "name": {"type": "string"},
                    "shape": _SHAPE,
                    "datatype": {"type": "string", "enum": DATATYPES},
                    "data": _DATA,
                    "parameters": {
                        "type": "object",
                        "properties": {
                            "binary_data_size": {
                                "type": "integer",
                                "minimum": 0,
                                "description": "Instead of data: the tensor's bytes follow behind the JSON.",
                            },
                        },
                    },
                },
            },
        },
        "outputs": {
            "type": "array",
            "description": "Leave it out for all outputs.",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "parameters": {
                        "type": "object",
                        "properties": {"binary_data": {"type": "boolean"}},
                    },
                },
            },
        },
    },
}

INFER_REQUEST_EXAMPLE: Schema = {
    "id": "my-request",
    "inputs": [
        {"name": "INPUT0", "shape": [1, 4], "datatype": "FP32", "data": [1.0, 2.0, 3.0, 4.0]}
    ],
    "outputs": [{"name": "OUTPUT0"}],
}

INFER_RESPONSE: Schema = {
    "type": "object",
    "required": ["model_name", "model_version", "outputs"],
    "properties": {
        "id": {"type": "string"},
        "model_name": {"type": "string"},
        "model_version": {"type": "string"},
        "parameters": {"type": "object", "additionalProperties": _SCALAR},
        "outputs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "datatype", "shape"],
                "properties": {
                    "name": {"type": "string"},
                    "datatype": {"type": "string", "enum": DATATYPES},
                    "shape": _SHAPE,
                    "data": _DATA,
                    "parameters": {
                        "type": "object",
                        "properties": {"binary_data_size": {"type": "integer"}},
                    },
                },
            },
        },
    },
}

INFER_RESPONSE_EXAMPLE: Schema = {
    "id": "my-request",
    "model_name": "my_model",
    "model_version": "1",
    "outputs": [
        {"name": "OUTPUT0", "datatype": "FP32", "shape": [1, 4], "data": [2.0, 3.0, 4.0, 5.0]}
    ],
}

OBJECT: Schema = {"type": "object"}
INDEX_REQUEST: Schema = {"type": "object", "properties": {"ready": {"type": "boolean"}}}
INDEX_RESPONSE: Schema = {"type": "array", "items": OBJECT}

LOAD_REQUEST: Schema = {
    "type": "object",
    "properties": {
        "parameters": {
            "type": "object",
            "description": "`config` and `file:<path>` will stand here; this version of the server refuses them.",
        }
    },
}
UNLOAD_REQUEST: Schema = {
    "type": "object",
    "properties": {
        "parameters": {
            "type": "object",
            "properties": {"unload_dependents": {"type": "boolean"}},
        }
    },
}
CONTROL_NOTE = "Needs `--model-control-mode=explicit`; answers 503 otherwise."

ERROR: Schema = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string"}},
}

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


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """What the description shows of an operation: its group, texts in Markdown, replies by status, and JSON body, as OpenAPI writes it."""

    tag: str
    summary: str
    note: str = ""
    responses: dict[int | str, Schema]
    body: Schema | None = None
    body_required: bool = False


_OF_MODEL = answers(400, 404, 503, ok=OBJECT)
_GENERATE_BODY = content(OBJECT, GENERATE_EXAMPLE)

OPERATIONS: dict[str, Operation] = {
    "server_live": Operation(
        tag="health", summary="Does the process serve?", responses=answers(400, 503)
    ),
    "server_ready": Operation(
        tag="health", summary="Are all models ready?", responses=answers(400, 503)
    ),
    "model_ready": Operation(
        tag="health", summary="Is the model ready?", responses=answers(400, 404, 503)
    ),
    "infer": Operation(
        tag="inference",
        summary="Run a model",
        note=BINARY_NOTE,
        responses=answers(
            400, 404, 500, 501, 503, ok=INFER_RESPONSE, example=INFER_RESPONSE_EXAMPLE
        ),
        body=content(INFER_REQUEST, INFER_REQUEST_EXAMPLE),
        body_required=True,
    ),
    "generate": Operation(
        tag="inference",
        summary="Run a model with flat JSON",
        note=GENERATE_NOTE,
        responses=GENERATE_ANSWERS,
        body=_GENERATE_BODY,
        body_required=True,
    ),
    "generate_stream": Operation(
        tag="inference",
        summary="Run a model and stream its responses",
        note=GENERATE_NOTE,
        responses=EVENTS_ANSWERS,
        body=_GENERATE_BODY,
        body_required=True,
    ),
    "server_metadata": Operation(
        tag="metadata",
        summary="The server's name, version, extensions",
        responses=answers(ok=OBJECT),
    ),
    "all_statistics": Operation(
        tag="statistics", summary="Counters of all models", responses=answers(ok=OBJECT)
    ),
    "model_metadata": Operation(
        tag="metadata", summary="The model's inputs and outputs", responses=_OF_MODEL
    ),
    "model_config": Operation(
        tag="metadata", summary="The model's whole config", responses=_OF_MODEL
    ),
    "model_statistics": Operation(
        tag="statistics", summary="The model's counters", responses=_OF_MODEL
    ),
    "index": Operation(
        tag="repository",
        summary="Models, versions and their states",
        responses=answers(400, 500, ok=INDEX_RESPONSE),
        body=content(INDEX_REQUEST, {"ready": True}),
    ),
    "load": Operation(
        tag="repository",
        summary="Load a model, or reload it",
        note=CONTROL_NOTE,
        responses=answers(400, 500, 501, 503),
        body=content(LOAD_REQUEST),
    ),
    "unload": Operation(
        tag="repository",
        summary="Unload a model",
        note=CONTROL_NOTE,
        responses=answers(400, 500, 501, 503),
        body=content(UNLOAD_REQUEST),
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
        extra["requestBody"] = {"required": operation.body_required, "content": operation.body}
    return extra
