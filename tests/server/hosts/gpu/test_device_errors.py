"""What an error's text means for the device, with a made-up `torch` in this process."""

import sys
import types

import pytest

from naiad.hosts.worker import device

ASSERTED = RuntimeError("CUDA error: device-side assert triggered")


@pytest.mark.parametrize(
    ("waiting_raises", "is_lost"),
    [
        (None, False),
        (ASSERTED, True),
        (RuntimeError("CUDA error: operation not permitted when stream is capturing"), False),
    ],
    ids=["nothing", "the same", "a capture"],
)
def test_a_suspected_loss_is_one_if_the_device_cannot_be_waited_for(
    monkeypatch: pytest.MonkeyPatch, waiting_raises: Exception | None, *, is_lost: bool
) -> None:
    """That another instance is capturing a graph says nothing of the device."""

    def synchronize() -> None:
        if waiting_raises is not None:
            raise waiting_raises

    cuda = types.SimpleNamespace(is_initialized=lambda: True, synchronize=synchronize)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    assert bool(device.of(ASSERTED).lost) == is_lost
