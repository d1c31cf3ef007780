"""The credentials for the API server: the service account of the pod, or a kubeconfig, both read by the package `kubernetes`.

What the package lacks is here: it is called in a thread, again when credentials expire or were rejected, an exec plugin has a timeout
and its failure is an error, and several kubeconfigs count as for kubectl. The package is imported with the first load.
"""

import asyncio
import atexit
import base64
import collections.abc
import concurrent.futures
import contextlib
import dataclasses
import datetime as dt
import json
import math
import os
import pathlib
import re
import signal
import ssl
import subprocess
import tempfile
import threading
import time
import typing

import aiohttp

_SERVICE_ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_AGE_S = 60.0
"""How long a token read from a file is used; the kubelet renews tokens at 80 % of their hour."""
_EXPIRY_MARGIN_S = 30.0
_TIMEOUT_S = 60.0
_FOR_PLUGINS = "client.authentication.k8s.io/exec"


class CredentialsError(aiohttp.ClientConnectionError):
    """There are no usable credentials; the message names the file to fix. It counts as a broken connection, because kopf retries those."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address of an API server, and the credentials for it.

    Attributes:
        namespace: the namespace of the context, or of the pod.
        context: the context of the kubeconfig; "" in a pod.
        authorization: the Authorization header; "" without a token.
        tls: the TLS context; None for http://.
        server_name: the name in the server's certificate, unless it is that of the address.
        seconds: how long to use the credentials before they are loaded again.
    """

    server: str
    namespace: str = "default"
    context: str = ""
    authorization: str = dataclasses.field(default="", repr=False)
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    proxy: str = ""
    seconds: float = math.inf


class Credentials:
    """Provides the credentials for each request.

    Args:
        kubeconfig: where to load them again; see `find`.
        endpoint: the credentials to begin with.
        clock: monotonic, in seconds.

    Attributes:
        endpoint: the newest; server, namespace and proxy stay the same.
    """

    def __init__(
        self,
        kubeconfig: str,
        endpoint: Endpoint,
        *,
        clock: collections.abc.Callable[[], float] = time.monotonic,
    ) -> None:
        self.endpoint = endpoint
        self._kubeconfig = kubeconfig
        self._clock = clock
        self._until = clock() + endpoint.seconds
        self._renewal: asyncio.Task[None] | None = None

    async def current(self) -> Endpoint:
        """The credentials for a request that is sent now.

        Raises:
            CredentialsError: they had to be loaded again, which failed.
        """
        if self._clock() >= self._until:
            if self._renewal is None or self._renewal.done():
                self._renewal = asyncio.create_task(self._renew())
            # One for all requests, which goes on when they have timed out.
            await asyncio.shield(self._renewal)
        return self.endpoint

    def forget(self, rejected: Endpoint) -> None:
        """Loads again before the next request, after the server rejected these credentials."""
        if rejected is self.endpoint:
            self._until = -math.inf

    async def _renew(self) -> None:
        old = self.endpoint
        self.endpoint = await _in_thread(_load, self._kubeconfig, old.context, old.tls)
        self._until = self._clock() + self.endpoint.seconds


async def find(*, kubeconfig: str = "", context: str = "") -> Credentials:
    """Loads the named kubeconfig, else the pod's service account, else `$KUBECONFIG`, else ~/.kube/config.

    Raises:
        CredentialsError: there are no credentials, or they cannot be used.
    """
    return Credentials(kubeconfig, await _in_thread(_load, kubeconfig, context, None))


async def _in_thread(
    load: collections.abc.Callable[..., Endpoint], *arguments: typing.Any
) -> Endpoint:
    """Calls it in a thread for which the end of the process does not wait, as it would for one of `asyncio.to_thread`."""
    result: concurrent.futures.Future[Endpoint] = concurrent.futures.Future()
    result.set_running_or_notify_cancel()

    def run() -> None:
        try:
            result.set_result(load(*arguments))
        except BaseException as error:  # noqa: BLE001 - raised below
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    seconds = _TIMEOUT_S + 5  # longer than an exec plugin, whose own timeout says more
    try:
        return await asyncio.wait_for(asyncio.wrap_future(result), seconds)
    except TimeoutError:
        raise CredentialsError(f"the credentials could not be read in {seconds:g} s") from None


