"""Tensors in clients' shared memory (rows 5.6 to 5.20, 10.11 to 10.15): regions and what they are asked, over both protocols.

The object of a scenario has 64 bytes: the numbers 1 to 16 as FP32. It is registered as "r" before the scenario, and everything is unregistered after it.
"""

import json
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tritonclient.grpc import service_pb2 as pb

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.wire import Answer, Target, value

_SIZE = 64
_OBJECTS = Path("/dev/shm")
_BASE = "/v2/systemsharedmemory"
_CUDA = "/v2/cudasharedmemory"

Step = Callable[[Target, str], Answer]


def _key(target: Target) -> str:
    return f"conformance_{target.name}_{os.getpid()}"


def _ask(target: Target, step: Step, *, registered: bool) -> Answer:
    key = _key(target)
    shared = _OBJECTS / key
    shared.write_bytes(np.arange(1, 17, dtype=np.float32).tobytes())
    try:
        if registered:
            _until_registered(target, key)
        found = step(target, key)
        found["object"] = shared.read_bytes().hex()
        return found
    finally:
        target.http("POST", f"{_BASE}/unregister")
        shared.unlink()


def _until_registered(target: Target, key: str) -> None:
    """Register the region "r": the reference keeps one that was unregistered for as long as a request refers to it, which may be after its response."""
    for tries_left in reversed(range(1_000)):
        reply = _register(target, "r", {"key": f"/{key}", "byte_size": _SIZE})
        if reply.status == 200:
            return
        assert tries_left, reply
        assert b"already in manager" in reply.body, reply
        target.http("POST", f"{_BASE}/unregister")


def _register(target: Target, name: str, body: Any) -> Any:
    path = f"{_BASE}/region/{name}/register" if name else f"{_BASE}/register"
    return target.http("POST", path, _json(body))


def _json(body: Any) -> str:
    return body if isinstance(body, str) else json.dumps(body)


def shared(
    name: str,
    rows: str,
    step: Step,
    *,
    says: str | None = None,
    registered: bool = True,
    **expect: Any,
) -> Scenario:
    """A scenario of one step."""
    return Scenario(
        f"regions: {name}",
        tuple(rows.split()),
        lambda target: _ask(target, step, registered=registered),
        says=says,
        expect={key.replace("__", "."): item for key, item in expect.items()},
        server="regions",
    )


def _place(region: str = "r", size: int | None = 16, offset: int | None = None) -> dict[str, Any]:
    sizes = {"shared_memory_byte_size": size, "shared_memory_offset": offset}
    return {
        "shared_memory_region": region,
        **{key: one for key, one in sizes.items() if one is not None},
    }


def _http(
    given: Mapping[str, Any] | None = None,
    wanted: Mapping[str, Any] | None = None,
    *,
    model: str = "identity",
    datatype: str = "FP32",
    shape: tuple[int, ...] = (4,),
    **more: Any,
) -> Step:
    """An infer request over HTTP: its input at a place, or in the request, and its output at a place."""

    def step(target: Target, _key: str) -> Answer:
        entry: dict[str, Any] = {"name": "IN", "datatype": datatype, "shape": list(shape), **more}
        if given is None:
            entry = value("IN", "FP32", [4], [5, 6, 7, 8])
        else:
            entry["parameters"] = given
        body: dict[str, Any] = {"inputs": [entry]}
        if wanted is not None:
            body["outputs"] = [{"name": "OUT", "parameters": wanted}]
        return target.infer(model, body).answer()

    return step


def _grpc(
    given: Mapping[str, Any] | None = None,
    wanted: Mapping[str, Any] | None = None,
    *,
    contents: bool = False,
    raw: bytes = b"",
) -> Step:
    """The same over gRPC."""

    def step(target: Target, _key: str) -> Answer:
        message = pb.ModelInferRequest(model_name="identity")
        added = message.inputs.add(name="IN", datatype="FP32", shape=[4])
        _set(added, given or {})
        if contents:
            added.contents.fp32_contents.extend([1, 2, 3, 4])
        if raw or given is None:
            message.raw_input_contents.append(raw or struct.pack("<4f", 5, 6, 7, 8))
        if wanted is not None:
            _set(message.outputs.add(name="OUT"), wanted)
        return target.call("ModelInfer", message).answer(pb.ModelInferResponse)

    return step


def _set(io: Any, parameters: Mapping[str, Any]) -> None:
    for name, one in parameters.items():
        kind = {bool: "bool_param", int: "int64_param", str: "string_param"}[type(one)]
        setattr(io.parameters[name], kind, one)


