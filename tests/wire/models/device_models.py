"""Python models with tensors on a GPU, which is made up (`tests.support.cuda`), and a server with two of them."""

import collections.abc
import contextlib
import dataclasses
import os
import pathlib

import numpy as np
import tritonclient.grpc

from tests.reference.process import ServerProcess, naiad_program
from tests.support import cuda

HEAD = """\
import os
import time
import numpy as np
import triton_python_backend_utils as pb_utils
from device_arrays import Allocation, from_dlpack, to_device


def place(tensor):
    if tensor.is_cpu():
        return "cpu"
    kind, device = tensor.__dlpack_device__()
    return f"gpu {device}"


def values(tensor):
    return tensor.as_numpy() if tensor.is_cpu() else from_dlpack(tensor).numpy()


class TritonPythonModel:
"""

PRODUCER = """\
    # Y = 2 X, inside an allocation that is kept, and a copy of X on the host
    def initialize(self, args):
        self.pool, self.at = Allocation(1 << 16), 0

    def execute(self, requests):
        responses = []
        for request in requests:
            doubled = values(request.inputs()[0]) * 2
            self.at = (self.at + 256) % (1 << 15)
            y = to_device(doubled, within=self.pool, offset=self.at)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("Y", y)]))
        return responses
"""

CONSUMER = """\
    # Y = X + 1, in memory of its own, and where X was
    def execute(self, requests):
        responses = []
        for request in requests:
            x = request.inputs()[0]
            y = to_device(values(x) + 1)
            where = np.array([place(x)], object)
            responses.append(
                pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("Y", y.__dlpack__()), pb_utils.Tensor("WHERE", where)])
            )
        return responses
"""

HOLDER = """\
    # keeps X until it gets one that is 0; says which process it is. A negative one takes a moment
    kept = []

    def execute(self, requests):
        responses = []
        for request in requests:
            x = request.inputs()[0]
            first = float(values(x)[0])
            if first < 0:
                time.sleep(0.5)
            if first:
                self.kept.append((x, from_dlpack(x)))
            else:
                assert all(from_dlpack(kept).numpy()[0] == view.numpy()[0] for kept, view in self.kept)
                self.kept.clear()
            where = np.array([str(os.getpid())], object)
            y = np.zeros(1, np.float32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", y), pb_utils.Tensor("WHERE", where)]))
        return responses
"""

CALLER = """\
    # calls the model that is named, with X on its GPU; says where the callee's input and output were
    def execute(self, requests):
        responses = []
        for request in requests:
            x, model, memory = request.inputs()
            if model.as_numpy()[0] == b"pid":
                said = np.array([str(os.getpid())], object)
                y = pb_utils.Tensor("Y", x.as_numpy())
                responses.append(pb_utils.InferenceResponse([y, pb_utils.Tensor("WHERE", said)]))
                continue
            preferred = {
                b"gpu": {"preferred_memory": pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_GPU, 0)},
                b"cpu": {"preferred_memory": pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU)},
                b"": {},
            }[memory.as_numpy()[0]]
            asked = pb_utils.InferenceRequest(
                model_name=model.as_numpy()[0].decode(), requested_output_names=["Y", "WHERE"],
                inputs=[pb_utils.Tensor.from_dlpack("X", to_device(x.as_numpy()))], **preferred,
            )
            response = asked.exec()
            if response.has_error():
                responses.append(pb_utils.InferenceResponse(error=response.error()))
                continue
            y = pb_utils.get_output_tensor_by_name(response, "Y")
            where = pb_utils.get_output_tensor_by_name(response, "WHERE").as_numpy()[0].decode()
            said = np.array([f"{where}, {place(y)}"], object)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", values(y)), pb_utils.Tensor("WHERE", said)]))
        return responses
"""

