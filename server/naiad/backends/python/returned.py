"""What `execute` of a model may return, as one entry per request (rows 15.6-15.9, 15.17, 15.18). Pure.

A ValueError of these functions says what the model returned in place of what it should have.

Limits: those of `backends/instance.py`: standard library, Python 3.8.
"""

from collections.abc import Sequence
from typing import Any

from naiad.backends.python.api.errors import TritonError
from naiad.backends.python.api.request import InferenceRequest, is_rescheduled, sender_of
from naiad.backends.python.api.response import InferenceResponse, close, has_sent

DEFERRED: Any = object()
"""Stands for responses that a sender sends."""

AGAIN: Any = object()
"""Stands for no response: the model wants to see the request again."""

_NEEDS_ITERATIVE = (
    "to see it again needs sequence_batching { iterative_sequence: true } in the config"
)
RESCHEDULED = f"the model wants to see this request again (TRITONSERVER_REQUEST_RELEASE_RESCHEDULE); {_NEEDS_ITERATIVE}"
TOO_LATE = (
    "the model wants to see this request again (TRITONSERVER_REQUEST_RELEASE_RESCHEDULE); set_release_flags has to be called before "
    "execute returns, which a coroutine does when it waits for the first time"
)


def with_deferred(requests: "Sequence[InferenceRequest]", returned: Any) -> Any:
    """What an ordinary model returned, with `DEFERRED` in place of what it leaves to a sender (row 15.17); other senders are closed."""
    senders = [sender_of(request) for request in requests]
    if returned is None and None not in senders:
        return [DEFERRED] * len(requests)
    if type(returned) is not list or len(returned) != len(requests):
        return returned
    entries: list[Any] = []
    for sender, response in zip(senders, returned):  # noqa: B905 - 3.8 knows no strict; they are as long as each other
        if sender is not None:
            if response is None:
                entries.append(DEFERRED)
                continue
            if response is AGAIN:
                close(sender)
                entries.append(AGAIN)
                continue
            if has_sent(sender):
                raise ValueError(
                    "Unable to send response. Non-decoupled model cannot send more than one response: execute returned one for a "
                    "request that its sender had answered; return None in its place"
                )
            close(sender)
        entries.append(response)
    return entries


def with_rescheduled(
    requests: "Sequence[InferenceRequest]", returned: Any, *, iterative: bool
) -> Any:
    """What a model returned, with `AGAIN` in place of the None that stands for a request it wants to see again (row 15.18).

    An error stands there if the model has no iterative sequences.
    """
    again = [is_rescheduled(request) for request in requests]
    if True not in again:
        return returned
    if returned is None:
        returned = [None] * len(requests)
    if type(returned) is not list or len(returned) != len(requests):
        return returned
    entries: list[Any] = []
    for rescheduled, response in zip(again, returned):  # noqa: B905 - 3.8 knows no strict; they are as long as each other
        if not rescheduled:
            entries.append(response)
            continue
        if response is not None:
            raise ValueError(
                "Expected a None object in the execute function return list for reschduled request, found type "
                f"'{type(response)}'. A request is answered or seen again, not both"
                + ("" if iterative else f"; {_NEEDS_ITERATIVE}")
            )
        refusal = TritonError(RESCHEDULED, TritonError.UNSUPPORTED)
        entries.append(AGAIN if iterative else InferenceResponse(error=refusal))
    return entries


def wrong_list(returned: Any, requests: int) -> str:
    """What is said of a return value that is not a list of one response for each request."""
    if type(returned) is not list:
        return (
            f"Expected a list in the execute return, found type '{type(returned)}'. "
            "Return [pb_utils.InferenceResponse(...), ...], one for each request, in their order"
        )
    return (
        "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
        f"InferenceRequest(s) size is:{requests}, and InferenceResponse(s) size is:{len(returned)}\n"
    )


def must_return_none(returned: Any, instance: str) -> str:
    """What is said of a decoupled model that returns something."""
    return (
        f"Python model '{instance}' is using the decoupled mode and the execute function must return None. "
        f"It returned {type(returned)}: send responses with request.get_response_sender().send(response), and say when "
        "that was all with flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL"
    )
