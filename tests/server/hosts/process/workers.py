"""Worker processes for tests: a model in a few lines, hosted in a process of its own, asked and answered."""

import asyncio
import collections.abc
import gc
import logging
import pathlib
from typing import Any

from naiad.backends.backend import ModelSource, WorkerPlan
from naiad.backends.instance import InstanceSpec
from naiad.backends.python.backend import PythonBackend
from naiad.config.model_config import InstanceKind, ModelConfig
from naiad.core import datatypes
from naiad.core.clock import SystemClock
from naiad.core.inference import Inference
from naiad.hosts.host import (
    EXECUTE,
    LOAD,
    BatchOutcome,
    ClosedRpcHandler,
    DeferredResponse,
    Limit,
    Limits,
    WorkerRpcHandler,
)
from naiad.hosts.process.process_host import ProcessHost
from naiad.hosts.process.worker_group import WorkerGroup
from naiad.hosts.warmup import Warmup
from naiad.metrics.statistics import RestartReason
from tests.server.backends.configs import inference, tensor, values
from tests.server.backends.python.models import python_config, write
from tests.support.waiting import TIMEOUT_S, until

GIVE_UP_S = TIMEOUT_S

HEAD = """
import os, signal, sys, threading, time
import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL

def response(*numbers):
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([numbers], np.float32))])

def same(requests):
    return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", each.inputs()[0].as_numpy())]) for each in requests]

class TritonPythonModel:
"""

SAME = """
def execute(self, requests):
    return same(requests)
"""


TO_THE_LAST = """
def execute(self, requests):
    for request in requests:
        sender = request.get_response_sender()
        for number in range(int(request.inputs()[0].as_numpy()[0, 0])):
            sender.send(response(number, 0))
        sender.send(flags=FINAL)
"""


WAITS_FOR_A_FILE = """
    def initialize(self, args):
        self.folder = args["model_repository"]

    def execute(self, requests):
        open(self.folder + "/begun", "w").close()
        while not os.path.exists(self.folder + "/go"):
            time.sleep(0.005)
        return same(requests)
"""


def model(folder: pathlib.Path, body: str) -> pathlib.Path:
    """Write a model whose class has this body."""
    lines = body.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    text = HEAD + "\n".join("    " + line[indent:] for line in lines) + "\n"
    return write(folder, {"1/model.py": text})


def plan(folder: pathlib.Path, config: ModelConfig, *, name: str = "m_0_0") -> WorkerPlan:
    """How its instance runs in a worker."""
    source = ModelSource(config=config, version=1, model_dir=folder, options={})
    spec = InstanceSpec(name=name, kind=InstanceKind.CPU, device_id=0)
    return PythonBackend(clock=SystemClock()).worker_plan(source, spec)


class Hosted:
    """A host, and everything that it told.

    Attributes:
        group: its instances.
        worker: supervises its process.
        hosts: one per instance.
        host: the first of them.
        usable: what the scheduler received, in order.
        answers: the deferred responses.
        restarts: why workers were replaced.
    """

    def __init__(
        self,
        worker_plan: WorkerPlan,
        config: ModelConfig,
        *,
        timeout_s: float,
        load_timeout_s: float = 0,
        rpc_handler: WorkerRpcHandler | None = None,
        warmup: Warmup | None = None,
    ) -> None:
        self.usable: list[bool] = []
        self.answers: list[DeferredResponse] = []
        self.restarts: list[RestartReason] = []
        self.group = WorkerGroup(
            "m",
            1,
            worker_plan,
            config=config,
            limits=Limits(execute=Limit(EXECUTE, timeout_s), load=Limit(LOAD, load_timeout_s)),
            on_restart=self.restarts.append,
            rpc_handler=rpc_handler or ClosedRpcHandler(),
            clock=SystemClock(),
            loop=asyncio.get_running_loop(),
            warmup=warmup,
        )
        self.worker, self.hosts = self.group.supervisor, self.group.hosts
        self.host = self.hosts[0]
        self.watch(*self.hosts)

    def watch(self, *hosts: ProcessHost) -> None:
        """Put down what hosts tell."""
        for host in hosts:
            host.watch(self.usable.append)
            host.deferred_to(self.answers.append)

    async def add(self, worker_plan: WorkerPlan) -> list[ProcessHost]:
        """Add instances to the process."""
        added = await asyncio.wait_for(self.group.add(worker_plan), GIVE_UP_S)
        self.watch(*added)
        self.hosts += added
        return added

    def submit(self, *batch: Inference, to: int = 0) -> "asyncio.Future[BatchOutcome]":
        """Hand over a batch to an instance."""
        came_back: asyncio.Future[BatchOutcome] = asyncio.get_running_loop().create_future()
        self.hosts[to].submit(list(batch) or [ask()], came_back.set_result)
        return came_back

    async def run(self, *batch: Inference) -> BatchOutcome:
        """A batch, to its end."""
        return await asyncio.wait_for(self.submit(*batch), GIVE_UP_S)


