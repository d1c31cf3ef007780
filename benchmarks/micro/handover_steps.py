"""Where the time of a hand-over to a worker process goes: each step of both sides in one process, the least of many turns.

The least, because it is the same on a busy machine. Wake-ups and switches between the processes are not in it (`process_handover`), nor what the
loop does before and after (`grpc_profile`, `loop_profile`). `python -m benchmarks.micro.handover_steps`; with another checkout in PYTHONPATH
it measures that one.
"""

import collections.abc
import gc
import pathlib
import socket
import time
import typing

import numpy as np

from naiad.backends.python.api import triton_python_backend_utils as pb_utils
from naiad.backends.python.api.context import Running
from naiad.backends.python.instance import PythonInstance
from naiad.config.model_config import ModelConfig
from naiad.config.typed import typed
from naiad.core import datatypes
from naiad.core.inference import Inference
from naiad.core.messages import model_config_pb2
from naiad.core.request import LATEST, InferRequest
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.hosts.link import codec, kinds
from naiad.hosts.link.link import Link
from naiad.hosts.packing import pack
from naiad.hosts.unpacking import ResponseReader
from naiad.hosts.worker.requests import RequestReader

_BATCHES = (1, 16, 64)
_TURNS = 3_000
_US = 1e3

Steps = dict[str, float]
"""Microseconds by step."""


class _Model:
    """The identity model of the benchmarks beside Triton."""

    def execute(self, requests: list[typing.Any]) -> list[typing.Any]:
        responses = []
        for request in requests:
            tensor: typing.Any = pb_utils.get_input_tensor_by_name(request, "IN")
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", tensor.as_numpy())]))  # fmt: skip
        return responses


def _config() -> ModelConfig:
    message = model_config_pb2.ModelConfig(name="echo", backend="python", max_batch_size=64)
    for kind, name in ((message.input, "IN"), (message.output, "OUT")):
        kind.add(name=name, dims=[4], data_type=model_config_pb2.TYPE_FP32)
    return typed(message)


def _batch(count: int, *, changing: bool) -> list[Inference]:
    """Requests as clients send them; changing ones have an id and two parameters."""
    found: list[Inference] = []
    for number in range(count):
        values = np.full((1, 4), number, np.float32)
        request = InferRequest(
            "echo", LATEST, f"{number:012d}" if changing else "", [Tensor("IN", datatypes.FP32, values.shape, values)], [],
            {"tenant": f"tenant-{number}", "score": number / 7} if changing else {},
        )  # fmt: skip
        found.append(Inference(request, _ignore, batch_size=1, received_ns=0))
    return found


def _ignore(response: InferResponse) -> None:
    """What comes back is not sent."""


def measure(count: int, *, changing: bool, turns: int = _TURNS) -> Steps:
    """The steps of a batch of so many requests."""
    batch = _batch(count, changing=changing)
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server, worker = Link(ours), Link(its, takes_files=True)
    running = Running(model="echo", instance="echo_0", directory="")
    instance = PythonInstance(
        _Model(), running=running, folder=pathlib.Path(), outputs=frozenset(["OUT"]), max_batch_size=64, decoupled=False,
        now_ns=time.monotonic_ns,
    )  # fmt: skip
    requests, answers = RequestReader(), ResponseReader(_config(), 1)
    least: dict[str, int] = {}

    def timed(step: str, call: collections.abc.Callable[..., typing.Any], *given: typing.Any) -> typing.Any:  # fmt: skip
        started = time.perf_counter_ns()
        result = call(*given)
        took = time.perf_counter_ns() - started
        least[step] = min(took, least.get(step, took))
        return result

    gc.disable()
    try:
        for _ in range(turns):
            header, payload = timed("server: pack", pack, batch)
            timed("server: send", server.send, kinds.BATCH, header, payload, 0)
            _, number, header = timed("worker: receive", worker.receive)
            received = timed("worker: read", requests.read, worker.base, header, number)
            execution = timed("worker: model and its API", instance.execute, received)
            answer, outputs = timed("worker: write", codec.write_outcome, execution)
            timed("worker: send", worker.send, kinds.OUTCOME, answer, outputs)
            _, _, header = timed("server: receive", server.receive)
            timed("server: read", answers.outcome, server.base, header, batch)
            del received, execution
    finally:
        gc.enable()
        server.close()
        worker.close()
    return {step: took / _US for step, took in least.items()}


def table(found: collections.abc.Mapping[tuple[int, bool], Steps]) -> str:
    """As Markdown: microseconds per batch."""
    heads = [f"{count}{', changing' if changing else ''}" for count, changing in found]
    lines = [f"| requests in the batch | {' | '.join(heads)} |", f"|---{'|---' * len(heads)}|"]
    columns = list(found.values())
    lines += [
        f"| {step} | {' | '.join(f'{column[step]:.1f}' for column in columns)} |"
        for step in columns[0]
    ]
    sums = " | ".join(f"**{sum(column.values()):.1f}**" for column in columns)
    return "\n".join((*lines, f"| **together, µs per batch** | {sums} |"))


if __name__ == "__main__":
    print(table({(count, changing): measure(count, changing=changing) for changing in (False, True) for count in _BATCHES}))  # fmt: skip
