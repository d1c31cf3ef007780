"""What a backend implements to run batches: `Instance`, the same in a thread of the server and in a worker process.

Limits, so that a worker can live in the interpreter of a model's own environment: the standard library, numpy and `naiad.errors`, in
Python 3.8. A request is whatever its host has (`Call`); responses are `Response`s, which the host turns into what it sends on.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, Tuple, TypeVar  # noqa: UP035 - as below

import numpy as np

from naiad.errors import InferenceError, internal, unsupported
from naiad.tensors.host_copy import HostCopy
from naiad.tensors.memory import HOST, Memory, memory_of

Output = Tuple[str, str, Any]  # noqa: UP006 - 3.8 cannot subscript the other one
"""An output: its name, the wire name of its datatype (row 2.16), and its values: a numpy array (an object or S array for BYTES, any dtype of
two bytes for BF16), or anything in the host's memory or on a CUDA device that DLPack can hand over, such as a torch tensor."""

_CUDA = "cuda"

Item = TypeVar("Item")


def host_array(name: str, values: Any) -> "np.ndarray[Any, Any]":
    """The values of an output as a numpy array: without a copy, but for those on a CUDA device.

    Raises:
        InferenceError: as `host_part`.
    """
    part = host_part(name, values)
    if isinstance(part, np.ndarray):
        return part
    from naiad.tensors import copies, dlpack  # noqa: PLC0415 - as below

    try:
        array = copies.to_host(part.array)
    except RuntimeError as error:
        raise _unreadable(name, part.array.memory, error) from error
    return array.view("V2") if part.array.datatype == dlpack.BF16 else array


def host_part(name: str, values: Any) -> Any:
    """The same, or, of values on a CUDA device, a `HostCopy`, by which they are copied to where they shall be.

    Raises:
        InferenceError: UNSUPPORTED: they are in memory that this process cannot read, and why; INTERNAL: they are neither an array nor a DLPack tensor.
    """
    if isinstance(values, np.ndarray):
        return values
    try:
        memory = memory_of(values)
    except AttributeError:
        raise internal(
            f"output '{name}' is of type {type(values).__name__}: it must be a numpy array, or have __dlpack__"
        ) from None
    if memory == HOST:
        array: np.ndarray[Any, Any] = np.from_dlpack(values)
        return array
    if memory.kind != _CUDA:
        raise _unreadable(name, memory, None)
    from naiad.tensors import copies  # noqa: PLC0415 - ctypes takes milliseconds, and most processes have no device

    try:
        return HostCopy(copies.array_of(values))
    except (RuntimeError, BufferError) as error:
        raise _unreadable(name, memory, error) from error


def _unreadable(name: str, memory: Memory, error: "Exception | None") -> InferenceError:
    why = "" if error is None else f" ({error})"
    return unsupported(
        f"output '{name}' is in memory of kind '{memory.kind}' (device {memory.device}), which this process cannot read{why}: copy it to the "
        "host's memory first"
    )


class InputTensor(Protocol):
    """An input. Read, never written: its memory is the client's or shared with another process.

    A framework takes it by DLPack, without a copy and wherever it lies: `torch.from_dlpack(tensor)`; where it needs to write, it copies it first.
    """

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def array(self) -> "np.ndarray[Any, Any]":
        """Its values in the host's memory: an object array of `bytes` for BYTES; a two-byte dtype that is not a number type for BF16."""

    @property
    def memory(self) -> Memory:
        """Where its values lie."""

    def __dlpack__(self, *, stream: Any = None) -> Any:
        """A DLPack capsule over its memory, BF16 included.

        Raises:
            BufferError: BYTES.
        """

    def __dlpack_device__(self) -> "tuple[int, int]":
        """Its memory as DLPack numbers it."""


class Request(Protocol):
    """What a client asks for."""

    @property
    def id(self) -> str:
        """The caller's own name for it; "" when it gave none."""

    @property
    def correlation_id(self) -> "int | str":
        """The sequence it belongs to; 0 or "" for none."""

    @property
    def flags(self) -> int:
        """Sequence flags."""

    @property
    def timeout_us(self) -> int:
        """Microseconds it may wait in the queue; 0 for no limit."""

    @property
    def parameters(self) -> "dict[str, Any]":
        """Parameters by name."""

    @property
    def output_names(self) -> "list[str]":
        """Names of outputs; empty means all."""

    @property
    def requested_outputs(self) -> "Sequence[Any]":
        """Empty if `output_names` is, which may take longer to make."""

    @property
    def inputs(self) -> "Sequence[InputTensor]":
        """The tensors."""

    @property
    def label(self) -> str:
        """What messages about this request begin with (row 1.3)."""


class Call(Protocol):
    """A request in progress."""

    @property
    def request(self) -> Request:
        """What was asked."""

    @property
    def batch_size(self) -> int:
        """The number of rows; 1 for a model without a batch dimension."""

    @property
    def cancelled(self) -> bool:
        """Whether the client has gone."""


class Response:
    """A response to one request: outputs that it asks for, in the model's order, and parameters; or why it failed."""

    __slots__ = ("error", "outputs", "parameters")

    def __init__(
        self,
        outputs: "list[Output]",
        parameters: "dict[str, Any]",
        error: "InferenceError | None" = None,
    ) -> None:
        self.outputs = outputs
        self.parameters = parameters
        self.error = error


