"""The InferenceServices of the stories, as plain dictionaries: the shortest useful one, and what a story adds to it."""

import contextlib
import functools
import http
import socket
import typing
import urllib.error
import urllib.request

from e2e import bucket
from e2e.kubernetes import KubectlError, Kubernetes

Object = dict[str, typing.Any]

SECRET = "models"  # noqa: S105 - its name
_KEYS = dict(zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), bucket.KEYS, strict=True))


def secret(**keys: str) -> Object:
    """The Secret with the object store's credentials; `keys` replace single ones."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET},
        "stringData": {**_KEYS, **keys},
    }


def service(
    name: str,
    *,
    uri: str = "s3://models/production",
    replicas: int | None = 1,
    predictor: "Object | None" = None,
    **spec: typing.Any,
) -> Object:
    """A service on the CPU with its models in the object store.

    Args:
        name: its name.
        uri: the repository.
        replicas: the number of pods; None leaves it out.
        predictor: further fields of `spec.predictor`, which replace those here.
        spec: further fields of `spec`.
    """
    storage = {"secretName": SECRET, "endpoint": bucket.ADDRESS, "region": bucket.REGION}
    made: Object = {
        "model": {"storageUri": uri, "storage": storage},
        "accelerator": {"type": "none"},
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
        # Short, so that a story of restarts takes seconds.
        "drainSeconds": 3,
        "terminationGracePeriodSeconds": 20,
    }
    if replicas is not None:
        made["replicas"] = replicas
    return {
        "apiVersion": "serving.naiad.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": name},
        "spec": {"predictor": {**made, **(predictor or {})}, **spec},
    }


def end(kubernetes: Kubernetes, name: str) -> None:
    """Deletes a service, and waits until its pods have given back what they had."""
    kubernetes.delete("infsvc", name)
    selector = f"app.kubernetes.io/instance={name}"
    kubernetes.wait(f"no pods of {name}", lambda: not kubernetes.list("pods", selector))


def end_routes(kubernetes: Kubernetes) -> None:
    """Deletes all services, and waits until the ingress controller has forgotten their routes: the next story's service has the same hosts."""
    routes = functools.partial(kubernetes.list, "ingresses,httproutes,grpcroutes")
    hosts = {host for route in routes() for host in _hosts(route["spec"])}
    with contextlib.suppress(KubectlError):  # the story has removed the CRD
        kubernetes.run("delete", "infsvc", "--all", "--timeout=60s")
    kubernetes.wait("no routes", lambda: not routes())
    for host in sorted(hosts):
        kubernetes.wait(f"no route of {host}", functools.partial(_is_unknown, host))


def _hosts(spec: Object) -> list[str]:
    return [*spec.get("hostnames", ()), *(rule["host"] for rule in spec.get("rules", ()) if "host" in rule)]  # fmt: skip


def _is_unknown(host: str) -> bool:
    """Whether the ingress controller has no route for a host. One without an address is a story's own, which asks another controller."""
    try:
        urllib.request.urlopen(f"http://{host}/v2/health/live", timeout=5).close()
    except urllib.error.HTTPError as error:
        return error.code == http.HTTPStatus.NOT_FOUND
    except urllib.error.URLError as error:
        return isinstance(error.reason, socket.gaierror)
    except OSError:
        return False
    return False


def ingress(host: str, **fields: typing.Any) -> Object:
    """The `ingress` of a service: `host` for HTTP and `grpc.<host>` for gRPC."""
    return {
        "enabled": True,
        "className": "traefik",
        "host": host,
        "grpcHost": f"grpc.{host}",
        **fields,
    }


def gateway(host: str) -> Object:
    """The `gateway` of a service, at the Gateway of the ingress controller."""
    parent = {"name": "public", "namespace": "ingress"}
    return {"parentRefs": [parent], "hostnames": [host], "grpcHostnames": [f"grpc.{host}"]}
