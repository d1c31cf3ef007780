"""The custom resources: what the CustomResourceDefinitions, the reference pages and the validation are made from."""

import dataclasses

from naiad_operator.api import names
from naiad_operator.api.rules import spec
from naiad_operator.api.rules.rule import Rule
from naiad_operator.api.types.profile import ProfileSpec
from naiad_operator.api.types.spec import Spec
from naiad_operator.api.types.status import Status
from naiad_operator.api.types.structs import Part


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CustomResource:
    """A custom resource.

    Attributes:
        kind: its kind.
        plural: its name in URLs.
        short_name: its name for kubectl.
        description: what an object of it is.
        is_namespaced: whether its objects are in namespaces.
        spec: the type of its spec.
        status: the type of its status; None when it has none.
        rules: the rules over the whole object.
    """

    kind: str
    plural: str
    short_name: str
    description: str
    is_namespaced: bool
    spec: type[Part]
    status: type[Part] | None = None
    rules: tuple[Rule, ...] = ()

    @property
    def crd_name(self) -> str:
        """The name of its CustomResourceDefinition."""
        return f"{self.plural}.{names.GROUP}"


SERVICE = CustomResource(
    kind=names.KIND,
    plural=names.PLURAL,
    short_name=names.SHORT_NAME,
    description="A model server: its models, accelerators, number of pods, and how it is reached.",
    is_namespaced=True,
    spec=Spec,
    status=Status,
    rules=spec.ROOT,
)
PROFILE = CustomResource(
    kind=names.PROFILE_KIND,
    plural=names.PROFILE_PLURAL,
    short_name="nprof",
    description="A platform's defaults for InferenceServices.",
    is_namespaced=False,
    spec=ProfileSpec,
)
