"""A server with TensorFlow models in worker processes, through tritonclient."""

import collections.abc
import re
from typing import Any

import numpy as np
import psutil
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

from tests.frameworks.tensorflow.models import save
from tests.frameworks.tensorflow.test_backend import Checks, scale
from tests.reference.process import ServerProcess, naiad_program

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("tensorflow")
    models = folder / "models"
    scale(models / "scale")
    module = Checks()
    save(models / "checks", module, serving_default=module.serve)
    (models / "broken" / "1" / "model.savedmodel").mkdir(parents=True)
    with ServerProcess(
        naiad_program(), [models], log=folder / "log", options=["--exit-on-error=false"]
    ) as running:
        yield running


def infer(server: ServerProcess, module: Any, model: str, values: Any) -> Any:
    address = server.http if module is tritonclient.http else server.grpc
    with module.InferenceServerClient(address) as client:
        array = np.array(values, np.float32)
        tensor = module.InferInput("x", list(array.shape), "FP32")
        tensor.set_data_from_numpy(array)
        return client.infer(model, [tensor]).as_numpy("y").tolist()


@pytest.mark.parametrize("module", [tritonclient.http, tritonclient.grpc], ids=["HTTP", "gRPC"])
def test_models_answer_and_a_failure_is_the_request_s_alone(
    server: ServerProcess, module: Any
) -> None:
    assert infer(server, module, "scale", [[1, 2]]) == [[2.0, 4.0]]
    with pytest.raises(InferenceServerException, match="only positive values"):
        infer(server, module, "checks", [[-1]])
    assert infer(server, module, "checks", [[1]]) == [[1.0]]


def test_a_folder_without_a_model_is_the_only_one_that_is_not_served(server: ServerProcess) -> None:
    with tritonclient.http.InferenceServerClient(server.http) as client:
        index = {each["name"]: each for each in client.get_model_repository_index()}
    assert {name: each["state"] for name, each in index.items()} == {
        "scale": "READY",
        "checks": "READY",
        "broken": "UNAVAILABLE",
    }
    assert "unable to find" in index["broken"]["reason"]
    assert "saved_model.pb" in index["broken"]["reason"]


def test_the_server_itself_has_no_tensorflow(server: ServerProcess) -> None:
    assert server.process is not None
    maps = psutil.Process(server.process.pid).memory_maps()
    assert not [each.path for each in maps if "tensorflow" in each.path]


def test_the_log_has_no_warnings_of_tensorflow(server: ServerProcess) -> None:
    assert not re.findall(
        r".*(?:WARNING:tensorflow|FutureWarning|DeprecationWarning).*", server.output()
    )
