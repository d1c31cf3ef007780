"""Story a, secured: TLS up to the ingress controller, a token for every request, a second key for the calls that administrate."""

import pathlib
import typing

import pytest
import tritonclient.grpc
import tritonclient.http
import tritonclient.utils

from e2e import load, services
from e2e.cluster import certificates
from e2e.kubernetes import Kubernetes, Object

HOST = "demo.example.com"
GRPC_HOST = f"grpc.{HOST}"
TOKEN = "a-token-of-the-story"
ADMIN_KEY = "a-key-of-the-story"
_WAYS: dict[str, Object] = {
    "ingress": services.ingress(HOST, tls={"secretName": "demo-tls"}),
    "gateway": {**services.gateway(HOST), "parentRefs": [{"name": "secure"}], "tls": True},
}
_SECRETS = {"demo-tokens": {"token": TOKEN}, "demo-admin": {"key": ADMIN_KEY}}
_ADMIN = {
    "env": [{"name": "ADMIN_KEY", "valueFrom": {"secretKeyRef": {"name": "demo-admin", "key": "key"}}}],
    "args": [
        "--http-restricted-api=model-repository:admin-key=$(ADMIN_KEY)",
        "--grpc-restricted-protocol=model-repository:admin-key=$(ADMIN_KEY)",
    ],
}  # fmt: skip


def _gateway(name: str) -> Object:
    """A Gateway that ends TLS with the certificate of the Secret `demo-tls`."""
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": name},
        "spec": {
            "gatewayClassName": "traefik",
            "listeners": [
                {
                    "name": "https",
                    "protocol": "HTTPS",
                    "port": 8443,
                    "tls": {"certificateRefs": [{"name": "demo-tls"}]},
                }
            ],
        },
    }


@pytest.fixture(params=_WAYS)
def access(
    request: pytest.FixtureRequest, kubernetes: Kubernetes, tmp_path: pathlib.Path
) -> load.Access:
    """How clients reach a Ready service with TLS and a token."""
    authority = certificates.authority(tmp_path)
    certificate, key = certificates.serving(tmp_path, "demo", [HOST, GRPC_HOST])
    kubernetes.run("create", "secret", "tls", "demo-tls", f"--cert={certificate}", f"--key={key}")
    for name, values in _SECRETS.items():
        literals = [f"--from-literal={key}={value}" for key, value in values.items()]
        kubernetes.run("create", "secret", "generic", name, *literals)
    made = services.service("demo", predictor=_ADMIN, auth={"tokenSecret": "demo-tokens"})
    made["spec"][request.param] = _WAYS[request.param]
    extra = [_gateway("secure")] if request.param == "gateway" else []
    kubernetes.apply(services.secret(), *extra, made)
    kubernetes.wait_ready("demo")
    secured = load.Access(authority, TOKEN)
    load.wait_for_routes(
        kubernetes,
        lambda: load.http(f"{HOST}:443", secured),
        lambda: load.grpc(f"{GRPC_HOST}:443", secured),
    )
    return secured


def test_tls_and_a_token(
    kubernetes: Kubernetes, access: load.Access, tmp_path: pathlib.Path
) -> None:
    service = kubernetes.get("infsvc", "demo") or {}
    assert service["status"]["url"] == f"https://{HOST}"
    with load.grpc_stream(f"{GRPC_HOST}:443", access) as send:
        send()
    for token in ("", "another"):
        _is_refused(load.Access(access.authority, token))
    _only_the_admin_key_lists_models(access)
    other = load.Access(certificates.authority(tmp_path, "other"), TOKEN)
    assert not load.responds(lambda: load.http(f"{HOST}:443", other)), "it signed no certificate"


def _is_refused(stranger: load.Access) -> None:
    """Requests need the token; probes do not."""
    words = "token"
    with load.http(f"{HOST}:443", stranger) as send:
        with pytest.raises(tritonclient.utils.InferenceServerException, match=words) as over_http:
            send()
        assert over_http.value.status() == "401"
    with load.grpc(f"{GRPC_HOST}:443", stranger) as send:
        with pytest.raises(tritonclient.utils.InferenceServerException, match=words) as over_grpc:
            send()
        assert over_grpc.value.status() == "StatusCode.UNAUTHENTICATED"
    with load.http_client(f"{HOST}:443", stranger) as client:
        assert client.is_server_ready()


def _only_the_admin_key_lists_models(access: load.Access) -> None:
    """Over gRPC the header has Triton's prefix; the error message names it."""
    clients: dict[str, typing.Any] = {
        "admin-key": load.http_client(f"{HOST}:443", access),
        "triton-grpc-protocol-admin-key": load.grpc_client(f"{GRPC_HOST}:443", access),
    }
    for header, client in clients.items():
        with client:
            with pytest.raises(tritonclient.utils.InferenceServerException, match=f"restricted.*'{header}'"):  # fmt: skip
                client.get_model_repository_index(headers=access.headers)
            assert client.get_model_repository_index(headers={**access.headers, header: ADMIN_KEY})
