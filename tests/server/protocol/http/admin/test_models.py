import typing

import pytest

from naiad.core.datatypes import BYTES, FP32
from naiad.engine.api import (
    IndexEntry,
    ModelMetadata,
    ModelVersionStatistics,
    ServerMetadata,
    TensorMetadata,
)
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.metrics.memory import MemoryUsage
from naiad.metrics.statistics import BatchTiming, ModelStatistics
from naiad.protocol.http.admin import models


def test_server_metadata_has_name_version_and_extensions() -> None:
    metadata = ServerMetadata(name="triton", version="1.2", extensions=("a", "b"))
    assert list(models.server_metadata(metadata).items()) == [
        ("name", "triton"),
        ("version", "1.2"),
        ("extensions", ["a", "b"]),
    ]


def test_model_metadata_writes_versions_as_strings() -> None:
    tensor = TensorMetadata(name="IN", datatype=FP32, shape=(-1, 4))
    output = TensorMetadata(name="OUT", datatype=BYTES, shape=(1,))
    metadata = ModelMetadata(
        name="m", versions=(1, 3), platform="python", inputs=(tensor,), outputs=(output,)
    )
    assert list(models.model_metadata(metadata).items()) == [
        ("name", "m"),
        ("versions", ["1", "3"]),
        ("platform", "python"),
        ("inputs", [{"name": "IN", "datatype": "FP32", "shape": [-1, 4]}]),
        ("outputs", [{"name": "OUT", "datatype": "BYTES", "shape": [1]}]),
    ]


MEMORY = (
    MemoryUsage(type="CPU", id=0, byte_size=1200, estimated=True),
    MemoryUsage(type="GPU", id=1, byte_size=3400, estimated=False),
)


def counted() -> models.Json:
    counters = ModelStatistics()
    timing = BatchTiming(compute_input_ns=1, compute_infer_ns=20, compute_output_ns=3)
    counters.record_successes(rows=2, request_ns=[100], queue_ns=[40], timing=timing)
    counters.record_successes(rows=1, request_ns=[50], queue_ns=[4], timing=timing)
    counters.record_failure(reason=FailureReason.BACKEND, request_ns=7)
    counters.record_execution(batch_size=3, timing=timing, wall_ms=1234)
    counters.record_execution(batch_size=1, timing=timing, wall_ms=1235)
    counters.memory = MEMORY
    entry = ModelVersionStatistics(name="m", version=2, statistics=counters)
    (only,) = models.statistics([entry])["model_stats"]
    assert isinstance(only, dict)
    return only


def test_statistics_have_tritons_members_in_tritons_order() -> None:
    assert list(counted()) == [
        "name", "version", "last_inference", "inference_count", "execution_count", "inference_stats", "response_stats",
        "batch_stats", "memory_usage",
    ]  # fmt: skip
    assert list(counted()["inference_stats"]) == [
        "success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss",
    ]  # fmt: skip


def test_statistics_keep_the_identities_of_row_8_4() -> None:
    entry = counted()
    assert (entry["name"], entry["version"], entry["last_inference"]) == ("m", "2", 1235)
    assert (entry["inference_count"], entry["execution_count"]) == (3, 2)
    assert entry["inference_stats"] == {
        "success": {"count": 2, "ns": 150},
        "fail": {"count": 1, "ns": 7},
        "queue": {"count": 2, "ns": 44},
        "compute_input": {"count": 2, "ns": 2},
        "compute_infer": {"count": 2, "ns": 40},
        "compute_output": {"count": 2, "ns": 6},
        "cache_hit": {"count": 0, "ns": 0},
        "cache_miss": {"count": 0, "ns": 0},
    }
    assert entry["response_stats"] == {}
    assert entry["memory_usage"] == [
        {"type": "CPU", "id": 0, "byte_size": 1200},
        {"type": "GPU", "id": 1, "byte_size": 3400},
    ]


