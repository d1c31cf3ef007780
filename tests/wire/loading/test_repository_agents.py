"""Repository agents (rows 14.35, 14.36) in a running server: those of `--repoagent-directory`, the included `checksum`, and the example."""

import concurrent.futures
import contextlib
import dataclasses
import hashlib
import io
import json
import pathlib
import shutil
import tarfile
from collections.abc import Iterator

import pytest

from tests.reference.process import Program, ServerProcess, naiad_program
from tests.support.waiting import wait_until
from tests.wire.plain_http import call

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples" / "repository_agents"

RECORDER = """\
import pathlib
import shutil
import sys
import time

from naiad.repository.agents.agent import AgentError, RepositoryAgent


class Agent(RepositoryAgent):
    timeout_seconds = {limit}

    def note(self, model, action):
        with open({log!r}, "a") as log:
            log.write(f"{{model.parameters['as']}} {{action}} {{model.name}}\\n")
        how = model.parameters.get(action)
        if how == "raise":
            raise AgentError(f"{{action}} fails on purpose")
        if how == "exit":
            sys.exit(3)
        if how == "hang":
            time.sleep(3600)
        if how == "relocate":
            folder = model.new_folder()
            shutil.copytree(model.folder, folder, dirs_exist_ok=True)
            (folder / "config.pbtxt").write_text("this is not read")
            (folder / "1" / "word").write_text("relocated")
            model.relocate(folder)
        model.state = model.state or model.parameters["as"]
        assert model.state == model.parameters["as"]

    def load(self, model): self.note(model, "load")
    def load_complete(self, model): self.note(model, "load_complete")
    def load_fail(self, model): self.note(model, "load_fail")
    def unload(self, model): self.note(model, "unload")
    def unload_complete(self, model): self.note(model, "unload_complete")
"""

MODEL = """\
import pathlib
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.folder = pathlib.Path(args["model_repository"])
        self.word = (self.folder / args["model_version"] / "word").read_text()

    def execute(self, requests):
        print("busy in", self.folder.name, flush=True)
        while (self.folder.parent / "wait").exists():
            time.sleep(0.01)
        words = np.array([self.word, str(self.folder)], dtype=object)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("WORDS", words)]) for _ in requests]
"""

CONFIG = """\
backend: "python"
output { name: "WORDS" data_type: TYPE_STRING dims: 2 }
instance_group { kind: KIND_CPU count: 1 }
"""


class Agents:
    """A server under explicit control, and the log of its agents."""

    def __init__(self, folder: pathlib.Path, server: ServerProcess) -> None:
        self.folder = folder
        self.server = server

    def write(self, name: str, *agents: str, word: str = "plain") -> pathlib.Path:
        """A model that answers its word; `agents` are `NAME KEY=VALUE …`."""
        folder = self.folder / "models" / name
        (folder / "1").mkdir(parents=True)
        (folder / "1" / "word").write_text(word)
        (folder / "1" / "model.py").write_text(MODEL)
        (folder / "config.pbtxt").write_text(CONFIG + with_agents(*agents))
        return folder

    def change(self, action: str, name: str) -> tuple[int, str]:
        status, reply = call(self.server.http, "POST", f"/v2/repository/models/{name}/{action}")
        return status, reply.decode()

    def words(self, name: str) -> list[str]:
        status, reply = call(self.server.http, "POST", f"/v2/models/{name}/infer", {"inputs": []})
        assert status == 200, reply
        words: list[str] = json.loads(reply)["outputs"][0]["data"]
        return words

    def reason(self, name: str) -> str:
        _, reply = call(self.server.http, "POST", "/v2/repository/index")
        return str(next(entry["reason"] for entry in json.loads(reply) if entry["name"] == name))

    def noted(self, name: str, last: str) -> list[str]:
        """What the agents noted of a model, once `last` is there; the notes are cleared."""
        log = self.folder / "agents.log"
        wait_until(lambda: f"{last} {name}\n" in log.read_text(), what=f"{last} of {name}")
        lines = log.read_text().splitlines()
        log.write_text("")
        return [line.removesuffix(f" {name}") for line in lines if line.endswith(f" {name}")]


def with_agents(*agents: str) -> str:
    lines = []
    for agent in agents:
        name, *parameters = agent.split()
        pairs = (parameter.split("=") for parameter in parameters)
        texts = [f'parameters {{ key: "{key}" value: "{value}" }}' for key, value in pairs]
        lines.append(f'agents {{ name: "{name}" {" ".join(texts)} }}')
    return f"model_repository_agents {{ {' '.join(lines)} }}\n"


