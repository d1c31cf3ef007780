"""Ever new names: models that are loaded, asked once and unloaded again, and what the server keeps of them, which should be nothing.

At any time only a few of them are in the repository, as where a tenant's model is brought when it is wanted.
"""

import asyncio
import collections.abc
import dataclasses
import pathlib
import shutil

from tests.reference.process import ServerProcess
from tests.soak import census, repository
from tests.soak.connection import Connection

MOST_GROWN_EACH = 500
"""Bytes of the server for each name. It keeps the states of the last thousand, and an allocator's rest."""

MOST_GROWN = 8_000_000
"""Bytes besides: the last thousand states, and what the allocator keeps."""

_AT_ONCE = 8
_NAMES_SHOWN = 1000
_WARM = 200
_POOLED_THREADS = 16
_BODY = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[1,2]}]}'
_OK = 200


class Tenants:
    """A run of so many names.

    Args:
        server: it serves `models`, with explicit model control.
        models: the folder of its models, with those of `repository.make`.
        count: how many names.
        progress: called now and then with how far it is, in words.
    """

    def __init__(
        self,
        server: ServerProcess,
        models: pathlib.Path,
        count: int,
        *,
        progress: collections.abc.Callable[[str], None],
    ) -> None:
        assert server.process is not None
        self._pid = server.process.pid
        self._port = server.ports.http
        self._models = models
        self._count = count
        self._progress = progress
        self._faults: list[str] = []
        self._done = 0

    async def run(self) -> list[str]:
        """What should not have been, in words."""
        if not self._count:
            return []
        warm = min(_WARM, self._count)
        await self._come_and_go(range(warm))
        before = census.take(self._pid)
        self._done = 0
        await self._come_and_go(range(warm, warm + self._count))
        after = census.take(self._pid)
        grown = after.resident - before.resident
        if grown > MOST_GROWN + MOST_GROWN_EACH * self._count:
            self._faults.append(
                f"resident memory grew by {grown / 1e6:.1f} MB over {self._count} model names"
            )
        # Pools start their threads when work comes at the same time.
        settled = dataclasses.replace(before, threads=before.threads + _POOLED_THREADS)
        self._faults += [
            f"left behind by {self._count} model names: {each}" for each in after.more_than(settled)
        ]
        return self._faults[:20]

    async def _come_and_go(self, numbers: collections.abc.Iterable[int]) -> None:
        names = iter(f"tenant_{number}" for number in numbers)
        await asyncio.gather(*(self._client(names) for _ in range(_AT_ONCE)))

    async def _client(self, names: collections.abc.Iterator[str]) -> None:
        connection = Connection(self._port)
        for name in names:
            folder = self._models / name
            shutil.copytree(self._models / repository.ONNX, folder)
            await self._post(connection, f"/v2/repository/models/{name}/load")
            await self._post(connection, f"/v2/models/{name}/infer", _BODY)
            await self._post(connection, f"/v2/repository/models/{name}/unload")
            shutil.rmtree(folder)
            self._done += 1
            if self._done % _NAMES_SHOWN == 0:
                self._progress(f"{self._done} of {self._count} model names")
        connection.drop()

    async def _post(self, connection: Connection, path: str, body: bytes = b"") -> None:
        reply = await connection.post(path, body)
        assert reply is not None, "no client leaves here"
        if reply.status != _OK:
            self._faults.append(f"{path}: {reply.status}: {reply.error()}")
