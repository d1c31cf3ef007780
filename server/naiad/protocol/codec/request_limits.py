"""What a large request may hold beside its tensors. It goes back from a codec process to the server's event loop, which handles it in one piece. Pure."""

from naiad.core.request import InferRequest
from naiad.errors import InferenceError, invalid

MOST_PARTS = 4096
"""Inputs, outputs or parameters of one request."""

MOST_TEXT = 1 << 23
"""Characters of a request's id, names and parameters together. Errors repeat them, replies and workers get them, each as a copy."""

MOST_MESSAGE = 1 << 17
"""Characters of an error message, which may quote the request. More than a reply shows."""


def check_parts(request: InferRequest) -> None:
    """Refuse a request with more inputs, outputs or parameters, or more text in them, than any model needs.

    Raises:
        InferenceError: INVALID_ARG.
    """
    for what, parts in (
        ("inputs", request.inputs),
        ("outputs", request.requested_outputs),
        ("parameters", request.parameters),
    ):
        if len(parts) > MOST_PARTS:
            raise invalid(
                f"the request has {len(parts)} {what}; at most {MOST_PARTS} are accepted: send them in several requests"
            )
    texts = [request.model_name, request.id, *request.output_names, *request.parameters]
    texts += [tensor.name for tensor in request.inputs]
    values = (request.correlation_id, *request.parameters.values())
    check_text(*texts, *[value for value in values if isinstance(value, str)])


def check_text(*texts: str) -> None:
    """Refuse so much text.

    Raises:
        InferenceError: INVALID_ARG.
    """
    size = sum(map(len, texts))
    if size > MOST_TEXT:
        raise invalid(
            f"the id, the names and the parameters of the request have {size} characters together; at most {MOST_TEXT} are accepted: "
            "send a long text as a BYTES tensor"
        )


def short(error: InferenceError) -> str:
    """An error's message, cut to a readable length."""
    return error.message[:MOST_MESSAGE]
