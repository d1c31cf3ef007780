"""A server and its workers short of descriptors or memory, and under a rain of signals: right answers or errors, never another request's data.

Afterwards everything is answered again, unloads end, and the server stops in order.
"""

import collections.abc
import contextlib
import ctypes
import itertools
import pathlib
import resource
import signal
import threading
import typing

import numpy as np
import pytest
import tritonclient.http
from tritonclient.utils import InferenceServerException

from tests.reference.process import ServerProcess, children, naiad_program
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("whole_interpreter")]

CONFIG = """\
backend: "python"
max_batch_size: 0
input { name: "IN" data_type: TYPE_INT32 dims: -1 }
output { name: "OUT" data_type: TYPE_INT32 dims: -1 }
instance_group { kind: KIND_CPU count: 1 }
"""

HOLDS = """\
import collections
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.held = collections.deque(maxlen=12)  # so that every slot is looked at, and large batches have none

    def execute(self, requests):
        values = [each.inputs()[0].as_numpy() for each in requests]
        self.held.extend(values)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", each)]) for each in values]
"""

CALLS = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.onward(each) for each in requests]

    def onward(self, request):
        asked = pb_utils.InferenceRequest(model_name="holds", requested_output_names=["OUT"], inputs=request.inputs())
        response = asked.exec()
        if response.has_error():
            return pb_utils.InferenceResponse(error=response.error())
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", response.output_tensors()[0].as_numpy())])
"""

HEARS = """\
import ctypes, signal
import triton_python_backend_utils as pb_utils

libc = ctypes.CDLL(None)


class TritonPythonModel:
    def initialize(self, args):
        # A handler that does nothing, and interrupts what waits in the system.
        libc.signal(signal.SIGUSR1, ctypes.cast(libc.abs, ctypes.c_void_p))
        libc.siginterrupt(signal.SIGUSR1, 1)
        libc.signal(signal.SIGPROF, ctypes.cast(libc.abs, ctypes.c_void_p))
        libc.siginterrupt(signal.SIGPROF, 1)

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", each.inputs()[0].as_numpy())]) for each in requests]
"""

STAYS = """\
import threading


class TritonPythonModel:
    def execute(self, requests):
        return []

    def finalize(self):
        threading.Event().wait()
"""

THREAD = 'parameters { key: "naiad.host" value { string_value: "thread" } }\n'
SIZES = (10, 30_000, 100, 12_000, 200_000)
"""Numbers of four bytes: some stand in a packet, some need a segment, some a larger one than the last."""


def launched(folder: pathlib.Path, *more_options: str, **models: str) -> ServerProcess:
    for name, code in models.items():
        version = folder / "models" / name / "1"
        version.mkdir(parents=True)
        more = THREAD if name.startswith("thread") else ""
        (version.parent / "config.pbtxt").write_text(CONFIG + more)
        (version / "model.py").write_text(code)
    options = ["--model-control-mode=explicit", *(f"--load-model={name}" for name in models)]
    options += more_options
    return ServerProcess(naiad_program(), [folder / "models"], log=folder / "log", options=options)


class Load:
    """Clients that ask one model each, over one connection each, and compare what comes back with what they sent.

    Attributes:
        right: right answers, by model.
        errors: the others', by model.
        wrong: the responses that belong to another request.
    """

    def __init__(self, server: ServerProcess, models: collections.abc.Sequence[str]) -> None:
        self.right = dict.fromkeys(models, 0)
        self.errors: dict[str, list[str]] = {name: [] for name in models}
        self.wrong: list[str] = []
        self._server = server
        self._stop = threading.Event()
        self._numbers = itertools.count(1)
        self._clients = [
            threading.Thread(target=self._ask, args=(name,)) for name in (*models, *models)
        ]

    def __enter__(self) -> typing.Self:
        for client in self._clients:
            client.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for client in self._clients:
            client.join()

    def wait(self, *, answers: int, of: collections.abc.Callable[[str], int]) -> None:
        """Until each model has had so many more of something."""
        before = {name: of(name) for name in self.right}
        wait_until(
            lambda: all(of(name) >= before[name] + answers for name in self.right), seconds=60
        )

    def answered(self, name: str) -> int:
        return self.right[name]

    def ended(self, name: str) -> int:
        return self.right[name] + len(self.errors[name])

    def _ask(self, name: str) -> None:
        sizes = itertools.cycle(SIZES)
        with tritonclient.http.InferenceServerClient(
            self._server.http, network_timeout=60, connection_timeout=60
        ) as client:
            while not self._stop.is_set():
                sent = np.full(next(sizes), next(self._numbers), np.int32)
                values = tritonclient.http.InferInput("IN", [sent.size], "INT32")
                values.set_data_from_numpy(sent)
                try:
                    got = client.infer(name, [values]).as_numpy("OUT")
                except InferenceServerException as error:
                    self.errors[name].append(f"{error.status()} {error.message()}")
                    continue
                if np.array_equal(got, sent):
                    self.right[name] += 1
                else:
                    self.wrong.append(f"{name}: {sent[0]} x {sent.size} got {got[:1]} x {got.size}")


def workers(server: ServerProcess) -> dict[str, int]:
    """The server's workers, by model."""
    assert server.process is not None
    found: dict[str, int] = {}
    for child in children(server.process.pid):
        with contextlib.suppress(OSError):  # it has ended
            words = pathlib.Path(f"/proc/{child}/cmdline").read_text().strip("\0").split()
            if words[:2] == ["naiad-worker", "--model"]:
                found[words[2]] = child
    return found


