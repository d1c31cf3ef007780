"""grpc-go's interop client against the service behind Traefik, which speaks HTTP/2 without TLS on both sides, as the ingress of a cluster does."""

import asyncio
import collections.abc
import contextlib
import json
import pathlib
import signal
import subprocess

import pytest

from tests.engines.interop.service import server
from tests.engines.interop.test_grpc_go import CASES, errors_of
from tests.reference.process import Ports
from tests.toolchain import programs


@contextlib.contextmanager
def traefik(folder: pathlib.Path, backend: int) -> collections.abc.Iterator[int]:
    """Traefik in front of a port; gives its own port."""
    port = Ports.free().grpc
    route = {"rule": "PathPrefix(`/`)", "entryPoints": ["grpc"], "service": "service"}
    balancer = {"servers": [{"url": f"h2c://127.0.0.1:{backend}"}]}
    services = {"service": {"loadBalancer": balancer}}
    dynamic = folder / "dynamic.json"
    dynamic.write_text(json.dumps({"http": {"routers": {"route": route}, "services": services}}))
    program = programs.find(["traefik"])["traefik"]
    command = [program, f"--entryPoints.grpc.address=127.0.0.1:{port}", f"--providers.file.filename={dynamic}", "--global.sendAnonymousUsage=false", "--global.checkNewVersion=false"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


async def has_its_route(port: int) -> None:
    """Traefik listens before it has read the file with the route; until then it answers 404."""
    async with asyncio.timeout(60):
        while await errors_of("empty_unary", port):
            pass


@pytest.mark.timeout(600)
async def test_every_case_passes(tmp_path: pathlib.Path) -> None:
    backend = server()
    await backend.start()
    with traefik(tmp_path, backend.address[1]) as port:
        await has_its_route(port)
        errors = {case: await errors_of(case, port) for case in CASES}
    await backend.close(0)
    assert {case: error for case, error in errors.items() if error} == {}
