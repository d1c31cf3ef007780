"""Tensors that stay on the GPU: calls between models, and clients' regions beside system shared memory and HTTP's binary data."""

import base64
import contextlib
import functools
import os
import pathlib

import numpy as np

from benchmarks.gpu.rows import Array, Client, in_turns, row
from naiad.tensors import cudart
from tests.gpu import calling, repositories
from tests.gpu.bench import Bench, infer, post
from tests.gpu.repositories import GPU
from tests.reference.process import ServerProcess

_SIZES = {"1 MB": (1 << 20, 60), "16 MB": (1 << 24, 40), "256 MB": (1 << 28, 6)}
_TRITON_MS = {"1 MB": (1.46, 1.25), "16 MB": (1.51, 6.36), "256 MB": (3.53, 139.0)}
"""The real Triton 2.51 on an H200: the receiver takes its input on the GPU, and on the host."""
_TRITON_REGIONS_MS = {
    ("cuda", "gpu"): 1.17, ("cuda", "cpu"): 9.5, ("system", "gpu"): 13.2, ("system", "cpu"): 13.0, ("binary", "gpu"): 52.3,
    ("binary", "cpu"): 56.4,
}  # fmt: skip
_BYTES = 1 << 24
_OBJECTS = pathlib.Path("/dev/shm")  # noqa: S108 - where POSIX shared memory objects are on Linux


def calls(bench: Bench) -> str:
    """A call with a tensor on the GPU and one back, to a receiver that takes it there and to one that takes it on the host."""
    calling.write(bench.models, GPU % 1)
    with contextlib.ExitStack() as undo:
        servers = {"gpu": undo.enter_context(bench.server())}
        other = Bench(bench.folder / "host", bench.gpu)
        other.models.mkdir(parents=True)
        calling.write(other.models, GPU % 1, on_host=True)
        servers["host"] = undo.enter_context(other.server())
        for size in _SIZES:
            bench.step(size, functools.partial(_size, bench, servers, size))
    return ""


def _size(bench: Bench, servers: dict[str, ServerProcess], size: str) -> str:
    bytes_, count = _SIZES[size]
    plan = np.array([bytes_, count, 0], np.int64)

    def ms(place: str) -> float:
        return float(infer(servers[place], "caller", {"PLAN": plan})["SAW"][0]) * 1e3

    found = in_turns(5 if bytes_ < 1 << 28 else 3, {place: functools.partial(ms, place) for place in servers})  # fmt: skip
    there, host = _TRITON_MS[size]
    row(bench, f"a call with {size} on the GPU", gpu_ms=found["gpu"], host_ms=found["host"], aim=f"Triton {there} and {host} ms")  # fmt: skip
    return f"{found['gpu']:.2f} ms on the GPU, {found['host']:.2f} by the host"


def regions(bench: Bench) -> str:
    """16 MB in and out: a client's memory on the GPU, system shared memory and binary data over HTTP, for a model on the GPU and one on the CPU."""
    repositories.doubling(bench.models)
    values = np.random.default_rng(1).random(_BYTES // 4, np.float32)
    with contextlib.ExitStack() as undo:
        server = undo.enter_context(bench.server("--allow-client-shm=true"))
        bodies = {}
        for kind, register in (("cuda", _cuda), ("system", _system)):
            with contextlib.suppress(cudart.NoCudaError):
                register(server, values, undo)
                bodies[kind] = _body(kind)
        for model in ("gpu", "cpu"):
            clients = {kind: Client(server, model).json(body) for kind, body in bodies.items()}
            clients["binary"] = Client(server, model).binary("X", "FP32", values)
            bench.step(f"{model} model", functools.partial(_ways, bench, model, clients))
    return ""


def _ways(bench: Bench, model: str, clients: dict[str, Client]) -> str:
    for client in clients.values():
        client.times(5)
    found = in_turns(5, {kind: functools.partial(client.median, 9) for kind, client in clients.items()})  # fmt: skip
    for kind, ms in found.items():
        row(bench, f"16 MB in and out, {model} model, {kind}", ms=ms, aim=f"Triton {_TRITON_REGIONS_MS[kind, model]} ms")  # fmt: skip
    return ", ".join(f"{kind} {ms:.2f} ms" for kind, ms in found.items())


def _body(region: str) -> dict[str, object]:
    place = {"shared_memory_region": region, "shared_memory_byte_size": _BYTES}
    x = {"name": "X", "datatype": "FP32", "shape": [_BYTES // 4], "parameters": place}
    y = {"name": "Y", "parameters": {**place, "shared_memory_offset": _BYTES}}
    return {"inputs": [x], "outputs": [y]}


def _cuda(server: ServerProcess, values: Array, undo: contextlib.ExitStack) -> None:  # fmt: skip
    runtime = cudart.load()
    address = runtime.allocate(2 * _BYTES, 0)
    undo.callback(runtime.free, address, 0)
    runtime.to_device(address, values.ctypes.data, _BYTES, 0)
    handle = base64.b64encode(runtime.ipc_handle(address, 0)).decode()
    region = {"raw_handle": {"b64": handle}, "device_id": 0, "byte_size": 2 * _BYTES}
    post(server, "/v2/cudasharedmemory/region/cuda/register", region)


def _system(server: ServerProcess, values: Array, undo: contextlib.ExitStack) -> None:  # fmt: skip
    key = f"naiad_gpu_benchmark_{os.getpid()}"
    path = _OBJECTS / key
    undo.callback(path.unlink)
    path.write_bytes(values.tobytes() + bytes(_BYTES))
    region = {"key": f"/{key}", "offset": 0, "byte_size": 2 * _BYTES}
    post(server, "/v2/systemsharedmemory/region/system/register", region)
