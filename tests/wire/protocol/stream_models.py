"""The models of the tests of streams: scripts that a request brings, word by word."""

import pathlib

_CONFIG = """\
backend: "python"
model_transaction_policy {{ decoupled: {decoupled} }}
input {{ name: "SCRIPT" data_type: TYPE_STRING dims: 1 }}
output {{ name: "WORD" data_type: TYPE_STRING dims: -1 }}
instance_group {{ kind: KIND_CPU count: 1 }}
"""

_HEAD = """\
import asyncio
import os
import time

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


def word(text):
    return pb_utils.InferenceResponse([pb_utils.Tensor("WORD", np.array([text.encode()], dtype=object))])


def steps(request):
    return pb_utils.get_input_tensor_by_name(request, "SCRIPT").as_numpy()[0].decode().split()


def shut(gate):
    return not os.path.exists(gate)


def large(sender, megabytes):
    body = "x" * 1_000_000
    for number in range(megabytes):
        sender.send(word(body))
        print(f"sent {number + 1} MB", flush=True)


def wait(sender):
    print("waiting", flush=True)
    end = time.monotonic() + 60
    while not sender.is_cancelled() and time.monotonic() < end:
        time.sleep(0.005)
    print("cancelled", sender.is_cancelled(), flush=True)


"""

_SCRIPTED = '''\
class TritonPythonModel:
    """Words are sent; error, raise, wait, sleep, gate:<file>, large:<MB> and last (the final flag with a word) do what they say."""

    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for step in steps(request):
                name, _, more = step.partition(":")
                if name == "error":
                    error = pb_utils.TritonError("went wrong", pb_utils.TritonError.NOT_FOUND)
                    sender.send(pb_utils.InferenceResponse(error=error))
                elif name == "raise":
                    raise ValueError("raised on purpose")
                elif name == "wait":
                    wait(sender)
                elif name == "sleep":
                    time.sleep(float(more))
                elif name == "gate":
                    while shut(more):
                        time.sleep(0.005)
                elif name == "large":
                    large(sender, int(more))
                elif name == "last":
                    sender.send(word("last"), FINAL)
                    return
                else:
                    sender.send(word(name))
            sender.send(flags=FINAL)
'''

_ASYNCHRONOUS = '''\
class TritonPythonModel:
    """Sends each word after so many milliseconds, large:<MB> at once, and waits at gate:<file>; requests run side by side."""

    async def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for step in steps(request):
                name, _, more = step.partition(":")
                if name == "large":
                    large(sender, int(more))
                elif name == "gate":
                    while shut(more):
                        await asyncio.sleep(0.005)
                else:
                    await asyncio.sleep(float(step) / 1000)
                    sender.send(word(step))
            sender.send(flags=FINAL)
'''

_ORDINARY = """\
class TritonPythonModel:
    def execute(self, requests):
        return [word(" ".join(steps(request)).upper()) for request in requests]
"""


def make(folder: pathlib.Path) -> pathlib.Path:
    """`scripted` and `async` (decoupled), `plain` (not)."""
    for name, source in (("scripted", _SCRIPTED), ("async", _ASYNCHRONOUS), ("plain", _ORDINARY)):
        version = folder / name / "1"
        version.mkdir(parents=True)
        decoupled = "false" if name == "plain" else "true"
        (version.parent / "config.pbtxt").write_text(_CONFIG.format(decoupled=decoupled))
        (version / "model.py").write_text(_HEAD + source)
    return folder
