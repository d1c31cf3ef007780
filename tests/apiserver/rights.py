"""The operator's rights: given as an installation gives them, and what an operator missed of them."""

import functools

from tests.apiserver.client import Kubectl, Object, until
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.objects import served, token_of
from tests.apiserver.operator import OperatorProcess

_BINDINGS = ("ClusterRoleBinding", "RoleBinding")
_FIRST = ("Namespace", "CustomResourceDefinition")


def given(plane: ControlPlane, admin: Kubectl, objects: list[Object]) -> str:
    """Applies the objects of an installation, and waits until the API server serves its kinds and grants its roles.

    Returns:
        A token of the operator's ServiceAccount, which is among them.
    """
    account: Object = {}
    rules: list[tuple[str, Object]] = []
    bound = {one["roleRef"]["name"] for one in objects if one["kind"] in _BINDINGS}
    for manifest in sorted(objects, key=lambda manifest: manifest["kind"] not in _FIRST):
        admin.apply(manifest, manager="helm", force=True)
        metadata = manifest["metadata"]
        if manifest["kind"] == "CustomResourceDefinition":
            served(admin, manifest)
        elif manifest["kind"] == "ServiceAccount":
            account = metadata
        elif manifest["kind"] in ("ClusterRole", "Role") and metadata["name"] in bound:
            rules += [(metadata.get("namespace", ""), rule) for rule in manifest["rules"]]
    token = token_of(admin, account["name"], account["namespace"])
    user = plane.user(token)
    # The API server learns of new roles and bindings by watches of its own, which are late on a busy machine.
    for namespace, rule in rules:
        until(f"{rule} to hold", functools.partial(_is_allowed, user, namespace, rule))
    user.close()
    return token


def _is_allowed(user: Kubectl, namespace: str, rule: Object) -> bool:
    """Whether a user may what a rule of a role grants; of its resources and verbs the first."""
    [group, *_], [resource, *_], [verb, *_] = rule["apiGroups"], rule["resources"], rule["verbs"]
    resource, _, subresource = resource.partition("/")
    asked = {"group": group, "resource": resource, "subresource": subresource, "verb": verb}
    if rule.get("resourceNames"):
        asked["name"] = rule["resourceNames"][0]
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {**asked, "namespace": namespace}},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return bool(user.request("POST", path, body=review)["status"]["allowed"])


def refusals(operator: OperatorProcess) -> list[str]:
    """What an operator logged of requests that its rights did not allow."""
    return [line["message"] for line in operator.lines() if "forbidden" in str(line).lower()]
