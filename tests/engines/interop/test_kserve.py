"""KServe's own server beside ours, and its transformer in front of ours.

`KSERVE_PYTHON` names an interpreter with the package `kserve`, which needs 300 MB and is not installed by this project.
"""

import collections.abc
import contextlib
import dataclasses
import http.client
import json
import os
import pathlib
import typing

import pytest
from ask_question import CONTEXT
from make_question_answering import make_repository

from tests.reference.process import Ports, ServerProcess, naiad_program
from tests.wire.http_program import running
from tests.wire.plain_http import call

PYTHON = os.environ.get("KSERVE_PYTHON", "")
HERE = pathlib.Path(__file__).parent
EXAMPLE = HERE.parents[2] / "examples" / "question_answering"

pytestmark = [
    pytest.mark.skipif(not PYTHON, reason="KSERVE_PYTHON names no interpreter with kserve"),
    pytest.mark.xdist_group("kserve"),
    pytest.mark.timeout(600),
]

CONFIG = """\
backend: "python"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: 3 }
output { name: "y" data_type: TYPE_FP32 dims: 3 }
"""
DOUBLE = """\
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([self.answer(request)]) for request in requests]

    def answer(self, request):
        values = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
        return pb_utils.Tensor("y", np.where(values == 0, np.nan, 2 * values).astype(np.float32))
"""
FAILS = DOUBLE.replace("values = pb", 'raise RuntimeError("out of order")\n        values = pb')


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[ServerProcess]:
    root = tmp_path_factory.mktemp("kserve")
    for name, source in (("double", DOUBLE), ("fails", FAILS)):
        version = root / "models" / name / "1"
        version.mkdir(parents=True)
        (version.parent / "config.pbtxt").write_text(CONFIG)
        (version / "model.py").write_text(source)
    make_repository(root / "models")
    options = (
        "--model-control-mode=explicit",
        *(f"--load-model={name}" for name in ("double", "fails", "bert")),
    )
    with ServerProcess(
        naiad_program(), [root / "models"], log=root / "log", options=options
    ) as started:
        yield started


