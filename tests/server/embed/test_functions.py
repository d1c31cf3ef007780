"""`naiad.model`: functions of the program as models; what they return, raise and declare."""

import asyncio
import collections.abc
import concurrent.futures
import functools
import pathlib
import threading
import time
import typing

import ml_dtypes
import numpy as np
import pytest
import tritonclient.http

import naiad
from tests.server.embed.test_server import appears, text

Array = np.ndarray[typing.Any, typing.Any]
WRONG: typing.Any = lambda value: value  # noqa: E731 - hides a wrong type from the type checker
VECTOR = naiad.Tensor((-1,), np.float32)


@naiad.model(
    inputs=[VECTOR, VECTOR],
    outputs=[naiad.Tensor((-1,), np.float32, "add"), naiad.Tensor((-1,), np.float32, "sub")],
    max_batch_size=128,
)
def add_sub(a: Array, b: Array) -> dict[str, Array]:
    return {"add": a + b, "sub": a - b}


A, B = np.array([[1, 2, 3]], np.float32), np.array([[3, 2, 1]], np.float32)


def one(
    function: collections.abc.Callable[..., typing.Any], **declared: typing.Any
) -> naiad.FunctionModel:
    """A function of one input x and one output y, both vectors."""
    declared = {
        "inputs": [VECTOR],
        "outputs": [naiad.Tensor((-1,), np.float32, "y")],
        "name": "f",
        **declared,
    }
    return naiad.model(**declared)(function)


def test_a_function_is_served_in_the_program_and_over_http() -> None:
    with naiad.Server(functions=[add_sub]) as server:
        result = server.infer("add_sub", {"a": A, "b": B})
        assert result["add"].tolist() == [[4, 4, 4]]
        assert result["sub"].tolist() == [[-2, 0, 2]]
        config = server.model_config("add_sub")
        assert (config["max_batch_size"], config["dynamic_batching"] is not None) == (128, True)
        with tritonclient.http.InferenceServerClient(server.serve_http(0)) as client:
            sent = [tritonclient.http.InferInput(name, [1, 3], "FP32") for name in "ab"]
            for tensor, values in zip(sent, (A, B), strict=True):
                tensor.set_data_from_numpy(values)
            assert client.infer("add_sub", sent).as_numpy("add").tolist() == [[4, 4, 4]]
    assert add_sub(a=A, b=B)["add"].tolist() == [[4, 4, 4]]


def test_arrays_of_a_result_stay_as_they_are_when_the_function_goes_on_with_its_own() -> None:
    buffer, column = np.zeros(2, np.float32), np.zeros((2, 2), np.float32)
    returned = iter([buffer, buffer[:], column[:, 0], buffer.astype(">f4"), [[5.0, 5.0]]])

    def fill(x: Array) -> typing.Any:
        buffer[:], column[:] = x, x
        return next(returned)

    with naiad.Server(functions=[one(fill)]) as server:

        def ask(value: int) -> Array:
            return server.infer("f", {"x": np.full(2, value, np.float32)})["y"]

        results = [ask(value) for value in (1, 2, 3)]
        with pytest.raises(naiad.InferenceError, match="byte order"):
            ask(4)
        results.append(ask(5))
    assert [each.tolist() for each in results] == [[1, 1], [2, 2], [3, 3], [5, 5]]
    assert all(each.flags.writeable and each.flags.c_contiguous for each in results)


def test_requests_that_wait_are_one_call(tmp_path: pathlib.Path) -> None:
    sizes: list[int] = []
    begun, gate = threading.Event(), threading.Event()

    @naiad.model(inputs=[VECTOR], outputs=[VECTOR], max_batch_size=16, name="twice")
    def twice(x: Array) -> Array:
        sizes.append(len(x))
        begun.set()
        gate.wait(20)
        doubled: Array = x * 2
        return doubled

    with (
        naiad.Server(functions=[twice]) as server,
        concurrent.futures.ThreadPoolExecutor(5) as pool,
    ):
        first = pool.submit(server.infer, "twice", {"x": A})
        assert begun.wait(20)
        others = [pool.submit(server.infer, "twice", {"x": A * n}) for n in range(2, 6)]
        end = time.monotonic() + 20
        while _pending(server) < 5 and time.monotonic() < end:
            time.sleep(0.002)
        gate.set()
        assert first.result()["OUTPUT_1"].tolist() == (A * 2).tolist()
        assert [each.result()["OUTPUT_1"][0, 0] for each in others] == [4, 6, 8, 10]
    assert sizes == [1, 4]


