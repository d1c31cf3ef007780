"""Control mode poll: what comes, changes and goes in the repository, and instances that change in place (rows 7.13, 7.24, 7.25, 7.30)."""

import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tritonclient.grpc import service_pb2 as pb

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.wire import Answer, Target, value
from tests.conformance.servers import catalogue
from tests.conformance.servers.busy import Executions
from tests.conformance.servers.catalogue import tensor
from tests.conformance.servers.control import RAISES, ZERO, change, entries, load, unload
from tests.conformance.servers.ensembles import ensemble, step
from tests.conformance.servers.polling import ALL, Story, at_once, config
from tests.support.waiting import PAUSE_S

_OTHER = 'parameters { key: "k" value { string_value: "v" } }'
_ONLY_1 = "version_policy { specific { versions: [ 1 ] } }"


def coming(story: Story) -> dict[str, Answer]:
    """A model comes, stands in two repositories for a while, and goes."""
    found: dict[str, Answer] = {"comes": {"before": story.infer()}}
    story.serve()
    found["comes"]["entries"] = entries(story.target, story.name)
    found["comes"]["version"] = story.report()["version"]
    second = story.folder.parent.parent / "second" / story.name
    shutil.copytree(story.folder, second)
    reason = "model appears in two or more repositories"
    found["twice"] = {
        "ended": story.until(story.ended, 1),
        "reasons": story.until(lambda: [entry.get("reason", "") for entry in entries(story.target, story.name)], [reason]),
        "served": story.infer() == 200,
    }  # fmt: skip
    shutil.rmtree(second)
    found["twice"]["alone again"] = story.until(story.infer, 200)
    shutil.rmtree(story.folder)
    found["goes"] = {
        "instances": story.until(story.instances, [2, 2]),
        "listed": story.until(lambda: bool(entries(story.target, story.name)), False),
        "asked": story.infer(),
        "error": story.target.infer(story.name, ZERO).answer()["error"],
    }
    return found


def edited(story: Story) -> dict[str, Answer]:
    """A source is edited while a client asks all the time; then a file comes that all versions share."""
    statuses: list[int] = []
    over = threading.Event()

    def ask() -> None:
        while not over.wait(PAUSE_S):
            statuses.append(story.infer())

    story.serve()
    client = threading.Thread(target=ask)
    client.start()
    story.source.touch()
    loaded_again = story.until(story.instances, [2, 1])
    over.set()
    client.join()
    found: dict[str, Answer] = {
        "edited": {"instances": loaded_again, "statuses": sorted(set(statuses))}
    }
    (story.folder / "labels.txt").write_text("a")
    found["shared"] = {"instances": story.until(story.instances, [3, 2])}
    found["shared"]["execution"] = story.report()["execution"]
    return found


def versions(story: Story) -> dict[str, Answer]:
    """A version comes beside one that serves on, and goes again."""
    story.serve(config(more=ALL))
    story.add_version()
    found: dict[str, Answer] = {
        "comes": {
            "versions": story.until(story.versions, ["1", "2"]),
            "default": story.report()["version"],
            "instances": story.until(story.instances, [2, 0]),
        }
    }
    shutil.rmtree(story.folder / "2")
    found["goes"] = {
        "versions": story.until(story.versions, ["1"]),
        "instances": story.until(story.instances, [2, 1]),
        "default": story.report()["version"],
    }
    return found


def newer(story: Story) -> dict[str, Answer]:
    """Under the default policy the highest version takes over."""
    story.serve()
    story.add_version()
    return {
        "newer": {
            "versions": story.until(story.versions, ["2"]),
            "instances": story.until(story.instances, [2, 1]),
            "default": story.report()["version"],
        }
    }


def policies(story: Story) -> dict[str, Answer]:
    """The version policy changes: the versions that stay are not loaded again."""
    story.serve(versions=("1", "2"))
    story.configure(config(more=ALL))
    found: dict[str, Answer] = {
        "wider": {
            "versions": story.until(story.versions, ["1", "2"]),
            "instances": story.until(story.instances, [2, 0]),
        }
    }
    story.configure(config(more=_ONLY_1))
    found["narrower"] = {
        "versions": story.until(story.versions, ["1"]),
        "instances": story.until(story.instances, [2, 1]),
        "default": story.report()["version"],
    }
    return found


