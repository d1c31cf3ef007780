"""Models that call other models, load them and count things, in threads of the server and in worker processes (rows 15.18 to 15.26)."""

import collections.abc
import concurrent.futures
import json
import pathlib
import re
from typing import Any

import pytest

from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import wait_until
from tests.wire.models import calling_models
from tests.wire.plain_http import call, get

HOSTS = ("thread", pytest.param("process", marks=pytest.mark.slow))

# Worker processes start side by side, and a machine may be busy.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module", params=HOSTS)
def calling(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> collections.abc.Iterator[ServerProcess]:
    """A server under explicit control whose Python models run in one of the hosts."""
    root = calling_models.write(tmp_path_factory.mktemp("calling") / "models")
    options = [
        "--model-control-mode=explicit",
        f"--backend-config=python,host={request.param}",
    ]
    log = tmp_path_factory.mktemp("log") / "server.log"
    with ServerProcess(naiad_program(), [root], log=log, options=options) as running:
        yield running


def infer(server: ServerProcess, model: str) -> Any:
    """OUT for IN [1, 2], or the error's text; the first to ask loads the model and those that it asks."""
    for name in (*calling_models.NEEDS.get(model, ()), model):
        if get(server.http, f"/v2/models/{name}/ready")[0] == 404:
            call(server.http, "POST", f"/v2/repository/models/{name}/load")
    return ask(server, model)


def ask(server: ServerProcess, model: str) -> Any:
    """The same of a model that is loaded."""
    body = {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [2], "data": [1, 2]}]}
    _, reply = call(server.http, "POST", f"/v2/models/{model}/infer", body)
    document = json.loads(reply)
    return document["error"] if "error" in document else document["outputs"][0]["data"]


def metric(server: ServerProcess, line: str) -> float | None:
    _, page = get(server.metrics, "/metrics")
    match = re.search(rf"^{re.escape(line)} (\S+)$", page.decode(), re.MULTILINE)
    return None if match is None else float(match[1])


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("through", [2, 4]),
        ("some", [3, 0]),
        ("pool", [4, 0]),
        ("forks", [4, 4]),
        ("outlives", [2, 4]),
        ("writes", [5, 8]),
        ("big", [1_000_002, 1]),
    ],
)
def test_a_model_is_answered_by_another(
    calling: ServerProcess, model: str, expected: list[float]
) -> None:
    assert infer(calling, model) == expected


def test_processes_that_a_model_starts_find_its_functions(
    calling: ServerProcess, request: pytest.FixtureRequest
) -> None:
    if "thread" in request.node.name:
        pytest.skip("in a thread of the server, modules of models have no names of their own")
    assert infer(calling, "spawns") == [9, 16]


def test_a_call_counts_as_a_request_of_the_model_that_answers(calling: ServerProcess) -> None:
    line = 'nv_inference_request_success{model="double",version="1"}'
    infer(calling, "through")
    before = metric(calling, line)
    infer(calling, "through")
    after = metric(calling, line)
    assert before is not None
    assert after == before + 1


@pytest.mark.parametrize("model", ["ping", "self", "aping"])
def test_calls_that_wait_for_each_other_fail_and_say_how(
    calling: ServerProcess, model: str
) -> None:
    """How soon is shown in virtual time (`tests/server/engine/bls`)."""
    infer(calling, model)
    error = ask(calling, model)
    assert "deadlock" in error
    assert f"waits for model '{model}' (held: {model}_0_0)" in error
    assert infer(calling, "through") == [2, 4]


def test_many_clients_whose_requests_wait_for_each_other_all_get_an_answer(
    calling: ServerProcess,
) -> None:
    infer(calling, "ping")
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda model: infer(calling, model), ["ping", "pong"] * 4))
    assert all("deadlock" in each for each in found)


def test_fifty_calls_of_a_coroutine_run_at_the_same_time(calling: ServerProcess) -> None:
    assert infer(calling, "fifty") == [50, 0], "each is answered once all are there"


def test_a_cancelled_call_is_noticed_by_the_model_that_works_on_it(calling: ServerProcess) -> None:
    infer(calling, "some")
    wait_until(lambda: "endless: cancelled" in calling.output())


def test_a_request_to_be_seen_again_names_what_it_needs(calling: ServerProcess) -> None:
    error = infer(calling, "again")
    assert "iterative_sequence" in error
    assert "needs sequence_batching { iterative_sequence: true }" in error


def test_a_models_metric_is_on_the_page_while_the_model_is_loaded(calling: ServerProcess) -> None:
    infer(calling, "keeps")
    infer(calling, "keeps")
    assert metric(calling, 'kept_total{who="keeps"}') == 2
    assert call(calling.http, "POST", "/v2/repository/models/keeps/unload")[0] == 200
    # The reply to an unload does not wait for ever until the model is gone.
    wait_until(lambda: metric(calling, 'kept_total{who="keeps"}') is None)
    assert call(calling.http, "POST", "/v2/repository/models/keeps/load")[0] == 200
    assert metric(calling, 'kept_total{who="keeps"}') == 0


def test_a_model_brings_another_with_it(calling: ServerProcess) -> None:
    assert infer(calling, "brings") == [7, 7]


def test_a_model_may_unload_itself(calling: ServerProcess) -> None:
    assert infer(calling, "leaves") == [8, 0]
    assert "has no available versions" in ask(calling, "leaves")


def test_a_model_may_load_itself_again(calling: ServerProcess) -> None:
    assert infer(calling, "renews") == [9, 1]
    assert infer(calling, "renews") == [9, 1]


def test_a_call_to_a_worker_that_dies_fails_and_its_caller_lives(
    tmp_path: pathlib.Path,
) -> None:
    root = calling_models.write(tmp_path / "models")
    options = [
        "--model-control-mode=explicit",
        "--backend-config=python,host=process",
        *(f"--load-model={name}" for name in ("dies", "survives")),
    ]
    with ServerProcess(naiad_program(), [root], log=tmp_path / "log", options=options) as server:
        error = infer(server, "survives")
        assert "its worker process exited with status 3" in error
        assert get(server.http, "/v2/models/survives/ready")[0] == 200


@pytest.mark.slow
def test_a_caller_that_dies_leaves_its_call_cancelled_and_its_metrics_gone(
    tmp_path: pathlib.Path,
) -> None:
    root = tmp_path / "models"
    calling_models.write(root)
    model = root / "some" / "1" / "model.py"
    text = model.read_text().replace("    def execute", _COUNTS + "    def execute")
    model.write_text(text.replace("responses.cancel()", "os._exit(3)"))
    options = [
        "--model-control-mode=explicit",
        "--backend-config=python,host=process",
        *(f"--load-model={name}" for name in ("some", "endless")),
    ]
    with ServerProcess(naiad_program(), [root], log=tmp_path / "log", options=options) as server:
        assert metric(server, "counted_total") == 5
        assert "exited with status 3" in infer(server, "some")
        wait_until(lambda: "endless: cancelled" in server.output())
        wait_until(
            lambda: metric(server, "counted_total") == 5,
            what="the next worker does not start at zero",
        )


_COUNTS = """\
    def initialize(self, args):
        self.family = pb_utils.MetricFamily("counted_total", "Counted", pb_utils.MetricFamily.COUNTER)
        self.family.Metric().increment(5)

"""
