"""The soak: clients ask without pause while workers are killed, models reloaded and requests given up.

What counts as right: a request gets its own answer, or a 503 that says so where its worker was killed or hung; models whose workers
are not killed lose nothing at all, whatever is reloaded; and once it is quiet the server holds no more than before.
"""

import asyncio
import collections
import collections.abc
import contextlib
import json
import pathlib
import random
import time
from dataclasses import dataclass, field

from tests.reference.process import ServerProcess
from tests.soak import census, repository
from tests.soak.client import Connection, Reply

HUNG_S = 30.0
"""An answer that takes longer has not come."""

MOST_GROWN = 12_000_000
"""Bytes that the server may have more than at first, however long it ran: allocators settle within 3 MB, and a leak of 100 bytes per request
passes this in 200,000."""

_REQUESTS_SHOWN = 10_000
_QUIET_S = 60.0
_WARM_LOADS = 3
_NARROW, _WIDE = 4, 20_000
_OK, _UNAVAILABLE = 200, 503


@dataclass(frozen=True)
class Plan:
    """How much of what.

    Attributes:
        requests: how many in all.
        clients: how many ask at once.
        kill_every_s: the time between two kills of a worker.
        reload_every_s: the time between two reloads of a model.
        cancelled: the share of requests that are given up before their answer.
        hanging: the share of requests to `hangs` that make it hang.
        wide: the share of requests with tensors that do not fit into a packet.
        seed: of everything that is drawn.
        tenants: models of ever new names that are loaded, asked once and unloaded afterwards.
        models: which are asked.
    """

    requests: int
    clients: int = 16
    kill_every_s: float = 3.0
    reload_every_s: float = 1.0
    cancelled: float = 0.01
    hanging: float = 0.002
    wide: float = 0.02
    seed: int = 1
    tenants: int = 0
    models: tuple[str, ...] = repository.ALL


@dataclass
class Result:
    """What came of it.

    Attributes:
        outcomes: requests by model and what became of them.
        faults: what should not have been, in words.
        kills: workers killed from outside.
        reloads: reloads that were answered with success.
        before: what the server held before it all.
        after: what it held when it was quiet again.
        seconds: how long the requests took.
        stalls: how late the server's event loop was each time that it logged so, and the line of its log. Milliseconds, less the time
            that the loop waited for a processor.
    """

    outcomes: collections.Counter[str] = field(default_factory=collections.Counter)
    faults: list[str] = field(default_factory=list)
    kills: int = 0
    reloads: int = 0
    before: census.Census | None = None
    after: census.Census | None = None
    seconds: float = 0.0
    stalls: list[tuple[float, str]] = field(default_factory=list)

    @property
    def lag_ms(self) -> float:
        """The most that the event loop was late; 0 if it logged no stall."""
        return max((own_ms for own_ms, _ in self.stalls), default=0.0)


