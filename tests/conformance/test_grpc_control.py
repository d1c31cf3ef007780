"""gRPC apart from inference: health, metadata, config, statistics, index, and what is switched off (section 10)."""

import grpc
import pytest
from tritonclient.grpc import service_pb2 as pb

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.grpc_scenarios import rpc
from tests.conformance.scenarios.scenario import ABSENT, Scenario
from tests.conformance.scenarios.wire import Answer, Target


def _index(target: Target, *, ready: bool) -> Answer:
    reply = target.call("RepositoryIndex", pb.RepositoryIndexRequest(ready=ready))
    message = pb.RepositoryIndexResponse()
    message.ParseFromString(reply.body)
    models = {
        f"{model.name}/{model.version}": [model.state, model.reason]
        for model in message.models
        if not model.name.startswith("broken")
    }
    return {"code": reply.code, "error": reply.message, "models": models}


def _watch(target: Target) -> Answer:
    stream = target.channel().unary_stream(f"/{_HEALTH}/Watch")(b"", timeout=5)
    try:
        for _ in stream:
            return {"code": "OK"}
    except grpc.RpcError as error:
        return {"code": error.code().name}
    return {"code": "ended"}


_HEALTH = "grpc.health.v1.Health"


SCENARIOS = [
    rpc(
        "gRPC live",
        "10.2 10.4",
        "ServerLive",
        pb.ServerLiveRequest(),
        pb.ServerLiveResponse,
        expect={"message.live": True},
    ),
    rpc("gRPC not ready", "10.4", "ServerReady", pb.ServerReadyRequest(), pb.ServerReadyResponse),
    rpc(
        "gRPC model ready",
        "10.4",
        "ModelReady",
        pb.ModelReadyRequest(name="identity"),
        pb.ModelReadyResponse,
        expect={"message.ready": True},
    ),
    rpc(
        "gRPC ready of an unknown model",
        "10.4",
        "ModelReady",
        pb.ModelReadyRequest(name="nope"),
        pb.ModelReadyResponse,
    ),
    rpc(
        "gRPC ready of an absent version",
        "10.4",
        "ModelReady",
        pb.ModelReadyRequest(name="identity", version="9"),
        pb.ModelReadyResponse,
    ),
    rpc(
        "gRPC ready of a version that is not a number",
        "10.4 10.8",
        "ModelReady",
        pb.ModelReadyRequest(name="identity", version="x"),
        pb.ModelReadyResponse,
        code="INVALID_ARGUMENT",
        says="failed to get model version from specified version string 'x'",
    ),
    rpc(
        "gRPC server metadata",
        "10.2",
        "ServerMetadata",
        pb.ServerMetadataRequest(),
        pb.ServerMetadataResponse,
        mask=("message.version", "message.extensions*"),
        expect={"message.name": "triton"},
    ),
    rpc(
        "gRPC metadata",
        "10.2",
        "ModelMetadata",
        pb.ModelMetadataRequest(name="batched"),
        pb.ModelMetadataResponse,
    ),
    rpc(
        "gRPC metadata of a version",
        "10.2",
        "ModelMetadata",
        pb.ModelMetadataRequest(name="versions_all", version="1"),
        pb.ModelMetadataResponse,
    ),
    rpc(
        "gRPC metadata of an unknown model",
        "10.6 2.8",
        "ModelMetadata",
        pb.ModelMetadataRequest(name="nope"),
        code="NOT_FOUND",
        says="Request for unknown model: 'nope' is not found",
    ),
    rpc(
        "gRPC version that is not a number",
        "10.8",
        "ModelMetadata",
        pb.ModelMetadataRequest(name="identity", version="x"),
        code="INVALID_ARGUMENT",
        says="failed to get model version",
    ),
    rpc(
        "gRPC config",
        "10.2 2.19",
        "ModelConfig",
        pb.ModelConfigRequest(name="config_mixed"),
        pb.ModelConfigResponse,
    ),
    rpc(
        "gRPC config of a plain model",
        "10.2 2.19 2.21",
        "ModelConfig",
        pb.ModelConfigRequest(name="identity"),
        pb.ModelConfigResponse,
    ),
    rpc(
        "gRPC statistics",
        "10.2 8.1 8.2",
        "ModelStatistics",
        pb.ModelStatisticsRequest(name="finalizing"),
        pb.ModelStatisticsResponse,
        mask=("*memory_usage*",),
    ),
    rpc(
        "gRPC statistics of an unknown model",
        "8.8 10.6",
        "ModelStatistics",
        pb.ModelStatisticsRequest(name="nope"),
        code="INVALID_ARGUMENT",
        says="requested model 'nope' is not available",
    ),
    rpc(
        "gRPC index of a repository by name",
        "7.7",
        "RepositoryIndex",
        pb.RepositoryIndexRequest(repository_name="x"),
        code="UNIMPLEMENTED",
        says="'repository_name' specification is not supported",
    ),
    Scenario(
        "gRPC index",
        ("10.2", "7.2"),
        lambda target: _index(target, ready=False),
        expect={
            "code": "OK",
            "models.identity/1.0": "READY",
            "models.duplicated/.0": "UNAVAILABLE",
        },
    ),
    Scenario(
        "gRPC index of what is ready",
        ("7.3", "10.2"),
        lambda target: _index(target, ready=True),
        expect={"code": "OK", "models.identity/1.0": "READY", "models.duplicated/.0": ABSENT},
    ),
    rpc(
        "gRPC load in control mode none",
        "7.29 7.13",
        "RepositoryModelLoad",
        pb.RepositoryModelLoadRequest(model_name="identity"),
        code="UNAVAILABLE",
        says="explicit model load / unload is not allowed if polling is enabled",
    ),
    rpc(
        "gRPC unload in control mode none",
        "7.29 7.13",
        "RepositoryModelUnload",
        pb.RepositoryModelUnloadRequest(model_name="identity"),
        code="UNAVAILABLE",
        says="explicit model load / unload is not allowed if polling is enabled",
    ),
    rpc(
        "gRPC shared memory is empty",
        "5.7",
        "SystemSharedMemoryStatus",
        pb.SystemSharedMemoryStatusRequest(),
        pb.SystemSharedMemoryStatusResponse,
    ),
    rpc(
        "gRPC shared memory is switched off",
        "5.7",
        "SystemSharedMemoryRegister",
        pb.SystemSharedMemoryRegisterRequest(name="a", key="/a", byte_size=8),
        code="UNIMPLEMENTED",
        says="Client shared memory is disabled",
    ),
    rpc("health check of a server that is not ready", "10.3 10.1", "Check", b"", service=_HEALTH),
    rpc("health check", "10.3", "Check", b"\n\x08whatever", service=_HEALTH, server="optioned"),
    Scenario(
        "health check's status",
        ("10.3",),
        lambda target: {"status": target.call("Check", b"", service=_HEALTH).body.hex()},
        expect={"status": "0801"},
        server="optioned",
    ),
    Scenario(
        "health check's status when not ready",
        ("10.3",),
        lambda target: {"status": target.call("Check", b"", service=_HEALTH).body.hex()},
        expect={"status": "0802"},
    ),
    Scenario("health watch", ("10.3",), _watch, expect={"code": "UNIMPLEMENTED"}),
    rpc(
        "no reflection",
        "10.1",
        "ServerReflectionInfo",
        b"",
        service="grpc.reflection.v1alpha.ServerReflection",
        code="UNIMPLEMENTED",
    ),
    rpc("a method that does not exist", "10.1", "Nope", b"", code="UNIMPLEMENTED"),
    rpc(
        "bytes that are not a message",
        "10.6",
        "ModelInfer",
        b"\xff\xff\xff",
        code="INTERNAL",
        says="Unable to parse request",
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_grpc_control_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
