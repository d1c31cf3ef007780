"""`naiad.Server`: arrays in and out, errors, streams, cancelling, model control."""

import concurrent.futures
import pathlib
import threading
import time
import typing

import numpy as np
import pytest

import naiad
from tests.server.embed.conftest import some

X = np.array([[1, 2, 3, 4]], np.float32)


def appears(file: pathlib.Path) -> bool:
    """Wait for a file."""
    end = time.monotonic() + 20
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.002)
    return file.exists()


def text(path: pathlib.Path) -> np.ndarray[typing.Any, typing.Any]:
    return np.array([str(path)], dtype=object)


def test_arrays_go_in_and_out(server: naiad.Server) -> None:
    result = server.infer("add", {"x": X}, request_id="mine")
    assert list(result) == ["y"]
    assert result["y"].tolist() == [[2, 4, 6, 8]]
    assert (result.model_name, result.model_version, result.id) == ("add", 1, "mine")
    result["y"][0, 0] = 7  # it is the caller's
    with pytest.raises(KeyError, match="no output 'z': there are y"):
        result["z"]


def test_lists_become_what_the_config_says(server: naiad.Server) -> None:
    assert server.infer("add", {"x": [[1, 2, 3, 4]]})["y"].dtype == np.float32


def test_inputs_that_are_views_and_that_are_read_only(
    server: naiad.Server,
) -> None:
    turned = np.arange(8, dtype=np.float32).reshape(4, 2).T
    assert server.infer("add", {"x": turned})["y"].tolist() == (turned * 2).tolist()
    fixed = X.copy()
    fixed.flags.writeable = False
    assert server.infer("add", {"x": fixed})["y"].tolist() == [[2, 4, 6, 8]]
    assert turned.flags.writeable, "the program's array stays as it was"


def test_outputs_of_requests_that_were_one_batch_share_no_memory(server: naiad.Server) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda n: server.infer("add", {"x": X * n})["y"], range(1, 65)))
    assert [result[0, 0] for result in results] == [2 * n for n in range(1, 65)]
    assert all(result.base is None and result.flags.writeable for result in results)


def test_text_is_bytes_and_a_worker_process_serves_as_well(models: pathlib.Path) -> None:
    with some(models, "text") as server:
        result = server.infer("text", {"TEXT": [["one"], ["zwölf"]]})
        assert result["LOUD"].tolist() == [[b"ONE"], ["ZWöLF".encode()]]
        array = np.array([["a"]] * 8, dtype=object)
        assert server.infer("text", {"TEXT": array})["LOUD"].shape == (8, 1)


@pytest.mark.parametrize(
    ("model", "inputs", "code", "words"),
    [
        ("none", {"x": X}, naiad.ErrorCode.NOT_FOUND, "unknown model: 'none' is not found"),
        ("add", {"z": X}, naiad.ErrorCode.INVALID_ARG, "unexpected inference input 'z'"),
        ("add", {"x": X[0]}, naiad.ErrorCode.INVALID_ARG, "unexpected shape for input 'x'"),
        ("add", {"x": X.astype(np.int8)}, naiad.ErrorCode.INVALID_ARG, "data-type is 'INT8'"),
        ("add", {"x": X.astype(np.complex64)}, naiad.ErrorCode.INVALID_ARG, "no datatype"),
        ("add", {"x": [["a"]]}, naiad.ErrorCode.INVALID_ARG, "cannot become a tensor of FP32"),
        ("add", {}, naiad.ErrorCode.INVALID_ARG, "missing required input"),
        ("counts", {"COUNT": [1]}, naiad.ErrorCode.INVALID_ARG, r"take stream\(…\) in place of"),
    ],
)
def test_a_wrong_request_fails_with_a_code_and_words(
    server: naiad.Server,
    model: str,
    inputs: dict[str, typing.Any],
    code: naiad.ErrorCode,
    words: str,
) -> None:
    with pytest.raises(naiad.InferenceError, match=words) as caught:
        server.infer(model, inputs)
    assert caught.value.code is code
    assert server.infer("add", {"x": X})["y"].tolist() == [[2, 4, 6, 8]]


def test_options_of_a_request(server: naiad.Server) -> None:
    assert list(server.infer("add", {"x": X}, version=1, outputs=["y"], priority=0)) == ["y"]
    with pytest.raises(naiad.InferenceError, match="unexpected inference output 'z'"):
        server.infer("add", {"x": X}, outputs=["z"])
    with pytest.raises(naiad.InferenceError, match=r"give a list of names, \['y'\]"):
        server.infer("add", {"x": X}, outputs="y")
    with pytest.raises(naiad.InferenceError, match="priority=-1: expected"):
        server.infer("add", {"x": X}, priority=-1)
    with pytest.raises(naiad.InferenceError, match="version 7"):
        server.infer("add", {"x": X}, version=7)
    with pytest.raises(TypeError, match="no option 'tiemout'"):
        server.infer("add", {"x": X}, tiemout=1)  # type: ignore[call-arg]


