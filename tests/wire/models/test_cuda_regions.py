"""Tensors in clients' memory on GPUs, with Triton's own clients, over both protocols. The GPUs are made up."""

import base64
import collections.abc
import functools
import itertools
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.utils as client_utils
import tritonclient.utils.shared_memory as shm

from tests.reference.process import ServerProcess, descendants
from tests.support import cuda
from tests.support.cuda.client_memory import Allocation
from tests.support.waiting import wait_until
from tests.wire.models.cuda_regions import models, region
from tests.wire.models.device_models import ask, serving
from tests.wire.protocol import test_shared_memory
from tests.wire.protocol.test_clients import CLIENTS, client
from tests.wire.protocol.test_shared_memory import in_region, to_region

X = np.arange(8, dtype=np.float32)


@pytest.fixture(scope="module")
def sharing(
    tmp_path_factory: pytest.TempPathFactory,
) -> collections.abc.Iterator[ServerProcess]:
    """A server with two GPUs whose clients may share memory with it; it has what this process has of them."""
    folder = tmp_path_factory.mktemp("gpus")
    models(folder / "models")
    options = ("--allow-client-shm=true", "--model-control-mode=explicit", "--load-model=*")
    with serving(folder, *options, state=cuda.state_of_this_process()) as (running, _):
        yield running


def opener(server: ServerProcess) -> int:
    """The process that opens clients' memory; 0: there is none."""
    assert server.process is not None
    for pid in descendants(server.process.pid):
        try:
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"naiad.hosts.cuda_regions" in command:
            return pid
    return 0


def infer(
    asked: Any, module: Any, model: str, given: Any, to: "tuple[str, int, int] | None" = None
) -> Any:
    """A request with one input; `to` is the place of Y: region, bytes, offset."""
    outputs = None
    if to is not None:
        outputs = [to_region(module, "Y", *to)]
    return asked.infer(model, [given], outputs=outputs)


def is_closed(size: int) -> bool:
    """Whether no process has an allocation of other processes of so many bytes open."""
    return size not in cuda.state_of_this_process().live(cuda.OPENED)


@pytest.mark.parametrize("kind", CLIENTS)
def test_inputs_and_outputs_lie_in_one_region(kind: str, sharing: ServerProcess) -> None:
    with client(kind, sharing) as (asked, module), region(asked, 128) as (name, memory):
        memory.put(X, 32)
        for _ in range(2):
            given = in_region(module, "X", name, X, 32)
            infer(asked, module, "double", given, (name, 32, 64))
            assert (memory.get(np.float32, [8], 64) == 2 * X).all()
            memory.put(np.zeros(8, np.float32), 64)


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize(
    ("model", "device", "where"),
    [
        ("same_gpu", 0, "gpu 0"),
        ("same_gpu", 1, "cpu"),
        ("other_gpu", 1, "gpu 0"),  # the worker sees one
        ("host", 0, "cpu"),
        ("to_same_gpu", 0, "gpu 0"),
        ("to_other_gpu", 0, "cpu"),
    ],
)
def test_a_model_on_the_gpu_of_a_region_opens_it_itself(
    kind: str, model: str, device: int, where: str, sharing: ServerProcess
) -> None:
    before = X.copy()
    with client(kind, sharing) as (asked, module), region(asked, 128, device) as (name, memory):
        memory.put(X, 32)
        for _ in range(3):
            outputs = [to_region(module, "Y", name, 32, 64), module.InferRequestedOutput("WHERE")]
            result = asked.infer(model, [in_region(module, "X", name, X, 32)], outputs=outputs)
            assert result.as_numpy("WHERE").tolist() == [where.encode()]
            expected = (2 * X if model.startswith("to_") else X) + 1
            assert (memory.get(np.float32, [8], 64) == expected).all()
            assert (memory.get(np.float32, [8], 32) == before).all()
            memory.put(np.zeros(8, np.float32), 64)
    wait_until(lambda: is_closed(128))


