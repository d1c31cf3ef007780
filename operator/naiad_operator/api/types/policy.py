"""What a NaiadProfile holds for the namespaces that it binds."""

import typing

import msgspec

from naiad_operator.api.types.bounds import Key, Labels, LabelValue, ObjectName
from naiad_operator.api.types.structs import Part

PodTemplate = typing.Literal["Allow", "Restricted", "Refuse"]
Triggers = typing.Literal["Allow", "Refuse"]


class Requirement(Part, frozen=True):
    """A condition on a label of a namespace, as in a label selector of Kubernetes.

    Attributes:
        key: the label.
        operator: In and NotIn compare its value with values; NotIn and DoesNotExist hold for namespaces without the label.
        values: the values (In and NotIn only).
    """

    key: Key
    operator: typing.Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: typing.Annotated[tuple[LabelValue, ...], msgspec.Meta(min_length=1, max_length=64)] | None = None  # fmt: skip


class NamespaceSelector(Part, frozen=True):
    """Namespaces by their labels: those that have all of them and meet all expressions; every namespace when both are empty.

    Attributes:
        match_labels: labels with their values.
        match_expressions: further conditions.
    """

    match_labels: Labels | None = None
    match_expressions: typing.Annotated[tuple[Requirement, ...], msgspec.Meta(max_length=16)] | None = None  # fmt: skip


class BoundNamespaces(Part, frozen=True):
    """The namespaces that a profile binds: by names, by labels, or both.

    Attributes:
        names: their names.
        selector: their labels; the operator needs to read namespaces for it.
    """

    names: typing.Annotated[tuple[ObjectName, ...], msgspec.Meta(min_length=1, max_length=256)] | None = None  # fmt: skip
    selector: NamespaceSelector | None = None


HostPattern = typing.Annotated[
    str, msgspec.Meta(min_length=1, max_length=253, pattern=r"^(\*|(\*\.)?[a-z0-9{]([-a-z0-9.{}]*[a-z0-9}])?)$")
]  # fmt: skip
GatewayName = typing.Annotated[
    str, msgspec.Meta(min_length=3, max_length=317, pattern=r"^[a-z0-9{][-a-z0-9{}]*/(\*|[a-z0-9{][-a-z0-9.{}]*)$")
]  # fmt: skip

Enforceable = typing.Literal[
    "image", "serverVersion", "imagePullSecrets", "args", "env", "envFrom", "resources", "storage", "cache", "prometheus", "serviceAccountName",
    "automountServiceAccountToken", "nodeSelector", "tolerations", "affinity", "priorityClassName", "runtimeClassName", "podSecurityContext", "labels",
    "annotations",
]  # fmt: skip
"""Fields of a profile that it can enforce; instead of podTemplate, write podTemplate: Refuse."""


class Policy(Part, frozen=True):
    """What the services of some namespaces may have, whatever they say.

    Attributes:
        namespaces: the namespaces that the profile binds. Their services get this profile, also those that name another one, and no service of
            another namespace gets it.
        pod_template: whether services may patch their pods: Restricted as far as Kubernetes' Pod Security Standards go; by default what the operator was
            installed with.
        triggers: whether services may have KEDA triggers of their own, and the cluster's credentials for a Prometheus of their own; by default what the
            operator was installed with.
        enforced: fields of the profile that a service cannot change, also not by its podTemplate: by key or name those of labels, annotations, nodeSelector,
            env, resources and args that the profile has; the other fields, and those that the profile does not have, as a whole.
        hosts: hosts that services may use in ingress and gateway: names, *.domain for all names below it, * for all, with {namespace} for the service's
            namespace, e.g. *.{namespace}.example.com; none when the list is empty, all when it is not set.
        gateways: Gateways of other namespaces that services may use, as namespace/name or namespace/*; none when the list is empty, all when it is not set.
    """

    namespaces: BoundNamespaces
    pod_template: PodTemplate | None = None
    triggers: Triggers | None = None
    enforced: typing.Annotated[tuple[Enforceable, ...], msgspec.Meta(min_length=1, max_length=20)] | None = None  # fmt: skip
    hosts: typing.Annotated[tuple[HostPattern, ...], msgspec.Meta(max_length=64)] | None = None
    gateways: typing.Annotated[tuple[GatewayName, ...], msgspec.Meta(max_length=64)] | None = None
