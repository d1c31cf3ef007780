"""The requests: each is made when its turn comes, since hundreds of megabytes would lie about otherwise.

A size is the bytes of the body, before compression. Replies are as large where the model makes them. The expected statuses are those
that a small request of the same kind gets.
"""

import base64
import collections.abc
import json
import zlib
from dataclasses import dataclass, field
from typing import Any

from tritonclient.grpc import service_pb2

Body = collections.abc.Callable[[int], bytes]
GRPC = "/inference.GRPCInferenceService/"


@dataclass(frozen=True)
class Case:
    """One kind of request.

    Attributes:
        name: for people.
        path: of HTTP, or the full name of a gRPC method.
        body: makes the body, or the message, of a size in bytes.
        statuses: of HTTP, or gRPC's status codes; the reply must have one of them.
        headers: of HTTP.
    """

    name: str
    path: str
    body: Body
    statuses: tuple[int, ...] = (200,)
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def grpc(self) -> bool:
        """Whether it goes to the gRPC port."""
        return self.path.startswith(GRPC)


def _entry(datatype: str, count: int, **more: Any) -> dict[str, Any]:
    return {"name": "x", "datatype": datatype, "shape": [count], **more}


def _filled(datatype: str, count: int, data: bytes) -> bytes:
    """An infer request whose `data` is given as text."""
    head = json.dumps({"inputs": [_entry(datatype, count, data="@")]}).encode()
    return head.replace(b'"@"', b"[" + data + b"]")


def _elements(element: bytes, datatype: str, *, nested: bool = False) -> Body:
    def body(size: int) -> bytes:
        one = b"[" + element + b"]" if nested else element
        count = size // (len(one) + 1)
        return _filled(datatype, count, b",".join([one] * count))

    return body


