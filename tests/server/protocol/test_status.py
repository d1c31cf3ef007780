import grpc

from naiad.errors import ErrorCode
from naiad.protocol.status import grpc_status, http_status


def test_every_code_has_the_http_status_of_row_1_1() -> None:
    assert {code.name: http_status(code) for code in ErrorCode} == {
        "INTERNAL": 500,
        "NOT_FOUND": 404,
        "UNAVAILABLE": 503,
        "UNSUPPORTED": 501,
        "INVALID_ARG": 400,
        "UNKNOWN": 400,
        "ALREADY_EXISTS": 400,
        "CANCELLED": 400,
    }


def test_every_code_has_the_grpc_status_of_row_10_6() -> None:
    names = {status.value[0]: status.name for status in grpc.StatusCode}
    assert {code.name: names[grpc_status(code)] for code in ErrorCode} == {
        "UNKNOWN": "UNKNOWN",
        "INTERNAL": "INTERNAL",
        "NOT_FOUND": "NOT_FOUND",
        "INVALID_ARG": "INVALID_ARGUMENT",
        "UNAVAILABLE": "UNAVAILABLE",
        "UNSUPPORTED": "UNIMPLEMENTED",
        "ALREADY_EXISTS": "ALREADY_EXISTS",
        "CANCELLED": "CANCELLED",
    }
