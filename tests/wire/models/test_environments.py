"""Models with environments of their own, served: two of them at once, the installer's error, a stop while one is built."""

import http.client
import json
import pathlib
import shutil

import pytest

from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import wait_until
from tests.support.wheels import wheel
from tests.wire.plain_http import call

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # installers are as fast as the disk
_TIMEOUT_S = 120

CONFIG = """\
backend: "python"
input { name: "X" data_type: TYPE_FP32 dims: 1 }
output { name: "SAID" data_type: TYPE_STRING dims: -1 }
parameters { key: "naiad.host" value { string_value: "process" } }
instance_group { kind: KIND_CPU count: 1 }
"""

IGNORING = CONFIG + 'parameters { key: "naiad.requirements" value { string_value: "ignore" } }\n'

MODEL = """\
import sys

import numpy as np
import triton_python_backend_utils as pb_utils

import word

try:
    import orjson  # the server has it
except ImportError:
    orjson = None


class TritonPythonModel:
    def execute(self, requests):
        said = [word.WORD, str(orjson is None), sys.prefix]
        tensor = pb_utils.Tensor("SAID", np.array(said, dtype=object))
        return [pb_utils.InferenceResponse([tensor]) for _ in requests]
"""


def model(
    repository: pathlib.Path, name: str, requirements: str, *, version: str, config: str = CONFIG
) -> None:
    folder = repository / name
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(config)
    (folder / "1" / "model.py").write_text(MODEL)
    (folder / "1" / "requirements.txt").write_text(requirements)
    wheel(folder / "1" / "wheels", "word", version, f"WORD = {version!r}\n")


def served(repository: pathlib.Path, tmp_path: pathlib.Path, *options: str) -> ServerProcess:
    cache = f"--backend-config=python,environment-cache={tmp_path / 'cache'}"
    return ServerProcess(
        naiad_program(),
        [repository],
        log=tmp_path / "log",
        settle_s=_TIMEOUT_S,
        options=["--exit-on-error=false", cache, *options],
    )


def said(server: ServerProcess, name: str) -> list[str]:
    body = {"inputs": [{"name": "X", "datatype": "FP32", "shape": [1], "data": [0]}]}
    status, reply = call(server.http, "POST", f"/v2/models/{name}/infer", body)
    assert status == 200, reply
    data: list[str] = json.loads(reply)["outputs"][0]["data"]
    return data


def test_two_versions_of_a_package_at_once_the_servers_packages_in_neither_and_a_build_that_fails(
    tmp_path: pathlib.Path,
) -> None:
    repository = tmp_path / "models"
    model(repository, "old", "word==1.0", version="1.0")
    model(repository, "new", "word>=2", version="2.0")
    model(repository, "lost", "word==3.0", version="1.0")
    thread = CONFIG.replace('"process"', '"thread"')
    model(repository, "threaded", "word==1.0", version="1.0", config=thread)
    options = [f"--load-model={name}" for name in ("old", "new", "threaded")]
    with served(
        repository,
        tmp_path,
        "--disable-auto-complete-config",
        "--model-control-mode=explicit",
        *options,
    ) as server:
        old, new = said(server, "old"), said(server, "new")
        status, reply = call(server.http, "POST", "/v2/repository/models/lost/load")
        _, index = call(server.http, "POST", "/v2/repository/index")
        reasons = {load["name"]: load.get("reason", "") for load in json.loads(index)}
        log = server.output()
    assert old[:2] == ["1.0", "True"]
    assert new[:2] == ["2.0", "True"]
    assert old[2] != new[2]
    assert status == 400
    assert "No matching distribution found for word==3.0" in json.loads(reply)["error"]
    assert "No matching distribution found for word==3.0" in reasons["lost"]
    assert 'naiad.host to "process"' in reasons["threaded"]
    assert "Successfully installed word-1.0" in log


def test_a_server_that_stops_does_not_wait_for_an_installer(
    tmp_path: pathlib.Path,
) -> None:
    """The installer hangs here in the build of a project that never ends."""
    repository = tmp_path / "models"
    model(repository, "slow", "./project", version="1.0")
    project = repository / "slow" / "1" / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "hangs"\nbackend-path = ["."]\n'
    )
    (project / "hangs.py").write_text(
        "import time\ndef get_requires_for_build_wheel(settings=None):\n    print('hanging', flush=True)\n    time.sleep(600)\n"
    )
    with served(repository, tmp_path, "--model-control-mode=explicit") as server:
        host, port = server.http.split(":")
        loading = http.client.HTTPConnection(host, int(port), timeout=_TIMEOUT_S)
        loading.request("POST", "/v2/repository/models/slow/load")
        wait_until(
            lambda: "Getting requirements to build wheel" in server.output(), seconds=_TIMEOUT_S
        )
        assert server.stop() == 0, "it waits for no build, or it would be killed"
        loading.close()
    assert not [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]


def test_packages_for_all_models_are_in_one_environment_and_models_with_their_own_keep_it(
    tmp_path: pathlib.Path,
) -> None:
    """Two models without any, one with another version, one in the server's environment."""
    repository = tmp_path / "models"
    model(repository, "own", "word==2.0", version="2.0")
    for name, config in (("a", CONFIG), ("b", CONFIG), ("servers", IGNORING)):
        model(repository, name, "", version="2.0", config=config)
        (repository / name / "1" / "requirements.txt").unlink()
    for name in ("a", "b"):
        shutil.rmtree(repository / name / "1" / "wheels")
    wheel(tmp_path / "wheels", "word", "1.0", "WORD = '1.0'\n")
    with served(
        repository,
        tmp_path,
        "--python-requirement=word==1.0",
        f"--backend-config=python,wheel-dir={tmp_path / 'wheels'}",
    ) as server:
        own, a, b = (said(server, name) for name in ("own", "a", "b"))
        _, index = call(server.http, "POST", "/v2/repository/index")
        reasons = {load["name"]: load.get("reason", "") for load in json.loads(index)}
        log = server.output()
    assert (own[0], a[0], b[0]) == ("2.0", "1.0", "1.0")
    assert a[2] == b[2] != own[2]
    assert "No module named 'word'" in reasons["servers"]
    assert log.count("Successfully installed word-1.0") == 1
    assert "building an environment from --python-requirement" in log


def test_packages_for_all_models_that_cannot_be_installed_fail_every_model_at_once(
    tmp_path: pathlib.Path,
) -> None:
    """Without a network an installer may take minutes to give up: it is not asked again for each model."""
    repository = tmp_path / "models"
    for name in ("a", "b", "c"):
        model(repository, name, "", version="1.0")
        (repository / name / "1" / "requirements.txt").unlink()
    (tmp_path / "wheels").mkdir()
    with served(
        repository,
        tmp_path,
        "--python-requirement=nonesuch==1.0",
        f"--backend-config=python,wheel-dir={tmp_path / 'wheels'}",
    ) as server:
        _, index = call(server.http, "POST", "/v2/repository/index")
        reasons = {load["name"]: load.get("reason", "") for load in json.loads(index)}
        log = server.output()
    for name in ("a", "b", "c"):
        assert (
            f"unable to load model '{name}': its environment could not be built from --python-requirement"
            in reasons[name]
        )
        assert "No matching distribution found for nonesuch==1.0" in reasons[name]
    assert log.count("building an environment from --python-requirement") == 1
