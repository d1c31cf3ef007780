"""Batches that are filled up to a size and run in the session of that size; the CPU provider in the place of CUDA's."""

import logging
import pathlib
from typing import Any

import msgspec
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from typing_extensions import override

from naiad.backends.backend import ModelSource
from naiad.backends.device_errors import unrecoverable
from naiad.backends.instance import InstanceSpec
from naiad.backends.onnxruntime import backend as backends
from naiad.backends.onnxruntime.batch_sessions import BatchSessions
from naiad.backends.onnxruntime.batch_sizes import Memory
from naiad.backends.onnxruntime.plan import Provider, plan_session
from naiad.backends.onnxruntime.runner import SessionRunner
from naiad.config.model_config import DynamicBatching, InstanceGroup, InstanceKind
from naiad.core import datatypes
from naiad.core.clock import ManualClock
from naiad.errors import InferenceError
from tests.server.backends.configs import (
    Instance,
    Loaded,
    inference,
    model_config,
    run,
    spec,
    tensor,
    values,
)
from tests.server.backends.graphs import ADD_CONFIG, add, load, value, write_add, write_graph
from tests.server.backends.onnxruntime.test_backend import ELEMENTS

GIB = 1 << 30


def filling(value: str = "on", *, config: Any = ADD_CONFIG, max_batch_size: int = 8) -> Any:
    """The config of the model of `write_add`, or another one, with batches that are filled up."""
    return model_config(
        inputs=config.inputs,
        outputs=config.outputs,
        max_batch_size=max_batch_size,
        dynamic_batching=DynamicBatching(),
        parameters={"naiad.fill_batches": value} if value else {},
    )


def one_of(model: Loaded) -> Instance:
    return model.make_instance(InstanceSpec(name="m_0_0", kind=InstanceKind.CPU, device_id=0))


@pytest.fixture(name="runs")
def seen_runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, list[list[float]]]]:
    """Every run from now on: the place of its session among those that were made, and the first input."""
    runs: list[tuple[int, list[list[float]]]] = []
    made: list[object] = []
    run = SessionRunner.run

    def record(self: SessionRunner, names: list[str], feeds: dict[str, Any]) -> Any:
        if self not in made:
            made.append(self)
        runs.append((made.index(self), next(iter(feeds.values())).tolist()))
        return run(self, names, feeds)

    monkeypatch.setattr(SessionRunner, "run", record)
    return runs


