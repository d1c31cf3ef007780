"""All resources that break a rule, each named after what is wrong and with the path where it is; and some that look as if."""

from naiad_operator.api.parsing import validation
from naiad_operator.api.schema import resources
from tests.operator.api.rules.cases import accelerator, model, pod, profile, scaling, spec, traffic
from tests.operator.api.specs import Manifest
from tests.support import tables


def resource_of(manifest: Manifest) -> resources.CustomResource:
    """The custom resource that a manifest is of."""
    return resources.PROFILE if manifest["kind"] == "NaiadProfile" else resources.SERVICE


def words(manifest: Manifest, path: str) -> str:
    """What the operator says of a manifest that is wrong at a path."""
    problems = validation.check(manifest, resource_of(manifest))
    [message] = {problem.message for problem in problems if problem.path == path}
    return message


def with_defaults(manifest: Manifest) -> Manifest:
    """The spec as the operator reads it."""
    filled, problems = validation.with_defaults(manifest["spec"], resource_of(manifest))
    assert problems == []
    return dict(filled)


BAD = tables.joined(
    accelerator.BAD, model.BAD, pod.BAD, profile.BAD, scaling.BAD, spec.BAD, traffic.BAD
)
"""What is wrong, and at which path."""

GOOD = tables.joined(
    accelerator.GOOD, model.GOOD, profile.GOOD, scaling.GOOD, spec.GOOD, traffic.GOOD
)
