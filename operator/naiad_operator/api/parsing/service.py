"""Parses manifests of the custom resources into types."""

import collections.abc
import dataclasses
import typing

import msgspec

from naiad_operator.api import names
from naiad_operator.api.parsing import merging, validation
from naiad_operator.api.schema import resources
from naiad_operator.api.types.pod import Ports
from naiad_operator.api.types.profile import ProfileSpec
from naiad_operator.api.types.spec import Spec
from naiad_operator.api.types.status import NOT_OBSERVED
from naiad_operator.api.types.structs import Part
from naiad_operator.errors import InvalidSpec, Problem

Manifest = collections.abc.Mapping[str, typing.Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One NaiadProfile.

    Attributes:
        name: its name; "" for the operator's default profile, which is a file.
        spec: its spec.
        values: its spec as JSON, with defaults.
    """

    name: str
    spec: ProfileSpec
    values: Manifest

    @property
    def title(self) -> str:
        """The profile as messages name it."""
        return f"{names.PROFILE_KIND} {self.name}" if self.name else "operator's default profile"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InferenceService:
    """One resource as the API server has it.

    Attributes:
        spec: its spec, with the fields of its profile.
        own_spec: its spec without them: what its user has written.
        raw: the original manifest, status included.
        profile: its NaiadProfile; None when it has none.
        canary_of: the name of the service that this is the canary of (`builders.canary`), or a component (`builders.components`); "" for the service itself.
        component: "transformer", "explainer" or "canary-transformer" of one of these; else "".
    """

    name: str
    namespace: str
    uid: str
    generation: int
    spec: Spec
    own_spec: Spec
    raw: Manifest
    profile: Profile | None = None
    canary_of: str = ""
    component: str = ""

    @property
    def instance(self) -> str:
        """The name of the resource."""
        return self.canary_of or self.name

    @property
    def component_field(self) -> str:
        """The field of the spec that a component is from; "" for the service itself and a canary."""
        return self.component.removeprefix("canary-")

    @property
    def predictor_ports(self) -> Ports:
        """The ports of the servers, also of a component's."""
        ports = (self.raw.get("spec") or {}).get("predictor", {}).get("ports") or {}
        return msgspec.convert(dict(ports), Ports) if self.component else self.spec.predictor.ports

    @property
    def annotations(self) -> collections.abc.Mapping[str, str]:
        """The resource's own annotations."""
        annotations: dict[str, str] = self.raw.get("metadata", {}).get("annotations") or {}
        return annotations

    @property
    def status(self) -> Manifest:
        """The current status; empty before the first."""
        return status_of(self.raw)

    @property
    def is_observed(self) -> bool:
        """Whether an operator has reconciled the current spec."""
        return bool(self.status.get("observedGeneration") == self.generation)


def status_of(manifest: Manifest) -> Manifest:
    """The current status of a resource; empty before the first, where the API server fills in that there was none."""
    status = manifest.get("status")
    return status if isinstance(status, dict) and status != NOT_OBSERVED else {}


def parse(manifest: Manifest, profile: Profile | None = None) -> InferenceService:
    """Parses a manifest, and merges its profile into it.

    Raises:
        InvalidSpec: the manifest is invalid; it contains every error. The API server rejects most of them when a manifest is applied;
            the others are in files, or in resources that were stored before a rule existed, or come from the profile.
    """
    filled, problems = validation.examine(manifest)
    own = filled
    if profile is not None and not problems:
        merged = {**manifest, "spec": merging.merged(profile.values, filled)}
        filled, problems = validation.examine(merged)
        origin = f"with the fields of the {profile.title}"
        problems = [Problem(problem.path, f"{problem.message} ({origin})") for problem in problems]
    if problems:
        raise InvalidSpec(problems)
    metadata = manifest["metadata"]
    return InferenceService(
        name=metadata["name"],
        namespace=metadata.get("namespace") or "default",
        uid=metadata.get("uid") or "",
        generation=metadata.get("generation") or 0,
        spec=_convert(filled, Spec),
        own_spec=_convert(own, Spec),
        raw=manifest,
        profile=profile,
    )


def parse_profile(manifest: Manifest) -> Profile:
    """Parses the manifest of a NaiadProfile.

    Raises:
        InvalidSpec: the manifest is invalid; it contains every error.
    """
    filled, problems = validation.examine(manifest, resources.PROFILE)
    if problems:
        raise InvalidSpec(problems)
    name: str = manifest["metadata"]["name"]
    return Profile(name=name, spec=_convert(filled, ProfileSpec), values=filled)


def default_profile(spec: typing.Any) -> Profile:
    """The operator's default profile, from the spec of a NaiadProfile.

    Raises:
        InvalidSpec: the spec is invalid; it contains every error.
    """
    manifest = {
        "apiVersion": names.API_VERSION,
        "kind": names.PROFILE_KIND,
        "metadata": {"name": "default"},
        "spec": spec,
    }
    return dataclasses.replace(parse_profile(manifest), name="")


_AnyPart = typing.TypeVar("_AnyPart", bound=Part)


def _convert(filled: typing.Any, part: type[_AnyPart]) -> _AnyPart:
    try:
        return msgspec.convert(filled, part)
    except msgspec.ValidationError as error:
        raise InvalidSpec([Problem("spec", str(error))]) from error


def is_meant(manifest: Manifest) -> bool:
    """Whether a manifest is meant to be of this kind, in any spelling or version, so that a wrong one is reported."""
    kind, version = str(manifest.get("kind", "")), str(manifest.get("apiVersion", ""))
    return kind.lower() == names.KIND.lower() or version.startswith(f"{names.GROUP}/")
