"""Where the API server is found, what proves who the operator is, and when that is loaded again."""

import base64
import json
import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from naiad_operator.cluster import credentials
from naiad_operator.cluster.credentials import Credentials, CredentialsError, find
from tests.apiserver import certificates
from tests.operator.cluster.kubeconfigs import (
    ONE,
    PLUGIN,
    USER,
    Clock,
    content,
    found,
    kubeconfig,
    loaded,
    sent,
)


async def test_a_kubeconfigs_current_context_is_taken(tmp_path: Path) -> None:
    more = {"tls-server-name": "inside", "proxy-url": "http://p", "insecure-skip-tls-verify": True}
    endpoint = await found(kubeconfig(tmp_path / "config", USER, **more))
    assert (endpoint.server, endpoint.namespace) == (ONE, "team")
    assert endpoint.authorization == "Bearer secret"
    assert "secret" not in repr(endpoint), "it may be in a traceback or a log line"
    assert (endpoint.server_name, endpoint.proxy) == ("inside", "http://p")
    assert endpoint.tls
    assert endpoint.tls.verify_mode == ssl.CERT_NONE


async def test_another_context_can_be_named(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", {})
    endpoint = await found(path, context="two")
    assert (endpoint.server, endpoint.namespace) == ("https://two.example.com", "default")
    with pytest.raises(CredentialsError, match=r"config .*no context named 'three'.*: one, two"):
        await found(path, context="three")


async def test_of_several_kubeconfigs_the_first_counts_as_for_kubectl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: certificates.Certificates
) -> None:
    """Its current-context, its items, and for each file what lies beside it. Missing files do not matter."""
    user = {"tokenFile": "token", "client-certificate": "my.crt", "client-key": "my.key"}
    second = content(user, server="https://not-this-one.example.com")
    first = {**second, "clusters": content({}, server=ONE)["clusters"], "users": []}
    second |= {"current-context": "two"}
    for name, one in (("first", first), ("second", second)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config").write_text(json.dumps(one))
        (tmp_path / name / "token").write_text(f"of the {name}")
    for name, file in zip(("my.crt", "my.key"), authority.client("me"), strict=True):
        (tmp_path / "second" / name).write_bytes(file.read_bytes())
    paths = [str(tmp_path / name / "config") for name in ("missing", "first", "second")]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(paths))
    endpoint = (await find()).endpoint
    assert (endpoint.server, endpoint.context) == (ONE, "one")
    assert endpoint.authorization == "Bearer of the second"


@pytest.mark.parametrize("is_data", [True, False], ids=["data", "files"])
async def test_certificates_are_read_and_no_copy_of_them_is_left(
    *, is_data: bool, tmp_path: Path, authority: certificates.Certificates
) -> None:
    certificate, key = authority.client("me")

    def written(name: str, file: Path) -> dict[str, str]:
        if is_data:
            return {f"{name}-data": base64.b64encode(file.read_bytes()).decode()}
        (tmp_path / name).write_bytes(file.read_bytes())
        return {name: name}

    user = written("client-certificate", certificate) | written("client-key", key)
    cluster = written("certificate-authority", authority.ca)
    endpoint = await found(kubeconfig(tmp_path / "config", user, **cluster))
    assert endpoint.tls
    assert [ca["subject"] for ca in endpoint.tls.get_ca_certs()] == [
        ((("commonName", "naiad-tests"),),)
    ]
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.parametrize(("host", "server"), [("fd00::1", "[fd00::1]"), ("10.0.0.1", "10.0.0.1")])
async def test_a_pods_service_account_comes_before_a_kubeconfig_in_the_home_folder(
    host: str,
    server: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    authority: certificates.Certificates,
) -> None:
    kubeconfig(tmp_path / ".kube" / "config", USER)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    pod(tmp_path, monkeypatch, authority)
    endpoint = (await find()).endpoint
    assert (endpoint.server, endpoint.namespace) == (f"https://{server}:443", "naiad-system")
    assert endpoint.authorization.lower() == "bearer first"
    assert (await find(kubeconfig=str(tmp_path / ".kube" / "config"))).endpoint.server == ONE


