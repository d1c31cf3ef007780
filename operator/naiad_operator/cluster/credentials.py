"""Where the API server is and how to prove who we are: in a pod, or from a kubeconfig.

Read here and not by the package `kubernetes`: importing that costs 21 MB of resident memory, a third of the operator's, for a
file that is a few fields. What is read: the pod's service account (its token is read again each minute: the kubelet renews
it), and of a kubeconfig the current context with CA, client certificate, token, token file, exec plugin and proxy. Basic
authentication and the `auth-provider` block, both long gone from Kubernetes, are refused with a sentence.
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
"""How long a token read from a file is used; bound tokens are renewed at 80 % of an hour."""
_EXEC_TIMEOUT_S = 60.0

Clock = collections.abc.Callable[[], float]


class CredentialsError(Exception):
    """There are no usable credentials; the message says which file or variable to mend."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Exec:
    """A program that prints a token or a certificate (`aws eks get-token` and its like)."""

    command: str
    args: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    api_version: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server and how to log in there. Files are paths, data is PEM.

    Attributes:
        namespace: of the context, or of the pod.
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
        """The TLS settings for this server."""
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
    """A file that lives as long as the stack: `ssl` takes certificates from files only."""
    if not pem:
        return ""
    handle = tempfile.NamedTemporaryFile(mode="w", suffix=".pem")  # noqa: SIM115 - the stack closes it
    stack.enter_context(handle)
    handle.write(pem)
    handle.flush()
    return handle.name


class Tokens:
    """Gives the Authorization header for each request, renewing what grows old.

    Args:
        endpoint: whose token.
        clock: seconds that never go back.
    """

    def __init__(self, endpoint: Endpoint, *, clock: Clock) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._token = endpoint.token
        self._until = 0.0 if endpoint.token_file or endpoint.exec else float("inf")
        self._renewing = asyncio.Lock()

    async def header(self) -> dict[str, str]:
        """The header, empty where a client certificate is all the proof there is."""
        if self._clock() >= self._until:
            async with self._renewing:
                if self._clock() >= self._until:
                    await self._renew()
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def forget(self) -> None:
        """Renews before the next request: the server did not take the token."""
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
    """A few hundred bytes of a memory-backed volume, once a minute: no thread is worth that."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise CredentialsError(f"cannot read the token file {path}: {error}") from None


def _left(expires: str | None) -> float:
    """Seconds until a time that an exec plugin gave, less some for the way."""
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
        said = err.decode(errors="replace").strip()[-500:]
        raise CredentialsError(f"{what} exited {process.returncode}: {said}")
    try:
        status: dict[str, typing.Any] = json.loads(out)["status"]
    except (ValueError, KeyError):
        raise CredentialsError(f"{what} printed no ExecCredential with a status") from None
    if status.get("clientCertificateData"):
        raise CredentialsError(
            f"{what} gives a client certificate; only tokens are taken from plugins. Write the certificate into the "
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
        CredentialsError: there is none, or it cannot be used.
    """
    if not kubeconfig and (service_account / "token").exists():
        return _in_pod(environ, service_account)
    default = pathlib.Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"
    named = kubeconfig or environ.get("KUBECONFIG", "")
    paths = [pathlib.Path(part).expanduser() for part in named.split(os.pathsep) if part]
    if not paths:
        if not default.exists():
            raise CredentialsError(
                "no API server to talk to: this is no pod with a service account, KUBECONFIG is not set and there is no "
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
    # As kubectl merges several files: the first that says something wins.
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
        raise CredentialsError(f"the kubeconfig {path} is no YAML: {error}") from None
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
    """Paths in a kubeconfig are relative to its folder."""
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
