"""Bounded types of the resource's fields. The API server rejects a CEL rule whose cost it cannot bound, so every type is bounded."""

import typing

import msgspec

Text = typing.Annotated[str, msgspec.Meta(max_length=1024)]
"""Free text: an argument, an annotation's value, an expression."""

LongText = typing.Annotated[str, msgspec.Meta(max_length=4096)]
"""The value of an environment variable or an annotation."""

Key = typing.Annotated[str, msgspec.Meta(min_length=1, max_length=317)]
"""The key of a label or annotation, or the name of a resource: prefix, slash, name."""

LabelValue = typing.Annotated[
    str, msgspec.Meta(max_length=63, pattern="^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")
]

ObjectName = typing.Annotated[
    str,
    msgspec.Meta(min_length=1, max_length=253, pattern="^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"),
]
"""The name of another object: a Secret, a ServiceAccount, a claim."""

DataKey = typing.Annotated[
    str, msgspec.Meta(min_length=1, max_length=253, pattern="^[-._a-zA-Z0-9]+$")
]
"""A key inside a Secret."""

HostName = typing.Annotated[
    str,
    msgspec.Meta(min_length=1, max_length=253, pattern=r"^(\*\.)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"),
]

Quantity = typing.Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=32,
        pattern=r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei|[eE][-+]?[0-9]{1,2})?$",
    ),
]
"""A Kubernetes quantity written as a string; `parse` also takes plain numbers, as the API server does."""

Duration = typing.Annotated[
    str, msgspec.Meta(min_length=2, max_length=16, pattern="^([0-9]+h)?([0-9]+m)?([0-9]+s)?$")
]
"""A Prometheus duration, e.g. 15s."""

Port = typing.Annotated[int, msgspec.Meta(ge=1024, le=65535)]
"""A port that an unprivileged process may open."""

Annotations = typing.Annotated[dict[Key, LongText], msgspec.Meta(max_length=64)]
Labels = typing.Annotated[dict[Key, LabelValue], msgspec.Meta(max_length=64)]

AnyObject = dict[str, typing.Any]
"""A Kubernetes object that is passed on unchanged; the API server validates it when the child is applied."""
