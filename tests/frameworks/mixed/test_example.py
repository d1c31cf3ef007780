"""The example repository with a model of each framework, served by one server: all answer alike, and each framework is in the process of its model alone."""

import pathlib
import subprocess
import sys

import make_models
import numpy as np
import psutil
import pytest
import tritonclient.grpc
import tritonclient.http

from tests.reference.process import ServerProcess, naiad_program

EXAMPLE = pathlib.Path(make_models.__file__)
FRAMEWORKS = {"torch": "libtorch_cpu", "tensorflow": "libtensorflow_cc", "openvino": "libopenvino"}
"""The package, and what the name of its library begins with."""

MODELS = {
    "in_onnx": set[str](),
    "in_python": set[str](),
    "in_torchscript": {"torch"},
    "in_torch_export": {"torch"},
    "in_tensorflow": {"tensorflow"},
    "in_openvino": {"openvino"},
}


def frameworks_in(process: psutil.Process) -> set[str]:
    mapped = {pathlib.Path(each.path).name for each in process.memory_maps()}
    return {
        package
        for package, library in FRAMEWORKS.items()
        if any(name.startswith(library) for name in mapped)
    }


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_framework_answers_alike_and_is_in_its_own_process(tmp_path: pathlib.Path) -> None:
    models = tmp_path / "models"
    done = subprocess.run([sys.executable, "-W", "ignore", str(EXAMPLE), str(models)], check=True, capture_output=True, text=True)  # fmt: skip
    assert "is left out" not in done.stdout
    assert {each.name for each in models.iterdir()} == set(MODELS)
    features = np.random.default_rng(3).random((5, make_models.FEATURES), np.float32)
    expected = features @ make_models.WEIGHTS + make_models.BIASES
    with ServerProcess(naiad_program(), [models], log=tmp_path / "log", settle_s=300) as server:
        for client, address in ((tritonclient.http, server.http), (tritonclient.grpc, server.grpc)):
            with client.InferenceServerClient(address) as connected:
                for model in MODELS:
                    places = "torch" in model
                    given = client.InferInput("INPUT__0" if places else "features", [5, 4], "FP32")
                    given.set_data_from_numpy(features)
                    answer = connected.infer(model, [given])
                    scores = answer.as_numpy("OUTPUT__0" if places else "scores")
                    np.testing.assert_allclose(scores, expected, atol=1e-6, err_msg=model)
        assert server.process is not None
        process = psutil.Process(server.process.pid)
        assert frameworks_in(process) == set()
        found = [frameworks_in(each) for each in process.children(recursive=True)]
        for framework in FRAMEWORKS:
            wanted = sum(framework in each for each in MODELS.values())
            assert sum(framework in each for each in found) == wanted, (framework, found)
        assert all(len(each) <= 1 for each in found)
