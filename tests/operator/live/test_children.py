"""Every manifest of the examples, as the API server itself judges it: strictly valid, and stored as it was written.

The second matters for peace: a field that comes back in another form than it went in would look like somebody's change for ever.
"""

import collections.abc
import copy
import pathlib
import typing

import pytest

from tests.apiserver import control_plane, foreign, toolchain
from tests.apiserver.client import Kubectl, RefusedError, path_of
from tests.apiserver.objects import make_namespace
from tests.monitoring import files
from tests.support import manifests

Manifest = dict[str, typing.Any]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[Kubectl]:
    """An API server of this module's own, which knows every optional kind."""
    folder = tmp_path_factory.mktemp("kubernetes")
    started = control_plane.start(folder, toolchain.find(), crds=foreign.definitions())
    try:
        admin = started.admin()
        yield admin
        admin.close()
    finally:
        started.stop()


@pytest.fixture(scope="module")
def here(everything: Kubectl) -> str:
    return make_namespace(everything, "children")


def created(kubectl: Kubectl, manifest: Manifest, namespace: str) -> Manifest:
    """What the API server would store; it is strict about unknown fields and stores nothing."""
    sent = copy.deepcopy(manifest)
    sent["metadata"]["namespace"] = namespace
    path = path_of(manifest["kind"], namespace, api=manifest["apiVersion"])
    return kubectl.request("POST", f"{path}?dryRun=All&fieldValidation=Strict", body=sent)


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
    everything: Kubectl, here: str, path: pathlib.Path
) -> None:
    for manifest in manifests.built(path):
        stored = created(everything, manifest, here)
        name = f"{manifest['kind']} {manifest['metadata']['name']}"
        assert list(differing(manifest["spec"], stored["spec"], name)) == []


@pytest.fixture(scope="module")
def restricted(everything: Kubectl) -> str:
    """A namespace that takes only restricted pods, with all that the examples' pods refer to."""
    name = "restricted"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    everything.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    )
    for account in ("default", "models-reader"):
        if account != "default":  # which a controller makes
            everything.create(
                {
                    "apiVersion": "v1",
                    "kind": "ServiceAccount",
                    "metadata": {"name": account, "namespace": name},
                }
            )
        everything.wait_for("ServiceAccount", account, name)
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "serving"},
        "value": 1,
    }
    everything.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body=priority)
    runtime = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"},
        "handler": "nvidia",
    }
    everything.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", body=runtime)
    return name


@pytest.mark.parametrize("path", manifests.INPUTS, ids=lambda path: path.stem)
def test_pods_keep_to_the_restricted_standard(
    everything: Kubectl, restricted: str, path: pathlib.Path
) -> None:
    deployment = next(m for m in manifests.built(path) if m["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": path.stem}}
    if path.stem == "pod-template":
        # A sidecar of the user's own is the user's own to restrict, and the API server says so.
        with pytest.raises(RefusedError, match=r'violates PodSecurity "restricted.*log-shipper'):
            created(everything, pod, restricted)
        return
    created(everything, pod, restricted)


def test_the_alerts_are_accepted(everything: Kubectl, here: str) -> None:
    stored = created(everything, files.ALERTS, here)
    assert list(differing(files.ALERTS["spec"], stored["spec"], "spec")) == []
