"""What every GPU check works with: a folder, servers on the models there, requests to them, and a list of what was seen."""

import collections.abc
import contextlib
import dataclasses
import json
import os
import pathlib
import time
import typing
from http import HTTPStatus
from typing import Any

import numpy as np

from naiad.core import datatypes
from tests.gpu import repositories
from tests.gpu.machine import Gpu
from tests.gpu.repositories import GPU, IO
from tests.reference.process import ServerProcess, naiad_program
from tests.wire.plain_http import call

TOLERANCE = 1e-3
"""Relative, of outputs on the GPU beside those on the CPU: TF32 alone makes 6e-4."""

Array = np.ndarray[Any, Any]

_NAMES = {"f4": "FP32", "i8": "INT64", "u1": "UINT8"}


@dataclasses.dataclass(frozen=True)
class Bench:
    """Where a check runs: a folder of its own, and the GPU.

    Attributes:
        seen: what its steps saw, one line each.
        wrong: what was wrong; the check goes on, and fails in the end.
    """

    folder: pathlib.Path
    gpu: Gpu
    seen: list[str] = dataclasses.field(default_factory=list)
    wrong: list[str] = dataclasses.field(default_factory=list)

    @property
    def models(self) -> pathlib.Path:
        """The repository."""
        return self.folder / "models"

    @property
    def log(self) -> str:
        """What the last server has written."""
        path = self.folder / "server.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @contextlib.contextmanager
    def server(
        self, *options: str, environ: collections.abc.Mapping[str, str] | None = None
    ) -> collections.abc.Iterator[ServerProcess]:
        """The server on this check's models; ends with the context."""
        program = naiad_program()
        variables = {
            name: text for name, text in program.environ.items() if name != "TRITON_SERVER_CPU_ONLY"
        }
        # The packages may be in a folder that only this variable names.
        paths = (variables["PYTHONPATH"], os.environ.get("PYTHONPATH", ""))
        variables["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        log = self.folder / "server.log"
        more = ["--exit-on-error=false", "--strict-readiness=false", *options]
        program = dataclasses.replace(program, environ={**variables, **(environ or {})})
        with ServerProcess(program, [self.models], options=more, log=log) as server:
            yield server

    def step(self, what: str, look: collections.abc.Callable[[], str]) -> None:
        """Look at one thing; if it is wrong, the steps behind it are done nevertheless."""
        try:
            self.seen.append(f"{what}: {look()}")
        except Exception as error:  # noqa: BLE001 - whatever it is, the next step runs
            self.wrong.append(f"{what}: WRONG, {type(error).__name__}: {error}")

    def python(self, name: str, work: str, group: str = GPU % 1, more: str = "") -> None:
        """Write a Python model with torch that gives 2 X."""
        config = IO + 'backend: "python"\n' + group + more
        repositories.model(self.models, name, config, "model.py", repositories.DOUBLING % work)

    def onnx(self, name: str, more: str = GPU % 1) -> None:
        """Write an ONNX model that gives relu(X · W)."""
        config = IO + 'backend: "onnxruntime"\n' + more
        repositories.onnx(repositories.model(self.models, name, config, "model.onnx"))


def rows(count: int) -> Array:
    """The input of a request."""
    return np.random.default_rng(count).random((count, 64), np.float32)


def ask(server: ServerProcess, model: str, given: Array, name: str = "X") -> Array:
    """The output of a model.

    Raises:
        RuntimeError: the server answers with an error.
    """
    return next(iter(infer(server, model, {name: given}).values()))


def infer(
    server: ServerProcess, model: str, inputs: collections.abc.Mapping[str, Array]
) -> dict[str, Array]:
    """The outputs of a model.

    Raises:
        RuntimeError: the server answers with an error.
    """
    tensors = [
        {
            "name": name,
            "datatype": _NAMES[given.dtype.str[1:]],
            "shape": list(given.shape),
            "data": given.ravel().tolist(),
        }
        for name, given in inputs.items()
    ]
    status, reply = call(server.http, "POST", f"/v2/models/{model}/infer", {"inputs": tensors})
    if status != HTTPStatus.OK:
        raise RuntimeError(f"{model}: {status} {reply.decode(errors='replace')[:400]}")
    return {
        each["name"]: np.array(each["data"], datatypes.BY_NAME[each["datatype"]].dtype).reshape(
            each["shape"]
        )
        for each in json.loads(reply)["outputs"]
    }


def post(server: ServerProcess, path: str, body: Any = None) -> Any:
    """The reply to a POST; None if it has no body.

    Raises:
        RuntimeError: the server answers with an error.
    """
    status, said = call(server.http, "POST", path, body)
    if status != HTTPStatus.OK:
        raise RuntimeError(f"{path}: {status} {said.decode(errors='replace')[:400]}")
    return json.loads(said) if said else None


def reasons(server: ServerProcess) -> dict[str, str]:
    """Of each model why it is not loaded; "" where it is."""
    found = post(server, "/v2/repository/index")
    return {
        each["name"]: "" if each.get("state") == "READY" else each.get("reason") or "no reason"
        for each in found
    }


def same(found: Array, expected: Array, what: str) -> float:
    """The largest relative difference, which is small.

    Raises:
        AssertionError: it is not.
    """
    if found.shape != expected.shape:
        raise AssertionError(f"{what}: shape {found.shape}, expected {expected.shape}")
    scale = float(np.abs(expected).max()) or 1.0
    away = float(np.abs(found - expected).max()) / scale
    if not away <= TOLERANCE:
        raise AssertionError(f"{what}: differs by {away:.2g}, at most {TOLERANCE:.0g} is expected")
    return away


def expect(holds: object, otherwise: str) -> None:
    """Raises an AssertionError that says what was seen instead."""
    if not holds:
        raise AssertionError(otherwise)


T = typing.TypeVar("T")


def until(look: collections.abc.Callable[[], T], seconds: float = 30) -> tuple[T, float]:
    """Look again until it gives something that is true and raises nothing; gives that, and the seconds it took.

    Raises:
        Exception: what the last look raised.
        TimeoutError: it is still not so.
    """
    began = time.monotonic()
    while True:
        late = time.monotonic() - began > seconds
        try:
            found = look()
        except Exception:
            if late:
                raise
        else:
            if found:
                return found, time.monotonic() - began
            if late:
                raise TimeoutError(f"not so after {seconds:g} s: {found}")
        time.sleep(0.05)
