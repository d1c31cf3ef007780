"""Turns what grpc.aio logs when a client goes into a line at debug level, in place of an error with a traceback.

A call that was cancelled, or whose deadline passed, just before its response is sent fails inside grpc.aio, which cannot always tell that the client
has gone and logs an error. Nothing is wrong with the server then: the client has its status, and the inference was cancelled or is done.
"""

import logging

from typing_extensions import override

_GRPC_LOGGER = "grpc._cython.cygrpc"
_CLIENT_HAS_GONE = "ExecuteBatchError raised in core by servicer method"

_log = logging.getLogger(__name__)


class _ClientHasGone(logging.Filter):
    """Replaces these records with a line at debug level; all others pass."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if not message.startswith(_CLIENT_HAS_GONE):
            return True
        _log.debug(
            "the client has gone before its response was sent%s", message[len(_CLIENT_HAS_GONE) :]
        )
        return False


_FILTER = _ClientHasGone()


def quiet_departures() -> None:
    """Install the filter on grpc's logger; a second time changes nothing."""
    logging.getLogger(_GRPC_LOGGER).addFilter(_FILTER)
