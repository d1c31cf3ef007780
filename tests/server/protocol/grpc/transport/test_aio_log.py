"""What grpc.aio logs about clients that have gone is not an error; the rest of its log is left alone."""

import logging

import pytest

from tests.server.protocol.grpc.scripted_engine import ScriptedEngine
from tests.server.protocol.grpc.serving import serving

GRPC = logging.getLogger("grpc._cython.cygrpc")
GONE = "ExecuteBatchError raised in core by servicer method [/inference.GRPCInferenceService/ModelInfer]"


def failed(message: str) -> None:
    """As grpc.aio logs it: an error with a traceback."""
    GRPC.error(message, exc_info=RuntimeError("Failed execute_batch"))


async def test_a_client_that_has_gone_is_a_line_at_debug_level(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(ScriptedEngine()), serving(ScriptedEngine()):
        caplog.clear()
        with caplog.at_level(logging.DEBUG, "naiad"):
            failed(GONE)
    (line,) = caplog.records
    assert (line.levelno, line.exc_info) == (logging.DEBUG, None)
    assert line.getMessage() == (
        "the client has gone before its response was sent [/inference.GRPCInferenceService/ModelInfer]"
    )


async def test_other_errors_of_grpc_are_logged_as_they_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(ScriptedEngine()):
        caplog.clear()
        failed("Unexpected [KeyError] raised by servicer method [/x]")
    (line,) = caplog.records
    assert line.levelno == logging.ERROR
    assert line.exc_info