@contextlib.contextmanager
def started(
    folder: pathlib.Path, program: Program, *, limit: str, served: str = ""
) -> Iterator[Agents]:
    """A server with the agents `recorder` and `unpack`.

    Args:
        folder: for everything.
        program: what to start.
        limit: seconds of a load of the recorder.
        served: an agent of the model `served`, which is loaded at start.
    """
    shutil.copytree(EXAMPLES, folder / "repoagents")
    (folder / "repoagents" / "recorder").mkdir()
    code = RECORDER.format(log=str(folder / "agents.log"), limit=limit)
    (folder / "repoagents" / "recorder" / "agent.py").write_text(code)
    (folder / "agents.log").touch()
    (folder / "models").mkdir()
    options = (
        "--model-control-mode=explicit",
        f"--repoagent-directory={folder / 'repoagents'}",
        "--backend-config=python,host=thread",
        *(["--load-model=served"] if served else []),
    )
    server = ServerProcess(program, [folder / "models"], log=folder / "log", options=options)
    agents = Agents(folder, server)
    if served:
        agents.write("served", served)
    with server:
        yield agents


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agents]:
    with started(tmp_path_factory.mktemp("agents"), naiad_program(), limit="0.2") as agents:
        yield agents


def test_agents_follow_a_model_from_its_load_to_its_unload(agents: Agents) -> None:
    folder = agents.write("followed", "recorder as=A load=relocate", "recorder as=B")
    assert agents.change("load", "followed") == (200, "")
    word, place = agents.words("followed")
    assert word == "relocated"
    assert pathlib.Path(place).name == "followed"
    assert not pathlib.Path(place).is_relative_to(agents.folder)
    loaded = ["A load", "B load", "B load_complete", "A load_complete"]
    assert agents.noted("followed", "A load_complete") == loaded
    assert agents.change("load", "followed") == (200, "")
    (folder / "1" / "model.py").touch()
    assert agents.change("load", "followed") == (200, "")
    ended = ["A unload", "B unload", "B unload_complete", "A unload_complete"]
    assert sorted(agents.noted("followed", "A unload_complete")) == sorted([*loaded, *ended])
    _, later = agents.words("followed")
    wait_until(lambda: not pathlib.Path(place).exists())
    assert agents.change("unload", "followed") == (200, "")
    assert agents.noted("followed", "A unload_complete") == ended
    wait_until(lambda: not pathlib.Path(later).exists())


@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        ("recorder as=B load=raise", "repository agent 'recorder': load fails on purpose"),
        ("recorder as=B load=exit", "repository agent 'recorder': raised SystemExit: 3"),
        ("recorder as=B load=hang", "repository agent 'recorder': load of model 'refused' did not return in time"),
        ("recorder", "load of model 'refused' raised KeyError: 'as'"),
        ("absent", "unable to find repository agent 'absent': write "),
    ],
)  # fmt: skip
def test_an_agent_that_fails_fails_that_load_only(agents: Agents, agent: str, reason: str) -> None:
    other = agents.write("other", "recorder as=A")
    refused = agents.write("refused", "recorder as=A", agent)
    try:
        assert agents.change("load", "other")[0] == 200
        status, error = agents.change("load", "refused")
        assert status == 500
        assert "failed to load 'refused', failed to poll from model repository" in error
        assert reason in error
        assert reason in agents.reason("refused")
        assert "A load_fail" in agents.noted("refused", "A load_fail")
        assert agents.words("other")[0] == "plain"
        (refused / "config.pbtxt").write_text(CONFIG)
        assert agents.change("load", "refused")[0] == 200
    finally:
        for folder in (other, refused):
            agents.change("unload", folder.name)
            shutil.rmtree(folder)
        (agents.folder / "agents.log").write_text("")


def test_a_model_with_agents_is_loaded_again_as_a_whole(agents: Agents) -> None:
    folder = agents.write("whole", "recorder as=A load=relocate")
    config = f"{(folder / 'config.pbtxt').read_text()}version_policy {{ all {{ }} }}\n"
    (folder / "config.pbtxt").write_text(config)
    shutil.copytree(folder / "1", folder / "2")
    assert agents.change("load", "whole") == (200, "")
    before = [agents.words(f"whole/versions/{version}")[1] for version in (1, 2)]
    (folder / "2" / "model.py").touch()
    assert agents.change("load", "whole") == (200, "")
    after = [agents.words(f"whole/versions/{version}")[1] for version in (1, 2)]
    assert (len(set(before)), len(set(after)), len({*before, *after})) == (1, 1, 2)
    agents.noted("whole", "A unload_complete")
    wait_until(lambda: not pathlib.Path(before[0]).exists())


def test_agents_are_notified_before_the_last_requests_are_answered(agents: Agents) -> None:
    folder = agents.write("busy", "recorder as=A")
    assert agents.change("load", "busy") == (200, "")
    wait = folder.parent / "wait"
    wait.touch()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        try:
            request = pool.submit(agents.words, "busy")
            wait_until(lambda: "busy in busy" in agents.server.output())
            assert agents.change("unload", "busy") == (200, "")
            assert agents.noted("busy", "A unload")[-1] == "A unload"
        finally:
            wait.unlink()
        assert request.result()[0] == "plain"
    assert agents.noted("busy", "A unload_complete") == ["A unload_complete"]


