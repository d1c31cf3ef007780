"""Models in worker processes, as clients and operators see them: death, hanging, hosts, and nothing left behind."""

import os
import pathlib
import signal
import threading
import time

import grpc
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

from tests.reference.process import ServerProcess, descendants, naiad_program
from tests.server.hosts.process.workers import exists
from tests.support.waiting import PAUSE_S, wait_until
from tests.wire.models.worker_models import MODEL, ask, launched, repository, worker_of, workers
from tests.wire.plain_http import get


def is_ready(server: ServerProcess, model: str) -> bool:
    return get(server.http, f"/v2/models/{model}/ready")[0] == 200


def restarts(server: ServerProcess, model: str, reason: str) -> int:
    """What the metrics say."""
    for line in get(server.metrics, "/metrics")[1].decode().splitlines():
        name, _, value = line.rpartition(" ")
        if name.startswith("naiad_worker_restarts_total{") and (
            f'model="{model}"' in name and f'reason="{reason}"' in name
        ):
            return int(value)
    raise AssertionError(f"no restarts of {model} for {reason}")


@pytest.mark.slow
def test_kill_9_of_a_worker_under_load_hurts_its_own_requests_only_and_it_comes_back(
    tmp_path: pathlib.Path,
) -> None:
    models = repository(tmp_path, victim=("", MODEL), other=("", MODEL))
    with launched(models, tmp_path) as server:
        failed: list[InferenceServerException] = []
        answered: list[str] = []
        stop = threading.Event()

        def load(model: str, seconds: float) -> None:
            while not stop.wait(PAUSE_S):
                try:
                    ask(server, model, seconds)
                    answered.append(model)
                except InferenceServerException as error:
                    failed.append(error)
                    assert model == "victim"
                    time.sleep(0.02)

        clients = [
            threading.Thread(target=load, args=(model, seconds))
            for model, seconds in (("victim", 0.2), ("victim", 0.2), ("other", 0.0), ("other", 0.0))
        ]
        for client in clients:
            client.start()
        wait_until(lambda: answered.count("victim") > 2)
        pid = worker_of(server, "victim")
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: bool(failed))
        wait_until(
            lambda: not is_ready(server, "victim") or worker_of(server, "victim") not in {0, pid}
        )
        wait_until(lambda: is_ready(server, "victim"))
        so_far = answered.count("victim")
        wait_until(lambda: answered.count("victim") > so_far + 1)
        stop.set()
        for client in clients:
            client.join()
        assert {error.status() for error in failed} == {"503"}
        said = [str(error) for error in failed]
        assert any("its worker process was ended by SIGKILL" in each for each in said)
        assert all("model 'victim'" in each for each in said)
        assert worker_of(server, "victim") != pid
        assert restarts(server, "victim", "died") == 1
        assert restarts(server, "other", "died") == 0


@pytest.mark.slow
def test_a_dead_worker_is_unavailable_over_grpc(tmp_path: pathlib.Path) -> None:
    models = repository(tmp_path, victim=("", MODEL))
    with (
        launched(models, tmp_path) as server,
        tritonclient.grpc.InferenceServerClient(server.grpc) as client,
    ):
        values = tritonclient.grpc.InferInput("SECONDS", [1], "FP32")
        values.set_data_from_numpy(np.array([20], np.float32))
        told: list[InferenceServerException] = []
        client.async_infer("victim", [values], lambda result, error: told.append(error))
        waiting = b'nv_inference_exec_count{model="victim"'
        wait_until(lambda: waiting in get(server.metrics, "/metrics")[1])
        pid = worker_of(server, "victim")
        wait_until(lambda: "the model speaks" in server.output())
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: bool(told))
        assert told[0].status() == str(grpc.StatusCode.UNAVAILABLE)


@pytest.mark.slow
def test_a_model_that_hangs_is_found_its_stack_logged_and_its_worker_replaced(
    tmp_path: pathlib.Path,
) -> None:
    limit = 'parameters { key: "naiad.execute_timeout" value { string_value: "5" } }\n'
    models = repository(tmp_path, stuck=(limit, MODEL))
    with launched(models, tmp_path) as server:
        pid = ask(server, "stuck")
        with pytest.raises(InferenceServerException, match=r"naiad\.execute_timeout") as failure:
            ask(server, "stuck", 20)
        assert failure.value.status() == "503"
        wait_until(lambda: is_ready(server, "stuck"))
        assert ask(server, "stuck") != pid
        assert restarts(server, "stuck", "timeout") == 1
        log = server.output()
        assert "1/model.py" in log
        assert "in execute" in log


@pytest.mark.slow
def test_nothing_is_left_when_the_server_is_killed(tmp_path: pathlib.Path) -> None:
    models = repository(tmp_path, one=("", MODEL), two=("", MODEL))
    with launched(models, tmp_path) as server:
        assert server.process is not None
        pids = list(workers(server).values())
        assert len(pids) == 2
        asking = threading.Thread(target=_fails, args=(server,))
        asking.start()
        wait_until(lambda: "the model speaks" in server.output())
        server.process.kill()
        wait_until(lambda: not any(map(exists, pids)))
        asking.join()
    assert not list(pathlib.Path("/dev/shm").glob("naiad*"))