@pytest.fixture(scope="module")
def kserve(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[str]:
    port = Ports.free().http
    command = [PYTHON, str(HERE / "kserve_server.py"), str(port)]
    log = tmp_path_factory.mktemp("log") / "kserve.log"
    with running(command, f"127.0.0.1:{port}", folder=HERE, log=log) as address:
        yield address


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A request, and the status that both servers respond with; `same`: the whole body is compared, else only the names of its members."""

    name: str
    status: int
    path: str
    body: typing.Any = None
    same: bool = True


ROWS = {"instances": [[1, 2.5, -3], [4, 5, 6]]}
SCENARIOS = (
    Scenario("rows", 200, "double:predict", ROWS),
    Scenario("one row", 200, "double:predict", {"instances": [[1, 2, 3]]}),
    Scenario("a signature", 200, "double:predict", {**ROWS, "signature_name": "serving_default"}),
    Scenario("members of others", 200, "double:predict", {**ROWS, "parameters": {"a": [1]}}),
    Scenario("NaN in the response", 200, "double:predict", {"instances": [[0, 1, 2]]}),
    Scenario("a model is ready", 200, "double"),
    Scenario("an unknown model", 404, "nope", same=False),
    Scenario("a prediction of an unknown model", 404, "nope:predict", ROWS, same=False),
    Scenario("an explanation of an unknown model", 404, "nope:explain", ROWS, same=False),
    Scenario("no JSON", 400, "double:predict", "hello", same=False),
    Scenario("half a document", 400, "double:predict", '{"instances": [', same=False),
    Scenario("no explainer", 501, "double:explain", ROWS, same=False),
    Scenario("a model that fails", 500, "fails:predict", ROWS, same=False),
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_both_servers_answer_alike(server: ServerProcess, kserve: str, scenario: Scenario) -> None:
    method = "GET" if scenario.body is None else "POST"
    headers = {"Content-Type": "application/json"}
    replies = [
        call(address, method, f"/v1/models/{scenario.path}", scenario.body, **headers)
        for address in (kserve, server.http)
    ]
    assert [status for status, _ in replies] == [scenario.status] * 2, replies
    theirs, ours = (json.loads(text) for _, text in replies)
    assert list(ours) == list(theirs)
    if scenario.same:
        assert ours == theirs


EVENT = {"id": "1", "source": "tests", "type": "ask", "specversion": "1.0"}
BINARY = {f"ce-{name}": value for name, value in EVENT.items()}
TIMED = {**EVENT, "time": "2026-01-31T12:00:00Z", "data": ROWS}
JSON_TYPE = {"Content-Type": "application/json"}
EVENT_TYPE = {"Content-Type": "application/cloudevents+json"}
EVENTS: dict[str, tuple[typing.Any, dict[str, str]]] = {
    "binary": (ROWS, {**BINARY, **JSON_TYPE}),
    "binary without a type": (ROWS, BINARY),
    "binary of 0.3": (ROWS, {**BINARY, "ce-specversion": "0.3"}),
    "binary of 2.0": (ROWS, {**BINARY, "ce-specversion": "2.0"}),
    "binary without an id": (ROWS, {**JSON_TYPE, **BINARY, "ce-id": ""}),
    "half a binary one": (ROWS, {**JSON_TYPE, "ce-specversion": "1.0", "ce-id": "1"}),
    "structured": (TIMED, EVENT_TYPE),
    "structured as JSON": (TIMED, JSON_TYPE),
    "no event of its type": (ROWS, EVENT_TYPE),
}


@pytest.mark.parametrize("name", EVENTS)
def test_both_servers_answer_cloud_events_alike(
    server: ServerProcess, kserve: str, name: str
) -> None:
    body, headers = EVENTS[name]
    seen = []
    for address in (kserve, server.http):
        with contextlib.closing(http.client.HTTPConnection(address, timeout=60)) as connection:
            connection.request("POST", "/v1/models/double:predict", json.dumps(body), headers)
            reply = connection.getresponse()
            got = {key.lower(): value for key, value in reply.getheaders()}
            content = json.load(reply)
        of_event = {key: got[key] for key in got if key.startswith("ce-") or key == "content-type"}
        for held in (of_event, content):
            for each in ("id", "time", "ce-id", "ce-time"):
                if each in held:
                    held[each] = "its own"
        if "error" in content:
            content = ["error"]
        seen.append((reply.status, of_event, content))
    theirs, ours = seen
    assert ours == theirs


def test_the_lists_of_models_have_one_form(server: ServerProcess, kserve: str) -> None:
    theirs, ours = (
        json.loads(call(address, "GET", "/v1/models")[1]) for address in (kserve, server.http)
    )
    assert sorted(theirs["models"]) == ["double", "fails"]
    assert sorted(ours["models"]) == ["bert", "double", "fails"]
    assert list(ours) == list(theirs)


@pytest.mark.parametrize("protocol", ["v1", "v2", "grpc-v2"])
def test_a_transformer_calls_the_server(
    server: ServerProcess, tmp_path: pathlib.Path, protocol: str
) -> None:
    port = Ports.free().http
    make_repository(tmp_path)
    predictor = server.grpc if protocol == "grpc-v2" else server.http
    options = {
        "model_name": "bert",
        "predictor_host": predictor,
        "predictor_protocol": protocol,
        "http_port": str(port),
        "enable_grpc": "false",
        "vocabulary": str(tmp_path / "question_answering" / "1" / "vocab.txt"),
    }
    command = [PYTHON, "transformer.py", *(f"--{name}={value}" for name, value in options.items())]
    with running(command, f"127.0.0.1:{port}", folder=EXAMPLE, log=tmp_path / "log") as address:
        rows = [
            {"context": CONTEXT, "question": question}
            for question in ("Who built the bridge?", "Who painted the bridge?")
        ]
        headers = {"Content-Type": "application/json"}
        path = "/v1/models/bert:predict"
        status, text = call(address, "POST", path, {"instances": rows[:1]}, **headers)
        assert status == 200, text
        answer = json.loads(text)
        assert answer["predictions"] == "Clara Weber"
        assert 0.9 < answer["prob"] <= 1
        _, text = call(address, "POST", path, {"instances": rows}, **headers)
        assert json.loads(text)["predictions"] == ["Clara Weber", "Otto Lang"]