def _pending(server: naiad.Server) -> int:
    (line,) = [
        line
        for line in server.metrics().splitlines()
        if line.startswith("nv_inference_pending_request_count{")
    ]
    return int(float(line.rpartition(" ")[2])) + 1  # and the one in execution


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: 1 / 0, r"its function raised ZeroDivisionError: division by zero \(.*test_functions\.py:\d+\)"),
        (lambda x: {"z": x}, "returned the outputs z; expected y"),
        (lambda x: {}, "returned the outputs none; expected y"),
        (lambda x: [x, x], "expected a dict of the outputs y, or a list of 1 arrays"),
        (lambda x: None, "returned None; expected the outputs y"),
        (lambda x: {"y": [["a"]]}, "returned values that make no tensor"),
        (lambda x: x.astype(np.float64), "'y' as FP64; expected FP32: return y.astype"),
        (lambda x: x[:, 0], r"'y' of shape \[1\]; expected \[1, -1\]"),
        (lambda x: np.concatenate([x, x]), r"'y' of shape \[2, 3\]; expected \[1, -1\]"),
        (lambda x: [["1"]], r"cannot become a tensor of FP32: '1' is not a number"),
    ],
)  # fmt: skip
def test_what_a_function_does_wrong_fails_its_request_with_words(
    function: collections.abc.Callable[..., typing.Any], words: str
) -> None:
    good = one(lambda x: x, name="good", max_batch_size=4)
    with naiad.Server(functions=[one(function, max_batch_size=4), good]) as server:
        name = server.model_metadata("f")["inputs"][0]["name"]
        with pytest.raises(naiad.InferenceError, match=words):
            server.infer("f", {name: A})
        assert server.infer("good", {"x": A})["y"].tolist() == A.tolist()
        assert server.model_ready("f")


def test_an_error_of_the_function_keeps_its_code_and_one_of_a_batch_fails_alone() -> None:
    def checked(requests: list[naiad.Request]) -> list[typing.Any]:
        results: list[typing.Any] = []
        for request in requests:
            if request.parameters.get("wrong"):
                words = f"{request.request_id} is wrong"
                results.append(naiad.InferenceError(naiad.ErrorCode.INVALID_ARG, words))
            else:
                results.append({"y": request["INPUT_1"]})
        return results

    with naiad.Server(functions=[one(checked, takes="requests", max_batch_size=4)]) as server:
        with pytest.raises(naiad.InferenceError, match="seven is wrong") as caught:
            server.infer("f", {"INPUT_1": A}, request_id="seven", parameters={"wrong": True})
        assert caught.value.code is naiad.ErrorCode.INVALID_ARG
        assert server.infer("f", {"INPUT_1": A})["y"].tolist() == A.tolist()


@pytest.mark.parametrize("returned", [None, [], [1, 2], {}])
def test_a_function_of_requests_returns_one_result_for_each(returned: object) -> None:
    with (
        naiad.Server(functions=[one(lambda requests: returned, takes="requests")]) as server,
        pytest.raises(naiad.InferenceError, match="for 1 requests; expected a list"),
    ):
        server.infer("f", {"INPUT_1": A[0]})


def test_a_function_that_blocks_blocks_nothing_else_and_its_request_may_time_out(
    tmp_path: pathlib.Path,
) -> None:
    gate = threading.Event()
    blocks = one(lambda x: [x, gate.wait(20)][0], name="blocks")
    with naiad.Server(functions=[blocks, one(lambda x: x)]) as server:
        with pytest.raises(TimeoutError, match="'blocks' has not responded"):
            server.infer("blocks", {"x": A[0]}, timeout=0.05)
        assert server.infer("f", {"x": A[0]})["y"].tolist() == [1, 2, 3]
        gate.set()


def test_a_generator_sends_a_stream_and_ends_when_the_client_goes(tmp_path: pathlib.Path) -> None:
    ended = tmp_path / "ended"

    def count(x: Array) -> collections.abc.Iterator[Array]:
        try:
            for number in range(int(x[0])):
                yield np.array([number], np.float32)
            if x[0] == 3:
                raise ValueError("no more")
        finally:
            ended.touch()

    with naiad.Server(functions=[one(count)]) as server:
        assert [part["y"].tolist() for part in server.stream("f", {"x": [2]})] == [[0], [1]]
        stream = server.stream("f", {"x": [3]})
        assert len([next(stream) for _ in range(3)]) == 3
        with pytest.raises(naiad.InferenceError, match="raised ValueError: no more"):
            next(stream)
        ended.unlink()
        with server.stream("f", {"x": [1_000_000]}) as left:
            next(left)
        assert appears(ended)


