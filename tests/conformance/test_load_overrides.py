"""Loads with a config and files of the request, over HTTP, gRPC and from a model (rows 7.15 to 7.18, 7.26, 15.24)."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tritonclient.grpc import service_pb2 as pb

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.wire import Answer, GrpcReply, Reply, Target, four
from tests.conformance.servers.catalogue import Model
from tests.conformance.servers.control import (
    ALL,
    RAISES,
    REPORT,
    ZERO,
    entries,
    execution,
    folder_of,
    load,
    unload,
)

_MODELS = Path(__file__).parent / "models"
DESCRIBE = (_MODELS / "describe.py").read_bytes()

CONFIG: dict[str, Any] = {
    "backend": "python",
    "input": [{"name": "DELAY_MS", "data_type": "TYPE_INT32", "dims": [1]}],
    "output": [{"name": "REPORT", "data_type": "TYPE_STRING", "dims": [1]}],
    "parameters": {"from": {"string_value": "request"}},
}
"""Of a `describe` model."""

_TWO_VERSIONS = Model(ALL.config, ALL.source, versions=("1", "2"))
FILES = {"file:1/model.py": DESCRIBE}


def load_with(
    target: Target, name: str, config: Any = None, files: dict[str, bytes] | None = None
) -> Reply:
    """Loads a model with parameters over HTTP; a config that is not text is sent as JSON."""
    parameters = {key: base64.b64encode(data).decode() for key, data in (files or {}).items()}
    if config is not None:
        parameters["config"] = config if isinstance(config, str) else json.dumps(config)
    body = json.dumps({"parameters": parameters})
    return target.http("POST", f"/v2/repository/models/{name}/load", body)


def grpc_load_with(
    target: Target, name: str, config: Any = None, files: dict[str, bytes] | None = None
) -> GrpcReply:
    """The same over gRPC."""
    message = pb.RepositoryModelLoadRequest(model_name=name)
    for key, data in (files or {}).items():
        message.parameters[key].bytes_param = data
    if config is not None:
        text = config if isinstance(config, str) else json.dumps(config)
        message.parameters["config"].string_param = text
    return target.call("RepositoryModelLoad", message)


def _origin(target: Target, name: str) -> Any:
    """Where the config that the model was loaded with comes from."""
    reply = target.http("GET", f"/v2/models/{name}/config")
    if reply.status != 200:
        return reply.status
    return json.loads(reply.body)["parameters"].get("from", {}).get("string_value", "folder")


def _versions(target: Target, name: str) -> Any:
    reply = target.http("GET", f"/v2/models/{name}")
    return json.loads(reply.body)["versions"] if reply.status == 200 else reply.status


def _config_stays(target: Target) -> Answer:
    """The config of a request stays until the model's folder changes, or the model is unloaded."""
    with folder_of(target, "overridden", REPORT) as folder:
        found: Answer = {"load": load(target, "overridden"), "from": _origin(target, "overridden")}
        found["given"] = [
            load_with(target, "overridden", CONFIG).status,
            _origin(target, "overridden"),
        ]
        found["plain"] = [load(target, "overridden"), _origin(target, "overridden")]
        (folder / "config.pbtxt").touch()
        found["touched"] = [load(target, "overridden"), _origin(target, "overridden")]
        found["again"] = [
            load_with(target, "overridden", CONFIG).status,
            _origin(target, "overridden"),
        ]
        unload(target, "overridden")
        found["unloaded"] = [load(target, "overridden"), _origin(target, "overridden")]
    return found


def _own_config(target: Target) -> Answer:
    """The config that the server shows is sent back as it is."""
    config = target.http("GET", "/v2/models/identity/config").body.decode()
    found: Answer = {"load": load_with(target, "identity", config).status}
    again = target.http("GET", "/v2/models/identity/config").body.decode()
    return {**found, "same": again == config, "asked": target.infer("identity", four()).status}


def _version_policy(target: Target) -> Answer:
    """A config that serves another version, and then both."""
    with folder_of(target, "policies", _TWO_VERSIONS):
        found: Answer = {"load": load(target, "policies"), "all": _versions(target, "policies")}
        for versions in ([2], [7]):
            config = {**CONFIG, "version_policy": {"specific": {"versions": versions}}}
            reply = load_with(target, "policies", config)
            found[f"{versions}"] = [reply.status, _versions(target, "policies")]
    return found


