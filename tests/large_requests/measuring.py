"""How late the server's event loop was during one request, read from outside.

The metrics page counts the heartbeats of the loop that were late. Of those that were later than 50 ms the log says how late, and how
long the loop's thread waited for a processor meanwhile, which is subtracted. Where it is allowed, the server's threads are run
before everything else on the machine: one that holds the interpreter may wait for a processor as well.
"""

import contextlib
import http.client
import json
import os
import pathlib
import time
from dataclasses import dataclass
from typing import Any

import grpc

from tests.large_requests.cases import Case
from tests.reference.process import ServerProcess
from tests.support.waiting import wait_until
from tests.wire.plain_http import get

_TIMEOUT_S = 300
_FAMILY = "naiad_loop_lag_seconds"
_COUNT = "naiad_loop_lag_seconds_count"


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
    """Send a request and wait for its reply; the server logs in JSON."""
    body = case.body(size)
    _prefer(server)
    before, logged = _lags(server), server.log.stat().st_size
    began = time.monotonic()
    status, reply = _call_grpc(server, case, body) if case.grpc else _call_http(server, case, body)
    seconds = time.monotonic() - began
    del body
    # The beat that the end of the request made late has to be counted.
    wait_until(lambda: _lags(server)[_COUNT] > before[_COUNT] + 1)
    after = _lags(server)
    stalls = _later_than_bound(after) - _later_than_bound(before)
    if not stalls:
        return Measured(status, seconds, _bound_ms(before, after), 0, reply)
    found: list[dict[str, Any]] = []

    def all_are_logged() -> bool:
        found[:] = _stalls(server, logged)
        return sum(int(each["stalls"]) for each in found) >= stalls

    # Stalls in which the loop only waited for a processor are logged once per minute.
    wait_until(all_are_logged, seconds=90)
    worst = max(found, key=lambda each: each["stalled_ms"] - each["run_delay_ms"])
    lag = worst["stalled_ms"] - worst["run_delay_ms"]
    return Measured(status, seconds, lag, worst["run_delay_ms"], reply)


def _prefer(server: ServerProcess) -> None:
    """Run the server's threads, and no process that it starts, before everything else."""
    assert server.process is not None
    policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
    for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        with contextlib.suppress(OSError):  # not allowed, or it has ended
            os.sched_setscheduler(int(task.name), policy, os.sched_param(1))


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


def _later_than_bound(lags: dict[str, float]) -> float:
    """How many heartbeats were later than 50 ms."""
    return lags[_COUNT] - lags[f'{_FAMILY}_bucket{{le="0.05"}}']


def _bound_ms(before: dict[str, float], after: dict[str, float]) -> float:
    """The bound of the highest bucket that counted a heartbeat."""
    for name, count in after.items():
        if "_bucket" in name and count - before[name] >= after[_COUNT] - before[_COUNT]:
            return 1000 * float(name.split('le="')[1].split('"')[0])
    raise AssertionError(after)


def _stalls(server: ServerProcess, start: int) -> list[dict[str, Any]]:
    """What the log says of stalls, from an offset."""
    lines = server.log.read_bytes()[start:].splitlines()
    found = [json.loads(line) for line in lines if b'"stalled_ms"' in line and line.endswith(b"}")]
    return [each for each in found if each["stalls"]]
