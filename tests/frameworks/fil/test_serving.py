"""A server with forests in worker processes, through tritonclient: configs in the form of FIL's documentation, dynamic batching, damaged files."""

import collections.abc
import pathlib
import threading
from typing import Any

import numpy as np
import psutil
import pytest
import treelite
import tritonclient.grpc
import tritonclient.http
import xgboost
from tritonclient.utils import InferenceServerException

from tests.frameworks.fil import models
from tests.frameworks.fil.models import Array, by_lightgbm, by_xgboost, config, put, rows
from tests.frameworks.fil.test_backend import expected_of
from tests.reference.process import ServerProcess, naiad_program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

EXPLAINED = f'output {{ name: "treeshap_output" data_type: TYPE_FP32 dims: {models.FEATURES + 1} }}'
PROTOCOLS = pytest.mark.parametrize(
    "module", [tritonclient.http, tritonclient.grpc], ids=["HTTP", "gRPC"]
)


@pytest.fixture(scope="module")
def trained() -> dict[str, Any]:
    return {"binary": by_xgboost("binary:logistic"), "multi": by_lightgbm("multiclass")}


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, trained: dict[str, Any]
) -> collections.abc.Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("fil")
    repository = folder / "models"
    text = config(2, model_type="xgboost_ubj", is_classifier="true", predict_proba="true", layout="depth_first")  # fmt: skip
    put(repository / "binary", trained["binary"], "xgboost.ubj", text)
    text = config(1, kind="KIND_AUTO", model_type="lightgbm", output_class="true", algo="ALGO_AUTO", storage_type="AUTO", blocks_per_sm="0")  # fmt: skip
    put(repository / "multi", trained["multi"], "model.txt", text)
    text = config(
        2, EXPLAINED, model_type="xgboost_ubj", is_classifier="true", predict_proba="true"
    )
    put(repository / "explained", trained["binary"], "xgboost.ubj", text)
    put(repository / "cycle", in_a_cycle(trained["binary"], folder), "checkpoint.tl")
    put(repository / "linear", by_lightgbm("regression", linear_tree=True), "model.txt")
    text = config(1, kind="KIND_GPU", model_type="xgboost_ubj", is_classifier="true")
    put(repository / "gpu", trained["binary"], "xgboost.ubj", text)
    noise = np.random.default_rng(0)
    for number, filename in enumerate(
        ("xgboost.ubj", "model.txt", "checkpoint.tl", "xgboost.model")
    ):
        put(repository / f"random_{number}", noise.bytes(5000), filename)
    with ServerProcess(
        naiad_program(),
        [repository],
        log=folder / "log",
        options=["--exit-on-error=false"],
    ) as running:
        yield running


def in_a_cycle(booster: Any, folder: pathlib.Path) -> bytes:
    """A checkpoint whose first tree leads from its root to its root: treelite itself would follow it for ever."""
    model = treelite.frontend.from_xgboost(booster)
    path = put(folder / "whole", model, "checkpoint.tl") / "1" / "checkpoint.tl"
    data = bytearray(path.read_bytes())
    children = model.get_tree_accessor(0).get_field("cleft").astype("<i4").tobytes()
    at = data.index(children)
    data[at : at + 4] = bytes(4)
    return bytes(data)


def infer(
    server: ServerProcess, module: Any, model: str, values: Array, output: str = "output__0"
) -> Array:
    address = server.http if module is tritonclient.http else server.grpc
    with module.InferenceServerClient(address) as client:
        tensor = module.InferInput("input__0", list(values.shape), "FP32")
        tensor.set_data_from_numpy(values)
        result: Array = client.infer(model, [tensor]).as_numpy(output)
        return result


@PROTOCOLS
def test_answers_are_those_of_the_library(
    server: ServerProcess, module: Any, trained: dict[str, Any]
) -> None:
    values = rows(seed=20, count=50)
    one = expected_of(trained["binary"], values)
    np.testing.assert_allclose(
        infer(server, module, "binary", values), np.stack([1 - one, one], 1), rtol=1e-5, atol=1e-6
    )
    classes = infer(server, module, "multi", values)
    assert classes.shape == (50,)
    assert classes.tolist() == expected_of(trained["multi"], values).argmax(1).tolist()


