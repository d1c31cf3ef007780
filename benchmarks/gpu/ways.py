"""Where the time of one request goes: its parts by the statistics, what is outside of the server, and the same request to a model that computes nothing.

The model that computes nothing, on the CPU, is there twice, in a worker process and in a thread of the server: what its requests take is the share of the
wire, of the client and of the hand-over.
"""

import collections.abc
import functools
import pathlib
import statistics

from benchmarks.gpu.rows import Client, in_turns, row
from tests.gpu import repositories
from tests.gpu.bench import Bench
from tests.reference.process import ServerProcess

HOSTS = ("process", "thread")

_NOTHING = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.values = np.zeros((1, 8), np.float32)

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", self.values)]) for _ in requests]
"""
_CONFIG = """backend: "python"
max_batch_size: 32
input {{ name: "{name}" data_type: TYPE_{datatype} dims: {dims} }}
output {{ name: "Y" data_type: TYPE_FP32 dims: 8 }}
instance_group {{ kind: KIND_CPU count: 1 }}
parameters {{ key: "naiad.host" value {{ string_value: "{host}" }} }}
"""


def write(models: pathlib.Path, name: str, datatype: str, dims: tuple[int, ...]) -> None:
    """Write the models that compute nothing, for inputs of this kind."""
    for host in HOSTS:
        config = _CONFIG.format(name=name, datatype=datatype, dims=list(dims), host=host)
        repositories.model(models, f"nothing_{host}", config, "model.py", _NOTHING)


def show(
    bench: Bench,
    server: ServerProcess,
    what: str,
    asked: collections.abc.Mapping[str, Client],
    given: collections.abc.Callable[[Client], Client],
) -> None:
    """A row for each client of `asked`, and one for each model that computes nothing; `given` sets the request of a client of one of these.

    All take turns. Of a row, `outside` is what the client sees and the server does not, and `handed` what the server sees and none of the four parts has.
    """
    wires = {f"nothing in a {host}": given(Client(server, f"nothing_{host}")) for host in HOSTS}
    clients = {**asked, **wires}
    seen: dict[str, list[dict[str, float]]] = {each: [] for each in clients}

    def once(each: str) -> float:
        found = clients[each].parts(20)
        seen[each].append(found)
        return found["http"]

    for client in clients.values():
        client.times(10)
    in_turns(9, {each: functools.partial(once, each) for each in clients})
    for each, rounds in seen.items():
        ms = {part: statistics.median(found[part] for found in rounds) for part in rounds[0]}
        computed = sum(ms[part] for part in ms if part.startswith("compute_"))
        row(
            bench, f"{what}, {each}: where the time of a request goes", http_ms=ms["http"],
            outside_ms=ms["http"] - ms["success"], queue_ms=ms["queue"], input_ms=ms["compute_input"], infer_ms=ms["compute_infer"],
            output_ms=ms["compute_output"], handed_ms=ms["success"] - ms["queue"] - computed,
            least_ms=min(found["http"] for found in rounds), most_ms=max(found["http"] for found in rounds),
        )  # fmt: skip
