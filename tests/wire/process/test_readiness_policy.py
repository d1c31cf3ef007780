"""`--readiness-policy`: one model that fails among others, over HTTP and gRPC; and that nothing is accepted before the start has ended."""

import pathlib
import socket

import pytest
import tritonclient.grpc
import tritonclient.http

from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

CONFIG = 'backend: "python"\ninput { name: "i" data_type: TYPE_FP32 dims: 1 }\noutput { name: "o" data_type: TYPE_FP32 dims: 1 }\n'
MODEL = """
import os
import time


class TritonPythonModel:
    def initialize(self, args):
        BODY

    def execute(self, requests):
        return []
"""


def server(folder: pathlib.Path, bodies: dict[str, str], *options: str) -> ServerProcess:
    for name, body in bodies.items():
        version = folder / "models" / name / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text(MODEL.replace("BODY", body))
        (version.parent / "config.pbtxt").write_text(CONFIG)
    options = ("--exit-on-error=false", "--backend-config=python,host=thread", *options)
    return ServerProcess(naiad_program(), [folder / "models"], log=folder / "log", options=options)


@pytest.mark.parametrize(
    ("policy", "ready"),
    [("all", False), ("any", True), ("models:good", True), ("models:good,bad", False)],
)
def test_one_bad_model_keeps_the_others_from_clients_only_if_the_policy_says_so(
    tmp_path: pathlib.Path, policy: str, *, ready: bool
) -> None:
    bodies = {"good": "pass", "bad": "raise RuntimeError('no weights')"}
    with server(tmp_path, bodies, f"--readiness-policy={policy}") as running:
        with tritonclient.http.InferenceServerClient(running.http) as client:
            assert client.is_server_live()
            assert client.is_server_ready() is ready
            assert client.is_model_ready("good")
            assert not client.is_model_ready("bad")
        with tritonclient.grpc.InferenceServerClient(running.grpc) as grpc:
            assert grpc.is_server_ready() is ready


def test_a_name_that_the_repository_lacks_is_said(tmp_path: pathlib.Path) -> None:
    with server(tmp_path, {"good": "pass"}, "--readiness-policy=models:good,goood") as running:
        with tritonclient.http.InferenceServerClient(running.http) as client:
            assert not client.is_server_ready()
        assert (
            "which --readiness-policy names and the start did not load: goood" in running.output()
        )


def test_connections_are_refused_until_each_model_was_loaded_or_has_failed(
    tmp_path: pathlib.Path,
) -> None:
    """So a startup probe may ask for liveness: a server that responds has finished its loads."""
    gate = tmp_path / "go"
    wait = f"print('waits', flush=True)\n        while not os.path.exists({str(gate)!r}): time.sleep(0.05)"
    bodies = {"slow": wait, "bad": "raise RuntimeError('no weights')"}
    running = server(tmp_path, bodies, "--readiness-policy=any").start()
    try:
        wait_until(lambda: "waits" in running.output())
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", running.ports.http), timeout=1)
        gate.touch()
        with tritonclient.http.InferenceServerClient(running.http) as client:
            wait_until(lambda: _is_ready(client))
            assert not client.is_model_ready("bad")
    finally:
        running.stop()


def _is_ready(client: tritonclient.http.InferenceServerClient) -> bool:
    try:
        return bool(client.is_server_ready())
    except OSError:
        return False