class Execution(Generic[Item]):
    """The result of a batch.

    Attributes:
        responses: one for each request of the batch, in its order; None for one whose responses are deferred: they were sent before, or
            are sent later, through the `Responder`.
        input_end_ns: when inputs were ready and compute began (monotonic, the same clock in every process); what came before is
            compute_input.
        output_start_ns: when compute ended and outputs were split; what comes after is compute_output.
        padding_rows: how many rows the instance added to the batch, which are in no response.
        rescheduled: the positions of requests that the model wants to see again (row 15.18); their responses are None.
    """

    __slots__ = ("input_end_ns", "output_start_ns", "padding_rows", "rescheduled", "responses")

    def __init__(
        self,
        responses: "Sequence[Item | None]",
        input_end_ns: int,
        output_start_ns: int,
        padding_rows: int = 0,
        rescheduled: "Sequence[int]" = (),
    ) -> None:
        self.responses = responses
        self.rescheduled = rescheduled
        self.padding_rows = padding_rows
        self.input_end_ns = input_end_ns
        self.output_start_ns = output_start_ns


class Responder(Protocol):
    """Takes deferred responses. Safe in any thread."""

    def send(self, call: Any, response: "Response | None", *, final: bool, begun_ns: int) -> None:
        """Send a response, or, with None, an end that says nothing else.

        `call` is the request, as `execute` was given it; `begun_ns` is when its batch began to compute (monotonic).
        """

    def wait_for_capacity(self, call: Any) -> None:
        """Return once the client of a request takes more responses, or has gone."""


class Instance:
    """Runs batches, one at a time. All methods block and are called off the event loop, one at a time except where it says so.

    Attributes:
        holds_interpreter: most of its work holds Python's interpreter lock; a thread host places it accordingly.
        asks_model: `ready` runs the model's own code, which may take any time, and is therefore called in a thread of its own;
            otherwise it is called on the event loop.
        defers: responses may be deferred.
        gathers_inputs: it makes its inputs of those of all the batch's requests, which is a part of compute_input; otherwise they are ready as soon
            as they lie in memory that it can read.
        keeps_arrays: the model may write to arrays that it returned, so a host that does not send them at once copies them.
        prefetches: a second batch may be handed over while one is in execution; it begins when that one has ended. Its requests are bound to
            this instance from then on, so an instance must not declare it whose batches may wait for other requests, as those of a model that
            calls models do, or take very different times.
    """

    holds_interpreter = False
    asks_model = False
    defers = False
    gathers_inputs = True
    keeps_arrays = False
    prefetches = False

    def execute(self, batch: "Sequence[Any]") -> "Execution[Response]":
        """Run a batch of `Call`s whose tensors agree in shape.

        Raises:
            InferenceError: the whole batch failed.
        """
        raise NotImplementedError

    def respond_through(self, responder: Responder) -> None:
        """Set where deferred responses go. Called once, before the first batch."""

    def ready(self) -> bool:
        """Whether it could run a batch now (row 2.12). May be called beside `execute`; see `asks_model`."""
        return True

    def ping(self, pong: "Callable[[], None]") -> None:
        """Have `pong` called by the thread that runs the model's coroutines, once it gets to it; at once where there is none. In any thread."""
        pong()

    def close(self) -> None:
        """Release everything. Called once, after the last batch."""


class InstanceResource(NamedTuple):
    """What an instance needs of a resource of the rate limiter for each batch; `is_global`: all devices share the resource."""

    name: str
    amount: int
    is_global: bool


class SecondaryDevice(NamedTuple):
    """A device that an instance uses beside its own."""

    kind: str
    device_id: int


class InstanceSpec(NamedTuple):
    """One instance to make, with the settings of its group; names are not unique (row 11.32).

    Attributes:
        name: `<group>_<k>` (row 11.32).
        kind: where it runs: KIND_CPU, KIND_GPU, KIND_MODEL; a worker has its value, "CPU", "GPU" or "MODEL".
        device_id: the GPU for KIND_GPU, else 0.
        resources: see `config.model_config.InstanceGroup`, as for those that follow.
    """

    name: str
    kind: Any
    device_id: int
    resources: Tuple[InstanceResource, ...] = ()  # noqa: UP006 - 3.8 cannot subscript the other one
    priority: int = 0
    passive: bool = False
    profiles: Tuple[str, ...] = ()  # noqa: UP006
    host_policy: str = ""
    secondary_devices: Tuple[SecondaryDevice, ...] = ()  # noqa: UP006

    def to_map(self) -> "dict[str, Any]":
        """The fields by name, for JSON."""
        return {
            **self._asdict(),
            "kind": self.kind.value,
            "resources": [each._asdict() for each in self.resources],
            "secondary_devices": [each._asdict() for each in self.secondary_devices],
        }

    @classmethod
    def from_map(cls, fields: "dict[str, Any]") -> "InstanceSpec":
        """The spec of `to_map`, as a worker has it."""
        fields = {
            **fields,
            "resources": tuple(InstanceResource(**each) for each in fields["resources"]),
            "profiles": tuple(fields["profiles"]),
            "secondary_devices": tuple(
                SecondaryDevice(**each) for each in fields["secondary_devices"]
            ),
        }
        return cls(**fields)


class LoadedModel:
    """A model version in memory: what its instances share.

    Attributes:
        leaves_cycles: whether what is left after `close` refers to itself, so that only the garbage collector frees it.
    """

    leaves_cycles = False

    def make_instance(self, spec: InstanceSpec) -> Instance:
        """Make one instance: at the load, or later while others run batches (row 7.24).

        Raises:
            InferenceError: it cannot be made; the message is the reason shown in the index.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Release what the instances shared. Called once, after every instance is closed."""