def failing(story: Story) -> dict[str, Answer]:
    """A model fails when it comes, and once more when it is edited."""
    story.write(source=RAISES)
    states = story.until(
        lambda: [str(entry.get("state")) for entry in entries(story.target, story.name)],
        ["UNAVAILABLE"],
    )
    found: dict[str, Answer] = {
        "comes": {
            "states": states,
            "reason": "no weights on purpose" in entries(story.target, story.name)[0]["reason"],
            "asked": story.infer(),
        }
    }
    story.fix()
    found["comes"]["fixed"] = story.until(story.infer, 200)
    good = story.source.read_text()
    story.source.write_text(RAISES.replace("no weights", story.name))
    found["edit"] = {
        "fails": story.until(lambda: story.said(f"{story.name} on purpose"), True),
        "serves": story.infer(),
        "entries": entries(story.target, story.name),
    }
    story.source.write_text(good)
    found["edit"]["fixed"] = story.until(story.instances, [2, 1])
    found["edit"]["serves then"] = story.infer()
    return found


def steady(story: Story) -> dict[str, Answer]:
    """Changes for which nothing is loaded again."""
    story.serve()
    found: dict[str, Answer] = {"requests": _requests(story)}
    story.configure("# a comment\n" + config(group="renamed"))
    story.polled()
    found["same"] = {"instances": story.instances(), "serves": story.infer()}
    story.configure("bogus: 1")
    story.polled()
    found["unreadable"] = {"serves": story.infer(), "ready": len(story.versions())}
    counted = _counted(story)
    story.configure(config(count=2, group="renamed"))
    found["more"] = {
        "instances": story.until(story.instances, [2, 0]),
        "config": story.until(story.count, 2),
        "counters": _counted(story) == counted,
        "serves": story.infer(),
    }
    found["fewer"] = _fewer(story)
    return found


def _requests(story: Story) -> Answer:
    """Loads and unloads are not for clients."""
    found: Answer = {
        name: change(story.target, name, story.name).status for name in ("load", "unload")
    }
    for name, request in {
        "RepositoryModelLoad": pb.RepositoryModelLoadRequest(model_name=story.name),
        "RepositoryModelUnload": pb.RepositoryModelUnloadRequest(model_name=story.name),
    }.items():
        reply = story.target.call(name, request)
        found[name] = reply.code
        found["error"] = reply.message
    return {**found, "serves": story.infer()}


def _counted(story: Story) -> int:
    reply = story.target.http("GET", f"/v2/models/{story.name}/stats")
    return sum(entry["inference_count"] for entry in json.loads(reply.body)["model_stats"])


def _fewer(story: Story) -> Answer:
    """An instance is removed while both run a request."""
    slow = {"inputs": [value("DELAY_MS", "INT32", [1], [4000])]}
    executions = Executions(story.target, story.name)
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(story.target.infer, story.name, slow) for _ in range(2)]
        executions.wait(2)
        story.configure(config(group="renamed"))
        statuses = [request.result().status for request in running]
    return {
        "running": statuses,
        "instances": story.until(story.instances, [2, 1]),
        "config": story.until(story.count, 1),
        "serves": story.infer(),
    }


def refusing(story: Story) -> dict[str, Answer]:
    """An instance that cannot be made leaves the others as they are; another parameter loads the model again."""
    story.serve()
    refuse = story.folder.parent.parent / f"refuse-{story.name}"
    refuse.touch()
    story.configure(config(count=2))
    found: dict[str, Answer] = {
        "instance": {
            "fails": story.until(lambda: story.said(f"{story.name} refuses on purpose"), True),
            "serves": story.infer(),
            "versions": story.versions(),
        }
    }
    refuse.unlink()
    story.configure("# once more\n" + config(count=2))
    found["instance"]["fixed"] = story.until(story.instances, [2, 0])
    story.configure(config(more=_OTHER))
    found["parameter"] = {"instances": story.until(story.instances, [3, 2])}
    reply = story.target.http("GET", f"/v2/models/{story.name}/config")
    found["parameter"]["config"] = json.loads(reply.body)["parameters"]
    return found


def _instances(target: Target) -> Answer:
    """In place as well when a client asks for a load."""
    story = Story(target, "placed")
    story.write()
    try:
        found: Answer = {"load": [load(target, "placed"), *story.instances()]}
        for count in (2, 1):
            story.configure(config(count=count))
            found[f"{count} instances"] = [load(target, "placed"), story.until(story.begun, 2)]
            found[f"{count} in the config"] = story.count()
        found["ended"] = story.until(story.ended, 1)
        found["serves"] = story.infer()
    finally:
        unload(target, "placed")
        shutil.rmtree(story.folder)
    return found


