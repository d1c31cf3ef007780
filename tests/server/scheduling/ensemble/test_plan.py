"""The graph of an ensemble: selections, values and shapes, with numbers."""

from typing import Any

import msgspec
import numpy as np
import pytest

from naiad.config.input_device import input_device
from naiad.config.model_config import InstanceGroup, InstanceKind, ModelConfig
from naiad.core.datatypes import FP32
from naiad.core.device_tensor import OnDevice
from naiad.core.tensor import Tensor, pack, packed_strings
from naiad.scheduling.ensemble.plan import (
    EnsemblePlan,
    TensorTable,
    Value,
    as_named,
    batch_shape,
)
from tests.support.ensembles import bound, ensemble, model, number, step

GRAPH = bound(
    ensemble(
        "x",
        "p q r",
        step("a", "i=x", "o=s u=p"),
        step("b", "i=s", "o=t"),
        step("b", "i=s", "o=q"),
        step("c", "i=t j=s", "o=r"),
    ),
    model("a", "i", "o u"),
    model("b", "i", "o"),
    model("c", "i j", "o"),
)


@pytest.mark.parametrize(
    ("requested", "steps", "asked"),
    [
        ("", {0, 1, 2, 3}, {0: ["o", "u"], 1: ["o"], 2: ["o"], 3: ["o"]}),
        ("p", {0}, {0: ["u"]}),
        ("q", {0, 2}, {0: ["o"], 2: ["o"]}),
        ("r", {0, 1, 3}, {0: ["o"], 1: ["o"], 3: ["o"]}),
        ("q p", {0, 2}, {0: ["o", "u"], 2: ["o"]}),
    ],
)
def test_a_request_needs_the_steps_that_lead_to_its_outputs(
    requested: str, steps: set[int], asked: dict[int, list[str]]
) -> None:
    selection = EnsemblePlan(GRAPH).select(requested.split())
    assert selection.steps == steps
    assert {
        index: [output.name for output in outputs] for index, outputs in selection.requested.items()
    } == asked


def following(requested: str) -> dict[int, tuple[str, str, int]]:
    selection = EnsemblePlan(GRAPH).select(requested.split())
    return {
        index: (each.output, each.input, each.step.index)
        for index, each in selection.following.items()
    }


def test_a_step_that_alone_needs_the_only_output_of_another_one_follows_it() -> None:
    assert following("q") == {0: ("o", "i", 2)}
    assert following("q p") == {}, "two outputs"
    assert following("r") == {}, "two readers, and two inputs"


def test_a_step_does_not_just_follow_one_whose_output_the_response_needs_too() -> None:
    steps = step("b", "i=x", "o=t"), step("b", "i=t", "o=y")
    plan = EnsemblePlan(bound(ensemble("x", "t y", *steps), model("b", "i", "o")))
    assert list(plan.select(["y"]).following) == [0]
    assert not plan.select([]).following


def test_a_step_does_not_just_follow_one_that_has_another_batch_dimension() -> None:
    steps = step("a", "i=x", "o=t"), step("b", "i=t", "o=y")
    models = model("a", "i", "o"), model("b", "i", "o", max_batch_size=0)
    plan = EnsemblePlan(bound(ensemble("x", "y", *steps), *models))
    assert not plan.select([]).following


def test_a_value_is_kept_for_each_of_its_uses_and_no_longer() -> None:
    plan = EnsemblePlan(GRAPH)
    table = TensorTable(plan, plan.select(["r"]))
    value = Value(number("s", 1), 1)
    assert [each.index for each in table.add("s", (), value)] == [1]
    assert table.take(["s"], ()) == {"s": value}
    assert [each.index for each in table.add("t", (), value)] == [3]
    table.take(["t", "s"], ())
    assert len(table) == 0
    assert table.add("p", (), value) == []
    assert len(table) == 0, "nothing needs it"


def test_a_step_runs_for_a_key_that_all_its_inputs_have() -> None:
    plan = EnsemblePlan(GRAPH)
    table = TensorTable(plan, plan.select(["r"]))
    value = Value(number("s", 1), 1)
    table.add("s", (0,), value)
    assert table.add("t", (1,), value) == []
    assert [each.index for each in table.add("t", (0,), value)] == [3]
    assert [each.index for each in table.add("s", (1,), value)] == [1, 3]


