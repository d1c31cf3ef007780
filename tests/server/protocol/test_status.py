import grpc

from naiad.errors import ErrorCode
from naiad.protocol.status import grpc_status, grpc_status_name, http_status


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
    assert {code.name: (grpc_status(code), grpc_status_name(code)) for code in ErrorCode} == {
        "UNKNOWN": (2, "UNKNOWN"),
        "INTERNAL": (13, "INTERNAL"),
        "NOT_FOUND": (5, "NOT_FOUND"),
        "INVALID_ARG": (3, "INVALID_ARGUMENT"),
        "UNAVAILABLE": (14, "UNAVAILABLE"),
        "UNSUPPORTED": (12, "UNIMPLEMENTED"),
        "ALREADY_EXISTS": (6, "ALREADY_EXISTS"),
        "CANCELLED": (1, "CANCELLED"),
    }


def test_the_grpc_numbers_and_names_are_those_of_grpc_itself() -> None:
    official = {status.name: status.value[0] for status in grpc.StatusCode}
    for code in ErrorCode:
        assert official[grpc_status_name(code)] == grpc_status(code)
