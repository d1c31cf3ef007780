"""An instance of a library in C, in a worker process.

Limits: those of `backends/instance.py`: standard library and numpy, Python 3.8.
"""

import ctypes
import time
from collections.abc import Sequence
from typing import Any

from naiad.backends.c.arena import Arena
from naiad.backends.c.deferred import DeferredRequest
from naiad.backends.c.host import ErrorText, LibraryHost
from naiad.backends.c.memory import OutputMemory
from naiad.backends.c.outputs import BatchOutputs, failure
from naiad.backends.c.rules import OutputRules
from naiad.backends.instance import Call, Execution, Instance, Responder, Response


class CInstance(Instance):
    """Implements `Instance`. Called without the interpreter lock.

    Args:
        library: loaded, with `abi.declare`.
        handle: the library's instance.
        host: finds the batch of a call of the library.
        rules: what outputs may be.
        who: names it, for messages.
        decoupled: whether requests may get several responses, or none.
    """

    defers = True
    keeps_arrays = True

    _responder: Responder

    def __init__(
        self,
        library: Any,
        handle: ctypes.c_void_p,
        *,
        host: LibraryHost,
        rules: OutputRules,
        who: str,
        decoupled: bool,
    ) -> None:
        self._library = library
        self._execute = library.naiad_execute
        self._handle = handle
        self._host = host
        self._rules = rules
        self._who = who
        self._decoupled = decoupled
        self._arena = Arena([spec.name for spec in rules.specs.values()])
        self._memory = OutputMemory()
        self._error = ErrorText()
        self._ready = getattr(library, "naiad_instance_ready", None)
        self.asks_model = self._ready is not None

    def execute(  # type: ignore[explicit-override]  # `override` is in no standard library of 3.8
        self, batch: "Sequence[Call]"
    ) -> "Execution[Response]":
        """Call `naiad_execute`.

        Raises:
            InferenceError: it failed the whole batch.
        """
        self._memory.begin()
        outputs = BatchOutputs(
            batch, self._rules, self._memory, who=self._who, decoupled=self._decoupled
        )
        error = self._error
        error.clear()
        begun_ns = time.monotonic_ns()
        deferred: list[DeferredRequest] = []

        def defer(index: int) -> "DeferredRequest | None":
            call = outputs.defer(index)
            if call is None:
                return None
            made = DeferredRequest(
                call, self._responder, self._rules, self._who, decoupled=self._decoupled, begun_ns=begun_ns
            )  # fmt: skip
            deferred.append(made)
            return made

        context = self._host.begin(outputs, defer)
        try:
            address, keep = self._arena.write(batch, context)
            begun_ns = time.monotonic_ns()
            status = self._execute(self._handle, address, error.pointer)
            ended_ns = time.monotonic_ns()
        finally:
            self._host.end(context)
        del keep
        if status:
            for each in deferred:
                each.close()
            if deferred:
                self._host.forget_closed()
            raise failure(self._who, status, error.text)
        if outputs.times is not None:
            begun_ns, ended_ns = _within(outputs.times, begun_ns, ended_ns)
        return Execution(outputs.responses(), begun_ns, ended_ns)

    def respond_through(  # type: ignore[explicit-override]  # as above
        self, responder: Responder
    ) -> None:
        """See `Instance`."""
        self._responder = responder

    def ready(self) -> bool:  # type: ignore[explicit-override]  # as above
        """What `naiad_instance_ready` says, if the library has it."""
        return self._ready is None or bool(self._ready(self._handle))

    def close(self) -> None:  # type: ignore[explicit-override]  # as above
        """Call `naiad_instance_destroy`."""
        self._library.naiad_instance_destroy(self._handle)


def _within(times: "tuple[int, int]", begun_ns: int, ended_ns: int) -> "tuple[int, int]":
    """The library's times, within the call."""
    begun = min(max(times[0], begun_ns), ended_ns)
    return begun, min(max(times[1], begun), ended_ns)
