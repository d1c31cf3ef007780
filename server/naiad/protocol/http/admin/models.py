"""The control plane's JSON, in Triton's order of members: metadata, statistics, the index, the bodies of loads and unloads. Pure.

Metadata (rows 2.13-2.16), statistics (rows 8.1-8.7), the repository index (rows 7.1-7.3), load and unload (rows 7.15, 7.16, 7.18, 7.26).
"""

import base64
import binascii
import collections.abc
import typing

import msgspec

from naiad.engine.api import (
    IndexEntry,
    ModelMetadata,
    ModelVersionStatistics,
    ServerMetadata,
    TensorMetadata,
)
from naiad.errors import internal, invalid
from naiad.metrics.memory import MemoryUsage
from naiad.protocol import durations
from naiad.protocol.codec.frames import large_values
from naiad.protocol.durations import Durations
from naiad.protocol.http.codec.json_document import parse

Json = dict[str, typing.Any]
_FILE = "file:"


def server_metadata(metadata: ServerMetadata) -> Json:
    """GET /v2 (row 2.13)."""
    return {
        "name": metadata.name,
        "version": metadata.version,
        "extensions": list(metadata.extensions),
    }


def model_metadata(metadata: ModelMetadata) -> Json:
    """GET /v2/models/MODEL (row 2.15); versions are strings."""
    return {
        "name": metadata.name,
        "versions": [str(version) for version in metadata.versions],
        "platform": metadata.platform,
        "inputs": [_tensor(tensor) for tensor in metadata.inputs],
        "outputs": [_tensor(tensor) for tensor in metadata.outputs],
    }


def _tensor(tensor: TensorMetadata) -> Json:
    return {
        "name": tensor.name,
        "datatype": tensor.datatype.name,
        "shape": list(tensor.shape),
    }


def statistics(entries: collections.abc.Iterable[ModelVersionStatistics]) -> Json:
    """GET …/stats (rows 8.1, 8.2)."""
    return {"model_stats": [_model(entry) for entry in entries]}


def _model(entry: ModelVersionStatistics) -> Json:
    counters = entry.statistics
    return {
        "name": entry.name,
        "version": str(entry.version),
        "last_inference": counters.last_inference_ms,
        "inference_count": counters.inference_count,
        "execution_count": counters.execution_count,
        "inference_stats": _json_of(durations.of_model(counters)),
        "response_stats": {
            str(index): _json_of(durations.of_response(response))
            for index, response in sorted(counters.responses.items())
        },
        "batch_stats": [
            {"batch_size": size, **_json_of(durations.of_batch(batch))}
            for size, batch in sorted(counters.batches.items())
        ],
        "memory_usage": [_memory(usage) for usage in counters.memory],
    }


def _memory(usage: MemoryUsage) -> Json:
    """Memory in Triton's form (row 8.7)."""
    return {"type": usage.type, "id": usage.id, "byte_size": usage.byte_size}


def _json_of(counters: Durations) -> Json:
    return {name: {"count": count, "ns": ns} for name, (count, ns) in counters.items()}


class IndexRequest(msgspec.Struct, frozen=True):
    """The optional body of POST /v2/repository/index.

    Attributes:
        ready: whether only models that are ready are listed (row 7.1).
        memory: whether the entries have what the models take of memory (Naiad's own).
    """

    ready: bool = False
    memory: bool = False


def index_request(body: bytes) -> IndexRequest:
    """Read the body; empty for the defaults.

    Raises:
        InferenceError: INTERNAL for a body that is not JSON, INVALID_ARG for a `ready` or `memory` that is not a boolean.
    """
    members = parse(body) if body else {}
    if not isinstance(members, dict):
        return IndexRequest()
    for name in ("ready", "memory"):
        if not isinstance(members.get(name, False), bool):
            raise invalid(
                f"Invalid value for '{name}': expected a boolean: send {{\"ready\": true}} for the models that are ready, "
                '{"memory": true} to see what they take of memory, or no body'
            )
    return IndexRequest(ready=members.get("ready", False), memory=members.get("memory", False))


def index(entries: collections.abc.Iterable[IndexEntry], *, memory: bool) -> list[Json]:
    """POST /v2/repository/index (rows 7.2, 7.3); a model that was never loaded has only a name."""
    return [_entry(entry, memory=memory) for entry in entries]


def _entry(entry: IndexEntry, *, memory: bool) -> Json:
    written: Json = {"name": entry.name}
    if entry.version is not None:
        written["version"] = str(entry.version)
    if entry.state:
        written["state"] = entry.state
    if entry.reason:
        written["reason"] = entry.reason
    if memory and entry.memory:
        written["memory_usage"] = [
            {**_memory(usage), "estimated": usage.estimated} for usage in entry.memory
        ]
    return written


def load_overrides(body: bytes) -> dict[str, str | bytes]:
    """The parameters of a load: "config" as text, "file:<path>" as the bytes that its base64 means.

    Raises:
        InferenceError: INTERNAL for a body that is not JSON and for a parameter that a load does not take (row 7.18),
            INVALID_ARG for invalid base64.
    """
    overrides: dict[str, str | bytes] = {}
    for name, value in _parameters(body).items():
        if not isinstance(value, str):
            raise internal(
                f"attempt to access JSON non-string as string: load parameter '{name}' must be a string"
            )
        if name == "config":
            overrides[name] = value
        elif name.startswith(_FILE):
            overrides[name] = _decoded(name, value)
        else:
            raise internal(
                f"unexpected error on creating Triton parameter: '{name}' is not a load parameter; those are config and file:<path>"
            )
    return overrides


def large_load_overrides(body: bytes) -> dict[str, typing.Any]:
    """`load_overrides` in a codec process: large values arrive as views, text as its UTF-8."""
    return large_values(load_overrides(body))


def unload_dependents(body: bytes) -> bool:
    """The one parameter of an unload (row 7.26); others have no effect.

    Raises:
        InferenceError: INTERNAL for a body that is not JSON and for a value that is not a boolean.
    """
    value = _parameters(body).get("unload_dependents", False)
    if not isinstance(value, bool):
        raise internal(
            "Unable to parse 'unload_dependents': attempt to access JSON non-boolean as boolean: send true or false"
        )
    return value


def _parameters(body: bytes) -> dict[str, typing.Any]:
    members = parse(body) if body else {}
    parameters = members.get("parameters", {}) if isinstance(members, dict) else {}
    if not isinstance(parameters, dict):
        raise internal(
            "attempt to access JSON non-object as object: 'parameters' must be an object"
        )
    return parameters


def _decoded(name: str, value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        # With line ends, or without padding, as the reference takes it.
        value = "".join(value.split()).rstrip("=")
    try:
        return base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid(f"load parameter '{name}' is not base64: {error}") from None
