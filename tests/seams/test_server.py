"""What the operator believes of the server, held against the server itself: a pod template can't drift from what it starts."""

import asyncio
import json
import pathlib
import re
import sys
import typing

import pytest

from naiad import __main__, fetch
from naiad.backends import catalog
from naiad.config.document import Document
from naiad.config.resolving.override import with_fields
from naiad.core.messages import model_config_pb2
from naiad.engine.readiness_policy import ReadinessPolicy
from naiad.metrics import families
from naiad.options import parsing
from naiad.options.options import FLAGS, Kind
from naiad.protocol.grpc import methods
from naiad.protocol.http.message import HttpRequest
from naiad.protocol.http.metrics_port import MetricsRoutes
from naiad.protocol.http.routes import HttpOptions, Routes
from naiad.repository.lifecycle import State
from naiad.repository.manager import VersionState
from naiad.repository.store import open_store
from naiad_operator import versions
from naiad_operator.api.parsing import service
from naiad_operator.builders import server
from naiad_operator.builders.workload import cache, storage
from tests.server.protocol.http.scripted_engine import Replies, ScriptedEngine
from tests.support import manifests

FAMILIES = {
    family.name for family in vars(families).values() if isinstance(family, families.Family)
}


def arguments(path: pathlib.Path) -> list[str]:
    parsed = service.parse(manifests.example(path)[0])
    repositories = storage.mounted(parsed.spec.predictor.model).repositories
    return server.arguments(parsed.spec, repositories, versions.OWN, cache.options(parsed))


def fetches(path: pathlib.Path) -> list[dict[str, typing.Any]]:
    """The init containers of an example."""
    deployment = next(one for one in manifests.built(path) if one["kind"] == "Deployment")
    pod: dict[str, typing.Any] = deployment["spec"]["template"]["spec"]
    return [one for one in pod.get("initContainers", ()) if one["name"].startswith("fetch-")]


def flags(written: list[str]) -> dict[str, str]:
    """Flag -> its last value."""
    return dict(one.removeprefix("--").split("=", 1) for one in written)


def test_the_backends_are_those_of_the_server() -> None:
    assert catalog.OWN.keys() == server.BACKENDS


@pytest.mark.parametrize("path", manifests.INPUTS, ids=lambda path: path.stem)
def test_every_option_exists_and_takes_such_a_value(path: pathlib.Path) -> None:
    for name, value in flags(arguments(path)).items():
        flag = FLAGS[name]
        if flag.kind in (Kind.INTEGER, Kind.FLOAT):
            assert float(value) >= (flag.minimum or 0)
        if flag.kind is Kind.BOOLEAN:
            assert value in ("true", "false")


_OTHER_MEANING = {"--http-address", "--grpc-address"}
"""Options of 0.1.0 whose values that the operator writes meant something else there."""


def test_an_option_that_is_written_is_one_that_the_servers_of_its_versions_know() -> None:
    """The options of this release are those of its parser; those of 0.1.0 were recorded when it was released."""
    recorded = (manifests.DATA / "server-options-0.1.0.txt").read_text().splitlines()
    for name, option in server.OPTIONS.items():
        assert option.since <= versions.OWN, f"{name}: this release cannot write it yet"
        flag = FLAGS[name.removeprefix("--")]
        assert not flag.missing, f"{name}: this server refuses it"
        assert not flag.idle, f"{name}: this server ignores it"
        old = name in recorded and name not in _OTHER_MEANING
        assert old == (option.since == server.OLDEST_VERSION), name


def test_no_option_is_written_that_the_table_lacks() -> None:
    own = {f"--{name}" for path in manifests.INPUTS for name in flags(arguments(path))}
    given = {
        argument.partition("=")[0]
        for path in manifests.INPUTS
        for argument in service.parse(manifests.example(path)[0]).spec.predictor.args or ()
    }
    assert own - given <= set(server.OPTIONS)
    assert set(server.OPTIONS) <= own, "no example shows this option"


def test_the_servers_own_parser_reads_what_is_written() -> None:
    """One whole command line; what it means must be what was meant."""
    path = next(path for path in manifests.INPUTS if path.stem == "image-and-environment")
    options = parsing.parse(arguments(path))
    assert options.model_repository == ("s3://models/production",)
    assert (options.http_port, options.grpc_port, options.metrics_port) == (9000, 9001, 9002)
    assert (options.shutdown_delay_secs, options.exit_timeout_secs) == (10, 45)
    assert options.grpc_max_connection_age == server.GRPC_MAX_CONNECTION_AGE_MS
    assert not options.exit_on_error
    assert options.strict_readiness, "a pod whose models failed must not get traffic"
    assert options.log_verbose == 1, "the user's options come after ours"


def expanded(argument: str) -> str:
    """What the kubelet makes of an argument, without variables: $$ is $, and $(NAME) would be a variable's value."""
    return re.sub(
        r"\$(\$|\([A-Za-z_.0-9]+\))", lambda found: "$" if found[1] == "$" else "", argument
    )


def test_overrides_and_packages_reach_the_server_as_they_are_written() -> None:
    path = next(path for path in manifests.INPUTS if path.stem == "overrides-and-packages")
    model = service.parse(manifests.example(path)[0]).spec.predictor.model
    options = parsing.parse([expanded(argument) for argument in arguments(path)])
    assert model.overrides
    assert model.python_requirements == options.python_requirement
    read = {name: json.loads(text) for name, text in options.model_config_override.items()}
    assert read == {one.model: one.config for one in model.overrides}
    document = Document(
        path=pathlib.Path("/models/sentiment/config.pbtxt"),
        text="",
        message=model_config_pb2.ModelConfig(),
        positions={},
        problems=(),
    )
    config = with_fields(document, options.model_config_override["sentiment"]).message
    assert config.max_batch_size == 16
    assert config.parameters["EXECUTION_ENV_PATH"].string_value == "$$TRITON_MODEL_DIRECTORY/$(A)"