@pytest.mark.parametrize("model", ["same_gpu", "double"])
@pytest.mark.parametrize("offset", [1, 2, 61])
def test_a_tensor_may_lie_at_any_offset(model: str, offset: int, sharing: ServerProcess) -> None:
    with client("grpc", sharing) as (asked, module), region(asked, 128) as (name, memory):
        memory.put(X, offset)
        infer(asked, module, model, in_region(module, "X", name, X, offset), (name, 32, 96))
        expected = 2 * X if model == "double" else X + 1
        assert (memory.get(np.float32, [8], 96) == expected).all()


def test_a_model_that_writes_to_its_input_does_not_change_the_region(
    sharing: ServerProcess,
) -> None:
    with client("grpc", sharing) as (asked, module), region(asked, 32) as (name, memory):
        memory.put(X)
        for _ in range(2):
            result = infer(asked, module, "writer", in_region(module, "X", name, X))
            assert (result.as_numpy("Y") == X).all()
            assert (memory.get(np.float32, [8]) == X).all()


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("words", [1, 50_000])
def test_strings_lie_in_regions(kind: str, words: int, sharing: ServerProcess) -> None:
    text = np.array([b"abc" * words, b""], dtype=object)
    packed = np.frombuffer(client_utils.serialize_byte_tensor(text).item(), np.uint8)
    size = len(packed)
    with client(kind, sharing) as (asked, module), region(asked, 2 * size) as (name, memory):
        memory.put(packed)
        given = module.InferInput("X", [2], "BYTES")
        given.set_shared_memory(name, size)
        infer(asked, module, "loud", given, (name, size, size))
        assert memory.get(np.uint8, [size], size).tobytes() == packed.tobytes().replace(
            b"abc", b"ABC"
        )


def test_large_tensors_and_both_kinds_of_regions_in_one_request(sharing: ServerProcess) -> None:
    x = np.arange(1 << 20, dtype=np.float32)
    with (
        client("http", sharing) as (asked, module),
        region(asked, x.nbytes) as (name, memory),
        test_shared_memory.region(asked, x.nbytes) as (shared, handle),
    ):
        memory.put(x)
        for model in ("double", "same_gpu"):
            infer(asked, module, model, in_region(module, "X", name, x), (shared, x.nbytes, 0))
            found = shm.get_contents_as_numpy(handle, np.float32, [1 << 20])
            assert (found == (2 * x if model == "double" else x + 1)).all()
            shm.set_shared_memory_region(handle, [x])
            infer(asked, module, model, in_region(module, "X", shared, x), (name, x.nbytes, 0))
            found = memory.get(np.float32, [1 << 20])
            assert (found == (2 * x if model == "double" else x + 1)).all()
            memory.put(x)


def test_a_stream_keeps_the_order_of_its_requests(sharing: ServerProcess) -> None:
    with client("grpc", sharing) as (asked, _), region(asked, 256) as (name, memory):
        answers: queue.Queue[Any] = queue.Queue()
        asked.start_stream(lambda result, error: answers.put(error or result))
        memory.put(X)
        for number, model in enumerate(("double", "same_gpu", "double")):
            given = in_region(grpc_client, "X", name, X)
            wanted = to_region(grpc_client, "Y", name, 32, 64 + 32 * number)
            asked.async_stream_infer(model, [given], outputs=[wanted])
        for _ in range(3):
            result = answers.get(timeout=60)
            assert not isinstance(result, Exception), result
        asked.stop_stream()
        found = memory.get(np.float32, [3, 8], 64)
        assert (found == [2 * X, X + 1, 2 * X]).all()


