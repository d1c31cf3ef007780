"""Traces of a real server over both protocols: calls between models, in threads of the server and in worker processes, in files and as spans."""

import collections.abc
import json
import pathlib
import resource
import typing

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client

from tests.reference.process import ServerProcess, naiad_program
from tests.support.collector import Collector
from tests.support.waiting import wait_until
from tests.wire.plain_http import call, get

Records = list[dict[str, typing.Any]]

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE_ID}-b7ad6b7169203331-01"

_CONFIG = """\
backend: "python"
input {{ name: "IN" data_type: TYPE_FP32 dims: 2 }}
output {{ name: "OUT" data_type: TYPE_FP32 dims: 2 }}
output {{ name: "CONTEXT" data_type: TYPE_STRING dims: 1 }}
instance_group {{ kind: KIND_CPU }}
{more}
"""

_HEAD = """\
import json

import numpy as np
import triton_python_backend_utils as pb_utils


def ask(model, request, **more):
    return pb_utils.InferenceRequest(
        model_name=model, requested_output_names=["OUT"], inputs=request.inputs(), **more
    )


def answer(request, out):
    context = request.trace().get_context()
    return pb_utils.InferenceResponse([
        pb_utils.Tensor("OUT", out),
        pb_utils.Tensor("CONTEXT", np.array([json.dumps(context)], np.object_)),
    ])


def out_of(response):
    if response.has_error():
        raise pb_utils.TritonModelException(response.error().message())
    return pb_utils.get_output_tensor_by_name(response, "OUT").as_numpy()


class TritonPythonModel:
"""

_MODELS = {
    "double": """
    def execute(self, requests):
        pb_utils.Logger.log_verbose("a line of double")
        return [answer(each, 2 * each.inputs()[0].as_numpy()) for each in requests]
""",
    "twice": """
    def execute(self, requests):
        return [
            answer(each, np.concatenate([out_of(one) for one in
                ask("double", each, request_id="inner", trace=each.trace()).exec(decoupled=True)]))
            for each in requests
        ]
""",
    "alone": """
    def execute(self, requests):
        return [answer(each, out_of(ask("double", each).exec())) for each in requests]
""",
    "both": """
    async def execute(self, requests):
        found = []
        for each in requests:
            trace = each.trace()
            first = await ask("twice", each, trace=trace).async_exec()
            found.append(answer(each, out_of(first) + out_of(await ask("double", each, trace=trace).async_exec())))
        return found
""",
    "streaming": """
    def execute(self, requests):
        for each in requests:
            sender = each.get_response_sender()
            for _ in range(2):
                sender.send(answer(each, out_of(ask("double", each, trace=each.trace()).exec())))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
""",
}


def write(folder: pathlib.Path) -> pathlib.Path:
    """The repository."""
    for name, code in _MODELS.items():
        version = folder / name / "1"
        version.mkdir(parents=True)
        more = "model_transaction_policy { decoupled: true }" if name == "streaming" else ""
        (version.parent / "config.pbtxt").write_text(_CONFIG.format(more=more))
        (version / "model.py").write_text(_HEAD + code)
    return folder


def launched(tmp_path: pathlib.Path, *options: str, models: str = "*") -> ServerProcess:
    control = (
        ()
        if models == "*"
        else ("--model-control-mode=explicit", *(f"--load-model={each}" for each in models.split()))
    )
    repository = write(tmp_path / "models")
    given = (*options, *control)
    return ServerProcess(naiad_program(), [repository], log=tmp_path / "log", options=given)


def infer(
    server: ServerProcess, model: str, module: typing.Any = http_client, **headers: str
) -> str | None:
    """Ask a model; returns the context that it had."""
    address = server.http if module is http_client else server.grpc
    tensor = module.InferInput("IN", [2], "FP32")
    tensor.set_data_from_numpy(np.ones(2, np.float32))
    with module.InferenceServerClient(address) as client:
        answer = client.infer(model, [tensor], request_id="outer", headers=headers)
    context: str | None = json.loads(answer.as_numpy("CONTEXT")[0])
    return context


def stream(server: ServerProcess, model: str) -> int:
    """Ask a decoupled model over a stream; returns how many responses came."""
    arrived: list[typing.Any] = []
    tensor = grpc_client.InferInput("IN", [2], "FP32")
    tensor.set_data_from_numpy(np.ones(2, np.float32))
    with grpc_client.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: arrived.append(error or result))
        client.async_stream_infer(model, [tensor], enable_empty_final_response=True)
        client.stop_stream()
    return len(arrived)


def parents(records: Records) -> list[tuple[str, str, int]]:
    """Model, request id and parent of each part."""
    return [
        (each["model_name"], each.get("request_id", ""), each.get("parent_id", 0))
        for each in records
        if "model_name" in each
    ]


def names(records: Records, number: int) -> list[str]:
    return [
        stamp["name"]
        for each in records
        if each["id"] == number
        for stamp in each.get("timestamps", ())
    ]


