"""The errors for what clients may request and this version does not support yet, the same over HTTP and gRPC. Pure."""

from naiad.core.request import RequestedOutput
from naiad.errors import InferenceError, not_found, unsupported

_OFF = "Client shared memory is disabled: this version of the server does not support it yet"
_INSTEAD = (
    "send tensors in the requests (over HTTP as binary data), and read outputs from the responses"
)


def shared_memory_change() -> InferenceError:
    """A region is registered or unregistered (row 5.7): UNSUPPORTED."""
    return unsupported(f"{_OFF}, and '--allow-client-shm=true' is refused at the start; {_INSTEAD}")


def shared_memory_status(kind: str, region: str) -> InferenceError:
    """The status of one region, "system" or "cuda", is asked for (row 5.13): NOT_FOUND."""
    return not_found(
        f"Unable to find {kind} shared memory region: '{region}'. {_OFF}, so there are no regions; {_INSTEAD}"
    )


def shared_memory_tensor(region: str, tensor: str) -> InferenceError:
    """An input or an output of an infer request stands in a region (row 5.18): NOT_FOUND."""
    return not_found(
        f"Unable to find shared memory region: '{region}', which tensor '{tensor}' names. {_OFF}; {_INSTEAD}"
    )


def check_output(output: RequestedOutput) -> None:
    """Refuse an output in a form that is not supported yet.

    Raises:
        InferenceError: NOT_FOUND for an output in shared memory (row 5.18).
    """
    if output.region is not None:
        raise shared_memory_tensor(output.region, output.name)
