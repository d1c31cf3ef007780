"""Runs first in each process of a test that has the folder of this file on PYTHONPATH: its CUDA runtime is the made-up one."""

import made_up_cuda

from naiad.backends import cuda_runtime


def _made_up() -> cuda_runtime.CudaRuntime:
    made_up: cuda_runtime.CudaRuntime = made_up_cuda.CUDA
    return made_up


cuda_runtime.open_runtime = _made_up
