"""The server as a process: exit statuses, signals, drain, ports, restricted APIs."""

import collections.abc
import contextlib
import dataclasses
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading

import grpc
import psutil
import pytest
from tritonclient.grpc import service_pb2

from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import wait_until
from tests.wire.plain_http import call, get


def infer(address: str, model: str, name: str, values: list[float], shape: list[int]) -> int:
    """The status of one request; 0 when there was no answer."""
    body = {"inputs": [{"name": name, "datatype": "FP32", "shape": shape, "data": values}]}
    try:
        return call(address, "POST", f"/v2/models/{model}/infer", body)[0]
    except (OSError, http.client.HTTPException):
        return 0


ADD, TEXT, SLOW = (
    ("--model-control-mode=explicit", f"--load-model={name}") for name in ("add", "text", "slow")
)
"""Options that load one model: a start with all of them costs twice as much."""


def launched(models: pathlib.Path, tmp_path: pathlib.Path, *options: str) -> ServerProcess:
    return ServerProcess(naiad_program(), [models], log=tmp_path / "log", options=options)


@pytest.mark.usefixtures("whole_interpreter")
def test_sigterm_ends_with_0_and_says_what_it_does(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with launched(models, tmp_path, *ADD) as server:
        assert server.stop() == 0
        log = server.output()
    assert "Started HTTPService at 127.0.0.1:" in log
    assert "SIGTERM: stopping" in log
    assert "successfully unloaded 'add' version 1" in log


@pytest.mark.slow
@pytest.mark.usefixtures("whole_interpreter")
def test_sighup_of_a_closed_terminal_ends_with_a_drain(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with launched(models, tmp_path, *TEXT) as server:
        assert server.process is not None
        workers = psutil.Process(server.process.pid).children()
        # The terminal's end reaches every process of its group.
        for pid in (*(worker.pid for worker in workers), server.process.pid):
            os.kill(pid, signal.SIGHUP)
        assert server.process.wait(60) == 0
        log = server.output()
    assert "SIGHUP: stopping" in log
    assert "successfully unloaded 'text' version 1" in log
    assert "worker process" not in log.split("SIGHUP: stopping")[1]


@pytest.mark.slow
def test_nohup_keeps_the_server(models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    program = naiad_program()
    program = dataclasses.replace(program, command=("nohup", *program.command))
    with ServerProcess(program, [models], log=tmp_path / "log", options=ADD) as server:
        assert server.process is not None
        server.process.send_signal(signal.SIGHUP)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
        assert "SIGHUP" not in server.output()


@pytest.mark.slow
def test_a_signal_while_the_server_is_imported_ends_it_with_0(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    server = launched(models, tmp_path)
    with subprocess.Popen(
        server.command, env=dict(server.program.environ), stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: catches(process.pid, signal.SIGTERM))
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        output = process.stderr.read()
        assert process.wait(60) == 0
    assert "SIGTERM: stopping" in output
    assert "loading" not in output


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) & (1 << (number - 1)))
    raise AssertionError(f"process {pid} is not there any more")


@pytest.mark.slow
def test_a_log_file_that_cannot_be_written_is_reported_once_and_the_server_serves(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with launched(models, tmp_path, *ADD, "--log-file=/dev/full") as server:
        assert get(server.http, "/v2/health/ready")[0] == 200
        assert server.stop() == 0
        output = server.output()
    assert "--log-file=/dev/full cannot be written: No space left on device" in output
    assert output.count("cannot be written") == 1
    assert "Traceback" not in output
    assert "Logging error" not in output


@contextlib.contextmanager
def one_running_one_waiting(
    server: ServerProcess, *, seconds: float
) -> collections.abc.Iterator[list[int]]:
    """Two requests to a model with one instance: once one waits, the other is inside the model. Gives their statuses."""
    statuses: list[int] = []

    def ask(how_long: float) -> None:
        statuses.append(infer(server.http, "slow", "SECONDS", [how_long], [1]))

    asking = [threading.Thread(target=ask, args=(each,)) for each in (seconds, 0.0)]
    waiting = b'nv_inference_pending_request_count{model="slow",version="1"} 1'
    asking[0].start()
    wait_until(lambda: "slow: begun" in server.output())
    asking[1].start()
    wait_until(lambda: waiting in get(server.metrics, "/metrics")[1])
    yield statuses
    for each in asking:
        each.join()


@pytest.mark.slow
@pytest.mark.usefixtures("whole_interpreter")
def test_requests_in_flight_and_in_the_queue_are_finished_before_the_end(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with (
        launched(models, tmp_path, *SLOW) as server,
        one_running_one_waiting(server, seconds=3.0) as statuses,
    ):
        assert server.stop() == 0
    assert statuses == [200, 200]


@pytest.mark.slow
@pytest.mark.usefixtures("whole_interpreter")
def test_during_the_delay_it_is_not_ready_and_still_answers(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with launched(models, tmp_path, *ADD, "--shutdown-delay-secs=4") as server:
        assert server.process is not None
        assert get(server.http, "/v2/health/ready")[0] == 200
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: get(server.http, "/v2/health/ready")[0] == 400)
        assert get(server.http, "/v2/health/live")[0] == 200
        assert infer(server.http, "add", "x", [1, 2, 3, 4], [1, 4]) == 200
        assert server.process.wait(20) == 0


@pytest.mark.slow
@pytest.mark.usefixtures("whole_interpreter")
def test_no_request_is_lost_while_it_drains_under_load(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Clients that open a connection a request and stop once the server says not ready, as behind a load balancer."""
    lost: list[int] = []
    answered: list[int] = []
    with launched(models, tmp_path, *ADD, "--shutdown-delay-secs=4") as server:
        ready = threading.Event()
        ready.set()

        def ask() -> None:
            while ready.is_set():
                status = infer(server.http, "add", "x", [1, 2, 3, 4], [1, 4])
                (answered if status == 200 else lost).append(status)

        clients = [threading.Thread(target=ask) for _ in range(4)]
        for client in clients:
            client.start()
        wait_until(lambda: len(answered) > 20)
        assert server.process is not None
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: get(server.http, "/v2/health/ready")[0] == 400)
        before = len(answered)
        wait_until(lambda: len(answered) > before + 20)
        ready.clear()
        for client in clients:
            client.join()
        assert server.process.wait(20) == 0
    assert lost == []


@pytest.mark.slow
@pytest.mark.parametrize("host", ["process", "thread"])
@pytest.mark.usefixtures("whole_interpreter")
def test_what_does_not_end_in_time_is_refused_and_said_and_exits_with_1(
    host: str, models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    options = ("--exit-timeout-secs=1", f"--backend-config=python,host={host}")
    with (
        launched(models, tmp_path, *SLOW, *options) as server,
        one_running_one_waiting(server, seconds=30.0) as statuses,
        grpc.insecure_channel(server.grpc) as channel,
    ):
        over_grpc = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer").future(
            slow_request()
        )
        waiting = b'nv_inference_pending_request_count{model="slow",version="1"} 2'
        wait_until(lambda: waiting in get(server.metrics, "/metrics")[1])
        assert server.stop() == 1, "it waits for no request, or it would be killed"
        assert (
            "Exit timeout expired. Exiting immediately. (3 inferences were not answered)"
            in server.output()
        )
        assert over_grpc.code() is grpc.StatusCode.UNAVAILABLE
        assert "Server exiting: " in over_grpc.details()
    assert statuses == [503, 503]


def slow_request() -> bytes:
    request = service_pb2.ModelInferRequest(model_name="slow")
    request.inputs.add(name="SECONDS", datatype="FP32", shape=[1]).contents.fp32_contents.append(0)
    data: bytes = request.SerializeToString()
    return data


@pytest.mark.slow
@pytest.mark.usefixtures("whole_interpreter")
def test_a_second_ctrl_c_exits_at_once(models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with launched(models, tmp_path, *ADD, "--shutdown-delay-secs=30") as server:
        assert server.process is not None
        server.process.send_signal(signal.SIGINT)
        wait_until(lambda: "SIGINT: stopping" in server.output())
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(60) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("whole_interpreter")
def test_a_signal_that_is_sent_twice_loses_no_request(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with (
        launched(models, tmp_path, *SLOW) as server,
        one_running_one_waiting(server, seconds=1.0) as statuses,
    ):
        assert server.process is not None
        for _ in range(20):
            server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
        assert server.output().count("SIGTERM: stopping") == 1
    assert statuses == [200, 200]


@pytest.mark.parametrize("exit_on_error", [True, False])
@pytest.mark.slow
def test_a_broken_model_ends_the_server_only_when_asked_to(
    models: pathlib.Path, tmp_path: pathlib.Path, *, exit_on_error: bool
) -> None:
    broken = tmp_path / "broken" / "bad"
    broken.mkdir(parents=True)
    (broken / "config.pbtxt").write_text('backend: "onnxruntime"\nmax_batchsize: 8\n')
    options = [
        f"--model-repository={models}", f"--model-repository={tmp_path / 'broken'}", "--http-address=127.0.0.1",
        "--grpc-address=127.0.0.1",
    ]  # fmt: skip
    if exit_on_error:
        ports = ["--http-port=0", "--grpc-port=0", "--metrics-port=0"]
        status, output = naiad_program().run([*options, *ports])
        assert status == 1
        assert "config.pbtxt:2:1" in output
        assert "max_batch_size" in output
        *_, last = output.splitlines()
        assert "failed to load all models: exiting with status 1" in last
        assert "failed: bad;" in last
        assert output.count("max_batch_size") == 1
        assert "unloaded" not in output
        return
    with ServerProcess(
        naiad_program(), [models, tmp_path / "broken"], log=tmp_path / "log", options=["--exit-on-error=false"]
    ) as server:  # fmt: skip
        assert infer(server.http, "add", "x", [1, 2, 3, 4], [1, 4]) == 200
        assert get(server.http, "/v2/health/ready")[0] == 400
        status = json.loads(get(server.metrics, "/status")[1])
        states = {model["name"]: (model["state"], model["reason"]) for model in status["models"]}
        assert states["add"] == ("READY", "")
        assert states["bad"][0] == "UNAVAILABLE"
        assert "max_batch_size" in states["bad"][1]


@pytest.mark.parametrize("port", ["http", "grpc", "metrics"])
@pytest.mark.slow
def test_a_taken_port_is_said_before_anything_is_loaded(port: str, models: pathlib.Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        options = {"http": "0", "grpc": "0", "metrics": "0"} | {port: str(number)}
        status, output = naiad_program().run(
            [
                f"--model-repository={models}",
                "--http-address=127.0.0.1",
                "--grpc-address=127.0.0.1",
                *(f"--{name}-port={value}" for name, value in options.items()),
            ]
        )
    assert status == 1
    assert f"--{port}-port" in output
    assert "loading" not in output


@pytest.mark.slow
@pytest.mark.parametrize("exit_on_error", ["true", "false"])
def test_a_repository_that_is_not_there_is_one_sentence(
    exit_on_error: str, tmp_path: pathlib.Path
) -> None:
    options = [
        "--http-port=0",
        "--grpc-port=0",
        "--metrics-port=0",
        f"--exit-on-error={exit_on_error}",
    ]
    status, output = naiad_program().run([f"--model-repository={tmp_path / 'none'}", *options])
    assert status == 1
    assert "there is no such folder" in output
    assert "Traceback" not in output


def test_the_command_line_explains_itself() -> None:
    program = naiad_program()
    status, output = program.run(["--help"])
    assert status == 0
    assert "--model-repository" in output
    status, output = program.run(["--model-repositry=/x"])
    assert status == 1
    assert "did you mean --model-repository?" in output


@pytest.mark.slow
def test_restricted_apis_ask_for_their_header(models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    restricted = "--http-restricted-api=metadata,inference:secret=key"
    with launched(models, tmp_path, *ADD, restricted) as server:
        assert get(server.http, "/v2/models/add")[0] == 403
        assert get(server.http, "/v2/models/add", secret="key")[0] == 200
        assert infer(server.http, "add", "x", [1, 2, 3, 4], [1, 4]) == 403
        assert get(server.http, "/v2/health/ready")[0] == 200


@pytest.mark.slow
def test_grpc_is_not_even_imported_when_it_is_off(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with launched(models, tmp_path, *ADD, "--allow-grpc=false") as server:
        assert server.process is not None
        libraries = pathlib.Path(f"/proc/{server.process.pid}/maps").read_text()
        assert "cygrpc" not in libraries
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", server.ports.grpc), timeout=1)


@pytest.mark.slow
def test_json_logs_are_one_object_per_line(models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with launched(models, tmp_path, *ADD, "--log-format=json", "--access-log") as server:
        infer(server.http, "add", "x", [1, 2, 3, 4], [1, 4])
        server.stop()
        lines = [json.loads(line) for line in server.output().splitlines()]
    assert any("/v2/models/add/infer" in line["message"] for line in lines)


def test_tritonserver_is_an_alias() -> None:
    program = naiad_program()
    code = "import sys; sys.argv = ['tritonserver', '--help']; from naiad.__main__ import tritonserver; sys.exit(tritonserver())"
    finished = subprocess.run(
        [program.command[0], "-c", code], env=dict(program.environ), capture_output=True, text=True, check=False
    )  # fmt: skip
    assert finished.returncode == 0
    assert finished.stdout.startswith("Usage: tritonserver")
