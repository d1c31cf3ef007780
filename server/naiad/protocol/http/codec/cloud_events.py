"""Predictions of KServe's v1 as CloudEvents: who sends an event gets one, as from KServe's server (docs/kserve-v1.md). Pure.

An event is binary (its attributes are headers, its data is the body) or structured (a JSON object holds both). The responses have KServe's source and type.
"""

import datetime as dt
import enum
import typing
import urllib.parse
import uuid

import orjson

from naiad.errors import invalid
from naiad.protocol.http.message import Headers, HttpReply
from naiad.protocol.http.replies import CONTENT_TYPE

_STRUCTURED_TYPE = b"application/cloudevents+json"
_PREFIX = b"ce-"
_REQUIRED = ("id", "source", "specversion", "type")
_VERSIONS = ("1.0", "0.3")
_LONGEST = 40
"""Characters of a version that an error shows."""
_TYPE = "io.kserve.inference.response"
_SOURCE = "io.kserve.inference."
_NS = 1e9
_AS_THEY_ARE = "!#$&'()*+,-./:;=?@[]_~|^`{}<>\\"
"""Of printable ASCII all but the blank, the quotation mark and the percent sign, which headers of events have in percent encoding."""


class Mode(enum.IntEnum):
    """How a response is sent.

    Attributes:
        NONE: not as an event.
        BINARY: with the attributes in headers.
        STRUCTURED: as JSON that holds attributes and data.
    """

    NONE = 0
    BINARY = 1
    STRUCTURED = 2


def asked(headers: Headers) -> Mode:
    """What the response to a request shall be.

    Raises:
        InferenceError: INVALID_ARG: an event of a version that does not exist.
    """
    version = headers.get(b"ce-specversion")
    kind = headers.get(b"content-type", b"")
    if len(kind) >= len(_STRUCTURED_TYPE) and media_type(kind) == _STRUCTURED_TYPE:
        return Mode.STRUCTURED
    if version is None or any(_PREFIX + name.encode() not in headers for name in _REQUIRED):
        return Mode.NONE
    _check_version(version.decode("latin-1"), "the header ce-specversion")
    return Mode.BINARY


def media_type(content_type: bytes) -> bytes:
    """A media type without its parameters, in lower case."""
    return content_type.partition(b";")[0].strip().lower()


def data_of(event: dict[str, typing.Any]) -> typing.Any:
    """The data of a structured event: the request.

    Raises:
        InferenceError: INVALID_ARG: an attribute is missing, or there is no data as JSON.
    """
    missing = [name for name in _REQUIRED if name not in event]
    if missing:
        raise invalid(
            f"the request is a CloudEvent without {', '.join(map(repr, missing))}: every event has id, source, specversion and type"
        )
    _check_version(event["specversion"], "'specversion'")
    if "data" not in event:
        other = ", which is not read: 'data_base64'" if "data_base64" in event else ""
        raise invalid(
            f"the request is a CloudEvent without 'data'{other}; send what is a request without an event there, as JSON: {{\"instances\": [row, …]}}"
        )
    return event["data"]


def _check_version(version: typing.Any, what: str) -> None:
    if version not in _VERSIONS:
        # Python cannot show lists of every depth that JSON may have.
        kinds: dict[type, str] = {list: "a list", dict: "an object"}
        shown = kinds.get(type(version)) or repr(str(version)[:_LONGEST])
        raise invalid(f"{what} is {shown}: events of CloudEvents 1.0 and 0.3 are read, send '1.0'")


def event_of(reply: HttpReply, mode: Mode, model: str, now_ns: int) -> HttpReply:
    """A successful response as an event of its own.

    Args:
        reply: with JSON.
        mode: of the event.
        model: that the request named.
        now_ns: the time since 1970.
    """
    time = dt.datetime.fromtimestamp(now_ns / _NS, dt.UTC).isoformat()
    attributes = {
        "specversion": "1.0",
        "id": str(uuid.uuid4()),
        "source": _SOURCE + urllib.parse.quote(model, safe=_AS_THEY_ARE),
        "type": _TYPE,
        "time": time,
    }
    headers, body = reply.headers, reply.body
    if mode is Mode.BINARY:
        names = ((_PREFIX + name.encode(), value.encode()) for name, value in attributes.items())
        return HttpReply(reply.status, (*headers, *names), body, reply.request_id)
    head = orjson.dumps(attributes)[:-1] + b',"data":'
    others = tuple(header for header in headers if header[0] != CONTENT_TYPE)
    kind = (CONTENT_TYPE, _STRUCTURED_TYPE)
    return HttpReply(reply.status, (kind, *others), (head, *body, b"}"), reply.request_id)
