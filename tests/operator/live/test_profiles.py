"""NaiadProfiles: a service gets the one that it names or the default one, and what it becomes when that changes, goes, or never was."""

import pathlib
from collections.abc import Callable, Iterator

import pytest

from tests.apiserver import kubelet as kubelets
from tests.apiserver.client import Kubectl, Object, until
from tests.apiserver.kubelet import Kubelet
from tests.apiserver.objects import condition, inference_service, make_namespace, ready
from tests.apiserver.operator import OperatorProcess

Start = Callable[..., OperatorProcess]


def no_image(pod: Object) -> Object:
    """The image of the pod cannot be pulled."""
    return kubelets.waiting(pod, reason="ImagePullBackOff", message="no such image")


def no_node(pod: Object) -> Object:
    """No node takes the pod, for too short a time to count as a failure."""
    return kubelets.unschedulable(pod, message="no node matches the selector")


@pytest.fixture
def profiles(kubectl: Kubectl) -> Iterator[Callable[..., None]]:
    """Makes profiles, or changes them; they are in no namespace, so they go with the test."""
    made = set()

    def apply(name: str, **fields: object) -> None:
        made.add(name)
        manifest = {
            "apiVersion": "serving.naiad.dev/v1alpha1",
            "kind": "NaiadProfile",
            "metadata": {"name": name},
            "spec": fields,
        }
        kubectl.apply(manifest, force=True)

    yield apply
    for name in made:
        if kubectl.find("NaiadProfile", name) is not None:
            kubectl.delete("NaiadProfile", name)


DEFAULTS = {"cpu": "100m", "memory": "256Mi"}


def requests(kubectl: Kubectl, name: str, namespace: str) -> Object | None:
    """What the server's container requests other than by default; None without a Deployment."""
    deployment = kubectl.find("Deployment", name, namespace)
    if deployment is None:
        return None
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    found = container["resources"]["requests"]
    assert found.keys() >= DEFAULTS.keys()
    return {name: amount for name, amount in found.items() if amount != DEFAULTS.get(name)}


def requested(
    kubectl: Kubectl, kubelet: Kubelet, name: str, namespace: str, wanted: Object
) -> None:
    """Plays the node until the container requests this: a change of a profile waits until pods that start are ready."""

    def look() -> bool:
        kubelet.step(namespace)
        return requests(kubectl, name, namespace) == wanted

    until(f"{name} to request {wanted}", look)


@pytest.mark.usefixtures("operator")
def test_a_default_profile_counts_until_a_service_names_another(
    kubectl: Kubectl, kubelet: Kubelet, namespace: str, profiles: Callable[..., None]
) -> None:
    profiles(
        "platform",
        default=True,
        resources={"requests": {"cpu": "1", "memory": "4Gi"}},
        labels={"team": "ml"},
    )
    profiles("small", resources={"requests": {"cpu": "150m"}})
    kubectl.create(inference_service("plain", namespace, resources={"requests": {"memory": "8Gi"}}))
    kubectl.create(inference_service("named", namespace, spec_={"profile": "small"}))
    requested(kubectl, kubelet, "plain", namespace, {"cpu": "1", "memory": "8Gi"})
    requested(kubectl, kubelet, "named", namespace, {"cpu": "150m"})
    assert kubectl.get("Deployment", "plain", namespace)["metadata"]["labels"]["team"] == "ml"
    for name, profile in (("plain", "platform"), ("named", "small")):
        until(
            f"{name} to say its profile",
            lambda name=name, profile=profile: (  # type: ignore[misc]
                (kubectl.get("InferenceService", name, namespace).get("status") or {}).get(
                    "profile"
                )
                == profile
            ),
        )
    profiles("platform", default=True, resources={"requests": {"cpu": "2"}})
    requested(kubectl, kubelet, "plain", namespace, {"cpu": "2", "memory": "8Gi"})
    assert requests(kubectl, "named", namespace) == {"cpu": "150m"}
    kubectl.patch("InferenceService", "named", namespace, body={"spec": {"profile": None}})
    requested(kubectl, kubelet, "named", namespace, {"cpu": "2"})
    profiles("platform", default=False, resources={"requests": {"cpu": "2"}})
    requested(kubectl, kubelet, "named", namespace, {})
    for name in ("plain", "named"):
        kubectl.delete("InferenceService", name, namespace)


