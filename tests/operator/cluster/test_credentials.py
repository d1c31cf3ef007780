"""Where the API server is found, what proves who the operator is, and when that is loaded again."""

import asyncio
import base64
import json
import os
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from naiad_operator.cluster import client, credentials
from naiad_operator.cluster.credentials import Credentials, CredentialsError, Endpoint, find
from tests.apiserver import certificates

ONE = "https://one.example.com:6443"
USER = {"token": "secret", "tokenFile": None}
PLUGIN = {"command": "no-such-plugin", "apiVersion": "client.authentication.k8s.io/v1"}


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a pod nor a person's home; temporary files in a folder of the test."""
    monkeypatch.setattr(credentials, "_SERVICE_ACCOUNT", tmp_path / "no-pod")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> certificates.Certificates:
    return certificates.make(tmp_path_factory.mktemp("certificates"))


def content(user: dict[str, Any], **cluster: Any) -> dict[str, Any]:
    return {
        "current-context": "one",
        "contexts": [
            {"name": "one", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
            {"name": "two", "context": {"cluster": "c2", "user": "u"}},
        ],
        "clusters": [
            {"name": "c", "cluster": {"server": f"{ONE}/", **cluster}},
            {"name": "c2", "cluster": {"server": "https://two.example.com"}},
        ],
        "users": [{"name": "u", "user": user}],
    }


def kubeconfig(path: Path, user: dict[str, Any], **cluster: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content(user, **cluster)), encoding="utf-8")
    return path


async def found(path: Path, **more: Any) -> Endpoint:
    return (await find(kubeconfig=str(path), **more)).endpoint


async def test_a_kubeconfigs_current_context_is_taken(tmp_path: Path) -> None:
    more = {"tls-server-name": "inside", "proxy-url": "http://p", "insecure-skip-tls-verify": True}
    endpoint = await found(kubeconfig(tmp_path / "config", USER, **more))
    assert (endpoint.server, endpoint.namespace) == (ONE, "team")
    assert endpoint.authorization == "Bearer secret"
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


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def loaded(path: Path, clock: Clock) -> Credentials:
    return Credentials(str(path), await found(path), clock=clock)


async def sent(given: Credentials) -> str:
    """What the next request proves itself with."""
    return (await given.current()).authorization


async def test_a_token_file_is_read_again_and_the_connections_are_kept(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    clock = Clock()
    # As in kubectl, the file counts.
    given = await loaded(
        kubeconfig(tmp_path / "config", {"tokenFile": "token", "token": "old"}), clock
    )
    tls = given.endpoint.tls
    token.write_text("second\n")
    assert await sent(given) == "Bearer first"
    clock.now += 61
    assert await sent(given) == "Bearer second"
    assert given.endpoint.tls is tls


async def test_a_pods_token_is_read_again_as_the_kubelet_renews_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: certificates.Certificates
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    token = pod(tmp_path, monkeypatch, authority)
    clock = Clock()
    given = Credentials("", (await find()).endpoint, clock=clock)
    token.write_text("second")
    assert (await sent(given)).endswith(" first")
    clock.now += 61
    assert (await sent(given)).endswith(" second")


async def test_a_token_that_the_server_rejected_is_read_again_at_once(tmp_path: Path) -> None:
    """Also one in the kubeconfig itself; of its contexts still the one that was chosen."""
    path = kubeconfig(tmp_path / "config", USER)
    given = await loaded(path, Clock())
    rejected = given.endpoint
    path.write_text(json.dumps({**content({"token": "new"}), "current-context": "two"}))
    assert await sent(given) == "Bearer secret"
    given.forget(rejected)
    assert await sent(given) == "Bearer new"
    assert given.endpoint.server == ONE
    path.write_text(json.dumps(content({"token": "newer"})))
    given.forget(rejected)  # by a request that was sent before the token was replaced
    assert await sent(given) == "Bearer new"


def plugin(folder: Path, code: str, **more: Any) -> Path:
    """A kubeconfig whose user is what a Python program prints; it can count its runs in the file `runs`."""
    script = folder / "plugin.sh"
    script.write_text(f"#!/bin/sh\necho run >> runs\nexec {sys.executable} -c '{code}'\n")
    script.chmod(0o755)
    return kubeconfig(folder / "config", {"exec": {**PLUGIN, "command": "./plugin.sh", **more}})


def returning(**status: str) -> str:
    return f"import json; print(json.dumps({json.dumps({'status': status})}))"


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


async def test_an_exec_plugin_is_run_with_its_environment_and_without_a_terminal(
    tmp_path: Path,
) -> None:
    code = (
        'import json, os, sys; spec = json.loads(os.environ["KUBERNETES_EXEC_INFO"])["spec"];'
        'proof = [os.environ["WHO"], sys.stdin.read(), spec["interactive"], spec["cluster"]["server"]];'
        'print(json.dumps({"status": {"token": str(proof).replace(chr(39), "")}}))'
    )
    path = plugin(tmp_path, code, env=[{"name": "WHO", "value": "me"}], provideClusterInfo=True)
    assert (await found(path)).authorization == f"Bearer [me, , False, {ONE}/]"


async def test_an_exec_plugin_is_run_again_when_its_token_expires(tmp_path: Path) -> None:
    clock = Clock()
    given = await loaded(
        plugin(tmp_path, returning(token="t", expirationTimestamp="2000-01-01T00:00:00Z")), clock
    )
    assert await sent(given) == "Bearer t"
    assert runs(tmp_path) == 1
    clock.now += 1.1
    # However many requests need it.
    assert await asyncio.gather(*(sent(given) for _ in range(5))) == ["Bearer t"] * 5
    assert runs(tmp_path) == 2


async def test_an_exec_plugin_whose_token_does_not_expire_is_run_again_when_it_was_rejected(
    tmp_path: Path,
) -> None:
    clock = Clock()
    given = await loaded(plugin(tmp_path, returning(token="t")), clock)
    clock.now += 1e6
    await given.current()
    assert runs(tmp_path) == 1
    given.forget(given.endpoint)
    await given.current()
    assert runs(tmp_path) == 2


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ('import sys; sys.exit("not logged in")', "exited 1 .*not logged in"),
        ('import sys; print("hello"); print("why", file=sys.stderr)', "neither a token .*why"),
        ("print([])", "neither a token"),
        (returning(), "neither a token"),
        (returning(clientCertificateData="x"), "neither a token nor a client certificate with its key"),
        (returning(token="t", expirationTimestamp="soon"), "soon"),
    ],
)  # fmt: skip
async def test_an_exec_plugin_that_fails_is_named_with_its_error_output(
    code: str, message: str, tmp_path: Path
) -> None:
    path = plugin(tmp_path, code)
    with pytest.raises(CredentialsError, match=message) as error:
        await found(path)
    assert str(path) in str(error.value)
    assert "soon" in message or "plugin.sh" in str(error.value)


