"""Every manifest of the examples, as the API server itself validates it: strictly valid, and stored as it was written.

The second matters for peace: a field that comes back in another form than it went in would look like a change by another client for ever.
"""

import collections.abc
import copy
import pathlib
import typing

import pytest

from tests.apiserver.client import Kubectl, RefusedError, until
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.objects import is_refused, make_namespace
from tests.monitoring import files
from tests.support import manifests

Manifest = dict[str, typing.Any]


@pytest.fixture(scope="module")
def own_plane(full_plane: ControlPlane) -> ControlPlane:
    """Every optional kind."""
    return full_plane


@pytest.fixture(scope="module")
def here(admin: Kubectl) -> str:
    return make_namespace(admin, "children")


def created(kubectl: Kubectl, manifest: Manifest, namespace: str) -> Manifest:
    """What the API server would store; it is strict about unknown fields and stores nothing."""
    sent = copy.deepcopy(manifest)
    sent["metadata"]["namespace"] = namespace
    return kubectl.create(sent, dry_run=True)


def of_the_standard_channel(manifest: Manifest) -> Manifest:
    """The manifest without the field of routes that the Gateway API here lacks: in its experimental channel, test_session_persistence stores it."""
    if manifest["kind"] not in {"HTTPRoute", "GRPCRoute"}:
        return manifest
    rules = [
        {field: value for field, value in rule.items() if field != "sessionPersistence"}
        for rule in manifest["spec"]["rules"]
    ]
    return {**manifest, "spec": {**manifest["spec"], "rules": rules}}


def differing(wanted: typing.Any, there: typing.Any, path: str) -> collections.abc.Iterator[str]:
    """Where what there is lacks something of what is wanted; more than is wanted is fine."""
    if isinstance(wanted, dict) and isinstance(there, dict):
        for field, value in wanted.items():
            yield from differing(value, there.get(field), f"{path}.{field}")
    elif isinstance(wanted, list) and isinstance(there, list) and len(wanted) == len(there):
        for number, (one, other) in enumerate(zip(wanted, there, strict=True)):
            yield from differing(one, other, f"{path}[{number}]")
    elif wanted is False and there is None:
        return  # some fields of Kubernetes' own leave false out; the operator knows (`reconcile.plan`: accepted)
    elif wanted != there:
        yield f"{path}: {wanted!r} is stored as {there!r}"


@pytest.mark.parametrize("path", manifests.INPUTS, ids=lambda path: path.stem)
def test_what_is_applied_is_accepted_and_stored_as_it_was_written(
    admin: Kubectl, here: str, path: pathlib.Path
) -> None:
    for built in manifests.built(path):
        manifest = of_the_standard_channel(built)
        stored = created(admin, manifest, here)
        name = f"{manifest['kind']} {manifest['metadata']['name']}"
        assert list(differing(manifest["spec"], stored["spec"], name)) == []


@pytest.fixture(scope="module")
def restricted(admin: Kubectl, here: str) -> str:
    """A namespace that takes only restricted pods, with all that the examples' pods refer to."""
    name = "restricted"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    admin.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    )
    for account in ("default", "models-reader"):
        if account != "default":  # which a controller makes
            admin.create(
                {
                    "apiVersion": "v1",
                    "kind": "ServiceAccount",
                    "metadata": {"name": account, "namespace": name},
                }
            )
        admin.wait_for("ServiceAccount", account, name)
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "serving"},
        "value": 1,
    }
    admin.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body=priority)
    runtime = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"},
        "handler": "nvidia",
    }
    admin.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", body=runtime)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "any", "namespace": here},
        "spec": {
            "priorityClassName": "serving",
            "runtimeClassName": "nvidia",
            "containers": [{"name": "c", "image": "i"}],
        },
    }
    until("both classes to be known", lambda: not is_refused(admin, pod, words="found"))
    return name


@pytest.mark.parametrize("path", manifests.INPUTS, ids=lambda path: path.stem)
def test_pods_keep_to_the_restricted_standard(
    admin: Kubectl, restricted: str, path: pathlib.Path
) -> None:
    deployment = next(m for m in manifests.built(path) if m["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": path.stem}}
    if path.stem == "pod-template":
        # A sidecar of the user's own is the user's own to restrict, and the API server says so.
        with pytest.raises(RefusedError, match=r'violates PodSecurity "restricted.*log-shipper'):
            created(admin, pod, restricted)
        return
    if path.stem == "cache-node":
        # A folder of the node, which only a profile names: its namespace is privileged.
        with pytest.raises(
            RefusedError, match='volume "cache" uses restricted volume type "hostPath"'
        ):
            created(admin, pod, restricted)
        return
    created(admin, pod, restricted)


def test_the_alerts_are_accepted(admin: Kubectl, here: str) -> None:
    stored = created(admin, files.ALERTS, here)
    assert list(differing(files.ALERTS["spec"], stored["spec"], "spec")) == []
