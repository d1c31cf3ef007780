"""What runs in a worker process: requests in, answers out, without a type of the server.

Limits, so that a worker can live in the interpreter of a model's own environment: the standard library and numpy, Python 3.8.
A backend whose instances can live with that has a `Runner` of its own (`WorkerPlan`); the others run in a worker as they are.
"""

import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

DTYPES = {
    "BOOL": np.dtype(np.bool_), "UINT8": np.dtype(np.uint8), "UINT16": np.dtype(np.uint16), "UINT32": np.dtype(np.uint32),
    "UINT64": np.dtype(np.uint64), "INT8": np.dtype(np.int8), "INT16": np.dtype(np.int16), "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64), "FP16": np.dtype(np.float16), "FP32": np.dtype(np.float32), "FP64": np.dtype(np.float64),
    "BF16": np.dtype("V2"),
}  # fmt: skip
"""By wire name (row 2.16); BYTES are object arrays."""


class WorkerError(Exception):
    """What fails a load or a whole batch.

    Args:
        code: one of the eight codes, by name.
        message: for people.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ReceivedTensor:
    """An input.

    Attributes:
        name: its name.
        datatype: its wire name.
        array: its values; a view of shared memory, except BYTES.
    """

    __slots__ = ("array", "datatype", "name")

    def __init__(self, name: str, datatype: str, array: "np.ndarray[Any, Any]") -> None:
        self.name = name
        self.datatype = datatype
        self.array = array


class ReceivedRequest:
    """A request, as `api.request.Received` says; `request` is itself, so that it is a `Call` too.

    Attributes:
        number: of this request among all that the worker was given.
        cancelled: whether nobody wants it any more.
        on_cancel: told when that happens after the batch was handed over; None for nobody.
    """

    __slots__ = (
        "__weakref__", "_room", "cancelled", "correlation_id", "flags", "id", "inputs", "number", "on_cancel",
        "output_names", "parameters", "timeout_us",
    )  # fmt: skip

    id: str
    correlation_id: "int | str"
    flags: int
    timeout_us: int
    parameters: "dict[str, Any]"
    output_names: "list[str]"
    cancelled: bool
    inputs: "list[Any]"

    def __init__(self, number: int) -> None:
        self.number = number
        self.on_cancel: Callable[[], None] | None = None
        self._room: threading.Event | None = None

    @property
    def request(self) -> "ReceivedRequest":
        """What was received."""
        return self

    def cancel(self) -> None:
        """Nobody wants it any more. Called beside the batch, in another thread."""
        self.cancelled = True
        self.hold(False)
        if self.on_cancel is not None:
            self.on_cancel()

    def hold(self, held: bool) -> None:  # noqa: FBT001  it is what is told
        """Whether who answers it shall wait, for its client does not take what is sent. Called as `cancel` is."""
        room = self._room
        if held and not self.cancelled:
            if room is None:
                room = self._room = threading.Event()
            room.clear()
        elif room is not None:
            room.set()

    def wait_for_room(self) -> None:
        """Return once its client takes more answers, or wants none; at once unless it is held."""
        room = self._room
        if room is not None and not self.cancelled:
            room.wait()


class Answer:
    """What one request gets.

    Attributes:
        error: its code and message, or None.
        parameters: the model's own.
        outputs: name, datatype and array of each; BF16 in any dtype of two bytes.
    """

    __slots__ = ("error", "outputs", "parameters")

    def __init__(
        self,
        outputs: "list[tuple[str, str, np.ndarray[Any, Any]]]",
        parameters: "dict[str, Any]",
        error: "tuple[str, str] | None" = None,
    ) -> None:
        self.outputs = outputs
        self.parameters = parameters
        self.error = error


class Post(Protocol):
    """Takes a response to a request that is answered apart from its batch. Safe in any thread."""

    def __call__(
        self, request: ReceivedRequest, answer: "Answer | None", *, final: bool, begun_ns: int
    ) -> None:
        """Send a response.

        Args:
            request: whose.
            answer: the response; None for an end that says nothing else.
            final: no other follows.
            begun_ns: when its batch began to compute (monotonic).
        """


class Runner(Protocol):
    """What a worker runs: one instance of one model. Made by `load`; called by the worker's main thread, but `ready`."""

    def answer_through(self, post: Post) -> None:
        """Where answers apart from batches go. Called once, before the first batch."""
        ...

    def execute(self, requests: "list[ReceivedRequest]") -> "Outcome":
        """Run a batch.

        Raises:
            WorkerError: the whole batch failed.
        """
        ...

    def ready(self) -> bool:
        """Whether it could run a batch now; may come beside `execute`."""
        ...

    def beat(self, call: "Callable[[], None]") -> None:
        """Have `call` made by the thread that runs coroutines, once it gets to it; at once where there is none. In any thread."""
        ...

    def close(self) -> None:
        """The end."""
        ...


class Outcome:
    """What came of a batch.

    Attributes:
        answers: one for each request, in their order; None for one that is answered apart: before, now or later.
        input_end_ns: when compute began (monotonic, the same clock in every process).
        output_start_ns: when compute ended.
    """

    __slots__ = ("answers", "input_end_ns", "output_start_ns")

    def __init__(
        self, answers: "list[Answer | None]", input_end_ns: int, output_start_ns: int
    ) -> None:
        self.answers = answers
        self.input_end_ns = input_end_ns
        self.output_start_ns = output_start_ns
