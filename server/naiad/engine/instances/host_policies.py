"""Which host policy an instance follows: the one that its group names, else that of its device (row 11.34). Pure."""

import collections.abc
import types

from naiad.backends.instance import InstanceSpec
from naiad.config.model_config import InstanceKind
from naiad.hosts.worker.placement import HostPolicy

HostPolicies = collections.abc.Mapping[str, HostPolicy]
"""`--host-policy`, by name."""

NO_POLICIES: HostPolicies = types.MappingProxyType({})


def policy_of(spec: InstanceSpec, policies: HostPolicies) -> HostPolicy | None:
    """The policy of an instance; None if it has none."""
    name = spec.host_policy or _default_name(spec)
    return policies.get(name)


def _default_name(spec: InstanceSpec) -> str:
    match spec.kind:
        case InstanceKind.GPU:
            return f"gpu_{spec.device_id}"
        case InstanceKind.MODEL:
            return "model"
        case _:
            return "cpu"
