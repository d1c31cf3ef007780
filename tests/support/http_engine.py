"""The engine of HTTP that the servers of this run have (`NAIAD_TEST_HTTP_ENGINE`), and the tests that another one than ours is not held to.

Under uvicorn the scenarios of framing and connections are left out: it owns those. Everything else holds for both.
"""

import os

import pytest

UVICORN = os.environ.get("NAIAD_TEST_HTTP_ENGINE") == "uvicorn"

INVALID = b"Invalid HTTP request received."
"""uvicorn's response to what it cannot parse."""

_NOT_UVICORN: dict[str, str] = {}
"""The end of a test's file, and the beginning of its name, with the reason."""


def leave_out(items: list[pytest.Item]) -> None:
    """Skip what is not for the engine of this run."""
    if not UVICORN:
        return
    for item in items:
        place = f"{item.path}::{item.name}"
        for name, reason in _NOT_UVICORN.items():
            if name in place:
                item.add_marker(pytest.mark.skip(reason=f"uvicorn: {reason}"))
