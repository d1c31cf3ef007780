"""The transformer and the explainer of a service as services of their own, from which the builders make their children as they make the main ones.

Their children are called <name>-transformer and <name>-explainer. Their component label differs, as that of a canary. A canary has the transformer
once more in front of it, <name>-canary-transformer: routes then divide the requests between both transformers. What a platform enforces counts
for them as for the servers: their own fields stand in the predictor's, those of the profile that belong to the server alone are left out.
"""

import dataclasses
import typing

import msgspec

from naiad_operator import versions
from naiad_operator.api.parsing.merging import STORES
from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.api.types.accelerator import Accelerator
from naiad_operator.api.types.component import DEFAULT_REPLICAS, Component
from naiad_operator.api.types.model import Model, Storage
from naiad_operator.api.types.pod import Ports, Probes, Resources, StartupProbe
from naiad_operator.api.types.profile import ProfileSpec, StoreDefaults
from naiad_operator.api.types.scaling import Autoscaling
from naiad_operator.api.types.spec import Predictor, Spec
from naiad_operator.api.types.traffic import Service
from naiad_operator.builders.facts import CanaryFacts, ClusterFacts
from naiad_operator.errors import Problem

TRANSFORMER, EXPLAINER = "transformer", "explainer"
CANARY_TRANSFORMER = "canary-transformer"
NAMES: typing.Final = (EXPLAINER, CANARY_TRANSFORMER, TRANSFORMER)
"""In the order in which their children are applied: what is behind comes first."""
FIELDS: typing.Final = (EXPLAINER, TRANSFORMER)
"""Those with a field of the spec and of the status."""

_PERIOD_S = 5


def name(service: InferenceService, component: str) -> str:
    """The name of a component's Deployment and Service."""
    return f"{service.name}-{component}"


def services_of(service: InferenceService) -> list[InferenceService]:
    """The components of a service as services."""
    return [made for one in NAMES if (made := service_of(service, one)) is not None]


def service_of(service: InferenceService, component: str) -> InferenceService | None:
    """A component as a service; None when the spec has none. Only the main service has routes."""
    wanted = field_of(service.spec, component)
    if wanted is None or service.canary_of:
        return None
    own = field_of(service.own_spec, component) or wanted
    held = service.profile.spec if service.profile is not None else None
    made = _with_profile(_predictor(wanted), held)
    if wanted.storage_uri is not None:
        # The image of the servers fetches its files.
        secrets = (*(service.spec.predictor.image_pull_secrets or ()), *(made.image_pull_secrets or ()))  # fmt: skip
        by_name = {one.name: one for one in secrets}
        made = msgspec.structs.replace(made, image_pull_secrets=tuple(by_name.values()) or None)
    return dataclasses.replace(
        service,
        name=name(service, component),
        canary_of=service.name,
        component=component,
        spec=_spec(service.spec, made),
        own_spec=_spec(service.own_spec, _predictor(own)),
    )


def field_of(spec: Spec, component: str) -> Component | None:
    """What the spec says of a component; None when it has none."""
    if component == EXPLAINER:
        return spec.explainer
    if component == TRANSFORMER or spec.transformer is None:
        return spec.transformer
    if spec.canary is None:
        return None
    image = spec.canary.transformer_image or spec.transformer.image
    return msgspec.structs.replace(spec.transformer, image=image)


def of(service: InferenceService) -> Component:
    """The component that a service from `service_of` is."""
    own = service.spec.explainer if service.component == EXPLAINER else service.spec.transformer
    assert own is not None
    return own


def _spec(spec: Spec, predictor: Predictor) -> Spec:
    return msgspec.structs.replace(
        spec,
        predictor=predictor,
        service=Service(),
        ingress=None,
        gateway=None,
        path_prefix=None,
        canary=None,
        mirror=None,
        monitoring=None,
        auth=None,
    )


def _predictor(wanted: Component) -> Predictor:
    """A component's own fields as those of a predictor without models and devices; what it fetches stands where models do."""
    return Predictor(
        model=Model(storage_uri=wanted.storage_uri, storage=wanted.storage),
        image=wanted.image,
        image_pull_secrets=wanted.image_pull_secrets,
        args=wanted.args,
        env=wanted.env,
        env_from=wanted.env_from,
        ports=Ports(http=wanted.port),
        accelerator=Accelerator(type="none"),
        resources=wanted.resources,
        replicas=_replicas(wanted),
        autoscaling=_scaling(wanted),
        probes=_probes(wanted),
        termination_grace_period_seconds=wanted.termination_grace_period_seconds,
        pod_disruption_budget=wanted.pod_disruption_budget,
        service_account_name=wanted.service_account_name,
        automount_service_account_token=wanted.automount_service_account_token,
        node_selector=wanted.node_selector,
        tolerations=wanted.tolerations,
        affinity=wanted.affinity,
        priority_class_name=wanted.priority_class_name,
        runtime_class_name=wanted.runtime_class_name,
        pod_template=wanted.pod_template,
    )


