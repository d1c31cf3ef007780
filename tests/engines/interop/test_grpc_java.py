"""grpc-java against the service: the cases of gRPC's interop descriptions, with compression both ways, by `java/Client.java`."""

import asyncio
import pathlib
import shutil
import subprocess

import pytest

from tests.engines.interop.service import server

FOLDER = pathlib.Path(__file__).parent / "java"

CASES = (
    "large_unary", "client_compressed_unary", "server_compressed_unary", "server_streaming", "client_streaming", "ping_pong",
    "slow_stream", "timeout_on_sleeping_server", "status_and_metadata", "cancel_after_begin", "concurrent_large_unary",
)  # fmt: skip


@pytest.mark.timeout(600)
@pytest.mark.skipif(not (shutil.which("mvn") and shutil.which("javac")), reason="mvn or javac is not installed")  # fmt: skip
async def test_every_case_passes(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "java"
    shutil.copytree(FOLDER, folder)
    copy = ("mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib")
    subprocess.run(copy, cwd=folder, check=True)  # noqa: ASYNC221 - nothing runs beside it
    subprocess.run(("javac", "-cp", "lib/*", "-d", ".", "Client.java"), cwd=folder, check=True)  # noqa: ASYNC221 - as above
    port = server()
    await port.start()
    process = await asyncio.create_subprocess_exec(
        "java", "-cp", "lib/*:.", "Client", str(port.address[1]), cwd=folder,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    await port.close(0)
    assert process.returncode == 0, output.decode()
    assert [line.split(":")[0] for line in output.decode().splitlines() if line.endswith(": PASS")] == list(CASES)  # fmt: skip
