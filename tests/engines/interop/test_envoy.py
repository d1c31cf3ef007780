"""grpc-go's interop client against the service behind Envoy, which speaks HTTP/2 without TLS on both sides, as a mesh's sidecar does; Envoy's own probe of health, too."""

import asyncio
import collections.abc
import contextlib
import json
import pathlib
import signal
import subprocess
import typing
import urllib.request

import pytest

from tests.engines.interop.service import server
from tests.engines.interop.test_grpc_go import CASES, errors_of
from tests.reference.process import Ports
from tests.toolchain import envoy

_TYPES = "type.googleapis.com/envoy.extensions"
_OPTIONS = f"{_TYPES}.upstreams.http.v3.HttpProtocolOptions"
_MANAGER = f"{_TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager"
_ROUTER = f"{_TYPES}.filters.http.router.v3.Router"


def _address(port: int) -> dict[str, typing.Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def _config(
    *, port: int, admin: int, backend: int, upstream: dict[str, int]
) -> dict[str, typing.Any]:
    route = {"match": {"prefix": "/"}, "route": {"cluster": "service", "timeout": "0s", "max_stream_duration": {"grpc_timeout_header_max": "0s"}}}  # fmt: skip
    manager = {
        "@type": _MANAGER, "stat_prefix": "grpc", "codec_type": "HTTP2",
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {"@type": _ROUTER}}],
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
    }  # fmt: skip
    listener = {
        "name": "grpc", "address": _address(port),
        "filter_chains": [{"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}],
    }  # fmt: skip
    endpoint = {"endpoint": {"address": _address(backend)}}
    cluster = {
        "name": "service", "type": "STATIC",
        "load_assignment": {"cluster_name": "service", "endpoints": [{"lb_endpoints": [endpoint]}]},
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": _OPTIONS, "explicit_http_config": {"http2_protocol_options": upstream},
            }
        },
    }  # fmt: skip
    return {
        "admin": {"address": _address(admin)},
        "static_resources": {"listeners": [listener], "clusters": [cluster]},
    }


@contextlib.contextmanager
def proxy(
    folder: pathlib.Path, backend: int, **upstream: int
) -> collections.abc.Iterator[tuple[int, int]]:
    """Envoy in front of a port, with these options of HTTP/2; gives its own port and that of its administration."""
    try:
        program = envoy.find()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"Envoy is not here and cannot be downloaded ({error})")
    ports = Ports.free()
    config = folder / "envoy.json"
    config.write_text(
        json.dumps(_config(port=ports.grpc, admin=ports.http, backend=backend, upstream=upstream))
    )
    command = [str(program), "--config-path", str(config), "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "error"]  # fmt: skip
    with (folder / "envoy.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield ports.grpc, ports.http
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _counters(admin: int) -> dict[str, int]:
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/stats?filter=cluster.service") as page:
        lines = page.read().decode().splitlines()
    pairs = (line.rpartition(": ") for line in lines)
    return {name: int(value) for name, _, value in pairs if value.isdigit()}


async def _is_there(port: int) -> None:
    """Envoy refuses connections until it has read its config."""
    async with asyncio.timeout(120):
        while await errors_of("empty_unary", port):
            pass


@pytest.mark.timeout(600)
@pytest.mark.parametrize("upstream", [{}, {"hpack_table_size": 0}])
async def test_every_case_passes(tmp_path: pathlib.Path, upstream: dict[str, int]) -> None:
    """With no dynamic table, Envoy ends a connection over a header block that does not acknowledge that."""
    backend = server()
    await backend.start()
    try:
        with proxy(tmp_path, backend.address[1], **upstream) as (port, admin):
            await _is_there(port)
            errors = {case: await errors_of(case, port) for case in CASES}
            counters = await asyncio.to_thread(_counters, admin)
    finally:
        await backend.close(0)
    assert {case: error for case, error in errors.items() if error} == {}
    assert counters["cluster.service.upstream_cx_http2_total"] > 0
    assert counters["cluster.service.upstream_cx_protocol_error"] == 0
