"""The command `naiad-operator plan`: prints what this release would change in a cluster, before it is installed. It only reads.

It makes the same decisions as a reconcile, from the same objects and with the same options as `naiad-operator run`.
"""

import collections.abc
import dataclasses
import functools
import json
import sys
import time
import typing

from naiad_operator import versions
from naiad_operator.api import names
from naiad_operator.api.parsing import binding, profiles, service as services
from naiad_operator.api.parsing.service import Manifest, Profile
from naiad_operator.builders import bundle, kinds, names as labels
from naiad_operator.builders.facts import STRICT, ClusterFacts
from naiad_operator.cluster import child_store, client, credentials, errors, session
from naiad_operator.cluster.resource_ref import ResourceRef
from naiad_operator.errors import InvalidSpec
from naiad_operator.options import Options
from naiad_operator.reconcile.decisions import desired, plan
from naiad_operator.reconcile.lookups import cluster_info, nodes_and_claims
from naiad_operator.upgrade import template, turn as turns
from naiad_operator.upgrade.choice import Change
from naiad_operator.upgrade.turn import Hold

ProfileOf = collections.abc.Callable[[Manifest], Profile | None]

UNCHANGED, CHANGED, RESTARTED, INVALID = "unchanged", "changed", "restarted", "invalid"

NOTHING_RESTARTS, FAILED, SOMETHING_RESTARTS = 0, 1, 3
"""The exit statuses; 2 is a wrong command line."""

_LONGEST_VALUE = 200


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServicePlan:
    """What this release would change of one service.

    Attributes:
        result: unchanged; changed, and no pod restarts; restarted; or invalid, and its objects stay as they are.
        at_once: whether the pods restart without waiting, because the user has edited the service meanwhile.
        fields: the fields of the pod template that differ.
        objects: the objects that change, as "Kind name".
        message: why the service is invalid, or keeps its template.
        refused: what new installations of the operator refuse of it and this one allows.
        place: that of its namespace in an upgrade, and its own there.
    """

    namespace: str
    name: str
    result: str
    at_once: bool = False
    fields: tuple[template.Difference, ...] = ()
    objects: tuple[str, ...] = ()
    message: str = ""
    refused: tuple[str, ...] = ()
    place: tuple[int, int] = (0, 0)


async def run(options: Options, *, as_json: bool) -> int:
    """Prints the plan.

    Returns:
        The exit status.

    Raises:
        CredentialsError: no API server is configured, or its credentials cannot be loaded.
    """
    access = await credentials.find(kubeconfig=options.kubeconfig, context=options.context)
    api = client.Client(
        session.open_session(access, agent="naiad-operator/plan"),
        server=access.endpoint.server,
        manager=names.FIELD_MANAGER,
        timeouts=client.Timeouts(),
    )
    try:
        plans = await read(api, options)
    except errors.ApiError as error:
        sys.stderr.write(f"naiad-operator: {error}\n")
        return FAILED
    finally:
        await api.close()
    sys.stdout.write(_json(plans) if as_json else _text(plans, options.max_concurrent_restarts))
    restarts = any(one.result == RESTARTED for one in plans)
    return SOMETHING_RESTARTS if restarts else NOTHING_RESTARTS


