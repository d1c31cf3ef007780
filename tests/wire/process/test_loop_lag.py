"""The server measures how late its event loop is, and says where it was when it was late."""

import json
import pathlib

import pytest

from tests.reference.process import ServerProcess, naiad_program
from tests.wire.plain_http import call, get

_CONFIG = """\
backend: "python"
input { name: "x" data_type: TYPE_FP32 dims: 1 }
output { name: "y" data_type: TYPE_FP32 dims: 1 }
instance_group { kind: KIND_CPU }
parameters { key: "naiad.host" value { string_value: "thread" } }
"""

_HOLDS_THE_INTERPRETER = """\
import time
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        # One call that lets no other thread run, with more of the processor's time than any bound below.
        count = 10_000_000
        while True:
            start = time.thread_time()
            sum(range(count))
            if time.thread_time() - start > 0.3:
                break
            count *= 2
        x = pb_utils.get_input_tensor_by_name(requests[0], "x")
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", x.as_numpy())])]
"""


@pytest.mark.slow
def test_a_loop_that_cannot_run_shows_on_the_metrics_page_and_in_the_log(
    tmp_path: pathlib.Path,
) -> None:
    version = tmp_path / "models" / "holds" / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(_CONFIG)
    (version / "model.py").write_text(_HOLDS_THE_INTERPRETER)
    options = ["--log-format=json"]
    with ServerProcess(
        naiad_program(), [tmp_path / "models"], log=tmp_path / "log", options=options
    ) as server:
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}
        assert call(server.http, "POST", "/v2/models/holds/infer", body)[0] == 200
        page = get(server.metrics, "/metrics")[1].decode()
        assert server.stop() == 0
        lines = [json.loads(line) for line in server.output().splitlines()]

    samples = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    above = int(samples["naiad_loop_lag_seconds_count"]) - int(
        samples['naiad_loop_lag_seconds_bucket{le="0.1"}']
    )
    assert above >= 1
    assert float(samples["naiad_loop_lag_seconds_sum"]) > 0.2
    stalls = [line for line in lines if "stalled_ms" in line]
    longest = max(stalls, key=lambda line: line["stalled_ms"])
    assert longest["stalled_ms"] > 200
    held = "one call held the interpreter lock" in longest["message"]
    waited = longest["run_delay_ms"] * 2 > longest["stalled_ms"]
    assert held or waited, longest
