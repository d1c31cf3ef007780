"""Metadata, statistics and the index as JSON values, in Triton's order of members. Pure.

Metadata (rows 2.13-2.16), statistics (rows 8.1-8.7), the repository index (rows 7.1-7.3).
"""

import collections.abc
import typing

from naiad.engine.api import (
    IndexEntry,
    ModelMetadata,
    ModelVersionStatistics,
    ServerMetadata,
    TensorMetadata,
)
from naiad.errors import invalid
from naiad.protocol import durations
from naiad.protocol.durations import Durations
from naiad.protocol.http.codec.json_document import parse

Json = dict[str, typing.Any]


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
        # Empty unless the backend reports its memory (row 8.7): none does yet.
        "memory_usage": [],
    }


def _json_of(counters: Durations) -> Json:
    return {name: {"count": count, "ns": ns} for name, (count, ns) in counters.items()}


def wants_ready_only(body: bytes) -> bool:
    """Whether the optional body of POST /v2/repository/index selects the models that are ready (row 7.1).

    Raises:
        InferenceError: INTERNAL for a body that is not JSON, INVALID_ARG for a `ready` that is not a boolean.
    """
    if not body:
        return False
    members = parse(body)
    ready = members.get("ready", False) if isinstance(members, dict) else False
    if not isinstance(ready, bool):
        raise invalid(
            "Invalid value for 'ready': expected a boolean: send {\"ready\": true} for the models that are ready, or no body "
            "for all of them"
        )
    return ready


def index(entries: collections.abc.Iterable[IndexEntry]) -> list[Json]:
    """POST /v2/repository/index (rows 7.2, 7.3); a model that was never loaded has only a name."""
    return [_entry(entry) for entry in entries]


def _entry(entry: IndexEntry) -> Json:
    written: Json = {"name": entry.name}
    if entry.version is not None:
        written["version"] = str(entry.version)
    if entry.state:
        written["state"] = entry.state
    if entry.reason:
        written["reason"] = entry.reason
    return written
