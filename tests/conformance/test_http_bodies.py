"""Bodies over HTTP that are malformed, deep or compressed, and headers that become parameters (sections 1 and 3)."""

import gzip
import json
import zlib
from functools import partial

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario, infer
from tests.conformance.scenarios.wire import FOUR, Answer, Target, four, value, with_binary


def _deep(depth: int) -> str:
    return (
        '{"inputs":[{"name":"IN","datatype":"FP32","shape":[4],"data":'
        + "[" * depth
        + "1,2,3,4"
        + "]" * depth
        + "}]}"
    )


def _decompressed(target: Target, accepted: str) -> Answer:
    """The reply's encoding, and what is in it once unpacked."""
    reply = target.infer("matrix", _BIG, {"Accept-Encoding": accepted})
    encoding = reply.headers.get("content-encoding")
    body = reply.body if encoding is None else zlib.decompress(reply.body, zlib.MAX_WBITS | 32)
    return {"status": reply.status, "encoding": encoding, "json": json.loads(body)}


def _forwarded(target: Target, **headers: str) -> Answer:
    request = {"inputs": [value("DELAY_MS", "INT32", [1], [0])], "parameters": {"own": 1}}
    answer = target.infer(
        "report", request, {k.replace("_", "-"): v for k, v in headers.items()}
    ).report()
    return {"parameters": answer["report"]["parameters"]} if "report" in answer else answer


_BINARY = {"inputs": [value("IN", "FP32", [4], None, binary_data_size=16)]}
_ONE_FIELD = "Input must set only one of the following fields"

MALFORMED = [
    infer(f"malformed: {text}", "3.7", "identity", text, status=500, says=says)
    for text, says in (
        ("{", "failed to parse the request JSON buffer"),
        ('{"inputs":[],}', "failed to parse the request JSON buffer"),
        ('{"inputs":[]} trailing', "failed to parse the request JSON buffer"),
        ("\0\0\0", "failed to parse the request JSON buffer"),
        ("[]", "attempt to access non-existing object member"),
        ("null", "attempt to access non-existing object member"),
        ("{}", "attempt to access non-existing object member 'inputs'"),
        ('{"inputs":null}', "Unable to parse 'inputs'"),
        ('{"inputs":{}}', "Unable to parse 'inputs'"),
        ('{"inputs":[{"datatype":"FP32","shape":[4],"data":[1,2,3,4]}]}', "Unable to parse 'name'"),
        ('{"inputs":[{"name":"IN","shape":[4],"data":[1,2,3,4]}]}', "Unable to parse 'datatype'"),
        (
            '{"inputs":[{"name":"IN","datatype":"FP32","data":[1,2,3,4]}]}',
            "Unable to parse 'shape'",
        ),
        (
            '{"inputs":[{"name":1,"datatype":"FP32","shape":[4],"data":[1]}]}',
            "attempt to access JSON non-string as string",
        ),
        (
            '{"inputs":[{"name":"IN","datatype":3,"shape":[4],"data":[1]}]}',
            "attempt to access JSON non-string as string",
        ),
        (
            '{"inputs":[{"name":"IN","datatype":"FP32","shape":4,"data":[1]}]}',
            "Unable to parse 'shape'",
        ),
        (
            '{"inputs":[{"name":"IN","datatype":"FP32","shape":["a"],"data":[1]}]}',
            "Unable to parse 'shape'",
        ),
        (
            '{"inputs":[{"name":"IN","datatype":"FP32","shape":[4],"data":5}]}',
            "Unable to parse 'data'",
        ),
        (
            '{"inputs":[{"name":"IN","datatype":"FP32","shape":[4],"data":null}]}',
            "Unable to parse 'data'",
        ),
        (
            '{"inputs":[],"parameters":[]}',
            "failed to get request params.: attempt to get members for non-object",
        ),
    )
] + [
    infer(
        "a datatype that does not exist",
        "3.7",
        "identity",
        '{"inputs":[{"name":"IN","datatype":"FP99","shape":[4],"data":[1]}]}',
        status=400,
        says="invalid datatype for input IN",
    ),
    infer(
        "an input that is not an object",
        "3.8",
        "identity",
        '{"inputs":[1]}',
        status=400,
        says=_ONE_FIELD,
    ),
    infer(
        "parameters of an input that are not an object",
        "3.26",
        "identity",
        '{"inputs":[{"name":"IN","datatype":"FP32","shape":[4],"data":[1,2,3,4],"parameters":[]}]}',
    ),
]


