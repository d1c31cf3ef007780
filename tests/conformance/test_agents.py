"""Repository agents (row 14.35): when each is called and what it changes, with one agent for Triton's C interface and the same one in Python."""

import collections
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.starting import server_on, start
from tests.conformance.scenarios.wire import Answer, Target
from tests.conformance.servers import catalogue
from tests.conformance.servers.control import RAISES, REPORT, ZERO, change, load, unload
from tests.support.waiting import wait_until

SOURCE = Path(__file__).parent / "agents" / "trace.c"

PYTHON = """\
import shutil

from naiad.repository.agents.agent import AgentError, RepositoryAgent


class Agent(RepositoryAgent):
    def note(self, model, action):
        with open(model.parameters["log"], "a") as log:
            log.write(f"{model.parameters['as']} {action}\\n")
        how = model.parameters.get(action)
        if how == "raise":
            raise AgentError("fails on purpose")
        if how == "relocate":
            folder = model.new_folder()
            shutil.copytree(model.folder / "1", folder / "1")
            (folder / "config.pbtxt").write_text("bogus")
            model.relocate(folder)

    def load(self, model): self.note(model, "load")
    def load_complete(self, model): self.note(model, "load_complete")
    def load_fail(self, model): self.note(model, "load_fail")
    def unload(self, model): self.note(model, "unload")
    def unload_complete(self, model): self.note(model, "unload_complete")
"""

WHERE = """
import pathlib

print("loaded from", pathlib.Path(__file__).parents[2], flush=True)
"""


class Traced:
    """A model with agents, and what they noted."""

    def __init__(self, target: Target, folder: Path) -> None:
        self.target = target
        self.folder = folder / "models" / "traced"
        self.log = folder / "agents.log"
        self.log.touch()
        self._config = (self.folder / "config.pbtxt").read_text()

    def configure(self, *agents: dict[str, str]) -> None:
        """Name agents in the config."""
        blocks = []
        for agent in agents:
            pairs = ({"log": str(self.log)} | agent).items()
            parameters = " ".join(f'parameters {{ key: "{k}" value: "{v}" }}' for k, v in pairs)
            blocks.append(f'agents {{ name: "trace" {parameters} }}')
        text = f"{self._config}model_repository_agents {{ {' '.join(blocks)} }}\n"
        (self.folder / "config.pbtxt").write_text(text)

    def calls(self, count: int) -> Answer:
        """What the agents noted: so many calls, those of a load that begins apart from those of one that ends."""
        wait_until(lambda: len(self.log.read_text().splitlines()) >= count)
        lines = collections.defaultdict(list)
        for line in self.log.read_text().splitlines():
            lines["ends" if "unload" in line else "begins"].append(line)
        self.log.write_text("")
        return dict(lines)


def _agents(target: Target) -> Answer:
    """A model with two agents is loaded, loaded again, refused by an agent, fails to load, and is unloaded."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        agent = folder / "agents" / "trace"
        agent.mkdir(parents=True)
        (agent / "agent.py").write_text(PYTHON)
        library = agent / "libtritonrepoagent_trace.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, SOURCE], check=True)
        repository = catalogue.write(folder / "models", {"traced": REPORT})
        options = ("--model-control-mode=explicit", "--disable-auto-complete-config")
        with server_on(
            target, repository, *options, f"--repoagent-directory={agent.parent}"
        ) as server:
            there = Target(server)
            traced = Traced(there, folder)
            try:
                return _life(there, traced)
            finally:
                there.close()


def _life(target: Target, traced: Traced) -> Answer:
    source = traced.folder / "1" / "model.py"
    good = source.read_text()
    traced.configure({"as": "A", "load": "relocate"}, {"as": "B"})
    found: Answer = {"load": load(target, "traced"), "calls": traced.calls(4)}
    found["nothing to do"] = [load(target, "traced"), traced.calls(0)]
    source.write_text(good + WHERE)
    before = target.process.output().count("loaded from ")
    found["changed"] = [load(target, "traced"), traced.calls(8)]
    place = target.process.output().split("loaded from ")[-1].split()[0]
    found["relocated"] = [
        target.process.output().count("loaded from ") > before,
        Path(place).is_relative_to(traced.folder.parent),
    ]
    traced.configure({"as": "A"}, {"as": "B", "load": "raise"}, {"as": "C"})
    found |= change(target, "load", "traced").answer()
    found["refused"] = [traced.calls(4), target.infer("traced", ZERO).status]
    source.write_text(RAISES)
    traced.configure({"as": "A"}, {"as": "B"})
    found["fails"] = [load(target, "traced"), traced.calls(4)]
    source.write_text(good)
    found["fixed"] = [load(target, "traced"), traced.calls(8)]
    found["unload"] = [unload(target, "traced"), traced.calls(4)]
    return found


SCENARIOS = [
    start(
        "repository agents, call by call",
        "14.35 14.36 7.22",
        _agents,
        says="failed to load 'traced', failed to poll from model repository",
        status=500,
        load=200,
        **{
            "calls.begins.0": "A load",
            "calls.begins.2": "B load_complete",
            "relocated.1": False,
            "refused.0.begins.2": "B load_fail",
            "unload.1.ends.3": "A unload_complete",
        },
    )
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: str(scenario.name))
def test_repository_agents_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
