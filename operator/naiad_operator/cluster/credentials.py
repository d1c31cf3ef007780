"""The credentials for the API server: the service account of the pod, or a kubeconfig.

The package `kubernetes` is not used for this: importing it costs 21 MB of resident memory, a third of the operator's, to read a
file with a few fields. Supported are the pod's service account (its token is read again every minute, because the kubelet
renews it) and, in the current context of a kubeconfig: CA, client certificate, token, token file, exec plugin and proxy. Basic
authentication and the `auth-provider` block, which Kubernetes has removed, are rejected with an error message.
"""

import asyncio
import base64
import collections.abc
import contextlib
import dataclasses
import datetime as dt
import json
import os
import pathlib
import ssl
import tempfile
import typing

import yaml

_SERVICE_ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_AGE_S = 60.0
"""How long a token read from a file is used; the kubelet renews tokens at 80 % of their hour."""
_EXEC_TIMEOUT_S = 60.0

Clock = collections.abc.Callable[[], float]


class CredentialsError(Exception):
    """There are no usable credentials; the message names the file or variable to fix."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Exec:
    """An exec plugin: a program that prints a token (e.g. `aws eks get-token`)."""

    command: str
    args: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    api_version: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address of an API server and the credentials for it. `*_file` fields are paths, `*_data` fields are PEM.

    Attributes:
        namespace: the namespace of the context, or of the pod.
    """

    server: str
    namespace: str = "default"
    ca_file: str = ""
    ca_data: str = ""
    insecure: bool = False
    server_name: str = ""
    certificate_file: str = ""
    certificate_data: str = ""
    key_file: str = ""
    key_data: str = ""
    token: str = ""
    token_file: str = ""
    exec: Exec | None = None
    proxy: str = ""

    def ssl(self) -> ssl.SSLContext:
        """The TLS context for this server."""
        context = ssl.create_default_context(
            cafile=self.ca_file or None, cadata=self.ca_data or None
        )
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        with contextlib.ExitStack() as stack:
            certificate = self.certificate_file or _file(stack, self.certificate_data)
            key = self.key_file or _file(stack, self.key_data)
            if certificate:
                context.load_cert_chain(certificate, key or None)
        return context


def _file(stack: contextlib.ExitStack, pem: str) -> str:
    """A temporary file with this PEM that exists as long as the stack: `ssl` loads certificates only from files."""
    if not pem:
        return ""
    handle = tempfile.NamedTemporaryFile(mode="w", suffix=".pem")  # noqa: SIM115 - the stack closes it
    stack.enter_context(handle)
    handle.write(pem)
    handle.flush()
    return handle.name


class Tokens:
    """Provides the Authorization header of each request and renews tokens that expire.

    Args:
        endpoint: the source of the token.
        clock: monotonic, in seconds.
    """

    def __init__(self, endpoint: Endpoint, *, clock: Clock) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._token = endpoint.token
        self._until = 0.0 if endpoint.token_file or endpoint.exec else float("inf")
        self._renewing = asyncio.Lock()

    async def header(self) -> dict[str, str]:
        """The Authorization header; empty when the endpoint has no token (e.g. only a client certificate)."""
        if self._clock() >= self._until:
            async with self._renewing:
                if self._clock() >= self._until:
                    await self._renew()
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def forget(self) -> None:
        """Renews the token before the next request, after the server rejected it."""
        if self._until != float("inf"):
            self._until = 0.0

    async def _renew(self) -> None:
        if self._endpoint.token_file:
            self._token = _read_token(pathlib.Path(self._endpoint.token_file))
            self._until = self._clock() + _TOKEN_AGE_S
        elif self._endpoint.exec is not None:
            status = await _run(self._endpoint.exec)
            self._token = status.get("token") or ""
            self._until = self._clock() + _left(status.get("expirationTimestamp"))


def _read_token(path: pathlib.Path) -> str:
    """Reads a token file. It is a few hundred bytes on a memory-backed volume, once per minute, so no thread is needed."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise CredentialsError(f"cannot read the token file {path}: {error}") from None


def _left(expires: str | None) -> float:
    """Seconds until an exec plugin's token expires, minus a margin of 30 s."""
    if not expires:
        return float("inf")
    left = dt.datetime.fromisoformat(expires) - dt.datetime.now(dt.UTC)
    return max(1.0, left.total_seconds() - 30)