class Hosts:
    """Makes hosts, and closes them."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._made: list[Hosted] = []

    async def start(
        self,
        body: str,
        *,
        timeout_s: float = 0,
        load_timeout_s: float = 0,
        worker_plan: WorkerPlan | None = None,
        rpc_handler: WorkerRpcHandler | None = None,
        warmup: Warmup | None = None,
        **config: Any,
    ) -> Hosted:
        """A host whose worker has loaded a model."""
        made = self.make(
            body,
            timeout_s=timeout_s,
            load_timeout_s=load_timeout_s,
            worker_plan=worker_plan,
            rpc_handler=rpc_handler,
            warmup=warmup,
            **config,
        )
        await asyncio.wait_for(made.worker.start(), GIVE_UP_S)
        return made

    def make(
        self,
        body: str,
        *,
        timeout_s: float = 0,
        load_timeout_s: float = 0,
        worker_plan: WorkerPlan | None = None,
        rpc_handler: WorkerRpcHandler | None = None,
        warmup: Warmup | None = None,
        **config: Any,
    ) -> Hosted:
        """A host that has not started."""
        model(self._folder, body)
        of_model = python_config(**config)
        worker_plan = worker_plan or plan(self._folder, of_model)
        hosted = Hosted(
            worker_plan,
            of_model,
            timeout_s=timeout_s,
            load_timeout_s=load_timeout_s,
            rpc_handler=rpc_handler,
            warmup=warmup,
        )
        self._made.append(hosted)
        return hosted

    async def close(self) -> None:
        """Close them all."""
        for each in self._made:
            await asyncio.wait_for(each.worker.close(), GIVE_UP_S)


def ask(row: collections.abc.Sequence[Any] = (1, 2), **more: Any) -> Inference:
    """A request of one row."""
    return inference(tensor("IN", [row], datatypes.FP32), **more)


def exists(pid: int) -> bool:
    """Whether there is a process, a zombie not counted."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # also while it is read
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def open_descriptors() -> int:
    """How many this process has; not those of earlier tests' garbage, which go whenever it is collected."""
    gc.collect()
    return len(list(pathlib.Path("/proc/self/fd").iterdir()))


def lines(caplog: Any, logger: str) -> list[str]:
    """What a logger and those below it said."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith(logger) and record.levelno >= logging.INFO
    ]


def answers(outcome: BatchOutcome) -> list[dict[str, object]]:
    """What each request of a batch that went well got."""
    assert outcome.error is None, outcome.error
    assert outcome.execution is not None
    return [values(response) for response in outcome.execution.responses if response is not None]


def told(hosted: Hosted) -> list[Any]:
    """What came apart: the first value, "end", or the error's code; "!" behind what is final."""
    shown: list[Any] = []
    for answer in hosted.answers:
        response = answer.response
        if response.error is not None:
            what: Any = response.error.code.name
        elif response.empty:
            what = "end"
        else:
            what = values(response)["OUT"][0][0]
        shown.append(f"{what}!" if response.final else what)
    return shown


async def begun(folder: pathlib.Path) -> None:
    """Wait until a model that waits for a file has a batch."""
    await until((folder / "begun").exists)
