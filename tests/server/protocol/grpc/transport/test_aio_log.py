"""What grpc.aio logs about clients that have gone is not an error; the rest of its log is left alone."""

import logging

import pytest

from naiad.protocol.grpc.transport.aio_log import quiet_departures

GRPC = logging.getLogger("grpc._cython.cygrpc")
GONE = "ExecuteBatchError raised in core by servicer method [/inference.GRPCInferenceService/ModelInfer]"


def failed(message: str) -> None:
    """As grpc.aio logs it: an error with a traceback."""
    GRPC.error(message, exc_info=RuntimeError("Failed execute_batch"))


def test_a_client_that_has_gone_is_a_line_at_debug_level(caplog: pytest.LogCaptureFixture) -> None:
    quiet_departures()
    quiet_departures()
    with caplog.at_level(logging.DEBUG):
        failed(GONE)
    (line,) = caplog.records
    assert (line.levelno, line.exc_info) == (logging.DEBUG, None)
    assert line.getMessage() == (
        "the client has gone before its response was sent [/inference.GRPCInferenceService/ModelInfer]"
    )


def test_other_errors_of_grpc_are_logged_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    quiet_departures()
    failed("Unexpected [KeyError] raised by servicer method [/x]")
    (line,) = caplog.records
    assert line.levelno == logging.ERROR
    assert line.exc_info
