"""What a service's children should be: rendered from its spec and what is recorded, with the pod templates that its pods may have now. Pure."""

import collections.abc
import dataclasses
import datetime as dt
import typing

from naiad_operator import versions
from naiad_operator.api import names
from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.builders import build, canary, components, kinds
from naiad_operator.builders.facts import CanaryFacts, ClusterFacts
from naiad_operator.builders.names import Manifest
from naiad_operator.builders.workload import deployment, image, requests, storage
from naiad_operator.cluster.child_store import Child
from naiad_operator.reconcile.decisions import ownership, plan
from naiad_operator.status.upgrade import Upgrade, UpgradeState
from naiad_operator.upgrade import choice, record as records
from naiad_operator.upgrade.choice import Change, Rendered, Rollout
from naiad_operator.upgrade.record import Record
from naiad_operator.upgrade.scheduler import State, UpgradeScheduler, Upgrading, Waiting
from naiad_operator.upgrade.turn import ORDINARY, Hold, Turn, remaining

Records = collections.abc.Mapping[str, Record]
"""By the name of the Deployment: the service's own, and that of its canary."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """A Deployment of a service.

    Attributes:
        name: the Deployment's name.
        is_canary: whether it is the canary's.
        component: "transformer" or "explainer" if it is that one's; else "".
        rendered: the pod template that this operator renders, and what it was rendered from.
        record: the record on the Deployment; None if there is none.
        rollout: the Deployment in numbers.
        change: whether the template may be applied now.
    """

    name: str
    is_canary: bool
    rendered: Rendered
    record: Record | None
    rollout: Rollout
    change: Change
    component: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """What this operator renders for a service.

    Attributes:
        facts: the facts from which it was rendered.
        manifests: the children, with this operator's pod templates.
        pods: the Deployments, the service's own first. Both are upgraded together.
        turn: whether the service waits for its new templates, and its place among the others.
        defers: whether a newer operator has written the service's own Deployment, and this one is not to replace what that has written.
    """

    facts: ClusterFacts
    manifests: collections.abc.Sequence[Manifest]
    pods: collections.abc.Sequence[Pods]
    turn: Turn = ORDINARY
    defers: bool = False

    @property
    def is_staged(self) -> bool:
        """Whether pods get a new template only when the scheduler admits the service."""
        return any(pods.change is Change.STAGED for pods in self.pods)

    def waiting(self, *, is_starting: bool) -> Waiting:
        """The service as one that waits for its new template.

        Args:
            is_starting: whether its pods may still become ready with the present template. While none serves, nothing else is lost by replacing them.
        """
        staged = [pods.rollout for pods in self.pods if pods.change is Change.STAGED]
        is_lost = not is_starting and not any(rollout.available for rollout in staged)
        return Waiting(
            serves=any(rollout.serves for rollout in staged),
            stuck=is_lost or any(rollout.late for rollout in staged),
            turn=self.turn,
        )

    def choose(self, *, admitted: bool, now: str) -> dict[str, Record]:
        """The records to write, with the pod templates to apply; `choice.choose` has the arguments."""
        return {
            pods.name: choice.choose(
                pods.change, pods.record, pods.rendered, pods.rollout, admitted=admitted, now=now
            )
            for pods in self.pods
        }

    def manifests_with(self, chosen: Records) -> list[Manifest]:
        """The children, with these records and their pod templates."""
        return [
            _with_record(manifest, chosen[manifest["metadata"]["name"]])
            if manifest["kind"] == kinds.DEPLOYMENT.kind
            else manifest
            for manifest in self.manifests
        ]

    def writes_records_only(
        self, steps: collections.abc.Iterable[plan.Step], chosen: Records
    ) -> bool:
        """Whether Deployments are written and their pods stay: until its controller has observed that, each looks like a rollout."""
        kept = {
            pods.name
            for pods in self.pods
            if pods.record is not None and pods.record.template == chosen[pods.name].template
        }
        written = [
            (step.manifest["metadata"]["name"], step.drift)
            for step in steps
            if isinstance(step, plan.Apply) and step.manifest["kind"] == kinds.DEPLOYMENT.kind
        ]
        return bool(written) and all(name in kept and not drift for name, drift in written)

    def upgrade(
        self, chosen: Records, scheduler: UpgradeScheduler, namespace: str, now: dt.datetime
    ) -> Upgrade:
        """The upgrade of the service for its status: of its own pods, or of the canary's while only these are concerned.

        Args:
            chosen: from `choose`.
            scheduler: what is known of the other services.
            namespace: the service's own. A service of another one is not named: its name is not for the readers of this one.
            now: the time.
        """
        by = scheduler.paused_by
        paused_by = ""
        if by is not None:
            paused_by = str(by) if by.namespace == namespace else "a service of another namespace"
        states = [
            choice.state(
                pods.change,
                chosen[pods.name],
                pods.rendered,
                limit=scheduler.limit,
                paused_by=paused_by,
                is_canary=pods.is_canary,
                component=pods.component,
            )
            for pods in self.pods
        ]
        state = next((one for one in states if one.state is not UpgradeState.CURRENT), states[0])
        kind = state.state
        if kind in (UpgradeState.WAITING, UpgradeState.PAUSED):
            kind = _HELD.get(self.turn.hold, kind)
        limit_s = scheduler.time_limit_s
        return dataclasses.replace(
            state,
            state=kind,
            held_by=self.turn.why,
            time_limit_s=limit_s,
            is_overdue=kind is UpgradeState.UPGRADING and not remaining(state.since, now, limit_s),
            is_awaited=not scheduler.is_open,
        )

    def scheduler_state(
        self, upgrade: Upgrade, *, is_blocked: bool, is_starting: bool
    ) -> State | None:
        """The upgrade of the service for the scheduler.

        Args:
            upgrade: from `upgrade`.
            is_blocked: whether its new pods do not become ready.
            is_starting: as in `waiting`.
        """
        match upgrade.state:
            case UpgradeState.WAITING | UpgradeState.PAUSED | UpgradeState.HELD:
                return self.waiting(is_starting=is_starting)
            case UpgradeState.UPGRADING:
                return Upgrading(is_blocked=is_blocked, is_overdue=upgrade.is_overdue)
            case _:
                return None


_HELD = {Hold.PAUSED: UpgradeState.HELD, Hold.SKIPPED: UpgradeState.SKIPPED}


def claim_names(service: InferenceService) -> list[str]:
    """The PersistentVolumeClaims that the pods of a service and of its canary mount; their access modes are facts of the cluster."""
    parts = [part for part in (service, canary.service_of(service)) if part is not None]
    return sorted({name for part in parts for name in storage.claim_names(part)})


def steps_to(
    wanted: collections.abc.Iterable[Manifest],
    children: collections.abc.Iterable[Child],
    service: InferenceService,
    *,
    unwatched: collections.abc.Container[str],
    only_missing: bool,
    accepted: plan.Accepted,
    keeps: bool = True,
) -> list[plan.Step]:
    """The steps that bring the children to their wanted state.

    Args:
        wanted: the children as they should be.
        children: the children as they are.
        service: the service.
        unwatched: kinds that cannot be watched. Nothing is known about their objects: they are neither written nor deleted.
        only_missing: whether to create only children that do not exist: a newer operator has written the others.
        accepted: as in `plan.decide`.
        keeps: as in `plan.decide`.
    """
    wanted = [manifest for manifest in wanted if manifest["kind"] not in unwatched]
    children = [child for child in children if child.kind not in unwatched]
    if only_missing:
        present = {(child.kind, child.name) for child in children if not child.deleting}
        wanted = [m for m in wanted if (m["kind"], m["metadata"]["name"]) not in present]
        children = [child for child in children if child.deleting]
    owner = f"{names.KIND}.{names.GROUP} {service.name}"
    return plan.decide(
        wanted, children, uid=service.uid, owner=owner, accepted=accepted, keeps=keeps
    )


def render(
    service: InferenceService,
    children: collections.abc.Collection[Child],
    *,
    cluster: ClusterFacts,
    running: versions.Version | None,
    allow_downgrade: bool,
    turn: Turn = ORDINARY,
) -> Desired:
    """Renders the children of a service.

    Args:
        service: the service.
        children: its children in the informer store.
        cluster: the facts about the cluster; those about the service are filled in here.
        running: the server's version as a running pod reports it; None when none does.
        allow_downgrade: whether to replace the pod templates of newer operators.
        turn: the service's turn in an upgrade.

    Raises:
        InvalidSpec: this cluster, or the service's server, cannot run the spec.
    """
    main = _Deployed.of(children, service, service.name)
    beside = canary.service_of(service)
    of_canary = _Deployed.of(children, beside or service, canary.name(service))
    facts = _facts(service, main, cluster, running)
    facts = dataclasses.replace(facts, canary=_canary_facts(beside, of_canary, facts))
    others = [
        (one, _Deployed.of(children, one, one.name)) for one in components.services_of(service)
    ]
    facts = dataclasses.replace(
        facts,
        components={one.component: _component_facts(one, live, facts) for one, live in others},
    )
    manifests = build(service, facts)
    templates = {
        manifest["metadata"]["name"]: manifest["spec"]["template"]
        for manifest in manifests
        if manifest["kind"] == kinds.DEPLOYMENT.kind
    }
    parts = [(service, main, facts)]
    if beside is not None:
        parts.append((beside, of_canary, canary.facts_of(service, facts)))
    parts += [(one, live, components.facts_of(one, facts)) for one, live in others]
    pods = []
    for part, deployed, part_facts in parts:
        made_from = image.Recorded(
            part_facts.image,
            image.pods_hash(part),
            part_facts.server_version,
            requests.write(part_facts.requests),
        )
        rendered = Rendered(
            template=templates[part.name],
            made_from=made_from,
            kept_replicas=deployment.kept_replicas(part, part_facts),
            operator=versions.OWN,
        )
        rollout = choice.rollout(deployed.live) if deployed.live else Rollout()
        why = choice.change(deployed.record, rendered, rollout, allow_downgrade=allow_downgrade)
        pods.append(
            Pods(
                name=part.name,
                is_canary=part is beside,
                component=part.component,
                rendered=rendered,
                record=deployed.record,
                rollout=rollout,
                change=why,
            )
        )
    newer = main.record is not None and main.record.operator > versions.OWN
    return Desired(
        facts=facts, manifests=manifests, pods=pods, turn=turn, defers=newer and not allow_downgrade
    )


class _Deployed(typing.NamedTuple):
    """A Deployment as it is: empty if it does not exist."""

    live: dict[str, typing.Any]
    record: Record | None
    replicas_are_ours: bool

    @classmethod
    def of(
        cls, children: collections.abc.Iterable[Child], service: InferenceService, name: str
    ) -> typing.Self:
        for child in children:
            is_it = (child.kind, child.name) == (kinds.DEPLOYMENT.kind, name)
            if is_it and child.controller_uid == service.uid:
                ours = ownership.owns(child.owned(), "spec", "replicas")
                return cls(child.manifest(), records.of_deployment(child, service), ours)
        return cls({}, None, True)

    @property
    def replicas(self) -> int | None:
        return self.live["spec"].get("replicas", 1) if self.live else None

    @property
    def made_from(self) -> image.Recorded | None:
        return self.record.made_from if self.record is not None else None


def _facts(
    service: InferenceService,
    deployed: _Deployed,
    cluster: ClusterFacts,
    running: versions.Version | None,
) -> ClusterFacts:
    """The facts for the service's own pods."""
    record = deployed.record
    made_from = image.recorded_in_status(service) if record is None else record.made_from
    server = image.resolve(service, cluster.defaults, made_from, running)
    return dataclasses.replace(
        cluster,
        image=server.image,
        server_version=server.version,
        requests=requests.chosen(service, cluster.defaults.requests, deployed.made_from),
        current_replicas=deployed.replicas,
        kept_replicas=service.status.get("keptReplicas")
        if record is None
        else record.kept_replicas,
        replicas_are_ours=deployed.replicas_are_ours,
    )


