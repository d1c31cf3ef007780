"""What onnxruntime's CUDA provider stands on: NVIDIA's libraries, and the memory of a device. Nothing here is used on the CPU.

`onnxruntime-gpu` comes without CUDA and cuDNN. They are found beside it only after `onnxruntime.preload_dlls()` has loaded them from NVIDIA's
wheels; otherwise, and for what no wheel holds, the system's loader looks for them.
"""

import contextlib
import ctypes
import io
import logging
import pathlib
import threading
from typing import Any

import onnxruntime

from naiad import extras
from naiad.backends.onnxruntime.batch_sizes import Memory
from naiad.backends.onnxruntime.plan import CUDA, TENSORRT, SessionPlan

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
        return "that is TensorRT, which is not installed with naiad: install it, or remove the accelerator"
    cuda = getattr(onnxruntime, "cuda_version", "").partition(".")[0]
    needed = f"CUDA {cuda} and cuDNN 9" if cuda else "CUDA and cuDNN"
    return f"this build of onnxruntime needs {needed}: {extras.install('server-gpu')} brings them; or use an image that has them"


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
