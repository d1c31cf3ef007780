"""What is not supported yet is refused in the same words to Triton's clients of both protocols."""

import collections.abc
from typing import Any

import numpy as np
import pytest

from tests.reference.process import ServerProcess
from tests.wire.protocol.test_clients import CLIENTS, client, tensor

X = np.zeros((1, 4), np.float32)


def register(asked: Any, module: Any) -> None:
    asked.register_system_shared_memory("r", "/r", 64)


def unregister(asked: Any, module: Any) -> None:
    asked.unregister_cuda_shared_memory("r")


def region_status(asked: Any, module: Any) -> None:
    asked.get_system_shared_memory_status("r")


def input_in_region(asked: Any, module: Any) -> None:
    given = module.InferInput("x", [1, 4], "FP32")
    given.set_shared_memory("r", 16)
    asked.infer("add", [given])


def output_in_region(asked: Any, module: Any) -> None:
    wanted = module.InferRequestedOutput("y")
    wanted.set_shared_memory("r", 16)
    asked.infer("add", [tensor(module, "x", X, "FP32")], outputs=[wanted])


@pytest.mark.parametrize(
    ("ask", "statuses"),
    [
        (register, ("501", "StatusCode.UNIMPLEMENTED")),
        (unregister, ("501", "StatusCode.UNIMPLEMENTED")),
        (region_status, ("404", "StatusCode.NOT_FOUND")),
        (input_in_region, ("404", "StatusCode.NOT_FOUND")),
        (output_in_region, ("404", "StatusCode.NOT_FOUND")),
    ],
)
def test_both_protocols_say_the_same(
    server: ServerProcess,
    ask: collections.abc.Callable[[Any, Any], None],
    statuses: tuple[str, str],
) -> None:
    said = []
    for kind, status in zip(CLIENTS, statuses, strict=True):
        with client(kind, server) as (asked, module):
            with pytest.raises(module.InferenceServerException) as caught:
                ask(asked, module)
            assert caught.value.status() == status
            said.append(caught.value.message())
    assert said[0] == said[1]
    assert "this version of the server does not support it yet" in said[0]
    assert "Start the server with" not in said[0]