def test_a_model_that_fails_behind_its_agents_tells_them(agents: Agents) -> None:
    folder = agents.write("broken", "recorder as=A load=relocate", "recorder as=B")
    (folder / "1" / "model.py").write_text("raise RuntimeError('no weights')\n")
    status, error = agents.change("load", "broken")
    assert status == 400
    assert "no weights" in error
    calls = ["A load", "B load", "B load_fail", "A load_fail"]
    assert agents.noted("broken", "A load_fail") == calls
    (folder / "1" / "model.py").write_text(MODEL)
    assert agents.change("load", "broken")[0] == 200
    # A reload that an agent refuses: the old model serves on.
    config = CONFIG + with_agents("recorder as=A load=raise")
    (folder / "config.pbtxt").write_text(config)
    assert agents.change("load", "broken")[0] == 500
    assert agents.words("broken")[0] == "relocated"


def test_the_agents_of_a_config_in_the_request_run_for_that_load(agents: Agents) -> None:
    agents.write("overridden", "recorder as=A")
    config = {
        "backend": "python",
        "output": [{"name": "WORDS", "data_type": "TYPE_STRING", "dims": [2]}],
        "instance_group": [{"kind": "KIND_CPU", "count": 1}],
        "model_repository_agents": {
            "agents": [{"name": "recorder", "parameters": {"as": "B", "load": "relocate"}}]
        },
    }
    body = {"parameters": {"config": json.dumps(config)}}
    path = "/v2/repository/models/overridden/load"
    status, reply = call(agents.server.http, "POST", path, body)
    assert (status, reply) == (200, b"")
    assert agents.words("overridden")[0] == "relocated"
    assert agents.noted("overridden", "B load_complete") == ["B load", "B load_complete"]


@pytest.mark.parametrize("algorithm", ["MD5", "SHA256"])
def test_checksum_compares_files_with_the_config(agents: Agents, algorithm: str) -> None:
    digest = hashlib.new(algorithm, MODEL.encode()).hexdigest()
    name = f"checked_{algorithm}"
    folder = agents.write(name, f"checksum {algorithm}:1/model.py={digest}")
    assert agents.change("load", name) == (200, "")
    (folder / "1" / "model.py").write_text(f"{MODEL}# changed\n")
    changed = hashlib.new(algorithm, f"{MODEL}# changed\n".encode()).hexdigest()
    status, error = agents.change("load", name)
    assert status == 500
    assert (
        f"Mismatched {algorithm} hash for file 1/model.py, expect: {digest}, got: {changed}"
        in error
    )
    assert agents.words(name)[0] == "plain"


def test_the_example_unpacks_an_archive(agents: Agents) -> None:
    folder = agents.write("packed", "unpack archive=files.tar.gz", word="packed")
    with tarfile.open(folder / "files.tar.gz", "w:gz") as archive:
        archive.add(folder / "1", "1")
    shutil.rmtree(folder / "1")
    assert agents.change("load", "packed") == (200, "")
    assert agents.words("packed")[0] == "packed"
    with tarfile.open(folder / "files.tar.gz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("../outside"), io.BytesIO())
    status, error = agents.change("load", "packed")
    assert status == 500
    assert "cannot unpack files.tar.gz of model 'packed': '../outside' would be extracted" in error
    assert agents.words("packed")[0] == "packed"
    (folder / "files.tar.gz").write_bytes(b"truncated")
    status, error = agents.change("load", "packed")
    assert (status, "cannot unpack files.tar.gz" in error) == (500, True)


def test_a_server_that_stops_ends_its_agents_and_leaves_no_folder(tmp_path: pathlib.Path) -> None:
    program = naiad_program()
    (tmp_path / "tmp").mkdir()
    environ = {**program.environ, "TMPDIR": str(tmp_path / "tmp")}
    program = dataclasses.replace(program, environ=environ)
    with started(tmp_path, program, limit="3600", served="recorder as=A load=relocate") as agents:
        assert agents.noted("served", "A load_complete") == ["A load", "A load_complete"]
        assert agents.words("served")[0] == "relocated"
        agents.write("stuck", "recorder as=A load=hang")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            loading = pool.submit(agents.change, "load", "stuck")
            assert agents.noted("stuck", "A load") == ["A load"]
            agents.server.stop()
            status, error = loading.result()
    assert (status, "the server is stopping" in error) == (500, True)
    assert agents.server.process is not None
    assert agents.server.process.returncode == 0
    assert agents.noted("served", "A unload_complete") == ["A unload", "A unload_complete"]
    assert not [path for path in (tmp_path / "tmp").iterdir() if "agent" in path.name]
