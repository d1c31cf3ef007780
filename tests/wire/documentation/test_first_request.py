"""`make run`: which ports it takes, and that the request it suggests reaches the server it started."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).parents[3] / "examples" / "first_request.py"
SERVER = PROGRAM.parents[1] / "server"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_where_the_usual_port_is_taken_it_says_so_and_its_request_reaches_this_server() -> None:
    with contextlib.ExitStack() as cleanup:
        with contextlib.suppress(OSError):  # another program has it already, which does as well
            cleanup.enter_context(socket.create_server(("127.0.0.1", 8000)))
        process = subprocess.Popen(
            [sys.executable, PROGRAM],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SERVER), "TRITON_SERVER_CPU_ONLY": "1"},
        )
        cleanup.callback(process.wait)
        cleanup.callback(process.send_signal, signal.SIGINT)
        assert process.stdout is not None
        cleanup.callback(process.stdout.close)
        shown = ""
        for line in process.stdout:
            shown += line
            if line.startswith("Try:"):
                break
        assert re.search(
            r"Another program listens on 8000\b.*, so this server took other ports", shown
        )
        [port] = re.findall(r"HTTP +http://127\.0\.0\.1:(\d+)\n", shown)
        assert port != "8000"
        command = line.removeprefix("Try:").strip()
        assert f"127.0.0.1:{port}/v2/models/word_count/infer" in command
        reply = subprocess.run(
            ["sh", "-c", f"exec {command} -s"], check=True, capture_output=True, timeout=60
        ).stdout
        assert json.loads(reply)["outputs"][0]["data"] == [6]
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert "Stopping: requests in flight are finished" in rest
        assert rest.endswith("Stopped.\n")
        assert process.wait(60) == 0
