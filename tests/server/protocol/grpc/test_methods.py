"""Every RPC by its path, bytes to bytes, without a transport."""

import pathlib
import typing

import pytest

from naiad.core.clock import ManualClock
from naiad.core.messages import service_pb2
from naiad.engine.api import IndexEntry
from naiad.errors import unavailable
from naiad.protocol.grpc.call import Response, RpcStatus
from naiad.protocol.grpc.methods import CHECK, INFER, REFUSED, SERVICE, WATCH, Methods
from naiad.protocol.grpc.settings import CannotServeError, GrpcSettings
from naiad.protocol.restricted import Category, Restriction
from naiad.protocol.tokens import UNAUTHENTICATED, TokenFile
from tests.server.protocol.grpc.scripted_engine import (
    Answers,
    ScriptedEngine,
    SentMetadata,
    small_request,
)

SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"
"""HealthCheckResponse with its status."""

INVALID_ARGUMENT, NOT_FOUND, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 3, 5, 12, 13, 14


async def ask(
    methods: Methods, path: str, body: bytes = b"", *metadata: tuple[str, str | bytes]
) -> Response:
    refused = methods.admit(path, metadata)
    if refused is not None:
        return refused
    answers = Answers()
    task = methods.unary[path](body, SentMetadata(*metadata), answers)
    if task is not None:
        await typing.cast("typing.Awaitable[None]", task)
    (answer,) = answers.all
    return answer


async def call(methods: Methods, called: str, /, **fields: typing.Any) -> typing.Any:
    """The response message, or the refusal, of an RPC of the inference service."""
    rpc = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods_by_name[called]
    request = getattr(service_pb2, rpc.input_type.name)(**fields)
    answer = await ask(methods, SERVICE + called, request.SerializeToString())
    if isinstance(answer, RpcStatus):
        return answer
    return getattr(service_pb2, rpc.output_type.name).FromString(answer)


def served(engine: ScriptedEngine | None = None, **settings: typing.Any) -> Methods:
    return Methods(engine or ScriptedEngine(), GrpcSettings(**settings))


def test_every_rpc_of_the_service_is_there() -> None:
    rpcs = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods
    wanted = {SERVICE + rpc.name for rpc in rpcs} | {CHECK, WATCH}
    assert {*served().unary, *served().streaming, *REFUSED} == wanted


async def test_live_and_ready_are_answers_also_when_they_say_no() -> None:
    engine = ScriptedEngine()
    methods = served(engine)
    assert (await call(methods, "ServerLive")).live is True
    assert (await call(methods, "ServerReady")).ready is True
    assert (await call(methods, "ModelReady", name="m", version="3")).ready is True
    assert engine.asked == [("m", 3)]
    engine.ready = False
    engine.live = False
    assert (await call(methods, "ServerLive")).live is False
    assert (await call(methods, "ServerReady")).ready is False
    assert (await call(methods, "ModelReady", name="m")).ready is False


async def test_a_model_that_is_not_served_is_not_ready_and_no_error() -> None:
    engine = ScriptedEngine()
    methods = served(engine)
    assert (await call(methods, "ModelReady", name="nope")).ready is False
    engine.ready = unavailable("version 3 is not at ready state: it is LOADING")
    assert (await call(methods, "ModelReady", name="m", version="3")).ready is False


async def test_an_exiting_server_is_an_error() -> None:
    engine = ScriptedEngine()
    engine.live = engine.ready = unavailable("Server exiting")
    methods = served(engine)
    assert await call(methods, "ModelReady", name="m") == RpcStatus(UNAVAILABLE, "Server exiting")
    assert await call(methods, "ServerLive") == RpcStatus(UNAVAILABLE, "Server exiting")
    assert await call(methods, "ServerReady") == RpcStatus(UNAVAILABLE, "Server exiting")
    assert await ask(methods, CHECK) == RpcStatus(UNAVAILABLE, "Server exiting")


