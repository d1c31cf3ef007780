"""OpenVINO at the edges: values without a dimension, no rows, and failures of kinds that OpenVINO raises seldom."""

import pathlib
from typing import Any

import numpy as np
import pytest

from naiad.backends.openvino import backend
from naiad.backends.reasons import MEMORY_HELP
from naiad.core import datatypes
from naiad.core.tensor import Tensor
from naiad.errors import InferenceError
from tests.frameworks.openvino.test_backend import SPEC, double, instance_of, load
from tests.server.backends.configs import inference, run, tensor, values

FP32 = datatypes.FP32
BATCHED = "max_batch_size: 4"


@pytest.mark.parametrize(
    "text",
    [
        "",
        'input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] } output { name: "y" data_type: TYPE_FP32 dims: [ 1 ] }',
    ],
    ids=["completed", "listed"],
)
def test_a_value_without_a_dimension_has_one_in_requests(tmp_path: pathlib.Path, text: str) -> None:
    instance = instance_of(double(tmp_path / "m", []), text)
    given = np.array([3], np.float32)
    given.flags.writeable = False  # as what arrives over the wire
    for each in (tensor("x", [3], FP32), Tensor("x", FP32, (1,), given)):
        assert values(run(instance, inference(each, rows=1))[0]) == {"y": [6.0]}


def test_no_rows_give_no_rows(tmp_path: pathlib.Path) -> None:
    instance = instance_of(double(tmp_path / "m", [-1, 2]), BATCHED)
    empty = Tensor("x", FP32, (0, 2), np.zeros((0, 2), np.float32))
    one, two = run(instance, inference(empty), inference(tensor("x", [[1, 2]], FP32)))
    assert (values(one)["y"], values(two)["y"]) == ([], [[2, 4]])
    assert values(run(instance, inference(empty))[0])["y"] == []


def _lacks_memory(*_given: Any, **_named: Any) -> Any:
    raise MemoryError("std::bad_alloc")


def test_lack_of_memory_at_the_load_is_a_reason(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "_compiled", _lacks_memory)
    with pytest.raises(InferenceError) as caught:
        load(double(tmp_path / "m", [-1, 2]), BATCHED)
    reason = f"unable to load model 'm': out of memory (std::bad_alloc): {MEMORY_HELP}"
    assert caught.value.message == reason


def test_lack_of_memory_for_an_instance_is_a_reason(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load(double(tmp_path / "m", [-1, 2]), BATCHED)

    class Compiled:
        create_infer_request = _lacks_memory

    monkeypatch.setattr(loaded.model, "_compiled", Compiled())
    with pytest.raises(InferenceError) as caught:
        loaded.make_instance(SPEC)
    assert caught.value.message.startswith(
        "unable to load model 'm': out of memory (std::bad_alloc): "
    )


def test_lack_of_memory_of_a_run_is_the_error_of_the_request(tmp_path: pathlib.Path) -> None:
    instance = instance_of(double(tmp_path / "m", [-1, 2]), BATCHED)

    class Request:
        infer = _lacks_memory

    whole = instance.instance._request  # type: ignore[attr-defined]
    instance.instance._request = Request()  # type: ignore[attr-defined]
    with pytest.raises(InferenceError, match="OpenVINO execute failure: out of memory"):
        run(instance, inference(tensor("x", [[1, 2]], FP32)))
    instance.instance._request = whole  # type: ignore[attr-defined]
    assert values(run(instance, inference(tensor("x", [[1, 2]], FP32)))[0]) == {"y": [[2, 4]]}