def test_a_request_that_is_late_is_cancelled(server: naiad.Server, tmp_path: pathlib.Path) -> None:
    gate = tmp_path / "gate"
    with pytest.raises(TimeoutError, match=r"'waits' has not responded within 0\.05 s"):
        server.infer("waits", {"GATE": text(gate)}, timeout=0.05)
    if gate.with_suffix(".begun").exists():
        assert appears(gate.with_suffix(".cancelled"))


def test_a_stream_has_every_response_and_a_model_with_one_has_one(server: naiad.Server) -> None:
    numbers = [int(each["NUMBER"][0]) for each in server.stream("counts", {"COUNT": [1000]})]
    assert numbers == list(range(1000))
    assert [each["y"].tolist() for each in server.stream("add", {"x": X})] == [[[2, 4, 6, 8]]]
    assert list(server.stream("counts", {"COUNT": [0]})) == []


def test_an_error_of_a_stream_is_raised_where_it_comes(server: naiad.Server) -> None:
    stream = server.stream("counts", {"COUNT": [-2]})
    assert [int(next(stream)["NUMBER"][0]) for _ in range(2)] == [0, 1]
    with pytest.raises(naiad.InferenceError, match="it counts no further"):
        next(stream)
    assert list(stream) == []
    with pytest.raises(naiad.InferenceError, match="unknown model"):
        next(server.stream("none", {"x": X}))


@pytest.mark.parametrize("end", ["close", "with", "dropped"])
def test_a_model_pauses_until_its_stream_is_read_and_ends_when_it_is_left(
    server: naiad.Server, tmp_path: pathlib.Path, end: str
) -> None:
    sent = tmp_path / "sent"
    stream = server.stream("counts", {"COUNT": [1_000_000], "SENT": text(sent)})
    assert int(next(stream)["NUMBER"][0]) == 0
    if end == "close":
        stream.close()
        assert list(stream) == []
    elif end == "with":
        with stream:
            next(stream)
    del stream
    assert appears(sent)
    # What the program let wait, and what was on its way.
    assert int(sent.read_text()) < 10_000


def test_a_stream_waits_for_each_response_no_longer_than_its_timeout(
    server: naiad.Server, tmp_path: pathlib.Path
) -> None:
    stream = server.stream("waits", {"GATE": text(tmp_path / "gate")}, timeout=0.05)
    with pytest.raises(TimeoutError, match="is cancelled"):
        next(stream)
    assert list(stream) == []


