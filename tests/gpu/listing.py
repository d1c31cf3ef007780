"""The list of GPU checks, in order of value: what each is called, what it needs and how long it may take."""

import collections.abc
import typing

from tests.gpu import checks, device_tensors, faults, placement
from tests.gpu.bench import Bench
from tests.gpu.images import dali_pipelines

Run = collections.abc.Callable[[Bench], str]

_ONNX = ("onnx", "onnxruntime-gpu")
_TORCH = ("torch",)


class Check(typing.NamedTuple):
    """A check.

    Attributes:
        name: for people.
        needs: the packages without which it is skipped.
        run: what runs it, in a process of its own.
        limit_s: after so long it is ended, and has failed.
        alone: nothing else may use the GPU meanwhile.
    """

    name: str
    needs: tuple[str, ...]
    run: Run
    limit_s: float = 90
    alone: bool = False


CHECKS = (
    Check("onnx on CUDA", _ONNX, checks.onnx_on_cuda),
    Check("onnx in CUDA graphs", _ONNX, checks.onnx_in_graphs),
    Check("onnx on TensorRT", (*_ONNX, "onnxruntime-tensorrt"), checks.onnx_on_tensorrt, 120),
    Check("TensorRT plans", ("tensorrt",), checks.tensorrt_plans, 120),
    Check("plans between models", ("tensorrt", "torch"), checks.plans_between_models, 120),
    Check("TorchScript and torch.export", _TORCH, checks.torch_models),
    Check("PyTorch in CUDA graphs", _TORCH, checks.torch_in_graphs, 150),
    Check("a compiled .pt2", (*_TORCH, "g++"), checks.compiled, 150),
    Check("Python models", _TORCH, checks.python_models),
    Check("CUDA tensors in calls", _TORCH, checks.cuda_tensors),
    Check("tensors of all sizes between models", _TORCH, device_tensors.sizes, 120),
    Check("tensors when an end dies", _TORCH, device_tensors.ends, 120),
    Check("tensors of expandable segments", _TORCH, device_tensors.copied),
    Check("clients' memory on the GPU", _TORCH, checks.client_regions),
    Check("an error that CUDA does not survive", _TORCH, faults.lost_device, 120),
    Check("out of memory", _TORCH, faults.out_of_memory),
    Check("DALI pipelines", ("nvidia.dali",), dali_pipelines),
    Check("placement", (*_TORCH, *_ONNX), placement.placement),
    Check("no CUDA context", (*_TORCH, *_ONNX), placement.without_contexts),
    Check("two ONNX instances", _ONNX, placement.one_process),
    Check("CUDA_VISIBLE_DEVICES", (*_TORCH, *_ONNX), placement.by_uuid),
    Check("a wrong option of CUDA", _ONNX, placement.wrong_option),
    Check("--gpu-fallback=cpu", _ONNX, placement.fallback),
    Check("--min-supported-compute-capability", _ONNX, placement.least_capability),
    Check("a killed worker", _TORCH, faults.killed),
    Check("memory after unloads", (*_TORCH, *_ONNX), faults.unloaded),
    Check("--model-load-gpu-limit", _ONNX, faults.load_limit, alone=True),
    Check("nv_gpu metrics", _TORCH, faults.gpu_metrics, alone=True),
    Check("filled batches", _ONNX, faults.filled_batches, 120, alone=True),
)
"""`--seconds` may leave out the last ones."""
