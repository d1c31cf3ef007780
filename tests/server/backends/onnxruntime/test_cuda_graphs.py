"""Which CUDA graphs an ONNX model has, and that batches run in the one of their shapes: on the CPU, where onnxruntime takes the same calls and captures nothing."""

import logging
import pathlib
from typing import Any

import msgspec
import numpy as np
import pytest
from google.protobuf import text_format

from naiad.backends.backend import ModelSource
from naiad.backends.cuda_graph_shapes import graphs_of, rows_of
from naiad.backends.filled_sizes import Fill
from naiad.backends.instance import InstanceSpec
from naiad.backends.onnxruntime import backend as backends
from naiad.backends.onnxruntime.cuda_graphs import capture, planning
from naiad.backends.onnxruntime.cuda_graphs.planning import impossible
from naiad.backends.onnxruntime.plan import CPU, Provider, plan_session
from naiad.backends.onnxruntime.session import GlobalThreadPool, make_session
from naiad.config.model_config import DynamicBatching, InstanceGroup, InstanceKind
from naiad.core import datatypes
from naiad.core.clock import ManualClock
from naiad.errors import InferenceError, internal
from tests.server.backends.configs import Loaded, inference, model_config, run, spec, tensor, values
from tests.server.backends.graphs import ADD_CONFIG, write_add

AUTO = Fill()
CUDA = plan_session(ADD_CONFIG, {}, kind=InstanceKind.GPU, device_id=0)


def config_of(text: str = "", *, batcher: bool = False, most: int = 8, **more: Any) -> Any:
    config = model_config(
        inputs=more.pop("inputs", ADD_CONFIG.inputs),
        outputs=more.pop("outputs", ADD_CONFIG.outputs),
        max_batch_size=most,
        dynamic_batching=DynamicBatching() if batcher else None,
        instance_groups=(InstanceGroup(name="m_0", kind=InstanceKind.GPU, count=1, gpus=(0,)),),
        **more,
    )
    message = (
        "optimization { cuda { graphs: true " + text + " } }" + " dynamic_batching {}" * batcher
    )
    text_format.Merge(message, config.message)
    return config


def sizes(config: Any, fill: Fill = AUTO) -> list[int]:
    return [next(iter(each.values()))[0] for each in graphs_of(config, fill).shapes]


@pytest.mark.parametrize(
    ("config", "fill", "graphs", "filled"),
    [
        (config_of(), AUTO, [1, 2, 3, 4, 6, 8], ()),
        (config_of(batcher=True, most=12), AUTO, [1, 2, 4, 8, 12], (1, 2, 4, 8, 12)),
        (config_of(batcher=True), Fill(mode="off"), [1, 8], ()),
        (config_of(batcher=True), Fill(mode="on", sizes=(3,)), [3, 8], (3, 8)),
        (config_of("graph_spec { batch_size: 5 }"), AUTO, [5], ()),
        (config_of("graph_spec { batch_size: 5 }", batcher=True), AUTO, [5], (5,)),
    ],
)
def test_the_sizes_of_graphs_are_those_that_batches_are_filled_up_to(
    config: Any, fill: Fill, graphs: list[int], filled: tuple[int, ...]
) -> None:
    assert sizes(config, fill) == graphs
    assert rows_of(graphs_of(config, fill), config, fill) == filled


def test_free_dimensions_are_those_of_the_specification_or_there_is_no_graph() -> None:
    free = [spec("X", datatypes.FP32, (-1, 2))]
    planned = graphs_of(config_of(inputs=free), AUTO)
    assert planned.shapes == ()
    assert planned.faults == (
        "input 'X' has free dimensions: write its shape into optimization, cuda, graph_spec",
    )
    said = 'graph_spec { batch_size: 4 input { key: "X" value { dim: [ 7, %d ] } } }'
    assert graphs_of(config_of(said % 2, inputs=free), AUTO).shapes == ({"X": (4, 7, 2)},)
    wrong = graphs_of(config_of(said % 3, inputs=free), AUTO)
    assert wrong.faults == ("graph_spec says [7, 3] for input 'X', and its dims are [-1, 2]",)
    with pytest.raises(InferenceError, match="expects 'batch_size' to be >= 1 and <= 8"):
        graphs_of(config_of("graph_spec { batch_size: 9 }"), AUTO)