def _replicas(wanted: Component) -> int | None:
    if wanted.autoscaling is not None:
        return None
    return DEFAULT_REPLICAS if wanted.replicas is None else wanted.replicas


def _scaling(wanted: Component) -> Autoscaling | None:
    scaling = wanted.autoscaling
    if scaling is None:
        return None
    target = {"type": "Utilization", "averageUtilization": scaling.cpu_percent}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    return Autoscaling(
        scaler="hpa",
        min_replicas=scaling.min_replicas,
        max_replicas=scaling.max_replicas,
        metrics=(metric,),
    )


def _probes(wanted: Component) -> Probes:
    checks = -(-wanted.startup_seconds // _PERIOD_S)
    startup = StartupProbe(period_seconds=_PERIOD_S, failure_threshold=max(checks, 1))
    return Probes(startup=startup)


_REPLACED = (
    "service_account_name", "automount_service_account_token", "affinity", "priority_class_name", "runtime_class_name",
)  # fmt: skip


def _with_profile(predictor: Predictor, held: ProfileSpec | None) -> Predictor:
    """With what a profile says of pods and stores; what it says of the server (image, options, cache) is not the component's."""
    if held is None:
        return predictor
    fields: dict[str, typing.Any] = {
        field: getattr(held, field) for field in _REPLACED if getattr(predictor, field) is None
    }
    fields["node_selector"] = {
        **(held.node_selector or {}),
        **(predictor.node_selector or {}),
    } or None
    fields["resources"] = _resources(predictor.resources, held.resources)
    fields["env_from"] = (*(held.env_from or ()), *(predictor.env_from or ())) or None
    for field in ("env", "image_pull_secrets"):
        both = (*(getattr(held, field) or ()), *(getattr(predictor, field) or ()))
        fields[field] = tuple({one.name: one for one in both}.values()) or None
    fields["model"] = _with_storage(predictor.model, held.storage)
    return msgspec.structs.replace(predictor, **fields)


def _with_storage(model: Model, stores: StoreDefaults | None) -> Model:
    """With the profile's storage for the kind of store, as `api.parsing.merging` gives it to the servers' repositories."""
    if model.storage_uri is None or model.storage is not None or stores is None:
        return model
    field = STORES.get(model.storage_uri.partition("://")[0], "")
    storage: Storage | None = getattr(stores, field, None)
    return msgspec.structs.replace(model, storage=storage)


def _resources(own: Resources | None, held: Resources | None) -> Resources | None:
    """Requests and limits, as `api.parsing.merging` joins the servers': those of one resource come from one side."""
    if own is None or held is None:
        return own or held
    named = {*(own.requests or ()), *(own.limits or ())}
    both = {
        field: {
            **{key: one for key, one in (getattr(held, field) or {}).items() if key not in named},
            **(getattr(own, field) or {}),
        }
        or None
        for field in ("requests", "limits")
    }
    return Resources(**both)


def facts_of(service: InferenceService, facts: ClusterFacts) -> ClusterFacts:
    """The facts for a component: its own image, and the state of its own Deployment."""
    own = facts.components.get(service.component, CanaryFacts())
    return dataclasses.replace(
        facts,
        image=service.spec.predictor.image or "",
        server_version=versions.OWN,
        fetcher=facts.image,
        fetcher_version=facts.server_version,
        requests=own.requests,
        current_replicas=own.current_replicas,
        kept_replicas=None,
        replicas_are_ours=own.replicas_are_ours,
    )


def problem(of_predictor: Problem, component: InferenceService) -> Problem:
    """A problem of a component's predictor, at the component's field."""
    field = component.component_field
    path = of_predictor.path.replace("spec.predictor.model.", "spec.predictor.", 1)
    path = path.replace("spec.predictor", f"spec.{field}", 1)
    if (
        component.component == CANARY_TRANSFORMER
        and path == f"spec.{field}.image"
        and component.own_spec.predictor.image != of(component).image
    ):
        path = "spec.canary.transformerImage"
    return Problem(path, of_predictor.message)


def leads(service: InferenceService, component: str, facts: ClusterFacts) -> bool:
    """Whether requests go to a component now: from the first moment of a service on, else once its first pod serves, and then for ever.

    Before that, the requests of a service that got a transformer later still reach the servers; after that, requests in the transformer's form must
    not, also while none of its pods serves.
    """
    if field_of(service.spec, component) is None or service.canary_of:
        return False
    before = service.status.get(component) or {}
    is_new = not service.status.get("url")
    own = facts.components.get(component, CanaryFacts())
    return is_new or own.serves or bool(before.get("leads"))
