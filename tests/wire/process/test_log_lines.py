"""What the log of a whole life says: what runs, each model with fields for machines, and that it ended."""

import json
import pathlib
import signal

import pytest

from tests.reference.process import ServerProcess, naiad_program


@pytest.mark.slow
def test_a_log_in_json_says_what_started_what_was_loaded_and_that_it_stopped(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    options = ["--log-format=json"]
    with ServerProcess(naiad_program(), [models], log=tmp_path / "log", options=options) as server:
        assert server.process is not None
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(30) == 0
        lines = [json.loads(line) for line in server.output().splitlines()]
    first, *_, last = lines
    assert first["message"].startswith(f"Naiad {first['naiad']} on Python {first['python']}; ")
    assert {"onnxruntime", "python"} <= set(first["backends"])
    assert last["message"] == "stopped"
    loads = [line for line in lines if line["message"].startswith("successfully loaded ")]
    assert {"model": "add", "version": 1}.items() <= {
        key: value for line in loads if line["model"] == "add" for key, value in line.items()
    }.items()
    [table] = [line for line in lines if "models" in line]
    assert {"model": "add", "version": 1, "state": "READY", "reason": ""} in table["models"]
    assert "\n" not in table["message"]
    assert not [line for line in lines if line["message"].startswith("worker process")]
    assert not [
        line for line in lines if "stalled_ms" in line and lines.index(line) < lines.index(table)
    ]
