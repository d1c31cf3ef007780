"""A function called in a process of its own: its result, or an error that says what became of it."""

import collections.abc
import logging
import os
import pathlib
import resource
import time
from typing import Any

import pytest

from naiad.backends.python.backend import PythonBackend
from naiad.core.clock import SystemClock
from naiad.core.messages import model_config_pb2
from naiad.engine.instances.workers import run_one_shot
from naiad.errors import ErrorCode, InferenceError
from naiad.hosts.process.output_log import Identity
from tests.server.hosts.process.workers import GIVE_UP_S, exists, lines, model, open_descriptors

IDENTITY = Identity("m", 1, "config")


def completed(
    folder: pathlib.Path, body: str, *, timeout_s: float = GIVE_UP_S, identity: Identity = IDENTITY
) -> Any:
    """What becomes of the config of a model whose class has this body."""
    model(folder, body)
    message = model_config_pb2.ModelConfig(name="m", backend="python")
    backend = PythonBackend(clock=SystemClock())
    plan = backend.completion_plan(message, folder / "1", {})
    assert plan is not None
    backend.take_completion(message, run_one_shot(identity, plan, timeout_s=timeout_s))
    return message


def test_it_runs_in_a_server_with_more_descriptors_than_select_knows(
    tmp_path: pathlib.Path, many_descriptors: None
) -> None:
    text = """
        @staticmethod
        def auto_complete_config(config):
            config.set_max_batch_size(4)
            return config
        """
    message = completed(tmp_path, text + EXECUTE.replace("\n", "\n        "))
    assert message.max_batch_size == 4


@pytest.fixture
def many_descriptors() -> collections.abc.Iterator[None]:
    """Whatever this process opens has a number above 1,023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    held: list[int] = []
    while not held or held[-1] < 1024:
        held.append(os.dup(0))
    yield
    for each in held:
        os.close(each)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


EXECUTE = """
def execute(self, requests):
    return same(requests)
"""


def test_a_model_completes_its_config_in_a_process_that_is_gone_afterwards(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "naiad")
    before = open_descriptors()
    message = completed(
        tmp_path,
        """
        @staticmethod
        def auto_complete_config(config):
            print("completing in", os.path.basename(os.getcwd()) and os.getpid())
            config.set_max_batch_size(4)
            config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [2]})
            return config
        """
        + EXECUTE.replace("\n", "\n        "),
    )
    assert message.max_batch_size == 4
    assert [each.name for each in message.input] == ["IN"]
    assert any(
        line.startswith("[m config] completing in ") for line in lines(caplog, "naiad.models")
    )
    assert open_descriptors() == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "code", "message"),
    [
        ("raise ValueError('two configs')", ErrorCode.INVALID_ARG, "ValueError: two configs"),
        ("return 7", ErrorCode.INVALID_ARG, "must return a valid pb.ModelConfig object"),
        ("os.abort()", ErrorCode.UNAVAILABLE, "was ended by SIGABRT while it completed"),
        ("print('bye'); os._exit(3)", ErrorCode.UNAVAILABLE, "exited with status 3"),
        ("time.sleep(60)", ErrorCode.UNAVAILABLE, "took longer than 1 s"),
        ("os.fork() or time.sleep(500); os.abort()", ErrorCode.UNAVAILABLE, "SIGABRT"),
    ],
)
def test_a_completion_that_fails_says_how(
    tmp_path: pathlib.Path, what: str, code: ErrorCode, message: str
) -> None:
    before = open_descriptors()
    with pytest.raises(InferenceError) as failure:
        completed(
            tmp_path,
            f"""
            def auto_complete_config(config):
                {what}
            def execute(self, requests):
                return same(requests)
            """,
            timeout_s=1 if "60" in what else GIVE_UP_S,
        )
    assert failure.value.code is code
    assert message in failure.value.message
    assert open_descriptors() == before


def test_what_the_model_started_ends_with_it(tmp_path: pathlib.Path) -> None:
    completed(
        tmp_path,
        """
        @staticmethod
        def auto_complete_config(config):
            child = os.fork()
            if not child:
                time.sleep(60)
            with open(os.path.join(os.path.dirname(__file__), "child"), "w") as file:
                file.write(str(child))
            return config
        def execute(self, requests):
            return same(requests)
        """,
    )
    child = int((tmp_path / "1" / "child").read_text())
    end = time.monotonic() + GIVE_UP_S
    while exists(child):
        assert time.monotonic() < end


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("class TritonPythonModel:\n    def execute(self, requests): ...", [False]),
        ("class TritonPythonModel:\n    def auto_complete_config(c): ...", [True]),
        ("from base import Base\nclass TritonPythonModel(Base): ...", [True]),
        ("from base import TritonPythonModel", [True]),
        ("not a Python file", [False]),
    ],
)
def test_a_model_is_asked_only_when_it_may_have_something_to_say(
    tmp_path: pathlib.Path, text: str, asked: list[bool]
) -> None:
    (tmp_path / "model.py").write_text(text)
    plan = PythonBackend(clock=SystemClock()).completion_plan(
        model_config_pb2.ModelConfig(name="m"), tmp_path, {}
    )
    assert [plan is not None] == asked


def test_a_models_name_may_look_like_an_option(tmp_path: pathlib.Path) -> None:
    message = completed(
        tmp_path,
        """
        @staticmethod
        def auto_complete_config(config):
            config.set_max_batch_size(4)
            return config
        """
        + EXECUTE.replace("\n", "\n        "),
        identity=Identity("-dash", 1, "--instance"),
    )
    assert message.max_batch_size == 4
