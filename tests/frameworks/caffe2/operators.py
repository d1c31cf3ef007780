"""One operator of Caffe2 at a time, run as a model of its own."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.testing import assert_allclose

from tests.server.backends.caffe2.running import run, translated
from tests.support.netdef import write

Array = Any


def random(*shape: int, seed: int = 0) -> Array:
    """Numbers around 0, float32."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def positive(*shape: int, seed: int = 0) -> Array:
    """Numbers between 0.5 and 1.5, float32."""
    return np.random.default_rng(seed).uniform(0.5, 1.5, size=shape).astype(np.float32)


def nhwc(array: Array) -> Array:
    """An image or weights with the channels last."""
    return np.ascontiguousarray(np.moveaxis(array, 1, -1))


def compute(
    folder: pathlib.Path,
    kind: str,
    inputs: Sequence[Array],
    *,
    constants: Sequence[Array] = (),
    outputs: int = 1,
    free: bool = False,
    **arguments: Any,
) -> list[Array]:
    """What an operator gives for inputs, which are followed by constants of the init net; with `free` the config leaves every size open."""
    feeds = {f"x{index}": array for index, array in enumerate(inputs)}
    blobs = {f"w{index}": array for index, array in enumerate(constants)}
    made = [f"y{index}" for index in range(outputs)]
    path = write(folder, [(kind, [*feeds, *blobs], made, arguments)], list(feeds), made, blobs)
    types = {
        name: (array.dtype, [-1] * array.ndim if free else array.shape)
        for name, array in feeds.items()
    }
    results = run(translated(path, types), feeds)
    return [results[name] for name in made]


def check(
    folder: pathlib.Path,
    kind: str,
    inputs: Sequence[Array],
    expected: Any,
    arguments: Mapping[str, Any] | None = None,
    **more: Any,
) -> None:
    """An operator with one output gives what torch gives, within the rounding of float32."""
    (result,) = compute(folder, kind, inputs, **(arguments or {}), **more)
    wanted = expected.numpy() if isinstance(expected, torch.Tensor) else np.asarray(expected)
    assert result.shape == wanted.shape
    assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)
