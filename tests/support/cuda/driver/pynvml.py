"""Stands for NVIDIA's module `pynvml`: two GPUs, GPU-0 and GPU-1."""

# ruff: noqa: N802 - the names are NVML's

import collections.abc
import typing


class NVMLError(Exception):
    """What every other function of NVML raises here."""


def nvmlInit() -> None: ...


def nvmlShutdown() -> None: ...


def nvmlDeviceGetCount() -> int:
    return 2


def nvmlDeviceGetHandleByIndex(index: int) -> str:
    return f"GPU-{index}"


def nvmlDeviceGetMigMode(handle: str) -> list[int]:
    return [0, 0]


def nvmlDeviceGetUUID(handle: str) -> str:
    return handle


def nvmlDeviceGetName(handle: str) -> str:
    return "NVIDIA H100"


def nvmlDeviceGetCudaComputeCapability(handle: str) -> tuple[int, int]:
    return 9, 0


def __getattr__(name: str) -> collections.abc.Callable[..., typing.NoReturn]:
    def refuse(*_: object) -> typing.NoReturn:
        raise NVMLError(f"{name}: not supported")

    return refuse
