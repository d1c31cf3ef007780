"""Options by the server's version: left out, or refused with the field that needs them. Which version knows which: tests/seams."""

import types

import pytest

from naiad_operator.api.parsing import service
from naiad_operator.builders import server
from naiad_operator.errors import InvalidSpec
from naiad_operator.versions import Version
from tests.support import manifests

NEWER = Version(0, 1, 9)


def arguments(version: Version) -> list[str]:
    spec = service.parse(manifests.resource(args=["--grpc-max-connection-age=1"])).spec
    return server.arguments(spec, ("s3://models",), version)


def known_since(monkeypatch: pytest.MonkeyPatch, **fields: str) -> None:
    changed = {"--grpc-max-connection-age": server.Option(NEWER, **fields)}
    table = types.MappingProxyType({**server.OPTIONS, **changed})
    monkeypatch.setattr(server, "OPTIONS", table)


def test_an_old_server_does_not_get_an_option_that_it_does_not_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known_since(monkeypatch)
    ours = f"--grpc-max-connection-age={server.GRPC_MAX_CONNECTION_AGE_MS}"
    assert ours in arguments(NEWER)
    assert ours not in arguments(Version(0, 1, 8))
    assert arguments(Version(0, 1, 8))[-1] == "--grpc-max-connection-age=1", "the user's own stays"


def test_a_field_that_an_old_server_cannot_carry_out_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known_since(monkeypatch, field="spec.predictor.model.load")
    arguments(NEWER)
    with pytest.raises(InvalidSpec) as refused:
        arguments(Version(0, 1, 8))
    (problem,) = refused.value.problems
    assert problem.path == "spec.predictor.model.load"
    assert "0.1.9 or newer" in problem.message
    assert "predictor.serverVersion" in problem.message