async def read(api: client.Client, options: Options) -> list[ServicePlan]:
    """The plan of every service, in the order in which they are upgraded.

    Raises:
        ApiError: the API server refused or did not respond.
    """
    info = cluster_info.ClusterInfo(api)
    await info.refresh()
    claims = nodes_and_claims.Claims(api, time.monotonic)
    profile_of = await _profiles(api, info.kinds, options)
    store = child_store.ChildStore(
        child_store.Labels(
            instance=labels.INSTANCE_LABEL, manager=names.FIELD_MANAGER, owner=names.OWNER
        ),
        on_change=lambda *_: None,
        transforms={},
    )
    manifests: list[dict[str, typing.Any]] = []
    for namespace in options.namespaces or ("",):
        for kind in kinds.KINDS:
            if kind.optional and kind.key not in info.kinds:
                continue
            ref = ResourceRef(kind.api_version, kind.plural, namespace)
            async for items, _ in api.pages(ref, labels=labels.CHILD_SELECTOR):
                for item in items:
                    store.put(kind.kind, item)
        ref = ResourceRef(names.API_VERSION, names.PLURAL, namespace)
        async for items, _ in api.pages(ref):
            manifests += items
    plans = [
        await plan_of(manifest, profile_of, store, info.kinds, claims, options)
        for manifest in manifests
        if "deletionTimestamp" not in manifest["metadata"]
    ]
    return sorted(plans, key=lambda one: (one.place[0], one.namespace, one.place[1], one.name))


async def _profiles(api: client.Client, served: frozenset[str], options: Options) -> ProfileOf:
    """Reads the NaiadProfiles, and returns how a service gets one."""
    found: list[Manifest] = []
    unreadable = "" if options.profiles else "plan runs with --profiles=false"
    if options.profiles and f"{names.API_VERSION}/{names.PROFILE_KIND}" in served:
        try:
            async for items, _ in api.pages(ResourceRef(names.API_VERSION, names.PROFILE_PLURAL)):
                found += items
        except errors.Forbidden as error:
            unreadable = str(error)
    labels: dict[str, binding.Labels] = {}
    unknown = ""
    if any(binding.selects(profile) for profile in found):
        try:
            async for items, _ in api.pages(ResourceRef("v1", "namespaces")):
                labels |= {
                    one["metadata"]["name"]: one["metadata"].get("labels") or {} for one in items
                }
        except errors.Forbidden as error:
            unknown = str(error)

    def labels_of(namespace: str) -> binding.Labels:
        if unknown:
            raise binding.LabelsUnknown(unknown)
        return labels.get(namespace, {})

    return functools.partial(
        profiles.choose,
        profiles=found,
        fallback=options.default_profile,
        unreadable=unreadable,
        labels_of=labels_of,
    )


async def plan_of(  # noqa: PLR0917 - what a reconcile has as its dependencies
    manifest: Manifest,
    profile_of: ProfileOf,
    store: child_store.ChildStore,
    served: frozenset[str],
    claims: nodes_and_claims.Claims,
    options: Options,
) -> ServicePlan:
    """The plan of one service."""
    namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
    children = store.of_service(namespace, name)
    try:
        service = services.parse(manifest, profile_of(manifest))
        modes = await claims.access_modes(namespace, desired.claim_names(service))
        cluster = ClusterFacts(
            apis=served,
            image=options.defaults.image,
            defaults=options.defaults,
            claim_modes=modes,
        )
        made = desired.render(
            service,
            children,
            cluster=cluster,
            running=None,
            allow_downgrade=options.allow_downgrade,
        )
    except InvalidSpec as invalid:
        return ServicePlan(namespace=namespace, name=name, result=INVALID, message=str(invalid))
    turn = turns.of(service, options.upgrades)
    waits = [pods for pods in made.pods if pods.change in (Change.STAGED, Change.BEGUN)]
    edited = [pods for pods in made.pods if pods.change is Change.FREE and pods.rollout.total]
    fields = [field for pods in [*waits, *edited] for field in _fields(pods, name)]
    steps = desired.steps_to(
        made.manifests_with(made.choose(admitted=True, now="")),
        children,
        service,
        unwatched=(),
        only_missing=made.defers and service.is_observed,
        accepted=lambda *_: False,
    )
    held = "" if turn.hold is Hold.NONE or not waits else f"not now: {turn.why}"
    newer = [
        str(p.record.template_version) for p in made.pods if p.change is Change.NEWER and p.record
    ]
    # Pods without a record were changed by another client, and are put back.
    restarts = bool(waits or fields or any(pods.record is None for pods in edited))
    return ServicePlan(
        namespace=namespace,
        name=name,
        result=RESTARTED if restarts else CHANGED if steps else UNCHANGED,
        at_once=restarts and not waits,
        fields=tuple(fields),
        objects=tuple(dict.fromkeys(_object_of(step) for step in steps)),
        refused=tuple(str(one) for one in bundle.refused(service, made.facts, STRICT)),
        message=f"keeps the pod template of operator {newer[0]}, which is newer" if newer else held,
        place=(turn.rank, turn.order),
    )


