"""How late the server's event loop was during one request, read from outside.

The metrics page counts how late each heartbeat of the loop was. What the system kept the loop's thread waiting for a processor is
subtracted.
"""

import http.client
import pathlib
import time
from dataclasses import dataclass

import grpc

from tests.large_requests.cases import Case
from tests.reference.process import ServerProcess
from tests.wire.plain_http import get

_TIMEOUT_S = 300
_BEAT_S = 0.02
_FAMILY = "naiad_loop_lag_seconds"
_RECEIVED = "naiad_loop_lag_seconds_count"


@dataclass(frozen=True)
class Measured:
    """One request.

    Attributes:
        status: of HTTP or gRPC.
        seconds: from the first byte of the request to the last of the reply.
        lag_ms: no heartbeat was later than this, its run delay subtracted.
        run_delay_ms: what was subtracted.
        reply: its first bytes, for people.
    """

    status: int
    seconds: float
    lag_ms: float
    run_delay_ms: float
    reply: bytes


def measure(server: ServerProcess, case: Case, size: int) -> Measured:
    """Send a request and wait for its reply."""
    body = case.body(size)
    before, waited = _lags(server), _run_delay_ms(server)
    began = time.monotonic()
    status, reply = _call_grpc(server, case, body) if case.grpc else _call_http(server, case, body)
    seconds = time.monotonic() - began
    del body
    # The beat that the end of the request made late has to be counted.
    target = before[_RECEIVED] + (seconds / _BEAT_S if seconds < _BEAT_S else 1)
    for _ in range(3):
        after = _lags(server)
    while after[_RECEIVED] <= target:
        after = _lags(server)
    delay = _run_delay_ms(server) - waited
    return Measured(status, seconds, max(0.0, _worst_ms(before, after) - delay), delay, reply)


def _call_http(server: ServerProcess, case: Case, body: bytes) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(server.http, timeout=_TIMEOUT_S)
    try:
        connection.request("POST", case.path, body, case.headers)
        reply = connection.getresponse()
        first = reply.read(200)
        while reply.read(1 << 20):
            pass
        return reply.status, first
    finally:
        connection.close()


def _call_grpc(server: ServerProcess, case: Case, body: bytes) -> tuple[int, bytes]:
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(server.grpc, options=options) as channel:
        try:
            if case.path.endswith("ModelStreamInfer"):
                first = b""
                for message in channel.stream_stream(case.path)(iter([body]), timeout=_TIMEOUT_S):
                    first = first or message[:200]
                return 0, first
            return 0, channel.unary_unary(case.path)(body, timeout=_TIMEOUT_S)[:200]
        except grpc.RpcError as error:
            return error.code().value[0], error.details().encode()[:200]


def _lags(server: ServerProcess) -> dict[str, float]:
    page = get(server.metrics, "/metrics")[1].decode()
    samples = (line.rsplit(" ", 1) for line in page.splitlines() if line.startswith(_FAMILY))
    return {name: float(value) for name, value in samples}


def _worst_ms(before: dict[str, float], after: dict[str, float]) -> float:
    """No heartbeat in between was later: the bound of the highest bucket that counted one, or all lags together."""
    together = 1000 * (after[_FAMILY + "_sum"] - before[_FAMILY + "_sum"])
    below = 0.0
    for name, count in after.items():
        if "_bucket" not in name or "+Inf" in name:
            continue
        added = count - before.get(name, 0)
        if added >= after[_RECEIVED] - before[_RECEIVED]:
            below = 1000 * float(name.split('le="')[1].split('"')[0])
            break
    return min(together, below) if below else together


def _run_delay_ms(server: ServerProcess) -> float:
    assert server.process is not None
    pid = server.process.pid
    return int(pathlib.Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) / 1e6