def pod(
    folder: Path, monkeypatch: pytest.MonkeyPatch, authority: certificates.Certificates
) -> Path:
    """A pod's service account; the file with its token."""
    for name, text in (
        ("token", "first"),
        ("ca.crt", authority.ca.read_text()),
        ("namespace", "naiad-system"),
    ):
        (folder / name).write_text(text)
    monkeypatch.setattr(credentials, "_SERVICE_ACCOUNT", folder)
    return folder / "token"


async def test_without_any_credentials_the_error_names_the_options() -> None:
    with pytest.raises(CredentialsError, match="--kubeconfig"):
        await find()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("contexts: [", "config.*, line 1"),
        ("", "config file is empty"),
        ("[1, 2]", "config cannot be used"),
        ("{}", "no current-context"),
        (json.dumps({**content({}), "users": []}), "name u in .*users"),
        (json.dumps({**content({}), "clusters": []}), "name c in .*clusters"),
        (json.dumps(content({}, server=None)), "key server"),
        (
            json.dumps(content({"exec": {**PLUGIN, "env": [{"value": "secret"}]}})),
            "key name in .*exec/env",
        ),
        (json.dumps(content({"client-key": "x", "client-certificate": "y"})), "/y"),
        (json.dumps(content({"client-certificate-data": "!"})), "config cannot be used"),
        (json.dumps(content({"auth-provider": {"name": "oidc"}})), "exec plugin"),
        (json.dumps(content({"username": "me", "password": "p"})), "exec plugin"),
    ],
    ids=range(12),
)
async def test_what_is_wrong_in_a_kubeconfig_is_named_with_the_file(
    text: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(CredentialsError, match=message) as error:
        await found(path)
    assert str(path) in str(error.value)
    assert "secret" not in str(error.value)


async def test_a_kubeconfig_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(CredentialsError, match=str(path)):
            await found(path)


async def test_a_token_file_is_read_again_and_the_connections_are_kept(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    clock = Clock()
    # As in kubectl, the file counts.
    access = await loaded(
        kubeconfig(tmp_path / "config", {"tokenFile": "token", "token": "old"}), clock
    )
    tls = access.endpoint.tls
    token.write_text("second\n")
    assert await sent(access) == "Bearer first"
    clock.now += 61
    assert await sent(access) == "Bearer second"
    assert access.endpoint.tls is tls


async def test_a_pods_token_is_read_again_as_the_kubelet_renews_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: certificates.Certificates
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    token = pod(tmp_path, monkeypatch, authority)
    clock = Clock()
    access = Credentials("", (await find()).endpoint, clock=clock)
    token.write_text("second")
    assert (await sent(access)).endswith(" first")
    clock.now += 61
    assert (await sent(access)).endswith(" second")


async def test_a_token_that_the_server_rejected_is_read_again_at_once(tmp_path: Path) -> None:
    """Also one in the kubeconfig itself; of its contexts still the one that was chosen."""
    path = kubeconfig(tmp_path / "config", USER)
    access = await loaded(path, Clock())
    rejected = access.endpoint
    path.write_text(json.dumps({**content({"token": "new"}), "current-context": "two"}))
    assert await sent(access) == "Bearer secret"
    access.forget(rejected)
    assert await sent(access) == "Bearer new"
    assert access.endpoint.server == ONE
    path.write_text(json.dumps(content({"token": "newer"})))
    access.forget(rejected)  # by a request that was sent before the token was replaced
    assert await sent(access) == "Bearer new"


@pytest.mark.parametrize(
    "script",
    [
        "from naiad_operator import cli; cli.main(['check', '-f', 'examples/inferenceservice.yaml'])",
        "from naiad_operator import cli; cli.main(['convert', '-f', 'examples/inferenceservice.yaml'])",
        "import naiad_operator.preview, naiad_operator.report.command",
    ],
)
def test_the_package_is_imported_only_for_a_cluster(script: str) -> None:
    subprocess.run(
        [sys.executable, "-c", f"{script}\nimport sys\nassert 'kubernetes' not in sys.modules"],
        check=True,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        cwd=Path(__file__).parents[3],
    )
