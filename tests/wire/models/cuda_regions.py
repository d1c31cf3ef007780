"""A client's memory on a GPU, which is made up (`tests.support.cuda`), and how the tests register it and name it in requests."""

import base64
import collections.abc
import contextlib
import itertools
import pathlib
from typing import Any

from tests.support import cuda
from tests.support.cuda.client_memory import Allocation
from tests.wire.models.device_models import HEAD, ON_DEVICE, gpu

_MODEL = """\
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        x = [pb_utils.get_input_tensor_by_name(each, "X").as_numpy() for each in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", {y})]) for each in x]
"""

_CONFIG = """\
backend: "python"
input {{ name: "X" data_type: TYPE_{kind} dims: -1 }}
output {{ name: "Y" data_type: TYPE_{kind} dims: -1 }}
instance_group {{ kind: KIND_CPU count: 1 }}
"""

_NUMBERS = itertools.count()


_WRITER = """\
    # Y = X, and X is overwritten where it lies
    def execute(self, requests):
        responses = []
        for request in requests:
            x = from_dlpack(request.inputs()[0])
            y = x.numpy()
            zeros = np.zeros(x.shape, np.float32)
            cudart.load().to_device(x.address, zeros.ctypes.data, zeros.nbytes, 0)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", y)]))
        return responses
"""


def models(folder: pathlib.Path) -> None:
    """Models that are on no GPU: "double" gives 2 X, "loud" gives X in upper case. "writer" on GPU 0 overwrites its input."""
    for name, kind, y in (
        ("double", "FP32", "2 * each"),
        ("loud", "STRING", "np.array([text.upper() for text in each], object)"),
    ):
        version = folder / name / "1"
        version.mkdir(parents=True)
        (version.parent / "config.pbtxt").write_text(_CONFIG.format(kind=kind))
        (version / "model.py").write_text("import numpy as np\n" + _MODEL.format(y=y))
    version = folder / "writer" / "1"
    version.mkdir(parents=True)
    on_cpu = "instance_group { kind: KIND_CPU count: 1 }\n"
    config = _CONFIG.format(kind="FP32").replace(on_cpu, gpu(0) + ON_DEVICE)
    (version.parent / "config.pbtxt").write_text(config)
    (version / "model.py").write_text("from naiad.tensors import cudart\n" + HEAD + _WRITER)
    (version / "device_arrays.py").write_bytes(cuda.ARRAYS.read_bytes())


@contextlib.contextmanager
def region(
    asked: Any, size: int, device: int = 0
) -> collections.abc.Iterator[tuple[str, Allocation]]:
    """A registered region and its memory."""
    name = f"cuda_{next(_NUMBERS)}"
    memory = Allocation(size, device)
    try:
        asked.register_cuda_shared_memory(name, base64.b64encode(memory.handle), device, size)
        yield name, memory
    finally:
        asked.unregister_cuda_shared_memory(name)
        memory.free()