def stepping(story: Story) -> dict[str, Answer]:
    """A model is a step of an ensemble: it is edited while a client asks the ensemble all the time, goes, and comes again."""
    over, statuses, asking = f"{story.name}_over", list[int](), threading.Event()

    def infer() -> int:
        return story.target.infer(over, ZERO).status

    def ask() -> None:
        while not asking.wait(PAUSE_S):
            statuses.append(infer())

    story.serve()
    chain = ensemble(
        tensor("DELAY_MS", "INT32", "[ 1 ]"),
        tensor("REPORT", "STRING", "[ 1 ]"),
        step(story.name, "DELAY_MS=DELAY_MS", "REPORT=REPORT"),
    )
    catalogue.write(story.folder.parent.parent / "aside", {over: chain})
    (story.folder.parent.parent / "aside" / over).rename(story.folder.parent / over)
    found: dict[str, Answer] = {"comes": {"serves": story.until(infer, 200)}}
    client = threading.Thread(target=ask)
    client.start()
    story.source.touch()
    loaded_again = story.until(story.instances, [2, 1])
    asking.set()
    client.join()
    found["edited"] = {"instances": loaded_again, "statuses": sorted(set(statuses))}
    shutil.rmtree(story.folder)
    found["goes"] = {
        "gone": story.until(lambda: infer() != 200, True),
        # Ours has a second entry, with the reason, once it has tried to load the ensemble again.
        "states": sorted({str(entry.get("state")) for entry in entries(story.target, over)}),
    }
    story.write()
    found["goes"]["again"] = story.until(infer, 200)
    return found


PART = at_once(coming, edited, versions, newer, policies, failing, steady, refusing, stepping)


def _polled(name: str, part: str, rows: str, expect: Answer, says: str | None = None) -> Scenario:
    """A part of a story, as `story.part`."""
    asked = PART(*part.split("."))
    return Scenario(
        f"poll: {name}", tuple(rows.split()), asked, says=says, expect=expect, server="poll"
    )


REFUSED = "explicit model load / unload is not allowed if polling is enabled"
SCENARIOS = [
    _polled("a new model", "coming.comes", "7.30", {"before": 404, "version": "1"}),
    _polled("a model in two repositories", "coming.twice", "7.6 7.30", {"served": False, "alone again": 200}),
    _polled("a model that goes", "coming.goes", "7.30", {"listed": False, "asked": 404}, says="has no available versions"),
    _polled("an edited source under load", "edited.edited", "7.22 7.30", {"statuses.0": 200}),
    _polled("a file for all versions", "edited.shared", "7.25", {"execution": 1}),
    _polled("a version that comes", "versions.comes", "7.25 7.40", {"default": "2"}),
    _polled("a version that goes", "versions.goes", "7.25 7.40", {"default": "1"}),
    _polled("a newer version", "newer.newer", "7.22 7.40", {"default": "2"}),
    _polled("a wider version policy", "policies.wider", "7.24 7.40", {"instances.1": 0}),
    _polled("a narrower version policy", "policies.narrower", "7.24 7.40", {"default": "1"}),
    _polled("a new model that fails", "failing.comes", "7.3 7.30", {"reason": True, "fixed": 200}),
    _polled("an edit that fails", "failing.edit", "7.22 7.30", {"serves": 200, "serves then": 200}),
    _polled("requests for loads and unloads", "steady.requests", "7.13", {"load": 503, "unload": 503}, REFUSED),
    _polled("a config of the same meaning", "steady.same", "7.24 7.25", {"instances.0": 1, "serves": 200}),
    _polled("a config that cannot be read", "steady.unreadable", "7.30", {"serves": 200, "ready": 1}),
    _polled("more instances", "steady.more", "7.24", {"config": 2, "counters": True, "serves": 200}),
    _polled("fewer instances while they run", "steady.fewer", "7.24", {"config": 1, "serves": 200}),
    _polled("an instance that cannot be made", "refusing.instance", "7.24 7.30", {"serves": 200}),
    _polled("a config of another meaning", "refusing.parameter", "7.25 7.30", {"instances.0": 3}),
    _polled("an ensemble", "stepping.comes", "7.27 7.30", {"serves": 200}),
    _polled("a step is edited under load", "stepping.edited", "7.22 7.28", {"statuses.0": 200}),
    _polled("a step goes and comes again", "stepping.goes", "7.28", {"gone": True, "again": 200}),
    Scenario(
        "explicit: other instances",
        ("7.24",),
        _instances,
        expect={"2 instances.1": 2, "1 instances.1": 2, "serves": 200},
        server="explicit",
    ),
]  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_polling_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