async def test_health_check_follows_readiness_and_ignores_the_service_name() -> None:
    engine = ScriptedEngine()
    methods = served(engine)
    assert await ask(methods, CHECK, b"\x0a\x07service") == SERVING
    engine.ready = False
    assert await ask(methods, CHECK) == NOT_SERVING


async def test_metadata_of_server_and_model() -> None:
    methods = served()
    server = await call(methods, "ServerMetadata")
    assert (server.name, server.version) == ("triton", "0.1.0")
    assert list(server.extensions) == ["statistics", "parameters"]
    model = await call(methods, "ModelMetadata", name="m")
    assert (model.name, list(model.versions), model.platform) == (
        "m",
        ["1", "3"],
        "onnxruntime_onnx",
    )
    (one_input,), (one_output,) = model.inputs, model.outputs
    assert (one_input.name, one_input.datatype, list(one_input.shape)) == ("IN", "FP32", [-1, 4])
    assert (one_output.name, one_output.datatype, list(one_output.shape)) == (
        "OUT",
        "BYTES",
        [-1, 1],
    )
    assert list((await call(methods, "ModelMetadata", name="m", version="3")).versions) == ["3"]


async def test_the_config_is_the_message_itself() -> None:
    found = await call(served(), "ModelConfig", name="m")
    assert (found.config.name, found.config.max_batch_size) == ("m", 8)


async def test_statistics_name_the_model_version() -> None:
    (found,) = (await call(served(), "ModelStatistics")).model_stats
    assert (found.name, found.version) == ("m", "2")


@pytest.mark.parametrize("name", ["ModelReady", "ModelMetadata", "ModelConfig", "ModelStatistics"])
async def test_a_version_that_is_not_a_number_is_refused(name: str) -> None:
    refused = await call(served(), name, name="m", version="x")
    assert refused.status == INVALID_ARGUMENT
    assert "specified version string 'x'" in refused.message


async def test_the_index_shows_what_is_known_of_each_version() -> None:
    engine = ScriptedEngine()
    engine.entries = [
        IndexEntry(name="a", version=1, state="READY"),
        IndexEntry(name="b", version=2, state="UNAVAILABLE", reason="broken"),
        IndexEntry(name="c"),
    ]
    methods = served(engine)
    found = (await call(methods, "RepositoryIndex")).models
    assert [(entry.name, entry.version, entry.state, entry.reason) for entry in found] == [
        ("a", "1", "READY", ""),
        ("b", "2", "UNAVAILABLE", "broken"),
        ("c", "", "", ""),
    ]
    found = (await call(methods, "RepositoryIndex", ready=True)).models
    assert [entry.name for entry in found] == ["a"]


@pytest.mark.parametrize(
    "name", ["RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload"]
)
async def test_a_repository_name_is_not_supported(name: str) -> None:
    refused = await call(served(), name, repository_name="r")
    assert refused.status == UNIMPLEMENTED
    assert "'repository_name' specification is not supported" in refused.message


PARAMETER = service_pb2.ModelRepositoryParameter


async def test_load_and_unload_are_handed_on_with_their_parameters() -> None:
    engine = ScriptedEngine()
    methods = served(engine)
    given = {
        "config": PARAMETER(string_param="{}"),
        "file:1/model.onnx": PARAMETER(bytes_param=b"\0\1"),
    }
    await call(methods, "RepositoryModelLoad", model_name="m")
    await call(methods, "RepositoryModelLoad", model_name="m", parameters=given)
    await call(methods, "RepositoryModelUnload", model_name="m")
    dependents = {"unload_dependents": PARAMETER(bool_param=True)}
    await call(methods, "RepositoryModelUnload", model_name="m", parameters=dependents)
    assert engine.changes == [
        ("load", "m", {}),
        ("load", "m", {"config": "{}", "file:1/model.onnx": b"\0\1"}),
        ("unload", "m", False),
        ("unload", "m", True),
    ]


