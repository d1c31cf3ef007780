"""Load from outside: `wrk` for HTTP, `h2load` for gRPC. One small request again and again, or some that take turns, over so many connections."""

import collections.abc
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
_WRK_COUNT = re.compile(r"^\s+(\d+) requests in ", re.MULTILINE)
_WRK_ERRORS = re.compile(r"Non-2xx or 3xx responses: (\d+)|Socket errors: (.*)")
_H2_RATE = re.compile(r"finished in [\d.]+m?s, ([\d.]+) req/s")
_H2_COUNT = re.compile(r"requests: .* (\d+) succeeded")
_H2_STATUS = re.compile(r"requests: .* (\d+) failed, (\d+) errored")


class LoadError(Exception):
    """The load could not be sent, or was not answered as it should."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rate:
    """What one run of load measured: requests per second, latencies in milliseconds, requests."""

    per_second: float
    p50_ms: float
    p99_ms: float
    requests: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A POST to send again and again.

    Attributes:
        url: where to.
        body: what is sent.
        headers: of it.
        others: bodies and headers that take turns with these.
        number: where this text stands in a body or a header, a number of twelve digits is sent that is another one each time.
    """

    url: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    others: tuple[tuple[bytes, tuple[tuple[str, str], ...]], ...] = ()
    number: str = ""


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


def wrk(request: HttpRequest, *, connections: int, seconds: float, first: int = 0) -> Rate:
    """HTTP/1.1 load with one thread; keep-alive unless a header says otherwise.

    Args:
        request: what is sent.
        connections: how many at once.
        seconds: how long, an integer.
        first: the first number, for a request with numbers.

    Raises:
        LoadError: not every answer was 200.
    """
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "request.lua"
        script.write_text(_lua(request, pathlib.Path(folder), first))
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
    count = _WRK_COUNT.search(output)
    return Rate(float(rate[1]), latency[50], latency[99], int(count[1]) if count else 0)


def h2load(
    *,
    address: str,
    path: str,
    messages: "collections.abc.Iterable[bytes]",
    connections: int,
    seconds: float,
    calls: int = 0,
    streams: int = 1,
) -> Rate:
    """Load over gRPC, the same call again and again.

    Args:
        address: `host:port`.
        path: the method's.
        messages: of each call: one for a unary method.
        connections: how many at once.
        seconds: how long, rounded to an integer; calls that have not ended then are cut off and not counted.
        calls: so many in place of that, at least one for each connection; 0 goes by time.
        streams: calls at once on each connection.

    Raises:
        LoadError: a call failed on the HTTP level (gRPC statuses are checked by the caller, once, before).
    """
    with tempfile.TemporaryDirectory() as folder:
        body = pathlib.Path(folder) / "message"
        body.write_bytes(
            b"".join(struct.pack(">BI", 0, len(message)) + message for message in messages)
        )
        log = pathlib.Path(folder) / "log"
        amount = f"-n{calls}" if calls else f"-D{max(1, round(seconds))}"
        output = _run(
            "h2load", f"-c{connections}", f"-m{streams}", "-t1", amount, f"--data={body}", f"--log-file={log}",
            "-H", "content-type: application/grpc", "-H", "te: trailers", f"http://{address}{path}",
        )  # fmt: skip
        microseconds = [int(line.split("\t")[2]) for line in log.read_text().splitlines()]
    rate, status = _H2_RATE.search(output), _H2_STATUS.search(output)
    if rate is None or status is None or status[1] != "0" or not microseconds:
        raise LoadError(f"h2load on {address}{path}:\n{output}")
    if len(microseconds) == 1:  # of two and more there are quantiles
        microseconds *= 2
    hundredths = statistics.quantiles(microseconds, n=100)
    count = _H2_COUNT.search(output)
    return Rate(
        float(rate[1]), hundredths[49] / 1e3, hundredths[98] / 1e3, int(count[1]) if count else 0
    )


def _run(*command: str) -> str:
    finished = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own words
    if finished.returncode:
        raise LoadError(f"{command[0]} failed: {finished.stderr or finished.stdout}")
    return finished.stdout


_READ = """\
local function read(path)
  local file = io.open(path, "rb")
  local text = file:read("*a")
  file:close()
  return text
end"""
"""wrk has room for a few numbers of open files above its connections."""

_CHANGING = """\
local at, number = 0, {first}
local prepared = {{}}
local function split(text)
  local parts, from = {{}}, 1
  while placeholder ~= "" do
    local start, stop = text:find(placeholder, from, true)
    if not start then break end
    parts[#parts + 1] = text:sub(from, start - 1)
    from = stop + 1
  end
  parts[#parts + 1] = text:sub(from)
  return parts
end
function init(args)
  for turn = 1, #bodies do prepared[turn] = split(wrk.format("POST", nil, headers[turn], bodies[turn])) end
end
function request()
  at = at % #prepared + 1
  number = number + 1
  return table.concat(prepared[at], string.format("%012d", number))
end
"""
"""Requests are formatted once, and cut where the number stands: the load generator must not be what is measured."""


def _lua(request: HttpRequest, folder: pathlib.Path, first: int) -> str:
    """A script for wrk; the bodies go into files in `folder`."""
    lines = ['wrk.method = "POST"', "local bodies, headers = {}, {}", _READ]
    for number, (body, headers) in enumerate(((request.body, request.headers), *request.others), 1):
        file = folder / f"body_{number}"
        file.write_bytes(body)
        shown = ", ".join(f'["{name}"] = "{value}"' for name, value in headers)
        lines += [f'bodies[{number}] = read("{file}")', f"headers[{number}] = {{ {shown} }}"]  # fmt: skip
    if request.others or request.number:
        lines += [f'local placeholder = "{request.number}"', _CHANGING.format(first=first)]
    else:
        lines += [
            "wrk.body = bodies[1]",
            "for name, value in pairs(headers[1]) do wrk.headers[name] = value end",
        ]
    return "\n".join(lines)
