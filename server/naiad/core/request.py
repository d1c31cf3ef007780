"""An inference request, as every protocol decodes it and every backend sees it."""

from naiad.core.device_tensor import OnDevice
from naiad.core.record import Record
from naiad.core.regions import Place
from naiad.core.tensor import Tensor

ParameterValue = bool | int | float | str
Parameters = dict[str, ParameterValue]

LATEST = -1

SEQUENCE_START = 1
SEQUENCE_END = 2


class RequestedOutput(Record, frozen=True, eq=True):
    """A requested output, and the form in which the client wants it.

    Attributes:
        classes: the number of classes with the highest values to send in place of the values (row 5.1); 0 for the values.
        place: where to write it in a client's shared memory (row 5.17); None for the response.
    """

    name: str
    classes: int = 0
    place: Place | None = None


class InferRequest(Record, frozen=True):
    """A decoded request; `engine.validation` checks it against its model.

    Attributes:
        id: the client's id of the request; "" if there is none.
        inputs: in the order of the request; before validation, names may be unknown or repeated.
        requested_outputs: in the order of the request; empty means all outputs (row 3.29).
        parameters: the client's custom parameters, for the backend (row 3.26).
        priority: 0 means the model's default level (row 4.14).
        timeout_us: microseconds that it may wait in the queue, if the model allows it (row 12.14); 0: no limit.
        correlation_id: its sequence; 0 or "" means none.
        flags: SEQUENCE_START and SEQUENCE_END, or-ed.
        in_regions: whether inputs or outputs of it are in clients' shared memory and were not looked up there yet (`protocol.regions`).
        on_device: the outputs that may stay on a GPU, because the receiver is another model or a client's region; None: all go to the host's memory.
    """

    model_name: str
    model_version: int
    id: str
    inputs: list[Tensor]
    requested_outputs: list[RequestedOutput]
    parameters: Parameters
    priority: int = 0
    timeout_us: int = 0
    correlation_id: int | str = 0
    flags: int = 0
    in_regions: bool = False
    on_device: OnDevice | None = None

    @property
    def output_names(self) -> list[str]:
        """The names of the requested outputs."""
        outputs = self.requested_outputs
        return [output.name for output in outputs] if outputs else []

    @property
    def label(self) -> str:
        """The prefix of messages about this request (row 1.3)."""
        return f"[request id: {self.id or '<id_unknown>'}] "


class RequestSettings(Record, frozen=True):
    """The parameters of a request, as a protocol reads them: those for the model, and those for the server, as in `InferRequest`."""

    parameters: Parameters
    priority: int
    timeout_us: int
    correlation_id: int | str
    flags: int

    def request(
        self,
        model: str,
        version: int,
        request_id: str,
        inputs: list[Tensor],
        outputs: list[RequestedOutput],
        *,
        in_regions: bool = False,
    ) -> InferRequest:
        """A request with these settings and parameters of its own; the arguments are the first members of `InferRequest`."""
        return InferRequest(
            model,
            version,
            request_id,
            inputs,
            outputs,
            self.parameters.copy(),
            self.priority,
            self.timeout_us,
            self.correlation_id,
            self.flags,
            in_regions,
        )