async def _run(plugin: Exec) -> dict[str, typing.Any]:
    info = {
        "apiVersion": plugin.api_version,
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }
    environ = {**os.environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": json.dumps(info)}
    what = f"the exec plugin {plugin.command!r} of the kubeconfig"
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env=environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise CredentialsError(f"{what} cannot be started: {error}") from None
    try:
        out, err = await asyncio.wait_for(process.communicate(), _EXEC_TIMEOUT_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise CredentialsError(f"{what} did not end in {_EXEC_TIMEOUT_S:g} s") from None
    if process.returncode != 0:
        stderr = err.decode(errors="replace").strip()[-500:]
        raise CredentialsError(f"{what} exited {process.returncode}: {stderr}")
    try:
        status: dict[str, typing.Any] = json.loads(out)["status"]
    except (ValueError, KeyError):
        raise CredentialsError(f"{what} printed no ExecCredential with a status") from None
    if status.get("clientCertificateData"):
        raise CredentialsError(
            f"{what} returned a client certificate, but only tokens are supported. Write the certificate into the "
            "kubeconfig (client-certificate-data, client-key-data) instead"
        )
    return status


def find(
    *,
    kubeconfig: str = "",
    context: str = "",
    environ: collections.abc.Mapping[str, str] = os.environ,
    service_account: pathlib.Path = _SERVICE_ACCOUNT,
) -> Endpoint:
    """Finds the API server: the named kubeconfig, else the pod's service account, else `$KUBECONFIG`, else ~/.kube/config.

    Raises:
        CredentialsError: there are no credentials, or they cannot be used.
    """
    if not kubeconfig and (service_account / "token").exists():
        return _in_pod(environ, service_account)
    default = pathlib.Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"
    named = kubeconfig or environ.get("KUBECONFIG", "")
    paths = [pathlib.Path(part).expanduser() for part in named.split(os.pathsep) if part]
    if not paths:
        if not default.exists():
            raise CredentialsError(
                "no API server found: this is not a pod with a service account, KUBECONFIG is not set and there is no "
                f"{default}; name a file with --kubeconfig"
            )
        paths = [default]
    return _from_kubeconfig(paths, context)


def _in_pod(environ: collections.abc.Mapping[str, str], folder: pathlib.Path) -> Endpoint:
    host = environ.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
    port = environ.get("KUBERNETES_SERVICE_PORT", "443")
    namespace = folder / "namespace"
    return Endpoint(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace=namespace.read_text(encoding="ascii").strip()
        if namespace.exists()
        else "default",
        ca_file=str(folder / "ca.crt") if (folder / "ca.crt").exists() else "",
        token_file=str(folder / "token"),
    )


def _from_kubeconfig(paths: collections.abc.Sequence[pathlib.Path], context: str) -> Endpoint:
    files = [_parsed(path) for path in paths]
    where = os.pathsep.join(str(path) for path in paths)
    # As in kubectl, the first of several files that sets a value wins.
    name = context or next((c for _, f in files if (c := f.get("current-context"))), "")
    if not name:
        raise CredentialsError(f"{where} names no current-context; choose one with --context")
    _, chosen = _named(files, "context", name, where)
    cluster_at, cluster = _named(files, "cluster", str(chosen.get("cluster") or ""), where)
    user_at, user = _named(files, "user", str(chosen.get("user") or ""), where)
    if "auth-provider" in user or "username" in user:
        raise CredentialsError(
            f"user {chosen.get('user')!r} of {where} logs in by auth-provider or password, which Kubernetes dropped; use "
            "a token, a client certificate or an exec plugin"
        )
    plugin = user.get("exec")
    return Endpoint(
        server=str(cluster.get("server") or "").rstrip("/"),
        namespace=str(chosen.get("namespace") or "default"),
        ca_file=_beside(cluster_at, cluster.get("certificate-authority")),
        ca_data=_pem(cluster.get("certificate-authority-data")),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=str(cluster.get("tls-server-name") or ""),
        certificate_file=_beside(user_at, user.get("client-certificate")),
        certificate_data=_pem(user.get("client-certificate-data")),
        key_file=_beside(user_at, user.get("client-key")),
        key_data=_pem(user.get("client-key-data")),
        token=str(user.get("token") or ""),
        token_file=_beside(user_at, user.get("tokenFile")),
        exec=_exec(plugin) if plugin else None,
        proxy=str(cluster.get("proxy-url") or ""),
    )


_Parsed = tuple[pathlib.Path, dict[str, typing.Any]]


def _parsed(path: pathlib.Path) -> _Parsed:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CredentialsError(f"cannot read the kubeconfig {path}: {error}") from None
    except yaml.YAMLError as error:
        raise CredentialsError(f"the kubeconfig {path} is not valid YAML: {error}") from None
    if not isinstance(content, dict):
        raise CredentialsError(f"the kubeconfig {path} is not a mapping")
    return path, content


def _named(files: collections.abc.Sequence[_Parsed], what: str, name: str, where: str) -> _Parsed:
    for path, content in files:
        for item in content.get(f"{what}s") or []:
            if item.get("name") == name:
                return path, item.get(what) or {}
    raise CredentialsError(f"{where} has no {what} named {name!r}")


def _beside(kubeconfig: pathlib.Path, name: object) -> str:
    """A path in a kubeconfig, which is relative to the file's folder; "" when not set."""
    return str(kubeconfig.parent / str(name)) if name else ""


def _pem(data: object) -> str:
    return base64.b64decode(str(data)).decode("ascii") if data else ""


def _exec(plugin: collections.abc.Mapping[str, typing.Any]) -> Exec:
    return Exec(
        command=str(plugin["command"]),
        args=tuple(str(arg) for arg in plugin.get("args") or []),
        env=tuple((str(e["name"]), str(e["value"])) for e in plugin.get("env") or []),
        api_version=str(plugin.get("apiVersion") or "client.authentication.k8s.io/v1"),
    )