async def test_coroutine_functions_and_asynchronous_generators() -> None:
    async def twice(x: Array) -> Array:
        await asyncio.sleep(0)
        doubled: Array = x * 2
        return doubled

    async def count(x: Array) -> collections.abc.AsyncIterator[Array]:
        for number in range(int(x[0])):
            await asyncio.sleep(0)
            yield np.array([number], np.float32)

    async def wrong(x: Array) -> Array:
        raise ValueError("of the coroutine")

    functions = [one(twice), one(count, name="count"), one(wrong, name="wrong")]
    async with naiad.AsyncServer(functions=functions) as server:
        assert (await server.infer("f", {"x": A[0]}))["y"].tolist() == [2, 4, 6]
        parts = [part["y"].tolist() async for part in server.stream("count", {"x": [2]})]
        assert parts == [[0], [1]]
        with pytest.raises(naiad.InferenceError, match="raised ValueError: of the coroutine"):
            await server.infer("wrong", {"x": A[0]})


def test_every_datatype_and_scalars_per_row() -> None:
    kinds = [np.bool_, np.uint8, np.int64, np.float16, "BF16", "FP64", np.dtype("int32")]
    functions = [
        naiad.model(
            inputs=[naiad.Tensor((2,), kind, "x")], outputs=[naiad.Tensor((2,), kind, "y")], name=f"m{n}"
        )(lambda x: {"y": x})
        for n, kind in enumerate(kinds)
    ]  # fmt: skip
    loud = naiad.model(
        inputs=[naiad.Tensor((1,), bytes, "x")], outputs=[naiad.Tensor((1,), str, "y")], name="loud"
    )(lambda x: [np.array([x[0].decode().upper()])])
    with naiad.Server(functions=[*functions, loud]) as server:
        for n, kind in enumerate(kinds):
            dtype = {"BF16": ml_dtypes.bfloat16, "FP64": np.float64}.get(str(kind), kind)
            sent = np.array([0, 1]).astype(typing.cast(typing.Any, dtype))
            result = server.infer(f"m{n}", {"x": sent})["y"]
            assert (result.dtype, result.tolist()) == (sent.dtype, sent.tolist())
        assert server.infer("loud", {"x": ["ö"]})["y"].tolist() == ["Ö".encode()]


def test_requests_with_and_without_an_optional_input_are_calls_of_their_own() -> None:
    def scaled(x: Array, by: Array | float = 10.0) -> Array:
        result: Array = x * np.float32(by) if isinstance(by, float) else x * by
        return result

    declared = one(
        scaled, inputs=[VECTOR, naiad.Tensor((1,), np.float32, optional=True)], max_batch_size=8
    )
    with (
        naiad.Server(functions=[declared]) as server,
        concurrent.futures.ThreadPoolExecutor(8) as pool,
    ):
        inputs = [{"x": A}, {"x": A, "by": np.array([[2]], np.float32)}] * 8
        results = list(pool.map(lambda each: server.infer("f", each)["y"][0, 0], inputs))
    assert results == [10, 2] * 8


def test_a_function_per_instance_and_a_callable_object() -> None:
    class Scale:
        def __init__(self, by: float) -> None:
            self.by = np.float32(by)

        def __call__(self, x: Array) -> Array:
            scaled: Array = x * self.by
            return scaled

    from naiad.embed.functions import function_model  # noqa: PLC0415

    several = function_model(
        [Scale(2), Scale(2)], name="scale", inputs=[VECTOR], outputs=[VECTOR], max_batch_size=0, takes="batch", config={},
    )  # fmt: skip
    with naiad.Server(functions=[one(Scale(3)), several]) as server:
        assert server.infer("f", {"x": A[0]})["y"].tolist() == [3, 6, 9]
        assert server.infer("scale", {"x": A[0]})["OUTPUT_1"].tolist() == [2, 4, 6]
        assert server.model_config("scale")["instance_group"][0]["count"] == 2


