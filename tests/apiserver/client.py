"""A person's view of the test API server: plain synchronous requests, as kubectl would send them.

Deliberately not the operator's own client: a test that asked through the code under test could not see its mistakes.
"""

import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlencode

import httpx

from tests.support.waiting import pause

Object = dict[str, Any]
_Found = TypeVar("_Found")

_KINDS = {
    "CustomResourceDefinition": ("apiextensions.k8s.io/v1", "customresourcedefinitions"),
    "Deployment": ("apps/v1", "deployments"),
    "ReplicaSet": ("apps/v1", "replicasets"),
    "HorizontalPodAutoscaler": ("autoscaling/v2", "horizontalpodautoscalers"),
    "PodDisruptionBudget": ("policy/v1", "poddisruptionbudgets"),
    "NetworkPolicy": ("networking.k8s.io/v1", "networkpolicies"),
    "Ingress": ("networking.k8s.io/v1", "ingresses"),
    "Service": ("v1", "services"),
    "EndpointSlice": ("discovery.k8s.io/v1", "endpointslices"),
    "ServiceAccount": ("v1", "serviceaccounts"),
    "Namespace": ("v1", "namespaces"),
    "Node": ("v1", "nodes"),
    "Pod": ("v1", "pods"),
    "Event": ("v1", "events"),
    "Secret": ("v1", "secrets"),
    "ConfigMap": ("v1", "configmaps"),
    "PersistentVolumeClaim": ("v1", "persistentvolumeclaims"),
    "Lease": ("coordination.k8s.io/v1", "leases"),
    "ResourceQuota": ("v1", "resourcequotas"),
    "ClusterRole": ("rbac.authorization.k8s.io/v1", "clusterroles"),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io/v1", "clusterrolebindings"),
    "Role": ("rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": ("rbac.authorization.k8s.io/v1", "rolebindings"),
    "ValidatingAdmissionPolicy": (
        "admissionregistration.k8s.io/v1",
        "validatingadmissionpolicies",
    ),
    "ValidatingAdmissionPolicyBinding": (
        "admissionregistration.k8s.io/v1",
        "validatingadmissionpolicybindings",
    ),
    "InferenceService": ("serving.naiad.dev/v1alpha1", "inferenceservices"),
    "NaiadProfile": ("serving.naiad.dev/v1alpha1", "naiadprofiles"),
    "ScaledObject": ("keda.sh/v1alpha1", "scaledobjects"),
    "HTTPRoute": ("gateway.networking.k8s.io/v1", "httproutes"),
    "GRPCRoute": ("gateway.networking.k8s.io/v1", "grpcroutes"),
    "PodMonitor": ("monitoring.coreos.com/v1", "podmonitors"),
    "ServiceMonitor": ("monitoring.coreos.com/v1", "servicemonitors"),
    "PrometheusRule": ("monitoring.coreos.com/v1", "prometheusrules"),
    "ResourceClaimTemplate": ("resource.k8s.io/v1", "resourceclaimtemplates"),
}
"""The apiVersion that a test means when it names only the kind, and the plural name."""
_CLUSTER_SCOPED = frozenset(
    {
        "CustomResourceDefinition",
        "Namespace",
        "Node",
        "ClusterRole",
        "ClusterRoleBinding",
        "NaiadProfile",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
)
NAIAD = "serving.naiad.dev/v1alpha1"
_FIRST_PAUSE_S = 0.05


class RefusedError(Exception):
    """The API server said no.

    Attributes:
        code: the HTTP status.
        status: the Status object that it answered.
    """

    def __init__(self, code: int, status: Object) -> None:
        super().__init__(f"{code}: {status.get('message', status)}")
        self.code = code
        self.status = status


class Kubectl:
    """One user's requests to one API server."""

    def __init__(self, server: str, ca: str, token: str) -> None:
        self.server = server
        self._http = httpx.Client(
            base_url=server,
            verify=ssl.create_default_context(cafile=ca),
            headers={"Authorization": f"Bearer {token}"},
            timeout=120,
            trust_env=False,
        )

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Object | list[Object] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Object:
        """Sends one request, and gives the answer's JSON.

        Raises:
            RefusedError: the answer's status is 400 or more.
        """
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type, "Accept": accept}
        answer = self._http.request(method, path, content=content, headers=headers)
        try:
            parsed: Object = answer.json()
        except ValueError:
            parsed = {"message": answer.text}
        if answer.status_code >= 400:
            raise RefusedError(answer.status_code, parsed)
        return parsed

    def get(self, kind: str, name: str, namespace: str = "", *, api: str = "") -> Object:
        """One object."""
        return self.request("GET", path_of(kind, namespace, name, api=api))

    def find(self, kind: str, name: str, namespace: str = "", *, api: str = "") -> Object | None:
        """One object, or None if it does not exist."""
        try:
            return self.get(kind, name, namespace, api=api)
        except RefusedError as refused:
            if refused.code == 404:
                return None
            raise

    def list(
        self, kind: str, namespace: str = "", *, labels: str = "", api: str = ""
    ) -> "list[Object]":
        """All objects of a kind."""
        query = f"?{urlencode({'labelSelector': labels})}" if labels else ""
        items: list[Object] = self.request("GET", path_of(kind, namespace, api=api) + query)[
            "items"
        ]
        return items

    def wait_for(self, kind: str, name: str, namespace: str) -> Object:
        """One object, as soon as it is there."""
        return until(f"{kind} {name}", lambda: self.find(kind, name, namespace))

    def gone(self, kind: str, namespace: str, *, labels: str) -> None:
        """Waits until no object of a kind has these labels."""
        until(f"no {kind}", lambda: not self.list(kind, namespace, labels=labels) or None)

    def create(self, manifest: Object, *, dry_run: bool = False) -> Object:
        """Creates an object, and refuses unknown fields as `kubectl create` does.

        Args:
            manifest: the object.
            dry_run: give what would be stored, and store nothing.
        """
        query = "?fieldValidation=Strict" + ("&dryRun=All" if dry_run else "")
        return self.request("POST", _path(manifest, named=False) + query, body=manifest)

    def apply(self, manifest: Object, *, manager: str = "kubectl", force: bool = False) -> Object:
        """`kubectl apply --server-side` with strict validation."""
        query = urlencode(
            {"fieldManager": manager, "force": str(force).lower(), "fieldValidation": "Strict"}
        )
        path = f"{_path(manifest)}?{query}"
        return self.request(
            "PATCH", path, body=manifest, content_type="application/apply-patch+yaml"
        )

    def patch(
        self,
        kind: str,
        name: str,
        namespace: str = "",
        *,
        body: Object,
        subresource: str = "",
        api: str = "",
    ) -> Object:
        """A JSON merge patch, as `kubectl patch --type=merge` and `kubectl scale` send it."""
        path = path_of(kind, namespace, name, api=api) + (f"/{subresource}" if subresource else "")
        path += "?fieldManager=kubectl"
        return self.request("PATCH", path, body=body, content_type="application/merge-patch+json")

    def replace_status(self, manifest: Object) -> Object:
        """Writes an object's status, as its controller or a kubelet would."""
        return self.request("PUT", f"{_path(manifest)}/status", body=manifest)

    @contextmanager
    def stream(self, path: str) -> Iterator[Iterator[Object]]:
        """The events of a watch."""
        with self.lines(path) as lines:
            yield (json.loads(line) for line in lines)

    @contextmanager
    def lines(self, path: str) -> Iterator[Iterator[str]]:
        """The lines of a watch."""
        with self._http.stream("GET", path, timeout=None) as answer:
            yield (line for line in answer.iter_lines() if line)

    def delete(self, kind: str, name: str, namespace: str = "", *, api: str = "") -> None:
        """`kubectl delete`: its children go in the background."""
        self.request(
            "DELETE",
            path_of(kind, namespace, name, api=api),
            body={"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"},
        )


def path_of(kind: str, namespace: str = "", name: str = "", *, api: str = "") -> str:
    """The path of a kind, or of one object of it."""
    default, plural = _KINDS[kind]
    version = api or default
    root = "/api/v1" if version == "v1" else f"/apis/{version}"
    scope = f"/namespaces/{namespace}" if namespace and kind not in _CLUSTER_SCOPED else ""
    return f"{root}{scope}/{plural}" + (f"/{name}" if name else "")


def _path(manifest: Mapping[str, Any], *, named: bool = True) -> str:
    metadata = manifest["metadata"]
    return path_of(
        manifest["kind"],
        metadata.get("namespace", ""),
        metadata["name"] if named else "",
        api=manifest["apiVersion"],
    )


def until(what: str, look: Callable[[], _Found | None], *, seconds: float = 120) -> _Found:
    """Asks until the answer is there: what a test of a real system does in place of sleeping for a guessed time.

    A result that is None, False, 0 or empty does not count yet.

    Raises:
        AssertionError: it did not come in time; the message says what was waited for.
    """
    began_s = time.monotonic()
    while True:
        looked = time.monotonic()
        found = look()
        if found:
            return found
        now = time.monotonic()
        waited = now - began_s
        assert waited < seconds, f"waited {seconds:g} s for {what}; the last look gave {found!r}"
        time.sleep(pause(waited, now - looked, shortest_s=_FIRST_PAUSE_S))