def _load(kubeconfig: str, context: str, old: ssl.SSLContext | None) -> Endpoint:
    """Loads credentials, with their TLS context of before if it is still right: connections end with it."""
    from kubernetes.client import Configuration  # noqa: PLC0415 - see the module
    from kubernetes.config.incluster_config import InClusterConfigLoader  # noqa: PLC0415

    config = Configuration(proxy="", no_proxy="")
    token, authority, name = (_SERVICE_ACCOUNT / file for file in ("token", "ca.crt", "namespace"))
    if not kubeconfig and token.exists():
        with _explained(f"the service account in {_SERVICE_ACCOUNT}"):
            InClusterConfigLoader(str(token), str(authority)).load_and_set(config)
            namespace = name.read_text(encoding="ascii").strip()
            return _endpoint(config, old, namespace=namespace, seconds=_TOKEN_AGE_S)
    paths = kubeconfig or os.environ.get("KUBECONFIG", "")
    if not paths:
        default = pathlib.Path("~/.kube/config").expanduser()
        if not default.exists():
            raise CredentialsError(
                "no API server found: this is not a pod with a service account, KUBECONFIG is not set and there is no "
                f"{default}; name a file with --kubeconfig"
            )
        paths = str(default)
    with _explained(f"the kubeconfig {paths}"), tempfile.TemporaryDirectory() as folder:
        return _endpoint(config, old, **_read(paths, context, config, pathlib.Path(folder)))


@contextlib.contextmanager
def _explained(what: str) -> collections.abc.Iterator[None]:
    """Says where an error was: the package checks little, and a malformed file leads to errors of any type.

    Messages of the package hold whole users with their secrets, which are left out.
    """
    try:
        yield
    except CredentialsError:
        raise
    except Exception as error:  # noqa: BLE001 - see above
        message = re.sub(r"/\{.*\}", "", str(error), flags=re.DOTALL)
        raise CredentialsError(f"{what} cannot be used: {message}") from None


def _endpoint(config: typing.Any, old: ssl.SSLContext | None, **more: typing.Any) -> Endpoint:
    context = old
    # Only a client certificate may be new.
    if config.host.startswith("https:") and (config.cert_file or not old):
        context = ssl.create_default_context(cafile=config.ssl_ca_cert)
        if not config.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if config.cert_file:
            # Without a password OpenSSL would ask for one on the terminal.
            context.load_cert_chain(config.cert_file, config.key_file, password="")
    return Endpoint(
        server=config.host,
        authorization=config.api_key.get("BearerToken", "").strip(),
        tls=context,
        server_name=config.tls_server_name or "",
        proxy=config.proxy,
        **more,
    )


def _read(
    paths: str, context: str, config: typing.Any, folder: pathlib.Path
) -> dict[str, typing.Any]:
    """Loads a context of kubeconfigs into a configuration, with temporary files in a folder; the namespace, context and seconds."""
    from kubernetes.config import kube_config  # noqa: PLC0415 - see the module

    merged = kube_config.KubeConfigMerger(paths)
    if merged.config is None:
        raise FileNotFoundError("there is no such file")
    # The package takes the current-context of the last file, kubectl that of the first.
    named = (file.get("current-context") for file in merged.config_files.values())
    name = context or next(filter(None, named), "")
    contexts = {item["name"]: item["context"].value for item in merged.config.value["contexts"]}
    if name not in contexts:
        problem = f"no context named {name!r}" if name else "no current-context"
        known = ", ".join(contexts) or "none"
        raise ValueError(f"it has {problem}; for --context there are: {known}")
    chosen = contexts[name]
    cluster = merged.config["clusters"].get_with_name(chosen["cluster"])["cluster"]
    config.host = cluster["server"]  # missing, it is an error; the package takes localhost
    seconds = math.inf
    if chosen.get("user"):
        user = merged.config["users"].get_with_name(chosen["user"])["user"]
        seconds = _prepare(user, cluster, folder)
    kube_config.load_kube_config_from_dict(
        merged.config, name, config, persist_config=False, temp_file_path=str(folder)
    )
    return {"namespace": chosen.get("namespace") or "default", "context": name, "seconds": seconds}