def _canary_facts(
    beside: InferenceService | None, deployed: _Deployed, facts: ClusterFacts
) -> CanaryFacts:
    """The facts for the canary's pods: with an image of its own it has a server's version of its own."""
    version = facts.server_version
    if beside is not None and beside.spec.predictor.image:
        version = image.resolve(beside, facts.defaults, deployed.made_from).version
    status = deployed.live.get("status") or {}
    return CanaryFacts(
        current_replicas=deployed.replicas,
        replicas_are_ours=deployed.replicas_are_ours,
        serves=bool(status.get("availableReplicas")),
        server_version=version,
        requests=requests.chosen(beside, facts.defaults.requests, deployed.made_from)
        if beside is not None
        else requests.NONE,
    )


def _component_facts(
    component: InferenceService, deployed: _Deployed, facts: ClusterFacts
) -> CanaryFacts:
    """The facts for the pods of a transformer or an explainer."""
    status = deployed.live.get("status") or {}
    return CanaryFacts(
        current_replicas=deployed.replicas,
        replicas_are_ours=deployed.replicas_are_ours,
        serves=bool(status.get("availableReplicas")),
        requests=requests.chosen(component, facts.defaults.requests, deployed.made_from),
    )


def _with_record(manifest: Manifest, record: Record) -> Manifest:
    metadata = manifest["metadata"]
    annotations = {**(metadata.get("annotations") or {}), **records.annotations(record)}
    return {
        **manifest,
        "metadata": {**metadata, "annotations": annotations},
        "spec": {**manifest["spec"], "template": record.template},
    }
