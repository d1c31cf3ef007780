"""The header `traceparent` of the W3C's Trace Context. Pure."""

import re

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
_INVALID = "0" * 32


def trace_id_of(traceparent: str | bytes) -> str:
    """The id of the trace; "" if the header is not valid, since then it counts as not sent."""
    text = traceparent if isinstance(traceparent, str) else traceparent.decode("latin-1")
    match = _TRACEPARENT.fullmatch(text)
    if match is None or match[1] == _INVALID:
        return ""
    return match[1]