async def test_an_exec_plugin_that_is_not_installed_is_named(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", {"exec": PLUGIN})
    with pytest.raises(CredentialsError, match=r"no-such-plugin.* of .*config .*No such file"):
        await found(path)


async def test_an_exec_plugin_that_hangs_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile the event loop runs, and a request that gave up does not begin again."""
    clock = Clock()
    short = returning(token="t", expirationTimestamp="2000-01-01T00:00:00Z")
    given = await loaded(plugin(tmp_path, short), clock)
    monkeypatch.setattr(credentials, "_TIMEOUT_S", 1.0)
    hanging = 'import os, time; open("pid", "w").write(str(os.getpid())); time.sleep(99)'  # fmt: skip
    path = plugin(tmp_path, hanging)
    clock.now += 2
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(given.current(), 0.3)
    with pytest.raises(CredentialsError, match=r"plugin.sh' of .* did not end in 1 s"):
        await given.current()
    assert runs(tmp_path) == 2
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert path.exists()


def test_a_process_ends_while_a_plugin_hangs(tmp_path: Path) -> None:
    path = plugin(tmp_path, "import time; time.sleep(60)")
    script = (
        "import asyncio\nfrom naiad_operator.cluster.credentials import find\n"
        "async def main():\n"
        f"    asyncio.create_task(find(kubeconfig={str(path)!r}))\n"
        f"    while not __import__('os').path.exists({str(tmp_path / 'runs')!r}): await asyncio.sleep(0.05)\n"
        "asyncio.run(main())"
    )
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment, timeout=40)


async def test_a_client_certificate_of_an_exec_plugin_is_renewed(
    tmp_path: Path, authority: certificates.Certificates
) -> None:
    """New connections have the new one, and those with the old one are used for no other request."""
    accepting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.ca))
    accepting.load_cert_chain(*authority.serving)
    accepting.verify_mode = ssl.CERT_REQUIRED

    async def who(request: web.Request) -> web.Response:
        assert request.transport
        subject = request.transport.get_extra_info("peercert")["subject"]
        return web.Response(text=subject[0][0][1])

    application = web.Application()
    application.router.add_get("/", who)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=accepting)
    await site.start()
    address = f"https://127.0.0.1:{runner.addresses[0][1]}"

    def becomes(user: str) -> Path:
        files = zip(("clientCertificateData", "clientKeyData"), authority.client(user), strict=True)
        status = {name: file.read_text() for name, file in files}
        (tmp_path / "status.json").write_text(json.dumps({"status": status}))
        path = plugin(tmp_path, 'print(open("status.json").read())')
        as_one = json.loads(path.read_text())
        as_one["clusters"][0]["cluster"] = {
            "server": address,
            "certificate-authority": str(authority.ca),
        }
        path.write_text(json.dumps(as_one))
        return path

    given = await find(kubeconfig=str(becomes("first")))
    async with client.open_session(given, agent="tests") as session:
        for user in ("first", "second"):
            becomes(user)
            given.forget(given.endpoint)
            for _ in range(2):
                async with session.get(address) as response:
                    assert await response.text() == user
    await runner.cleanup()
    assert not list((tmp_path / "temporary").iterdir())


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