@pytest.mark.parametrize("kind", CLIENTS)
def test_the_status_lists_regions_of_both_protocols(kind: str, sharing: ServerProcess) -> None:
    with client(kind, sharing) as (asked, _), region(asked, 64, 1) as (name, memory):
        # The same memory under another name, of no size, with the number of a GPU that is not there: all of it as Triton does.
        handle = base64.b64encode(memory.handle)
        asked.register_cuda_shared_memory("again", handle, 7, 0)
        for each in CLIENTS:
            with client(each, sharing) as (asking, _):
                status = asking.get_cuda_shared_memory_status()
                entries = status if each == "http" else status.regions.values()
                found = [
                    (one["name"], one["device_id"], one["byte_size"])
                    if each == "http"
                    else (one.name, one.device_id, one.byte_size)
                    for one in entries
                ]
                assert sorted(found) == [("again", 7, 0), (name, 1, 64)]
                assert not getattr(asking.get_system_shared_memory_status(), "regions", None)
                extensions = asking.get_server_metadata()
                listed = extensions["extensions"] if each == "http" else extensions.extensions
                assert "cuda_shared_memory" in listed
                # Regions of the other kind stay.
                asking.unregister_system_shared_memory()
        asked.unregister_cuda_shared_memory("again")
        asked.unregister_cuda_shared_memory("never registered")
        assert not is_closed(64)
        asked.unregister_cuda_shared_memory()
        wait_until(lambda: is_closed(64))


def _infer(
    size: int, offset: int = 0, *, of: str = "", out: int = 32, model: str = "double"
) -> Any:
    def act(asked: Any, module: Any, name: str, memory: Allocation) -> None:
        given = module.InferInput("X", [8], "FP32")
        given.set_shared_memory(of or name, size, offset)
        infer(asked, module, model, given, (name, out, 64))

    return act


def _register(
    handle: "bytes | None" = None, size: int = 16, *, name: str = "other", device: int = 0
) -> Any:
    def act(asked: Any, module: Any, existing: str, memory: Allocation) -> None:
        given = base64.b64encode(memory.handle if handle is None else handle)
        asked.register_cuda_shared_memory(existing if name == "same" else name, given, device, size)

    return act


def _register_freed(asked: Any, module: Any, existing: str, memory: Allocation) -> None:
    freed = Allocation(64)
    handle = base64.b64encode(freed.handle)
    freed.free()
    asked.register_cuda_shared_memory("other", handle, 0, 64)


_INVALID = ("400", "INVALID_ARGUMENT")
_MISSING = ("404", "NOT_FOUND")


