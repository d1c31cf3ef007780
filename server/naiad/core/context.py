"""What is known of a request beside its content, from its first byte to the last byte of its response."""

import msgspec

from naiad.core.inference import Inference


class RequestContext(msgspec.Struct, eq=False):
    """For logs and traces. The protocol makes one per request, only if something reads it; the engine adds the inference.

    Attributes:
        received_ns: when the request's headers were complete, or all of it if it came in one piece (monotonic).
        request_bytes: bytes of its body.
        request_id: the client's id; "" if there is none, or if only the inference has it.
        trace_id: of the trace that the client's traceparent names; "" if there is none.
        inference: the inference that it caused; None if there was none, or several.
        sent_ns: when its response was sent (monotonic); 0 before that.
        response_bytes: bytes of the response's body that were sent.
    """

    received_ns: int
    request_bytes: int = 0
    request_id: str = ""
    trace_id: str = ""
    inference: Inference | None = None
    sent_ns: int = 0
    response_bytes: int = 0
