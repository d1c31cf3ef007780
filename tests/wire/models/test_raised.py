"""Models that raise what is not an `Exception`, in both hosts: the client gets its name and place, and the model continues to serve."""

import json
import pathlib

import pytest

from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import wait_until
from tests.wire.plain_http import call, get

RAISED = ("KeyboardInterrupt", "SystemExit", "GeneratorExit", "Own")

CONFIG = """\
backend: "python"
input { name: "IN" data_type: TYPE_STRING dims: 1 }
output { name: "OUT" data_type: TYPE_STRING dims: 1 }
instance_group { kind: KIND_CPU count: 1 }
parameters { key: "naiad.host" value { string_value: "HOST" } }
"""

HEAD = """\
import triton_python_backend_utils as pb_utils

class Own(BaseException):
    pass

def same(requests):
    asked = requests[0].inputs()[0].as_numpy()
    if asked[0] != b"good":
        raise eval(asked[0])("enough")
    return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", asked)])]

class TritonPythonModel:
"""

PLAIN = """\
    def execute(self, requests):
        return same(requests)
"""

BODIES = {
    "plain": PLAIN,
    "coroutine": "    async " + PLAIN.lstrip(),
    "unready": PLAIN + "    def is_ready(self): raise KeyboardInterrupt('not now')\n",
    "unfinished": PLAIN + "    def finalize(self): raise KeyboardInterrupt('at the end')\n",
    "uninitialized": PLAIN + "    def initialize(self, args): raise KeyboardInterrupt('no GPU')\n",
    "incomplete": PLAIN
    + "    @staticmethod\n    def auto_complete_config(config): raise KeyboardInterrupt('no config')\n",
    "unread": PLAIN + "raise KeyboardInterrupt('no class')\n",
}


def ask(server: ServerProcess, model: str, what: str) -> tuple[int, str]:
    """The status of one request, and its error or its answer."""
    body = {"inputs": [{"name": "IN", "datatype": "BYTES", "shape": [1], "data": [what]}]}
    status, reply = call(server.http, "POST", f"/v2/models/{model}/infer", body)
    document = json.loads(reply)
    return status, document["error"] if "error" in document else document["outputs"][0]["data"][0]


@pytest.mark.parametrize("host", [pytest.param("process", marks=pytest.mark.slow), "thread"])
@pytest.mark.slow
def test_whatever_a_model_raises_is_reported_as_an_exception_is_and_it_serves_on(
    host: str, tmp_path: pathlib.Path
) -> None:
    models = tmp_path / "models"
    for name, body in BODIES.items():
        (models / name / "1").mkdir(parents=True)
        (models / name / "config.pbtxt").write_text(CONFIG.replace("HOST", host))
        (models / name / "1" / "model.py").write_text(HEAD + body)
    options = ["--exit-on-error=false", "--strict-readiness=false"]
    with ServerProcess(naiad_program(), [models], log=tmp_path / "log", options=options) as server:
        for name in ("plain", "coroutine"):
            for each in RAISED:
                status, error = ask(server, name, each)
                assert status == 500
                assert error.startswith(
                    f"Failed to process the request(s) for model '{name}_0_0', message: {each}: enough\n\nAt:\n"
                )
                assert f"{models / name / '1' / 'model.py'}(9): same" in error
                line = f"message: {each}: enough"
                wait_until(lambda line=line: line in server.output())  # type: ignore[misc]
                assert ask(server, name, "good") == (200, "good")
        assert get(server.http, "/v2/models/unready/ready")[0] == 400
        assert ask(server, "unready", "good") == (200, "good")
        _, index = call(server.http, "POST", "/v2/repository/index")
        reasons = {load["name"]: load.get("reason", "") for load in json.loads(index)}
        assert server.stop() == 0
        log = server.output()
    for name, told in {
        "uninitialized": "failed to initialize model 'uninitialized' (instance 'uninitialized_0_0'): KeyboardInterrupt: no GPU",
        "incomplete": "unable to load model 'incomplete': auto_complete_config failed: KeyboardInterrupt: no config",
        "unread": "unable to load model 'unread': KeyboardInterrupt: no class",
    }.items():
        assert told in reasons[name]
        assert f"{models / name / '1' / 'model.py'}(" in reasons[name]
    assert "is_ready failed: KeyboardInterrupt: not now" in log
    assert "finalize failed: KeyboardInterrupt: at the end" in log
    assert "it is restarted" not in log