@pytest.mark.parametrize(
    ("act", "statuses", "says"),
    [
        (_infer(32, of="nowhere"), _MISSING, "Unable to find shared memory region: 'nowhere'"),
        (_infer(32, 128), _INVALID, "Invalid offset for shared memory region: '"),
        (_infer(32, 100), _INVALID, "Invalid offset + byte size for shared memory region: '"),
        (_infer(16), _INVALID, "input byte size mismatch for input 'X' for model 'double'. Expected 32, got 16"),
        (_infer(16, model="same_gpu"), _INVALID, "input byte size mismatch for input 'X' for model 'same_gpu'. Expected 32, got 16"),
        *((_infer(32, out=16, model=model), ("500", "INTERNAL"),
           "shared memory size specified with the request for output 'Y' (16 bytes) should be at least 32 bytes to hold the results")
          for model in ("double", "same_gpu")),
        (_register(name="same"), ("400", "ALREADY_EXISTS"), "already in manager"),
        (_register(size=129), _INVALID, "failed to register shared memory region 'other': invalid args"),
        (_register(b"\0" * 64), _INVALID, "failed to register shared memory region 'other': invalid args"),
        (_register_freed, _INVALID, "failed to register shared memory region 'other': invalid args"),
        (_register(b"\0" * 63), _INVALID, "cudaIpcMemHandle_t"),
        (lambda asked, module, name, memory: asked.get_cuda_shared_memory_status("nowhere"), _MISSING,
         "Unable to find cuda shared memory region: 'nowhere'"),
        (lambda asked, module, name, memory: asked.get_system_shared_memory_status(name), _MISSING,
         "is registered as CUDA shared memory, not system shared memory"),
        (lambda asked, module, name, memory: asked.register_system_shared_memory(name, "/k", 16), ("400", "ALREADY_EXISTS"),
         "already in manager"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_the_same_words(
    act: Any, statuses: tuple[str, str], says: str, sharing: ServerProcess
) -> None:
    for kind, status in zip(CLIENTS, statuses, strict=True):
        with client(kind, sharing) as (asked, module), region(asked, 128) as (name, memory):
            memory.put(X)
            with pytest.raises(module.InferenceServerException) as caught:
                act(asked, module, name, memory)
            assert str(caught.value.status()).removeprefix("StatusCode.") == status
            assert says in caught.value.message()
            # and nothing else is harmed
            given = in_region(module, "X", name, X)
            infer(asked, module, "double", given, (name, 32, 64))
            assert (memory.get(np.float32, [8], 64) == 2 * X).all()


def test_an_opener_that_is_killed_is_started_again(sharing: ServerProcess) -> None:
    with client("grpc", sharing) as (asked, module), region(asked, 128) as (name, memory):
        memory.put(X)
        first = opener(sharing)
        os.kill(first, signal.SIGKILL)
        wait_until(functools.partial(_is_gone, first))
        infer(asked, module, "double", in_region(module, "X", name, X), (name, 32, 64))
        assert opener(sharing) not in (0, first)
        assert (memory.get(np.float32, [8], 64) == 2 * X).all()


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_model_on_the_gpu_of_a_region_writes_there_itself(
    kind: str, sharing: ServerProcess
) -> None:
    with client(kind, sharing) as (asked, module), region(asked, 128) as (name, memory):
        memory.put(X)
        other = opener(sharing)
        os.kill(other, signal.SIGSTOP)  # what it had to copy would wait
        try:
            for at in (64, 96):
                given = in_region(module, "X", name, X)
                result = infer(asked, module, "same_gpu", given, (name, 32, at))
                assert list(result.get_output("Y")["shape"] if kind == "http" else result.get_output("Y").shape) == [8]  # fmt: skip
                assert (memory.get(np.float32, [8], at) == X + 1).all()
        finally:
            os.kill(other, signal.SIGCONT)


def test_a_request_that_an_opener_ends_with_fails(sharing: ServerProcess) -> None:
    state = cuda.state_of_this_process()
    with client("grpc", sharing) as (asked, module), region(asked, 128) as (name, memory):
        memory.put(X)
        given = in_region(module, "X", name, X)
        first = opener(sharing)
        os.kill(first, signal.SIGSTOP)
        failed: queue.Queue[Any] = queue.Queue()
        asked.async_infer("double", [given], lambda result, error: failed.put(error or result))
        os.kill(first, signal.SIGKILL)
        said = failed.get(timeout=60)
        if isinstance(said, Exception):  # else it was killed before it had the request
            assert "send it again" in str(said)
        # An error that CUDA does not survive: the process is another one afterwards.
        infer(asked, module, "double", given)
        second = opener(sharing)
        state.fail("cudaMemcpyAsync", 700)
        try:
            with pytest.raises(module.InferenceServerException, match="cudaMemcpyAsync"):
                infer(asked, module, "double", given)
        finally:
            state.fail("", 0)
        assert (infer(asked, module, "double", given).as_numpy("Y") == 2 * X).all()
        assert opener(sharing) != second


def _is_gone(pid: int) -> bool:
    """Whether a process has ended; it may not have been reaped."""
    try:
        status = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    # Its threads may hold its sockets a little longer.
    return status.rpartition(")")[2].split()[0] == "Z" and _threads(pid) <= 1


def _threads(pid: int) -> int:
    return len(list(pathlib.Path(f"/proc/{pid}/task").glob("*")))


def test_a_worker_that_is_restarted_opens_it_again(sharing: ServerProcess) -> None:
    with client("grpc", sharing) as (asked, module), region(asked, 136) as (name, memory):
        memory.put(X)
        given = in_region(module, "X", name, X)

        def answered() -> bool:
            try:
                said = asked.infer("holder", [given])
            except module.InferenceServerException:
                return False
            pids.append(int(said.as_numpy("WHERE")[0]))
            return True

        pids: list[int] = []
        assert answered()
        os.kill(pids[0], signal.SIGKILL)
        wait_until(answered)
        assert pids[0] != pids[1]
        asked.unload_model("holder")
        wait_until(lambda: cuda.state_of_this_process().live(cuda.OPENED).count(136) == 1)
        asked.load_model("holder")
        assert answered()
    wait_until(lambda: is_closed(136))


_CLIENT = """
import base64, sys
import numpy as np
import tritonclient.grpc
from naiad.tensors import cudart
cuda, x = cudart.load(), np.arange(8, dtype=np.float32)
memory = cuda.allocate(144, 0)
cuda.to_device(memory, x.ctypes.data, x.nbytes, 0)
with tritonclient.grpc.InferenceServerClient(sys.argv[1]) as client:
    client.register_cuda_shared_memory("left", base64.b64encode(cuda.ipc_handle(memory, 0)), 0, 144)
print("registered", flush=True)
sys.stdin.read()
"""


def test_a_region_outlives_its_client(sharing: ServerProcess) -> None:
    environ = {**os.environ, **cuda.state_of_this_process().environment, "PYTHONPATH": "server"}
    other = subprocess.Popen(
        [sys.executable, "-c", _CLIENT, sharing.grpc],
        env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with other, client("grpc", sharing) as (asked, module):
        assert other.stdout is not None
        assert other.stdout.readline() == b"registered\n"
        given = in_region(module, "X", "left", X)
        assert (infer(asked, module, "same_gpu", given).as_numpy("Y") == X + 1).all()
        other.kill()
        other.wait()
        for _ in range(2):
            infer(asked, module, "double", given, ("left", 32, 32))
            infer(asked, module, "same_gpu", given, ("left", 32, 64))
            again = in_region(module, "X", "left", X, 64)
            assert (infer(asked, module, "double", again).as_numpy("Y") == 2 * X + 2).all()
        # What was not open there before cannot be opened any more.
        with pytest.raises(module.InferenceServerException, match="cannot be opened"):
            infer(asked, module, "writer", given)
        asked.unregister_cuda_shared_memory("left")
        wait_until(lambda: is_closed(144))


def test_a_region_in_use_outlives_its_name(sharing: ServerProcess) -> None:
    """Unregistered while a request runs: its output is still written, and the name is free."""
    with client("grpc", sharing) as (asked, module), region(asked, 152) as (name, memory):
        memory.put(-1 - X)
        done = threading.Event()
        said: list[Any] = []

        def finish(result: Any, error: Any) -> None:
            said.append(error)
            done.set()

        begun = _count(asked)
        given = in_region(module, "X", name, X)
        wanted = to_region(module, "Y", name, 4, 64)
        memory.put(np.ones(1, np.float32), 64)
        asked.async_infer("holder", [given], finish, outputs=[wanted])
        for _ in itertools.takewhile(lambda _: _count(asked) == begun, itertools.count()):
            asked.unregister_cuda_shared_memory(name)
            asked.register_cuda_shared_memory(name, base64.b64encode(memory.handle), 0, 32)
        assert done.wait(60)
        assert said == [None]
        assert memory.get(np.float32, [1], 64).tolist() == [0]
        ask(sharing, "holder", [0])
    wait_until(lambda: is_closed(152))


def _count(asked: Any) -> int:
    found = asked.get_inference_statistics("holder").model_stats[0].inference_stats.success.count
    return int(found or 0)


def test_the_server_takes_its_opener_with_it(tmp_path: pathlib.Path) -> None:
    models(tmp_path / "models")
    options = ("--allow-client-shm=true", "--model-control-mode=explicit", "--load-model=double")
    state = cuda.state_of_this_process()
    for end in (signal.SIGTERM, signal.SIGKILL):
        folder = tmp_path / end.name
        folder.mkdir()
        models(folder / "models")
        with serving(folder, *options, state=state) as (server, _):
            with client("http", server) as (asked, module):
                assert not opener(server), "nothing was registered yet"
                memory = Allocation(160)
                memory.put(X)
                asked.register_cuda_shared_memory("r", base64.b64encode(memory.handle), 0, 160)
                given = in_region(module, "X", "r", X)
                assert (infer(asked, module, "double", given).as_numpy("Y") == 2 * X).all()
            pid = opener(server)
            assert pid
            assert server.process is not None
            server.process.send_signal(end)
            wait_until(functools.partial(_is_gone, pid))
        wait_until(lambda: is_closed(160))
        memory.free()
