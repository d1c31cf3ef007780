"""Load on a model without a wire: clients that call the engine's model directly, each with its next request when it has its response."""

import asyncio
import collections.abc
import time

from naiad.backends.registry import Registry
from naiad.core.clock import SystemClock
from naiad.core.request import LATEST, InferRequest
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.engine.bls.model_calls import ModelCalls
from naiad.engine.loader import Loader
from naiad.engine.model import Model
from naiad.hosts.host import ClosedRpcHandler
from naiad.scheduling.factory import SchedulerFactory
from naiad.scheduling.instances.resources import UnlimitedResources


def make_loader(
    options: collections.abc.Mapping[str, str], *, gpus: tuple[int, ...] = ()
) -> Loader:
    """A loader of ONNX models with these `--backend-config` settings, on these GPUs."""
    clock = SystemClock()
    return Loader(
        registry=Registry(clock=clock),
        backend_options={"onnxruntime": options},
        config_name="",
        auto_complete=True,
        gpus=gpus,
        threads=1,
        make_scheduler=SchedulerFactory(resources=UnlimitedResources(), clock=clock),
        submit=ModelCalls(clock=clock).submit,
        rpc_handler_of=lambda _model, _instance: ClosedRpcHandler(),
        clock=clock,
    )


async def rate(model: Model, tensor: Tensor, *, clients: int, seconds: float) -> float:
    """Requests per second of so many clients."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    count, left = 0, clients
    began = time.perf_counter()

    def send() -> None:
        model.infer(InferRequest(model.config.name, LATEST, "", [tensor], [], {}), answered)

    def answered(response: InferResponse) -> None:
        nonlocal count, left
        if response.error is not None:
            raise response.error
        count += 1
        if time.perf_counter() - began < seconds:
            loop.call_soon(send)
            return
        left -= 1
        if not left:
            done.set_result(None)

    for _ in range(clients):
        send()
    await done
    return count / (time.perf_counter() - began)
