"""Changing the repository of a server that polls it, for scenarios.

Each server has a repository of its own, and all scenarios of a server run at the same time, each with a model of its own: a server needs some polls
for each change, and nearly all of this time is spent waiting.
"""

import json
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.conformance.scenarios.wire import Answer, Target
from tests.conformance.servers import catalogue
from tests.conformance.servers.catalogue import Model, python_model, tensor
from tests.conformance.servers.control import ZERO, entries, repository_of

_LOOK_AGAIN_S = 0.3
_LIMIT_S = 60.0

_IN, _OUT = tensor("DELAY_MS", "INT32", "[ 1 ]"), tensor("REPORT", "STRING", "[ 1 ]")

UNREADABLE = "unreadable"
"""A model whose config cannot be read: the reference reports that with every poll."""

_T = TypeVar("_T")


def config(*, count: int = 1, more: str = "", group: str = "") -> str:
    """A config of a `counting` model."""
    name = f'name: "{group}" ' if group else ""
    return python_model(
        _IN, _OUT, f"instance_group [{{ {name}kind: KIND_CPU count: {count} }}]\n{more}"
    )


ALL = "version_policy { all { } }"


class Story:
    """A model of one scenario, on one server.

    Args:
        target: the server.
        name: the model's.
    """

    def __init__(self, target: Target, name: str) -> None:
        self.target = target
        self.name = name
        self.folder = repository_of(target) / name
        self._good = ""

    def write(
        self, text: str = "", *, versions: tuple[str, ...] = ("1",), source: str = ""
    ) -> None:
        """Put the model into the repository, complete at once, because the reference does not wait until it is."""
        aside = catalogue.write(
            self._aside(), {self.name: Model(text or config(), "counting", versions=versions)}
        )
        for version in versions:
            # Or Python would write this folder, and the reference load the model again because of it.
            (aside / self.name / version / "__pycache__").touch()
        if source:
            self._good = (aside / self.name / "1" / "model.py").read_text()
            (aside / self.name / "1" / "model.py").write_text(source)
        (aside / self.name).rename(self.folder)

    def fix(self) -> None:
        """Replace the source that `write` was given."""
        self.source.write_text(self._good)

    def add_version(self) -> None:
        """Put a copy of version 1 beside it, as version 2."""
        copy = shutil.copytree(self.folder / "1", self._aside() / f"{self.name} 2")
        copy.rename(self.folder / "2")

    def _aside(self) -> Path:
        """A folder that no server reads."""
        return self.folder.parent.parent / "aside"

    def configure(self, text: str) -> None:
        """Replace its config."""
        (self.folder / "config.pbtxt").write_text(text)

    def serve(self, text: str = "", *, versions: tuple[str, ...] = ("1",)) -> None:
        """Put the model into the repository, and wait until it serves."""
        self.write(text, versions=versions)
        self.until(self.infer, 200)

    @property
    def source(self) -> Path:
        """The model.py of version 1."""
        return self.folder / "1" / "model.py"

    def until(self, observe: Callable[[], _T], wanted: _T) -> _T:
        """Observe until it is as wanted, at most a minute; gives what was observed last."""
        end = time.monotonic() + _LIMIT_S
        while (observed := observe()) != wanted and time.monotonic() < end:
            time.sleep(_LOOK_AGAIN_S)
        return observed

    def infer(self) -> int:
        """The status of a request."""
        return self.target.infer(self.name, ZERO).status

    def report(self) -> Answer:
        """What the model reports."""
        found: Answer = self.target.infer(self.name, ZERO).report().get("report", {})
        return found

    def versions(self) -> list[str]:
        """The READY versions."""
        return [
            entry["version"]
            for entry in entries(self.target, self.name)
            if entry.get("state") == "READY"
        ]

    def begun(self) -> int:
        """How many instances were made."""
        return self._printed("begun")

    def ended(self) -> int:
        """How many instances have ended."""
        return self._printed("ended")

    def instances(self) -> list[int]:
        """How many were made, and how many of them have ended."""
        return [self.begun(), self.ended()]

    def count(self) -> int:
        """The instances that the config of the served model says."""
        reply = self.target.http("GET", f"/v2/models/{self.name}/config")
        groups: list[dict[str, int]] = json.loads(reply.body).get("instance_group", [])
        return sum(group["count"] for group in groups)

    def said(self, text: str) -> bool:
        """Whether the server's log has a text."""
        return text in _output(self.target)

    def polled(self) -> None:
        """Wait until the server has applied what is in the repository now.

        It takes a poll that begins after this call; Naiad's next one, because the first looks whether files still change; and another one before which
        the first has ended.
        """
        wanted = polls(self.target) + 4
        self.until(lambda: polls(self.target) >= wanted, wanted=True)

    def _printed(self, what: str) -> int:
        return _output(self.target).count(f"{what}: {self.name}!")


def polls(target: Target) -> int:
    """How often the server has polled its repository."""
    if target.name == "reference":
        return _output(target).count(f"Poll failed for model directory '{UNREADABLE}'")
    page = target.http("GET", "/metrics", port=target.process.ports.metrics).body.decode()
    counts = re.findall(
        r'^naiad_repository_polls_total{result="success"} (\d+)', page, re.MULTILINE
    )
    return sum(map(int, counts))


@dataclass
class _Log:
    """The end of it is read seldom: all stories of a server look into it all the time."""

    text: str = ""
    read: float = -_LOOK_AGAIN_S


_LOGS: dict[Path, _Log] = {}


def _output(target: Target) -> str:
    """What a server has printed."""
    log = _LOGS.setdefault(target.process.log, _Log())
    now = time.monotonic()
    if now - log.read >= _LOOK_AGAIN_S:
        log.read = now
        log.text = target.process.output()
    return log.text


_RUNNING: dict[int, Mapping[str, "Future[dict[str, Answer]]"]] = {}
_STARTING = threading.Lock()


def at_once(
    *stories: Callable[[Story], dict[str, Answer]],
) -> Callable[[str, str], Callable[[Target], Answer]]:
    """Gives what asks a server for a part of a story. The first one that is asked begins all stories; models are named after them."""

    def begun(target: Target) -> Mapping[str, "Future[dict[str, Answer]]"]:
        assert target.process.process is not None
        pid = target.process.process.pid
        with _STARTING:
            if pid not in _RUNNING:
                pool = ThreadPoolExecutor(len(stories))
                _RUNNING[pid] = {
                    story.__name__: pool.submit(story, Story(target, story.__name__))
                    for story in stories
                }
            return _RUNNING[pid]

    def part(story: str, name: str) -> Callable[[Target], Answer]:
        return lambda target: begun(target)[story].result()[name]

    return part
