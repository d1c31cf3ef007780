"""The keys of the cluster: two certificate authorities, a certificate per component, kubeconfig files, and the key of ServiceAccount tokens.

Made with the `openssl` command, in parallel: 0.6 s.
"""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import secrets
import subprocess

from e2e.cluster.layout import (
    API_SERVER,
    API_SERVICE_ADDRESS,
    CONTROL_PLANE_ADDRESS,
    NODES,
    Node,
)
from tests.toolchain import debian

_DAYS = "30"
_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
_AUTHORITIES = ("ca", "front-proxy-ca")


@dataclasses.dataclass(frozen=True, slots=True)
class _Leaf:
    name: str
    subject: str
    names: str = ""
    authority: str = "ca"
    kubeconfig: bool = False


def _leaves(nodes: tuple[Node, ...]) -> list[_Leaf]:
    service = "kubernetes.default.svc"
    hosts = ["kubernetes", "kubernetes.default", service, f"{service}.cluster.local"]
    addresses = [CONTROL_PLANE_ADDRESS, API_SERVICE_ADDRESS, "127.0.0.1"]
    api_names = ",".join([*(f"DNS:{host}" for host in hosts), *(f"IP:{ip}" for ip in addresses)])
    return [
        _Leaf("apiserver", "/CN=kube-apiserver", api_names),
        _Leaf("apiserver-kubelet", "/O=system:masters/CN=kube-apiserver-kubelet"),
        _Leaf("front-proxy", "/CN=front-proxy-client", authority="front-proxy-ca"),
        _Leaf("admin", "/O=system:masters/CN=admin", kubeconfig=True),
        *(
            _Leaf(name, f"/CN=system:{name}", kubeconfig=True)
            for name in ("kube-controller-manager", "kube-scheduler", "kube-proxy")
        ),
        *(_node(node) for node in nodes),
    ]


def _node(node: Node) -> _Leaf:
    subject = f"/O=system:nodes/CN=system:node:{node.name}"
    return _Leaf(node.name, subject, f"IP:{node.address},DNS:{node.name}", kubeconfig=True)


def make(folder: pathlib.Path) -> None:
    """Makes everything in `folder`: `NAME.crt`, `NAME.key`, `NAME.kubeconfig`, `sa.key`, `sa.pub`."""
    folder.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        token_key = pool.submit(_token_key, folder)
        for _ in pool.map(lambda name: authority(folder, name), _AUTHORITIES):
            pass
        for _ in pool.map(lambda leaf: _certificate(folder, leaf), _leaves(NODES)):
            pass
        token_key.result()


def add_node(folder: pathlib.Path, node: Node) -> None:
    """The certificate, key and kubeconfig file of a further node."""
    _certificate(folder, _node(node))


def serving(
    folder: pathlib.Path, name: str, hosts: "list[str]"
) -> tuple[pathlib.Path, pathlib.Path]:
    """A certificate and its key, signed by the authority `ca` of the folder, for host names."""
    leaf = _Leaf(name, f"/CN={hosts[0]}", ",".join(f"DNS:{host}" for host in hosts))
    _certificate(folder, leaf)
    return folder / f"{name}.crt", folder / f"{name}.key"


def authority(folder: pathlib.Path, name: str = "ca") -> pathlib.Path:
    """A certificate authority, `NAME.crt` and `NAME.key` in a folder; the certificate."""
    files = ("-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt")
    _openssl("req", "-x509", *_EC, *files, "-days", _DAYS, "-subj", f"/CN={name}")
    return folder / f"{name}.crt"


def _certificate(folder: pathlib.Path, leaf: _Leaf) -> None:
    key, request, certificate = (folder / f"{leaf.name}.{end}" for end in ("key", "csr", "crt"))
    extensions = folder / f"{leaf.name}.ext"
    lines = ["extendedKeyUsage=serverAuth,clientAuth"]
    if leaf.names:
        lines.append(f"subjectAltName={leaf.names}")
    extensions.write_text("\n".join(lines))
    _openssl("req", "-new", *_EC, "-keyout", key, "-out", request, "-subj", leaf.subject)
    issuer = folder / leaf.authority
    signed = ("-CA", f"{issuer}.crt", "-CAkey", f"{issuer}.key")
    serial = ("-set_serial", f"0x{secrets.token_hex(8)}")
    output = ("-out", certificate, "-extfile", extensions)
    _openssl("x509", "-req", "-in", request, *signed, *serial, "-days", _DAYS, *output)
    if leaf.kubeconfig:
        content = kubeconfig(folder, leaf.name)
        (folder / f"{leaf.name}.kubeconfig").write_text(json.dumps(content, indent=1))


def kubeconfig(folder: pathlib.Path, name: str) -> "dict[str, object]":
    """The kubeconfig of the user whose certificate is `name`."""
    cluster = {"server": API_SERVER, "certificate-authority": str(folder / "ca.crt")}
    files = {
        "client-certificate": str(folder / f"{name}.crt"),
        "client-key": str(folder / f"{name}.key"),
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "naiad", "cluster": cluster}],
        "users": [{"name": name, "user": files}],
        "contexts": [{"name": "naiad", "context": {"cluster": "naiad", "user": name}}],
        "current-context": "naiad",
    }


def _token_key(folder: pathlib.Path) -> None:
    _openssl("genrsa", "-out", folder / "sa.key", "2048")
    _openssl("rsa", "-in", folder / "sa.key", "-pubout", "-out", folder / "sa.pub")


def _openssl(*arguments: "str | pathlib.Path") -> None:
    command = ["openssl", *(str(argument) for argument in arguments)]
    # Valid since yesterday: a component whose clock is late must accept them, too.
    late = {"LD_PRELOAD": str(debian.unpacked("libfaketime")), "FAKETIME": "-1d"}
    environment = {**os.environ, **late}
    finished = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if finished.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {finished.stderr}")
