"""Python models with an environment of their own: what their workers are started with, and where their configs are completed."""

import os
import pathlib
import subprocess
import sys
import sysconfig
from typing import Any

import pytest

from naiad.backends.backend import ModelSource
from naiad.backends.instance import InstanceSpec
from naiad.backends.python.backend import PythonBackend
from naiad.config.model_config import InstanceKind, ModelConfig
from naiad.core.clock import ManualClock
from naiad.core.messages import model_config_pb2
from naiad.engine.instances.workers import run_one_shot
from naiad.errors import InferenceError
from naiad.hosts.process.output_log import Identity
from tests.server.backends.python.models import IDENTITY, python_config, write

MODEL = """
    import only_there
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        @staticmethod
        def auto_complete_config(config):
            print("completing in", only_there.NAME)
            {body}

        def execute(self, requests): ...
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A virtual environment with a module `only_there`, and the server's packages for numpy's sake."""
    folder = tmp_path_factory.mktemp("envs") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "only_there.py").write_text("NAME = 'its own'\n")
    (packages / "servers.pth").write_text(sysconfig.get_path("platlib"))
    return folder


def source(folder: pathlib.Path, config: ModelConfig | None = None) -> ModelSource:
    return ModelSource(
        config=config or python_config(),
        version=1,
        model_dir=folder,
        options={},
    )


def spec(kind: InstanceKind = InstanceKind.CPU, device: int = 0) -> InstanceSpec:
    return InstanceSpec(name="m_0_0", kind=kind, device_id=device)


def packed(environment: pathlib.Path) -> dict[str, str]:
    return {"EXECUTION_ENV_PATH": str(environment)}


def complete(folder: pathlib.Path, environment: pathlib.Path, body: str) -> Any:
    message = model_config_pb2.ModelConfig(name="m", backend="python")
    message.parameters["EXECUTION_ENV_PATH"].string_value = str(environment)
    write(folder, MODEL.format(body=body))
    one_shot(message, folder)
    return message


def one_shot(message: Any, folder: pathlib.Path) -> None:
    """Complete a config as the loader does."""
    backend = PythonBackend(clock=ManualClock())
    plan = backend.completion_plan(message, folder / "1", {})
    assert plan is not None
    result = run_one_shot(Identity("m", 1, "config"), plan, timeout_s=20)
    backend.take_completion(message, result)


def test_a_worker_is_started_with_the_interpreter_of_its_model(
    environment: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    backend = PythonBackend(clock=ManualClock())
    config = python_config(parameters=packed(environment))
    plan = backend.worker_plan(source(write(tmp_path, IDENTITY), config), spec())
    assert plan.executable == str(environment / "bin" / "python")
    assert plan.environ["VIRTUAL_ENV"] == str(environment)


def test_other_workers_are_started_with_the_servers(tmp_path: pathlib.Path) -> None:
    plan = PythonBackend(clock=ManualClock()).worker_plan(source(write(tmp_path, IDENTITY)), spec())
    assert plan.executable == sys.executable
    assert plan.environ == {}


def test_a_worker_of_a_gpu_sees_that_gpu_as_0(
    environment: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(os.environ, "CUDA_VISIBLE_DEVICES", raising=False)
    backend = PythonBackend(clock=ManualClock())
    config = python_config(parameters=packed(environment))
    plan = backend.worker_plan(source(write(tmp_path, IDENTITY), config), spec(InstanceKind.GPU, 3))
    assert plan.environ["CUDA_VISIBLE_DEVICES"] == "3"
    assert plan.environ["VIRTUAL_ENV"] == str(environment)
    assert plan.settings["arguments"]["model_instance_device_id"] == "0"


def test_a_config_is_completed_where_what_the_model_imports_is(
    environment: pathlib.Path, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="naiad")
    message = complete(
        tmp_path,
        environment,
        'config.add_input({"name": "A", "data_type": "TYPE_FP32", "dims": [4]}); config.set_max_batch_size(3); return config',
    )
    assert [each.name for each in message.input] == ["A"]
    assert message.max_batch_size == 3
    assert "completing in its own" in caplog.text
    assert "only_there" not in sys.modules


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("return None", "must return a valid pb.ModelConfig object; it returned nothing"),
        ("1 / 0", r"auto_complete_config failed: ZeroDivisionError: .*\n\nAt:\n  .*model.py\(9\)"),
        ("import os; os._exit(3)", "its worker process exited with status 3"),
    ],
)
def test_a_completion_that_fails_there_says_why(
    body: str, error: str, environment: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(InferenceError, match=error):
        complete(tmp_path, environment, body)


def test_a_model_that_cannot_be_imported_there_says_why(
    environment: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    write(tmp_path, "import nonesuch  # auto_complete_config")
    message = model_config_pb2.ModelConfig(name="m", backend="python")
    message.parameters["EXECUTION_ENV_PATH"].string_value = str(environment)
    with pytest.raises(InferenceError, match="No module named 'nonesuch'"):
        one_shot(message, tmp_path)


def test_a_thread_of_the_server_cannot_have_another_environment(tmp_path: pathlib.Path) -> None:
    write(tmp_path, {"1/model.py": IDENTITY, "requirements.txt": "torch"})
    with pytest.raises(InferenceError, match=r"requirements\.txt.*naiad\.host to \"process\""):
        PythonBackend(clock=ManualClock()).load(source(tmp_path))
    message = model_config_pb2.ModelConfig(name="m", backend="python")
    with pytest.raises(InferenceError, match=r"requirements\.txt.*naiad\.host to \"process\""):
        PythonBackend(clock=ManualClock()).complete(message, tmp_path / "1", {})
