"""Ragged batches on a real server: requests of different shapes share a run of an ONNX network, and each gets its own part."""

import concurrent.futures
import pathlib

import numpy as np
import tritonclient.http as triton

from tests.reference.process import ServerProcess, naiad_program
from tests.server.backends.onnxruntime.test_ragged import SUMS, sums

WAITS = "dynamic_batching { preferred_batch_size: [ 8 ] max_queue_delay_microseconds: 60000000 }\n"


def _ask(server: ServerProcess, values: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]") -> tuple[list[float], list[float]]:  # fmt: skip
    with triton.InferenceServerClient(server.http, network_timeout=60) as client:
        given = triton.InferInput("X", [1, len(values)], "FP32")
        given.set_data_from_numpy(values.reshape(1, -1))
        result = client.infer("sums", [given])
        return result.as_numpy("SUM").ravel().tolist(), result.as_numpy("SAME").ravel().tolist()


def test_requests_of_different_shapes_share_a_run(tmp_path: pathlib.Path) -> None:
    sums(tmp_path / "models" / "sums", SUMS + WAITS)
    requests = [np.arange(size, dtype=np.float32) + size for size in (1, 5, 2, 300, 1, 7, 400, 3)]
    with (
        ServerProcess(naiad_program(), [tmp_path / "models"], log=tmp_path / "log") as server,
        triton.InferenceServerClient(server.http) as client,
    ):
        with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
            answers = list(pool.map(lambda values: _ask(server, values), requests))
        stats = client.get_inference_statistics("sums")["model_stats"][0]
    for values, (total, same) in zip(requests, answers, strict=True):
        assert same == values.tolist()
        assert np.allclose(total, [values.sum()], rtol=1e-4)
    assert (stats["inference_count"], stats["execution_count"]) == (8, 1)