@pytest.mark.usefixtures("operator")
def test_a_change_of_a_profile_replaces_the_pods_of_one_service_at_a_time(
    kubectl: Kubectl, kubelet: Kubelet, namespace: str, profiles: Callable[..., None]
) -> None:
    profiles("platform", default=True, resources={"requests": {"cpu": "1"}})
    names = ("first", "second")
    for name in names:
        kubectl.create(inference_service(name, namespace))
        ready(kubectl, kubelet, name, namespace)
    profiles("platform", default=True, resources={"requests": {"cpu": "2"}})

    def reasons() -> list[str]:
        services = (kubectl.get("InferenceService", name, namespace) for name in names)
        return [condition(service, "Upgraded").get("reason", "") for service in services]

    until("one to wait for the other", lambda: reasons() == ["Upgrading", "UpgradePending"])
    assert [requests(kubectl, name, namespace) for name in names] == [{"cpu": "2"}, {"cpu": "1"}]
    for name in names:
        requested(kubectl, kubelet, name, namespace, {"cpu": "2"})
        kubectl.delete("InferenceService", name, namespace)


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("become", [no_image, no_node], ids=["no image", "no node"])
def test_pods_that_never_became_ready_get_a_corrected_profile_at_once(
    kubectl: Kubectl,
    kubelet: Kubelet,
    namespace: str,
    profiles: Callable[..., None],
    become: Callable[[Object], Object],
) -> None:
    profiles("platform", default=True, nodeSelector={"pool": "wrong"})
    kubectl.create(inference_service("never", namespace))

    def selectors(want: str) -> bool:
        kubelet.step(namespace, become=become)
        pods = kubelet.pods(namespace, labels="app.kubernetes.io/instance=never")
        return {"pool": want} in [pod["spec"].get("nodeSelector") for pod in pods]

    until("a pod that does not become ready", lambda: selectors("wrong"))
    kubelet.step(namespace, become=become)
    profiles("platform", default=True, nodeSelector={"pool": "right"})
    until("a pod of the right profile", lambda: selectors("right"))
    kubectl.delete("InferenceService", "never", namespace)


@pytest.mark.usefixtures("operator")
def test_a_profile_that_goes_takes_nothing_down_and_one_that_comes_is_used(
    kubectl: Kubectl, kubelet: Kubelet, namespace: str, profiles: Callable[..., None]
) -> None:
    kubectl.create(inference_service("early", namespace, spec_={"profile": "later"}))

    def valid(status: str, words: str = "") -> bool:
        said = condition(kubectl.get("InferenceService", "early", namespace), "SpecValid")
        return said.get("status") == status and words in said["message"]

    until(
        "the missing profile to be said", lambda: valid("False", "there is no NaiadProfile later")
    )
    assert kubectl.find("Deployment", "early", namespace) is None
    profiles("later", resources={"requests": {"cpu": "1"}})
    requested(kubectl, kubelet, "early", namespace, {"cpu": "1"})
    until("a valid spec", lambda: valid("True"))
    before = kubectl.get("Deployment", "early", namespace)["metadata"]["generation"]
    kubectl.delete("NaiadProfile", "later")
    until(
        "the missing profile to be said again",
        lambda: valid("False", "so everything stays as it is"),
    )
    service = kubectl.get("InferenceService", "early", namespace)
    assert condition(service, "Ready")["reason"] == "ProfileNotFound"
    assert kubectl.get("Deployment", "early", namespace)["metadata"]["generation"] == before
    kubectl.delete("InferenceService", "early", namespace)


def test_an_operator_that_may_not_read_profiles_uses_its_own_and_says_so(
    kubectl: Kubectl,
    kubelet: Kubelet,
    start: Start,
    profiles: Callable[..., None],
    tmp_path: pathlib.Path,
) -> None:
    namespace = make_namespace(kubectl, "no-profiles")  # the other tests' operator runs in theirs
    profiles("platform", default=True, resources={"requests": {"cpu": "1"}})
    file = tmp_path / "profile.yaml"
    file.write_text("resources: {requests: {cpu: 300m}}\n")
    operator = start(
        f"--watch-namespaces={namespace}", "--profiles=false", f"--default-profile={file}"
    ).wait_ready()
    kubectl.create(inference_service("own", namespace))
    kubectl.create(inference_service("asks", namespace, spec_={"profile": "platform"}))
    requested(kubectl, kubelet, "own", namespace, {"cpu": "300m"})

    def said() -> bool:
        shown = condition(kubectl.get("InferenceService", "asks", namespace), "SpecValid")
        return shown.get("reason") == "ProfileNotFound" and "--profiles=false" in shown["message"]

    until("the profile that cannot be read to be said", said)
    assert kubectl.find("Deployment", "asks", namespace) is None
    assert operator.stop() == 0