def _fails(server: ServerProcess) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011 - a connection that breaks shows in many ways
        ask(server, "one", 20)


@pytest.mark.slow
def test_a_stopped_server_takes_its_workers_along_in_order(tmp_path: pathlib.Path) -> None:
    code = MODEL + "\n    def finalize(self):\n        print('the model ends')\n"
    with launched(repository(tmp_path, one=("", code)), tmp_path) as server:
        pids = list(workers(server).values())
        assert server.stop() == 0
        assert not any(map(exists, pids))
        assert "[one one_0_0] the model ends" in server.output()


def test_a_model_in_a_thread_prints_under_its_name_too(tmp_path: pathlib.Path) -> None:
    in_thread = 'parameters { key: "naiad.host" value { string_value: "thread" } }'
    code = MODEL + "\n    def finalize(self):\n        print('the model ends')\n"
    with launched(repository(tmp_path, one=(in_thread, code)), tmp_path) as server:
        ask(server, "one", 0)
        assert not workers(server)
        assert server.stop() == 0
        assert "[one one_0_0] the model speaks" in server.output()
        assert "[one one_0_0] the model ends" in server.output()


def test_the_host_is_chosen_by_the_model_the_backend_s_setting_or_the_default(
    tmp_path: pathlib.Path, models: pathlib.Path
) -> None:
    thread = 'parameters { key: "naiad.host" value { string_value: "thread" } }\n'
    mine = repository(tmp_path, apart=("", MODEL), inside=(thread, MODEL))
    with ServerProcess(
        naiad_program(),
        [mine, models],
        log=tmp_path / "log",
        options=[
            "--backend-config=onnxruntime,host=process",
            "--model-control-mode=explicit",
            *(f"--load-model={name}" for name in ("apart", "inside", "add")),
        ],
    ) as server:
        assert server.process is not None
        assert ask(server, "inside") == server.process.pid
        assert ask(server, "apart") == worker_of(server, "apart")
        values = tritonclient.http.InferInput("x", [1, 4], "FP32")
        values.set_data_from_numpy(np.array([[1, 2, 3, 4]], np.float32))
        with tritonclient.http.InferenceServerClient(server.http) as client:
            assert client.infer("add", [values]).as_numpy("y").tolist() == [[2, 4, 6, 8]]
        # Its two instances (row 11.31) are in one process.
        assert [
            line for line in workers(server) if "--model add --version 1 --instance add_0+1" in line
        ]
        assert sum("--model add " in line for line in workers(server)) == 1


MEETING = """\
import os, time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.folder = os.path.join(args["model_repository"], "met")
        os.makedirs(self.folder, exist_ok=True)

    def execute(self, requests):
        open(os.path.join(self.folder, str(os.getpid())), "w").close()
        while len(os.listdir(self.folder)) < 2:
            time.sleep(0.005)
        pid = np.array([os.getpid()])
        return [pb_utils.InferenceResponse([pb_utils.Tensor("PID", pid)]) for _ in requests]
"""


@pytest.mark.slow
def test_two_instances_are_two_processes_that_work_at_the_same_time(tmp_path: pathlib.Path) -> None:
    """Each waits for the other in the middle of its request."""
    models = repository(tmp_path, twice=("", MEETING))
    config = models / "twice" / "config.pbtxt"
    config.write_text(config.read_text().replace("count: 1", "count: 2"))
    with launched(models, tmp_path) as server:
        pids: list[int] = []

        def asks() -> None:
            pids.append(ask(server, "twice"))

        clients = [threading.Thread(target=asks) for _ in range(2)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        assert sorted(pids) == sorted(workers(server).values())
        assert len(set(pids)) == 2


def test_prints_of_a_model_carry_its_name_and_its_instance(tmp_path: pathlib.Path) -> None:
    with launched(repository(tmp_path, chatty=("", MODEL)), tmp_path) as server:
        ask(server, "chatty")
        wait_until(lambda: "[chatty chatty_0_0] the model speaks" in server.output())


@pytest.mark.slow
def test_only_the_workers_of_a_model_import_its_framework(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with ServerProcess(
        naiad_program(),
        [models],
        log=tmp_path / "log",
        options=[
            "--model-control-mode=explicit",
            "--load-model=add",
            "--backend-config=onnxruntime,host=process",
        ],
    ) as server:
        assert server.process is not None
        with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
            given = tritonclient.grpc.InferInput("x", [1, 4], "FP32")
            given.set_data_from_numpy(np.ones((1, 4), np.float32))
            y = client.infer("add", [given]).as_numpy("y")
        imports = [
            "onnxruntime" in pathlib.Path(f"/proc/{pid}/maps").read_text()
            for pid in (server.process.pid, *descendants(server.process.pid))
        ]
    assert y is not None
    assert y.tolist() == [[2.0] * 4]
    assert not imports[0]
    assert imports[1:].count(True) == 1, "both instances are in one process, and there is no other"
