"""Python models that answer apart from `execute`, for tests: made of a few lines, and what they send is waited for."""

import pathlib
import threading
from typing import Any

from naiad.core.response import InferResponse
from naiad.hosts.host import DeferredResponse
from tests.server.backends.configs import Instance, values, with_sequences
from tests.server.backends.python.models import instance_of, python_config

GIVE_UP_S = 60

HEAD = """
import threading
import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL

def response(*numbers):
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([numbers], np.float32))])

class TritonPythonModel:
"""


class Answers:
    """What an instance posts, and a way to wait for it."""

    def __init__(self) -> None:
        self.got: list[DeferredResponse] = []
        self._wakeup = threading.Condition()

    def post(self, answer: DeferredResponse) -> None:
        with self._wakeup:
            self.got.append(answer)
            self._wakeup.notify_all()

    def wait(self, count: int) -> list[InferResponse]:
        with self._wakeup:
            assert self._wakeup.wait_for(lambda: len(self.got) >= count, GIVE_UP_S)
            return [each.response for each in self.got]


def made(
    folder: pathlib.Path, body: str, *, decoupled: bool = True, iterative: bool = False
) -> tuple[Instance, Answers]:
    """An instance whose model has these methods, and what it will have sent. They may use `response(…)` and `FINAL`."""
    lines = body.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    text = HEAD + "\n".join("    " + line[indent:] for line in lines) + "\n"
    config = python_config(decoupled=decoupled)
    if iterative:
        config = with_sequences(config, "sequence_batching { iterative_sequence: true }")
    instance = instance_of(folder, text, config)
    answers = Answers()
    instance.respond_through(answers.post)
    return instance, answers


def seen(response: InferResponse) -> Any:
    """What is in a response, in a word: its error's code, "end", or its first row."""
    if response.error is not None:
        return response.error.code.name
    return "end" if response.empty else values(response)["OUT"][0]