def test_what_the_server_says_of_itself_and_of_its_models(server: naiad.Server) -> None:
    assert server.live()
    assert server.ready()
    assert server.model_ready("add")
    assert not server.model_ready("none")
    assert server.metadata()["version"] == naiad.__version__
    assert server.model_metadata("add")["inputs"] == [
        {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
    ]
    assert server.model_config("add")["max_batch_size"] == 8
    assert server.statistics("add")[0]["inference_count"] >= 0
    assert {entry["name"] for entry in server.index(ready=True)} == {"add", "waits", "counts"}
    assert 'nv_inference_request_success{model="add",version="1"}' in server.metrics()
    with pytest.raises(naiad.InferenceError, match="unknown model"):
        server.model_metadata("none")


def test_models_are_loaded_and_unloaded(models: pathlib.Path) -> None:
    with some(models) as server:
        assert server.index(ready=True) == []
        server.load("add")
        assert server.infer("add", {"x": X})["y"].tolist() == [[2, 4, 6, 8]]
        server.load("add", config={"backend": "onnxruntime", "max_batch_size": 2})
        assert server.model_config("add")["max_batch_size"] == 2
        server.load(
            "other",
            config='{"backend": "onnxruntime"}',
            files={"1/model.onnx": (models / "add" / "1" / "model.onnx").read_bytes()},
        )
        assert server.model_ready("other")
        server.unload("add")
        with pytest.raises(naiad.InferenceError, match="has no available versions"):
            server.infer("add", {"x": X})
        with pytest.raises(naiad.InferenceError, match="failed to load"):
            server.load("none")


def test_a_server_without_a_repository_and_one_that_is_not_explicit() -> None:
    with naiad.Server() as server:
        assert server.ready()
        with pytest.raises(naiad.InferenceError, match="explicit") as caught:
            server.load("any", config="{}")
        assert caught.value.code is naiad.ErrorCode.UNAVAILABLE


def test_several_servers_have_models_of_their_own(models: pathlib.Path) -> None:
    with some(models, "add") as one, some(models, "counts") as two:
        assert one.infer("add", {"x": X})["y"].tolist() == [[2, 4, 6, 8]]
        assert len(list(two.stream("counts", {"COUNT": [2]}))) == 2
        with pytest.raises(naiad.InferenceError, match="unknown model"):
            two.infer("add", {"x": X})


def test_the_stop_finishes_what_is_in_progress(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    gate = tmp_path / "gate"
    server = some(models, "waits").start()
    with concurrent.futures.ThreadPoolExecutor() as threads:
        waiting = threads.submit(server.infer, "waits", {"GATE": text(gate)})
        assert appears(gate.with_suffix(".begun"))
        stopping = threads.submit(server.stop)
        gate.touch()
        assert waiting.result()["DONE"].tolist() == [True]
        stopping.result()
    assert not server.live()
    server.stop()  # again has no effect


def test_what_does_not_end_in_time_fails_with_words(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    gate = tmp_path / "gate"
    server = naiad.Server(
        models, model_control_mode="explicit", load_model="waits", exit_timeout_secs=1
    ).start()
    with concurrent.futures.ThreadPoolExecutor() as threads:
        waiting = threads.submit(server.infer, "waits", {"GATE": text(gate)})
        assert appears(gate.with_suffix(".begun"))
        server.stop()
        with pytest.raises(naiad.InferenceError) as caught:
            waiting.result()
        assert caught.value.code in (naiad.ErrorCode.UNAVAILABLE, naiad.ErrorCode.INTERNAL)
        gate.touch()


def test_calls_outside_of_its_life_fail_with_words_and_it_may_start_again(
    models: pathlib.Path,
) -> None:
    server = some(models, "add")
    with pytest.raises(naiad.InferenceError, match="has not been started"):
        server.infer("add", {"x": X})
    with pytest.raises(naiad.InferenceError, match="has not been started"):
        server.index()
    assert not server.ready()
    for _ in range(2):
        with server:
            assert server.infer("add", {"x": X})["y"].tolist() == [[2, 4, 6, 8]]
            with pytest.raises(RuntimeError, match="runs already"):
                server.start()
        with pytest.raises(naiad.InferenceError, match="was stopped"):
            server.stream("add", {"x": X})


def test_a_model_that_does_not_load_fails_the_start_and_says_why(
    tmp_path: pathlib.Path, models: pathlib.Path
) -> None:
    (tmp_path / "bad" / "1").mkdir(parents=True)
    (tmp_path / "bad" / "config.pbtxt").write_text('backend: "onnxruntime"')
    server = naiad.Server(tmp_path)
    with pytest.raises(naiad.StartError, match=r"bad: .*model\.onnx"):
        server.start()
    assert not server.live()
    with pytest.raises(naiad.StartError, match="models that are not in the repository"):
        some(models, "none").start()
    with naiad.Server([models, tmp_path], exit_on_error=False) as serves:
        assert serves.model_ready("add")
        assert not serves.model_ready("bad")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"log_info": False}, "configures Python's logging"),
        ({"model_controll_mode": "explicit"}, "did you mean --model-control-mode"),
        ({"exit_timeout_secs": -1}, "must be"),
        ({"load_model": "add"}, "explicit"),
    ],
)
def test_a_wrong_option_is_a_value_error(options: dict[str, typing.Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        naiad.Server("models", **options)


def test_the_server_is_not_called_on_its_own_loop(server: naiad.Server) -> None:
    async def call() -> None:
        server.infer("add", {"x": X})

    running = server._now()
    with pytest.raises(RuntimeError, match="would wait for itself"):
        running.loop.call(call())


def test_many_threads_at_once_while_models_come_and_go(models: pathlib.Path) -> None:
    stop = threading.Event()
    wrong: list[BaseException] = []

    def ask() -> None:
        while not stop.is_set():
            try:
                assert server.infer("add", {"x": X})["y"][0, 0] == 2
            except naiad.InferenceError as error:
                wrong.append(error)

    with some(models, "add") as server:
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for size in (2, 4, 2, 4):
            server.load("add", config={"backend": "onnxruntime", "max_batch_size": size})
        stop.set()
        for thread in threads:
            thread.join()
    assert wrong == []
