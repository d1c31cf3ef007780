"""What a reload costs clients: 200 requests per second to a model, in steady state and while it is loaded again each second.

Requests are sent at fixed times, whether or not earlier ones are answered, and their latencies count from these times. The phases take turns.
"""

import asyncio
import contextlib
import dataclasses
import http
import os
import pathlib
import statistics
import tempfile
import time
import urllib.parse

from benchmarks import models
from benchmarks.load import HttpRequest, LoadError
from benchmarks.requests import small
from tests.reference.process import ServerProcess, naiad_program

RATE = 200
"""Requests per second."""

MODELS = {"tiny": "tiny ONNX, in a thread", "identity": "Python, in a worker process"}

_PAUSE_S = 1.0
"""Between two loads."""

_CONNECTIONS = 32
_TIMEOUT_S = 30.0
_PERCENT = 100


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reloads:
    """The requests to one model; latencies in milliseconds.

    Attributes:
        model: in words.
        requests: of both phases.
        failed: those that were not answered with 200.
        reloads: how many there were.
        reload_ms: the median time of one.
        steady_p99: without reloads.
        p99: with them.
    """

    model: str
    requests: int
    failed: int
    reloads: int
    reload_ms: float
    steady_p99: float
    p99: float


def measure(*, seconds: float, rounds: int) -> list[Reloads]:
    """Measure each model.

    Args:
        seconds: of a phase.
        rounds: of both phases.

    Raises:
        LoadError: a reload failed.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        repository = folder / "models"
        models.python_models(repository)
        models.tiny_onnx(repository)
        options = ["--model-control-mode=explicit", *(f"--load-model={model}" for model in MODELS)]
        with ServerProcess(
            naiad_program(), [repository], log=folder / "log", options=options
        ) as server:
            return [
                asyncio.run(_measure(server, repository / model, seconds=seconds, rounds=rounds))
                for model in MODELS
            ]


def table(rows: list[Reloads]) -> str:
    """As Markdown."""
    lines = [
        "| model | requests | failed | reloads | one reload, ms | p99 steady, ms | p99 with reloads, ms | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.model} | {row.requests} | **{row.failed}** | {row.reloads} | {row.reload_ms:.0f} | {row.steady_p99:.2f} | {row.p99:.2f} "
        f"| **{row.p99 / row.steady_p99:.2f}** |"
        for row in rows
    ]
    return "\n".join(lines)


async def _measure(
    server: ServerProcess, model: pathlib.Path, *, seconds: float, rounds: int
) -> Reloads:
    request = small(model.name).json(server.http)
    steady, reloading, loads = list[float](), list[float](), list[float]()
    failed = 0
    for _ in range(rounds):
        failed += await _phase(request, seconds, steady)
        over = asyncio.Event()
        reloads = asyncio.ensure_future(_reload(server, model, over, loads))
        failed += await _phase(request, seconds, reloading)
        over.set()
        await reloads
    return Reloads(
        model=MODELS[model.name],
        requests=len(steady) + len(reloading),
        failed=failed,
        reloads=len(loads),
        reload_ms=statistics.median(loads),
        steady_p99=_p99(steady),
        p99=_p99(reloading),
    )


def _p99(latencies: list[float]) -> float:
    return statistics.quantiles(latencies, n=_PERCENT)[-1]


async def _phase(request: HttpRequest, seconds: float, latencies: list[float]) -> int:
    """Send for so many seconds; add the latencies, and give the number of failed requests."""
    idle: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(_CONNECTIONS):
        idle.put_nowait(Connection(request))
    loop = asyncio.get_running_loop()
    start = loop.time()

    async def send(due: float) -> bool:
        await asyncio.sleep(due - loop.time())
        connection = await idle.get()
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                succeeded = await connection.send() == http.HTTPStatus.OK
        except (OSError, EOFError, ValueError):
            connection.close()
            succeeded = False
        idle.put_nowait(connection)
        latencies.append((loop.time() - due) * 1e3)
        return succeeded

    results = await asyncio.gather(
        *(send(start + number / RATE) for number in range(int(seconds * RATE)))
    )
    while not idle.empty():
        idle.get_nowait().close()
    return results.count(False)


async def _reload(
    server: ServerProcess, model: pathlib.Path, over: asyncio.Event, loads: list[float]
) -> None:
    """Change the model and load it, again and again; add how long each took in milliseconds."""
    url = f"http://{server.http}/v2/repository/models/{model.name}/load"
    connection = Connection(HttpRequest(url=url, body=b""))
    while not over.is_set():
        for file in (model / "1").iterdir():
            if file.is_file():
                os.utime(file)
        before = time.perf_counter()
        status = await connection.send()
        loads.append((time.perf_counter() - before) * 1e3)
        if status != http.HTTPStatus.OK:
            raise LoadError(f"a reload of {model.name} was answered with {status}: {server.tail()}")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PAUSE_S):
                await over.wait()
    connection.close()


class Connection:
    """One HTTP connection that is kept, and the request that it repeats."""

    def __init__(self, request: HttpRequest) -> None:
        url = urllib.parse.urlsplit(request.url)
        headers = {
            "Host": url.netloc,
            "Content-Length": str(len(request.body)),
            **dict(request.headers),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._bytes = f"POST {url.path} HTTP/1.1\r\n{lines}\r\n".encode() + request.body
        self._address = url.hostname, url.port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self) -> int:
        """Send it and read the response; gives the status.

        Raises:
            OSError, EOFError, ValueError: the connection broke, or what came is not a response.
        """
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address)
        reader, writer = self._streams
        writer.write(self._bytes)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        await reader.readexactly(int(headers.get("content-length", 0)))
        return int(head[0].split()[1])

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
