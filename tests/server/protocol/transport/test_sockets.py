"""Listening sockets: what the user reads about an address that cannot be listened on."""

import collections.abc
import socket

import pytest

from naiad.protocol.transport.sockets import (
    ListenAddress,
    ListenError,
    TransportSettings,
    bind_error,
)


@pytest.fixture
def taken() -> collections.abc.Iterator[int]:
    """A port of this machine that another socket listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def test_a_port_that_can_be_shared_names_the_option_for_it(taken: int) -> None:
    address = ListenAddress(
        "127.0.0.1", taken, port_option="--http-port", reuse_option="--reuse-http-port"
    )
    with pytest.raises(ListenError, match=r"--http-port.*--reuse-http-port=true"):
        await address.bind(TransportSettings())


async def test_a_port_that_cannot_be_shared_does_not_suggest_it(taken: int) -> None:
    address = ListenAddress("127.0.0.1", taken, port_option="--metrics-port")
    with pytest.raises(ListenError, match="--metrics-port") as caught:
        await address.bind(TransportSettings())
    assert "reuse" not in str(caught.value)


def test_the_kernel_says_why_another_library_cannot_listen(taken: int) -> None:
    assert "in use" in bind_error("127.0.0.1", taken)
    assert bind_error("127.0.0.1", 0) == ""