def _posted(path: str, body: Any = None) -> Step:
    def step(target: Target, key: str) -> Answer:
        sent = None if body is None else _json(body).replace("KEY", key)
        return target.http("POST", path, sent).answer()

    return step


def _status(path: str) -> Step:
    """The status of regions; the key differs by server, so it is not compared."""

    def step(target: Target, key: str) -> Answer:
        found = target.http("GET", path).answer()
        for entry in found.get("json", ()):
            if "key" in entry:
                entry["key"] = entry["key"].replace(key, "KEY")
        return found

    return step


def _rpc(method: str, message: Any, reply: Any = None) -> Step:
    def step(target: Target, key: str) -> Answer:
        if hasattr(message, "key"):
            sent = type(message)()
            sent.CopyFrom(message)
            sent.key = sent.key.replace("KEY", key)
        else:
            sent = message
        found = target.call(method, sent).answer(reply)
        for entry in found.get("message", {}).get("regions", {}).values():
            entry["key"] = entry["key"].replace(key, "KEY")
        return found

    return step


def _two_regions(target: Target, key: str) -> Answer:
    """An input and an output in different regions of one object, and the regions in the status."""
    second = _register(target, "s", {"key": key, "byte_size": 16, "offset": 0}).status
    reply = _http(_place("r", 16, 48), _place("s"))(target, key)
    status = _status(f"{_BASE}/status")(target, key)
    return {"second": second, **reply, "regions": len(status["json"])}


def _again(target: Target, key: str) -> Answer:
    """A name is free again once it is unregistered."""
    first = target.http("POST", f"{_BASE}/region/r/unregister").answer()
    reply = _http(_place())(target, key)
    found = _register(target, "r", {"key": key, "byte_size": _SIZE}).answer()
    return {"unregistered": first["status"], "infer": reply["status"], **found}


def _words(target: Target, key: str) -> Answer:
    """Strings in a region."""
    packed = struct.pack("<I2sI3s", 2, b"hi", 3, b"you")
    (_OBJECTS / key).write_bytes(packed.ljust(_SIZE, b"\0"))
    given, wanted = _place("r", len(packed)), _place("r", 32, 32)
    step = _http(given, wanted, model="words", datatype="BYTES", shape=(1, 2))
    return step(target, key)


_HTTP = [
    shared("input", "5.17 5.20", _http(_place()), status=200, json__outputs__0__data__3=4.0),
    shared("input with an offset", "5.17", _http(_place("r", 16, 32)), status=200, json__outputs__0__data__0=9.0),
    shared("output", "5.17 5.20", _http(None, _place("r", 16, 48)), status=200),
    shared("output in a larger place", "5.17 5.20", _http(None, _place("r", 32, 32)), status=200),
    shared("both", "5.17 5.20", _http(_place(), _place("r", 16, 16)), status=200),
    shared("input and output at one place", "5.17", _http(_place("r", 16, 4), _place("r", 16, 8)), status=200),
    shared("two regions of one object", "5.17 5.13", _two_regions, status=200, regions=2),
    shared("strings", "5.17", _words, status=200),
    shared("an unknown region", "5.18", _http(_place("nowhere")), says="Unable to find shared memory region: 'nowhere'", status=404),
    shared("an unknown region of an output", "5.18", _http(None, _place("nowhere")), says="Unable to find shared memory region: 'nowhere'", status=404),
    shared("an offset at the end", "5.18", _http(_place("r", 16, 64)), says="Invalid offset for shared memory region", status=400),
    shared("an offset and a size beyond", "5.18", _http(_place("r", 16, 56)), says="for shared memory region", status=400),
    shared("an output beyond", "5.18", _http(None, _place("r", 65)), says="for shared memory region", status=400),
    shared("no size", "5.17", _http(_place("r", None)), status=400, says="input byte size mismatch for input 'IN' for model 'identity'"),
    shared("too few bytes", "5.17", _http(_place("r", 12)), status=400, says="input byte size mismatch for input 'IN' for model 'identity'"),
    shared("too many bytes", "5.17", _http(_place("r", 20)), status=400, says="input byte size mismatch for input 'IN' for model 'identity'"),
    shared("an output that is too small", "5.19", _http(None, _place("r", 12)), status=500, says="should be at least 16 bytes to hold the results"),
    shared("a region and data", "3.8", _http(_place(), data=[1, 2, 3, 4]), status=400, says="Input must set only one of the following fields"),
    shared("an output with binary_data", "5.6", _http(None, {**_place(), "binary_data": True}), status=400, says="Output can't set both 'shared_memory_region' and 'binary_data'"),
    shared("a region that is a number", "5.17", _http({**_place(), "shared_memory_region": 1}), status=500, says="Unable to parse 'shared_memory_region'"),
    shared("a size that is text", "5.17", _http({**_place(), "shared_memory_byte_size": "16"}), status=500, says="Unable to parse 'shared_memory_byte_size'"),
    shared("a negative offset", "5.17", _http({**_place(), "shared_memory_offset": -1}), status=500, says="Unable to parse 'shared_memory_offset'"),
]  # fmt: skip

