"""What clients and people see of a load in progress on the real server."""

import concurrent.futures
import contextlib
import errno
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import typing

import pytest

from tests.reference.process import Ports, ServerProcess, naiad_program
from tests.support.waiting import wait_until
from tests.wire.plain_http import call

_CONFIG = 'backend: "python"\noutput { name: "o" data_type: TYPE_FP32 dims: 1 }\n'
_MODEL = """\
import pathlib
import time


class TritonPythonModel:
    def initialize(self, args):
        print("initialize waits", flush=True)
        while not pathlib.Path({gate!r}).exists():
            time.sleep(0.01)

    def execute(self, requests):
        return []
"""


def write(folder: pathlib.Path, name: str = "slow") -> pathlib.Path:
    """A model whose load waits for a file; returns that file."""
    version = folder / "models" / name / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(_CONFIG)
    gate = folder / f"{name}.gate"
    (version / "model.py").write_text(_MODEL.format(gate=str(gate)))
    return gate


def loads(address: str, path: str) -> list[dict[str, typing.Any]]:
    status, body = call(address, "GET", path)
    assert status == 200
    found = json.loads(body)["loads"]
    assert isinstance(found, list)
    return found


@pytest.mark.slow
def test_a_load_is_data_while_it_runs_and_afterwards(tmp_path: pathlib.Path) -> None:
    gate = write(tmp_path)
    options = ["--model-control-mode=explicit"]
    with (
        ServerProcess(
            naiad_program(), [tmp_path / "models"], log=tmp_path / "log", options=options
        ) as server,
        concurrent.futures.ThreadPoolExecutor() as clients,
    ):
        path = "/v2/repository/progress"
        assert loads(server.http, path) == []
        load = clients.submit(call, server.http, "POST", "/v2/repository/models/slow/load")
        try:
            wait_until(lambda: "initialize waits" in server.output())
            (running,) = loads(server.http, path)
            assert running.pop("elapsed_seconds") > 0
            assert running == {"name": "slow", "version": "1", "phase": "loading"}
            (same,) = loads(server.metrics, "/status")
            assert same["phase"] == "loading"
        finally:
            gate.touch()
        assert load.result(60)[0] == 200
        (ended,) = loads(server.http, path)
        assert ended["phase"] == "loaded"
        assert loads(server.metrics, "/status") == []


class Terminal:
    """A server whose output and error output are a terminal of 100 columns, and all that it writes there."""

    def __init__(self, folder: pathlib.Path) -> None:
        ports = Ports.free()
        program = naiad_program()
        parent, child = os.openpty()
        self._written: list[bytes] = []
        self.process = subprocess.Popen(
            [
                *program.command,
                f"--model-repository={folder / 'models'}",
                "--http-address=127.0.0.1",
                f"--http-port={ports.http}",
                f"--grpc-port={ports.grpc}",
                f"--metrics-port={ports.metrics}",
            ],
            env={**program.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"},
            stdin=subprocess.DEVNULL,
            stdout=child,
            stderr=child,
        )
        os.close(child)
        self._reader = threading.Thread(target=self._read, args=(parent,), daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        return b"".join(self._written).decode(errors="replace")

    def end(self) -> int:
        """Wait for the end of the process and of its output."""
        status = self.process.wait(60)
        self._reader.join(60)
        return status

    def _read(self, parent: int) -> None:
        with contextlib.closing(os.fdopen(parent, "rb", buffering=0)) as terminal:
            while True:
                try:
                    data = terminal.read(65536)
                except OSError as error:
                    assert error.errno == errno.EIO  # noqa: PT017 - the end of a terminal
                    return
                if not data:
                    return
                self._written.append(data)


@pytest.mark.slow
def test_a_terminal_shows_bars_while_models_load_and_is_clean_afterwards(
    tmp_path: pathlib.Path,
) -> None:
    gate = write(tmp_path)
    terminal = Terminal(tmp_path)
    try:
        wait_until(lambda: "slow version 1" in terminal.text, seconds=60)
        wait_until(lambda: "initialize waits" in terminal.text, seconds=60)
        # The log line stands alone: the bars are drawn again below it.
        line = next(one for one in terminal.text.splitlines() if "initialize waits" in one)
        assert "version 1 loading" not in line
        gate.touch()
        wait_until(lambda: "API docs" in terminal.text, seconds=60)
    finally:
        terminal.process.send_signal(signal.SIGINT)
        status = terminal.end()
    assert status == 0
    assert terminal.text.count("\x1b[?25l") == terminal.text.count("\x1b[?25h") == 1
    after = terminal.text.split("\x1b[?25h")[1]
    assert "loaded in" not in after
    assert re.search(r"slow +│? *1", after), "the table of models comes after the bars"


@pytest.mark.slow
def test_a_stop_while_models_load_gives_the_cursor_back(tmp_path: pathlib.Path) -> None:
    write(tmp_path)
    terminal = Terminal(tmp_path)
    try:
        wait_until(lambda: "initialize waits" in terminal.text, seconds=60)
    finally:
        terminal.process.send_signal(signal.SIGINT)
        status = terminal.end()
    assert status == 0
    assert terminal.text.count("\x1b[?25l") == terminal.text.count("\x1b[?25h") == 1
