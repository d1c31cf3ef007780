"""What a text must be that a pattern is for, in words for error messages."""

import collections.abc
import typing

import msgspec

from naiad_operator.api.types import accelerator, bounds, component, model, pod, policy, traffic

_NAME = "the name of an object: lower-case letters, digits, '-' and '.'"
_FORMS: tuple[tuple[typing.Any, str], ...] = (
    (component.ComponentModelName, "the name of a model: letters, digits, '-', '_' and '.'"),
    (bounds.Quantity, "a quantity, e.g. 500m, 2 or 8Gi"),
    (bounds.Duration, "a duration, e.g. 15s or 1m30s"),
    (bounds.ObjectName, _NAME),
    (bounds.HostName, "a host name, e.g. models.example.com"),
    (bounds.DataKey, "a key of a Secret: letters, digits, '-', '_' and '.'"),
    (bounds.LabelValue, "the value of a label: letters, digits, '-', '_' and '.'"),
    (accelerator.Product, "the value of the node label nvidia.com/gpu.product, e.g. NVIDIA-H100-80GB-HBM3"),
    (model.Endpoint, "an address without a path, e.g. https://minio.storage:9000"),
    (model.ModelName, "the name of a model, without blanks and '='"),
    (model.FolderPath, "a path that begins with '/', without ':' and blanks, e.g. /opt/models"),
    (model.ImagePath, "a path that begins with '/', without ':' and blanks, e.g. /opt/models"),
    (model.InnerPath, "a path below the top of the volume, without a '/' before it, e.g. models/ranker"),
    (model.VolumeName, "the name of a volume: lower-case letters, digits and '-', at most 63"),
    (model.ImageReference, "an image without blanks, e.g. registry.example.com/detector:1.4"),
    (model.Requirement, "a requirement as pip has it, in one line, e.g. transformers==4.57, or a file of them, e.g. -r /mnt/models/requirements.txt"),
    (pod.Image, "an image without blanks, e.g. registry.example.com/naiad-server:0.2.0"),
    (pod.ServerVersion, "a version, e.g. 0.2.0"),
    (pod.EnvName, "the name of a variable: letters, digits, '-', '_' and '.', no digit first"),
    (pod.ReadyModelName, "the name of a model, without blanks, '=' and ','"),
    (policy.HostPattern, "a host, *.domain or *, where {namespace} stands for the service's namespace"),
    (policy.GatewayName, "namespace/name or namespace/*"),
    (traffic.PathPrefix, "a path that begins with '/' and does not end with it, e.g. /api/predict/demo"),
    (traffic.UrlPath, "a path that begins with '/', without blanks"),
    (traffic.AddressRange, "a range of addresses, e.g. 10.0.0.0/8 or 203.0.113.7/32"),
    (traffic.AffinityName, "the name of a cookie or a header: letters, digits and '-', e.g. naiad-sequence"),
    (traffic.AppProtocol, "an application protocol, e.g. http, grpc or kubernetes.io/h2c"),
)  # fmt: skip


def _pattern(bounded: typing.Any) -> str:
    meta: msgspec.Meta = typing.get_args(bounded)[1]
    assert meta.pattern is not None
    return meta.pattern


FORMS: collections.abc.Mapping[str, str] = {
    "^[0-9]{1,3}%$": "an integer, or a share, e.g. 25%",
    **{_pattern(bounded): words for bounded, words in _FORMS},
}
"""By the pattern: what to write."""