_REGIONS = [
    shared("register", "5.8", _posted(f"{_BASE}/region/s/register", {"key": "KEY", "byte_size": 8}), status=200),
    shared("register without a key", "5.8", _posted(f"{_BASE}/region/s/register", {"byte_size": 8}), status=400, says="Shared memory register request has no 'key' field"),
    shared("register without a size", "5.8", _posted(f"{_BASE}/region/s/register", {"key": "KEY"}), status=400, says="Shared memory register request has no 'byte_size' field"),
    shared("register without a body", "5.8", _posted(f"{_BASE}/region/s/register", ""), status=500, says="The document is empty"),
    shared("a key that is a number", "5.8", _posted(f"{_BASE}/region/s/register", {"key": 1, "byte_size": 8}), status=500, says="attempt to access JSON non-string as string"),
    shared("a size that is a fraction", "5.8", _posted(f"{_BASE}/region/s/register", {"key": "KEY", "byte_size": 1.5}), status=500, says="attempt to access JSON non-unsigned-integer as unsigned-integer"),
    shared("an offset below zero", "5.8", _posted(f"{_BASE}/region/s/register", {"key": "KEY", "byte_size": 8, "offset": -8}), status=500, says="attempt to access JSON non-unsigned-integer as unsigned-integer"),
    shared("register without a name", "5.8", _posted(f"{_BASE}/register", {"key": "KEY", "byte_size": 8}), status=400, says="'region name' is necessary to register system shared memory region"),
    shared("a name that is known", "5.9", _posted(f"{_BASE}/region/r/register", {"key": "KEY", "byte_size": 8}), status=400, says="shared memory region 'r' already in manager"),
    shared("an object that is not there", "5.10", _posted(f"{_BASE}/region/s/register", {"key": "naiad_no_object", "byte_size": 8}), status=500, says="Unable to open shared memory region: 'naiad_no_object'"),
    shared("more than the object", "5.10", _posted(f"{_BASE}/region/s/register", {"key": "KEY", "byte_size": 65}), status=400, says="failed to register shared memory region"),
    shared("an offset beyond the object", "5.10", _posted(f"{_BASE}/region/s/register", {"key": "KEY", "byte_size": 8, "offset": 4096}), status=400, says="failed to register shared memory region"),
    shared("an offset of 64 bits", "5.10", _posted(f"{_BASE}/region/s/register", {"key": "KEY", "byte_size": 8, "offset": 2**63}), status=400, says="failed to register shared memory region"),
    shared("a reserved key", "5.10", _posted(f"{_BASE}/region/s/register", {"key": "/triton_python_backend_shm_region_1", "byte_size": 8}), status=400, says="as the key contains the reserved prefix 'triton_python_backend_shm_region_'"),
    shared("status of all", "5.13", _status(f"{_BASE}/status"), status=200, json__0__byte_size=64, json__0__name="r"),
    shared("status of one", "5.13", _status(f"{_BASE}/region/r/status"), status=200, json__0__offset=0),
    shared("status of an unknown one", "5.13", _status(f"{_BASE}/region/s/status"), status=404, says="Unable to find system shared memory region: 's'"),
    shared("CUDA status of a system region", "5.14", _status(f"{_CUDA}/region/r/status"), status=404, says="is registered as system shared memory, not CUDA shared memory"),
    shared("CUDA status of all", "5.14", _status(f"{_CUDA}/status"), status=200),
    shared("unregister", "5.16", _again, status=200, unregistered=200, infer=404),
    shared("unregister an unknown one", "5.16", _posted(f"{_BASE}/region/s/unregister"), status=200),
    shared("unregister all", "5.16", _posted(f"{_BASE}/unregister"), status=200),
    shared("CUDA unregister of a system region", "5.16", _posted(f"{_CUDA}/region/r/unregister"), status=200),
    shared("a region in a GPU", "5.14", _posted(f"{_CUDA}/region/c/register", {"raw_handle": {"b64": "AAAA"}, "device_id": 0, "byte_size": 8}), status=400, says="GPUs not supported"),
]  # fmt: skip