def _fields(pods: desired.Pods, service: str) -> list[template.Difference]:
    """The fields of the pod template that differ; those of a canary with the name of its Deployment."""
    if pods.record is None:
        return []
    differences = template.differences(pods.record.template, pods.rendered.template)
    if pods.name == service:
        return differences
    return [field._replace(path=f"{pods.name}: {field.path}") for field in differences]


def _object_of(step: plan.Step) -> str:
    match step:
        case plan.Create(manifest) | plan.Apply(manifest):
            return f"{manifest['kind']} {manifest['metadata']['name']}"
        case plan.HandOver(name):
            return f"{kinds.DEPLOYMENT.kind} {name}"
        case plan.Delete(child) | plan.Keep(child):
            return f"{child.kind} {child.name}"
        case plan.Wait(kind, name):
            return f"{kind} {name}"


_STRICT_OPTIONS = "--pod-template=Restricted --triggers=Refuse"

_WORDS = {
    UNCHANGED: "unchanged",
    CHANGED: "would change, and no pod restarts",
    RESTARTED: "would restart its pods",
    INVALID: "is invalid, and its objects stay as they are",
}


def _text(plans: list[ServicePlan], limit: int) -> str:
    lines = [f"operator {versions.OWN}"]
    for one in plans:
        at_once = ", at once: it has been edited" if one.at_once else ""
        about = f" ({one.message})" if one.message else ""
        lines.append(f"{one.namespace}/{one.name}: {_WORDS[one.result]}{at_once}{about}")
        lines += [f"  {_field(field)}" for field in one.fields]
        if one.result == CHANGED:
            lines.append(f"  {', '.join(one.objects)}")
        lines += [f"  {_STRICT_OPTIONS} would refuse it: {words}" for words in one.refused]
    counts = {result: sum(one.result == result for one in plans) for result in _WORDS}
    order = f"{limit} at a time in this order"
    if not limit:
        order = "but none does with --max-concurrent-restarts=0, except those that have been edited"
    restarts = f"{counts[RESTARTED]} would restart, {order}"
    lines.append(
        f"{len(plans)} services: {restarts}; {counts[CHANGED]} would change without a restart, "
        f"{counts[UNCHANGED]} unchanged, {counts[INVALID]} invalid"
    )
    return "\n".join(lines) + "\n"


def _field(field: template.Difference) -> str:
    """A field in words: items that are added and removed for a list of texts, else both values."""
    before, after = field.before, field.after
    if _are_texts(before) and _are_texts(after):
        removed = [f"-{item}" for item in before if item not in after]
        added = [f"+{item}" for item in after if item not in before]
        if removed or added:
            return f"{field.path}: {_shortened(' '.join([*removed, *added]))}"
    return f"{field.path}: {_value(before)} → {_value(after)}"


def _are_texts(value: typing.Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _value(value: typing.Any) -> str:
    return "nothing" if value is None else _shortened(json.dumps(value))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def _json(plans: list[ServicePlan]) -> str:
    """The plan as one JSON object."""
    listed = [
        {
            "namespace": one.namespace,
            "name": one.name,
            "result": one.result,
            "atOnce": one.at_once,
            "fields": [field._asdict() for field in one.fields],
            "objects": one.objects,
            "message": one.message,
            "refused": one.refused,
        }
        for one in plans
    ]
    whole = {"operatorVersion": str(versions.OWN), "services": listed}
    return f"{json.dumps(whole, indent=2)}\n"