HOSTS = ("thread", pytest.param("process", marks=pytest.mark.slow))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("host", HOSTS)
def test_calls_that_are_given_the_trace_are_children_of_the_request(
    host: str, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "trace.json"
    options = [
        f"--backend-config=python,host={host}",
        f"--trace-config=triton,file={file}",
        "--trace-config=level=TIMESTAMPS",
        "--trace-config=rate=1",
        "--trace-config=triton,log-frequency=1",
    ]
    with launched(tmp_path, *options) as server:
        assert infer(server, "twice") is None
        assert infer(server, "alone", grpc_client) is None
        assert infer(server, "both") is None
        assert stream(server, "streaming") == 3
        server.stop()
    found: list[Records] = [
        json.loads(file.with_name(f"{file.name}.{each}").read_text()) for each in range(4)
    ]
    twice, alone, both, streaming = found
    assert parents(twice) == [("twice", "outer", 0), ("double", "inner", 1)]
    assert names(twice, 2) == [
        "REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END", "REQUEST_END",
    ]  # fmt: skip
    assert names(twice, 1)[0] == "HTTP_RECV_START"
    assert parents(alone) == [("alone", "outer", 0)]
    assert names(alone, alone[0]["id"])[0] == "GRPC_WAITREAD_START"
    outer = both[0]["id"]
    inner = [each["id"] for each in both if each.get("model_name") == "twice"]
    assert parents(both) == [
        ("both", "outer", 0), ("twice", "", outer), ("double", "inner", inner[0]), ("double", "", outer),
    ]  # fmt: skip
    outer = streaming[0]["id"]
    assert parents(streaming) == [("streaming", "", 0), ("double", "", outer), ("double", "", outer)]  # fmt: skip


@pytest.fixture
def collector() -> collections.abc.Iterator[Collector]:
    pytest.importorskip("opentelemetry.sdk.trace", reason="needs the extra tracing")
    made = Collector()
    yield made
    made.stop()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("module", [http_client, grpc_client], ids=["http", "grpc"])
def test_spans_of_calls_are_below_that_of_the_model_whose_context_the_model_has(
    host: str, module: typing.Any, collector: Collector, tmp_path: pathlib.Path
) -> None:
    options = [
        f"--backend-config=python,host={host}",
        "--trace-config=mode=opentelemetry",
        f"--trace-config=opentelemetry,url={collector.url}",
        "--trace-config=opentelemetry,bsp_schedule_delay=1",
        "--trace-config=level=TIMESTAMPS",
        "--trace-config=rate=0",
    ]
    with launched(tmp_path, *options, models="twice double") as server:
        assert infer(server, "twice", module) is None
        text = infer(server, "twice", module, traceparent=TRACEPARENT, tracestate="shop=7")
        assert text is not None
        server.stop()
    context = json.loads(text)
    spans = {each.name: each for each in collector.spans()}
    assert {each.trace_id.hex() for each in spans.values()} == {TRACE_ID}
    outer, inner = spans["twice"], spans["double"]
    assert context == {
        "traceparent": f"00-{TRACE_ID}-{outer.span_id.hex()}-01",
        "tracestate": "shop=7",
    }
    assert inner.parent_span_id == outer.span_id
    assert outer.parent_span_id == spans["InferRequest"].span_id
    assert {each.key: each.value.string_value for each in inner.attributes}[
        "triton.request_id"
    ] == "inner"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("host", HOSTS)
def test_the_verbose_level_reaches_models_that_run(host: str, tmp_path: pathlib.Path) -> None:
    with launched(tmp_path, f"--backend-config=python,host={host}", models="double") as server:
        infer(server, "double")
        assert "a line of double" not in server.output()
        call(server.http, "POST", "/v2/logging", {"log_verbose_level": 1})
        infer(server, "double")
        wait_until(lambda: "a line of double" in server.output())
        call(server.http, "POST", "/v2/logging", {"log_verbose_level": 0})
        infer(server, "double")
        server.stop()
        assert server.output().count("a line of double") == 1


@pytest.mark.timeout(600)
def test_a_full_disk_under_a_trace_file_stops_tracing_with_one_line_and_requests_go_on(
    tmp_path: pathlib.Path,
) -> None:
    file = tmp_path / "trace.json"
    file.symlink_to("/dev/full")
    options = [
        "--backend-config=python,host=thread",
        f"--trace-config=triton,file={file}",
        "--trace-config=level=TIMESTAMPS",
        "--trace-config=rate=1",
    ]
    with launched(tmp_path, *options, models="double") as server:
        infer(server, "double")
        wait_until(lambda: "tracing stops" in server.output())
        for module in (http_client, grpc_client):
            infer(server, "double", module)
        _, page = get(server.metrics, "/metrics")
        assert "naiad_traces_lost_total 1\n" in page.decode()
        file.unlink()  # there is room again
        call(server.http, "POST", "/v2/trace/setting", {})
        infer(server, "double")
        server.stop()
        assert server.output().count("cannot be written") == 1
        assert server.output().count("1 traces were not written") == 1
    assert parents(json.loads(file.read_text())) == [("double", "outer", 0)]


@pytest.mark.timeout(600)
def test_a_limit_on_the_size_of_files_stops_tracing_with_one_line_and_the_file_stays_valid(
    tmp_path: pathlib.Path,
) -> None:
    file = tmp_path / "trace.json"
    options = [
        "--backend-config=python,host=thread",
        f"--trace-config=triton,file={file}",
        "--trace-config=level=TIMESTAMPS",
        "--trace-config=rate=1",
    ]
    limit = 16 << 10  # more than the log is long
    with launched(tmp_path, *options, models="double") as server:
        assert server.process is not None
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (limit, limit))
        for _ in range(50):
            infer(server, "double")
        wait_until(lambda: "tracing stops" in server.output())
        for module in (http_client, grpc_client):
            infer(server, "double", module)
        server.stop()
        line = f"tracing stops: {file} cannot be written: File too large; requests go on."
        assert server.output().count(line) == server.output().count("cannot be written") == 1
    assert file.stat().st_size <= limit
    json.loads(file.read_text())
