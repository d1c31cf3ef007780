"""A model of which several instances run in one worker process, which loads it from here; what a request says decides what happens.

Files of its folder show what it did and let it go on. Limits: those of `backends/instance.py`.
"""

import contextlib
import os
import pathlib
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from naiad.backends.instance import (
    Execution,
    Instance,
    InstanceSpec,
    LoadedModel,
    Responder,
    Response,
)
from naiad.errors import invalid

WHERE, WAITS, RAISES, DIES, DEFERS, PRINTS, SAME, LOSES, FILLS = range(9)
"""The first value of a request: give the process and the thread, wait for a file, …, give back the input."""


Fail = type("Fail", (Exception,), {"__module__": "onnxruntime.capi.onnxruntime_pybind11_state"})
"""As onnxruntime raises it."""


class Model(LoadedModel):
    """Loaded once per process.

    Args:
        settings: `folder`, and the name of an instance to `refuse`.
    """

    def __init__(self, settings: "dict[str, Any]") -> None:
        self.folder = pathlib.Path(settings["folder"])
        self.refused = settings.get("refuse")
        self.note("loaded")

    def note(self, what: str) -> None:
        """Add a line to the file of what happened."""
        with (self.folder / "notes").open("a") as file:
            file.write(what + "\n")

    @override
    def make_instance(self, spec: InstanceSpec) -> "One":
        """See `LoadedModel`."""
        if spec.name == self.refused:
            raise invalid(f"instance '{spec.name}' is refused")
        hold = self.folder / f"hold {spec.name}"
        if hold.exists():
            (self.folder / f"makes {spec.name}").touch()
        while hold.exists():
            time.sleep(0.005)
        return One(self, spec.name)

    @override
    def close(self) -> None:
        """See `LoadedModel`."""
        self.note("model closed")


class One(Instance):
    """One of its instances."""

    prefetches = True

    def __init__(self, model: Model, name: str) -> None:
        self.model = model
        self.name = name
        self.responder: Any = None

    @override
    def respond_through(self, responder: Responder) -> None:
        """See `Instance`."""
        self.responder = responder

    @override
    def execute(self, batch: "Sequence[Any]") -> "Execution[Response]":
        """See `Instance`."""
        begun = time.monotonic_ns()
        responses = [self.respond(call) for call in batch]
        return Execution(responses, begun, time.monotonic_ns())

    def respond(self, call: Any) -> "Response | None":
        """The response to one request."""
        array = call.request.inputs[0].array
        what, value = array[0][:2]
        if what == WAITS:
            self.wait()
            return output(os.getpid(), int(call.cancelled))
        if what == RAISES:
            raise ValueError("as it should")
        if what == FILLS:  # this process has no more descriptors, or some again
            fill(all_of_them=bool(value))
        if what == LOSES:
            raise Fail("CUDA failure 700: an illegal memory access was encountered ; GPU=0")
        if what == DIES:
            os._exit(3)
        if what == DEFERS:
            thread = threading.Thread(target=self.send_later, args=(call, value))
            thread.start()
            return None
        if what == SAME:
            return Response([("OUT", "FP32", array.copy())], {})
        if what == PRINTS:
            sys.stdout.write(f"from {self.name}\n")
        return output(os.getpid(), threading.get_native_id())

    def wait(self) -> None:
        """Say that a batch has begun, and wait for a file."""
        (self.model.folder / f"begun {self.name}").touch()
        while not (self.model.folder / f"go {self.name}").exists():
            time.sleep(0.005)

    def send_later(self, call: Any, value: float) -> None:
        """Wait for a file and respond."""
        self.wait()
        self.responder.send(call, output(value, 0), final=True, begun_ns=time.monotonic_ns())

    @override
    def ready(self) -> bool:
        """See `Instance`."""
        return not (self.model.folder / f"unready {self.name}").exists()

    @override
    def close(self) -> None:
        """See `Instance`."""
        while (self.model.folder / f"stay {self.name}").exists():
            time.sleep(0.005)
        self.model.note(f"{self.name} closed")


def fill(*, all_of_them: bool) -> None:
    """Take the file descriptors that are left, or release them."""
    FILLED.clear()
    with contextlib.suppress(OSError):
        while all_of_them:
            FILLED.append(pathlib.Path(os.devnull).open())  # noqa: SIM115 - they are what it is about


FILLED: "list[Any]" = []


def output(*numbers: float) -> Response:
    """A response with these numbers."""
    return Response([("OUT", "FP32", np.array([numbers], np.float32))], {})