def _files(target: Target) -> Answer:
    """Files in place of the model's folder, which has other versions; then the folder again."""
    with folder_of(target, "sent", ALL):
        found: Answer = {"load": load(target, "sent")}
        files = {"file:3/model.py": DESCRIBE}
        found["without config"] = load_with(target, "sent", None, files).status
        found["still"] = _versions(target, "sent")
        found["given"] = [
            load_with(target, "sent", CONFIG, files).status,
            _versions(target, "sent"),
        ]
        found["from"] = _origin(target, "sent")
        found["asked"] = execution(target, "sent")
        found["plain"] = [load(target, "sent"), _versions(target, "sent"), _origin(target, "sent")]
    return found


def _new(target: Target) -> Answer:
    """A model that is in no repository."""
    found: Answer = {"load": load_with(target, "brought_new", CONFIG, FILES).status}
    found["asked"] = execution(target, "brought_new")
    found["listed"] = [entry["state"] for entry in entries(target, "brought_new")]
    found["plain"] = load(target, "brought_new")
    found["asked on"] = target.infer("brought_new", ZERO).status
    found["unload"] = unload(target, "brought_new")
    found["asked after"] = target.infer("brought_new", ZERO).status
    found["load again"] = load(target, "brought_new")
    return found


def _grpc(target: Target) -> Answer:
    """Config and files over gRPC."""
    with folder_of(target, "by_grpc", REPORT):
        found: Answer = {"config": grpc_load_with(target, "by_grpc", CONFIG).code}
        found["from"] = _origin(target, "by_grpc")
        found["files"] = grpc_load_with(
            target, "by_grpc", CONFIG, {"file:5/model.py": DESCRIBE}
        ).code
        found["versions"] = _versions(target, "by_grpc")
        found["without config"] = grpc_load_with(target, "by_grpc", None, FILES).answer()["code"]
        found["escapes"] = grpc_load_with(target, "by_grpc", CONFIG, {"file:../x": b""}).code
        found["invalid"] = grpc_load_with(target, "by_grpc", "{").answer()["code"]
        found["asked"] = target.infer("by_grpc", ZERO).status
    return found


def _refused(target: Target, config: Any, files: dict[str, bytes] | None) -> Answer:
    """Parameters that are refused, for a model that serves: it serves on, and the server is ready."""
    found = load_with(target, "identity", config, files).answer()
    found["asked"] = target.infer("identity", four()).status
    found["ready"] = target.http("GET", "/v2/health/ready").status
    found["from"] = _origin(target, "identity")
    return found


def _failing(target: Target) -> Answer:
    """Files that do not load: the old model serves on."""
    with folder_of(target, "failing_files", REPORT):
        load(target, "failing_files")
        files = {"file:1/model.py": RAISES.encode()}
        found = load_with(target, "failing_files", CONFIG, files).answer()
        found["asked"] = execution(target, "failing_files")
        found["from"] = _origin(target, "failing_files")
    return found


def _unusual(target: Target) -> Answer:
    """A config in camel case, paths of other forms, and base64 with line ends and without its padding."""
    source = DESCRIBE + b"\n" * (-(len(DESCRIBE) + 1) % 3 + 1)
    parameters = {
        "config": json.dumps(_written_unusually()),
        "file:/1/model.py": base64.encodebytes(source).decode().rstrip().rstrip("="),
        "file:2/../1/./beside.py": "",
        "file:a/b/c": "bW9yZQ==",
    }
    body = json.dumps({"parameters": parameters})
    try:
        reply = target.http("POST", "/v2/repository/models/unusual/load", body)
        return {"load": reply.status, "asked": execution(target, "unusual")}
    finally:
        unload(target, "unusual")


def _dependents(target: Target) -> Answer:
    """A model that loads another one in its initialize is unloaded with its dependents, and again where a client loaded the other one, too."""
    source = (
        "import triton_python_backend_utils as pb_utils\n"
        "class TritonPythonModel:\n"
        "    def initialize(self, args):\n"
        "        pb_utils.load_model('report')\n"
        "    def execute(self, requests):\n"
        "        return [None] * len(requests)\n"
    )
    body = json.dumps({"parameters": {"unload_dependents": True}})
    found: Answer = {}
    try:
        for by_client in (False, True):
            files = {"file:1/model.py": source.encode()}
            found[f"load {by_client}"] = load_with(target, "bringing", CONFIG, files).status
            if by_client:
                load(target, "report")
            reply = target.http("POST", "/v2/repository/models/bringing/unload", body)
            found[f"unload {by_client}"] = reply.status
            found[f"asked {by_client}"] = target.infer("report", ZERO).status
    finally:
        for name in ("bringing", "report"):
            unload(target, name)
    return found


