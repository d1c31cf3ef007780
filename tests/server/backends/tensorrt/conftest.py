"""A made-up GPU and a made-up TensorRT in this process, for one test."""

import collections.abc
import importlib
import pathlib
import sys
from typing import Any

import pytest

from naiad.backends import cuda_runtime
from tests.support import made_up_gpu

_IMPORTING = (
    "engine.library",
    *(f"execution.{name}" for name in ("memory", "context", "bindings", "instance")),
)


def _forget() -> None:
    for name in tuple(sys.modules):
        own = name.removeprefix("naiad.backends.tensorrt.")
        if name.partition(".")[0] in ("tensorrt", "made_up_cuda") or own in _IMPORTING:
            del sys.modules[name]


@pytest.fixture
def cuda(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> collections.abc.Iterator[Any]:
    """The made-up CUDA runtime."""
    _forget()
    monkeypatch.syspath_prepend(made_up_gpu.install(tmp_path / "gpu"))
    made_up = importlib.import_module("made_up_cuda").CUDA
    monkeypatch.setattr(cuda_runtime, "open_runtime", lambda: made_up)
    yield made_up
    _forget()
