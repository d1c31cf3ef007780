"""Graphs that disagree with their config, operators that a framework does not know, and memory that is not there.

The model fails, or the request does, with the framework's own reason first; the same model answers the next request, and so do the models beside it.
"""

import json
from typing import Any

import pytest
import tritonclient.grpc
import tritonclient.utils

from tests.frameworks.broken import odd_models
from tests.frameworks.broken.bad_graphs import FAILS, GRAPHS, REFUSED, SERVED
from tests.frameworks.broken.good_models import FRAMEWORKS, body
from tests.frameworks.broken.serving import Served, framework_of, is_tensorflow, unreadable
from tests.support.check_and_serve import checked, same_words
from tests.wire.plain_http import call

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

Problems = dict[str, list[Any]]

_BEFORE_THE_REASON = 260
"""Characters: the model, and the path of its file."""

WRONG = {
    odd_models.MEMORY: "memory",
    odd_models.ROWS: "expected batch size of 1 in model output, got 2",
    odd_models.DIMS: "the model gave [1, 4], its config says [-1, 2]",
}
"""What the error says, by the largest value of the request."""

ONLY_TORCH = {
    odd_models.RAISES: "ValueError: four is too much (at ",
    odd_models.DATATYPE: "configuration expects datatype TYPE_FP32 for output 'y__0', model provides TYPE_INT64",
    odd_models.SCALAR: "output 'y__0' is a scalar which is not supported.",
}


@pytest.fixture(scope="module")
def problems(served: Served) -> Problems:
    """What `naiad check` says of each model."""
    found: Problems = {}
    for folder in served.folders:
        names = [each.name for each in folder.iterdir()]
        found |= checked(folder, names, [])[0]
    return found


def ask(served: Served, name: str, given: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    status, reply = call(served.of[name].http, "POST", f"/v2/models/{name}/infer", given)
    return status, json.loads(reply)


def ask_by_grpc(served: Served, name: str, value: float) -> str:
    """The error of a request over gRPC."""
    import numpy as np  # noqa: PLC0415

    with tritonclient.grpc.InferenceServerClient(served.of[name].grpc) as client:
        tensor = tritonclient.grpc.InferInput("x", [1, 2], "FP32")
        tensor.set_data_from_numpy(np.array([[0, value]], np.float32))
        with pytest.raises(tritonclient.utils.InferenceServerException) as caught:
            client.infer(name, [tensor])
    return str(caught.value.message())


@pytest.mark.parametrize("name", [name for name, case in GRAPHS.items() if case.outcome == REFUSED])
def test_a_bad_graph_fails_its_model(served: Served, problems: Problems, name: str) -> None:
    case, each = GRAPHS[name], served.index[name]
    assert each["state"] == "UNAVAILABLE", each
    reason = each["reason"]
    assert not unreadable(reason), reason
    assert all(words in reason for words in case.says), reason
    assert reason.find(case.says[0]) < _BEFORE_THE_REASON, reason
    assert same_words(reason, problems[name]) == case.seen, (reason, problems[name])


@pytest.mark.parametrize("name", [name for name, case in GRAPHS.items() if case.outcome == FAILS])
def test_a_graph_that_only_runs_otherwise_fails_its_requests(served: Served, name: str) -> None:
    case, each = GRAPHS[name], served.index[name]
    assert each["state"] == "READY", each
    given = (case.model or FRAMEWORKS[framework_of(name)]).body
    (tensor,) = given["inputs"]
    text = case.edit(FRAMEWORKS[framework_of(name)].config)
    if "TYPE_INT32" in text.split("output {")[0]:
        tensor = {**tensor, "datatype": "INT32", "data": [1] * len(tensor["data"])}
    if "dims: [ 3 ]" in text.split("output {")[0]:
        tensor = {**tensor, "shape": [1, 3], "data": [1.0, 1.0, 1.0]}
    for _ in range(1 if name == "graphdef-claim" else 2):  # for which TensorFlow waits 20 seconds
        status, reply = ask(served, name, {"inputs": [tensor]})
        assert status in (400, 500), (status, reply)
        assert not unreadable(reply["error"]), reply
        assert all(words in reply["error"] for words in case.says), reply


@pytest.mark.parametrize("name", [name for name, case in GRAPHS.items() if case.outcome == SERVED])
def test_what_the_framework_adapts_is_served(served: Served, name: str) -> None:
    assert served.index[name]["state"] == "READY", served.index[name]


@pytest.mark.parametrize("name", ["torchscript-odd", "onnx-odd", "openvino-odd", "savedmodel-odd"])
def test_a_request_that_fails_leaves_the_model_to_the_next(served: Served, name: str) -> None:
    wrong = {**WRONG, **(ONLY_TORCH if name == "torchscript-odd" else {})}
    for value, words in wrong.items():
        status, reply = ask(served, name, body("x", 0, value))
        assert status in (400, 500), (value, status, reply)
        assert words in reply["error"], reply
        assert not unreadable(reply["error"]), reply
        assert ask(served, name, body("x", 0, -value))[1]["outputs"][0]["data"] == [0, -value]
    if not is_tensorflow(name):  # which waits ten seconds for memory
        assert "memory" in ask_by_grpc(served, name, odd_models.MEMORY)
    beside = f"{framework_of(name)}-good"
    assert ask(served, beside, FRAMEWORKS[framework_of(name)].body)[0] == 200


def test_a_program_of_export_that_lacks_memory_answers_the_next_request(served: Served) -> None:
    many = {"name": "INPUT__0", "datatype": "FP32", "shape": [8, 2], "data": [1.0] * 16}
    status, reply = ask(served, "exported-odd", {"inputs": [many]})
    assert status == 500, reply
    assert "DefaultCPUAllocator: can't allocate memory" in reply["error"]
    assert "lower max_batch_size" in reply["error"]
    assert not unreadable(reply["error"]), reply
    status, reply = ask(served, "exported-odd", body("INPUT__0", 1, 2))
    assert (status, reply["outputs"][0]["data"]) == (200, [1, 2])


def test_tensorflow_and_torch_have_servers_of_their_own(served: Served) -> None:
    assert {served.servers.index(served.of[name]) for name in GRAPHS if is_tensorflow(name)} == {1}