@contextlib.contextmanager
def limited(pid: int, what: int, soft: int) -> collections.abc.Iterator[None]:
    """A process has a lower limit for a while."""
    before = resource.prlimit(pid, what)
    resource.prlimit(pid, what, (soft, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, what, before)


def unloads_and_stops(server: ServerProcess, models: collections.abc.Iterable[str]) -> None:
    with tritonclient.http.InferenceServerClient(server.http, network_timeout=60) as client:
        for name in models:
            client.unload_model(name)
            wait_until(lambda name=name: not client.is_model_ready(name))  # type: ignore[misc]
    wait_until(lambda: not workers(server))
    assert server.stop() == 0


@pytest.mark.parametrize("host", ["process", "thread"])
def test_a_finalize_that_never_returns_does_not_keep_the_server(
    tmp_path: pathlib.Path, host: str
) -> None:
    name = "thread_stays" if host == "thread" else "stays"
    with launched(tmp_path, "--exit-timeout-secs=2", **{name: STAYS}) as server:
        assert server.process is not None
        left = list(workers(server).values())
        assert len(left) == (host == "process")
        assert server.stop() == 1
        assert "Exit timeout expired" in server.output()
        wait_until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in left))


@pytest.mark.parametrize("who", ["server", "worker"])
def test_without_descriptors_each_request_gets_its_own_tensors_or_an_error(
    tmp_path: pathlib.Path, who: str
) -> None:
    models = ("holds", "calls")
    with launched(tmp_path, holds=HOLDS, calls=CALLS) as server:
        assert server.process is not None
        with Load(server, models) as load:
            load.wait(answers=20, of=load.answered)
            pids = [server.process.pid] if who == "server" else list(workers(server).values())
            with contextlib.ExitStack() as limits:
                for pid in pids:
                    limits.enter_context(limited(pid, resource.RLIMIT_NOFILE, 3))
                load.wait(answers=40, of=load.ended)
                load.wait(answers=5, of=load.answered)
            load.wait(answers=40, of=load.answered)
        assert load.wrong == []
        assert load.errors["holds"]
        kinds = {each.partition(" ")[0] for name in models for each in load.errors[name]}
        assert kinds <= {"500", "503"}, load.errors
        unloads_and_stops(server, models)


def test_without_address_space_each_request_gets_its_own_tensors_or_an_error(
    tmp_path: pathlib.Path,
) -> None:
    """A worker that ends by it is replaced; its neighbour notices nothing."""
    models = ("holds", "neighbour")
    with launched(tmp_path, holds=HOLDS, neighbour=HOLDS) as server:
        with Load(server, models) as load:
            load.wait(answers=20, of=load.answered)
            pid = workers(server)["holds"]
            with contextlib.suppress(ProcessLookupError), limited(pid, resource.RLIMIT_AS, 1 << 20):
                load.wait(answers=40, of=load.ended)
            load.wait(answers=40, of=load.answered)
        assert load.wrong == []
        assert load.errors["neighbour"] == []
        kinds = {each.partition(" ")[0] for each in load.errors["holds"]}
        assert kinds <= {"500", "503"}, load.errors
        unloads_and_stops(server, models)


def test_signals_in_every_thread_fail_no_request(tmp_path: pathlib.Path) -> None:
    models = ("thread_hears", "hears")
    libc = ctypes.CDLL(None)
    with launched(tmp_path, thread_hears=HEARS, hears=HEARS) as server:
        assert server.process is not None
        with Load(server, models) as load:
            load.wait(answers=5, of=load.answered)
            pids = (server.process.pid, workers(server)["hears"])
            for number in (signal.SIGUSR1, signal.SIGPROF) * 100:
                for pid in pids:
                    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
                        libc.tgkill(pid, int(thread.name), number)
            load.wait(answers=20, of=load.answered)
        assert load.wrong == []
        assert load.errors == {name: [] for name in models}
        unloads_and_stops(server, models)