def test_sessions_are_run_with_each_size_before_the_model_is_ready(
    tmp_path: pathlib.Path, runs: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    load(write_add(tmp_path), filling())
    assert [(place, len(rows)) for place, rows in runs] == [
        (place, size) for place, size in enumerate((8, 1, 4, 2)) for _ in range(7)
    ]
    text = caplog.text
    assert "model 'm': batches are filled up to 1, 2, 4, 8 rows; making a session for each" in text
    assert "model 'm': the session for 4 rows took 0.0 s, a run of it 0.00 ms" in text
    assert "model 'm': 4 sessions made and run in 0.0 s" in text


def test_a_batch_is_filled_with_its_last_row_and_clients_get_their_own_rows_only(
    tmp_path: pathlib.Path, runs: list[Any]
) -> None:
    instance = one_of(load(write_add(tmp_path), filling()))
    runs.clear()
    batch = [add([[1, 2]], [[10, 20]]), add([[3, 4], [5, 6]], [[30, 40], [50, 60]])]
    execution = instance.execute(batch)
    assert runs == [(2, [[1, 2], [3, 4], [5, 6], [5, 6]])]
    assert execution.padding_rows == 1
    first, second = execution.responses
    assert first is not None
    assert second is not None
    assert values(first) == {"SUM": [[11, 22]], "DIFFERENCE": [[-9, -18]]}
    assert values(second) == {
        "SUM": [[33, 44], [55, 66]],
        "DIFFERENCE": [[-27, -36], [-45, -54]],
    }


@pytest.mark.parametrize(
    ("rows", "place", "padding"), [(1, 1, 0), (2, 3, 0), (3, 2, 1), (5, 0, 3), (8, 0, 0)]
)
def test_each_size_has_a_session_that_sees_no_other(
    tmp_path: pathlib.Path, runs: list[Any], rows: int, place: int, padding: int
) -> None:
    instance = one_of(load(write_add(tmp_path), filling()))
    runs.clear()
    data = [[row, row] for row in range(rows)]
    execution = instance.execute([add(data, data)])
    (response,) = execution.responses
    assert response is not None
    assert values(response)["SUM"] == [[2 * row, 2 * row] for row in range(rows)]
    assert [(seen, len(given)) for seen, given in runs] == [(place, rows + padding)]
    assert execution.padding_rows == padding


@pytest.mark.parametrize("datatype", datatypes.ALL, ids=lambda each: each.name)
def test_rows_of_every_datatype_are_added(
    tmp_path: pathlib.Path, datatype: datatypes.DataType
) -> None:
    element = ELEMENTS[datatype.name]
    write_graph(
        tmp_path,
        [helper.make_node("Identity", ["IN"], ["OUT"])],
        [value("IN", ["n", 2], element)],
        [value("OUT", ["n", 2], element)],
    )
    plain = model_config(inputs=[spec("IN", datatype, (2,))], outputs=[spec("OUT", datatype, (2,))])
    instance = one_of(load(tmp_path, filling("4", config=plain)))
    sample = [b"", "é\0x".encode()] if datatype is datatypes.BYTES else [0, 1]
    execution = instance.execute([inference(tensor("IN", [sample] * 3, datatype))])
    (response,) = execution.responses
    assert response is not None
    assert response.outputs[0].array.tolist() == [sample] * 3
    assert execution.padding_rows == 1


def timed(model: Loaded, costs: dict[int, int]) -> Instance:
    """An instance whose sessions take these times."""
    instance = one_of(model)
    sessions: BatchSessions = instance.instance._sessions  # type: ignore[attr-defined]
    instance.instance._sessions = BatchSessions(  # type: ignore[attr-defined]
        sessions.first, sessions._by_size, costs
    )
    return instance


def test_a_batch_may_run_in_several_sessions_and_clients_get_their_own_rows(
    tmp_path: pathlib.Path, runs: list[Any]
) -> None:
    """Seven rows in runs of 4, 2 and 1, and of 4 and 4; requests lie across them."""
    model = load(write_add(tmp_path), filling())
    for costs, given in (
        ({1: 10, 2: 20, 4: 40, 8: 80}, [(2, [0, 1, 2, 3]), (3, [4, 5]), (1, [6])]),
        ({1: 30, 2: 35, 4: 40, 8: 99}, [(2, [0, 1, 2, 3]), (2, [4, 5, 6, 6])]),
    ):
        instance = timed(model, costs)
        runs.clear()
        batch = [add([[row, 0] for row in part], [[1, 1]] * len(part)) for part in ([0, 1, 2], [3, 4], [5, 6])]  # fmt: skip
        execution = instance.execute(batch)
        assert [(place, [row[0] for row in rows]) for place, rows in runs] == given
        assert [values(each)["SUM"] for each in execution.responses if each is not None] == [
            [[1, 1], [2, 1], [3, 1]],
            [[4, 1], [5, 1]],
            [[6, 1], [7, 1]],
        ]
        assert execution.padding_rows == sum(len(rows) for _, rows in given) - 7


def test_models_are_not_filled_on_the_cpu_by_default(
    tmp_path: pathlib.Path, runs: list[Any]
) -> None:
    instance = one_of(load(write_add(tmp_path), filling("")))
    assert runs == []
    assert instance.execute([add([[1, 2]] * 3, [[1, 2]] * 3)]).padding_rows == 0
    assert [len(rows) for _, rows in runs] == [3]


def test_an_option_fills_the_batches_of_every_model(tmp_path: pathlib.Path) -> None:
    model = load(write_add(tmp_path), filling(""), options={"fill_batches": "8"})
    assert one_of(model).execute([add([[1, 2]] * 3, [[1, 2]] * 3)]).padding_rows == 5


def picky(folder: pathlib.Path) -> Loaded:
    """OUT = IN, which has to have as many rows as LIMIT's first number says at most: a run with more fails."""
    write_graph(
        folder,
        [
            helper.make_node("Shape", ["IN"], ["shape"]),
            helper.make_node("Gather", ["shape", "zero"], ["rows"]),
            helper.make_node("Gather", ["LIMIT", "zero"], ["limit"]),
            helper.make_node("Greater", ["rows", "limit"], ["over"]),
            helper.make_node("Cast", ["over"], ["index"], to=TensorProto.INT64),
            helper.make_node("Gather", ["one", "index"], ["checked"]),  # index 1 does not exist
            helper.make_node("Add", ["IN", "checked"], ["OUT"]),
        ],
        [value("IN", ["n"]), value("LIMIT", ["n"], TensorProto.INT64)],
        [value("OUT", ["n"])],
        initializer=[
            numpy_helper.from_array(np.array(0, np.int64), "zero"),
            numpy_helper.from_array(np.array([0], np.float32), "one"),
        ],
    )
    scalar: dict[str, Any] = {"dims": (1,), "reshape": ()}
    plain = model_config(
        inputs=[spec("IN", datatypes.FP32, **scalar), spec("LIMIT", datatypes.INT64, **scalar)],
        outputs=[spec("OUT", datatypes.FP32, **scalar)],
    )
    return load(folder, filling("4", config=plain))


def ask(rows: int, limit: int) -> Any:
    return inference(
        tensor("IN", list(range(rows)), datatypes.FP32),
        tensor("LIMIT", [limit] * rows, datatypes.INT64),
    )


def test_a_batch_that_fails_because_of_added_rows_runs_again_without_them(
    tmp_path: pathlib.Path, runs: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    instance = one_of(picky(tmp_path))
    runs.clear()
    execution = instance.execute([ask(3, limit=3)])
    (response,) = execution.responses
    assert response is not None
    assert values(response) == {"OUT": [[0], [1], [2]]}
    assert execution.padding_rows == 0
    assert [len(rows) for _, rows in runs] == [4, 3]
    assert "a batch failed because of the rows that were added to it, and ran again without" in (
        caplog.text
    )


def test_after_three_such_batches_in_a_row_none_is_filled(
    tmp_path: pathlib.Path, runs: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    instance = one_of(picky(tmp_path))
    runs.clear()
    for limit in (3, 3, 9, 3, 3, 3):  # the third one runs, so that three in a row are the last ones
        instance.execute([ask(3, limit=limit)])
    assert [len(rows) for _, rows in runs] == [4, 3, 4, 3, 4, 4, 3, 4, 3, 4, 3]
    assert caplog.text.count("batches are not filled any more") == 1
    assert caplog.text.count("because of the rows that were added to") == 2
    runs.clear()
    assert instance.execute([ask(3, limit=3)]).padding_rows == 0
    assert [len(rows) for _, rows in runs] == [3]


def test_a_batch_that_fails_by_itself_fails_with_its_own_error_and_does_not_count(
    tmp_path: pathlib.Path, runs: list[Any]
) -> None:
    instance = one_of(picky(tmp_path))
    for _ in range(5):
        with pytest.raises(InferenceError, match="instance 'm_0_0'"):
            instance.execute([ask(3, limit=2)])
    runs.clear()
    assert instance.execute([ask(3, limit=9)]).padding_rows == 1


def test_an_output_with_other_rows_than_the_filled_batch_is_taken_from_a_second_run(
    tmp_path: pathlib.Path,
) -> None:
    """OUT has the rows that are unlike the one before them: three of three real ones, and of four with a copy of the last."""
    write_graph(
        tmp_path,
        [helper.make_node("Unique", ["IN"], ["OUT"], axis=0)],
        [value("IN", ["n", 1])],
        [value("OUT", ["m", 1])],
    )
    plain = model_config(
        inputs=[spec("IN", datatypes.FP32, (1,))], outputs=[spec("OUT", datatypes.FP32, (1,))]
    )
    instance = one_of(load(tmp_path, filling("4", config=plain)))
    (response,) = run(instance, inference(tensor("IN", [[1], [2], [3]], datatypes.FP32)))
    assert values(response) == {"OUT": [[1], [2], [3]]}


def test_a_model_with_free_dimensions_is_filled_without_a_first_run(
    tmp_path: pathlib.Path, runs: list[Any]
) -> None:
    write_graph(
        tmp_path,
        [helper.make_node("Identity", ["IN"], ["OUT"])],
        [value("IN", ["n", "w"])],
        [value("OUT", ["n", "w"])],
    )
    plain = model_config(
        inputs=[spec("IN", datatypes.FP32, (-1,))], outputs=[spec("OUT", datatypes.FP32, (-1,))]
    )
    instance = one_of(load(tmp_path, filling(config=plain)))
    assert runs == []
    execution = instance.execute([inference(tensor("IN", [[1.0, 2.0]] * 3, datatypes.FP32))])
    assert execution.padding_rows == 1


def test_a_model_that_refuses_zeros_is_filled_without_a_first_run(
    tmp_path: pathlib.Path, runs: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    model = picky(tmp_path)  # a limit of zero rows
    assert [len(rows) for _, rows in runs] == [8]
    assert "sessions are not run before the model is ready, because a batch of zeros fails" in (
        caplog.text
    )
    assert one_of(model).execute([ask(3, limit=9)]).padding_rows == 1


class Lost:
    """After so many runs, every one fails as on a GPU whose context is broken."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, after: int) -> None:
        self.runs = 0
        run = SessionRunner.run

        def fail(runner: SessionRunner, names: list[str], feeds: dict[str, Any]) -> Any:
            self.runs += 1
            if self.runs > after:
                raise RuntimeError("CUDA failure 700: an illegal memory access was encountered")
            return run(runner, names, feeds)

        monkeypatch.setattr(SessionRunner, "run", fail)


@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_a_device_that_breaks_while_sessions_are_run_fails_the_load(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    lost = Lost(monkeypatch, after=after)
    with pytest.raises(InferenceError, match="CUDA failure 700") as caught:
        load(write_add(tmp_path), filling())
    assert lost.runs == after + 1
    assert unrecoverable(caught.value) is not None


def test_a_batch_that_breaks_the_device_does_not_run_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = one_of(load(write_add(tmp_path), filling()))
    lost = Lost(monkeypatch, after=0)
    with pytest.raises(InferenceError, match=r"CUDA failure 700.*instance 'm_0_0'"):
        instance.execute([add([[1, 2]] * 3, [[1, 2]] * 3)])
    assert lost.runs == 1


class Sessions:
    """Counts the sessions that onnxruntime makes; from `fails_at` on they fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, fails_at: int = 100) -> None:
        self.made = 0
        make = onnxruntime.InferenceSession

        def count(*arguments: Any, **options: Any) -> Any:
            self.made += 1
            if self.made > fails_at:
                raise RuntimeError("out of memory")
            return make(*arguments, **options)

        monkeypatch.setattr(onnxruntime, "InferenceSession", count)


def test_the_load_goes_on_with_the_sessions_that_could_be_made(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Sessions(monkeypatch, fails_at=2)
    instance = one_of(load(write_add(tmp_path), filling()))
    assert (
        "model 'm': batches are filled up to 1, 8 rows only: the session for 4 rows failed: out of memory"
        in caplog.text
    )
    assert instance.execute([add([[1, 2]] * 3, [[1, 2]] * 3)]).padding_rows == 5


def test_a_first_session_that_fails_fails_the_load(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Sessions(monkeypatch, fails_at=0)
    with pytest.raises(InferenceError, match="out of memory"):
        load(write_add(tmp_path), filling())


def on_gpu(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, memory: list[Memory | None], **more: Any
) -> Instance:
    """An instance on a GPU whose sessions the CPU provider runs; `memory`: what the device has, each time that it is asked."""

    def on_the_cpu(config: Any, options: Any, **where: Any) -> Any:
        return plan_session(config, options, **where | {"kind": InstanceKind.CPU})

    monkeypatch.setattr(backends, "plan_session", on_the_cpu)
    group = InstanceGroup(name="g", kind=InstanceKind.GPU, count=1, gpus=(0,))
    made = filling(**more)
    config = model_config(
        inputs=made.inputs,
        outputs=made.outputs,
        max_batch_size=made.max_batch_size,
        dynamic_batching=made.dynamic_batching,
        parameters=dict(made.parameters),
        instance_groups=(group,),
    )
    backend = backends.OnnxRuntimeBackend(
        clock=ManualClock(), memory_of=lambda device: memory.pop(0)
    )
    source = ModelSource(config=config, version=1, model_dir=folder, options={})
    model = Loaded(backend.load(source), config)
    return model.make_instance(InstanceSpec(name="g_0", kind=InstanceKind.GPU, device_id=0))


def test_no_session_is_made_that_would_leave_the_device_too_little_memory(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The first session takes 3 GiB and the other ones 1 each, of 30: three of them are a tenth of the memory."""
    memory = [Memory(free * GIB, 30 * GIB) for free in (20, 17, 16, 15, 14)]
    instance = on_gpu(write_add(tmp_path), monkeypatch, [*memory], max_batch_size=64)
    assert (
        "model 'm' on GPU 0: batches are filled up to 1, 16, 32, 64 rows only: another one of about 1024 MiB would exceed 10%"
        in caplog.text
    )
    assert instance.execute([add([[1, 2]] * 2, [[1, 2]] * 2)]).padding_rows == 14


def test_a_first_session_that_takes_much_is_the_only_one(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    memory: list[Memory | None] = [Memory(7 * GIB, 10 * GIB), Memory(4 * GIB, 10 * GIB)]
    instance = on_gpu(write_add(tmp_path), monkeypatch, memory)
    assert "filled up to 8 rows only: another one of about 3072 MiB would exceed 10%" in caplog.text
    assert instance.execute([add([[1, 2]], [[1, 2]])]).padding_rows == 7


def test_a_server_that_stops_makes_no_further_session(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sessions = Sessions(monkeypatch)
    backend = backends.OnnxRuntimeBackend(clock=ManualClock())
    backend.close()
    config = filling()
    source = ModelSource(config=config, version=1, model_dir=write_add(tmp_path), options={})
    backend.load(source)
    assert sessions.made == 1
    assert "batches are filled up to 8 rows only: the server stops" in caplog.text


class SlowClock(ManualClock):
    """Seven seconds pass between two looks at it."""

    @override
    def monotonic_ns(self) -> int:
        self.advance(ns=7_000_000_000)
        return super().monotonic_ns()


def test_sessions_take_a_minute_at_most(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    load(write_add(tmp_path), filling(), clock=SlowClock())
    assert "filled up to 1, 8 rows only: another one would exceed the 60 s" in caplog.text


@pytest.mark.parametrize(
    ("operator", "provider", "sizes"),
    [
        ("Conv", "CUDAExecutionProvider", (1, 2, 4, 8)),
        ("Abs", "CUDAExecutionProvider", ()),
        ("Conv", "TensorrtExecutionProvider", ()),
        ("Conv", "CPUExecutionProvider", ()),
    ],
)
def test_convolutions_on_cuda_are_filled_by_default(
    tmp_path: pathlib.Path, operator: str, provider: str, sizes: tuple[int, ...]
) -> None:
    weights = numpy_helper.from_array(np.ones((1, 1, 1), np.float32), "w")
    write_graph(
        tmp_path,
        [helper.make_node(operator, ["IN", "w"] if operator == "Conv" else ["IN"], ["OUT"])],
        [value("IN", ["n", 1, 4])],
        [value("OUT", ["n", 1, 4])],
        initializer=[weights],
    )
    config = filling("")
    plan = plan_session(config, {}, kind=InstanceKind.CPU, device_id=0)
    plan = msgspec.structs.replace(plan, providers=(Provider(name=provider), *plan.providers))
    source = ModelSource(config=config, version=1, model_dir=tmp_path, options={})
    assert backends.sizes_for(source, plan, tmp_path / "1" / "model.onnx") == sizes
