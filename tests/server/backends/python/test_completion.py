"""`auto_complete_config` of a model in a thread: what it may change, and what is said when it goes wrong (rows 11.48, 15.27)."""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

import naiad
from naiad.backends.python.backend import PythonBackend
from naiad.core.clock import ManualClock
from naiad.core.messages import model_config_pb2
from naiad.errors import InferenceError
from tests.server.backends.python.models import IDENTITY, write

COMPLETE = """
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        @staticmethod
        def auto_complete_config(config):
            {body}

        def execute(self, requests): ...
"""


def complete(folder: pathlib.Path, body: str, **given: Any) -> Any:
    message = model_config_pb2.ModelConfig(name="m", backend="python", **given)
    write(folder, COMPLETE.format(body=body.replace("\n", "\n            ")))
    PythonBackend(clock=ManualClock()).complete(message, folder / "1", {})
    return message


def test_a_model_completes_its_config(tmp_path: pathlib.Path) -> None:
    message = complete(
        tmp_path,
        """config.add_input({"name": "A", "data_type": "TYPE_FP32", "dims": [-1, 4], "optional": True})
config.add_output({"name": "B", "data_type": "TYPE_STRING", "dims": [1]})
config.set_max_batch_size(4)
config.set_dynamic_batching()
config.set_model_transaction_policy({"decoupled": False})
return config""",
    )
    (a,), (b,) = message.input, message.output
    assert (a.name, list(a.dims), a.optional) == ("A", [-1, 4], True)
    assert (b.name, b.data_type) == ("B", model_config_pb2.TYPE_STRING)
    assert message.max_batch_size == 4
    assert message.HasField("dynamic_batching")
    assert not message.model_transaction_policy.decoupled


def test_numbers_of_numpy_are_numbers(tmp_path: pathlib.Path) -> None:
    body = """import numpy as np
config.set_max_batch_size(np.int64(4))
config.add_input({"name": "A", "data_type": "TYPE_FP32", "dims": list(np.array([2, 3]))})
config.add_output({"name": "B", "data_type": "TYPE_FP32", "dims": np.array([5])})
return config"""
    message = complete(tmp_path, body)
    assert message.max_batch_size == 4
    assert (list(message.input[0].dims), list(message.output[0].dims)) == ([2, 3], [5])
    settings = {
        "name": "m",
        "path": str(tmp_path / "1" / "model.py"),
        "root": str(tmp_path),
        "version_dir": str(tmp_path / "1"),
    }
    completed = apart(tmp_path, settings)
    assert completed["result"]["input"][0]["dims"] == [2, 3]


def apart(folder: pathlib.Path, settings: dict[str, str]) -> Any:
    """What a process of its own makes of an empty config."""
    config = '{"name": "m", "max_batch_size": 0, "input": [], "output": []}'
    code = f"""
import json
from naiad.backends.python.completion import complete
from naiad.errors import InferenceError
try:
    print(json.dumps({{"result": complete({{**{settings!r}, "config": {config!r}}})}}))
except InferenceError as refusal:
    print(json.dumps({{"refusal": refusal.message}}))
"""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=True,
        timeout=50,
        env={**os.environ, "PYTHONPATH": str(pathlib.Path(naiad.__file__).parents[1])},
    )
    return json.loads(ran.stdout)


def test_what_no_config_can_hold_is_said_by_a_process_too(tmp_path: pathlib.Path) -> None:
    body = 'config.add_input({"name": "A", "data_type": float, "dims": [1]})\nreturn config'
    with pytest.raises(
        InferenceError, match="other than a model configuration: <class 'float'> is neither"
    ):
        complete(tmp_path, body)
    settings = {
        "name": "m",
        "path": str(tmp_path / "1" / "model.py"),
        "root": str(tmp_path),
        "version_dir": str(tmp_path / "1"),
    }
    assert "<class 'float'> is neither" in apart(tmp_path, settings)["refusal"]


def test_only_what_a_backend_may_set_is_taken_over(tmp_path: pathlib.Path) -> None:
    message = complete(tmp_path, 'config.as_dict()["name"] = "other"\nreturn config')
    assert message.name == "m"


def test_a_scheduler_that_the_config_names_stays(tmp_path: pathlib.Path) -> None:
    given = model_config_pb2.ModelConfig().dynamic_batching
    given.max_queue_delay_microseconds = 7
    message = complete(
        tmp_path,
        'config.as_dict()["dynamic_batching"] = {"max_queue_delay_microseconds": 9}\nreturn config',
        dynamic_batching=given,
    )
    assert message.dynamic_batching.max_queue_delay_microseconds == 7


def test_a_model_without_the_hook_leaves_its_config_alone(tmp_path: pathlib.Path) -> None:
    message = model_config_pb2.ModelConfig(name="m", backend="python", max_batch_size=3)
    before = message.SerializeToString()
    write(tmp_path, IDENTITY)
    PythonBackend(clock=ManualClock()).complete(message, tmp_path / "1", {})
    assert message.SerializeToString() == before


@pytest.mark.parametrize(
    ("body", "fragment"),
    [
        ("return 5", "must return a valid pb.ModelConfig object; it returned int"),
        ("pass", "it returned nothing"),
        ("config.set_max_batch_size(1)", "specified max_batch_size 8, but in auto-complete-config"),
        (
            'config.as_dict()["input"] = [{"dims": "wide"}]\nreturn config',
            "other than a model configuration",
        ),
        ("raise RuntimeError('boom')", "auto_complete_config failed: RuntimeError: boom"),
    ],
)
def test_a_completion_that_fails_says_why(tmp_path: pathlib.Path, body: str, fragment: str) -> None:
    with pytest.raises(InferenceError) as caught:
        complete(tmp_path, body, max_batch_size=8)
    assert fragment in caught.value.message