class Soak:
    """One run against a running server.

    Args:
        server: it serves `repository.make`'s models, with explicit model control.
        models: their folder.
        plan: how much of what.
        progress: called now and then with how far it is, in words.
    """

    def __init__(
        self,
        server: ServerProcess,
        models: pathlib.Path,
        plan: Plan,
        *,
        progress: collections.abc.Callable[[str], None],
    ) -> None:
        assert server.process is not None
        self._pid = server.process.pid
        self._port = server.ports.http
        self._models = models
        self._plan = plan
        self._progress = progress
        self._random = random.Random(plan.seed)
        self._result = Result()
        self._left = plan.requests
        self._number = 0

    async def run(self) -> Result:
        """Does it all; faults are in the result, not raised."""
        await self._warm_up()
        self._result.before = await self._before()
        start = time.monotonic()
        chaos = [asyncio.create_task(self._kill()), asyncio.create_task(self._reload())]
        await asyncio.gather(*(self._ask() for _ in range(self._plan.clients)))
        self._result.seconds = time.monotonic() - start
        for task in chaos:
            task.cancel()
        await asyncio.gather(*chaos, return_exceptions=True)
        await self._quiet()
        return self._result

    async def _warm_up(self) -> None:
        """Everything that the server keeps for good is there before it is counted: threads of its pools, segments of its workers."""
        connections = [Connection(self._port) for _ in range(self._plan.clients)]
        for _ in range(_WARM_LOADS):
            for model in self._plan.models:
                repository.touch(self._models, model)
            loads = [f"/v2/repository/models/{model}/load" for model in self._plan.models]
            await asyncio.gather(
                *(each.post(path, b"") for each, path in zip(connections, loads, strict=False))
            )
        for model in self._plan.models:
            await asyncio.gather(
                *(
                    each.post(_path(model), _body(model, number))
                    for number, each in enumerate(connections, 1)
                )
            )
        for connection in connections:
            connection.drop()
        await self._until_ready()

    async def _before(self) -> census.Census:
        """What the server holds once the workers that the last loads replaced are gone."""
        wanted = sum(repository.WORKERS.get(model, 0) for model in self._plan.models)
        end = time.monotonic() + _QUIET_S
        while True:
            before = census.take(self._pid)
            if before.workers == wanted or time.monotonic() > end:
                return before
            await asyncio.sleep(0.2)

    async def _ask(self) -> None:
        connection = Connection(self._port)
        while self._left > 0:
            self._left -= 1
            if self._left % _REQUESTS_SHOWN == 0:
                self._progress(
                    f"{self._plan.requests - self._left} of {self._plan.requests} requests"
                )
            await self._ask_once(connection)
        connection.drop()

    async def _ask_once(self, connection: Connection) -> None:
        draw = self._random
        model = draw.choice(self._plan.models)
        self._number += 1
        number = float(self._number % 1_000_000 + 1)
        width = _WIDE if draw.random() < self._plan.wide else _NARROW
        hangs = model == repository.HANGS and draw.random() < self._plan.hanging
        leave = draw.random() * 0.01 if draw.random() < self._plan.cancelled else None
        body = _body(model, -number if hangs else number, width)
        try:
            async with asyncio.timeout(HUNG_S):
                reply = await connection.post(_path(model), body, leave_after_s=leave)
        except TimeoutError:
            self._count(model, "hung", f"no answer within {HUNG_S:g} s")
        except (OSError, asyncio.IncompleteReadError) as error:
            self._count(model, "broken", f"the connection broke: {error}")
        else:
            self._judge(model, [number] * width, reply)

    def _judge(self, model: str, data: list[float], reply: Reply | None) -> None:
        if reply is None:
            self._count(model, "given up")
        elif reply.status == _OK:
            fault = _wrong(model, data, reply)
            self._count(model, "wrong" if fault else "answered", fault)
        elif reply.status == _UNAVAILABLE and model in _KILLED:
            error = reply.error()
            fault = "" if "worker process" in error else f"503 that does not say why: {error}"
            self._count(model, "refused", fault)
        else:
            self._count(model, "failed", f"{reply.status}: {reply.error()}")

    def _count(self, model: str, outcome: str, fault: str = "") -> None:
        self._result.outcomes[f"{model}: {outcome}"] += 1
        if fault:
            self._result.faults.append(f"{model}: {fault}")

    async def _kill(self) -> None:
        while True:
            await asyncio.sleep(self._plan.kill_every_s)
            workers = census.workers(self._pid)
            if workers:
                with contextlib.suppress(Exception):
                    self._random.choice(workers).kill()
                    self._result.kills += 1

    async def _reload(self) -> None:
        connection = Connection(self._port)
        try:
            while True:
                await asyncio.sleep(self._plan.reload_every_s)
                model = self._random.choice(self._plan.models)
                repository.touch(self._models, model)
                reply = await connection.post(f"/v2/repository/models/{model}/load", b"")
                assert reply is not None, "no client disconnects here"
                if reply.status == _OK:
                    self._result.reloads += 1
                elif "worker process" not in reply.error():
                    self._count(model, "not reloaded", f"{reply.status}: {reply.error()}")
        finally:
            connection.drop()

    async def _quiet(self) -> None:
        """Workers that were killed are back, versions that were left are gone, and the server holds no more than at first."""
        before = self._result.before
        assert before is not None
        end = time.monotonic() + _QUIET_S
        try:
            await self._until_ready()
        except TimeoutError as error:
            self._result.faults.append(str(error))
        while True:
            after = self._result.after = census.take(self._pid)
            more = after.more_than(before)
            whole = (
                after.workers >= before.workers
            )  # one that was killed last may wait out its backoff
            if (whole and not more) or time.monotonic() > end:
                break
            await asyncio.sleep(0.2)
        self._result.faults += [f"left behind: {each}" for each in more]
        grown = after.resident - before.resident
        if grown > MOST_GROWN:
            self._result.faults.append(f"resident memory grew by {grown / 1e6:.1f} MB")
        if after.workers < before.workers:
            self._result.faults.append(f"{after.workers} workers of {before.workers} are there")

    async def _until_ready(self) -> None:
        """A reload gives a model whose workers wait out their backoff new ones at once.

        Raises:
            TimeoutError: it was not ready in time.
        """
        connection = Connection(self._port)
        end = time.monotonic() + _QUIET_S
        for model in self._plan.models:
            repository.touch(self._models, model)
            while True:
                await connection.post(f"/v2/repository/models/{model}/load", b"")
                reply = await connection.post(_path(model), _body(model, 1.0))
                if reply is not None and reply.status == _OK:
                    break
                if time.monotonic() > end:
                    raise TimeoutError(f"{model} does not come back within {_QUIET_S:g} s")
                await asyncio.sleep(0.2)
        connection.drop()


_KILLED = frozenset({repository.PROCESS, repository.HANGS, repository.STREAM})


def _path(model: str) -> str:
    verb = "generate_stream" if model == repository.STREAM else "infer"
    return f"/v2/models/{model}/{verb}"


def _body(model: str, number: float, width: int = _NARROW) -> bytes:
    if model == repository.STREAM:
        return json.dumps({"x": number}).encode()
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, width], "data": [number] * width}
    return json.dumps({"inputs": [tensor]}).encode()


def _wrong(model: str, wanted: list[float], reply: Reply) -> str:
    """What is wrong about an answer; nothing where it is what was asked for."""
    if model != repository.STREAM:
        data = reply.json()["outputs"][0]["data"]
        return "" if data == wanted else f"asked for {wanted[:4]}, got {data[:4]} ({len(data)})"
    events = [line[6:] for line in reply.body.decode().split("\n") if line.startswith("data: ")]
    found = [json.loads(event) for event in events]
    if any("error" in event for event in found):
        # The status went out with the first answer: a worker killed in the middle shows in the last one.
        text = str(found[-1].get("error", ""))
        return "" if "worker process" in text else f"an error that does not say why: {text}"
    values = [event["y"] for event in found]
    wanted = wanted[:1] * repository.STREAMED
    return "" if values == wanted else f"asked for {wanted}, got {values}"
