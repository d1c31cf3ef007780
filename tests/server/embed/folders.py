"""The model repository of these tests: models in threads of the test's process and in workers, made afresh."""

import pathlib

from tests.wire import repository

IN_THREAD = 'parameters { key: "naiad.host" value { string_value: "thread" } }\n'

WAITS = """\
backend: "python"
input { name: "GATE" data_type: TYPE_STRING dims: 1 }
output { name: "DONE" data_type: TYPE_BOOL dims: 1 }
instance_group { kind: KIND_CPU count: 2 }
"""

WAITS_MODEL = """\
import pathlib
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    # Answers once the client has gone, or the file GATE is there; says in files that it has begun, and how it ended.
    def execute(self, requests):
        responses = []
        for request in requests:
            gate = pathlib.Path(pb_utils.get_input_tensor_by_name(request, "GATE").as_numpy()[0].decode())
            gate.with_suffix(".begun").touch()
            while not gate.exists() and not request.is_cancelled():
                time.sleep(0.005)
            if request.is_cancelled():
                gate.with_suffix(".cancelled").touch()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("DONE", np.array([True]))]))
        return responses
"""

COUNTS = """\
backend: "python"
model_transaction_policy { decoupled: true }
input { name: "COUNT" data_type: TYPE_INT32 dims: 1 }
input { name: "SENT" data_type: TYPE_STRING dims: 1 optional: true }
output { name: "NUMBER" data_type: TYPE_INT32 dims: 1 }
"""

COUNTS_MODEL = """\
import pathlib

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    # Sends 0, 1, 2 …; a negative COUNT: so many, then an error. SENT: a file that gets how many were sent when the client has gone.
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            count = int(pb_utils.get_input_tensor_by_name(request, "COUNT").as_numpy()[0])
            sent = pb_utils.get_input_tensor_by_name(request, "SENT")
            number = 0
            while number < abs(count) and not sender.is_cancelled():
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("NUMBER", np.array([number], np.int32))]))
                number += 1
            if sender.is_cancelled() and sent is not None:
                pathlib.Path(sent.as_numpy()[0].decode()).write_text(str(number))
            if count < 0:
                sender.send(pb_utils.InferenceResponse([], pb_utils.TritonError("it counts no further")))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def make(folder: pathlib.Path) -> pathlib.Path:
    """`add` (ONNX, x + x), `text` (Python in a worker, upper case), `waits` and `counts` (Python in threads; see above)."""
    repository.make(folder)
    add(folder, "waits", WAITS + IN_THREAD, WAITS_MODEL)
    add(folder, "counts", COUNTS + IN_THREAD, COUNTS_MODEL)
    return folder


def add(folder: pathlib.Path, name: str, config: str, code: str) -> None:
    """Add a Python model."""
    version = folder / name / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(config)
    (version / "model.py").write_text(code)
