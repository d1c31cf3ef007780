"""Stands for NVIDIA's module `pynvml`: one GPU in MIG mode, of which a container sees the slices in NVIDIA_VISIBLE_DEVICES, as its device plugin sets it."""

# ruff: noqa: N802 - the names are NVML's

import collections.abc
import os
import typing

NVML_DEVICE_MIG_ENABLE = 1

_SLICES = os.environ["NVIDIA_VISIBLE_DEVICES"].split(",")


class NVMLError(Exception):
    """What every other function of NVML raises here."""


def nvmlInit() -> None: ...


def nvmlShutdown() -> None: ...


def nvmlDeviceGetCount() -> int:
    return 1


def nvmlDeviceGetHandleByIndex(index: int) -> str:
    return f"GPU-{index}"


def nvmlDeviceGetMigMode(handle: str) -> list[int]:
    return [NVML_DEVICE_MIG_ENABLE, NVML_DEVICE_MIG_ENABLE]


def nvmlDeviceGetMaxMigDeviceCount(handle: str) -> int:
    return len(_SLICES)


def nvmlDeviceGetMigDeviceHandleByIndex(handle: str, index: int) -> str:
    return _SLICES[index]


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