@pytest.mark.parametrize(
    ("shape", "dims", "batched", "batch_size", "expected"),
    [
        ((2, 3), (3,), True, 2, (2, 3)),
        ((3,), (3,), False, 0, (3,)),
        ((3,), (3,), True, 0, (1, 3)),
        ((2, 3), (3,), True, 0, (2, 3)),
        ((1, 3), (3,), False, 1, (3,)),
        ((2, 3), (-1, 3), False, 2, (2, 3)),
        ((1, 3), (-1, 3), False, 1, (1, 3)),
    ],
)
def test_a_batch_dimension_is_added_or_taken_away_where_reader_and_maker_differ(
    *,
    shape: tuple[int, ...],
    dims: tuple[int, ...],
    batched: bool,
    batch_size: int,
    expected: tuple[int, ...],
) -> None:
    """As the reference documents it (row 14)."""
    assert batch_shape(shape, dims, batched=batched, batch_size=batch_size) == expected


def test_a_renamed_tensor_shares_its_values() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = as_named(Tensor("a", FP32, (2, 3), array), "b", (1, 2, 3))
    assert (tensor.name, tensor.shape) == ("b", (1, 2, 3))
    assert np.shares_memory(tensor.array, array)
    assert array.flags.writeable
    assert not tensor.array.flags.writeable
    packed = pack(np.array([b"x", b"yz"], dtype=object))
    strings = as_named(packed_strings("a", (2,), packed), "b", (2, 1))
    assert strings.packed is packed  # type: ignore[attr-defined]
    assert strings.array.tolist() == [[b"x"], [b"yz"]]


def on_gpu(config: ModelConfig, *devices: int) -> ModelConfig:
    group = InstanceGroup(name="g", kind=InstanceKind.GPU, count=1, gpus=devices)
    config = msgspec.structs.replace(config, takes_device_inputs=True)
    return config.with_groups((group,))


@pytest.mark.parametrize(
    ("requested", "b", "c", "stays"),
    [
        ("", (0,), (0,), {0: OnDevice(0, frozenset("o")), 1: OnDevice(0, frozenset("o"))}),
        ("r", (0,), (0,), {0: OnDevice(0, frozenset("o")), 1: OnDevice(0, frozenset("o"))}),
        ("", (0,), (1,), {1: OnDevice(1, frozenset("o"))}),
        ("q", (0,), (1,), {0: OnDevice(0, frozenset("o"))}),
        ("", (0, 1), (0,), {1: OnDevice(0, frozenset("o"))}),
        ("p", (0,), (0,), {}),
    ],
)
def test_a_tensor_stays_on_the_gpu_that_all_its_readers_have(
    requested: str, b: tuple[int, ...], c: tuple[int, ...], stays: dict[int, OnDevice]
) -> None:
    graph = ensemble(
        "x",
        "p q r",
        step("a", "i=x", "o=s u=p"),
        step("b", "i=s", "o=t"),
        step("b", "i=s", "o=q"),
        step("c", "i=t j=s", "o=r"),
    )
    models = model("a", "i", "o u"), on_gpu(model("b", "i", "o"), *b), on_gpu(model("c", "i j", "o"), *c)  # fmt: skip
    selection = EnsemblePlan(bound(graph, *models)).select(requested.split())
    assert selection.on_device == stays


@pytest.mark.parametrize(
    ("change", "device"),
    [
        ({}, 2),
        ({"takes_device_inputs": False}, None),
        ({"response_cache": True}, None),
        ({"parameters": {"naiad.host": "thread"}}, None),
        ({"parameters": {"TRITON_BATCH_STRATEGY_PATH": "s.py"}}, None),
        ({"instance_groups": ()}, None),
    ],
)
def test_a_model_takes_inputs_on_the_one_gpu_of_its_workers(
    change: dict[str, Any], device: int | None
) -> None:
    config = msgspec.structs.replace(on_gpu(model("b", "i", "o"), 2), **change)
    assert input_device(config) == device
    group = InstanceGroup(name="h", kind=InstanceKind.CPU, count=1)
    both = config.with_groups((*config.instance_groups, group))
    assert input_device(both) is None