DEPTH = [
    infer("nesting of 50", "1.12", "identity", _deep(50)),
    infer("nesting of 99", "1.12", "identity", _deep(99)),
    infer(
        "nesting of 150",
        "1.12",
        "identity",
        _deep(150),
        status=400,
        says="JSON nesting depth exceeds maximum allowed limit (100)",
    ),
]

_JSON = json.dumps(four()).encode()
_BIG = {"inputs": [value("IN", "FP32", [200, 2], [1] * 400)]}
COMPRESSION = [
    infer("gzip request", "1.14", "identity", gzip.compress(_JSON), {"Content-Encoding": "gzip"}),
    infer(
        "deflate request", "1.14", "identity", zlib.compress(_JSON), {"Content-Encoding": "deflate"}
    ),
    infer(
        "zlib under the name of gzip",
        "1.14",
        "identity",
        zlib.compress(_JSON),
        {"Content-Encoding": "gzip"},
    ),
    infer("identity request", "1.14", "identity", _JSON, {"Content-Encoding": "identity"}),
    infer(
        "brotli request",
        "1.14",
        "identity",
        _JSON,
        {"Content-Encoding": "br"},
        status=501,
        says="Unsupported compression type",
        seen=("Accept-Encoding",),
        expect={"header Accept-Encoding": "gzip, deflate"},
    ),
    infer(
        "empty compressed request",
        "1.14",
        "identity",
        b"",
        {"Content-Encoding": "gzip"},
        status=400,
        says="nothing to be decompressed",
    ),
    infer(
        "binary input in a compressed body",
        "1.14 3.9",
        "identity",
        gzip.compress(with_binary(_BINARY, FOUR)[0]),
        {"Content-Encoding": "gzip", **with_binary(_BINARY, FOUR)[1]},
    ),
    infer(
        "an error is not compressed",
        "1.15",
        "identity",
        four([1]),
        {"Accept-Encoding": "gzip"},
        status=500,
        says="hape does not match true shape",
        seen=("Content-Encoding",),
        expect={"header Content-Encoding": None},
    ),
] + [
    Scenario(
        f"Accept-Encoding {accepted}",
        ("1.15",),
        partial(_decompressed, accepted=accepted),
        expect={"encoding": encoding},
    )
    for accepted, encoding in (
        ("gzip", "gzip"),
        ("deflate", "deflate"),
        ("identity", None),
        ("gzip;q=0.1, deflate;q=0.5", "deflate"),
        ("deflate, gzip", "deflate"),
        ("gzip, deflate", "gzip"),
        ("gzip;q=0.5, identity;q=1", None),
        ("gzip;q=0", None),
        ("br", None),
    )
]


HEADERS = [
    Scenario(
        "headers become parameters",
        ("1.17",),
        lambda target: _forwarded(target, x_trace="7", other="8"),
        server="optioned",
    ),
    Scenario(
        "header patterns know no case",
        ("1.17",),
        lambda target: _forwarded(target, X_UPPER="7"),
        server="optioned",
    ),
    Scenario(
        "a header pattern that minds the case",
        ("1.17",),
        lambda target: _forwarded(target, Y_Case_One="1", Y_CASE_TWO="2", My_Y_Case="3"),
        server="optioned",
    ),
    Scenario(
        "no header is forwarded by default",
        ("1.17",),
        lambda target: _forwarded(target, x_trace="7"),
        expect={"parameters.own": 1},
    ),
    Scenario(
        "a forwarded header with a reserved name",
        ("1.18",),
        lambda target: _forwarded(target, priority="1"),
        server="optioned",
        says="is reserved for Triton usage and cannot be forwarded",
        expect={"status": 400},
    ),
]

SCENARIOS = [*MALFORMED, *DEPTH, *COMPRESSION, *HEADERS]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_http_bodies_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