def _prepare(user: typing.Any, cluster: typing.Any, folder: pathlib.Path) -> float:
    """Changes a user of a kubeconfig to what the package reads as kubectl would; the seconds for which to use the credentials."""
    values, own_folder = user.value, pathlib.Path(user.path).absolute().parent
    for empty in [key for key, value in values.items() if not value]:
        del values[empty]
    if "auth-provider" in values or "username" in values:
        raise ValueError(
            f"{user.path} has a user with an auth-provider or a password, which is not supported; use a token, a client "
            "certificate or an exec plugin (for OpenID Connect e.g. kubelogin)"
        )
    for key in {"client-certificate", "client-key"} & values.keys():
        values[key] = str(own_folder / values[key])  # the package: beside the cluster's file
    if "tokenFile" in values:
        values.pop("token", None)
        return _TOKEN_AGE_S
    if "exec" not in values or "token" in values:
        return math.inf
    # The package would wait for a plugin without an end, and only log that it failed: instead its output takes its place.
    status = _run(user, cluster, own_folder)
    del values["exec"]
    if status.get("token"):
        values["token"] = status["token"]
    if status.get("clientKeyData"):
        pem = folder / "plugin.pem"
        pem.write_text(f"{status['clientCertificateData']}\n{status['clientKeyData']}")
        values |= {"client-certificate": str(pem), "client-key": str(pem)}
    if not status.get("expirationTimestamp"):
        return math.inf
    expires = dt.datetime.fromisoformat(status["expirationTimestamp"])
    return max(1.0, (expires - dt.datetime.now(dt.UTC)).total_seconds() - _EXPIRY_MARGIN_S)


def _run(user: typing.Any, cluster: typing.Any, folder: pathlib.Path) -> dict[str, typing.Any]:
    """The status that an exec plugin returns."""
    from kubernetes.config.exec_provider import ExecProvider  # noqa: PLC0415 - see the module

    plugin = ExecProvider(user["exec"], str(folder), cluster)
    spec = {"interactive": False} | ({"cluster": _cluster_info(cluster)} if plugin.cluster else {})
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    with _explained(f"the exec plugin {plugin.args[0]!r} of {user.path}"):
        with subprocess.Popen(  # noqa: S603 - the kubeconfig names it
            plugin.args,
            cwd=folder,
            env={**plugin.env, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # without a terminal to ask on
        ) as process:
            _plugins.add(process)
            try:
                output, error_output = process.communicate(timeout=_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                _kill(process)
                raise TimeoutError(f"it did not end in {_TIMEOUT_S:g} s") from None
            finally:
                _plugins.discard(process)
        status: dict[str, typing.Any] = {}
        with contextlib.suppress(ValueError, TypeError, KeyError):
            status = json.loads(output)["status"]
        certificate = status.get("clientCertificateData") and status.get("clientKeyData")
        if process.returncode or not (status.get("token") or certificate):
            stderr = error_output.decode(errors="replace").strip()[-500:]
            raise ValueError(
                f"it exited {process.returncode} and returned neither a token nor a client certificate with its key: {stderr}"
            )
        return status


_plugins: set[subprocess.Popen[bytes]] = set()
"""The exec plugins that run now: they are not in the terminal's session, whose Ctrl-C would end them with this process."""


@atexit.register
def _end_plugins() -> None:
    for process in tuple(_plugins):
        if process.poll() is None:
            _kill(process)


def _kill(plugin: subprocess.Popen[bytes]) -> None:
    """Ends a plugin with the programs that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(plugin.pid, signal.SIGKILL)


def _cluster_info(cluster: typing.Any) -> dict[str, typing.Any]:
    """What kubectl gives a plugin of a cluster: the authority in place of its file, and what its `extensions` hold for plugins."""
    info = dict(cluster.value)
    authority = info.pop("certificate-authority", "")
    if authority and not info.get("certificate-authority-data"):
        content = (pathlib.Path(cluster.path).absolute().parent / authority).read_bytes()
        info["certificate-authority-data"] = base64.b64encode(content).decode()
    for extension in info.pop("extensions", None) or ():
        if extension["name"] == _FOR_PLUGINS:
            info["config"] = extension["extension"]
    return info
