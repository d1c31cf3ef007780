"""A real server on IPv6 addresses: who reaches its three ports, what the start shows, what the access log says of its clients."""

import http.client
import pathlib

import grpc
import pytest

from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import wait_until
from tests.wire.process.test_process import ADD, launched

pytestmark = pytest.mark.slow


def reached(server: ServerProcess, hosts: tuple[str, ...]) -> dict[str, list[str]]:
    """Which hosts reach each port."""
    found: dict[str, list[str]] = {"http": [], "metrics": [], "grpc": []}
    for host in hosts:
        for name, port, path in (
            ("http", server.ports.http, "/v2/health/live"),
            ("metrics", server.ports.metrics, "/metrics"),
        ):
            connection = http.client.HTTPConnection(host, port, timeout=120)
            try:
                connection.request("GET", path)
                if connection.getresponse().status == 200:
                    found[name].append(host)
            except ConnectionRefusedError:
                pass
            finally:
                connection.close()
        target = f"[{host}]:{server.ports.grpc}" if ":" in host else f"{host}:{server.ports.grpc}"
        with grpc.insecure_channel(target) as channel:
            try:
                channel.unary_unary("/inference.GRPCInferenceService/ServerLive")(b"", timeout=120)
                found["grpc"].append(host)
            except grpc.RpcError:
                pass
    return found


@pytest.mark.parametrize("written", ["::", "[::]", "ipv6:[::]"])
def test_the_address_for_all_is_for_both_families_on_every_port(
    written: str, models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    options = (f"--http-address={written}", f"--grpc-address={written}", "--metrics-address=::")
    with launched(models, tmp_path, *ADD, *options, "--access-log=true") as server:
        both = ["127.0.0.1", "::1"]
        assert reached(server, ("127.0.0.1", "::1")) == {
            "http": both,
            "metrics": both,
            "grpc": both,
        }
        log = server.output()
        assert f"Started HTTPService at [::]:{server.ports.http} (all interfaces" in log
        assert f"Started GRPCInferenceService at [::]:{server.ports.grpc} (all interfaces" in log
        wait_until(lambda: server.output().count(" ServerLive ") == 2)
        log = server.output()
        for path in ("GET /v2/health/live", "ServerLive"):
            clients = [line.split(path)[0] for line in log.splitlines() if path in line]
            assert any(" 127.0.0.1:" in client or '"127.0.0.1:' in client for client in clients), (
                clients
            )
            assert any("[::1]:" in client for client in clients), clients
        assert "::ffff:" not in log


def test_triton_s_default_of_grpc_is_reached_over_both_families(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with launched(models, tmp_path, *ADD, "--grpc-address=0.0.0.0") as server:
        assert reached(server, ("127.0.0.1", "::1"))["grpc"] == ["127.0.0.1", "::1"]
        assert f"Started GRPCInferenceService at 0.0.0.0:{server.ports.grpc}" in server.output()


def test_the_loopback_of_ipv6_is_reached_over_ipv6_alone(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    options = ("--http-address=[::1]", "--grpc-address=[::1]", "--metrics-address=")
    server = ServerProcess(
        naiad_program(), [models], log=tmp_path / "log", options=[*ADD, *options]
    )
    try:
        server.start()
        wait_until(lambda: "Started Metrics Service" in server.output())
        wait_until(lambda: "Started GRPCInferenceService" in server.output())
        only = ["::1"]
        assert reached(server, ("127.0.0.1", "::1")) == {
            "http": only,
            "metrics": only,
            "grpc": only,
        }
        assert f"Started HTTPService at [::1]:{server.ports.http}" in server.output()
        assert "all interfaces" not in server.output()
    finally:
        server.stop()
