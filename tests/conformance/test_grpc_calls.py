"""gRPC around the messages: codes of models' errors, metadata, restriction, compression, size, TLS, cancel, deadline."""

import threading
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2 as pb

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.grpc_scenarios import inference, request, rpc
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.wire import FOUR, Answer, Target, strings
from tests.conformance.test_python_backend import GRPC_CODES
from tests.support import http2


def _mode(mode: str) -> Any:
    return request(
        "misbehave", raw=strings(mode.encode()), name="MODE", datatype="BYTES", shape=(1,)
    )


def _forwarded(target: Target, *metadata: tuple[str, str]) -> Answer:
    message = request("report", raw=b"\0\0\0\0", name="DELAY_MS", datatype="INT32", shape=(1,))
    answer = target.call("ModelInfer", message, metadata=metadata).report()
    return {"parameters": answer["report"]["parameters"]} if "report" in answer else answer


def _compressed(target: Target) -> Answer:
    return target.call("ModelInfer", request(), compression=grpc.Compression.Gzip).answer(
        pb.ModelInferResponse
    )


def _large(target: Target) -> Answer:
    """More than gRPC's own default of 4 MiB, both ways."""
    count = 1_500_000
    message = request("matrix", raw=bytes(count * 8), shape=(count, 2))
    reply = target.call("ModelInfer", message)
    return {
        "code": reply.code,
        "size": len(reply.body) > 4 * 2**20 if reply.code == "OK" else reply.message,
    }


def _slow(target: Target, **how: Any) -> tuple[grpc.Future, float]:
    message = request(
        "report", raw=(600).to_bytes(4, "little"), name="DELAY_MS", datatype="INT32", shape=(1,)
    )
    call = target.channel().unary_unary("/inference.GRPCInferenceService/ModelInfer")
    return call.future(message.SerializeToString(), **how), time.monotonic()


def _deadline(target: Target) -> Answer:
    future, _ = _slow(target, timeout=0.15)
    return {"code": future.code().name}


def _cancelled(target: Target) -> Answer:
    future, _ = _slow(target, timeout=10)
    threading.Timer(0.1, future.cancel).start()
    return {"code": future.code().name, "alive": target.call("ServerLive", b"").code}


def _tls(target: Target) -> Answer:
    certificate = (_TLS / "server.pem").read_bytes()
    with grpc.secure_channel(
        target.process.grpc,
        grpc.ssl_channel_credentials(certificate),
        options=[("grpc.ssl_target_name_override", "localhost")],
    ) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        message = pb.ModelInferResponse.FromString(call(request().SerializeToString(), timeout=10))
    plain = target.call("ServerLive", b"", timeout_s=5)
    return {
        "outputs": len(message.outputs),
        "raw": message.raw_output_contents[0].hex(),
        "plain": plain.code,
    }


def _pings(target: Target) -> Answer:
    """A client that pings far below the allowed interval gets GOAWAY with the reason (10.38).

    In HTTP/2 by hand: grpcio's channel would receive it as well, but connects again before its state can be read.
    """
    _, _, port = target.process.grpc.rpartition(":")
    pings = http2.frame(http2.PING, 0, 0, bytes(8)) * 10
    said = target.raw(http2.PREFACE + pings, port=int(port))
    return {"told to go away": b"too_many_pings" in said}


_TLS = Path(__file__).parent / "tls"


MODELS = [
    inference(
        f"gRPC TritonError {name}",
        "10.6 15.15",
        _mode(f"code:{name}"),
        code=code,
        says=f"told to fail with {name}",
    )
    for name, code in GRPC_CODES.items()
] + [
    inference(
        "gRPC execute raises",
        "10.6 15.7",
        _mode("raise"),
        code="INTERNAL",
        says="Failed to process the request(s) for model",
    ),
    inference(
        "gRPC response parameters",
        "10.23",
        _mode("parameters"),
        expect={
            "message.parameters.flag.bool_param": True,
            "message.parameters.count.int64_param": "7",
            "message.parameters.text.string_param": "héllo",
        },
    ),
]

MODELS += [
    Scenario(
        "ModelInfer to a decoupled model",
        ("10.9",),
        lambda target: target.call("ModelInfer", request("decoupled")).answer(),
        says="ModelInfer RPC doesn't support models with decoupled transaction policy",
        expect={"code": "UNIMPLEMENTED"},
    ),
]

_OPEN = (("triton-grpc-protocol-secret", "open"),)
_WRONG = (("triton-grpc-protocol-secret", "shut"),)
_RESTRICTED = "This protocol is restricted, expecting header"
METADATA = [
    inference(
        "gRPC restricted without the header",
        "10.35 17.15",
        request(),
        server="restricted",
        code="UNAVAILABLE",
        says=_RESTRICTED,
    ),
    inference(
        "gRPC restricted with a wrong value",
        "10.35",
        request(),
        server="restricted",
        code="UNAVAILABLE",
        says=_RESTRICTED,
        metadata=_WRONG,
    ),
    inference(
        "gRPC restricted with the header", "10.35", request(), server="restricted", metadata=_OPEN
    ),
    rpc(
        "gRPC restricted metadata",
        "10.35",
        "ServerMetadata",
        pb.ServerMetadataRequest(),
        server="restricted",
        code="UNAVAILABLE",
        says=_RESTRICTED,
    ),
    rpc(
        "gRPC of a category that is open",
        "10.35",
        "ModelConfig",
        pb.ModelConfigRequest(name="identity"),
        server="restricted",
    ),
    Scenario(
        "metadata becomes parameters",
        ("10.21",),
        lambda target: _forwarded(target, ("x-trace", "7"), ("other", "8")),
        server="optioned",
    ),
    Scenario(
        "a metadata pattern that minds the case",
        ("10.21",),
        lambda target: _forwarded(target, ("y-case-one", "1"), ("my-x-key", "2")),
        server="optioned",
    ),
    Scenario(
        "forwarded metadata with a reserved name",
        ("10.21", "1.18"),
        lambda target: _forwarded(target, ("priority", "1")),
        server="optioned",
        expect={"code": "INVALID_ARGUMENT"},
        says="reserved",
    ),
]


CALLS = [
    Scenario("gRPC request compression", ("10.36",), _compressed, expect={"code": "OK"}),
    inference("gRPC response compression", "10.36", request(), server="optioned"),
    Scenario("gRPC message above 4 MiB", ("10.7",), _large, expect={"code": "OK", "size": True}),
    Scenario("gRPC deadline", ("10.24",), _deadline, expect={"code": "DEADLINE_EXCEEDED"}),
    Scenario("gRPC cancel", ("10.24",), _cancelled, expect={"code": "CANCELLED", "alive": "OK"}),
    Scenario(
        "gRPC with TLS",
        ("10.37",),
        _tls,
        expect={"outputs": 1, "raw": FOUR.hex(), "plain": "UNAVAILABLE"},
        server="secure",
    ),
    Scenario("gRPC pings too often", ("10.38",), _pings, expect={"told to go away": True}),
    inference("gRPC with a connection age", "10.39", request(), server="optioned"),
]

SCENARIOS = [*MODELS, *METADATA, *CALLS]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_grpc_calls_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
