"""A function of the program whose batches wait for the test."""

import threading
import typing

import numpy as np

import naiad
from tests.server.embed.test_functions import Array

ONE = naiad.Tensor((1,), np.float32, "x")
OUT = naiad.Tensor((1,), np.float32, "y")
X = np.ones((1, 1), np.float32)


class Gate:
    """A function that waits in its thread until the test lets a batch pass, and says that it has begun."""

    def __init__(self) -> None:
        self._begun = threading.Semaphore(0)
        self._passes = threading.Semaphore(0)
        self.rows: list[int] = []

    def batch(self, x: Array) -> Array:
        self.rows.append(len(x))
        self._begun.release()
        assert self._passes.acquire(timeout=60)
        return x * 2

    def begins(self) -> bool:
        """Wait until it has a batch; whether it has."""
        return self._begun.acquire(timeout=60)

    def open(self, batches: int = 100) -> None:
        """Let so many pass."""
        self._passes.release(batches)

    def model(self, **options: typing.Any) -> naiad.FunctionModel:
        made = naiad.model(inputs=[ONE], outputs=[OUT], name="gate", max_batch_size=8, **options)
        return made(self.batch)