def test_responses_are_counted_by_their_place() -> None:
    counters = ModelStatistics()
    counters.response(10).record(5, failed=False, empty=True, cancelled=False)
    first = counters.response(2)
    first.record(7, failed=False, empty=False, cancelled=False)
    first.record(8, failed=True, empty=True, cancelled=False)
    first.record(9, failed=True, empty=True, cancelled=True)
    entry = ModelVersionStatistics(name="m", version=2, statistics=counters)
    (only,) = models.statistics([entry])["model_stats"]
    assert list(only["response_stats"]) == ["2", "10"]
    assert only["response_stats"]["2"] == {
        "compute_infer": {"count": 2, "ns": 15},
        "compute_output": {"count": 2, "ns": 0},
        "success": {"count": 1, "ns": 7},
        "fail": {"count": 1, "ns": 8},
        "empty_response": {"count": 0, "ns": 0},
        "cancel": {"count": 1, "ns": 9},
    }
    assert only["response_stats"]["10"]["empty_response"] == {"count": 1, "ns": 5}


def test_batch_statistics_are_sorted_by_size() -> None:
    duration = {
        "compute_input": {"count": 1, "ns": 1},
        "compute_infer": {"count": 1, "ns": 20},
        "compute_output": {"count": 1, "ns": 3},
    }
    assert counted()["batch_stats"] == [
        {"batch_size": 1, **duration},
        {"batch_size": 3, **duration},
    ]


def test_an_index_entry_says_only_what_is_known() -> None:
    entries = [
        IndexEntry(name="ready", version=1, state="READY"),
        IndexEntry(name="broken", version=2, state="UNAVAILABLE", reason="no weights"),
        IndexEntry(name="twice", state="UNAVAILABLE", reason="in two repositories"),
        IndexEntry(name="never"),
    ]
    assert models.index(entries, memory=True) == [
        {"name": "ready", "version": "1", "state": "READY"},
        {"name": "broken", "version": "2", "state": "UNAVAILABLE", "reason": "no weights"},
        {"name": "twice", "state": "UNAVAILABLE", "reason": "in two repositories"},
        {"name": "never"},
    ]


def test_an_index_entry_has_the_memory_of_its_version_only_on_request() -> None:
    """Clients that know Triton's members only see no others."""
    entry = IndexEntry(name="m", version=1, state="READY", memory=MEMORY)
    plain = {"name": "m", "version": "1", "state": "READY"}
    assert models.index([entry], memory=False) == [plain]
    assert models.index([entry], memory=True) == [
        {
            **plain,
            "memory_usage": [
                {"type": "CPU", "id": 0, "byte_size": 1200, "estimated": True},
                {"type": "GPU", "id": 1, "byte_size": 3400, "estimated": False},
            ],
        }
    ]


@pytest.mark.parametrize(
    ("body", "ready", "memory"),
    [
        (b"", False, False), (b"{}", False, False), (b"[]", False, False),
        (b'{"ready": true}', True, False), (b'{"ready": false}', False, False),
        (b'{"memory": true}', False, True),
    ],
)  # fmt: skip
def test_an_index_request_may_ask_for_ready_models_only_and_for_their_memory(
    body: bytes, *, ready: bool, memory: bool
) -> None:
    assert models.index_request(body) == models.IndexRequest(ready=ready, memory=memory)


@pytest.mark.parametrize(
    ("body", "code", "fragment"),
    [
        (b'{"ready": 1}', ErrorCode.INVALID_ARG, "Invalid value for 'ready': expected a boolean"),
        (b'{"memory": 1}', ErrorCode.INVALID_ARG, "Invalid value for 'memory': expected a boolean"),
        (b'{"ready": null}', ErrorCode.INVALID_ARG, "Invalid value for 'ready'"),
        (b"{", ErrorCode.INTERNAL, "failed to parse the request JSON buffer"),
    ],
)
def test_an_index_request_that_cannot_be_read_is_refused(
    body: bytes, code: ErrorCode, fragment: str
) -> None:
    with pytest.raises(InferenceError) as caught:
        models.index_request(body)
    assert caught.value.code is code
    assert fragment in caught.value.message


def test_names_of_statistics_are_json() -> None:
    document: typing.Any = models.statistics([])
    assert document == {"model_stats": []}