@PROTOCOLS
def test_shapley_values_are_those_of_the_library(
    server: ServerProcess, module: Any, trained: dict[str, Any]
) -> None:
    values = rows(seed=22, count=20)
    found = infer(server, module, "explained", values, output="treeshap_output")
    expected = trained["binary"].predict(xgboost.DMatrix(values), pred_contribs=True)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@PROTOCOLS
def test_requests_of_many_clients_each_get_their_rows(
    server: ServerProcess, module: Any, trained: dict[str, Any]
) -> None:
    values = rows(seed=21, count=64)
    expected = expected_of(trained["multi"], values).argmax(1)
    found: dict[int, Array] = {}

    def ask(first: int) -> None:
        found[first] = infer(server, module, "multi", values[first : first + 4])

    threads = [threading.Thread(target=ask, args=(first,)) for first in range(0, 64, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.concatenate([found[first] for first in sorted(found)]).tolist() == expected.tolist()


@PROTOCOLS
def test_a_request_of_another_number_of_features_fails_alone(
    server: ServerProcess, module: Any
) -> None:
    with pytest.raises(InferenceServerException, match="input__0"):
        infer(server, module, "binary", np.zeros((1, models.FEATURES + 1), np.float32))
    assert infer(server, module, "binary", rows(count=1)).shape == (1, 2)


def test_models_that_cannot_be_served_say_why_and_are_the_only_ones(server: ServerProcess) -> None:
    with tritonclient.http.InferenceServerClient(server.http) as client:
        index = {each["name"]: each for each in client.get_model_repository_index()}
    broken = {name: each["reason"] for name, each in index.items() if each["state"] != "READY"}
    assert set(index) - set(broken) == {"binary", "multi", "explained"}
    others = {name: reason for name, reason in broken.items() if name != "gpu"}
    assert {
        name: reason for name, reason in others.items() if "unable to load model" not in reason
    } == {}
    assert "the forest is damaged (tree 0: its nodes are not those of a tree)" in broken["cycle"]
    assert "was trained with linear_tree=true" in broken["linear"]
    assert "does not support, because treelite computes trees on the CPU" in broken["gpu"]


def test_the_server_itself_has_no_treelite(server: ServerProcess) -> None:
    assert server.process is not None
    maps = psutil.Process(server.process.pid).memory_maps()
    assert not [each.path for each in maps if "treelite" in each.path]


def test_parameters_without_effect_are_in_the_log(server: ServerProcess) -> None:
    for key in ("layout", "algo", "storage_type", "blocks_per_sm"):
        assert f"parameters {key} has no effect: " in server.output()


def test_models_for_gpus_are_served_on_the_cpu_if_asked(
    tmp_path: pathlib.Path, trained: dict[str, Any]
) -> None:
    text = config(1, kind="KIND_GPU", model_type="xgboost_json", is_classifier="true")
    put(tmp_path / "models" / "gpu", trained["binary"], "xgboost.json", text)
    values = rows(seed=22, count=9)
    with ServerProcess(
        naiad_program(), [tmp_path / "models"], log=tmp_path / "log", options=["--gpu-fallback=cpu"]
    ) as server:
        found = infer(server, tritonclient.grpc, "gpu", values)
    assert found.tolist() == (expected_of(trained["binary"], values) > 0.5).tolist()


@PROTOCOLS
def test_classes_are_named_with_the_classification_extension(
    server: ServerProcess, module: Any, trained: dict[str, Any]
) -> None:
    address = server.http if module is tritonclient.http else server.grpc
    values = rows(seed=23, count=2)
    with module.InferenceServerClient(address) as client:
        tensor = module.InferInput("input__0", list(values.shape), "FP32")
        tensor.set_data_from_numpy(values)
        wanted = module.InferRequestedOutput("output__0", class_count=1)
        found = client.infer("binary", [tensor], outputs=[wanted]).as_numpy("output__0")
    labels = (expected_of(trained["binary"], values) > 0.5).astype(int)
    assert [int(each[0].split(b":")[1]) for each in found] == labels.tolist()
