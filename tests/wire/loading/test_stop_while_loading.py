"""The end of the server while a model loads: the load is cancelled, or what cannot be cancelled does not keep the process."""

import concurrent.futures
import pathlib
import signal

import pytest

from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import wait_until
from tests.wire.plain_http import call

pytestmark = pytest.mark.slow


def stuck(folder: pathlib.Path, *options: str) -> ServerProcess:
    """A server, to be started, with a model that does not come back from `initialize`."""
    version = folder / "models" / "stuck" / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(
        "import threading\n\n\n"
        "class TritonPythonModel:\n"
        "    def initialize(self, args):\n"
        "        print('initialize waits', flush=True)\n"
        "        threading.Event().wait()\n\n"
        "    def execute(self, requests):\n"
        "        return []\n"
    )
    config = 'backend: "python"\noutput { name: "o" data_type: TYPE_FP32 dims: 1 }\n'
    (version.parent / "config.pbtxt").write_text(config)
    return ServerProcess(naiad_program(), [folder / "models"], log=folder / "log", options=options)


def test_a_model_that_never_ends_loading_does_not_keep_the_process(tmp_path: pathlib.Path) -> None:
    options = ("--backend-config=python,host=thread", "--exit-timeout-secs=1")
    server = stuck(tmp_path, *options).start()
    wait_until(lambda: "initialize waits" in server.output())
    assert server.stop() == 1
    assert "waiting for 1 models that are being loaded" in server.output()
    assert "Exit timeout expired. Exiting immediately." in server.output()


def test_a_model_that_loads_in_a_process_of_its_own_is_given_up_at_the_end(
    tmp_path: pathlib.Path,
) -> None:
    server = stuck(tmp_path).start()
    wait_until(lambda: "initialize waits" in server.output())
    assert server.process is not None
    server.ask_to_stop()
    assert server.process.wait(20) == 0


@pytest.mark.parametrize("retries", [0, 3])
def test_a_client_that_waits_for_a_load_in_a_process_does_not_delay_the_end(
    tmp_path: pathlib.Path, retries: int
) -> None:
    options = ("--model-control-mode=explicit", f"--model-load-retry-count={retries}")
    with (
        stuck(tmp_path, *options) as server,
        concurrent.futures.ThreadPoolExecutor() as clients,
    ):
        over_http = clients.submit(
            call, server.http, "POST", "/v2/repository/models/stuck/load", {}
        )
        wait_until(lambda: "initialize waits" in server.output())
        assert server.process is not None
        server.ask_to_stop()
        assert server.process.wait(60) == 0, "1 if it needed all of its 30 s"
        status, body = over_http.result()
    assert (status, b"the server is stopping" in body) == (400, True)
    assert "Exit timeout expired" not in server.output()


def test_a_second_ctrl_c_exits_at_once_while_a_model_loads(tmp_path: pathlib.Path) -> None:
    options = ("--backend-config=python,host=thread",)
    server = stuck(tmp_path, *options).start()
    wait_until(lambda: "initialize waits" in server.output())
    assert server.process is not None
    server.process.send_signal(signal.SIGINT)
    wait_until(lambda: "SIGINT: stopping" in server.output())
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(60) == 1
