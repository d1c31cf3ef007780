"""Two Python models with torch: one calls the other with a tensor on the GPU, again and again, and looks at the result there. Written for any size, so that little goes over the wire."""

import pathlib

from tests.gpu import repositories

_DOUBLES = """
import torch
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    # Y = X + 1, where X is; WHERE says where that was
    def execute(self, requests):
        answers = []
        for request in requests:
            given = pb_utils.get_input_tensor_by_name(request, "X")
            x = torch.from_dlpack(given)
            y = pb_utils.Tensor.from_dlpack("Y", x + 1)
            where = pb_utils.Tensor.from_dlpack("WHERE", torch.tensor([int(x.is_cuda)]))
            answers.append(pb_utils.InferenceResponse([y, where]))
        return answers
"""
_CALLS = """
import time
import torch
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    # PLAN: bytes, calls, whether all of the values are looked at. SAW: the median's seconds, wrong results, calls whose tensors were on the GPU at both ends
    def initialize(self, args):
        self.device = f"cuda:{args['model_instance_device_id']}" if torch.cuda.is_available() else "cpu"

    def execute(self, requests):
        return [self.answer(pb_utils.get_input_tensor_by_name(each, "PLAN").as_numpy().tolist()) for each in requests]

    def answer(self, plan):
        size, calls, looks = plan
        times, wrong, there = [], 0, 0
        values = torch.arange(size // 4, device=self.device).remainder_(1 << 20).float()
        for number in range(calls):
            x = values + number if looks else values
            if x.is_cuda:
                torch.cuda.synchronize()
            began = time.perf_counter()
            request = pb_utils.InferenceRequest(
                model_name="receiver", requested_output_names=["Y", "WHERE"], inputs=[pb_utils.Tensor.from_dlpack("X", x)])
            response = request.exec()
            if response.has_error():
                raise pb_utils.TritonModelException(response.error().message())
            y = torch.from_dlpack(pb_utils.get_output_tensor_by_name(response, "Y"))
            times.append(time.perf_counter() - began)
            where = torch.from_dlpack(pb_utils.get_output_tensor_by_name(response, "WHERE"))
            there += int(bool(int(where.cpu()[0])) and y.is_cuda)
            if looks:
                wrong += int(not torch.equal(y.to(x.device), x + 1))
        median = sorted(times)[calls // 2]
        saw = torch.tensor([median, wrong, there], dtype=torch.float32)
        return pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("SAW", saw)])
"""
_CALLS_CONFIG = """backend: "python"
input { name: "PLAN" data_type: TYPE_INT64 dims: 3 }
output { name: "SAW" data_type: TYPE_FP32 dims: 3 }
"""
_RECEIVES_CONFIG = """backend: "python"
input { name: "X" data_type: TYPE_FP32 dims: -1 }
output { name: "Y" data_type: TYPE_FP32 dims: -1 }
output { name: "WHERE" data_type: TYPE_INT64 dims: 1 }
"""


def write(models: pathlib.Path, group: str, *, on_host: bool = False) -> None:
    """Write both; with `on_host` the receiver takes its input in the host's memory."""
    repositories.model(models, "caller", _CALLS_CONFIG + group, "model.py", _CALLS)
    takes = _RECEIVES_CONFIG + group + ("" if on_host else repositories.INPUTS_ON_GPU)
    repositories.model(models, "receiver", takes, "model.py", _DOUBLES)