def test_what_cannot_be_on_a_device_has_no_graph() -> None:
    for datatype, word in ((datatypes.BYTES, "TYPE_STRING"), (datatypes.BF16, "TYPE_BF16")):
        assert word in impossible(config_of(inputs=[spec("X", datatype, (2,))]))
    assert impossible(config_of()) == ""
    assert not planning.wants_graphs(
        config_of(), msgspec.structs.replace(CUDA, providers=(Provider(name=CPU),))
    )
    capturing = planning.with_graphs(CUDA)
    assert capturing.providers[0].options == {"device_id": "0", "enable_cuda_graph": "1"}
    assert capturing.run_entries == (("gpu_graph_id", "-1"),)


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The CPU in the place of CUDA; the number of the graph of each run that has one."""
    launched: list[str] = []

    def made(path: pathlib.Path, plan: Any, **more: Any) -> Any:
        session = make_session(
            path, msgspec.structs.replace(plan, providers=(Provider(name=CPU),)), **more
        )
        launch = session.run_with_iobinding

        def noted(binding: Any, options: Any) -> None:
            launched.append(options.get_run_config_entry(planning.NUMBER))
            launch(binding, options)

        session.run_with_iobinding = noted
        return session

    captured = capture.captured
    monkeypatch.setattr(capture, "make_session", made)
    monkeypatch.setattr(backends, "make_session", made)
    monkeypatch.setattr(backends, "preload", lambda plan: None)
    monkeypatch.setattr(
        backends, "captured", lambda *args, **named: captured(*args, **named, memory="cpu")
    )
    return launched


def loaded(folder: pathlib.Path, config: Any) -> Any:
    (folder / "1").mkdir()
    write_add(folder)
    source = ModelSource(config=config, version=1, model_dir=folder, options={})
    backend = backends.OnnxRuntimeBackend(clock=ManualClock(), memory_of=lambda _: None)
    return Loaded(backend.load(source), config)


def test_a_batch_runs_in_the_graph_of_its_shapes_or_without_one(
    tmp_path: pathlib.Path, on_cpu: list[str]
) -> None:
    model = loaded(tmp_path, config_of("graph_spec { batch_size: 2 } graph_spec { batch_size: 4 }"))
    instance = model.make_instance(InstanceSpec("m_0_0", InstanceKind.GPU, 0))
    assert on_cpu == ["1", "2"], "each is captured at the load"
    kept = []
    for count in (2, 4, 3, 2):
        given = np.arange(2 * count, dtype=np.float32).reshape(count, 2) + count
        kept.append((given, run(instance, inference(tensor("A", given), tensor("B", given)))[0]))
    for given, answer in kept:
        assert values(answer)["SUM"] == (given * 2).tolist(), "the next run does not change it"
    assert on_cpu[2:] == ["1", "2", "1"]


def test_batches_are_filled_up_to_the_next_graph(tmp_path: pathlib.Path, on_cpu: list[str]) -> None:
    model = loaded(tmp_path, config_of(batcher=True))
    instance = model.make_instance(InstanceSpec("m_0_0", InstanceKind.GPU, 0))
    del on_cpu[:]
    given = np.arange(6, dtype=np.float32).reshape(3, 2)
    execution = instance.execute([inference(tensor("A", given), tensor("B", given))])
    (answer,) = execution.responses
    assert answer is not None
    assert values(answer)["SUM"] == (given * 2).tolist()
    assert execution.padding_rows == 1
    assert len(on_cpu) == 1


def test_a_model_that_cannot_be_captured_is_served_without(
    tmp_path: pathlib.Path, on_cpu: list[str], monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def refuses(path: pathlib.Path, plan: Any, *, model: str, pool: GlobalThreadPool) -> Any:
        raise internal("This session cannot use the graph capture feature")

    monkeypatch.setattr(capture, "make_session", refuses)
    with caplog.at_level(logging.WARNING, "naiad.backends"):
        instance = loaded(tmp_path, config_of()).make_instance(
            InstanceSpec("m_0_0", InstanceKind.GPU, 0)
        )
    assert "unable to record CUDA graph for model 'm' on GPU 0: This session cannot" in caplog.text
    given = np.ones((3, 2), np.float32)
    (answer,) = run(instance, inference(tensor("A", given), tensor("B", given)))
    assert values(answer)["SUM"] == (given * 2).tolist()
    assert on_cpu == []
