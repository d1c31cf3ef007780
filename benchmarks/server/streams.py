"""Many small answers to one request: responses per second, beside Triton's, over server-sent events and gRPC streams.

One request is 1,000 responses of one number each; `wrk` and `h2load` read them without looking into them, so that the client costs little.
`python -m benchmarks.server.streams` measures this alone and writes nothing.
"""

import argparse
import collections
import collections.abc
import contextlib
import dataclasses
import http.client
import json
import pathlib
import statistics
import sys
import tempfile

from benchmarks.load import HttpRequest, LoadError, h2load, require_tools, wrk
from naiad.core.messages import service_pb2
from tests.reference.install import install
from tests.reference.process import (
    ServerProcess,
    grpcio_program,
    naiad_program,
    reference_program,
)

ANSWERS = 1_000
STREAM_INFER = "/inference.GRPCInferenceService/ModelStreamInfer"
EVENTS, GRPC, GRPCIO = "HTTP generate_stream", "gRPC stream", "gRPC stream, grpcio"
CONNECTIONS = (1, 4)
"""Streams at once; more of so many responses would not end within a measurement."""

_MODEL = """\
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            count = pb_utils.get_input_tensor_by_name(request, "COUNT").as_numpy()[0]
            for number in range(count):
                tensor = pb_utils.Tensor("NUMBER", np.array([number], np.int32))
                sender.send(pb_utils.InferenceResponse([tensor]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""

_CONFIG = """\
backend: "python"
model_transaction_policy { decoupled: true }
input { name: "COUNT" data_type: TYPE_INT32 dims: 1 }
output { name: "NUMBER" data_type: TYPE_INT32 dims: 1 }
instance_group { kind: KIND_CPU count: 1 }
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StreamRow:
    """Medians of one combination, in responses per second.

    Attributes:
        wire: EVENTS or GRPC.
        connections: how many streams at once.
    """

    wire: str
    connections: int
    ours: float
    theirs: float


def counting_model(repository: pathlib.Path) -> None:
    """`counting`: answers as often as it is asked to."""
    version = repository / "counting" / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(_MODEL)
    (version.parent / "config.pbtxt").write_text(_CONFIG)


def measure(
    servers: collections.abc.Sequence[tuple[str, ServerProcess]],
    *,
    rounds: int,
    seconds: float,
    wires: tuple[str, ...] = (EVENTS, GRPC),
) -> list[StreamRow]:
    """Interleaved rounds; `servers` are those called "naiad" and "triton".

    Raises:
        LoadError: an answer was wrong.
    """
    rates: dict[tuple[str, int, str], list[float]] = collections.defaultdict(list)
    for turn in range(rounds):
        for wire in wires:
            for connections in CONNECTIONS:
                for name, server in servers if turn % 2 == 0 else servers[::-1]:
                    _check(server)
                    rate = ANSWERS * _requests_per_second(server, wire, connections, seconds)
                    rates[wire, connections, name].append(rate)
                    print(
                        f"round {turn + 1}  {wire:<20} {connections:>2}  {name:<6} {rate:>11,.0f} responses/s",
                        flush=True,
                    )
    return [
        StreamRow(
            wire=wire,
            connections=connections,
            ours=statistics.median(rates[wire, connections, "naiad"]),
            theirs=statistics.median(rates[wire, connections, "triton"]),
        )
        for wire in wires
        for connections in CONNECTIONS
    ]


def table(rows: collections.abc.Sequence[StreamRow]) -> str:
    """A Markdown table."""
    lines = [
        "| wire | streams at once | Naiad responses/s | Triton responses/s | ratio |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.wire} | {row.connections} | {row.ours:,.0f} | {row.theirs:,.0f} | **{row.ours / row.theirs:.2f}** |"
        for row in rows
    ]
    return "\n".join(lines)


def _requests_per_second(
    server: ServerProcess, wire: str, connections: int, seconds: float
) -> float:
    if wire != EVENTS:
        message = service_pb2.ModelInferRequest(model_name="counting")
        message.inputs.add(name="COUNT", datatype="INT32", shape=[1])
        message.raw_input_contents.append(ANSWERS.to_bytes(4, "little"))
        return h2load(
            address=server.grpc, path=STREAM_INFER, messages=[message.SerializeToString()], connections=connections, seconds=seconds,
        ).per_second  # fmt: skip
    request = HttpRequest(url=f"http://{server.http}{_PATH}", body=_BODY)
    return wrk(request, connections=connections, seconds=seconds).per_second


_PATH = "/v2/models/counting/generate_stream"
_BODY = json.dumps({"COUNT": ANSWERS}).encode()


def _check(server: ServerProcess) -> None:
    """All answers come, in order; neither tool of load looks. Comes back once what the load before left behind is done."""
    host, port = server.http.split(":")
    with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=30)) as connection:
        connection.request("POST", _PATH, _BODY)
        lines = connection.getresponse().read().splitlines()
    numbers = [json.loads(line[6:])["NUMBER"] for line in lines if line]
    if numbers != list(range(ANSWERS)):
        raise LoadError(f"{server.program.name} gave wrong answers to {_PATH}")


def main() -> int:
    """Measure this alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0)
    arguments = parser.parse_args()
    try:
        require_tools()
        with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as started:
            folder = pathlib.Path(name)
            counting_model(folder / "models")
            programs = (
                ("triton", reference_program(install())),
                ("naiad", naiad_program()),
                ("grpcio", grpcio_program()),
            )
            servers = [
                (
                    which,
                    started.enter_context(
                        ServerProcess(program, [folder / "models"], log=folder / f"{which}.log")
                    ),
                )
                for which, program in programs
            ]
            triton, naiad, (_, by_grpcio) = servers
            rows = [
                *measure((triton, naiad), rounds=arguments.rounds, seconds=arguments.seconds),
                *measure(
                    (triton, ("naiad", by_grpcio)),
                    rounds=arguments.rounds,
                    seconds=arguments.seconds,
                    wires=(GRPCIO,),
                ),
            ]
    except LoadError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print("\n" + table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
