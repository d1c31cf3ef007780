"""Starts a server on fresh models, soaks it, stops it, and looks whether it went with all that it had started."""

import asyncio
import collections.abc
import json
import pathlib

from tests.reference.process import ServerProcess, naiad_program
from tests.soak import census, repository
from tests.soak.plan import Plan, Result
from tests.soak.soak import Soak
from tests.soak.tenants import Tenants


def stalls(log: str) -> list[tuple[float, str]]:
    """`Result.stalls`, by the server's log."""
    lines = [line for line in log.splitlines() if '"own_ms"' in line]
    return [(float(json.loads(line)["own_ms"]), line) for line in lines]


def run(
    folder: pathlib.Path, plan: Plan, *, progress: collections.abc.Callable[[str], None]
) -> Result:
    """What came of it. Models and the server's log (`log`) are written into the folder."""
    models = repository.make(folder / "models")
    options = ["--model-control-mode=explicit", "--log-format=json", *repository.OPTIONS]
    with ServerProcess(naiad_program(), [models], log=folder / "log", options=options) as server:
        assert server.process is not None
        result = asyncio.run(Soak(server, models, plan, progress=progress).run())
        tenants = Tenants(server, models, plan.tenants, progress=progress)
        result.faults += asyncio.run(tenants.run())
        workers = census.workers(server.process.pid)
        status = server.stop()
    result.stalls = stalls(server.output())
    if status:
        result.faults.append(f"the server exited with {status}")
    left = [worker.pid for worker in workers if worker.is_running()]
    result.faults += [f"process {pid} outlived the server" for pid in left]
    return result
