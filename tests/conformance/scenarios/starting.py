"""Scenarios about the process itself: each starts a server of its own, on a repository that lasts as long, or one that must not start."""

from collections.abc import Callable
from pathlib import Path

from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.wire import Answer, Target
from tests.reference.process import ServerProcess

_NO_LOG = Path("/dev/null")


def start(
    name: str,
    rows: str,
    ask: Callable[[Target], Answer],
    says: str | None = None,
    **expect: object,
) -> Scenario:
    """A scenario whose `ask` gets a process that was not started: it knows the program, and nothing else."""
    return Scenario(name, tuple(rows.split()), ask, says=says, expect=expect, server="unstarted")


def server_on(target: Target, repository: Path, *options: str) -> ServerProcess:
    """A server on one repository, to be started; its log is written beside that."""
    return ServerProcess(
        target.process.program, [repository], log=repository.parent / "log", options=options
    )


def exits(target: Target, repository: Path | None, *options: str) -> Answer:
    """The exit status of a start that must fail, and all that was printed."""
    repositories = [] if repository is None else [repository]
    program = target.process.program
    refused = ServerProcess(program, repositories, log=_NO_LOG, options=options)
    status, output = program.run(refused.arguments)
    return {"status": status, "error": output}
