"""The made-up TensorRT has nothing that the real package has not, so that what runs on it calls the real one in the right way."""

import importlib
import json
from typing import Any

import pytest

from tests.support.made_up_gpu import interface, plans

REAL = json.loads(interface.RECORD.read_text())


@pytest.fixture
def made_up(cuda: Any) -> Any:
    return importlib.import_module("tensorrt")


def test_the_made_up_package_is_called_as_the_real_one(made_up: Any) -> None:
    assert made_up.__version__ == REAL["version"] == ".".join(map(str, plans.VERSION))
    assert interface.faults(made_up, REAL) == []


def test_what_the_real_package_has_not_is_found(
    made_up: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        made_up.ICudaEngine, "get_binding_shape", lambda self, index: (), raising=False
    )
    monkeypatch.setattr(made_up.IExecutionContext, "execute_async_v3", lambda self, stream: True)
    assert interface.faults(made_up, REAL) == [
        "ICudaEngine.get_binding_shape is not there",
        "IExecutionContext.execute_async_v3 takes ['stream'], and the real one [['stream_handle']]",
    ]
