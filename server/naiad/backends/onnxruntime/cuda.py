"""What onnxruntime's CUDA provider stands on: NVIDIA's libraries, and the memory of a device. Nothing here is used on the CPU.

`onnxruntime-gpu` comes without CUDA and cuDNN. They are found beside it only after `onnxruntime.preload_dlls()` has loaded them from NVIDIA's
wheels; otherwise, and for what no wheel holds, the system's loader looks for them.
"""

import collections.abc
import contextlib
import ctypes
import errno
import importlib.util
import io
import logging
import os
import pathlib
import re
import threading
from typing import Any

import onnxruntime

from naiad import extras
from naiad.backends.onnxruntime.batch_sizes import Memory
from naiad.backends.onnxruntime.plan import CUDA, TENSORRT, SessionPlan
from naiad.errors import unavailable

log = logging.getLogger("naiad.backends")

_LIBRARIES = {
    CUDA: "libonnxruntime_providers_cuda.so",
    TENSORRT: "libonnxruntime_providers_tensorrt.so",
}
_FOLDER = pathlib.Path(onnxruntime.__file__).parent / "capi"

_lock = threading.Lock()
_preloaded = False


def preload(plan: SessionPlan) -> None:
    """Load NVIDIA's libraries, once per process, if the plan needs a GPU. What is missing is an error of the provider, later."""
    global _preloaded  # noqa: PLW0603 - libraries are the process's, too
    if not any(provider.name in _LIBRARIES for provider in plan.providers):
        return
    with _lock:
        if _preloaded or not hasattr(onnxruntime, "preload_dlls"):
            return
        _preloaded = True
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                onnxruntime.preload_dlls()
        except Exception as error:  # noqa: BLE001 - the libraries may be found all the same
            log.warning("onnxruntime.preload_dlls() failed: %s", error)
        for line in printed.getvalue().splitlines():
            log.debug("onnxruntime.preload_dlls(): %s", line)
        if any(provider.name == TENSORRT for provider in plan.providers):
            _preload_tensorrt()


def _preload_tensorrt() -> None:
    """Load TensorRT's libraries from its wheels, where the system's loader does not look for them. What is missing is an error of the provider, later."""
    package = importlib.util.find_spec("tensorrt_libs")
    for folder in package.submodule_search_locations or () if package is not None else ():
        for name in ("libnvinfer.so.*", "libnvinfer_plugin.so.*", "libnvonnxparser.so.*"):
            for path in sorted(pathlib.Path(folder).glob(name)):
                try:
                    ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
                except OSError as error:
                    log.warning("%s cannot be loaded: %s", path, error)


def make_cache_folders(folders: collections.abc.Mapping[str, str], *, model: str) -> None:
    """Make the folders of TensorRT's caches: it makes the last one of a path only, and says nothing about one that it cannot write to.

    Args:
        folders: each with the parameter that names it.
        model: its name.

    Raises:
        InferenceError: UNAVAILABLE: one cannot be made, or cannot be written to.
    """
    for folder, parameter in folders.items():
        path = pathlib.Path(folder)
        try:
            path.mkdir(parents=True, exist_ok=True)
            if not os.access(path, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise unavailable(
                f"unable to load model '{model}': {parameter} '{folder}' cannot be written to: {error.strerror}: name a folder that the server may write "
                "to, which keeps the engines from one start to the next"
            ) from error


def library_fault(provider: str, folder: pathlib.Path = _FOLDER) -> str:
    """Why the library of a provider cannot be loaded, in the loader's words; "" if it can, or if the provider has none."""
    name = _LIBRARIES.get(provider)
    if name is None:
        return ""
    try:
        # The one that all of them need; its symbols have to be visible to the next one.
        ctypes.CDLL(str(folder / "libonnxruntime_providers_shared.so"), mode=ctypes.RTLD_GLOBAL)
        ctypes.CDLL(str(folder / name))
    except OSError as error:
        return str(error)
    return ""


def advice(fault: str) -> str:
    """What to do about a library that `library_fault` names."""
    if fault.startswith("libcuda."):
        return "that is NVIDIA's driver, which the machine has to have, and a container gets from NVIDIA's container toolkit"
    if fault.startswith("libnv"):
        return _tensorrt_advice(fault)
    cuda = getattr(onnxruntime, "cuda_version", "").partition(".")[0]
    needed = f"CUDA {cuda} and cuDNN 9" if cuda else "CUDA and cuDNN"
    return f"this build of onnxruntime needs {needed}: {extras.install('server-gpu')} brings them; or use an image that has them"


def _tensorrt_advice(fault: str) -> str:
    """The release of TensorRT that a library's name says, and the one that is installed."""
    import importlib.metadata  # noqa: PLC0415 - a start needs none of it

    match = re.search(r"\.so\.(\d+)", fault)
    major = match[1] if match else ""
    release = f"TensorRT {major}" if major else "TensorRT"
    cuda = getattr(onnxruntime, "cuda_version", "").partition(".")[0]
    package = f"tensorrt-cu{cuda}" if cuda else "tensorrt"
    bounds = f">={major},<{int(major) + 1}" if major else ""
    try:
        there = f"{importlib.metadata.version('tensorrt')} is installed"
    except importlib.metadata.PackageNotFoundError:
        there = "none is installed"
    return (
        f"that is {release}, on which onnxruntime {onnxruntime.__version__} is built, and {there}: pip install '{package}{bounds}', or remove the accelerator "
        "tensorrt from the config"
    )


def device_memory(device_id: int) -> Memory | None:
    """The memory of a GPU by the number that CUDA gives it in this process; None where CUDA does not say."""
    major = getattr(onnxruntime, "cuda_version", "").partition(".")[0]
    if not major:
        return None
    try:
        return memory_by(ctypes.CDLL(f"libcudart.so.{major}"), device_id)
    except OSError:
        return None


def memory_by(library: Any, device_id: int) -> Memory | None:
    """The memory of a device, from an opened CUDA runtime. The calling thread's device stays what it is."""
    before = ctypes.c_int()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    if library.cudaGetDevice(ctypes.byref(before)) or library.cudaSetDevice(device_id):
        return None
    failed = library.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total))
    library.cudaSetDevice(before)
    return None if failed else Memory(free.value, total.value)
