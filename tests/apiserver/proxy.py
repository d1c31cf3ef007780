"""A proxy before the API server that misbehaves on order: refusals, delays, dropped and silent watches.

Plain HTTP on the operator's side (a kubeconfig may name an http:// server), so that the operator's own TLS is not in the way
of looking. A fault matches requests by method and path and is used up after some times; everything else passes through, watches
as the stream that they are. The proxy runs in a thread with a loop of its own, so that synchronous tests can use it.
"""

import asyncio
import contextlib
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import aiohttp
from aiohttp import web

_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "content-encoding"}
)


@dataclass
class Fault:
    """What happens to the next requests that match.

    Attributes:
        method: an HTTP method; "WATCH" means a GET with `watch=true`.
        path: a regular expression, searched in the path.
        times: how often; it is used up then.
        status: answer this in place of asking; 0 asks.
        reason: the Status object's reason.
        headers: of the refusal.
        drop: close the connection without any answer.
        silent: for a watch: open it, and never send a line.
        delay: seconds before asking.
        cut_after: for a watch: close it after so many events.
        done: carry the request out, then lose the answer.
        used: how often it happened.
    """

    method: str
    path: str
    times: int = 1
    status: int = 0
    reason: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False
    silent: bool = False
    delay: float = 0.0
    cut_after: int = -1
    done: bool = False
    used: int = 0

    def matches(self, request: web.Request) -> bool:
        """Whether this request is one of those."""
        watch = request.query.get("watch") == "true"
        method = "WATCH" if watch and request.method == "GET" else request.method
        return (
            self.used < self.times
            and method == self.method
            and re.search(self.path, request.path) is not None
        )


class Request(NamedTuple):
    """A request that came, and when."""

    method: str
    path: str
    at: float


class Proxy:
    """A running proxy.

    Attributes:
        url: where it listens.
        requests: everything that came.
    """

    def __init__(self, upstream: str, ca: str) -> None:
        self._upstream = upstream
        self._ca = ca
        self._faults: list[Fault] = []
        self._watches: set[asyncio.Task[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = asyncio.Event()
        self.url = ""
        self.requests: list[Request] = []
        self.down = False

    def add(self, fault: Fault) -> Fault:
        """Orders a fault."""
        self._faults.append(fault)
        return fault

    def clear(self) -> None:
        """All is well again."""
        self._faults.clear()
        self.down = False

    def cut_watches(self) -> None:
        """Closes every watch that is open now."""
        assert self._loop is not None

        def cut() -> None:
            for task in list(self._watches):
                task.cancel()

        self._loop.call_soon_threadsafe(cut)

    def stop(self) -> None:
        """Ends `serve`."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._stopped.set)

    async def serve(self, ready: Callable[[], None]) -> None:
        """Serves until `stop`."""
        self._loop = asyncio.get_running_loop()
        secure = ssl.create_default_context(cafile=self._ca)
        connector = aiohttp.TCPConnector(limit=0, ssl=secure)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False
        ) as session:
            self._session = session
            app = web.Application(client_max_size=64 << 20)
            app.router.add_route("*", "/{path:.*}", self._handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            ready()
            await self._stopped.wait()
            await runner.cleanup()
        # Connections with TLS close in later rounds of the loop, also those of an operator that outlives its proxy.
        await asyncio.sleep(0.1)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(Request(request.method, request.path_qs, time.monotonic()))
        if self.down:
            return _drop(request)
        fault = next((fault for fault in self._faults if fault.matches(request)), None)
        if fault is not None:
            fault.used += 1
            if fault.delay:
                await asyncio.sleep(fault.delay)
            if fault.drop:
                return _drop(request)
            if fault.status:
                return _refusal(fault)
        return await self._pass(request, fault)

    async def _pass(self, request: web.Request, fault: Fault | None) -> web.StreamResponse:
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP_BY_HOP}
        body = await request.read()
        async with self._session.request(
            request.method,
            self._upstream + request.path_qs,
            data=body or None,
            headers=headers,
        ) as answer:
            passed = {k: v for k, v in answer.headers.items() if k.lower() not in _HOP_BY_HOP}
            if request.query.get("watch") != "true":
                content = await answer.read()
                if fault is not None and fault.done:
                    return _drop(request)
                if "Content-Encoding" in answer.headers:
                    passed["Content-Encoding"] = answer.headers["Content-Encoding"]
                return web.Response(status=answer.status, body=content, headers=passed)
            stream = web.StreamResponse(status=answer.status, headers=passed)
            await stream.prepare(request)
            task = asyncio.ensure_future(_stream(answer, stream, fault))
            self._watches.add(task)
            try:
                await task
            except asyncio.CancelledError:
                if task.cancelled():
                    return _drop(request)
                raise
            except (aiohttp.ClientError, ConnectionError):
                return _drop(request)
            finally:
                self._watches.discard(task)
            if fault is not None and fault.cut_after >= 0:
                return _drop(request)
            return stream


async def _stream(
    answer: aiohttp.ClientResponse, stream: web.StreamResponse, fault: Fault | None
) -> None:
    left = fault.cut_after if fault is not None else -1
    async for chunk in answer.content.iter_any():
        if fault is not None and fault.silent:
            continue
        if left == 0:
            return
        await stream.write(chunk)
        left -= chunk.count(b"\n") if left > 0 else 0


def _drop(request: web.Request) -> web.StreamResponse:
    """Ends the connection in the middle, as a crash would."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


def _refusal(fault: Fault) -> web.Response:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": fault.reason,
        "code": fault.status,
        "message": f"the proxy of the tests says {fault.status}",
    }
    return web.Response(
        status=fault.status,
        text=json.dumps(status),
        headers={"Content-Type": "application/json", **fault.headers},
    )


@contextlib.contextmanager
def proxying(upstream: str, ca: str) -> Iterator[Proxy]:
    """A proxy that runs as long as the block."""
    proxy = Proxy(upstream, ca)
    ready = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(proxy.serve(ready.set)), daemon=True)
    thread.start()
    assert ready.wait(60), "the proxy did not start"
    try:
        yield proxy
    finally:
        proxy.stop()
        thread.join(60)