@pytest.mark.parametrize(
    ("name", "parameter", "value", "message"),
    [
        ("RepositoryModelLoad", "colour", PARAMETER(string_param="red"), "unrecognized load parameter"),
        ("RepositoryModelLoad", "config", PARAMETER(int64_param=1), "expected string_param."),
        ("RepositoryModelLoad", "file:a", PARAMETER(string_param="x"), "expected bytes_param."),
        ("RepositoryModelUnload", "unload_dependents", PARAMETER(string_param="x"), "expected bool_param."),
    ],
)  # fmt: skip
async def test_parameters_that_cannot_be_used_change_nothing(
    name: str, parameter: str, value: typing.Any, message: str
) -> None:
    engine = ScriptedEngine()
    refused = await call(served(engine), name, model_name="m", parameters={parameter: value})
    assert refused.status == INVALID_ARGUMENT
    assert message in refused.message
    assert not engine.changes


@pytest.mark.parametrize("name", ["RepositoryModelLoad", "RepositoryModelUnload"])
async def test_a_refused_change_is_a_status(name: str) -> None:
    engine = ScriptedEngine()
    engine.change_error = unavailable("not now")
    refused = await call(served(engine), name, model_name="m")
    assert (refused.status, refused.message) == (UNAVAILABLE, "not now")


@pytest.mark.parametrize("kind", ["System", "Cuda"])
async def test_client_shared_memory_is_off(kind: str) -> None:
    methods = served()
    assert not (await call(methods, f"{kind}SharedMemoryStatus")).regions
    refused = await call(methods, f"{kind}SharedMemoryStatus", name="r")
    assert refused.status == NOT_FOUND
    assert f"Unable to find {kind.lower()} shared memory region: 'r'" in refused.message
    for change in ("Register", "Unregister"):
        refused = await call(methods, f"{kind}SharedMemory{change}", name="r")
        assert refused.status == UNIMPLEMENTED
        assert refused.message.startswith(
            "Client shared memory is disabled. Start the server with '--allow-client-shm=true'"
        )


def test_watch_is_refused_with_a_sentence() -> None:
    assert REFUSED[WATCH].status == UNIMPLEMENTED
    assert "Watch is not implemented" in REFUSED[WATCH].message


async def test_bytes_that_are_not_a_message_are_refused_by_every_method_that_reads_them() -> None:
    methods = served()
    for name in ("ModelInfer", "ModelReady", "ModelMetadata", "ModelConfig", "ModelStatistics",
                 "RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload",
                 "SystemSharedMemoryStatus", "CudaSharedMemoryStatus"):  # fmt: skip
        refused = await ask(methods, SERVICE + name, b"\x0a\xff")
        assert isinstance(refused, RpcStatus), name
        assert refused.status == INTERNAL
        assert "Unable to parse request" in refused.message


async def test_a_bug_is_answered_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    engine = ScriptedEngine()
    engine.ready = KeyError("boom")
    engine.entries = [IndexEntry(name=5)]  # type: ignore[arg-type] # what a bug could put there
    methods = served(engine)
    for refused in (await call(methods, "ServerReady"), await call(methods, "RepositoryIndex")):
        assert refused.status == INTERNAL
        assert "its log says where" in refused.message
    assert len(caplog.records) == 2


KEY = Restriction(header="Admin-Key", value="secret")


async def test_a_restricted_category_asks_for_its_key() -> None:
    methods = served(restrictions={Category.METADATA: KEY})
    path = SERVICE + "ServerMetadata"
    wrong: list[tuple[str, str | bytes]] = [
        ("triton-grpc-protocol-admin-key", "wrong"),
        ("admin-key", "secret"),
    ]
    for metadata in ([], wrong[:1], wrong[1:]):
        refused = await ask(methods, path, b"", *metadata)
        assert isinstance(refused, RpcStatus)
        assert refused.status == UNAVAILABLE
        assert (
            "This protocol is restricted, expecting header 'triton-grpc-protocol-admin-key'"
            in refused.message
        )
    assert isinstance(
        await ask(methods, path, b"", ("triton-grpc-protocol-admin-key", "secret")), bytes
    )
    assert isinstance(await ask(methods, CHECK), bytes)


