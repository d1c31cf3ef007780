"""`breakpoint()` in a model that runs in a thread of a server that was started at a terminal (docs/testing-models.md)."""

import collections.abc
import contextlib
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import threading
import time
import urllib.request

from tests.reference.process import Ports, naiad_program

CONFIG = """\
backend: "python"
input { name: "X" data_type: TYPE_FP32 dims: -1 }
output { name: "Y" data_type: TYPE_FP32 dims: -1 }
parameters { key: "naiad.host" value { string_value: "thread" } }
instance_group { kind: KIND_CPU count: 1 }
"""

MODEL = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            factor = 2
            breakpoint()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x * factor)]))
        return responses
"""

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    """The keyboard and the screen of a program."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.screen = ""

    def wait_for(self, text: str, *, seconds: float = 45) -> None:
        """Read until a text is on the screen, behind what was waited for before."""
        end = time.monotonic() + seconds
        while text not in self.screen:
            left = end - time.monotonic()
            assert left > 0, f"no {text!r} on the screen:\n{self.screen}"
            if select.select([self._descriptor], [], [], left)[0]:
                with contextlib.suppress(OSError):
                    new = os.read(self._descriptor, 65536).decode(errors="replace")
                    self.screen = _ESCAPES.sub("", self.screen + new)
        self.screen = self.screen.partition(text)[2]

    def type(self, line: str) -> None:
        os.write(self._descriptor, line.encode() + b"\n")


@contextlib.contextmanager
def at_a_terminal(
    repository: pathlib.Path,
) -> collections.abc.Iterator[tuple[Terminal, Ports, "subprocess.Popen[bytes]"]]:
    program, ports = naiad_program(), Ports.free()
    command = [
        *program.command, f"--model-repository={repository}", "--allow-grpc=false", f"--http-port={ports.http}",
        f"--metrics-port={ports.metrics}", "--http-address=127.0.0.1", "--metrics-address=127.0.0.1",
    ]  # fmt: skip
    ours, its = pty.openpty()
    environ = {**program.environ, "TERM": "xterm", "PYTHONBREAKPOINT": "", "HOME": str(repository)}
    process = subprocess.Popen(
        command, stdin=its, stdout=its, stderr=its, env=environ, start_new_session=True
    )
    os.close(its)
    try:
        yield Terminal(ours), ports, process
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_breakpoint_stops_the_model_and_the_server_goes_on(tmp_path: pathlib.Path) -> None:
    (tmp_path / "stops" / "1").mkdir(parents=True)
    (tmp_path / "stops" / "config.pbtxt").write_text(CONFIG)
    (tmp_path / "stops" / "1" / "model.py").write_text(MODEL)
    answers: list[list[float]] = []
    with at_a_terminal(tmp_path) as (terminal, ports, process):
        terminal.wait_for("Try:")
        address = f"http://127.0.0.1:{ports.http}/v2"

        def ask() -> None:
            tensor = {"name": "X", "datatype": "FP32", "shape": [2], "data": [1, 2]}
            body = json.dumps({"inputs": [tensor]}).encode()
            with urllib.request.urlopen(f"{address}/models/stops/infer", body, timeout=60) as reply:
                answers.append(json.load(reply)["outputs"][0]["data"])

        asking = threading.Thread(target=ask)
        asking.start()
        terminal.wait_for("model.py(11)execute()")
        terminal.wait_for("(Pdb) ")
        with urllib.request.urlopen(f"{address}/health/live", timeout=60) as reply:
            assert reply.status == 200
        terminal.type("p x.tolist(), factor")
        terminal.wait_for("([1.0, 2.0], 2)")
        terminal.type("where")
        terminal.wait_for("model.py(11)execute()")
        terminal.type("factor = 10")
        terminal.type("continue")
        asking.join(20)
        assert answers == [[10.0, 20.0]]
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
