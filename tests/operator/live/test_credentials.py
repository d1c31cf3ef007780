"""An operator whose credentials expire, are refused, or cannot be loaded for a while, against a real API server."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.client import Kubectl, until
from tests.apiserver.control_plane import OPERATOR_TOKEN, OPERATOR_USER, ControlPlane
from tests.apiserver.objects import inference_service, make_namespace
from tests.apiserver.operator import OperatorProcess
from tests.apiserver.proxy import proxying

Start = Callable[..., OperatorProcess]


def kubeconfig(
    plane: ControlPlane, folder: Path, user: dict[str, Any], *, server: str = ""
) -> Path:
    content = json.loads(plane.kubeconfig(OPERATOR_TOKEN, server=server).read_text())
    content["users"][0]["user"] = user
    path = folder / "config"
    path.write_text(json.dumps(content))
    return path


def plugin(plane: ControlPlane, folder: Path, *, server: str = "") -> Path:
    """A kubeconfig with an exec plugin that returns the file `status`, or fails while there is none."""
    script = folder / "plugin"
    script.write_text("#!/bin/sh\necho run >> runs\nexec cat status\n")
    script.chmod(0o755)
    version = "client.authentication.k8s.io/v1"
    user = {"exec": {"command": "./plugin", "apiVersion": version}}
    return kubeconfig(plane, folder, user, server=server)


def returns(folder: Path, **status: str) -> None:
    whole = {"status": {**status, "expirationTimestamp": "2000-01-01T00:00:00Z"}}
    (folder / "new").write_text(json.dumps(whole))
    (folder / "new").rename(folder / "status")


def makes(kubectl: Kubectl, name: str, namespace: str) -> None:
    kubectl.create(inference_service(name, namespace))
    until(f"the Deployment of {name}", lambda: kubectl.find("Deployment", name, namespace))


def said(
    operator: OperatorProcess,
    logger: str,
    text: str,
    *,
    meanwhile: Callable[[], object] = lambda: None,
) -> None:
    """Waits for a log line, and does something until then."""

    def look() -> bool:
        meanwhile()
        return any(
            line.get("logger", "").startswith(logger) and re.search(text, line["message"])
            for line in operator.lines()
        )

    until(f"{logger}: {text}", look)


def test_an_exec_plugin_that_fails_for_a_while_does_not_end_the_operator(
    plane: ControlPlane, kubectl: Kubectl, start: Start, tmp_path: Path
) -> None:
    """Its tokens expire every second, so that all requests need another: the operator's own, and kopf's."""
    namespace = make_namespace(kubectl, "plugin")
    returns(tmp_path, token=OPERATOR_TOKEN)
    with proxying(plane.server, str(plane.certificates.ca)) as proxy:
        config = plugin(plane, tmp_path, server=proxy.url)
        operator = start(f"--watch-namespaces={namespace}", kubeconfig=config).wait_ready()
        makes(kubectl, "before", namespace)

        (tmp_path / "status").unlink()
        said(operator, "kopf", "plugin' of .* exited 1", meanwhile=proxy.cut_watches)
        kubectl.create(inference_service("meanwhile", namespace))
        returns(tmp_path, token="not-a-token")
        said(operator, "naiad_operator", "Unauthorized", meanwhile=proxy.cut_watches)

        returns(tmp_path, token=OPERATOR_TOKEN)
        until("meanwhile", lambda: kubectl.find("Deployment", "meanwhile", namespace))
        makes(kubectl, "after", namespace)
        assert operator.stop() == 0


def test_a_plugin_that_returns_a_client_certificate(
    plane: ControlPlane, kubectl: Kubectl, start: Start, tmp_path: Path
) -> None:
    namespace = make_namespace(kubectl, "certificate")
    certificate, key = (file.read_text() for file in plane.certificates.client(OPERATOR_USER))
    returns(tmp_path, clientCertificateData=certificate, clientKeyData=key)
    start(f"--watch-namespaces={namespace}", kubeconfig=plugin(plane, tmp_path)).wait_ready()
    makes(kubectl, "demo", namespace)


def test_a_token_that_was_refused_is_read_again(
    plane: ControlPlane, kubectl: Kubectl, start: Start, tmp_path: Path
) -> None:
    namespace = make_namespace(kubectl, "token")
    (tmp_path / "token").write_text("not-a-token")
    config = kubeconfig(plane, tmp_path, {"tokenFile": "token"})
    operator = start(f"--watch-namespaces={namespace}", kubeconfig=config)
    said(operator, "naiad_operator", "waiting: .*Unauthorized")
    (tmp_path / "token").write_text(OPERATOR_TOKEN)
    operator.wait_ready(seconds=150)
    makes(kubectl, "demo", namespace)


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ({"exec": {"command": "no-such-plugin", "apiVersion": "v1"}}, "no-such-plugin"),
        ({"username": "me", "password": "p"}, "auth-provider or a password"),
    ],
)
def test_one_without_credentials_ends_and_says_why(
    plane: ControlPlane, start: Start, tmp_path: Path, user: dict[str, Any], message: str
) -> None:
    operator = OperatorProcess(kubeconfig(plane, tmp_path, user), log=tmp_path / "log")
    assert operator.process.wait(60) == 1
    assert message in operator.tail()
    assert "Traceback" not in operator.tail()