@pytest.mark.parametrize(
    ("category", "names"),
    [
        (Category.HEALTH, ["ServerLive", "ServerReady", "ModelReady"]),
        (Category.METADATA, ["ServerMetadata", "ModelMetadata"]),
        (Category.INFERENCE, ["ModelInfer"]),
        (Category.MODEL_CONFIG, ["ModelConfig"]),
        (Category.STATISTICS, ["ModelStatistics"]),
        (Category.TRACE, ["TraceSetting"]),
        (Category.LOGGING, ["LogSettings"]),
        (
            Category.MODEL_REPOSITORY,
            ["RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload"],
        ),
        (
            Category.SHARED_MEMORY,
            [
                f"{kind}SharedMemory{what}"
                for kind in ("System", "Cuda")
                for what in ("Status", "Register", "Unregister")
            ],
        ),
    ],
)
async def test_a_restriction_covers_its_methods_and_no_others(
    category: Category, names: list[str]
) -> None:
    methods = served(restrictions={category: KEY})
    wanted = {SERVICE + name for name in names} | (
        {CHECK} if category is Category.HEALTH else set()
    )
    found = set()
    for path in methods.unary:
        answer = await ask(methods, path)
        if isinstance(answer, RpcStatus) and "This protocol is restricted" in answer.message:
            found.add(path)
    assert found == wanted


async def test_after_shut_only_health_is_answered() -> None:
    methods = served()
    methods.shut()
    refused = await ask(methods, INFER, small_request())
    assert isinstance(refused, RpcStatus)
    assert refused.status == UNAVAILABLE
    assert refused.message.startswith(
        "GRPC server is shutting down and has stopped accepting new requests."
    )
    assert isinstance(await ask(methods, SERVICE + "ServerMetadata"), RpcStatus)
    assert isinstance(await ask(methods, SERVICE + "ServerLive"), bytes)
    assert await ask(methods, CHECK) == SERVING


def test_a_broken_header_pattern_is_found_when_the_table_is_made() -> None:
    with pytest.raises(CannotServeError, match="--grpc-header-forward-pattern="):
        served(header_forward_pattern="(")


def with_tokens(tmp_path: pathlib.Path) -> Methods:
    file = tmp_path / "token"
    file.write_text("secret")
    return served(tokens=TokenFile(str(file), clock=ManualClock()))


async def test_every_call_but_those_about_health_asks_for_a_token(tmp_path: pathlib.Path) -> None:
    methods = with_tokens(tmp_path)
    refused = {
        path for path in methods.unary if await ask(methods, path) == RpcStatus(16, UNAUTHENTICATED)
    }
    open_to_all = {CHECK, SERVICE + "ServerLive", SERVICE + "ServerReady", SERVICE + "ModelReady"}
    assert refused == set(methods.unary) - open_to_all


@pytest.mark.parametrize("sent", ["Bearer secret", b"secret"])
async def test_a_token_in_the_metadata_opens_a_call(
    tmp_path: pathlib.Path, sent: str | bytes
) -> None:
    answer = await ask(
        with_tokens(tmp_path), SERVICE + "ServerMetadata", b"", ("authorization", sent)
    )
    assert isinstance(answer, bytes)


async def test_a_wrong_token_opens_nothing(tmp_path: pathlib.Path) -> None:
    answer = await ask(
        with_tokens(tmp_path), SERVICE + "ServerMetadata", b"", ("authorization", "Bearer wrong")
    )
    assert answer == RpcStatus(16, UNAUTHENTICATED)


def test_a_control_message_may_not_be_large() -> None:
    answers = Answers()
    served().unary[SERVICE + "ModelMetadata"](b"\x1a\0" * 200_000, SentMetadata(), answers)
    assert answers.refusal.status == 3
    assert "longer than" in answers.refusal.message