_X = 'input { name: "X" data_type: TYPE_FP32 dims: -1 }\n'
_Y = 'output { name: "Y" data_type: TYPE_FP32 dims: -1 }\n'
_WHERE = 'output { name: "WHERE" data_type: TYPE_STRING dims: 1 }\n'
_NAMES = "".join(
    f'input {{ name: "{name}" data_type: TYPE_STRING dims: 1 }}\n' for name in ("MODEL", "MEMORY")
)
ON_DEVICE = 'parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { string_value: "no" } }\n'


def gpu(*numbers: int) -> str:
    """An instance group."""
    return f"instance_group {{ kind: KIND_GPU count: 1 gpus: {list(numbers)} }}\n"


ENSEMBLE = """\
platform: "ensemble"
{head}
ensemble_scheduling {{
  step {{ model_name: "producer" model_version: -1 input_map {{ key: "X" value: "X" }} output_map {{ key: "Y" value: "between" }} }}
  step {{ model_name: "{second}" model_version: -1 input_map {{ key: "X" value: "between" }}
    output_map {{ key: "Y" value: "Y" }} output_map {{ key: "WHERE" value: "WHERE" }} }}
}}
"""


def repository(folder: pathlib.Path) -> pathlib.Path:
    """All of them, and ensembles of a producer and each kind of consumer."""
    models = {
        "producer": (_X + _Y + gpu(0), PRODUCER),
        "same_gpu": (_X + _Y + _WHERE + gpu(0) + ON_DEVICE, CONSUMER),
        "other_gpu": (_X + _Y + _WHERE + gpu(1) + ON_DEVICE, CONSUMER),
        "host": (_X + _Y + _WHERE + gpu(0), CONSUMER),
        "holder": (_X + _Y + _WHERE + gpu(0) + ON_DEVICE, HOLDER),
        "caller": (_X + _NAMES + _Y + _WHERE + gpu(0), CALLER),
    }
    for name, (config, code) in models.items():
        version = folder / name / "1"
        version.mkdir(parents=True)
        (version.parent / "config.pbtxt").write_text('backend: "python"\n' + config)
        (version / "model.py").write_text(HEAD + code)
        (version / "device_arrays.py").write_bytes(cuda.ARRAYS.read_bytes())
    for second in ("same_gpu", "other_gpu", "host", "holder"):
        version = folder / f"to_{second}" / "1"
        version.mkdir(parents=True)
        (version.parent / "config.pbtxt").write_text(
            ENSEMBLE.format(head=_X + _Y + _WHERE, second=second)
        )
    return folder


@contextlib.contextmanager
def serving(
    folder: pathlib.Path,
    *options: str,
    state: cuda.State | None = None,
    packages: pathlib.Path | None = None,
) -> collections.abc.Iterator[tuple[ServerProcess, cuda.State]]:
    """A server on all of them and what else is in `folder / "models"`, and what its processes hold of the GPUs; `packages` can be imported by all of them."""
    state = state or cuda.State(folder / "state")
    program = naiad_program()
    environ = cuda.server_environment(program.environ, state, folder)
    if packages is not None:
        environ["PYTHONPATH"] = os.pathsep.join((str(packages), environ["PYTHONPATH"]))
    program = dataclasses.replace(program, environ=environ)
    models = repository(folder / "models")
    with ServerProcess(program, [models], log=folder / "log", options=options) as server:
        yield server, state


def ask(
    server: ServerProcess, model: str, values: "list[float]", **texts: str
) -> tuple[list[float], str]:
    """A request; gives Y, and WHERE.

    Raises:
        InferenceServerException: it failed.
    """
    x = tritonclient.grpc.InferInput("X", [len(values)], "FP32")
    x.set_data_from_numpy(np.array(values, np.float32))
    inputs = [x]
    for name, text in texts.items():
        given = tritonclient.grpc.InferInput(name, [1], "BYTES")
        given.set_data_from_numpy(np.array([text.encode()], object))
        inputs.append(given)
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        result = client.infer(model, inputs)
    where = result.as_numpy("WHERE")
    return result.as_numpy("Y").tolist(), "" if where is None else where[0].decode()
