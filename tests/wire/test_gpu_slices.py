"""A server in a pod with seven MIG slices: an instance on each, in a worker process that sees its own slice and no other. The driver is made up."""

import concurrent.futures
import dataclasses
import json
import os
import pathlib

import pytest

from tests.reference.process import ServerProcess, naiad_program
from tests.wire.plain_http import call

pytestmark = pytest.mark.slow  # seven worker processes

SLICES = [f"MIG-{letter * 8}-0000-0000-0000-000000000000" for letter in "abcdefg"]

DRIVER = f"""\
NVML_DEVICE_MIG_ENABLE = 1
SLICES = {SLICES!r}


class NVMLError(Exception):
    pass


def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlDeviceGetCount(): return 1
def nvmlDeviceGetHandleByIndex(index): return "GPU-0"
def nvmlDeviceGetMigMode(handle): return [1, 1]
def nvmlDeviceGetMaxMigDeviceCount(handle): return 7
def nvmlDeviceGetMigDeviceHandleByIndex(handle, index): return SLICES[index]
def nvmlDeviceGetUUID(handle): return handle
def nvmlDeviceGetName(handle): return "NVIDIA H100"
def nvmlDeviceGetCudaComputeCapability(handle): return 9, 0


def __getattr__(name):
    def refuse(*_): raise NVMLError("not supported")
    return refuse
"""
"""A module `pynvml` that knows one GPU in MIG mode, as a container sees it whose device plugin has given it seven slices."""

MODEL = """\
import os
import pathlib
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.number = args["model_instance_device_id"]

    def execute(self, requests):
        # No request ends before every instance has one, so that each answers one.
        folder = pathlib.Path(os.environ["MEETING"])
        (folder / str(os.getpid())).touch()
        while len(list(folder.iterdir())) < 7:
            time.sleep(0.01)
        said = np.array([os.environ["CUDA_VISIBLE_DEVICES"], self.number, str(os.getpid())], dtype=object)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("SAID", said)]) for _ in requests]
"""

CONFIG = """\
backend: "python"
input { name: "X" data_type: TYPE_FP32 dims: 1 }
output { name: "SAID" data_type: TYPE_STRING dims: 3 }
instance_group { kind: KIND_GPU count: 1 }
"""


def server_with_slices(tmp_path: pathlib.Path, models: pathlib.Path) -> ServerProcess:
    """Any library stands for the driver's, which the server loads before it imports pynvml."""
    driver = tmp_path / "driver"
    driver.mkdir()
    (driver / "pynvml.py").write_text(DRIVER)
    maps = pathlib.Path("/proc/self/maps").read_text()
    library = next(line.split()[-1] for line in maps.splitlines() if "/libc.so" in line)
    (driver / "libnvidia-ml.so.1").symlink_to(library)
    program = naiad_program()
    environ = {
        name: text for name, text in program.environ.items() if name != "TRITON_SERVER_CPU_ONLY"
    }
    environ["PYTHONPATH"] = os.pathsep.join((str(driver), environ["PYTHONPATH"]))
    environ["LD_LIBRARY_PATH"] = str(driver)
    environ["MEETING"] = str(tmp_path / "meeting")
    environ.pop("CUDA_VISIBLE_DEVICES", None)
    program = dataclasses.replace(program, environ=environ)
    return ServerProcess(program, [models], log=tmp_path / "log")


def test_each_slice_serves_from_a_process_of_its_own(tmp_path: pathlib.Path) -> None:
    models, meeting = tmp_path / "models", tmp_path / "meeting"
    (models / "m" / "1").mkdir(parents=True)
    meeting.mkdir()
    (models / "m" / "config.pbtxt").write_text(CONFIG)
    (models / "m" / "1" / "model.py").write_text(MODEL)
    body = {"inputs": [{"name": "X", "datatype": "FP32", "shape": [1], "data": [0]}]}
    with server_with_slices(tmp_path, models) as server:

        def answer(_: int) -> tuple[str, str, str]:
            status, reply = call(server.http, "POST", "/v2/models/m/infer", body)
            assert status == 200, reply
            visible, number, pid = json.loads(reply)["outputs"][0]["data"]
            return visible, number, pid

        with concurrent.futures.ThreadPoolExecutor(len(SLICES)) as clients:
            said = list(clients.map(answer, SLICES))
    assert sorted(visible for visible, _, _ in said) == SLICES
    assert {number for _, number, _ in said} == {"0"}, "CUDA numbers what a process sees from 0"
    assert len({pid for _, _, pid in said}) == len(SLICES)
