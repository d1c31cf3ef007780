"""The validation rules of a pod's accelerator."""

from naiad_operator.api.rules.rule import Rule
from naiad_operator.api.types import accelerator

ACCELERATOR = (
    Rule(
        cel="has(self.profile) == (self.type == 'mig')",
        message="profile is the MIG profile: write it with type: mig, e.g. profile: 1g.10gb, and leave it out otherwise",
        field="profile",
    ),
    Rule(
        cel=f"!has(self.profile) || self.profile.matches('{accelerator.CEL_PROFILE_PATTERN}')",
        message="write a MIG profile as nvidia-smi does, e.g. 1g.10gb, 3g.40gb or 1g.10gb+me",
        field="profile",
    ),
    Rule(
        cel="self.strategy != 'single' || (self.type == 'mig' && (has(self.product) || has(self.products)))",
        message="with strategy: single every slice is called nvidia.com/gpu, so only the node's product shows the profile: write type: mig "
        "and product, e.g. NVIDIA-H100-80GB-HBM3, or products",
        field="strategy",
    ),
    Rule(
        cel="!(has(self.product) && has(self.products))",
        message="products names several in place of the one of product: leave product out and write all of them into products",
        field="products",
    ),
    Rule(
        cel="self.strategy == 'dra' || !(has(self.deviceClassName) || has(self.celSelectors))",
        message="deviceClassName and celSelectors describe a resource claim: set strategy: dra, or leave them out",
        field="strategy",
    ),
    Rule(
        cel="!has(self.resourceName) || self.strategy != 'dra'",
        message="a resource claim requests a deviceClassName, not a resourceName: leave resourceName out",
        field="resourceName",
    ),
    Rule(
        cel=f"!has(self.resourceName) || self.resourceName.matches('{accelerator.RESOURCE_PATTERN}')",
        message="write the resource as nodes offer it, with its domain, e.g. nvidia.com/gpu.shared or amd.com/gpu",
        field="resourceName",
    ),
    Rule(
        cel="!has(self.product) || self.strategy == 'dra' || !self.product.contains(' ')",
        message="a node's label nvidia.com/gpu.product has no spaces: write '-' in their place, e.g. NVIDIA-H100-80GB-HBM3",
        field="product",
    ),
    Rule(
        cel="!has(self.products) || self.strategy == 'dra' || !self.products.exists(one, one.contains(' '))",
        message="a node's label nvidia.com/gpu.product has no spaces: write '-' in their place, e.g. NVIDIA-H100-80GB-HBM3",
        field="products",
    ),
    Rule(
        cel="self.type != 'none' || !(has(self.resourceName) || has(self.product) || has(self.products) || self.strategy == 'dra' || self.count > 1)",
        message="type: none requests no device: leave count, product, resourceName and strategy out, or set type: gpu",
        field="type",
    ),
)
