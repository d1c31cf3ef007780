"""`naiad-operator plan`: what it predicts for a service is what a reconcile would do."""

import asyncio
import dataclasses
import typing

import pytest

from naiad_operator import preview
from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.builders.facts import STRICT
from naiad_operator.cluster import packed
from naiad_operator.cluster.child_store import APPLIED_ANNOTATION, Child, ChildStore
from naiad_operator.options import Options
from naiad_operator.preview import CHANGED, INVALID, RESTARTED, UNCHANGED, ServicePlan
from naiad_operator.reconcile.decisions import plan
from naiad_operator.reconcile.lookups import nodes_and_claims
from naiad_operator.versions import OWN, Version
from tests.operator.reconcile.decisions.test_desired import deployments, owned, render, resource
from tests.support import manifests

Object = dict[str, typing.Any]
NEWER = Version(9, 0, 0)
OPTIONS = Options(defaults=manifests.DEFAULTS)


class Store:
    """The children of one service."""

    def __init__(self, children: list[Child]) -> None:
        self._children = children

    def of_service(self, namespace: str, name: str) -> list[Child]:
        assert (namespace, name) == ("models", "demo")
        return self._children


class Claims:
    """Claims that pods on several nodes can mount; the names that were asked for."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def access_modes(self, namespace: str, names: list[str]) -> dict[str, frozenset[str]]:
        assert namespace == "models"
        self.names += names
        return {name: frozenset(("ReadWriteMany",)) for name in names}


def existing(manifest: Object) -> Child:
    """A child as the operator has applied it."""
    applied = plan.stamped(manifest)
    metadata = applied["metadata"]
    return Child(
        kind=manifest["kind"],
        namespace="models",
        name=metadata["name"],
        uid=f"uid-of-{manifest['kind']}-{metadata['name']}",
        version="1",
        instance="demo",
        controller_uid="uid-1",
        controller_name="InferenceService.serving.naiad.dev demo",
        deleting=False,
        applied=metadata["annotations"][APPLIED_ANNOTATION],
        fields=packed.pack(owned(applied)),
        body=packed.pack(applied),
    )


def at_rest(given: InferenceService) -> list[Child]:
    """Every child of a service, as this operator would leave it."""
    made = render(given)
    return [existing(one) for one in made.manifests_with(made.choose(admitted=False, now=""))]


def planned(
    given: InferenceService,
    children: list[Child],
    *,
    options: Options = OPTIONS,
    claims: Claims | None = None,
    **status: typing.Any,
) -> ServicePlan:
    return asyncio.run(
        preview.plan_of(
            {**given.raw, "status": status},
            lambda _: None,
            typing.cast("ChildStore", Store(children)),
            manifests.EVERY_API,
            typing.cast("nodes_and_claims.Claims", claims or Claims()),
            options,
        )
    )


def test_a_service_at_rest_is_unchanged() -> None:
    given = resource(canary=True)
    assert planned(given, at_rest(given)).result == UNCHANGED


def test_a_service_with_another_template_would_restart_and_names_its_fields() -> None:
    given = resource()
    found = planned(given, deployments(given))
    assert (found.result, found.at_once) == (RESTARTED, False)
    assert [field.path for field in found.fields] == ["spec.enableServiceLinks"]


def test_what_a_newer_operator_has_written_is_left_alone_as_in_a_reconcile() -> None:
    """Its Services may differ, too."""
    given = resource()
    newer = deployments(given, operator=NEWER, template_version=NEWER)
    others = [
        dataclasses.replace(child, applied="of a newer release")
        for child in at_rest(given)
        if child.kind != "Deployment"
    ]
    found = planned(given, [*newer, *others], observedGeneration=3)
    assert found.result == UNCHANGED
    assert found.message == "keeps the pod template of operator 9.0.0, which is newer"
    found = planned(given, [*newer, *others[1:]], observedGeneration=3)
    assert (found.result, found.objects) == (CHANGED, (f"{others[0].kind} {others[0].name}",))
    forced = dataclasses.replace(OPTIONS, allow_downgrade=True)
    assert planned(given, [*newer, *others], options=forced).result == RESTARTED


def test_the_claims_of_a_canary_count() -> None:
    """With an unknown claim its strategy would be another one."""
    manifest = resource(canary=True, accelerator={"type": "none"}).raw
    canary = {"weight": 10, "model": {"storageUri": "pvc://canary"}}
    given = dataclasses.replace(
        resource(), raw={**manifest, "spec": {**manifest["spec"], "canary": canary}}
    )
    claims = Claims()
    found = planned(given, [], claims=claims)
    assert claims.names == ["canary"]
    assert "Deployment demo-canary" in found.objects


def test_an_invalid_service_stays_as_it_is() -> None:
    given = resource()
    spec = {**given.raw["spec"], "canary": {"weight": 10}}
    wrong = dataclasses.replace(given, raw={**given.raw, "spec": spec})
    found = planned(wrong, at_rest(given))
    assert (found.result, found.objects) == (INVALID, ())
    assert "write spec.gateway" in found.message


def test_what_new_installations_refuse_is_listed_and_changes_nothing() -> None:
    given = resource(podTemplate={"spec": {"hostPID": True}})
    found = planned(given, at_rest(given))
    assert found.result == UNCHANGED
    [words] = found.refused
    assert words.startswith("spec.predictor.podTemplate.spec.hostPID: ")
    assert f"  --pod-template=Restricted --triggers=Refuse would refuse it: {words}\n" in preview._text([found], 1)  # fmt: skip
    strict = Options(defaults=dataclasses.replace(manifests.DEFAULTS, policy=STRICT))
    found = planned(given, at_rest(given), options=strict)
    assert (found.result, found.objects) == (INVALID, ())
    assert planned(resource(), at_rest(resource())).refused == ()


@pytest.mark.parametrize(
    ("limit", "order"),
    [
        (2, "1 would restart, 2 at a time in this order; "),
        (0, "1 would restart, but none does with --max-concurrent-restarts=0, except those that have been edited; "),
    ],
)  # fmt: skip
def test_the_last_line_says_in_which_order_services_restart(limit: int, order: str) -> None:
    given = resource()
    text = preview._text([planned(given, deployments(given))], limit)
    assert text.startswith(f"operator {OWN}\nmodels/demo: would restart its pods\n")
    assert order in text.splitlines()[-1]