@pytest.mark.parametrize(
    ("wanted", "policy"),
    [
        (None, ReadinessPolicy()),
        ({"policy": "all"}, ReadinessPolicy()),
        ({"policy": "any"}, ReadinessPolicy(rule="any")),
        (
            {"policy": "models", "models": ["a", "b"]},
            ReadinessPolicy(rule="models", models=("a", "b")),
        ),
    ],
)
def test_the_server_reads_a_readiness_policy_as_it_is_meant(
    wanted: dict[str, typing.Any] | None, policy: ReadinessPolicy
) -> None:
    predictor = {} if wanted is None else {"readiness": wanted}
    spec = service.parse(manifests.resource(**predictor)).spec
    written = server.arguments(spec, ("/models",), versions.OWN)
    assert parsing.parse(written).readiness_policy == policy


def test_the_command_is_one_of_the_distribution() -> None:
    text = (manifests.DATA.parent.parent.parent / "pyproject.toml").read_text()
    assert f'{server.COMMAND[0]} = "naiad.__main__:main"' in text


def test_what_init_containers_start_is_a_command_of_the_server(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The very command line fetches a repository, and it ends where the server then looks for it."""
    source, there = tmp_path / "models", tmp_path / "there"
    (source / "a" / "1").mkdir(parents=True)
    assert server.FETCH_COMMAND[0] == server.COMMAND[0]
    command = [*server.FETCH_COMMAND, *server.fetch_arguments(f"file://{source}", str(there))]
    monkeypatch.setattr(sys, "argv", command)
    assert __main__.main() == 0, capsys.readouterr().err
    assert open_store(str(there)).names() == ["a"]


def test_what_brings_the_files_of_a_component_is_a_command_of_the_server(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, there = tmp_path / "files", tmp_path / "there"
    source.mkdir()
    (source / "vocab.txt").write_text("words")
    given = server.fetch_files_arguments(f"file://{source}", str(there), versions.OWN)
    monkeypatch.setattr(sys, "argv", [*server.FETCH_COMMAND, *given])
    assert __main__.main() == 0, capsys.readouterr().err
    assert (there / "vocab.txt").read_text() == "words"


def test_a_server_reads_the_folders_that_its_init_containers_fill() -> None:
    seen = 0
    for path in manifests.INPUTS:
        for one in fetches(path):
            seen += 1
            given = fetch.parser().parse_args(one["args"])
            deployment = manifests.built(path)[0]["spec"]["template"]["spec"]
            read = parsing.parse(deployment["containers"][0]["args"]).model_repository
            assert given.to in read
            assert given.uri not in read
    assert seen >= 3


def test_the_three_parts_of_stopping_fill_the_grace_period() -> None:
    """The server drains, then finishes what is in flight, then exits; the kubelet must not come first."""
    for path in manifests.INPUTS:
        spec = service.parse(manifests.example(path)[0]).spec
        given = flags(arguments(path))
        drain, finish = float(given["shutdown-delay-secs"]), float(given["exit-timeout-secs"])
        assert finish > 0
        assert drain + finish + 5 == spec.predictor.termination_grace_period_seconds


@pytest.mark.parametrize(
    "name", [server.QUEUE_METRIC, server.SUCCESS_METRIC, server.PENDING_METRIC]
)
def test_metrics_that_autoscalers_look_at_exist(name: str) -> None:
    assert name in FAMILIES


def test_the_adapters_own_metric_does_not_hide_one_of_the_servers() -> None:
    assert server.AVERAGE_QUEUE_METRIC not in FAMILIES


@pytest.mark.parametrize("path", [server.LIVE_PATH, server.READY_PATH])
def test_probes_ask_paths_of_the_fast_lane(path: str) -> None:
    routes = Routes(ScriptedEngine(), HttpOptions())
    assert routes.find(b"GET", path, {}) is not None


def on_the_metrics_port(path: str) -> Replies:
    states = [
        VersionState(name="magika", version=1, state=State.UNAVAILABLE, reason="no such file")
    ]
    routes = MetricsRoutes(collect=lambda: (), states=lambda: states, loads=list)
    handler = routes.find(b"GET", path, {})
    assert handler is not None
    replies = Replies()
    handler(HttpRequest(b"GET", path, {}, b""), replies)
    return replies


def test_model_states_are_where_the_operator_asks_for_them() -> None:
    body = json.loads(b"".join(map(bytes, on_the_metrics_port(server.STATUS_PATH).only.body)))
    assert versions.parse(body["version"]) == versions.OWN, "both are released together"
    assert body["models"] == [
        {"name": "magika", "version": "1", "state": "UNAVAILABLE", "reason": "no such file"}
    ]


async def test_metrics_are_where_the_pod_monitor_points() -> None:
    replies = on_the_metrics_port(server.METRICS_PATH)
    await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})  # the page is rendered
    headers = dict(replies.only.headers)
    assert b"text/plain" in headers[b"Content-Type"]


def test_grpc_routes_match_the_services_that_there_are() -> None:
    assert f"/{server.GRPC_SERVICE}/" == methods.SERVICE
    assert f"/{server.GRPC_HEALTH_SERVICE}/Check" == methods.CHECK
