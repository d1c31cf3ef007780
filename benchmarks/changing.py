"""Requests as clients send them: no two are alike. An id, a trace context, parameters, values and lengths change from one to the next. Pure."""

import dataclasses
import json
import typing

from benchmarks.load import HttpRequest

NUMBER = "@@@@@@@@@@@@"
"""Stands in a request for a number of twelve digits that grows."""

TRACE = "traceparent", f"00-0af7651916cd43dd8448{NUMBER}-b7ad6b7169203331-01"

_TURNS = 64
"""Bodies of different values that take turns; with the number in each, none is sent twice."""

_FIXED = 4
"""Bytes of an FP32 number, and of the length in front of a string."""

_LENGTH = "Inference-Header-Content-Length"


def changing(request: HttpRequest) -> HttpRequest:
    """A request like this one with a new id, a new `traceparent`, two parameters and other values each time.

    Args:
        request: JSON, or JSON and binary tensors behind it.
    """
    bodies = [_body(request, turn) for turn in range(_TURNS)]
    (body, headers), *others = bodies
    return dataclasses.replace(
        request, body=body, headers=headers, others=tuple(others), number=NUMBER
    )


def new_connections(request: HttpRequest) -> HttpRequest:
    """The same on a new connection each time."""
    return dataclasses.replace(request, headers=(*request.headers, ("Connection", "close")))


def _body(request: HttpRequest, turn: int) -> tuple[bytes, tuple[tuple[str, str], ...]]:
    headers = dict(request.headers)
    size = int(headers.get(_LENGTH, len(request.body)))
    raw = request.body[size:]
    document = json.loads(request.body[:size])
    for tensor in document["inputs"]:
        if "data" in tensor:
            tensor["data"] = [_other(value, turn) for value in tensor["data"]]
    text = json.dumps(
        {
            "id": NUMBER,
            "parameters": {
                **document.pop("parameters", {}),
                "tenant": f"tenant-{turn * turn}",
                "score": turn / 7,
            },
            **document,
        }
    ).encode()
    if _LENGTH in headers:
        headers[_LENGTH] = str(len(text))
    step = _FIXED if document["inputs"][0]["datatype"] != "BYTES" else _first_element(raw)
    shift = turn * step % max(1, len(raw))
    return text + raw[shift:] + raw[:shift], (*headers.items(), TRACE)


def _first_element(raw: bytes) -> int:
    """Bytes of the first of many strings, which are as long as it, with its length."""
    return _FIXED + int.from_bytes(raw[:_FIXED], "little")


def _other(value: typing.Any, turn: int) -> typing.Any:
    """Another value of the same type, often of another length."""
    if isinstance(value, float):
        return round(value * 1.7**turn, turn % 6)
    return value
