"""Ensembles on a real server, driven by tritonclient: inference, streams, errors, and what becomes of them when the models of their steps change."""

import collections.abc
import json
import pathlib
import queue
import urllib.error
import urllib.request
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import wait_until

ADD = """\
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            if x.ravel()[0] < 0:
                error = pb_utils.TritonError("below zero", pb_utils.TritonError.INVALID_ARG)
                responses.append(pb_utils.InferenceResponse(error=error))
            else:
                responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x + {amount})]))
        return responses
"""

COUNT = """\
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            for index in range(int(x.ravel()[0])):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x * 0 + index)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""

TENSORS = """\
input {{ name: "{0}" data_type: TYPE_FP32 dims: 1 }}
output {{ name: "{1}" data_type: TYPE_FP32 dims: 1 }}
"""


def step(model: str, reads: str, writes: str) -> str:
    return (
        f'step {{ model_name: "{model}" model_version: -1 input_map {{ key: "IN" value: "{reads}" }} '
        f'output_map {{ key: "OUT" value: "{writes}" }} }}\n'
    )


def put(root: pathlib.Path, name: str, config: str, code: str | None = None) -> None:
    version = root / name / "1"
    version.mkdir(parents=True, exist_ok=True)
    (root / name / "config.pbtxt").write_text(config)
    if code is not None:
        (version / "model.py").write_text(code)


def put_ensemble(root: pathlib.Path, name: str, *steps: str, more: str = "") -> None:
    tensors = TENSORS.format("X", "Y") + more
    put(
        root,
        name,
        f'platform: "ensemble"\nmax_batch_size: 4\n{tensors}ensemble_scheduling {{\n{"".join(steps)}}}\n',
    )


def put_all(root: pathlib.Path) -> None:
    """`plus1` and `plus10`, `both` over them, `outer` over `both`, `counted` (decoupled) and `stream` over it."""
    one = "instance_group { kind: KIND_CPU count: 1 }\n"
    tensors = TENSORS.format("IN", "OUT")
    for amount in (1, 10):
        config = f'backend: "python"\nmax_batch_size: 4\n{tensors}{one}'
        put(root, f"plus{amount}", config, ADD.format(amount=amount))
    decoupled = "model_transaction_policy { decoupled: true }\n"
    put(root, "counted", f'backend: "python"\nmax_batch_size: 4\n{tensors}{one}{decoupled}', COUNT)
    more = 'output { name: "T" data_type: TYPE_FP32 dims: 1 }\n'
    put_ensemble(root, "both", step("plus1", "X", "T"), step("plus10", "T", "Y"), more=more)
    nested = step("both", "X", "t").replace('"IN"', '"X"').replace('"OUT"', '"Y"')
    put_ensemble(root, "outer", nested, step("plus1", "t", "Y"))
    put_ensemble(root, "stream", step("counted", "X", "t"), step("plus1", "t", "Y"))


def inputs(client: Any, *values: float) -> list[Any]:
    tensor = client.InferInput("X", [len(values), 1], "FP32")
    tensor.set_data_from_numpy(np.array(values, np.float32).reshape(-1, 1))
    return [tensor]


@pytest.fixture(scope="module")
def ensembles(
    tmp_path_factory: pytest.TempPathFactory,
) -> collections.abc.Iterator[ServerProcess]:
    root = tmp_path_factory.mktemp("ensembles")
    put_all(root)
    log = tmp_path_factory.mktemp("log") / "server.log"
    with ServerProcess(naiad_program(), [root], log=log) as running:
        yield running


@pytest.mark.parametrize("wire", ["http", "grpc"])
def test_the_steps_run_one_after_the_other(ensembles: ServerProcess, wire: str) -> None:
    module: Any = httpclient if wire == "http" else grpcclient
    with module.InferenceServerClient(
        ensembles.http if wire == "http" else ensembles.grpc
    ) as client:
        for name, expected in (("both", [11, 12]), ("outer", [12, 13])):
            result = client.infer(name, inputs(module, 0, 1), request_id="7")
            assert result.as_numpy("Y").ravel().tolist() == expected
            assert result.get_response(**({} if wire == "http" else {"as_json": True}))["id"] == "7"
        only = client.infer("both", inputs(module, 0), outputs=[module.InferRequestedOutput("T")])
        assert only.as_numpy("T").ravel().tolist() == [1]
        assert only.as_numpy("Y") is None


def test_a_step_that_is_not_needed_does_not_run(ensembles: ServerProcess) -> None:
    """As the reference documents it (row 14)."""
    with httpclient.InferenceServerClient(ensembles.http) as client:

        def count(name: str) -> int:
            stats = client.get_inference_statistics(name)["model_stats"][0]
            return int(stats["inference_stats"]["success"]["count"])

        before = count("plus10")
        client.infer("both", inputs(httpclient, 0), outputs=[httpclient.InferRequestedOutput("T")])
        assert count("plus10") == before


def test_an_error_says_which_step_it_is_from(ensembles: ServerProcess) -> None:
    """As the reference documents it (row 14)."""
    with httpclient.InferenceServerClient(ensembles.http) as client:
        with pytest.raises(InferenceServerException) as raised:
            client.infer("both", inputs(httpclient, -1))
        assert raised.value.status() == "400"
        assert raised.value.message() == "in ensemble 'both', below zero (step 0: model 'plus1')"
        with pytest.raises(
            InferenceServerException, match="in ensemble 'outer', in ensemble 'both'"
        ):
            client.infer("outer", inputs(httpclient, -1))


def test_an_ensemble_of_a_decoupled_model_streams(ensembles: ServerProcess) -> None:
    """As the reference documents it (row 14)."""
    results: queue.Queue[Any] = queue.Queue()
    with grpcclient.InferenceServerClient(ensembles.grpc) as client:
        assert client.get_model_config("stream").config.model_transaction_policy.decoupled
        client.start_stream(lambda result, error: results.put(error or result))
        client.async_stream_infer("stream", inputs(grpcclient, 5), enable_empty_final_response=True)
        values: list[float] = []
        while True:
            result = results.get(timeout=60)
            output = result.as_numpy("Y")
            if output is not None:
                values += output.ravel().tolist()
            if result.get_response().parameters["triton_final_response"].bool_param:
                break
        client.stop_stream()
    assert values == [1, 2, 3, 4, 5]
    with (
        httpclient.InferenceServerClient(ensembles.http) as http,
        pytest.raises(InferenceServerException) as raised,
    ):
        http.infer("stream", inputs(httpclient, 5))
    assert raised.value.status() == "501"


def test_metadata_statistics_and_readiness_are_those_of_a_model(ensembles: ServerProcess) -> None:
    with httpclient.InferenceServerClient(ensembles.http) as client:
        client.infer("both", inputs(httpclient, 0))
        metadata = client.get_model_metadata("both")
        assert (metadata["platform"], metadata["versions"]) == ("ensemble", ["1"])
        assert [each["name"] for each in metadata["outputs"]] == ["Y", "T"]
        assert client.is_model_ready("both")
        stats = client.get_inference_statistics("both")["model_stats"][0]["inference_stats"]
        assert stats["success"]["count"] == stats["compute_infer"]["count"] > 0
        assert stats["compute_infer"]["ns"] > 0


def test_the_graph_shows_the_steps_and_what_they_take(ensembles: ServerProcess) -> None:
    with httpclient.InferenceServerClient(ensembles.http) as client:
        client.infer("both", inputs(httpclient, 0))
    with urllib.request.urlopen(f"http://{ensembles.http}/v2/models/both/graph") as reply:
        graph = json.load(reply)
    assert [each["model"] for each in graph["steps"]] == ["plus1", "plus10"]
    assert graph["steps"][0]["output_map"] == {"OUT": "T"}
    assert graph["steps"][1]["mean_ms"]["total"] > graph["steps"][1]["mean_ms"]["compute"] > 0
    lines = graph["mermaid"].splitlines()
    assert lines[0] == "flowchart LR"
    assert '  request -- "X" --> s0' in lines
    assert '  s0 -- "T" --> s1' in lines
    assert '  s1 -- "Y" --> response' in lines
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(f"http://{ensembles.http}/v2/models/plus1/graph")
    assert "is not an ensemble" in raised.value.read().decode()


def states(client: Any) -> dict[str, str]:
    index = client.get_model_repository_index()
    return {entry["name"]: entry.get("state", "") for entry in index}


def test_models_of_steps_are_loaded_unloaded_and_changed(tmp_path: pathlib.Path) -> None:
    """As the reference documents it (rows 7)."""
    root = tmp_path / "models"
    put_all(root)
    options = ["--model-control-mode=explicit", "--load-model=outer"]
    with (
        ServerProcess(naiad_program(), [root], log=tmp_path / "log", options=options) as server,
        httpclient.InferenceServerClient(server.http, network_timeout=120) as client,
    ):
        ready = {name for name, state in states(client).items() if state == "READY"}
        assert ready == {"outer", "both", "plus1", "plus10"}
        client.unload_model("plus10")
        ready = {name for name, state in states(client).items() if state == "READY"}
        assert ready == {"plus1"}
        with pytest.raises(InferenceServerException):
            client.infer("outer", inputs(httpclient, 0))
        put(root, "plus10", (root / "plus10" / "config.pbtxt").read_text(), ADD.format(amount=20))
        client.load_model("plus10")
        ready = {name for name, state in states(client).items() if state == "READY"}
        assert ready == {"outer", "both", "plus1", "plus10"}
        assert client.infer("outer", inputs(httpclient, 0)).as_numpy("Y").item() == 22
        (root / "plus1" / "1" / "model.py").write_text(ADD.format(amount=2))
        client.load_model("outer")
        assert client.infer("outer", inputs(httpclient, 0)).as_numpy("Y").item() == 24
        put_ensemble(root, "lost", step("nowhere", "X", "Y"))
        with pytest.raises(InferenceServerException, match="not available or ambiguous: nowhere"):
            client.load_model("lost")
        put_ensemble(root, "cycle", step("cycle", "X", "Y"))
        with pytest.raises(
            InferenceServerException, match="circular dependency between ensembles: cycle -> cycle"
        ):
            client.load_model("cycle")


def test_a_model_of_a_step_changes_under_load_and_no_request_fails(tmp_path: pathlib.Path) -> None:
    """The ensemble goes on with the version before until the new one is ready (row 7.30)."""
    root = tmp_path / "models"
    put_all(root)
    options = [
        "--model-control-mode=poll", "--repository-poll-secs=1", "--repository-quiet-secs=0",
    ]  # fmt: skip
    with (
        ServerProcess(naiad_program(), [root], log=tmp_path / "log", options=options) as server,
        httpclient.InferenceServerClient(server.http, network_timeout=120) as client,
    ):
        (root / "plus10" / "1" / "model.py").write_text(ADD.format(amount=20))
        seen: set[float] = set()

        def has_changed() -> bool:
            seen.add(client.infer("outer", inputs(httpclient, 0)).as_numpy("Y").item())
            return 22 in seen

        wait_until(has_changed, seconds=60, what="the new version does not serve")
        assert seen <= {12, 22}
