"""Where the API server is found, and what proves who we are."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from naiad_operator.cluster.credentials import CredentialsError, Endpoint, Exec, Tokens, find

NOWHERE = Path("/nowhere")


def kubeconfig(path: Path, user: dict[str, Any], **cluster: Any) -> Path:
    content = {
        "current-context": "one",
        "contexts": [
            {"name": "one", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
            {"name": "two", "context": {"cluster": "c2", "user": "u"}},
        ],
        "clusters": [
            {"name": "c", "cluster": {"server": "https://one.example.com:6443/", **cluster}},
            {"name": "c2", "cluster": {"server": "https://two.example.com"}},
        ],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def found(path: Path, **more: Any) -> Endpoint:
    return find(kubeconfig=str(path), service_account=NOWHERE, **more)


def test_a_kubeconfigs_current_context_is_taken(tmp_path: Path) -> None:
    data = base64.b64encode(b"PEM").decode()
    path = kubeconfig(
        tmp_path / "config",
        {"token": "secret"},
        **{
            "certificate-authority-data": data,
            "tls-server-name": "inside",
            "proxy-url": "http://p",
        },
    )
    endpoint = found(path)
    assert endpoint.server == "https://one.example.com:6443"
    assert (endpoint.namespace, endpoint.token, endpoint.ca_data) == ("team", "secret", "PEM")
    assert (endpoint.server_name, endpoint.proxy) == ("inside", "http://p")


def test_another_context_can_be_named(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", {})
    assert found(path, context="two").server == "https://two.example.com"
    with pytest.raises(CredentialsError, match="no context named 'three'"):
        found(path, context="three")


def test_files_are_beside_the_kubeconfig(tmp_path: Path) -> None:
    path = kubeconfig(
        tmp_path / "config", {"client-certificate": "me.crt", "client-key": "/abs/me.key"}
    )
    endpoint = found(path)
    assert endpoint.certificate_file == str(tmp_path / "me.crt")
    assert endpoint.key_file == "/abs/me.key"


def test_a_pods_service_account_comes_before_a_kubeconfig_in_the_home_folder(
    tmp_path: Path,
) -> None:
    for name, text in (("token", "t"), ("ca.crt", "ca"), ("namespace", "naiad-system")):
        (tmp_path / name).write_text(text)
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443", "HOME": "/"}
    endpoint = find(environ=environ, service_account=tmp_path)
    assert endpoint.server == "https://[fd00::1]:443"
    assert endpoint.namespace == "naiad-system"


def test_without_any_credentials_the_error_names_the_options(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="--kubeconfig"):
        find(environ={"HOME": str(tmp_path)}, service_account=NOWHERE)


def test_removed_login_methods_are_rejected_with_the_alternatives(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="exec plugin"):
        found(kubeconfig(tmp_path / "config", {"auth-provider": {"name": "oidc"}}))


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_a_token_file_is_read_again_as_the_kubelet_renews_it(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    clock = Clock()
    tokens = Tokens(Endpoint(server="https://x", token_file=str(token)), clock=clock)
    assert await tokens.header() == {"Authorization": "Bearer first"}
    token.write_text("second\n")
    assert await tokens.header() == {"Authorization": "Bearer first"}
    clock.now += 61
    assert await tokens.header() == {"Authorization": "Bearer second"}


async def test_a_token_that_the_server_rejected_is_read_again_at_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    tokens = Tokens(Endpoint(server="https://x", token_file=str(token)), clock=Clock())
    await tokens.header()
    token.write_text("second")
    tokens.forget()
    assert await tokens.header() == {"Authorization": "Bearer second"}


def plugin(code: str) -> Endpoint:
    program = Exec(
        command=sys.executable,
        args=("-c", code),
        env=(("WHO", "me"),),
        api_version="client.authentication.k8s.io/v1",
    )
    return Endpoint(server="https://x", exec=program)


async def test_an_exec_plugin_is_run_again_when_its_token_expires() -> None:
    code = (
        "import json, os; info = json.loads(os.environ['KUBERNETES_EXEC_INFO']);"
        "print(json.dumps({'kind': info['kind'], 'status': {'token': os.environ['WHO'],"
        " 'expirationTimestamp': '2000-01-01T00:00:00Z'}}))"
    )
    clock = Clock()
    tokens = Tokens(plugin(code), clock=clock)
    assert await tokens.header() == {"Authorization": "Bearer me"}
    assert tokens._until == clock.now + 1.0


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys; sys.exit('not logged in')", "not logged in"),
        ("print('hello')", "no ExecCredential"),
        ('print(\'{"status": {"clientCertificateData": "x"}}\')', "client-certificate-data"),
    ],
)
async def test_an_exec_plugin_that_fails_is_named_with_its_error_output(
    code: str, message: str
) -> None:
    with pytest.raises(CredentialsError, match=message):
        await Tokens(plugin(code), clock=Clock()).header()
