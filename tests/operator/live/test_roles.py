"""What the chart's roles for teams allow in a real API server: services without podTemplate, and with it."""

import collections.abc
import functools
import json
import typing

import pytest

from tests.apiserver import leftovers
from tests.apiserver.client import Kubectl, Object, RefusedError, path_of, until
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.objects import inference_service, make_namespace, token_of
from tests.support import helm

pytestmark = helm.needed

_INSTALLED = frozenset(
    {"ClusterRole", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
)
_OWN_ROLES: tuple[Object, ...] = tuple(
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"of-{name}"},
        "rules": [{"apiGroups": ["serving.naiad.dev"], "resources": resources, "verbs": ["*"]}],
    }
    for name, resources in (("everything", ["*"]), ("verbs", ["inferenceservices"]))
)
_PATCH: Object = {"spec": {"terminationGracePeriodSeconds": 30}}
_WITH: Object = {"podTemplate": _PATCH}
_REFUSED = "may not set, change or remove it"
_SPEC = {"spec": {"predictor": {"podTemplate": _PATCH}}}


@pytest.fixture(scope="module")
def own_plane(full_plane: ControlPlane) -> ControlPlane:
    """A control plane that knows the resources."""
    return full_plane


@pytest.fixture(scope="module")
def team(admin: Kubectl) -> typing.Iterator[str]:
    """A namespace, with the chart's roles and its policy in the cluster, which others' services are not to meet."""
    installed = [one for one in helm.manifests() if one["kind"] in _INSTALLED]
    for manifest in installed:
        admin.apply(manifest, manager="helm", force=True)
    namespace = make_namespace(admin, "roles-team")
    yield namespace
    leftovers.uninstall(admin, [*installed, *_OWN_ROLES])
    leftovers.empty(admin, namespace, ("InferenceService",))


def bound(plane: ControlPlane, admin: Kubectl, team: str, name: str, role: str) -> Kubectl:
    """A user with a role in the team's namespace."""
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": team},
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": team},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": team}],
    }
    admin.create(account)
    admin.create(binding)
    user = plane.user(token_of(admin, name, team))
    until(f"the rights of {name}", lambda: _may(lambda: user.list("InferenceService", team)))
    return user


Users = collections.abc.Callable[[str, str], Kubectl]


@pytest.fixture(scope="module")
def users(own_plane: ControlPlane, admin: Kubectl, team: str) -> typing.Iterator[Users]:
    """Makes a user of this name with a role."""
    made: list[Kubectl] = []

    def one(name: str, role: str) -> Kubectl:
        made.append(bound(own_plane, admin, team, name, role))
        return made[-1]

    yield one
    for each in made:
        each.close()


@pytest.fixture(scope="module")
def user(users: Users, team: str) -> Kubectl:
    """One with the role naiad-user, once the API server has taken up the policy."""
    made = users("user", "naiad-user")
    until("the policy", lambda: not _may(functools.partial(made.create, inference_service("probe", team, **_WITH), dry_run=True)))  # fmt: skip
    return made


@pytest.fixture(scope="module")
def editor(users: Users) -> Kubectl:
    """One with the role naiad-editor."""
    return users("editor", "naiad-editor")


def _may(request: collections.abc.Callable[[], typing.Any]) -> bool:
    try:
        request()
    except RefusedError as error:
        if error.code != 403:
            raise
        return False
    return True


def refused(request: collections.abc.Callable[[], typing.Any]) -> str:
    """What the API server answers."""
    with pytest.raises(RefusedError) as answer:
        request()
    assert answer.value.code == 403
    return str(answer.value)


def test_a_user_does_everything_with_services_but_set_a_pod_template(
    user: Kubectl, team: str
) -> None:
    made = inference_service("mine", team)
    user.create(made)
    user.patch(
        "InferenceService", "mine", team, body={"spec": {"predictor": {"args": ["--log-info=1"]}}}
    )
    user.patch(
        "InferenceService", "mine", team, body={"spec": {"replicas": 2}}, subresource="scale"
    )
    labelled: Object = {"metadata": {"labels": {"a": "b"}}}
    user.patch("InferenceService", "mine", team, body=labelled)
    live = user.get("InferenceService", "mine", team)
    assert live["spec"]["predictor"]["replicas"] == 2
    path = path_of("InferenceService", team, "mine")
    user.request("GET", f"{path}/status")
    user.request("PUT", path, body=live)
    set_it = functools.partial(user.patch, "InferenceService", "mine", team, body=_SPEC)
    message = refused(set_it)
    assert (
        "podTemplate (of spec.predictor, spec.transformer or spec.explainer): system:serviceaccount:roles-team:user may not set"
        in message
    )
    assert (
        "ask for the role naiad-editor there (update of inferenceservices/podtemplate)" in message
    )
    live["spec"]["predictor"]["podTemplate"] = _PATCH
    assert _REFUSED in refused(lambda: user.request("PUT", path, body=live))
    assert _REFUSED in refused(lambda: user.apply(inference_service("mine", team, **_WITH)))
    assert _REFUSED in refused(lambda: user.create(inference_service("other", team, **_WITH)))
    for component in ("transformer", "explainer"):
        of_component = {component: {"image": "registry.example.com/any:1", **_WITH}}
        other = inference_service("other", team, spec_=of_component)
        assert _REFUSED in refused(functools.partial(user.create, other))
        body: Object = {"spec": of_component}
        change = functools.partial(user.patch, "InferenceService", "mine", team, body=body)
        assert _REFUSED in refused(change)
    user.delete("InferenceService", "mine", team)


