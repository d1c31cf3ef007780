"""The servers that scenarios run against: each a repository and options, started once a run, for both programs.

They start lazily and in pairs, the reference and Naiad side by side, because the reference takes some seconds to start
its stub processes. `NAIAD_CONFORMANCE=reference` asks the reference alone (to see what it answers, or that the rows'
statements hold), `NAIAD_CONFORMANCE_RECORD=FILE` writes all answers down.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.conformance.scenarios.wire import Target
from tests.conformance.servers import (
    cached,
    callees,
    catalogue,
    classes,
    ensemble_life,
    ensembles,
    environments,
    limited,
    placed,
    polling,
    sequences,
    traced,
    warmed,
)
from tests.conformance.servers.broken import BROKEN, COMPLETING
from tests.reference.install import install
from tests.reference.process import (
    Program,
    ServerFailedError,
    ServerProcess,
    naiad_program,
    reference_program,
)

_TRIES = 5
"""How often the servers of a set-up are started before it counts as failed."""

_TLS = Path(__file__).parents[1] / "tls"


@dataclass(frozen=True)
class Setup:
    """One server's repositories and options.

    Attributes:
        repositories: writes them below a folder and gives them in order.
        options: as on the command line; `{folder}` stands for a folder of the server's own.
        ours: further ones of Naiad, for what the reference allows without.
        in_turn: scenarios change the repository that both servers read, so the servers are asked one after the other.
        apart: scenarios change the repository at any time, so each server has one of its own.
    """

    repositories: Callable[[Path], list[Path]]
    options: tuple[str, ...]
    ours: tuple[str, ...] = ()
    in_turn: bool = False
    apart: bool = False


def _identity(folder: Path) -> list[Path]:
    return [catalogue.write(folder / "models", catalogue.GOOD, only=["identity", "words", "two"])]


def _main(folder: Path) -> list[Path]:
    good = {
        name: model for name, model in catalogue.GOOD.items() if not name.startswith("complete")
    }
    first = catalogue.write(folder / "first", good)
    catalogue.write(first, {name: broken.model for name, broken in BROKEN.items()})
    catalogue.write(first, {"duplicated": good["identity"]})
    second = catalogue.write(
        folder / "second", {"duplicated": good["identity"], "elsewhere": good["identity"]}
    )
    (first / "a_file.txt").write_text("no model")
    return [first, second]


def _optioned(folder: Path) -> list[Path]:
    names = (
        "identity",
        "matrix",
        "report",
        "complete",
        "complete_nothing",
        "complete_batch",
        "configured",
        "misbehave",
    )
    repository = catalogue.write(folder / "models", catalogue.GOOD, only=names)
    catalogue.write(repository, {name: broken.model for name, broken in COMPLETING.items()})
    return [repository]


def _few(*names: str) -> Callable[[Path], list[Path]]:
    return lambda folder: [catalogue.write(folder / "models", catalogue.GOOD, only=names)]


def _explicit(folder: Path) -> list[Path]:
    names = ("identity", "report")
    first = catalogue.write(folder / "first", catalogue.GOOD, only=names)
    return [first, catalogue.write(folder / "second", {})]


def _namespaces(folder: Path) -> list[Path]:
    good = catalogue.GOOD
    first = {"identity": good["identity"], "shared": good["report"]}
    second = {
        "identity": good["identity"],
        "words_one": good["words_one"],
        "shared": good["report"],
    }
    return [
        catalogue.write(folder / "first", first),
        catalogue.write(folder / "second", second),
    ]


def _polled(folder: Path) -> list[Path]:
    unreadable = {polling.UNREADABLE: catalogue.Model("bogus: 1", None)}
    return [
        catalogue.write(folder / "first", unreadable),
        catalogue.write(folder / "second", {}),
    ]


def _streaming(*names: str) -> Callable[[Path], list[Path]]:
    return lambda folder: [catalogue.write(folder / "models", catalogue.STREAMING, only=names)]


SETUPS: dict[str, Setup] = {
    # Without auto-complete: it would start each stub twice, which doubles the time the reference needs.
    "main": Setup(_main, ("--exit-on-error=false", "--disable-auto-complete-config")),
    "optioned": Setup(
        _optioned,
        (
            "--exit-on-error=false",
            "--strict-readiness=false",
            "--id=another",
            "--http-header-forward-pattern=x-.*|priority|(?-i:Y-Case)",
            "--grpc-header-forward-pattern=x-.*|priority|(?-i:Y-Case)",
            "--model-config-name=special",
            "--metrics-config",
            "counter_latencies=false",
            "--metrics-config=summary_latencies=true",
            "--metrics-config=summary_quantiles=0.5:0.05,0.9:0.01",
            "--metrics-config=histogram_latencies=true",
            "--allow-cpu-metrics=false",
            "--grpc-infer-response-compression-level=high",
            "--log-format=ISO8601",
            "--log-verbose=1",
            "--grpc-max-connection-age=600000",
        ),
    ),
    "environments": Setup(
        environments.write, ("--exit-on-error=false", "--disable-auto-complete-config")
    ),
    "ensembles": Setup(
        ensembles.put,
        (
            "--exit-on-error=false",
            "--strict-readiness=false",
            "--disable-auto-complete-config",
        ),
    ),
    "regions": Setup(_identity, ("--disable-auto-complete-config",), ("--allow-client-shm=true",)),
    "classes": Setup(
        classes.put,
        ("--exit-on-error=false", "--strict-readiness=false", "--disable-auto-complete-config"),
    ),
    "ensemble-streams": Setup(ensemble_life.streams, ("--disable-auto-complete-config",)),
    "ensemble-life": Setup(
        ensemble_life.life,
        ("--model-control-mode=explicit", "--disable-auto-complete-config"),
        in_turn=True,
    ),
    "ensemble-namespaces": Setup(
        ensemble_life.namespaces,
        ("--model-namespacing=true", "--exit-on-error=false", "--disable-auto-complete-config"),
    ),
    "warmed": Setup(
        warmed.put,
        ("--exit-on-error=false", "--strict-readiness=false", "--disable-auto-complete-config"),
    ),
    "cached": Setup(
        cached.put,
        (
            "--exit-on-error=false",
            "--strict-readiness=false",
            "--disable-auto-complete-config",
            f"--cache-config=local,size={cached.SIZE}",
        ),
    ),
    "traced": Setup(
        traced.put,
        (
            "--disable-auto-complete-config",
            "--trace-config=triton,file={folder}/trace.json",
            "--trace-config=rate=7",
        ),
    ),
    "sequences": Setup(
        sequences.put,
        (
            "--exit-on-error=false",
            "--strict-readiness=false",
            "--disable-auto-complete-config",
        ),
    ),
    "explicit": Setup(
        _explicit,
        (
            "--model-control-mode=explicit",
            "--load-model=identity",
            "--disable-auto-complete-config",
        ),
        in_turn=True,
    ),
    "namespaces": Setup(
        _namespaces,
        (
            "--model-namespacing=true",
            "--model-control-mode=explicit",
            "--load-model=identity",
            "--load-model=words_one",
            "--disable-auto-complete-config",
        ),
        in_turn=True,
    ),
    "poll": Setup(
        _polled,
        (
            "--model-control-mode=poll",
            "--repository-poll-secs=1",
            "--exit-on-error=false",
            "--disable-auto-complete-config",
        ),
        apart=True,
    ),
    "calls": Setup(
        callees.write,
        (
            "--model-control-mode=explicit",
            *(f"--load-model={name}" for name in callees.AT_START),
            "--disable-auto-complete-config",
        ),
    ),
    "limited": Setup(
        limited.shared,
        (
            "--rate-limit=execution_count",
            *(f"--rate-limit-resource={each}" for each in limited.AMOUNTS),
            "--disable-auto-complete-config",
        ),
    ),
    "placed": Setup(
        placed.write_models,
        (
            "--host-policy=first,cpu-cores=0-0",
            "--host-policy=both,cpu-cores=0-0,1-1",
            "--host-policy=cpu,cpu-cores=1-1",
            "--host-policy=model,cpu-cores=0-0",
            "--exit-on-error=false",
            "--strict-readiness=false",
            "--disable-auto-complete-config",
        ),
    ),
    # One load at a time: while the reference refuses a model, it refuses others that load beside it.
    "limited_refused": Setup(
        limited.refused,
        (
            "--rate-limit=execution_count",
            *(f"--rate-limit-resource={each}" for each in limited.AMOUNTS),
            "--model-load-thread-count=1",
            "--exit-on-error=false",
            "--strict-readiness=false",
            "--disable-auto-complete-config",
        ),
    ),
    "limited_by_need": Setup(
        limited.by_need,
        (
            "--rate-limit=execution_count",
            "--model-control-mode=explicit",
            "--disable-auto-complete-config",
        ),
    ),
    "unlimited": Setup(limited.unlimited, ("--rate-limit=off", "--disable-auto-complete-config")),
    "streams": Setup(_streaming(*catalogue.STREAMING), ("--disable-auto-complete-config",)),
    # Servers of their own, quick to start again: 2.51 often does not survive what is asked of it here.
    "fragile": Setup(_streaming("stream", "senders"), ("--disable-auto-complete-config",)),
    "restricted": Setup(
        _few("identity"),
        (
            "--http-restricted-api=health,inference:secret=open",
            "--http-restricted-api=statistics:other=key",
            "--grpc-restricted-protocol=inference,metadata:secret=open",
            "--allow-metrics=false",
            "--log-info=false",
        ),
    ),
    "secure": Setup(
        _few("identity"),
        (
            "--grpc-use-ssl=true",
            f"--grpc-server-cert={_TLS / 'server.pem'}",
            f"--grpc-server-key={_TLS / 'server.key'}",
            f"--grpc-root-cert={_TLS / 'server.pem'}",
        ),
    ),
}


@dataclass
class Servers:
    """The programs under comparison, and the servers of them that are running.

    Attributes:
        folder: where repositories and logs are written.
        programs: the reference, and Naiad unless only the reference is asked.
        clock: seconds that only grow; for how long servers may take to end.
    """

    folder: Path
    programs: tuple[Program, ...]
    clock: Callable[[], float] = time.monotonic
    running: dict[str, list[Target]] = field(default_factory=dict)
    failed: dict[str, ServerFailedError] = field(default_factory=dict)

    def targets(self, setup: str) -> list[Target]:
        """The servers of a set-up, started on first use. They read the same repository.

        Under `unstarted` stands a process that was not started, for scenarios that start one of their own.
        """
        if setup == "unstarted":
            return [
                Target(ServerProcess(program, [], log=self.folder / "none.log"))
                for program in self.programs
            ]
        if setup in self.failed:
            raise self.failed[setup]
        # A reference that hangs, or aborts over its own locks on a busy machine, does so seldom; what fails each time would fail for every scenario of the set-up.
        for tries_left in reversed(range(_TRIES)):
            if setup in self.running:
                break
            try:
                self.running[setup] = self._started(setup)
            except ServerFailedError as error:
                if not tries_left:
                    self.failed[setup] = error
                    raise
        return self.running[setup]

    def _started(self, setup: str) -> list[Target]:
        """Fresh servers of a set-up.

        Raises:
            ServerFailedError: one ended or did not get ready; then none of them runs.
        """
        spec = SETUPS[setup]
        home = self.folder / f"{setup}-{len(list(self.folder.iterdir()))}"
        home.mkdir()
        if spec.apart:
            repositories = {
                program.name: spec.repositories(home / program.name) for program in self.programs
            }
        else:
            repositories = dict.fromkeys(
                (program.name for program in self.programs), spec.repositories(home)
            )
        started = [
            Target(
                ServerProcess(
                    program,
                    repositories[program.name],
                    log=home / f"{program.name}.log",
                    options=[
                        option.replace("{folder}", str(_own(home, program)))
                        for option in spec.options + (spec.ours if program.name == "naiad" else ())
                    ],
                ).start()
            )
            for program in self.programs
        ]
        try:
            for target in started:
                target.process.wait()
        except ServerFailedError:
            for target in started:
                target.process.stop()
            raise
        return started

    def drop(self, setup: str) -> None:
        """Stops the servers of a set-up; the next scenario that asks for it gets new ones."""
        self._end(self.running.pop(setup, []))

    def stop(self) -> None:
        """Stops everything that runs."""
        self._end([target for targets in self.running.values() for target in targets])
        self.running.clear()

    def _end(self, targets: list[Target]) -> None:
        """Asks all of them to stop at once, so that those that wait for their own time limit do so side by side."""
        for target in targets:
            target.process.ask_to_stop()
        began_s = self.clock()
        for target in targets:
            target.close()
            left = began_s + target.process.program.grace_s - self.clock()
            target.process.stop(timeout_s=max(left, 0))


def _own(home: Path, program: Program) -> Path:
    """A folder of one server alone."""
    folder = home / f"of-{program.name}"
    folder.mkdir(exist_ok=True)
    return folder


def programs() -> tuple[Program, ...]:
    """The programs to compare, the reference first; it is installed when it is missing."""
    reference = reference_program(install())
    if os.environ.get("NAIAD_CONFORMANCE") == "reference":
        return (reference,)
    return (reference, naiad_program())
