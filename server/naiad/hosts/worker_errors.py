"""What clients are told when a worker process fails them: how it ended, what to do, and that none of it is the request's fault."""

from naiad.errors import FailureReason, InferenceError, internal, unavailable
from naiad.hosts.output_log import Identity
from naiad.hosts.worker.link import SegmentLostError
from naiad.hosts.worker.segments import SHORTAGES


def not_started(identity: Identity, error: OSError) -> InferenceError:
    """The system started no process."""
    return unavailable(f"{identity}: no worker process could be started: {error}")


def not_loaded(identity: Identity, how: str, output_tail: str) -> InferenceError:
    """It ended before it had loaded the model; `how` follows "its worker process "."""
    return unavailable(
        f"{identity}: its worker process {how} while it loaded the model{output_tail}"
    )


def is_down(identity: Identity, how: str) -> InferenceError:
    """It serves no batches; `how` follows "its worker process "."""
    return unavailable(
        f"{identity}: its worker process {how}; it is being restarted: send the request again, or to another server",
        reason=FailureReason.BACKEND,
    )


def not_handed_over(identity: Identity, error: Exception) -> InferenceError:
    """A batch did not reach it: no memory or descriptor, or something that JSON does not have."""
    if is_shortage(error):
        return unavailable(
            f"{identity}: the batch could not be handed over: {error}. Send the request again; if this happens often, give the "
            "server a higher limit of open files (ulimit -n) or more memory.",
            reason=FailureReason.BACKEND,
        )
    return internal(f"{identity}: the batch could not be handed over: {error}")


def is_shortage(error: Exception) -> bool:
    """Whether the server has no memory or descriptor left, so that the same may work later."""
    return isinstance(error, MemoryError) or (
        isinstance(error, OSError) and error.errno in SHORTAGES
    )


def not_received(identity: Identity, lost: SegmentLostError) -> InferenceError:
    """It sent tensors that the server could not take."""
    return unavailable(
        f"{identity}: the model's answer of {lost.size} bytes could not be received: {lost}. Send the request again; if this "
        "happens often, give the server a higher limit of open files (ulimit -n) or more memory.",
        reason=FailureReason.BACKEND,
    )