def test_a_user_reaches_nothing_else(user: Kubectl, admin: Kubectl, team: str) -> None:
    other = make_namespace(admin, "roles-other")
    refused(lambda: user.create(inference_service("mine", other)))
    refused(lambda: user.list("NaiadProfile"))
    for kind in ("Deployment", "Pod", "Secret", "ConfigMap", "Event"):
        refused(functools.partial(user.list, kind, team))
    status = f"{path_of('InferenceService', team, 'mine')}/status"
    refused(lambda: user.request("PUT", status, body=inference_service("mine", team)))


def test_a_user_edits_a_service_whose_pod_template_an_editor_has_set_and_leaves_that(
    user: Kubectl, editor: Kubectl, team: str
) -> None:
    file = inference_service("shared", team, **_WITH)
    editor.create(file)
    edit: Object = {"spec": {"predictor": {"args": ["--log-info=1"]}}}
    user.patch("InferenceService", "shared", team, body=edit)
    user.apply(file, force=True)  # with the same podTemplate
    for template in (None, {"spec": {"terminationGracePeriodSeconds": 31}}):
        body = {"spec": {"predictor": {"podTemplate": template}}}
        change = functools.partial(user.patch, "InferenceService", "shared", team, body=body)
        assert _REFUSED in refused(change)
        editor.patch("InferenceService", "shared", team, body=body)
        editor.patch("InferenceService", "shared", team, body=_SPEC)
    user.delete("InferenceService", "shared", team)


def test_rights_to_everything_of_the_group_include_it_and_all_verbs_of_services_do_not(
    admin: Kubectl, users: Users, user: Kubectl, team: str
) -> None:
    """A GitOps controller has the one; a role for services from before there was this right has the other."""
    assert user
    for role in _OWN_ROLES:
        admin.apply(role)
    users("gitops", "of-everything").apply(inference_service("gitops", team, **_WITH))
    other = users("verbs", "of-verbs")
    assert _REFUSED in refused(lambda: other.apply(inference_service("verbs", team, **_WITH)))


def test_a_large_or_deep_pod_template_is_compared_as_well(
    user: Kubectl, editor: Kubectl, team: str
) -> None:
    """What the policy costs has a limit in the API server: beyond it, a request would be refused, also an editor's."""
    deep: Object = {}
    for _ in range(300):
        deep = {"x": deep}
    wide = {f"key-{number}": "x" * 90 for number in range(10_000)}
    for name, template in (("deep", deep), ("wide", {"metadata": {"annotations": wide}})):
        made = inference_service(name, team, podTemplate=template)
        assert _REFUSED in refused(functools.partial(user.create, made))
        editor.create(made)
        edit: Object = {"spec": {"predictor": {"args": ["--log-info=1"]}}}
        user.patch("InferenceService", name, team, body=edit)
        changed = json.loads(json.dumps(template).replace("key-9999", "key-x", 1))
        changed["metadata"] = {**changed.get("metadata", {}), "labels": {"a": "b"}}
        body = {"spec": {"predictor": {"podTemplate": changed}}}
        change = functools.partial(user.patch, "InferenceService", name, team, body=body)
        assert _REFUSED in refused(change)
        user.delete("InferenceService", name, team)


def test_the_api_server_finds_nothing_wrong_with_the_policys_expressions(
    admin: Kubectl, user: Kubectl
) -> None:
    assert user

    def checked() -> Object | None:
        policy = admin.get("ValidatingAdmissionPolicy", "naiad-podtemplate")
        found: Object = policy.get("status") or {}
        return found if found.get("observedGeneration") else None

    assert "expressionWarnings" not in until("the check of types", checked).get("typeChecking", {})
