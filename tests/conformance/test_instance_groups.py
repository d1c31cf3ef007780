"""Passive instances and host policies (rows 11.34, 17.9)."""

import json
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario, http
from tests.conformance.scenarios.starting import exits, start
from tests.conformance.scenarios.wire import Answer, Target, value
from tests.conformance.servers import catalogue

_SERVER = "placed"


def _request(delay_ms: int, *, batched: bool = False) -> Answer:
    return {"inputs": [value("DELAY_MS", "INT32", [1, 1] if batched else [1], [delay_ms])]}


def _instances(target: Target, model: str, *, batched: bool = False) -> Answer:
    """Which instances execute requests that are sent side by side, each long enough for the next one to need another instance."""
    with ThreadPoolExecutor(6) as pool:
        sent = [pool.submit(target.infer, model, _request(100, batched=batched)) for _ in range(6)]
        reports = [future.result().report()["report"] for future in sent]
    return {"instances": sorted({str(report["instance"]) for report in reports})}


def _cores(target: Target, model: str) -> Answer:
    answer = json.loads(target.infer(model, _request(0)).body)
    return {"cores": answer["outputs"][0]["data"]}


def _config(target: Target, model: str) -> Answer:
    config = json.loads(target.http("GET", f"/v2/models/{model}/config").body)
    groups = config["instance_group"]
    return {"groups": [[group["name"], group["passive"], group["host_policy"]] for group in groups]}


def _exits(target: Target, *options: str) -> Answer:
    with tempfile.TemporaryDirectory() as folder:
        repository = catalogue.write(Path(folder) / "models", catalogue.GOOD, only=[])
        return exits(target, repository, *options)


def passive(name: str, model: str, works: Sequence[str], *, batched: bool = False) -> Scenario:
    """Which instances of a model work."""
    expect = {f"instances.{place}": instance for place, instance in enumerate(works)}
    ask = partial(_instances, model=model, batched=batched)
    return Scenario(name, ("11.34",), ask, expect=expect, server=_SERVER)


def cores(name: str, model: str, *expected: int) -> Scenario:
    """The processors of an instance, -1, those of a thread of it."""
    expect = {f"cores.{place}": core for place, core in enumerate((*expected, -1, *expected))}
    return Scenario(name, ("17.9", "11.34"), partial(_cores, model=model), expect=expect, server=_SERVER)  # fmt: skip


SCENARIOS = [
    passive("a passive instance runs nothing", "passive", ["works_0"]),
    passive("passive instances that come first", "passive_first", ["works_0", "works_1"]),
    passive("a passive instance behind the dynamic batcher", "passive_batched", ["works_0"], batched=True),
    http("a model with a passive instance is ready", "11.34 2.7", "GET", "/v2/models/passive/ready", status=200, server=_SERVER),
    Scenario("passive in the config", ("11.34", "2.20"), partial(_config, model="passive_first"), server=_SERVER),
    cores("a host policy that the group names", "named", 0),
    cores("several ranges of cores", "named_two", 0, 1),
    cores("the host policy of the CPU", "default_of_cpu", 1),
    cores("the host policy of KIND_MODEL", "default_of_model", 0),
    start("--host-policy without a setting", "17.9", lambda target: _exits(target, "--host-policy=cpu"),
          "--host-policy option format is '<policy name>,<setting>=<value>'. Got cpu", status=1),
    start("--host-policy with another setting", "17.9", lambda target: _exits(target, "--host-policy=cpu,cores=0-1"),
          "Unsupported host policy setting 'cores' is specified, supported settings are 'numa-node', 'cpu-cores'", status=1),
]  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_instance_groups_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
