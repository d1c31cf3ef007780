"""A batching strategy on a real server: the batches that come of it, its reload, a file that cannot be loaded, and its metrics."""

import concurrent.futures
import pathlib
import shutil
import urllib.request
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from tests.reference.process import ServerProcess, naiad_program

EXAMPLE = pathlib.Path(__file__).parents[3] / "examples/batch_strategies/volume/batchstrategy.py"
MODEL = """\
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        count = np.array([[len(requests)]], np.int32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("COUNT", count)]) for _ in requests]
"""
CONFIG = """\
backend: "python"
max_batch_size: 8
input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true }
output { name: "COUNT" data_type: TYPE_INT32 dims: [ 1 ] }
dynamic_batching { preferred_batch_size: [ 8 ] max_queue_delay_microseconds: 5000000 }
instance_group { kind: KIND_CPU count: 1 }
parameters { key: "MAX_BATCH_VOLUME_BYTES" value { string_value: "96" } }
"""


@pytest.fixture
def server(tmp_path: pathlib.Path) -> Any:
    folder = tmp_path / "models" / "volume"
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.py").write_text(MODEL)
    (folder / "config.pbtxt").write_text(CONFIG)
    shutil.copy(EXAMPLE, folder)
    options = ("--model-control-mode=explicit", "--load-model=*")
    with ServerProcess(
        naiad_program(), [tmp_path / "models"], log=tmp_path / "log", options=options
    ) as started:
        yield started


def _ask(server: ServerProcess, size: int) -> int:
    with triton.InferenceServerClient(server.http, network_timeout=60) as client:
        given = triton.InferInput("X", [1, size], "FP32")
        given.set_data_from_numpy(np.zeros((1, size), np.float32))
        return int(client.infer("volume", [given]).as_numpy("COUNT")[0, 0])


def _counts(server: ServerProcess, *sizes: int) -> list[int]:
    with concurrent.futures.ThreadPoolExecutor(len(sizes)) as pool:
        return sorted(pool.map(lambda size: _ask(server, size), sizes))


def _metric(server: ServerProcess, name: str) -> str:
    address = f"http://127.0.0.1:{server.ports.metrics}/metrics"
    with urllib.request.urlopen(address, timeout=60) as page:
        text: str = page.read().decode()
    (line,) = (line for line in text.splitlines() if line.startswith(f"{name}{{"))
    return line.rpartition(" ")[2]


def test_a_strategy_forms_the_batches_and_is_loaded_again_with_its_model(
    server: ServerProcess, tmp_path: pathlib.Path
) -> None:
    """Each request has 32 bytes, so that three of them are a batch."""
    assert _counts(server, *[8] * 6) == [3] * 6
    folder = tmp_path / "models" / "volume"
    assert not list(folder.glob("**/__pycache__/batchstrategy*")), "nothing is written there"
    source = (folder / "batchstrategy.py").read_text()
    with triton.InferenceServerClient(server.http) as client:
        (folder / "batchstrategy.py").write_text(source.replace("> self.most", "> 2 * 32"))
        client.load_model("volume")
        assert _counts(server, *[8] * 4) == [2] * 4

        (folder / "batchstrategy.py").write_text(source.replace("> self.most", "> nothing"))
        client.load_model("volume")
        assert _counts(server, *[8] * 8) == [8] * 8, "the default rules"
        assert _metric(server, "naiad_batch_strategy_failures_total") != "0"
        assert _metric(server, "naiad_batch_strategy_slow_total") == "0"

        (folder / "batchstrategy.py").write_text("raise RuntimeError('on purpose')\n" + source)
        with pytest.raises(InferenceServerException) as raised:
            client.load_model("volume")
        said = f"the batching strategy of model 'volume' cannot be loaded: {folder / 'batchstrategy.py'}:1: RuntimeError: on purpose"
        assert said in raised.value.message()
        assert "batchstrategy.py:1" in raised.value.message()
        assert _counts(server, *[8] * 8) == [8] * 8, "what was loaded before serves on"
    assert "NameError" in server.output()
