"""What `optimization` asks of a PyTorch model's GPU reaches torch: the priority of the stream, and the memory of the copies (row 11.21). Torch is made up."""

import importlib
import sys
import types
from unittest import mock

import numpy as np
import pytest
from google.protobuf import text_format

from naiad.backends.instance import InstanceSpec
from naiad.backends.pytorch.settings import DeviceSettings, device_settings_of
from naiad.config.model_config import InstanceKind
from naiad.core.messages import model_config_pb2

PACKAGE = "naiad.backends.pytorch."
NAMES = ("tensors", "staging", "devices")


def settings(optimization: str) -> DeviceSettings:
    return device_settings_of(
        text_format.Parse(f"optimization {{ {optimization} }}", model_config_pb2.ModelConfig())
    )


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    torch = mock.MagicMock()
    torch.Tensor = mock.MagicMock
    monkeypatch.setitem(sys.modules, "torch", torch)
    for name in NAMES:
        monkeypatch.delitem(sys.modules, PACKAGE + name, raising=False)
    found = importlib.import_module(PACKAGE + "devices")
    for name in NAMES:  # restored to what they were, so that no other test sees the made-up torch
        monkeypatch.delitem(sys.modules, PACKAGE + name)
    return found


@pytest.mark.parametrize(
    ("optimization", "expected"),
    [
        ("", DeviceSettings()),
        ("priority: PRIORITY_DEFAULT input_pinned_memory { enable: true }", DeviceSettings()),
        ("priority: PRIORITY_MIN", DeviceSettings()),
        ("priority: PRIORITY_MAX", DeviceSettings(priority=-100)),
        ("input_pinned_memory { enable: false }", DeviceSettings(pinned_inputs=False)),
        ("output_pinned_memory {}", DeviceSettings(pinned_outputs=False)),
    ],
)
def test_the_settings_in_a_config(optimization: str, expected: DeviceSettings) -> None:
    assert settings(optimization) == expected


@pytest.mark.parametrize(("inputs", "outputs"), [(True, False), (False, True)])
def test_they_reach_torch(devices: types.ModuleType, *, inputs: bool, outputs: bool) -> None:
    torch = sys.modules["torch"]
    given = DeviceSettings(priority=-100, pinned_inputs=inputs, pinned_outputs=outputs)
    device = devices.device_of(InstanceSpec("m_0", InstanceKind.GPU, 1), given)
    torch.cuda.Stream.assert_called_once_with(device=1, priority=-100)
    dtype = types.SimpleNamespace(itemsize=4)
    with (
        mock.patch.object(devices.batches, "merge"),
        mock.patch.object(devices, "dtype_of", return_value=dtype),
    ):
        array = np.zeros((2, 3), np.float32)
        tensor = types.SimpleNamespace(
            name="X", array=array, memory=types.SimpleNamespace(kind="cpu")
        )
        device.gathered([[tensor]], copy=False)
    assert torch.empty.call_args.kwargs["pin_memory"] is inputs
    device.begin_outputs([(mock.MagicMock(is_cuda=True, shape=(2, 3), dtype=dtype), False)])
    assert torch.empty.call_args.kwargs["pin_memory"] is outputs
