"""Resources that break a rule of the accelerator, and some that look as if."""

from tests.operator.api.specs import Manifest, accelerator

BAD: dict[str, tuple[Manifest, str]] = {
    "a slice without a profile": (accelerator(type="mig"), "spec.predictor.accelerator.profile"),
    "a profile of a whole GPU": (
        accelerator(profile="1g.10gb"),
        "spec.predictor.accelerator.profile",
    ),
    "an invalid profile": (
        accelerator(type="mig", profile="10gb"),
        "spec.predictor.accelerator.profile",
    ),
    "a product and products": (
        accelerator(product="A", products=["B", "C"]),
        "spec.predictor.accelerator.products",
    ),
    "one of the products that no label can hold": (
        accelerator(products=["A", "NVIDIA H100"]),
        "spec.predictor.accelerator.products",
    ),
    "products of nothing": (
        accelerator(type="none", products=["A"]),
        "spec.predictor.accelerator.type",
    ),
    "a single strategy without a product": (
        accelerator(type="mig", profile="1g.10gb", strategy="single"),
        "spec.predictor.accelerator.strategy",
    ),
    "a single strategy of whole GPUs": (
        accelerator(strategy="single", product="A"),
        "spec.predictor.accelerator.strategy",
    ),
    "selectors without a claim": (
        accelerator(celSelectors=["true"]),
        "spec.predictor.accelerator.strategy",
    ),
    "a resource of a claim": (
        accelerator(strategy="dra", resourceName="nvidia.com/gpu"),
        "spec.predictor.accelerator.resourceName",
    ),
    "a resource without a domain": (
        accelerator(resourceName="cpu"),
        "spec.predictor.accelerator.resourceName",
    ),
    "a product that no label can hold": (
        accelerator(product="NVIDIA H100 80GB HBM3"),
        "spec.predictor.accelerator.product",
    ),
    "a product of nothing": (
        accelerator(type="none", product="A"),
        "spec.predictor.accelerator.type",
    ),
}  # fmt: skip

GOOD: dict[str, Manifest] = {
    "a product as a claim names it": accelerator(strategy="dra", product="NVIDIA H100 80GB HBM3"),
    "seven slices per pod": accelerator(type="mig", profile="1g.10gb", count=7),
    "slices of two products under one strategy": accelerator(
        type="mig", profile="1g.10gb", strategy="single", products=["A", "B"]
    ),
    **{
        f"profile {profile}": accelerator(type="mig", profile=profile)
        for profile in (
            "1g.5gb",
            "1g.10gb+me",
            "1g.24gb-me",
            "1g.24gb+me.all",
            "7g.278gb",
            "4g.96gb+gfx",
        )
    },
}
