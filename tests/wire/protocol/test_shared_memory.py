"""Tensors in clients' shared memory, with Triton's own clients and their helper for regions, over both protocols."""

import collections.abc
import contextlib
import itertools
import os
import pathlib
import queue
import shutil
import threading
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.utils as client_utils
import tritonclient.utils.shared_memory as shm

from tests.reference.process import ServerProcess, naiad_program
from tests.wire.protocol.test_clients import CLIENTS, client, tensor

X = np.arange(8, dtype=np.float32).reshape(2, 4)
_NUMBERS = itertools.count()
WIDE = """\
backend: "python"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: -1 }
output { name: "y" data_type: TYPE_FP32 dims: -1 }
dynamic_batching {}
"""
WIDE_MODEL = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        tensors = [pb_utils.get_input_tensor_by_name(each, "x").as_numpy() for each in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", 2 * each)]) for each in tensors]
"""


@pytest.fixture(scope="module")
def sharing(
    models: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> collections.abc.Iterator[ServerProcess]:
    """A server whose clients may share memory with it."""
    log = tmp_path_factory.mktemp("log") / "server.log"
    options = [
        "--allow-client-shm=true",
        "--client-shm-owner=same",
        "--cache-config=local,size=1048576",
    ]
    cached = tmp_path_factory.mktemp("cached")
    shutil.copytree(models / "add", cached / "cached")
    config = (models / "add" / "config.pbtxt").read_text() + "response_cache { enable: true }\n"
    (cached / "cached" / "config.pbtxt").write_text(config)
    version = cached / "wide" / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(WIDE_MODEL)
    (version.parent / "config.pbtxt").write_text(WIDE)
    with ServerProcess(naiad_program(), [models, cached], log=log, options=options) as running:
        yield running


@contextlib.contextmanager
def region(asked: Any, size: int) -> collections.abc.Iterator[tuple[str, Any]]:
    """A registered region and the client's handle on it."""
    name = f"wire_test_{os.getpid()}_{next(_NUMBERS)}"  # "naiad…" would be an object of a server
    handle = shm.create_shared_memory_region(name, f"/{name}", size)
    try:
        asked.register_system_shared_memory(name, f"/{name}", size)
        yield name, handle
    finally:
        asked.unregister_system_shared_memory(name)
        shm.destroy_shared_memory_region(handle)


def in_region(
    module: Any,
    name: str,
    there: str,
    array: "np.ndarray[Any, Any]",
    offset: int = 0,
    *,
    size: int | None = None,
) -> Any:
    made = module.InferInput(name, list(array.shape), client_utils.np_to_triton_dtype(array.dtype))
    made.set_shared_memory(there, array.nbytes if size is None else size, offset)
    return made


def to_region(module: Any, name: str, there: str, size: int, offset: int = 0) -> Any:
    wanted = module.InferRequestedOutput(name)
    wanted.set_shared_memory(there, size, offset)
    return wanted


@pytest.mark.parametrize("kind", CLIENTS)
def test_inputs_and_outputs_lie_in_one_region(kind: str, sharing: ServerProcess) -> None:
    with client(kind, sharing) as (asked, module), region(asked, 128) as (name, handle):
        shm.set_shared_memory_region(handle, [X], offset=32)
        for _ in range(2):
            result = asked.infer(
                "add",
                [in_region(module, "x", name, X, 32)],
                outputs=[to_region(module, "y", name, 32, 64)],
            )
            assert (shm.get_contents_as_numpy(handle, np.float32, [2, 4], 64) == 2 * X).all()
            output = result.get_output("y")
            described = (
                output
                if kind == "http"
                else {"name": output.name, "datatype": output.datatype, "shape": list(output.shape)}
            )
            assert described == {"name": "y", "datatype": "FP32", "shape": [2, 4]}
            shm.set_shared_memory_region(handle, [np.zeros(8, np.float32)], offset=64)


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("words", [1, 50_000])
def test_strings_lie_in_regions(kind: str, words: int, sharing: ServerProcess) -> None:
    word = b"abc" * words
    text = np.array([[word], [b""]], dtype=object)
    packed = client_utils.serialize_byte_tensor(text).item()
    with client(kind, sharing) as (asked, module), region(asked, 2 * len(packed)) as (name, handle):
        shm.set_shared_memory_region(handle, [client_utils.serialize_byte_tensor(text)])
        given = module.InferInput("TEXT", [2, 1], "BYTES")
        given.set_shared_memory(name, len(packed))
        wanted = to_region(module, "LOUD", name, len(packed), len(packed))
        asked.infer("text", [given], outputs=[wanted])
        loud = shm.get_contents_as_numpy(handle, np.object_, [2, 1], len(packed))
        assert loud.tolist() == [[word.upper()], [b""]]


@pytest.mark.parametrize("kind", CLIENTS)
def test_large_tensors_are_copied_beside_the_loop(kind: str, sharing: ServerProcess) -> None:
    values = np.arange(8 * 4, dtype=np.float32).reshape(8, 4)
    with client(kind, sharing) as (asked, module), region(asked, 4_000_000) as (name, handle):
        text = np.array([[b"x" * 1_900_000]], dtype=object)
        packed = client_utils.serialize_byte_tensor(text).item()
        shm.set_shared_memory_region(handle, [client_utils.serialize_byte_tensor(text)])
        given = module.InferInput("TEXT", [1, 1], "BYTES")
        given.set_shared_memory(name, len(packed))
        wanted = to_region(module, "LOUD", name, 2_000_000, 2_000_000)
        asked.infer("text", [given], outputs=[wanted])
        assert (
            shm.get_contents_as_numpy(handle, np.object_, [1, 1], 2_000_000).item()
            == b"X" * 1_900_000
        )
        # beside it an ordinary request
        result = asked.infer("add", [tensor(module, "x", values, "FP32")])
        assert (result.as_numpy("y") == 2 * values).all()


@pytest.mark.parametrize("kind", CLIENTS)
def test_large_outputs_of_a_worker_process_go_to_their_places(
    kind: str, sharing: ServerProcess
) -> None:
    """It writes them itself; what it cannot write is the server's to refuse."""
    count = 50_000
    size = 4 * count
    with client(kind, sharing) as (asked, module), region(asked, 3 * size) as (name, handle):
        for turn in range(3):
            values = np.arange(turn, turn + count, dtype=np.float32)[None]
            shm.set_shared_memory_region(handle, [values])
            given = in_region(module, "x", name, values)
            asked.infer("wide", [given], outputs=[to_region(module, "y", name, size, 2 * size)])
            found = shm.get_contents_as_numpy(handle, np.float32, [3, count])
            assert (found[2] == 2 * values).all()
            assert not found[1].any()
        with pytest.raises(
            module.InferenceServerException, match="should be at least 200000 bytes"
        ):
            asked.infer("wide", [given], outputs=[to_region(module, "y", name, size - 4, size)])
        os.truncate(f"/dev/shm/{name}", 3 * size - 1)
        with pytest.raises(module.InferenceServerException, match="was made smaller"):
            asked.infer("wide", [given], outputs=[to_region(module, "y", name, size, 2 * size)])
        os.truncate(f"/dev/shm/{name}", 3 * size)
        assert not shm.get_contents_as_numpy(handle, np.float32, [3, count])[1].any()


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_cached_response_is_that_of_what_is_in_the_region(
    kind: str, sharing: ServerProcess
) -> None:
    """The bytes of the requests are the same each time."""
    with client(kind, sharing) as (asked, module), region(asked, 64) as (name, handle):
        given = in_region(module, "x", name, X)
        for values in (X, X, X, X + 1, X, X + 2):
            shm.set_shared_memory_region(handle, [values])
            wanted = module.InferRequestedOutput("y")
            assert (
                asked.infer("cached", [given], outputs=[wanted]).as_numpy("y") == 2 * values
            ).all()
            to = to_region(module, "y", name, 32, 32)
            asked.infer("cached", [given], outputs=[to])
            assert (shm.get_contents_as_numpy(handle, np.float32, [2, 4], 32) == 2 * values).all()


def test_a_request_may_mix_regions_and_raw_tensors_on_a_stream(sharing: ServerProcess) -> None:
    with client("grpc", sharing) as (asked, _), region(asked, 64) as (name, handle):
        answers: queue.Queue[Any] = queue.Queue()
        asked.start_stream(lambda result, error: answers.put(error or result))
        for number in range(3):
            shm.set_shared_memory_region(handle, [X[:1] + number])
            asked.async_stream_infer(
                "add",
                [in_region(grpc_client, "x", name, X[:1])],
                outputs=[to_region(grpc_client, "y", name, 16, 32)],
            )
            result = answers.get(timeout=60)
            assert not isinstance(result, Exception), result
            found = shm.get_contents_as_numpy(handle, np.float32, [1, 4], 32)
            assert (found == 2 * (X[:1] + number)).all()
        asked.stop_stream()


@pytest.mark.parametrize("kind", CLIENTS)
def test_the_status_lists_regions_of_both_protocols(kind: str, sharing: ServerProcess) -> None:
    with client(kind, sharing) as (asked, _), region(asked, 64) as (name, _handle):
        other = f"{name}_part"
        asked.register_system_shared_memory(other, name, 16, offset=8)  # the key needs no slash
        for each in CLIENTS:
            with client(each, sharing) as (asking, _):
                status = asking.get_system_shared_memory_status()
                if each == "http":
                    found = {entry["name"]: entry for entry in status}
                else:
                    found = {
                        key: {
                            "name": one.name,
                            "key": one.key,
                            "offset": one.offset,
                            "byte_size": one.byte_size,
                        }
                        for key, one in status.regions.items()
                    }
                assert found == {
                    name: {"name": name, "key": f"/{name}", "offset": 0, "byte_size": 64},
                    other: {"name": other, "key": name, "offset": 8, "byte_size": 16},
                }
        asked.unregister_system_shared_memory(other)
        asked.unregister_system_shared_memory("never registered")


def _infer(
    size: int,
    offset: int = 0,
    *,
    region_of: str = "",
    out: int = 32,
    shape: tuple[int, ...] = (2, 4),
) -> Any:
    def ask(asked: Any, module: Any, name: str) -> None:
        given = module.InferInput("x", list(shape), "FP32")
        given.set_shared_memory(region_of or name, size, offset)
        asked.infer("add", [given], outputs=[to_region(module, "y", name, out, 64)])

    return ask


def _register(key: str, size: int = 16, *, name: str = "other", offset: int = 0) -> Any:
    def ask(asked: Any, module: Any, existing: str) -> None:
        asked.register_system_shared_memory(
            existing if name == "same" else name, key.replace("KEY", existing), size, offset=offset
        )

    return ask


@pytest.mark.parametrize(
    ("ask", "statuses", "says"),
    [
        (_infer(32, region_of="nowhere"), ("404", "NOT_FOUND"), "Unable to find shared memory region: 'nowhere'"),
        (_infer(32, 128), ("400", "INVALID_ARGUMENT"), "Invalid offset for shared memory region: '"),
        (_infer(32, 100), ("400", "INVALID_ARGUMENT"), "Invalid offset + byte size for shared memory region: '"),
        (_infer(16), ("400", "INVALID_ARGUMENT"), "input byte size mismatch for input 'x' for model 'add'. Expected 32, got 16"),
        (_infer(32, out=16), ("500", "INTERNAL"),
         "shared memory size specified with the request for output 'y' (16 bytes) should be at least 32 bytes to hold the results"),
        (_register("KEY", name="same"), ("400", "ALREADY_EXISTS"), "already in manager"),
        (_register("naiad_no_such_object"), ("500", "INTERNAL"), "Unable to open shared memory region: 'naiad_no_such_object'"),
        (_register("../etc/passwd"), ("400", "INVALID_ARGUMENT"), "invalid shm key '../etc/passwd'"),
        (_register("//KEY"), ("400", "INVALID_ARGUMENT"), "invalid shm key"),
        (_register(".."), ("400", "INVALID_ARGUMENT"), "invalid shm key '..'"),
        (_register("/triton_python_backend_shm_region_1"), ("400", "INVALID_ARGUMENT"), "the key contains the reserved prefix"),
        (_register("KEY", 129), ("400", "INVALID_ARGUMENT"), "failed to register shared memory region 'other': invalid args"),
        (_register("KEY", 64, offset=65), ("400", "INVALID_ARGUMENT"), "invalid args"),
        (_register("KEY", 0), ("400", "INVALID_ARGUMENT"), "invalid args"),
        (lambda asked, module, name: asked.get_system_shared_memory_status("nowhere"), ("404", "NOT_FOUND"),
         "Unable to find system shared memory region: 'nowhere'"),
        (lambda asked, module, name: asked.get_cuda_shared_memory_status(name), ("404", "NOT_FOUND"),
         "is registered as system shared memory, not CUDA shared memory"),
        (lambda asked, module, name: asked.register_cuda_shared_memory("c", b"\0" * 88, 0, 16), ("400", "INVALID_ARGUMENT"),
         "failed to register CUDA shared memory region: 'c', GPUs not supported"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_the_same_words(
    ask: collections.abc.Callable[[Any, Any, str], None],
    statuses: tuple[str, str],
    says: str,
    sharing: ServerProcess,
) -> None:
    for kind, status in zip(CLIENTS, statuses, strict=True):
        with client(kind, sharing) as (asked, module), region(asked, 128) as (name, handle):
            shm.set_shared_memory_region(handle, [X])
            with pytest.raises(module.InferenceServerException) as caught:
                ask(asked, module, name)
            assert str(caught.value.status()).removeprefix("StatusCode.") == status
            assert says in caught.value.message()
            # and nothing else is harmed
            asked.infer(
                "add",
                [in_region(module, "x", name, X)],
                outputs=[to_region(module, "y", name, 32, 64)],
            )
            assert (shm.get_contents_as_numpy(handle, np.float32, [2, 4], 64) == 2 * X).all()


@pytest.mark.parametrize("kind", CLIENTS)
def test_an_object_that_was_made_smaller_is_an_error_of_the_request(
    kind: str, sharing: ServerProcess
) -> None:
    with client(kind, sharing) as (asked, module), region(asked, 8192) as (name, handle):
        shm.set_shared_memory_region(handle, [X])
        os.truncate(f"/dev/shm/{name}", 16)
        given, wanted = in_region(module, "x", name, X), to_region(module, "y", name, 32, 64)
        for inputs, outputs in (
            ([given], None),
            ([tensor(module, "x", X, "FP32")], [wanted]),
        ):
            with pytest.raises(module.InferenceServerException, match="was made smaller"):
                asked.infer("add", inputs, outputs=outputs)
        assert os.stat(f"/dev/shm/{name}").st_size == 16  # noqa: PTH116 - as above
        os.truncate(f"/dev/shm/{name}", 8192)
        assert asked.is_server_live()


def test_a_region_in_use_outlives_its_name(sharing: ServerProcess) -> None:
    """Unregistered while a request runs: its output is still written, and the name is free."""
    with client("grpc", sharing) as (asked, module), region(asked, 64) as (name, handle):
        given = tensor(module, "SECONDS", np.array([0.5], np.float32), "FP32")
        done = threading.Event()
        said: list[Any] = []

        def finish(result: Any, error: Any) -> None:
            said.append(error)
            done.set()

        asked.async_infer("slow", [given], finish, outputs=[to_region(module, "DONE", name, 4)])
        while not int(
            asked.get_inference_statistics("slow").model_stats[0].inference_stats.success.count or 0
        ):
            asked.unregister_system_shared_memory(name)
            asked.register_system_shared_memory(name, f"/{name}", 32)
        assert done.wait(60)
        assert said == [None]
        assert shm.get_contents_as_numpy(handle, np.float32, [1]).tolist() == [0.5]


def test_without_the_option_there_are_no_regions(server: ServerProcess) -> None:
    def register(asked: Any, module: Any) -> None:
        asked.register_system_shared_memory("r", "/r", 64)

    def unregister(asked: Any, module: Any) -> None:
        asked.unregister_cuda_shared_memory("r")

    def one_status(asked: Any, module: Any) -> None:
        asked.get_system_shared_memory_status("r")

    def input_in_region(asked: Any, module: Any) -> None:
        asked.infer("add", [in_region(module, "x", "r", X)])

    def output_to_region(asked: Any, module: Any) -> None:
        asked.infer(
            "add", [tensor(module, "x", X, "FP32")], outputs=[to_region(module, "y", "r", 32)]
        )

    for ask, statuses in (
        (register, ("501", "StatusCode.UNIMPLEMENTED")),
        (unregister, ("501", "StatusCode.UNIMPLEMENTED")),
        (one_status, ("404", "StatusCode.NOT_FOUND")),
        (input_in_region, ("404", "StatusCode.NOT_FOUND")),
        (output_to_region, ("404", "StatusCode.NOT_FOUND")),
    ):
        said = []
        for kind, status in zip(CLIENTS, statuses, strict=True):
            with client(kind, server) as (asked, module):
                with pytest.raises(module.InferenceServerException) as caught:
                    ask(asked, module)
                assert caught.value.status() == status
                said.append(caught.value.message())
        assert said[0] == said[1]
        assert "--allow-client-shm=true" in said[0]
