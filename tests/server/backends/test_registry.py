import importlib
import os
import pathlib
import subprocess
import sys

import pytest

import naiad
from naiad.backends.python.backend import PythonBackend
from naiad.backends.registry import Registry
from naiad.core.clock import ManualClock
from naiad.errors import ErrorCode, InferenceError


def test_a_backend_is_made_once() -> None:
    registry = Registry(clock=ManualClock())
    assert registry.get("onnxruntime") is registry.get("onnxruntime")
    assert isinstance(registry.get("python"), PythonBackend)


def test_imports_are_exempt_from_collections_until_the_process_holds_a_model() -> None:
    exempted = list[str]()
    registry = Registry(
        clock=ManualClock(), imported=lambda: exempted.append("all that exists now")
    )
    registry.get("python")
    assert len(exempted) == 1
    registry.get("python", for_model=True)
    registry.get("onnxruntime")  # exempting that import would exempt the model as well
    assert len(exempted) == 1


def test_an_unknown_backend_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(InferenceError) as caught:
        Registry(clock=ManualClock()).get("magic")
    assert caught.value.code is ErrorCode.INVALID_ARG
    assert "unable to find backend library for backend 'magic'" in caught.value.message
    assert "onnxruntime, openvino, python, pytorch, tensorflow" in caught.value.message


def test_a_missing_framework_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(name: str) -> None:
        raise ModuleNotFoundError("No module named 'onnxruntime'", name="onnxruntime")

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(InferenceError, match=r"pip install .*\[server\]") as caught:
        Registry(clock=ManualClock()).get("onnxruntime")
    assert caught.value.code is ErrorCode.UNAVAILABLE


def test_a_fault_of_our_own_modules_is_not_taken_for_a_missing_framework(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(name: str) -> None:
        raise ModuleNotFoundError("No module named 'naiad.gone'", name="naiad.gone")

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(ModuleNotFoundError):
        Registry(clock=ManualClock()).get("onnxruntime")


@pytest.mark.slow
def test_no_framework_is_imported_before_a_model_needs_it() -> None:
    code = (
        "import sys; from naiad.backends.registry import Registry; from naiad.core.clock import SystemClock; "
        "registry = Registry(clock=SystemClock()); registry.get('python'); "
        "print('onnxruntime' in sys.modules); registry.get('onnxruntime'); print('onnxruntime' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
        env={**os.environ, "PYTHONPATH": str(pathlib.Path(naiad.__file__).parents[1])},
    )
    assert result.stdout.split() == ["False", "True"]
