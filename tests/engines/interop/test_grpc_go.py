"""grpc-go's interop client against the service, case by case, without and with TLS."""

import asyncio

import pytest

from naiad.protocol.grpc.settings import TlsSettings
from tests.engines.interop.service import server
from tests.server.protocol.grpc import certificates
from tests.toolchain import programs

CASES = (
    "empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong", "empty_stream", "timeout_on_sleeping_server",
    "cancel_after_begin", "cancel_after_first_response", "status_code_and_message", "special_status_message", "custom_metadata",
    "unimplemented_method", "unimplemented_service", "pick_first_unary", "rpc_soak", "channel_soak",
)  # fmt: skip
"""All but those of credentials of Google's clouds, and of load reports to a load balancer (orca)."""

SOAK = ("--soak_iterations=200", "--soak_num_threads=4", "--soak_overall_timeout_seconds=300", "--soak_per_iteration_max_acceptable_latency_ms=60000")  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> certificates.Certificates:
    return certificates.make(tmp_path_factory.mktemp("certificates"))


async def errors_of(case: str, port: int, *arguments: str) -> str:
    """What the client says of a case that fails; "" if it passes."""
    client = programs.find(["grpc-interop-client"])["grpc-interop-client"]
    process = await asyncio.create_subprocess_exec(
        client, "--server_host=127.0.0.1", f"--server_port={port}", f"--test_case={case}", *SOAK, *arguments,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, errors = await process.communicate()
    return errors.decode() if process.returncode else ""


async def passes(case: str, tls: TlsSettings | None, *arguments: str) -> None:
    port = server(tls=tls)
    await port.start()
    try:
        errors = await errors_of(case, port.address[1], *arguments)
    finally:
        await port.close(0)
    assert not errors


@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", CASES)
async def test_case_passes(case: str) -> None:
    await passes(case, None)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", CASES)
async def test_case_passes_over_tls(case: str, made: certificates.Certificates) -> None:
    tls = TlsSettings(server_cert=str(made.server_cert), server_key=str(made.server_key))
    await passes(case, tls, "--use_tls", f"--ca_file={made.authority}", "--use_test_ca", "--server_host_override=localhost")  # fmt: skip