def test_what_a_decorator_passes_on_is_its_own_affair() -> None:
    def with_offset(function: collections.abc.Callable[..., Array]) -> collections.abc.Callable[..., Array]:  # fmt: skip
        @functools.wraps(function)
        def wrapped(**inputs: Array) -> Array:
            return function(offset=np.float32(10), **inputs)

        return wrapped

    def shifted(x: Array, offset: np.float32) -> Array:
        moved: Array = x + offset
        return moved

    async def later(x: Array, by: float) -> Array:
        scaled: Array = x * np.float32(by)
        return scaled

    functions = [
        one(with_offset(shifted), name="wrapped"),
        one(functools.partial(shifted, offset=np.float32(1)), name="partial", inputs=[naiad.Tensor((-1,), np.float32)]),
        one(functools.partial(later, by=3), name="later"),
    ]  # fmt: skip
    with naiad.Server(functions=functions) as server:
        assert server.infer("wrapped", {"x": A[0]})["y"].tolist() == [11, 12, 13]
        assert server.infer("partial", {"x": A[0]})["y"].tolist() == [2, 3, 4]
        assert server.infer("later", {"x": A[0]})["y"].tolist() == [3, 6, 9]


def test_a_batched_function_may_have_sequences_in_place_of_dynamic_batches() -> None:
    sequences = {"sequence_batching": {"max_sequence_idle_microseconds": 1000000}}
    with naiad.Server(functions=[one(lambda x: x, max_batch_size=4, config=sequences)]) as server:
        sent = server.infer(
            "f", {"x": A[:1]}, sequence_id=1, sequence_start=True, sequence_end=True
        )
        assert sent["y"].tolist() == [[1, 2, 3]]


def test_functions_are_bound_later_and_beside_a_repository(models: pathlib.Path) -> None:
    with naiad.Server(models, model_control_mode="explicit", load_model="add", functions=[add_sub]) as server:  # fmt: skip
        server.bind(one(lambda x: x))
        assert server.infer("f", {"x": A[0]})["y"].tolist() == [1, 2, 3]
        assert {each["name"] for each in server.index(ready=True)} == {"add", "add_sub", "f"}
        with pytest.raises(ValueError, match="there is a function 'f' already"):
            server.bind(one(lambda x: x))
        server.unload("f")
        server.load("f")
        assert server.infer("f", {"x": A[0]})["y"].tolist() == [1, 2, 3]
    again = naiad.Server(functions=[add_sub])
    again.bind(one(lambda x: x))
    for _ in range(2):
        with again:
            assert again.infer("f", {"x": A[0]})["y"].tolist() == [1, 2, 3]


def test_two_servers_have_functions_of_one_name() -> None:
    with (
        naiad.Server(functions=[one(lambda x: x)]) as single,
        naiad.Server(functions=[one(lambda x: x * 2)]) as double,
    ):
        assert single.infer("f", {"x": A[0]})["y"].tolist() == [1, 2, 3]
        assert double.infer("f", {"x": A[0]})["y"].tolist() == [2, 4, 6]


