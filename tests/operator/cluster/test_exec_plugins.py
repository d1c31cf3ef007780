"""Exec plugins of kubeconfigs: when one is run, with what, and what is said of one that fails."""

import asyncio
import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from naiad_operator.cluster import credentials
from naiad_operator.cluster.credentials import CredentialsError
from tests.apiserver import certificates
from tests.operator.cluster.kubeconfigs import (
    ONE,
    PLUGIN,
    Clock,
    found,
    kubeconfig,
    loaded,
    plugin,
    returning,
    runs,
    sent,
)
from tests.support.waiting import until, wait_until


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


async def test_an_exec_plugin_gets_the_cluster_as_kubectl_gives_it(
    tmp_path: Path, authority: certificates.Certificates
) -> None:
    """With the authority itself in place of its file, and with what the kubeconfig holds for plugins."""
    code = (
        'import json, os; cluster = json.loads(os.environ["KUBERNETES_EXEC_INFO"])["spec"]["cluster"];'
        'print(json.dumps({"status": {"token": json.dumps(cluster)}}))'
    )
    path = plugin(tmp_path, code, provideClusterInfo=True)
    (tmp_path / "ca.crt").write_bytes(authority.ca.read_bytes())
    whole = json.loads(path.read_text())
    whole["clusters"][0]["cluster"] = {
        "server": ONE,
        "certificate-authority": "ca.crt",
        "extensions": [
            {"name": "another", "extension": {"who": "else"}},
            {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "me"}},
        ],
    }
    path.write_text(json.dumps(whole))
    endpoint = await found(path)
    assert json.loads(endpoint.authorization.removeprefix("Bearer ")) == {
        "server": ONE,
        "certificate-authority-data": base64.b64encode(authority.ca.read_bytes()).decode(),
        "config": {"audience": "me"},
    }


async def test_an_exec_plugin_is_run_again_when_its_token_expires(tmp_path: Path) -> None:
    clock = Clock()
    access = await loaded(
        plugin(tmp_path, returning(token="t", expirationTimestamp="2000-01-01T00:00:00Z")), clock
    )
    assert await sent(access) == "Bearer t"
    assert runs(tmp_path) == 1
    clock.now += 1.1
    # However many requests need it.
    assert await asyncio.gather(*(sent(access) for _ in range(5))) == ["Bearer t"] * 5
    assert runs(tmp_path) == 2


async def test_an_exec_plugin_whose_token_does_not_expire_is_run_again_when_it_was_rejected(
    tmp_path: Path,
) -> None:
    clock = Clock()
    access = await loaded(plugin(tmp_path, returning(token="t")), clock)
    clock.now += 1e6
    await access.current()
    assert runs(tmp_path) == 1
    access.forget(access.endpoint)
    await access.current()
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
    access = await loaded(plugin(tmp_path, short), clock)
    monkeypatch.setattr(credentials, "_TIMEOUT_S", 3.0)
    hangs(tmp_path)
    clock.now += 2
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(access.current(), 0.3)
    with pytest.raises(CredentialsError, match=r"plugin.sh' of .* did not end in 3 s"):
        await access.current()
    assert runs(tmp_path) == 2
    await until(lambda: has_ended(tmp_path), what="the plugin's program goes on")


def hangs(folder: Path) -> None:
    """Changes the plugin: as many it is a script, which starts a program; this one hangs."""
    script = "#!/bin/sh\necho run >> runs\nsleep 99 &\necho $! > new\nmv new pid\nwait\n"
    (folder / "plugin.sh").write_text(script)


def has_ended(folder: Path) -> bool:
    """Whether the program that hangs has ended; its parent, which is not the test, may not have waited for it yet."""
    try:
        status = Path(f"/proc/{int((folder / 'pid').read_text())}/stat").read_text()
    except OSError:  # also while it is read
        return (folder / "pid").exists()
    return status.rpartition(")")[2].split()[0] == "Z"


def test_a_process_ends_while_a_plugin_hangs_and_the_plugin_with_it(tmp_path: Path) -> None:
    path = plugin(tmp_path, returning(token="t"))
    hangs(tmp_path)
    script = (
        "import asyncio\nfrom naiad_operator.cluster.credentials import find\n"
        "async def main():\n"
        f"    asyncio.create_task(find(kubeconfig={str(path)!r}))\n"
        f"    while not __import__('os').path.exists({str(tmp_path / 'pid')!r}): await asyncio.sleep(0.05)\n"
        "asyncio.run(main())"
    )
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, env=environment, timeout=120, capture_output=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    wait_until(lambda: has_ended(tmp_path), what="the plugin's program goes on")
