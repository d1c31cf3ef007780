"""Changing models of a running server under explicit control, for scenarios.

Both servers read the same repository and are asked one after the other (`Setup.in_turn`), so a scenario that changes a model makes a folder
of its own, and clears it away again: the second server finds what the first found.
"""

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.conformance.scenarios.wire import Reply, Target, value
from tests.conformance.servers import catalogue
from tests.conformance.servers.catalogue import Model
from tests.support.waiting import wait_until

REPORT = catalogue.GOOD["report"]
ALL = Model(catalogue.GOOD["versions_all"].config, "describe")
ZERO = {"inputs": [value("DELAY_MS", "INT32", [1], [0])]}
"""A request for a `describe` model."""

RAISES = "raise RuntimeError('no weights on purpose')\n"
"""A source that fails to load."""


def repository_of(target: Target) -> Path:
    """The first repository that the server reads."""
    option = next(part for part in target.process.command if part.startswith("--model-repository="))
    return Path(option.partition("=")[2])


def entries(target: Target, name: str) -> list[dict[str, str]]:
    """What the index says of a model."""
    index = json.loads(target.http("POST", "/v2/repository/index").body)
    return [entry for entry in index if entry["name"] == name]


def change(target: Target, action: str, name: str, body: str | None = None) -> Reply:
    """Asks for a load or an unload."""
    return target.http("POST", f"/v2/repository/models/{name}/{action}", body)


def load(target: Target, name: str) -> int:
    """Loads a model and gives the status."""
    return change(target, "load", name).status


def unload(target: Target, name: str) -> int:
    """Unloads a model and waits until nothing of it is left."""
    status = change(target, "unload", name).status
    wait_until_released(target, name)
    return status


def wait_until_released(target: Target, name: str) -> None:
    """Waits until no version of a model is being unloaded: the reference releases them after its reply."""
    wait_until(
        lambda: not any(entry.get("state") == "UNLOADING" for entry in entries(target, name)),
        what=f"{name} is still unloading",
    )


def execution(target: Target, model: str) -> int | None:
    """How many requests the instance has run: 1 again once the model has been loaded again."""
    reply = target.infer(model, ZERO)
    found: int | None = reply.report().get("report", {}).get("execution")
    return found


@contextlib.contextmanager
def folder_of(target: Target, name: str, model: Model) -> Iterator[Path]:
    """A model that is there for one scenario."""
    repository = repository_of(target)
    catalogue.write(repository, {name: model})
    try:
        yield repository / name
    finally:
        unload(target, name)
        shutil.rmtree(repository / name)
