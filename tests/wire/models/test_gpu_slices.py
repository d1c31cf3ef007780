"""A server in a pod with seven MIG slices: an instance on each, in a worker process that sees its own slice and no other. The driver is made up."""

import concurrent.futures
import dataclasses
import json
import os
import pathlib

import pytest

from tests.reference.process import ServerProcess, naiad_program
from tests.support import sliced_gpu
from tests.wire.plain_http import call

pytestmark = pytest.mark.slow  # seven worker processes

SLICES = [f"MIG-{letter * 8}-0000-0000-0000-000000000000" for letter in "abcdefg"]


def server_with_slices(tmp_path: pathlib.Path) -> ServerProcess:
    """Any library stands for the driver's, which the server loads before it imports pynvml."""
    driver = tmp_path / "driver"
    driver.mkdir()
    (driver / sliced_gpu.MODULE.name).symlink_to(sliced_gpu.MODULE)
    maps = pathlib.Path("/proc/self/maps").read_text()
    library = next(line.split()[-1] for line in maps.splitlines() if "/libc.so" in line)
    (driver / sliced_gpu.DRIVER).symlink_to(library)
    program = naiad_program()
    environ = {
        name: text for name, text in program.environ.items() if name != "TRITON_SERVER_CPU_ONLY"
    }
    environ["PYTHONPATH"] = os.pathsep.join((str(driver), environ["PYTHONPATH"]))
    environ["LD_LIBRARY_PATH"] = str(driver)
    environ[sliced_gpu.MEETING] = str(tmp_path / "meeting")
    environ["NVIDIA_VISIBLE_DEVICES"] = ",".join(SLICES)
    environ.pop("CUDA_VISIBLE_DEVICES", None)
    program = dataclasses.replace(program, environ=environ)
    return ServerProcess(program, [sliced_gpu.MODELS], log=tmp_path / "log")


def test_each_slice_serves_from_a_process_of_its_own(tmp_path: pathlib.Path) -> None:
    body = {"inputs": [{"name": "X", "datatype": "FP32", "shape": [1], "data": [0]}]}
    with server_with_slices(tmp_path) as server:

        def answer(_: int) -> tuple[str, str, str]:
            status, reply = call(server.http, "POST", f"/v2/models/{sliced_gpu.MODEL}/infer", body)
            assert status == 200, reply
            visible, number, pid = json.loads(reply)["outputs"][0]["data"]
            return visible, number, pid

        with concurrent.futures.ThreadPoolExecutor(len(SLICES)) as clients:
            said = list(clients.map(answer, SLICES))
    assert sorted(visible for visible, _, _ in said) == SLICES
    assert {number for _, number, _ in said} == {"0"}, "CUDA numbers what a process sees from 0"
    assert len({pid for _, _, pid in said}) == len(SLICES)
