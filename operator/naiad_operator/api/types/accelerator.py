"""The accelerator of a pod: whole GPUs, MIG slices, a resource claim, or none."""

import typing

import msgspec

from naiad_operator.api.types.bounds import Key, ObjectName, Text
from naiad_operator.api.types.structs import Part

PROFILE_PATTERN = r"^[1-9][0-9]*g\.[0-9]+gb(\+(me|gfx|me\.all)|-me)?$"
"""Profiles differ by GPU and driver and new ones are added: a pattern, not a list."""

RESOURCE_PATTERN = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
"""An extended resource: only names with a domain are counted by nodes."""

CEL_PROFILE_PATTERN = PROFILE_PATTERN.replace("\\", "\\\\")
"""PROFILE_PATTERN escaped for a CEL string."""

Profile = typing.Annotated[
    str, msgspec.Meta(max_length=32)
]  # its pattern is a rule, which has better words
Product = typing.Annotated[
    str,
    msgspec.Meta(
        min_length=1, max_length=63, pattern="^[A-Za-z0-9]([-A-Za-z0-9_. ]*[A-Za-z0-9])?$"
    ),
]


class Accelerator(Part, frozen=True):
    """What each pod computes on.

    Attributes:
        type: gpu for whole GPUs, mig for slices of GPUs, none for the CPU.
        count: GPUs or slices per pod. With several slices the server runs a worker process on each, since CUDA opens one slice per process.
        profile: the MIG profile, e.g. 1g.10gb (mig only).
        strategy: how the cluster offers MIG slices: mixed as nvidia.com/mig-<profile>, single as nvidia.com/gpu on nodes of that
            profile, dra through resource claims (also for whole GPUs).
        product: the GPU as in the node label nvidia.com/gpu.product, e.g. NVIDIA-H100-80GB-HBM3; with dra, as in
            the device's attribute productName, e.g. NVIDIA H100 80GB HBM3.
        products: several products in place of one; a pod runs on any of them.
        resource_name: the resource to request in place of NVIDIA's default name, e.g. nvidia.com/gpu.shared under time slicing, or
            another vendor's.
        device_class_name: the DeviceClass of the claim (dra only); gpu.nvidia.com or mig.nvidia.com when not set.
        cel_selectors: further conditions on the device, in CEL (dra only).
    """

    type: typing.Literal["gpu", "mig", "none"] = "gpu"
    count: typing.Annotated[int, msgspec.Meta(ge=1, le=16)] = 1
    profile: Profile | None = None
    strategy: typing.Literal["mixed", "single", "dra"] = "mixed"
    product: Product | None = None
    products: (
        typing.Annotated[tuple[Product, ...], msgspec.Meta(min_length=1, max_length=8)] | None
    ) = None
    resource_name: Key | None = None
    device_class_name: ObjectName | None = None
    cel_selectors: (
        typing.Annotated[tuple[Text, ...], msgspec.Meta(min_length=1, max_length=8)] | None
    ) = None