@pytest.mark.parametrize(
    ("declare", "error", "words"),
    [
        (lambda: naiad.Tensor((0,), np.float32), ValueError, "above 0, or -1"),
        (lambda: naiad.Tensor(WRONG((1.5,)), np.float32), TypeError, "not an integer"),
        (lambda: naiad.Tensor((1,), np.complex64), TypeError, "has no datatype"),
        (lambda: one(lambda x: x, inputs=["x"]), TypeError, "declares no tensor"),
        (lambda: one(lambda x: x, name="a/b"), ValueError, "use letters"),
        (lambda: one(lambda x: x, takes="all"), ValueError, "expected 'batch' or 'requests'"),
        (lambda: one(lambda x: x, outputs=[]), ValueError, "declares no output"),
        (lambda: one(lambda x, y: x, inputs=[naiad.Tensor((1,), "FP32", "y"), VECTOR]), ValueError, "called alike"),
        (lambda: one(lambda x: x, instances=0), ValueError, "at least 1"),
        (lambda: one(lambda x: x, instances=WRONG("2")), TypeError, "instances='2': expected an integer"),
        (lambda: naiad.Tensor(WRONG(5), np.float32), TypeError, r"shape=5: expected a tuple of integers"),
        (lambda: naiad.Tensor((1,), np.float32, WRONG(5)), TypeError, "name=5: expected text"),
        (lambda: naiad.Tensor((1,), None), TypeError, "dtype None has no datatype"),
        (lambda: naiad.Tensor((1,), "fp32"), TypeError, "dtype 'fp32' has no datatype; there are BOOL"),
        (lambda: one(lambda x: x, max_batch_size=-1), ValueError, "max_batch_size=-1: expected at least 0"),
        (lambda: one(lambda x: x, max_batch_size=WRONG(True)), TypeError, "max_batch_size=True: expected an integer"),
        (lambda: one(lambda x: x, max_batch_size=WRONG("8")), TypeError, "max_batch_size='8': expected an integer"),
        (lambda: one(lambda x: x, name="a" * 201), ValueError, "200 at most"),
        (lambda: one(lambda x: x, name=WRONG(5)), ValueError, "model name 5: use letters"),
        (lambda: one(lambda x: x, inputs=WRONG(VECTOR)), TypeError, r"inputs=.*expected a list of naiad.Tensor"),
        (lambda: one(lambda x: x, outputs=WRONG({"y": VECTOR})), TypeError, r"outputs=.*expected a list of naiad.Tensor"),
        (lambda: one(lambda x: x, inputs=[naiad.Tensor((), "FP32")]), ValueError, r"the shape \(\) is a number for each row"),
        (lambda: one(lambda: A, inputs=[], max_batch_size=4), ValueError, "has no inputs, whose rows"),
        (lambda: one(lambda: A), TypeError, r"its function\(\) cannot be called with INPUT_1=… .*: name the inputs as its parameters"),
        (lambda: one(lambda a: a, inputs=[naiad.Tensor((1,), "FP32", "b")]), TypeError, r"its function\(a\) cannot be called with b=…"),
        (lambda: one(lambda x, y: x, inputs=[VECTOR, naiad.Tensor((1,), "FP32", "y", optional=True)]), TypeError, "give parameters of optional inputs a default"),
        (lambda: one(eval("lambda x, /: x")), TypeError, r"its function\(x, /\) cannot be called with x=…"),
        (lambda: one(lambda requests, more: [], takes="requests"), TypeError, "takes='requests' gives it nothing else"),
        (lambda: one(lambda x: x, config=WRONG(None)), TypeError, "config=None: expected fields"),
        (lambda: one(lambda x: x, config={"maxBatchSize": 8}).config(), ValueError, "has max_batch_size: write max_batch_size=…"),
        (lambda: one(lambda x: x, config={"backend": "onnxruntime"}).config(), ValueError, "a function has Python's"),
        (lambda: one(lambda x: x, config={"input": []}).config(), ValueError, "has input: write inputs=…"),
        (lambda: one(lambda x: x, config={"model_transaction_policy": {"decoupled": True}}).config(), ValueError, "a generator makes a decoupled model"),
        (lambda: one(lambda x: x, config={"parameters": {"naiad.host": {"string_value": "process"}}}).config(), ValueError, "runs in threads of its program"),
        (lambda: naiad.Server(functions=WRONG(add_sub)), TypeError, r"expected a list, functions=\[function\]"),
        (lambda: naiad.Server(models=WRONG([add_sub])), ValueError, r"^models: there is no such option: functions of the program are given as functions="),
        (lambda: naiad.Server(WRONG([add_sub])), ValueError, r"^model_repository=.* or a list of them; functions of the program are given as functions="),
        (lambda: naiad.Server(WRONG(add_sub)), ValueError, r"functions of the program are given as functions="),
        (lambda: one(WRONG(3)), TypeError, "is not a function"),
        (lambda: naiad.Server(functions=WRONG([add_sub.functions[0]])), TypeError, "write @naiad.model"),
        (lambda: naiad.Server(functions=[one(lambda x: x, config={"max_batch": 3})]), ValueError, "max_batch"),
    ],
)  # fmt: skip
def test_a_wrong_declaration_fails_where_it_is_made(
    declare: collections.abc.Callable[[], object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        declare()


def test_a_config_that_no_server_takes_fails_the_start_and_a_later_bind_alone() -> None:
    wrong = {"instance_group": [{"count": 1, "kind": "KIND_CPU", "gpus": [0]}]}
    with pytest.raises(naiad.StartError, match="f: "):
        naiad.Server(functions=[one(lambda x: x, config=wrong)]).start()
    with naiad.Server(functions=[add_sub]) as server:
        with pytest.raises(naiad.InferenceError):
            server.bind(one(lambda x: x, config=wrong))
        server.bind(one(lambda x: x))
        assert server.infer("f", {"x": A[0]})["y"].tolist() == [1, 2, 3]


def test_a_stop_leaves_no_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with naiad.Server(functions=[one(lambda x: x)]) as server:
        assert list(tmp_path.glob("naiad-functions-*/f/1/model.py"))
        assert server.infer("f", {"x": A[0]})
    assert not list(tmp_path.glob("naiad-functions-*"))
    assert text(tmp_path).shape == (1,)