_Register = pb.SystemSharedMemoryRegisterRequest
_GRPC = [
    shared("gRPC input", "5.17 10.11", _grpc(_place()), code="OK"),
    shared("gRPC output", "5.17 10.14", _grpc(None, _place("r", 16, 48)), code="OK"),
    shared("gRPC both", "5.17 10.14", _grpc(_place("r", 16, 16), _place("r", 16, 32)), code="OK"),
    shared("gRPC region and contents", "10.13", _grpc(_place(), contents=True), code="INVALID_ARGUMENT", says="unexpected 'content' provided when using shared memory for input tensor 'IN' for model 'identity'"),
    shared("gRPC region and surplus raw contents", "10.11", _grpc(_place(), raw=b"12345678"), code="OK"),
    shared("gRPC output that is too small", "10.15 5.19", _grpc(None, _place("r", 12)), code="INTERNAL", says="should be at least"),
    shared("gRPC unknown region", "5.18", _grpc(_place("nowhere")), code="NOT_FOUND", says="Unable to find shared memory region: 'nowhere'"),
    shared("gRPC offset at the end", "5.18", _grpc(_place("r", 16, 64)), code="INVALID_ARGUMENT", says="Invalid offset for shared memory region"),
    shared("gRPC size beyond", "5.18", _grpc(_place("r", 65)), code="INVALID_ARGUMENT", says="for shared memory region"),
    shared("gRPC too few bytes", "5.17", _grpc(_place("r", 12)), code="INVALID_ARGUMENT", says="input byte size mismatch for input 'IN' for model 'identity'"),
    shared("gRPC no size", "5.17", _grpc(_place("r", None)), code="INVALID_ARGUMENT", says="'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor 'IN'"),
    shared("gRPC offset without a region", "5.17", _grpc({"shared_memory_offset": 4}), code="INVALID_ARGUMENT", says="'shared_memory_offset' can not be specified without 'shared_memory_region' parameter for tensor 'IN'"),
    shared("gRPC size that is text", "5.17", _grpc({**_place(), "shared_memory_byte_size": "16"}), code="INVALID_ARGUMENT", says="invalid value type for 'shared_memory_byte_size' parameter for tensor 'IN', expected int64_param"),
    shared("gRPC classes to a region", "5.6 10.22", _grpc(None, {**_place(), "classification": 1}), code="INVALID_ARGUMENT", says="output can't set both 'shared_memory_region' and 'classification'"),
    shared("gRPC register", "5.8", _rpc("SystemSharedMemoryRegister", _Register(name="s", key="KEY", byte_size=8), pb.SystemSharedMemoryRegisterResponse), code="OK"),
    shared("gRPC name that is known", "5.9", _rpc("SystemSharedMemoryRegister", _Register(name="r", key="KEY", byte_size=8)), code="ALREADY_EXISTS", says="already in manager"),
    shared("gRPC object that is not there", "5.10", _rpc("SystemSharedMemoryRegister", _Register(name="s", key="naiad_no_object", byte_size=8)), code="INTERNAL", says="Unable to open shared memory region: 'naiad_no_object'"),
    shared("gRPC status of all", "5.13", _rpc("SystemSharedMemoryStatus", pb.SystemSharedMemoryStatusRequest(), pb.SystemSharedMemoryStatusResponse), code="OK", message__regions__r__byte_size="64"),
    shared("gRPC status of an unknown one", "5.13", _rpc("SystemSharedMemoryStatus", pb.SystemSharedMemoryStatusRequest(name="s")), code="NOT_FOUND", says="Unable to find system shared memory region: 's'"),
    shared("gRPC unregister", "5.16", _rpc("SystemSharedMemoryUnregister", pb.SystemSharedMemoryUnregisterRequest(name="r"), pb.SystemSharedMemoryUnregisterResponse), code="OK"),
    shared("gRPC region in a GPU", "5.14", _rpc("CudaSharedMemoryRegister", pb.CudaSharedMemoryRegisterRequest(name="c", raw_handle=b"\0" * 64, byte_size=8)), code="INVALID_ARGUMENT", says="GPUs not supported"),
]  # fmt: skip


@pytest.mark.parametrize(
    "scenario", [*_HTTP, *_REGIONS, *_GRPC], ids=lambda scenario: scenario.name
)
def test_regions(ask: Ask, scenario: Scenario) -> None:
    ask(scenario)