def _written_unusually() -> dict[str, Any]:
    first, second = CONFIG["input"][0], CONFIG["output"][0]
    return {
        "backend": "python",
        "maxBatchSize": "0",
        "input": [{"name": first["name"], "dataType": "type_int32", "dims": ["1"]}],
        "output": [{**second, "data_type": 13}],
    }


def _case(name: str, config: Any, files: dict[str, bytes] | None = None) -> Scenario:
    return Scenario(
        f"load with {name}",
        ("7.15" if files is None else "7.16", "7.17"),
        lambda target: _refused(target, config, files),
        says="failed to load 'identity', failed to poll from model repository",
        expect={"status": 500, "asked": 200, "ready": 200, "from": "folder"},
        server="explicit",
    )


SCENARIOS = [
    Scenario(
        "load with a config",
        ("7.15",),
        _config_stays,
        expect={
            "from": "folder",
            "given.1": "request",
            "touched.1": "folder",
            "unloaded.1": "folder",
        },
        server="explicit",
    ),
    Scenario(
        "load with the config that the server shows",
        ("7.15", "2.19"),
        _own_config,
        expect={"load": 200, "same": True, "asked": 200},
        server="explicit",
    ),
    Scenario(
        "load with a version policy",
        ("7.15", "7.40"),
        _version_policy,
        expect={"[2].1.0": "2", "[7].0": 400},
        server="explicit",
    ),
    Scenario(
        "load with files",
        ("7.16",),
        _files,
        expect={
            "without config": 500,
            "given.0": 200,
            "given.1.0": "3",
            "from": "request",
            "asked": 1,
            "plain.2": "folder",
        },
        server="explicit",
    ),
    Scenario(
        "load of a model that is in no repository",
        ("7.16",),
        _new,
        expect={
            "load": 200,
            "asked": 1,
            "listed.0": "READY",
            "plain": 500,
            "asked on": 200,
            "asked after": 404,
        },
        server="explicit",
    ),
    Scenario(
        "gRPC load with a config and files",
        ("7.15", "7.16", "7.17"),
        _grpc,
        expect={
            "config": "OK",
            "files": "OK",
            "versions.0": "5",
            "without config": "INTERNAL",
            "escapes": "INTERNAL",
            "invalid": "INTERNAL",
            "asked": 200,
        },
        server="explicit",
    ),
    _case("a config that is not JSON", "nope"),
    _case("a config that ends early", '{"backend": "python"'),
    _case("an empty config", ""),
    _case("a config that is a list", "[]"),
    _case("an unknown field", {**CONFIG, "colour": "red"}),
    _case("an unknown field inside", {**CONFIG, "input": [{"colour": "red"}]}),
    _case("an unknown data type", {**CONFIG, "input": [{"data_type": "TYPE_FP33"}]}),
    _case("a field of another type", {**CONFIG, "max_batch_size": "many"}),
    _case("a config that names another model", {**CONFIG, "name": "another"}),
    _case("files and no config", None, FILES),
    _case("files and a config that is not JSON", "nope", FILES),
    _case("a path above the folder", CONFIG, {**FILES, "file:../escaped": b""}),
    _case("a path that leads out on a detour", CONFIG, {**FILES, "file:1/../../escaped": b""}),
    _case("an absolute path that leads out", CONFIG, {**FILES, "file:/../escaped": b""}),
    _case("a file below a file", CONFIG, {"file:1": b"", "file:1/model.py": DESCRIBE}),
    Scenario(
        "load with files that fail",
        ("7.16", "7.22"),
        _failing,
        says="load failed for model 'failing_files': version 1 is at UNAVAILABLE state:",
        expect={"status": 400, "asked": 1, "from": "folder"},
        server="explicit",
    ),
    Scenario(
        "load with parameters that are written unusually",
        ("7.15", "7.16", "7.17"),
        _unusual,
        expect={"load": 200, "asked": 1},
        server="explicit",
    ),
    Scenario(
        "unload of a model that loaded another one",
        ("7.26", "15.24"),
        _dependents,
        expect={"load False": 200, "unload False": 200, "asked True": 200},
        server="explicit",
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_load_overrides_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
