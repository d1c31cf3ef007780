"""Load from outside: `wrk` for HTTP, `h2load` for gRPC. One small request again and again, over so many connections."""

import dataclasses
import pathlib
import re
import shutil
import statistics
import struct
import subprocess
import tempfile

_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
_LATENCY = re.compile(r"^\s+(50|99)%\s+([\d.]+)(us|ms|s)", re.MULTILINE)
_WRK_RATE = re.compile(r"^Requests/sec:\s+([\d.]+)", re.MULTILINE)
_WRK_ERRORS = re.compile(r"Non-2xx or 3xx responses: (\d+)|Socket errors: (.*)")
_H2_RATE = re.compile(r"finished in [\d.]+m?s, ([\d.]+) req/s")
_H2_STATUS = re.compile(r"requests: .* (\d+) failed, (\d+) errored")


class LoadError(Exception):
    """The load could not be sent, or was not answered as it should."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rate:
    """What one run of load measured: requests a second, latencies in milliseconds."""

    per_second: float
    p50_ms: float
    p99_ms: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A POST to send again and again."""

    url: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


def require_tools() -> None:
    """Fail early, and say what to install.

    Raises:
        LoadError: a tool is missing.
    """
    missing = [
        package
        for tool, package in (("wrk", "wrk"), ("h2load", "nghttp2-client"))
        if shutil.which(tool) is None
    ]
    if missing:
        raise LoadError(
            f"missing tools: apt-get install {' '.join(missing)} (Debian's names of the packages)"
        )


def wrk(request: HttpRequest, *, connections: int, seconds: float) -> Rate:
    """HTTP/1.1 keep-alive load with one thread.

    Raises:
        LoadError: not every answer was 200.
    """
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "request.lua"
        body = pathlib.Path(folder) / "body"
        body.write_bytes(request.body)
        script.write_text(_lua(request, body))
        output = _run(
            "wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "--latency", "--timeout", "30s", "-s", str(script), request.url
        )  # fmt: skip
    failed = _WRK_ERRORS.search(output)
    rate = _WRK_RATE.search(output)
    if failed or rate is None:
        raise LoadError(f"wrk on {request.url}: {failed[0] if failed else output}")
    latency = {
        int(percent): float(value) * _UNITS[unit]
        for percent, value, unit in _LATENCY.findall(output)
    }
    return Rate(float(rate[1]), latency[50], latency[99])


def h2load(*, address: str, path: str, message: bytes, connections: int, seconds: float) -> Rate:
    """Unary gRPC load, one call at a time on each connection.

    Raises:
        LoadError: a call failed on the HTTP level (gRPC statuses are checked by the caller, once, before).
    """
    with tempfile.TemporaryDirectory() as folder:
        body = pathlib.Path(folder) / "message"
        body.write_bytes(struct.pack(">BI", 0, len(message)) + message)
        log = pathlib.Path(folder) / "log"
        output = _run(
            "h2load", f"-c{connections}", "-m1", "-t1", f"-D{max(1, round(seconds))}", f"--data={body}", f"--log-file={log}",
            "-H", "content-type: application/grpc", "-H", "te: trailers", f"http://{address}{path}",
        )  # fmt: skip
        microseconds = [int(line.split("\t")[2]) for line in log.read_text().splitlines()]
    rate, status = _H2_RATE.search(output), _H2_STATUS.search(output)
    if rate is None or status is None or status[1] != "0" or not microseconds:
        raise LoadError(f"h2load on {address}{path}:\n{output}")
    hundredths = statistics.quantiles(microseconds, n=100)
    return Rate(float(rate[1]), hundredths[49] / 1e3, hundredths[98] / 1e3)


def _run(*command: str) -> str:
    finished = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own words
    if finished.returncode:
        raise LoadError(f"{command[0]} failed: {finished.stderr or finished.stdout}")
    return finished.stdout


def _lua(request: HttpRequest, body: pathlib.Path) -> str:
    lines = ['wrk.method = "POST"', f'wrk.body = io.open("{body}", "rb"):read("*a")']
    lines += [f'wrk.headers["{name}"] = "{value}"' for name, value in request.headers]
    return "\n".join(lines)
