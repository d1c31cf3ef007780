"""What loads and unloads are asked with: bodies, parameters, names (rows 7.7, 7.8, 7.14, 7.18, 7.26)."""

import pytest
from tritonclient.grpc import service_pb2 as pb

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.grpc_scenarios import rpc
from tests.conformance.scenarios.scenario import Scenario, http

_PARAMETER = pb.ModelRepositoryParameter
_GRPC_PARAMETERS = [
    ("Load", "colour", _PARAMETER(string_param="red"), "unrecognized load parameter"),
    ("Load", "config", _PARAMETER(int64_param=1), "expected string_param."),
    ("Load", "config", _PARAMETER(), "expected string_param."),
    ("Load", "file:1/model.py", _PARAMETER(string_param="x"), "expected bytes_param."),
    ("Unload", "unload_dependents", _PARAMETER(string_param="x"), "expected bool_param."),
]


def _grpc_change(
    action: str, key: str, given: pb.ModelRepositoryParameter
) -> pb.RepositoryModelLoadRequest:
    kind = getattr(pb, f"RepositoryModel{action}Request")
    message: pb.RepositoryModelLoadRequest = kind(model_name="identity", parameters={key: given})
    return message


SCENARIOS = [
    *(
        http(
            f"{action} with the body {body}",
            rows,
            "POST",
            f"/v2/repository/models/{model}/{action}",
            body,
            status=status,
            says=says,
            server="explicit",
        )
        for action, model, rows, body, status, says in (
            ("load", "identity", "7.8", "{}", 200, None),
            ("load", "identity", "7.8", '{"parameters":{}}', 200, None),
            ("load", "identity", "7.8", '{"colour":"red"}', 200, None),
            ("load", "identity", "7.18", "nope", 500, "failed to parse the request JSON buffer"),
            ("load", "identity", "7.18", '{"parameters":[]}', 500, "non-object"),
            ("load", "identity", "7.18", '{"parameters":{"colour":"red"}}', 500, "unexpected error on creating Triton parameter"),
            ("load", "identity", "7.18", '{"parameters":{"config":1}}', 500, "attempt to access JSON non-string as string"),
            ("unload", "nope", "7.26", '{"parameters":{"unload_dependents":true}}', 200, None),
            ("unload", "nope", "7.26", '{"parameters":{"unload_dependents":false}}', 200, None),
            ("unload", "nope", "7.26", '{"parameters":{"colour":1}}', 200, None),
            ("unload", "nope", "7.26", '{"parameters":{"unload_dependents":1}}', 500, "Unable to parse 'unload_dependents'"),
            ("unload", "nope", "7.26", "nope", 500, "failed to parse the request JSON buffer"),
        )
    ),
    *(
        rpc(
            f"gRPC {action} with {key} {position}",
            "7.18" if action == "Load" else "7.26",
            f"RepositoryModel{action}",
            _grpc_change(action, key, given),
            code="INVALID_ARGUMENT",
            says=says,
            server="explicit",
        )
        for position, (action, key, given, says) in enumerate(_GRPC_PARAMETERS)
    ),
    rpc(
        "gRPC unload with its dependents",
        "7.26",
        "RepositoryModelUnload",
        pb.RepositoryModelUnloadRequest(
            model_name="nope", parameters={"unload_dependents": _PARAMETER(bool_param=True)}
        ),
        server="explicit",
    ),
    *(
        rpc(
            f"gRPC load of the name '{name}'",
            "7.14",
            "RepositoryModelLoad",
            pb.RepositoryModelLoadRequest(model_name=name),
            code="INVALID_ARGUMENT",
            says=says,
            server="explicit",
        )
        for name, says in (
            ("", "Model name cannot be empty"),
            (" ", "Model name cannot be empty"),
            ("..", "must not contain path traversal characters"),
            ("a/b", "must not contain path traversal characters"),
        )
    ),
    *(
        http(
            f"load of the name '{name}'",
            "7.14",
            "POST",
            f"/v2/repository/models/{name}/load",
            status=400,
            says=says,
            server="explicit",
        )
        for name, says in (
            ("%20", "Model name cannot be empty"),
            ("..", "must not contain path traversal characters"),
        )
    ),
    http("GET of a load", "7.8", "GET", "/v2/repository/models/identity/load", status=405, says="Method Not Allowed", server="explicit"),
    http("GET of an unload", "7.9", "GET", "/v2/repository/models/identity/unload", status=405, says="Method Not Allowed", server="explicit"),
    rpc(
        "gRPC load in a repository by name",
        "7.7",
        "RepositoryModelLoad",
        pb.RepositoryModelLoadRequest(model_name="identity", repository_name="x"),
        code="UNIMPLEMENTED",
        says="'repository_name' specification is not supported",
        server="explicit",
    ),
]  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_load_and_unload_requests_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
