"""The GPU of this machine and the packages that are here; nothing of them is imported into this process, which stays without a CUDA context."""

import importlib.metadata
import importlib.util
import pathlib
import shutil
import typing

PACKAGES = (
    "numpy",
    "nvidia-dali-cuda130",
    "onnx",
    "onnxruntime-gpu",
    "onnxruntime",
    "tensorrt",
    "torch",
    "torchvision",
    "tritonclient",
)

_BUILDS = {
    "onnxruntime-gpu": "libonnxruntime_providers_cuda.so",
    "onnxruntime-tensorrt": "libonnxruntime_providers_tensorrt.so",
}


class Gpu(typing.NamedTuple):
    """A GPU, as the driver describes it."""

    name: str
    capability: tuple[int, int]
    driver: str


def find_gpu() -> Gpu | str:
    """The first GPU; else why there is none, in words."""
    try:
        import pynvml  # noqa: PLC0415 - it may be missing
    except ImportError:
        return "the package nvidia-ml-py is missing, which asks the driver for its GPUs"
    try:
        pynvml.nvmlInit()
        if not pynvml.nvmlDeviceGetCount():
            return "NVIDIA's driver is here and knows no GPU"
        first = pynvml.nvmlDeviceGetHandleByIndex(0)
        return Gpu(
            str(pynvml.nvmlDeviceGetName(first)),
            tuple(pynvml.nvmlDeviceGetCudaComputeCapability(first)),
            str(pynvml.nvmlSystemGetDriverVersion()),
        )
    except pynvml.NVMLError as error:
        return f"NVIDIA's driver does not answer ({error})"


def has(package: str) -> bool:
    """Whether a package can be imported, or a program is there. `onnxruntime-gpu` and `onnxruntime-tensorrt` are builds of onnxruntime with these providers."""
    if package in _BUILDS:
        found = importlib.util.find_spec("onnxruntime")
        folders = (found.submodule_search_locations or ()) if found else ()
        return any((pathlib.Path(each) / "capi" / _BUILDS[package]).exists() for each in folders)
    if package == "g++":
        return shutil.which(package) is not None
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


def versions() -> dict[str, str]:
    """The versions of what is installed."""
    found: dict[str, str] = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
