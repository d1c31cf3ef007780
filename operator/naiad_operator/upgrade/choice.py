"""Chooses the pod template of one Deployment: the new one now, or the present one until the scheduler admits the service. Pure.

A template that differs from the present one replaces pods. When the user's own edit is the reason, that is what the user wants. When it is
a new operator, or other defaults of the administrator, the service waits (`scheduler`) and keeps its template meanwhile.
"""

import collections.abc
import dataclasses
import enum
import typing

from naiad_operator.builders.workload import image
from naiad_operator.status.upgrade import Upgrade, UpgradeState
from naiad_operator.upgrade import template as templates
from naiad_operator.upgrade.record import Mark, Record
from naiad_operator.versions import Version

Object = dict[str, typing.Any]

_LATE = "ProgressDeadlineExceeded"


class Change(enum.Enum):
    """Why a template is, or is not, the one that this operator renders.

    Attributes:
        SAME: the template is the same.
        FREE: it differs, and nothing is lost by applying it: it is new, the user has edited the service, or there are no pods.
        STAGED: it differs because of this operator, so the service waits until the scheduler admits it.
        BEGUN: as before, and the service is already replacing its pods.
        NEWER: it was rendered by a newer operator, and stays until the user edits the service.
    """

    SAME = enum.auto()
    FREE = enum.auto()
    STAGED = enum.auto()
    BEGUN = enum.auto()
    NEWER = enum.auto()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """A Deployment in numbers.

    Attributes:
        desired: the wanted number of pods.
        total: all pods, and of them `updated` of the newest template and `available` that serve.
        current: whether the Deployment's controller has observed its newest spec.
        late: whether the pods have not become ready in their time.
    """

    desired: int = 0
    total: int = 0
    updated: int = 0
    available: int = 0
    current: bool = True
    late: bool = False

    @property
    def serves(self) -> bool:
        """Whether pods serve and none is being replaced, so that its upgrade ends when they do so again.

        A record that was just written also counts as a newer spec, which the controller has not observed yet: the numbers hold.
        """
        return self.updated == self.total and self.available > 0

    def is_finished(self, mark: Mark) -> bool:
        """Whether every pod has the new template, and as many are available as before."""
        replaced = self.current and self.updated == self.total
        return replaced and self.available >= min(mark.available, self.desired)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """What this operator renders for a service now.

    Attributes:
        template: the pod template.
        made_from: what it was rendered from.
        kept_replicas: as in `record.Record`.
        operator: the version of this operator.
    """

    template: Object
    made_from: image.Recorded
    kept_replicas: int | None
    operator: Version


def rollout(deployment: collections.abc.Mapping[str, typing.Any]) -> Rollout:
    """The numbers of a Deployment."""
    spec, status = deployment.get("spec") or {}, deployment.get("status") or {}
    generation = deployment["metadata"].get("generation") or 0
    reasons = [
        c.get("reason") for c in status.get("conditions") or () if c["type"] == "Progressing"
    ]
    return Rollout(
        desired=spec.get("replicas", 1),
        total=status.get("replicas") or 0,
        updated=status.get("updatedReplicas") or 0,
        available=status.get("availableReplicas") or 0,
        current=(status.get("observedGeneration") or 0) >= generation,
        late=_LATE in reasons,
    )


def change(
    record: Record | None, rendered: Rendered, pods: Rollout, *, allow_downgrade: bool
) -> Change:
    """Why the template is, or is not, the rendered one.

    Args:
        record: None for a new Deployment, and for one whose record another client has overwritten, which is put back at once.
        rendered: what this operator renders.
        pods: the Deployment in numbers.
        allow_downgrade: whether this operator also replaces the templates of newer ones.
    """
    if record is None:
        return Change.FREE
    if not templates.differences(record.template, rendered.template):
        return Change.SAME
    if record.made_from.pods != rendered.made_from.pods or not pods.total:
        return Change.FREE
    if record.template_version > rendered.operator and not allow_downgrade:
        return Change.NEWER
    return Change.BEGUN if record.mark is not None else Change.STAGED


def choose(
    why: Change,
    record: Record | None,
    rendered: Rendered,
    pods: Rollout,
    *,
    admitted: bool,
    now: str,
) -> Record:
    """The record to write, with the template to apply.

    Args:
        why: from `change`.
        record: the present record.
        rendered: what this operator renders.
        pods: the Deployment in numbers.
        admitted: whether the scheduler admits the service, for `Change.STAGED`.
        now: the time as Kubernetes writes it.
    """
    new = Record(
        operator=rendered.operator,
        template_version=rendered.operator,
        template=rendered.template,
        made_from=rendered.made_from,
        kept_replicas=rendered.kept_replicas,
    )
    if record is None or why is Change.FREE:
        return new
    if why is Change.STAGED and admitted:
        # Pods that did not serve before the upgrade are not waited for.
        return dataclasses.replace(new, mark=Mark(now, pods.available) if pods.serves else None)
    if why is Change.BEGUN:
        assert record.mark is not None
        return dataclasses.replace(new, mark=Mark(now, record.mark.available))
    mark = record.mark
    return dataclasses.replace(
        record,
        operator=rendered.operator,
        made_from=rendered.made_from if why is Change.SAME else record.made_from,
        kept_replicas=rendered.kept_replicas,
        mark=None if mark is not None and pods.is_finished(mark) else mark,
    )


def state(
    why: Change,
    record: Record,
    rendered: Rendered,
    *,
    limit: int,
    paused_by: str,
    is_canary: bool = False,
    component: str = "",
) -> Upgrade:
    """The state for the service's condition.

    Args:
        why: from `change`.
        record: from `choose`.
        rendered: what this operator renders.
        limit: how many services replace their pods at a time.
        paused_by: the service because of which no other is admitted; "" for none.
        is_canary: whether the pods are those of a canary.
        component: the transformer or the explainer whose pods they are; "" for others.
    """
    held = why in (Change.STAGED, Change.NEWER) and record.template is not rendered.template
    if record.mark is not None and not held:
        kind = UpgradeState.UPGRADING
    elif not held:
        kind = UpgradeState.CURRENT
    elif why is Change.NEWER:
        kind = UpgradeState.NEWER
    else:
        kind = UpgradeState.PAUSED if paused_by else UpgradeState.WAITING
    return Upgrade(
        state=kind,
        template=str(record.template_version),
        operator=str(rendered.operator),
        limit=limit,
        paused_by=paused_by,
        is_canary=is_canary,
        component=component,
        since=record.mark.since if record.mark is not None else "",
    )