def _text(element: str) -> Body:
    """One string of so many bytes."""

    def body(size: int) -> bytes:
        piece = element.encode()
        return _filled("BYTES", 1, b'"' + piece * (size // len(piece)) + b'"')

    return body


def _padded(head: bytes, piece: bytes, tail: bytes) -> Body:
    """A text that repeats one piece to the size."""
    return lambda size: head + piece * (size // len(piece)) + tail


def _members(size: int) -> bytes:
    """Parameters of millions of names."""
    count = size // 14
    names = b",".join(b'"%08x":1' % number for number in range(count))
    return b'{"parameters":{' + names + b'},"inputs":[]}'


def _ignored_members(size: int) -> bytes:
    """Members of KServe's v1 that have no effect."""
    names = b",".join(b'"%08x":1' % number for number in range(size // 14))
    return b"{" + names + b',"instances":[1]}'


def _broken(body: Body) -> Body:
    return lambda size: body(size)[:-1] + b"!"


def _binary(datatype: str, element: bytes) -> Body:
    def body(size: int) -> bytes:
        count = size // len(element)
        head = _entry(datatype, count, parameters={"binary_data_size": count * len(element)})
        text = json.dumps({"inputs": [head]}).encode()
        return text.ljust(_HEADER) + element * count

    return body


_HEADER = 256
_BEHIND = {"Inference-Header-Content-Length": str(_HEADER)}


def _gzip(body: Body) -> Body:
    def packed(size: int) -> bytes:
        stream = zlib.compressobj(1, wbits=31)
        return stream.compress(body(size)) + stream.flush()

    return packed


def _load(name: str, value: bytes) -> Body:
    def body(size: int) -> bytes:
        text = value * (size // len(value))
        return b'{"parameters":{"config":"{}","%b":"%b"}}' % (name.encode(), text)

    return body


_FLOATS = _elements(b"1.5", "FP32")
_MARKS = _padded(b"", b"\xef\xbb\xbf", b"{}")
_EMPTY_LISTS = _padded(
    b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[', b"[],", b"1]}]}"
)


def _asks(count_per_byte: float, *, binary: bool = False) -> Body:
    """A small request for a reply of about that size."""

    def body(size: int) -> bytes:
        count = {
            "name": "count",
            "datatype": "INT32",
            "shape": [1],
            "data": [int(size * count_per_byte)],
        }
        outputs = [{"name": "out", "parameters": {"binary_data": binary}}]
        return json.dumps({"inputs": [count], "outputs": outputs}).encode()

    return body


def _predict(model: str) -> str:
    return f"/v1/models/{model}:predict"


def _infer(model: str) -> str:
    return f"/v2/models/{model}/infer"


def _raw(datatype: str, element: bytes, model: str) -> Body:
    def body(size: int) -> bytes:
        count = size // len(element)
        request = service_pb2.ModelInferRequest(model_name=model)
        request.inputs.add(name="x", datatype=datatype, shape=[count])
        request.raw_input_contents.append(element * count)
        return bytes(request.SerializeToString())

    return body


def _typed(field_name: str, value: Any, width: int, datatype: str, model: str) -> Body:
    def body(size: int) -> bytes:
        count = size // width
        request = service_pb2.ModelInferRequest(model_name=model)
        tensor = request.inputs.add(name="x", datatype=datatype, shape=[count])
        getattr(tensor.contents, field_name).extend([value] * count)
        return bytes(request.SerializeToString())

    return body


def _many_parameters(size: int) -> bytes:
    request = service_pb2.ModelInferRequest(model_name="takes_fp32")
    for number in range(size // 16):
        request.parameters[f"{number:08x}"].bool_param = True
    return bytes(request.SerializeToString())


def _asks_grpc(model: str, count_per_byte: float) -> Body:
    def body(size: int) -> bytes:
        request = service_pb2.ModelInferRequest(model_name=model)
        tensor = request.inputs.add(name="count", datatype="INT32", shape=[1])
        tensor.contents.int_contents.append(int(size * count_per_byte))
        return bytes(request.SerializeToString())

    return body


def _load_message(size: int) -> bytes:
    request = service_pb2.RepositoryModelLoadRequest(model_name="takes_fp32")
    request.parameters["config"].string_param = "{}"
    request.parameters["file:1/model.py"].bytes_param = b"\0" * size
    return bytes(request.SerializeToString())


def _with_text(member: bytes, after: bytes = b"") -> Body:
    """A request of one number, and a long text beside it."""
    one = b'"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}]}'
    return lambda size: b'{%b:"%b"%b,%b' % (member, b"x" * size, after, one)


def _long_name(size: int) -> bytes:
    one = b'{"inputs":[{"name":"%b","datatype":"FP32","shape":[1],"data":[1]}]}'
    return one % (b"x" * size)


_UNARY = GRPC + "ModelInfer"
_STREAM = GRPC + "ModelStreamInfer"
_INTERNAL, _INVALID, _OK = 13, 3, 0

HTTP_REQUESTS = (
    Case("JSON numbers", _infer("takes_fp32"), _FLOATS),
    Case("JSON numbers, nested", _infer("takes_fp32"), _elements(b"1.5", "FP32", nested=True)),
    Case("JSON integers", _infer("takes_int64"), _elements(b"1234567890123", "INT64")),
    Case("JSON small integers", _infer("takes_int64"), _elements(b"1", "INT64"), (200, 400)),
    Case("JSON booleans", _infer("takes_bool"), _elements(b"true", "BOOL")),
    Case("JSON NaN", _infer("takes_fp32"), _elements(b"NaN", "FP32")),
    Case("JSON strings", _infer("takes_string"), _elements(b'"ab"', "BYTES"), (200, 400)),
    Case("JSON empty strings", _infer("takes_string"), _elements(b'""', "BYTES"), (200, 400)),
    Case("JSON one string", _infer("takes_string"), _text("x")),
    Case("JSON one string, escapes", _infer("takes_string"), _text("\\n")),
    Case("JSON one string, no ASCII", _infer("takes_string"), _text("\u20ac")),
    Case(
        "JSON one string, no UTF-8",
        _infer("takes_string"),
        lambda size: _filled("BYTES", 1, b'"' + b"\xff" * size + b'"'),
    ),
    Case("JSON invalid at the end", _infer("takes_fp32"), _broken(_FLOATS), (500,)),
    Case("JSON a wrong type", _infer("takes_fp32"), _elements(b'"1"', "FP32"), (500,)),
    Case("JSON deep nesting", _infer("takes_fp32"), _padded(b'{"inputs":', b"[", b""), (400, 500)),
    Case("JSON empty lists", _infer("takes_fp32"), _EMPTY_LISTS, (400,)),
    Case(
        "JSON empty objects", _infer("takes_fp32"), _padded(b'{"inputs":[', b"{},", b"{}]}"), (400,)
    ),
    Case("JSON one number", _infer("takes_fp32"), _padded(b'{"inputs":', b"1", b"}"), (500,)),
    Case("JSON parameters", _infer("takes_fp32"), _members, (400, 500)),
    Case("JSON an id", _infer("takes_fp32"), _padded(b'{"id":"', b"x", b'"}'), (500,)),
    Case("JSON an id of a good request", _infer("takes_fp32"), _with_text(b'"id"'), (200, 400)),
    Case("JSON an input's name", _infer("takes_fp32"), _long_name, (400,)),
    Case(
        "JSON a parameter", _infer("takes_fp32"), _with_text(b'"parameters":{"p"', b"}"), (200, 400)
    ),
    Case("JSON byte order marks", _infer("takes_fp32"), _MARKS, (500,)),
    Case("JSON white space", _infer("takes_fp32"), _padded(b"{", b" ", b"}"), (500,)),
    Case("binary numbers", _infer("takes_fp32"), _binary("FP32", b"\0\0\0\0"), headers=_BEHIND),
    Case(
        "binary strings", _infer("takes_string"), _binary("BYTES", b"\2\0\0\0ab"), headers=_BEHIND
    ),
    Case(
        "binary empty strings",
        _infer("takes_string"),
        _binary("BYTES", b"\0\0\0\0"),
        headers=_BEHIND,
    ),
    Case(
        "binary strings, invalid",
        _infer("takes_string"),
        lambda size: _binary("BYTES", b"\2\0\0\0ab")(size)[:-6] + b"\xff" * 6,
        (400,),
        headers=_BEHIND,
    ),
    *(
        Case(
            f"gzip {name}",
            _infer(model),
            _gzip(body),
            statuses,
            {"Content-Encoding": "gzip", **more},
        )
        for name, model, body, statuses, more in (
            ("JSON numbers", "takes_fp32", _FLOATS, (200,), {}),
            ("JSON invalid", "takes_fp32", _broken(_FLOATS), (500,), {}),
            ("JSON empty lists", "takes_fp32", _EMPTY_LISTS, (400,), {}),
            ("JSON one string", "takes_string", _text("x"), (200,), {}),
            ("JSON byte order marks", "takes_fp32", _MARKS, (500,), {}),
            ("binary strings", "takes_string", _binary("BYTES", b"\2\0\0\0ab"), (200,), _BEHIND),
        )
    ),
    Case("generate, a string", "/v2/models/takes_any/generate", _padded(b'{"x":"', b"x", b'"}')),
    Case(
        "generate, numbers",
        "/v2/models/takes_any/generate",
        _padded(b'{"n":[', b"1.5,", b"1]}"),
    ),
    Case(
        "generate, byte order marks",
        "/v2/models/takes_any/generate",
        _MARKS,
        (500,),
    ),
    Case(
        "generate, parameters",
        "/v2/models/takes_any/generate",
        _padded(b'{"x":"a","p":[', b"1.5,", b"1]}"),
        (400,),
    ),
    Case(
        "generate_stream, a string",
        "/v2/models/takes_any/generate_stream",
        _padded(b'{"x":"', b"x", b'"}'),
    ),
    Case("predict, numbers", _predict("takes_fp32"), _padded(b'{"instances":[[', b"1.5,", b"1]]}")),
    Case("predict, rows", _predict("takes_fp32"), _padded(b'{"instances":[', b"1.5,", b"1]}")),
    Case(
        "predict, strings", _predict("takes_string"), _padded(b'{"instances":[', b'"a",', b'"b"]}')
    ),
    Case(
        "predict, base64",
        _predict("takes_string"),
        _padded(b'{"instances":[', b'{"b64":"/w=="},', b'"b"]}'),
    ),
    Case(
        "predict, bad base64 at the end",
        _predict("takes_string"),
        _padded(b'{"instances":[', b'{"b64":"/w=="},', b'{"b64":"!"}]}'),
        (400,),
    ),
    Case(
        "predict, named rows",
        _predict("takes_fp32"),
        _padded(b'{"instances":[', b'{"x":1.5},', b'{"x":1}]}'),
    ),
    Case(
        "predict, a wrong name at the end",
        _predict("takes_fp32"),
        _padded(b'{"instances":[', b'{"x":1.5},', b'{"y":1}]}'),
        (400,),
    ),
    Case(
        "predict, empty lists",
        _predict("takes_fp32"),
        _padded(b'{"instances":[', b"[],", b"[]]}"),
        (400,),
    ),
    Case(
        "predict, nested lists",
        _predict("takes_fp32"),
        _padded(b'{"instances":[', b"[" * 60 + b"]" * 60 + b",", b"1]}"),
        (400,),
    ),
    Case(
        "predict, lists of all depths",
        _predict("takes_fp32"),
        _padded(
            b'{"instances":[',
            b"".join(b"[" * depth + b"]" * depth + b"," for depth in range(1, 60)),
            b"1]}",
        ),
        (400,),
    ),
    Case(
        "predict, NaN",
        _predict("takes_fp32"),
        _padded(b'{"instances":[', b"NaN,", b"1]}"),
    ),
    Case("predict, members", _predict("takes_fp32"), _ignored_members),
    Case(
        "predict, an event",
        _predict("takes_fp32"),
        _padded(
            b'{"specversion":"1.0","id":"1","source":"s","type":"t","data":{"instances":[',
            b"1.5,",
            b"1]}}",
        ),
    ),
    Case(
        "gzip predict, numbers",
        _predict("takes_fp32"),
        _gzip(_padded(b'{"instances":[', b"1.5,", b"1]}")),
        headers={"Content-Encoding": "gzip"},
    ),
    Case(
        "predict, a wrong value at the end",
        _predict("takes_fp32"),
        _padded(b'{"inputs":[', b"1.5,", b'"a"]}'),
        (400,),
    ),
    Case(
        "load with a file",
        "/v2/repository/models/takes_fp32/load",
        _load("file:1/model.py", base64.b64encode(b"# a comment\n" * 3)),
        (400, 500, 501),
    ),
    Case(
        "load with an invalid file",
        "/v2/repository/models/takes_fp32/load",
        _load("file:1/model.py", b"!"),
        (400, 500),
    ),
    Case(
        "load with a config",
        "/v2/repository/models/takes_fp32/load",
        _load("config", b"x"),
        (400, 500, 501),
    ),
    Case("index", "/v2/repository/index", _padded(b'{"ready":[', b"1.5,", b"1]}"), (400,)),
    Case("logging", "/v2/logging", _padded(b'{"x":[', b"1.5,", b"1]}"), (200, 400, 501)),
)

HTTP_REPLIES = (
    Case("reply JSON numbers", _infer("makes_numbers"), _asks(1 / 20)),
    Case("reply JSON NaN", _infer("makes_nan"), _asks(1 / 4)),
    Case("reply JSON integers", _infer("makes_integers"), _asks(1 / 20)),
    Case("reply JSON booleans", _infer("makes_bools"), _asks(1 / 5)),
    Case("reply JSON strings", _infer("makes_strings"), _asks(1 / 5)),
    Case("reply JSON one string", _infer("makes_text"), _asks(1)),
    Case("reply binary numbers", _infer("makes_numbers"), _asks(1 / 4, binary=True)),
    Case("reply binary strings", _infer("makes_strings"), _asks(1 / 6, binary=True)),
    Case(
        "reply gzip JSON numbers",
        _infer("makes_numbers"),
        _asks(1 / 20),
        headers={"Accept-Encoding": "gzip"},
    ),
    Case(
        "reply gzip binary strings",
        _infer("makes_strings"),
        _asks(1 / 6, binary=True),
        headers={"Accept-Encoding": "gzip"},
    ),
    Case(
        "reply predict, numbers",
        _predict("makes_numbers"),
        lambda size: b'{"inputs":[%d]}' % (size // 20),
    ),
    Case(
        "reply predict, NaN",
        _predict("makes_nan"),
        lambda size: b'{"inputs":[%d]}' % (size // 5),
    ),
    Case(
        "reply predict, strings",
        _predict("makes_strings"),
        lambda size: b'{"instances":[[%d]]}' % (size // 5),
    ),
    Case(
        "reply generate, numbers",
        "/v2/models/makes_numbers/generate",
        lambda size: b'{"count":%d}' % (size // 20),
    ),
    Case(
        "reply generate_stream, strings",
        "/v2/models/makes_strings/generate_stream",
        lambda size: b'{"count":%d}' % (size // 5),
    ),
)

_BOTH = (("gRPC", _UNARY), ("gRPC stream", _STREAM))

GRPC_REQUESTS = tuple(
    Case(f"{name} {what}", method, body, (_OK, _INVALID, _INTERNAL) if wrong else (_OK,))
    for name, method in _BOTH
    for what, body, wrong in (
        ("raw numbers", _raw("FP32", b"\0\0\0\0", "takes_fp32"), False),
        ("raw strings", _raw("BYTES", b"\2\0\0\0ab", "takes_string"), False),
        ("fp32_contents", _typed("fp32_contents", 1.5, 4, "FP32", "takes_fp32"), False),
        ("int64_contents", _typed("int64_contents", 1, 1, "INT64", "takes_int64"), False),
        ("bool_contents", _typed("bool_contents", True, 1, "BOOL", "takes_bool"), False),
        ("bytes_contents", _typed("bytes_contents", b"ab", 4, "BYTES", "takes_string"), False),
        ("parameters", _many_parameters, True),
        (
            "invalid at the end",
            lambda size: _raw("FP32", b"\0\0\0\0", "takes_fp32")(size) + b"\x3a\xff",
            True,
        ),
        ("empty fields", lambda size: b"\x2a\0" * (size // 2), True),
    )
)
GRPC_LOAD = Case(
    "gRPC load with a file", GRPC + "RepositoryModelLoad", _load_message, (3, 12, 13, 14)
)

GRPC_REPLIES = tuple(
    Case(f"{name} reply {what}", method, body, (_OK,))
    for name, method in _BOTH
    for what, body in (
        ("numbers", _asks_grpc("makes_numbers", 1 / 4)),
        ("strings", _asks_grpc("makes_strings", 1 / 6)),
    )
)

ALL = (*HTTP_REQUESTS, *HTTP_REPLIES, *GRPC_REQUESTS, GRPC_LOAD, *GRPC_REPLIES)
