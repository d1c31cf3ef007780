"""What a worker process costs on a GPU beside a thread of the server: one convolutional ONNX model in both, one client over HTTP."""

import functools

import numpy as np

from benchmarks import models
from benchmarks.gpu import ways
from benchmarks.gpu.rows import Client, in_turns, row
from tests.gpu.bench import Bench

_SHAPE = (3, 112, 112)
_CHANNELS = (64, 128, 128)
_CONFIG = """backend: "onnxruntime"
max_batch_size: 32
input {{ name: "x" data_type: TYPE_FP32 dims: [ 3, 112, 112 ] }}
output {{ name: "y" data_type: TYPE_FP32 dims: [ 128, 1, 1 ] }}
instance_group {{ kind: KIND_GPU count: 1 gpus: 0 }}
parameters {{ key: "naiad.host" value {{ string_value: "{host}" }} }}
"""


def beside(bench: Bench) -> str:
    """The median of a request, with one row and with 32."""
    for host in ways.HOSTS:
        models.convolution(bench.models / host, _SHAPE, _CHANNELS)
        (bench.models / host / "config.pbtxt").write_text(_CONFIG.format(host=host))
    ways.write(bench.models, "x", "FP32", _SHAPE)
    said: list[str] = []
    with bench.server() as server:
        for rows in (1, 32):
            values = np.random.default_rng(1).random((rows, *_SHAPE), np.float32)
            clients = {host: Client(server, host).binary("x", "FP32", values) for host in ways.HOSTS}  # fmt: skip
            for client in clients.values():
                client.times(10)
            found = in_turns(9, {host: functools.partial(client.median, 20) for host, client in clients.items()})  # fmt: skip
            row(bench, f"a small network, {rows} rows over HTTP", process_ms=found["process"], thread_ms=found["thread"])  # fmt: skip
            said.append(f"{rows} rows: process {found['process']:.2f} ms, thread {found['thread']:.2f}")  # fmt: skip
        values = np.random.default_rng(1).random((1, *_SHAPE), np.float32)

        def given(client: Client) -> Client:
            return client.binary("x", "FP32", values)

        asked = {f"ONNX in a {host}": given(Client(server, host)) for host in ways.HOSTS}
        ways.show(bench, server, "a small network, 1 row", asked, given)
    return ", ".join(said)
