"""Listening sockets: which addresses they are bound to, and what the user reads about an address that cannot be listened on."""

import collections.abc
import contextlib
import errno
import ipaddress
import pathlib
import socket
import typing

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


async def reached(
    host: str, by: collections.abc.Iterable[str], *, as_grpc: bool = False
) -> list[str]:
    """Which of these addresses of this machine reach a socket that listens on `host`."""
    address = ListenAddress(host, 0, port_option="--http-port", as_grpc=as_grpc)
    sockets = await address.bind(TransportSettings())
    try:
        address.listen(sockets, 8)
        port = sockets[0].getsockname()[1]
        found = []
        for one in by:
            with contextlib.suppress(OSError), socket.create_connection((one, port), timeout=10):
                found.append(one)
        return found
    finally:
        for sock in sockets:
            sock.close()


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("::", ["127.0.0.1", "::1"]),
        ("", ["127.0.0.1", "::1"]),
        ("::1", ["::1"]),
        ("127.0.0.1", ["127.0.0.1"]),
        ("0.0.0.0", ["127.0.0.1"]),
    ],
)
async def test_the_address_for_all_is_for_both_families(host: str, expected: list[str]) -> None:
    assert await reached(host, ("127.0.0.1", "::1")) == expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("0.0.0.0", ["127.0.0.1", "::1"]),
        ("localhost", ["127.0.0.1", "::1"]),
        ("127.0.0.1", ["127.0.0.1"]),
        ("::1", ["::1"]),
    ],
)
async def test_grpcs_address_for_all_is_for_both_families(host: str, expected: list[str]) -> None:
    assert await reached(host, ("127.0.0.1", "::1"), as_grpc=True) == expected


@pytest.mark.parametrize("host", ["0.0.0.0", "localhost"])
async def test_grpcs_addresses_do_without_ipv6(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.socket

    def without_ipv6(family: int, *others: typing.Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "no IPv6")
        return real(family, *others)

    monkeypatch.setattr("naiad.protocol.transport.sockets.socket.socket", without_ipv6)
    address = ListenAddress(host, 0, port_option="--grpc-port", as_grpc=True)
    sockets = await address.bind(TransportSettings())
    assert [sock.family for sock in sockets] == [socket.AF_INET]
    sockets[0].close()


async def test_a_port_that_is_taken_is_in_use_for_grpc_as_well(taken: int) -> None:
    address = ListenAddress("0.0.0.0", taken, port_option="--grpc-port", as_grpc=True)
    with pytest.raises(ListenError, match=rf"0\.0\.0\.0:{taken} is in use|\*:{taken} is in use"):
        await address.bind(TransportSettings())


def link_local() -> str:
    """A link-local address of this machine with its scope; "" if there is none."""
    for line in pathlib.Path("/proc/net/if_inet6").read_text().splitlines():
        digits, *_, device = line.split()
        address = ipaddress.IPv6Address(int(digits, 16))
        if address.is_link_local:
            return f"{address}%{device}"
    return ""


@pytest.mark.skipif(not link_local(), reason="this machine has no link-local address")
async def test_a_link_local_address_has_a_scope() -> None:
    assert await reached(link_local(), (link_local(), "::1")) == [link_local()]


@pytest.mark.parametrize("code", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
async def test_without_ipv6_all_addresses_are_those_of_ipv4(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.socket

    def without_ipv6(family: int, *others: typing.Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(code, "no IPv6")
        return real(family, *others)

    monkeypatch.setattr("naiad.protocol.transport.sockets.socket.socket", without_ipv6)
    sockets = await ListenAddress("::", 0, port_option="--http-port").bind(TransportSettings())
    assert [sock.getsockname()[0] for sock in sockets] == ["0.0.0.0"]
    sockets[0].close()


async def test_a_port_that_is_taken_for_one_family_is_in_use(taken: int) -> None:
    address = ListenAddress("::", taken, port_option="--http-port")
    with pytest.raises(ListenError, match=rf"\[::\]:{taken} is in use"):
        await address.bind(TransportSettings())
