"""Starts a server on fresh models, soaks it, stops it, and looks whether it went with all that it had started."""

import asyncio
import collections.abc
import pathlib

from tests.reference.process import ServerProcess, naiad_program
from tests.soak import census, repository
from tests.soak.soak import Plan, Result, Soak


def run(
    folder: pathlib.Path, plan: Plan, *, progress: collections.abc.Callable[[int], None]
) -> Result:
    """What came of it. Models and the server's log (`log`) are written into the folder."""
    models = repository.make(folder / "models")
    options = ["--model-control-mode=explicit"]
    with ServerProcess(naiad_program(), [models], log=folder / "log", options=options) as server:
        assert server.process is not None
        result = asyncio.run(Soak(server, models, plan, progress=progress).run())
        workers = census.workers(server.process.pid)
        status = server.stop()
    if status:
        result.faults.append(f"the server exited with {status}")
    left = [worker.pid for worker in workers if worker.is_running()]
    result.faults += [f"process {pid} outlived the server" for pid in left]
    return result
