"""The process: command line, exit statuses, log, signals and drain (section 17). Each scenario starts its own server."""

import http
import json
import os
import re
import signal
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.grpc_scenarios import request
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.starting import exits, server_on, start
from tests.conformance.scenarios.wire import Answer, Target, value
from tests.conformance.servers import catalogue
from tests.conformance.servers.broken import BROKEN
from tests.conformance.servers.busy import Executions
from tests.reference.process import ServerFailedError, ServerProcess

_LATE = request("report", raw=bytes(4), name="DELAY_MS", datatype="INT32", shape=(1,))


def _exits(target: Target, *more: str, broken: bool = False, no_repository: bool = False) -> Answer:
    """The exit status of a start that must fail, and all that was printed."""
    with tempfile.TemporaryDirectory() as folder:
        repository = catalogue.write(Path(folder) / "models", catalogue.GOOD, only=[])
        if broken:
            catalogue.write(repository, {"broken_initialize": BROKEN["broken_initialize"].model})
        return exits(target, None if no_repository else repository, *more)


def _start(target: Target, folder: str, *more: str, models: tuple[str, ...] = ()) -> ServerProcess:
    repository = catalogue.write(Path(folder) / "models", catalogue.GOOD, only=models)
    return server_on(target, repository, *more)


def _slow(server: ServerProcess, delay_ms: int) -> Answer:
    return Target(server).report("report", delay_ms)


def _drains(target: Target) -> Answer:
    """SIGTERM while a request runs: it is answered, new ones are not, and the exit status is 0."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
        server = _start(target, folder, models=("report", "finalizing"))
        with server:
            executions = Executions(Target(server), "report")
            running = pool.submit(_slow, server, 1200)
            executions.wait()
            server.ask_to_stop()
            late: int | str = http.HTTPStatus.OK
            while late == http.HTTPStatus.OK and not running.done():
                late = _status(server, "/v2/health/ready")
            code = Target(server).call("ModelInfer", _LATE, timeout_s=2).code
            answer = running.result()
            assert server.process is not None
            status = server.process.wait(20)
        return {
            "answered": answer.get("status"),
            "late refused": late != http.HTTPStatus.OK,
            "late_gRPC": code,
            "exit": status,
            "finalized": "finalizing: finalize was called" in server.output(),
        }


def _status(server: ServerProcess, path: str) -> int | str:
    try:
        return Target(server).http("GET", path, timeout_s=2).status
    except OSError:
        return "refused"


def _times_out(target: Target) -> Answer:
    """SIGTERM while a request runs longer than --exit-timeout-secs."""
    with tempfile.TemporaryDirectory() as folder:
        server = _start(target, folder, "--exit-timeout-secs=1", models=("report",))
        with server:
            executions = Executions(Target(server), "report")
            thread = threading.Thread(target=_give_up, args=(server,))
            thread.start()
            executions.wait()
            server.ask_to_stop()
            assert server.process is not None
            status = server.process.wait(25)
            thread.join()
        return {"exit": status, "error": server.output()}


def _give_up(server: ServerProcess) -> None:
    try:
        Target(server).infer(
            "report", {"inputs": [value("DELAY_MS", "INT32", [1], [6000])]}, timeout_s=10
        )
    except (OSError, ValueError):
        return


def _lines(text: str) -> Answer:
    """The shape of log lines, and what a start prints."""
    return {
        "glog": bool(
            re.search(r"^I\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ \S+:\d+\] ", text, re.MULTILINE)
        ),
        "ISO8601": bool(
            re.search(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ I \d+ \S+:\d+\] ", text, re.MULTILINE)
        ),
        "HTTP": "Started HTTPService at 127.0.0.1:" in text,
        "gRPC": "Started GRPCInferenceService at 127.0.0.1:" in text,
        "metrics": "Started Metrics Service at 127.0.0.1:" in text,
        "models": bool(re.search(r"identity\W+1\W+READY", text)),
    }


def _interrupted(target: Target) -> Answer:
    """The log of a start, and SIGINT."""
    with tempfile.TemporaryDirectory() as folder:
        with _start(target, folder, models=("identity",)) as server:
            assert server.process is not None
            os.kill(server.process.pid, signal.SIGINT)
            status = server.process.wait(20)
        return {"exit": status, **_lines(server.output())}


def _log_file(target: Target) -> Answer:
    """The log in a file, in ISO 8601."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.log"
        with _start(target, folder, "--log-format=ISO8601", f"--log-file={path}"):
            pass
        return _lines(path.read_text())


_WITHOUT_EFFECT = (
    "--http-thread-count=4",
    "--pinned-memory-pool-byte-size=1000000",
    "--cuda-memory-pool-byte-size=0:1000",
    "--min-supported-compute-capability=7.5",
    "--buffer-manager-thread-count=2",
    "--backend-config=python,shm-default-byte-size=1048576",
    "--backend-config=default-max-batch-size=8",
    "--repoagent-directory=/tmp",
    "--model-load-thread-count=2",
    "--model-load-retry-count=1",
    "--enable-peer-access=false",
    "--grpc-infer-allocation-pool-size=4",
    "--metrics-interval-ms=500",
    "--allow-gpu-metrics=false",
    "--exit-timeout-secs=5",
    "--model-control-mode=none",
    "--repository-poll-secs=10",
)
"""Options that have no effect in a server without threads and GPUs, or to one without models, are taken all the same."""


