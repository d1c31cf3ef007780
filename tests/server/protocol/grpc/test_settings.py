"""Options as grpc's channel arguments."""

import pytest

from naiad.protocol.grpc.settings import GrpcSettings, channel_arguments, target


def test_the_defaults_are_tritons() -> None:
    assert dict(channel_arguments(GrpcSettings())) == {
        "grpc.max_send_message_length": 2147483647,
        "grpc.max_receive_message_length": 2147483647,
        "grpc.per_message_decompression": 0,
        "grpc.server.max_pending_requests": 10_000,
        "grpc.server.max_pending_requests_hard_limit": 20_000,
        "grpc.so_reuseport": 0,
        "grpc.keepalive_time_ms": 7_200_000,
        "grpc.keepalive_timeout_ms": 20_000,
        "grpc.keepalive_permit_without_calls": 0,
        "grpc.http2.max_pings_without_data": 2,
        "grpc.http2.min_ping_interval_without_data_ms": 300_000,
        "grpc.http2.max_ping_strikes": 2,
    }


def test_every_option_reaches_its_argument() -> None:
    settings = GrpcSettings(
        reuse_port=True,
        keepalive_time_ms=1,
        keepalive_timeout_ms=2,
        keepalive_permit_without_calls=True,
        max_pings_without_data=3,
        min_recv_ping_interval_ms=4,
        max_ping_strikes=5,
        max_connection_age_ms=6,
        max_connection_age_grace_ms=7,
        infer_response_compression_level="medium",
    )
    assert dict(channel_arguments(settings)) == {
        "grpc.max_send_message_length": 2147483647,
        "grpc.max_receive_message_length": 2147483647,
        "grpc.per_message_decompression": 0,
        "grpc.server.max_pending_requests": 10_000,
        "grpc.server.max_pending_requests_hard_limit": 20_000,
        "grpc.so_reuseport": 1,
        "grpc.keepalive_time_ms": 1,
        "grpc.keepalive_timeout_ms": 2,
        "grpc.keepalive_permit_without_calls": 1,
        "grpc.http2.max_pings_without_data": 3,
        "grpc.http2.min_ping_interval_without_data_ms": 4,
        "grpc.http2.max_ping_strikes": 5,
        "grpc.max_connection_age_ms": 6,
        "grpc.max_connection_age_grace_ms": 7,
        "grpc.default_compression_level": 2,
    }


def test_a_time_beyond_grpcs_reach_is_its_longest() -> None:
    arguments = dict(channel_arguments(GrpcSettings(keepalive_time_ms=2**40)))
    assert arguments["grpc.keepalive_time_ms"] == 2147483647


@pytest.mark.parametrize(
    ("address", "wanted"),
    [
        ("127.0.0.1", "127.0.0.1:8001"),
        ("::1", "[::1]:8001"),
        ("fe80::1%eth0", "[fe80::1%eth0]:8001"),
    ],
)
def test_addresses_are_written_as_grpc_wants_them(address: str, wanted: str) -> None:
    assert target(GrpcSettings(address=address)) == wanted
