"""Models in worker processes, and what starts a server on them and asks them."""

import contextlib
import pathlib

import numpy as np
import tritonclient.http

from tests.reference.process import ServerProcess, children, naiad_program

CONFIG = """\
backend: "python"
max_batch_size: 0
input { name: "SECONDS" data_type: TYPE_FP32 dims: 1 }
output { name: "PID" data_type: TYPE_INT64 dims: 1 }
instance_group { kind: KIND_CPU count: 1 }
"""

MODEL = """\
import os, time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        print("the model speaks")
        for request in requests:
            time.sleep(float(request.inputs()[0].as_numpy()[0]))
        pid = np.array([os.getpid()])
        return [pb_utils.InferenceResponse([pb_utils.Tensor("PID", pid)]) for _ in requests]
"""


def repository(folder: pathlib.Path, **models: tuple[str, str]) -> pathlib.Path:
    """Models by name: what their config has besides CONFIG, and their code."""
    for name, (more, code) in models.items():
        version = folder / "models" / name / "1"
        version.mkdir(parents=True)
        (version.parent / "config.pbtxt").write_text(CONFIG + more)
        (version / "model.py").write_text(code)
    return folder / "models"


def launched(models: pathlib.Path, folder: pathlib.Path, *options: str) -> ServerProcess:
    options = ("--exit-on-error=false", *options)
    return ServerProcess(naiad_program(), [models], log=folder / "log", options=options)


def ask(server: ServerProcess, model: str, seconds: float = 0) -> int:
    """One request over HTTP; gives the process id that answered.

    Raises:
        InferenceServerException: it failed.
    """
    values = tritonclient.http.InferInput("SECONDS", [1], "FP32")
    values.set_data_from_numpy(np.array([seconds], np.float32))
    with tritonclient.http.InferenceServerClient(server.http, network_timeout=30) as client:
        return int(client.infer(model, [values]).as_numpy("PID")[0])


def workers(server: ServerProcess) -> dict[str, int]:
    """The server's children by their command lines."""
    assert server.process is not None
    found: dict[str, int] = {}
    for child in children(server.process.pid):
        with contextlib.suppress(OSError):  # it has ended
            found[pathlib.Path(f"/proc/{child}/cmdline").read_text().strip("\0")] = child
    return found


def worker_of(server: ServerProcess, model: str) -> int:
    """The worker of a model; 0 while there is none."""
    shown = f"naiad-worker --model {model} "
    return next((pid for line, pid in workers(server).items() if shown in line), 0)