def _spelled(target: Target) -> Answer:
    """Options as two words, booleans in all spellings, a flag alone, an alias of an option, and options without effect."""
    with tempfile.TemporaryDirectory() as folder:
        repository = catalogue.write(Path(folder) / "models", catalogue.GOOD, only=[])
        options = (
            "--id",
            "spelled",
            "--allow-metrics",
            "1",
            "--log-info=off",
            "--allow-grpc",
            "false",
            "--strict-readiness=True",
            "--model-store",
            str(repository),
            "--disable-auto-complete-config",
            *_WITHOUT_EFFECT,
        )
        server = ServerProcess(
            target.process.program, [], log=Path(folder) / "log", options=options
        )
        with server:
            there = Target(server)
            found: Answer = {
                "id": json.loads(there.http("GET", "/v2").body)["name"],
                "ready": there.http("GET", "/v2/health/ready").status,
                "metrics": there.http("GET", "/metrics", port=server.ports.metrics).status,
            }
            found["gRPC"] = there.call("ServerLive", b"", timeout_s=3).code
            there.close()
        return {**found, "informs": "Started HTTPService" in server.output()}


def _same_port(target: Target) -> Answer:
    """A port on which a server listens: a second one shares it when both say so, and else does not start."""
    shared = "--reuse-http-port=true"
    with tempfile.TemporaryDirectory() as folder, _start(target, folder, shared) as server:
        port, repository = server.ports.http, Path(folder) / "models"
        second = ServerProcess(
            target.process.program,
            [repository],
            log=Path(folder) / "second",
            options=(shared,),
            http_port=port,
        )
        with second:
            assert second.process is not None
            found: Answer = {
                "both": second.process.poll() is None,
                "shared": _status(second, "/v2/health/live"),
            }
        return {**found, **exits(target, repository, f"--http-port={port}")}


def _starts(target: Target, option: str) -> Answer:
    with tempfile.TemporaryDirectory() as folder:
        try:
            with _start(target, folder, option):
                return {"starts": True}
        except ServerFailedError:
            return {"starts": False}


SCENARIOS = [
    start(
        "no repository",
        "17.2 17.14",
        lambda target: _exits(target, no_repository=True),
        says="--model-repository",
        status=1,
    ),
    start(
        "unknown option",
        "17.1",
        lambda target: _exits(target, "--no-such-option=1"),
        says="no-such-option",
        status=1,
    ),
    start(
        "a value that is not a boolean",
        "17.1",
        lambda target: _exits(target, "--allow-http=perhaps"),
        status=1,
        says="perhaps",
    ),
    start(
        "a port that is not a number",
        "17.1",
        lambda target: _exits(target, "--http-port=many"),
        status=1,
        says="many",
    ),
    start(
        "a broken model ends the start",
        "7.32 17.14 15.3",
        lambda target: _exits(target, broken=True),
        says="failed to load all models",
        status=1,
    ),
    start(
        "two frontends on one port",
        "17.11",
        lambda target: _exits(target, "--http-port=45871", "--grpc-port=45871"),
        status=1,
        says="45871",
    ),
    start(
        "a port that is shared, and then taken",
        "1.23 17.14",
        _same_port,
        says="in use",
        both=True,
        shared=200,
        status=1,
    ),
    start(
        "an API restricted twice",
        "17.15",
        lambda target: _exits(
            target, "--http-restricted-api=health:a=b", "--http-restricted-api=health:c=d"
        ),
        status=1,
        says="restricted api 'health' can not be specified in multiple config groups",
    ),
    start(
        "an unknown API restricted",
        "17.15",
        lambda target: _exits(target, "--http-restricted-api=nonesuch:a=b"),
        status=1,
        says="unknown restricted api 'nonesuch'",
    ),
    start(
        "a gRPC protocol restricted twice",
        "17.15",
        lambda target: _exits(
            target, "--grpc-restricted-protocol=health:a=b", "--grpc-restricted-protocol=health:c=d"
        ),
        status=1,
        says="'health' can not be specified in multiple config groups",
    ),
    start(
        "a log format that does not exist",
        "17.6",
        lambda target: _exits(target, "--log-format=bogus"),
        status=1,
        says="--log-format",
    ),
    start(
        "load-model without explicit mode",
        "17.2 7.31",
        lambda target: _exits(target, "--load-model=identity"),
        status=1,
        says="Use of '--load-model' requires setting '--model-control-mode=explicit' as well",
    ),
    start(
        "help",
        "17.1",
        lambda target: {"status": target.process.program.run(["--help"])[0]},
        status=0,
    ),
    start(
        "spelling of options, and options without effect",
        "17.1 17.2 17.3 17.4 17.5 17.6 17.9 17.10 17.18 7.35 11.48",
        _spelled,
        id="spelled",
        ready=200,
        metrics=200,
        informs=False,
    ),
    start(
        "a limit on GPU memory",
        "17.9",
        partial(_starts, option="--model-load-gpu-limit=0:0.5"),
        starts=True,
    ),
    start(
        "a host policy",
        "17.9",
        partial(_starts, option="--host-policy=cpu,cpu-cores=0-1"),
        starts=True,
    ),
    start(
        "log of a start, and SIGINT",
        "17.7 17.13 17.6 17.14",
        _interrupted,
        glog=True,
        HTTP=True,
        gRPC=True,
        metrics=True,
        models=True,
        exit=0,
    ),
    start(
        "log into a file, in ISO 8601", "17.7 17.6", _log_file, ISO8601=True, glog=False, HTTP=True
    ),
    start("drain", "17.14 1.19 15.33 10.34 12.17", _drains, answered=200, exit=0, finalized=True),
    start(
        "drain that takes too long",
        "17.14",
        _times_out,
        says="Exit timeout expired. Exiting immediately.",
        exit=1,
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_server_process_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
