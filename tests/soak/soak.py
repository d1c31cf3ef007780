"""The soak: clients ask without pause while workers are killed, models reloaded and requests given up.

What counts as right: a request gets its own answer, or a 503 that says so where a worker that it needed was killed or hung; models that need none
lose nothing at all, whatever is reloaded; and once it is quiet the server holds no more than before, and nothing waits, runs or keeps a slot.
"""

import asyncio
import collections.abc
import contextlib
import dataclasses
import pathlib
import random
import time
import typing

from tests.reference.process import ServerProcess
from tests.soak import census, repository
from tests.soak.connection import Connection
from tests.soak.plan import Ledger, Plan, Result
from tests.soak.visitor import HUNG_S, Visitor

MOST_GROWN = 12_000_000
"""Bytes that the server may have more than at first, however long it ran: allocators settle within 3 MB, and a leak of 100 bytes per request
passes this in 200,000."""

_QUIET_S = 60.0
_WARM_LOADS = 3
_POOLED_THREADS = 8
"""Pools, those of gRPC too, start threads when work comes at the same time; one per reload or kill would be more."""

_LATE_INSTANCES = sum(
    count - 1 for model, count in repository.INSTANCES.items() if model not in repository.WORKERS
)
"""Instances whose thread starts once two requests of their model run at the same time: before the soak that happens or not."""

_DESCRIPTORS_OF_THREAD = 2
"""Each such thread has a queue in each direction."""

_OK = 200


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
        self._grpc = server.grpc
        self._models = models
        self._plan = plan
        self._random = random.Random(plan.seed)
        self._result = Result()
        self._ledger = Ledger(plan.requests, self._result, progress=progress)

    async def run(self) -> Result:
        """Does it all; faults are in the result, not raised."""
        await self._warm_up()
        self._result.before = await self._before()
        start = time.monotonic()
        chaos = [asyncio.create_task(self._kill()), asyncio.create_task(self._reload())]
        await asyncio.gather(*(self._visitor(number).run() for number in range(self._plan.clients)))
        self._result.seconds = time.monotonic() - start
        for task in chaos:
            task.cancel()
        await asyncio.gather(*chaos, return_exceptions=True)
        await self._quiet()
        return self._result

    def _visitor(self, number: int, ledger: Ledger | None = None) -> Visitor:
        draw = random.Random(self._plan.seed * 1000 + number)
        return Visitor(
            http=self._port,
            grpc=self._grpc,
            plan=self._plan,
            ledger=ledger or self._ledger,
            draw=draw,
        )

    async def _ask_each(self, visitors: int) -> None:
        """Clients ask each model once by each protocol, beside the requests of the plan; what is wrong counts."""
        asked = Result()
        ledger = Ledger(0, asked, progress=_ignore)
        await asyncio.gather(
            *(self._visitor(number, ledger).ask_each() for number in range(visitors))
        )
        self._result.faults += asked.faults

    async def _warm_up(self) -> None:
        """Everything that the server keeps for good is there before it is counted: threads of its pools, segments of its workers."""
        for _ in range(_WARM_LOADS):
            connections = [Connection(self._port) for _ in self._plan.models]
            for model in self._plan.models:
                repository.touch(self._models, model)
            loads = [f"/v2/repository/models/{model}/load" for model in self._plan.models]
            await asyncio.gather(
                *(each.post(path, b"") for each, path in zip(connections, loads, strict=True))
            )
            for connection in connections:
                connection.drop()
        await self._ask_each(self._plan.clients)
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
                    self._ledger.count(model, "not reloaded", f"{reply.status}: {reply.error()}")
        finally:
            connection.drop()

    async def _quiet(self) -> None:
        """Workers that were killed are back, versions that were left are gone, and the server holds no more than at first."""
        before = self._result.before
        assert before is not None
        settled = dataclasses.replace(
            before,
            threads=before.threads + _POOLED_THREADS,
            descriptors=before.descriptors + _LATE_INSTANCES * _DESCRIPTORS_OF_THREAD,
        )
        await self._all_idle(time.monotonic() + _QUIET_S)
        try:
            await self._until_ready()
        except TimeoutError as error:
            self._result.faults.append(str(error))
        end = time.monotonic() + _QUIET_S
        while True:
            after = self._result.after = census.take(self._pid)
            more = after.more_than(settled)
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
        await self._all_idle(time.monotonic() + _QUIET_S, whole=True)

    async def _all_idle(self, end: float, *, whole: bool = False) -> None:
        """No request waits or runs, and no sequence has a slot; with `whole` every instance can run batches."""
        connection = Connection(self._port)
        for model in self._plan.models:
            while busy := await self._busy(connection, model, whole=whole):
                if time.monotonic() > end:
                    self._result.faults.append(f"{model}: it is quiet, and there is still {busy}")
                    break
                await asyncio.sleep(0.2)
        connection.drop()

    async def _busy(self, connection: Connection, model: str, *, whole: bool) -> str:
        """What a model still does or lacks; nothing of one that is idle."""
        reply = await connection.get(f"/v2/models/{model}/queue")
        if reply.status != _OK:
            return reply.error()
        state: dict[str, typing.Any] = reply.json()
        sequences = state.get("sequences", {})
        instances = state.get("instances", {})
        busy = {
            "pending": state["pending"],
            "waiting": state.get("waiting", 0),
            "instances busy": instances.get("busy", 0),
            **{name: sequences.get(name, 0) for name in ("open", "backlog", "slots_used")},
        }
        if whole and instances:
            wanted = repository.INSTANCES.get(model, 1)
            busy["instances missing"] = wanted - instances["usable"]
        return ", ".join(f"{name}: {count}" for name, count in busy.items() if count)

    async def _until_ready(self) -> None:
        """A reload gives a model whose workers wait out their backoff new ones at once. Models that share a resource can all have it.

        Raises:
            TimeoutError: it was not ready in time.
        """
        connection = Connection(self._port)
        end = time.monotonic() + _QUIET_S
        for model in self._plan.models:
            repository.touch(self._models, model)
            while True:
                async with asyncio.timeout(HUNG_S):
                    await connection.post(f"/v2/repository/models/{model}/load", b"")
                    reply = await connection.get(f"/v2/models/{model}/ready")
                if reply.status == _OK:
                    break
                if time.monotonic() > end:
                    raise TimeoutError(f"{model} does not come back within {_QUIET_S:g} s")
                await asyncio.sleep(0.2)
        connection.drop()
        await self._ask_each(2)


def _ignore(_: str) -> None:
    """Nothing is shown."""
