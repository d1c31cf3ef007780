"""Parses a manifest of the resource into types."""

import collections.abc
import dataclasses
import typing

import msgspec

from naiad_operator.api import names, validation
from naiad_operator.api.spec import Spec
from naiad_operator.errors import InvalidSpec, Problem

Manifest = collections.abc.Mapping[str, typing.Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InferenceService:
    """One resource as the API server has it.

    Attributes:
        raw: the original manifest, status included.
        canary_of: the name of the service that this is the canary of (`builders.canary`); "" for the service itself.
    """

    name: str
    namespace: str
    uid: str
    generation: int
    spec: Spec
    raw: Manifest
    canary_of: str = ""

    @property
    def instance(self) -> str:
        """The name of the resource."""
        return self.canary_of or self.name

    @property
    def annotations(self) -> collections.abc.Mapping[str, str]:
        """The resource's own annotations."""
        annotations: dict[str, str] = self.raw.get("metadata", {}).get("annotations") or {}
        return annotations

    @property
    def status(self) -> Manifest:
        """The current status; empty before the first."""
        status: Manifest = self.raw.get("status") or {}
        return status


def parse(manifest: Manifest) -> InferenceService:
    """Parses a manifest.

    Raises:
        InvalidSpec: the manifest is invalid; it contains every error. The API server rejects most of them when a manifest is applied;
            the others are in files, or in resources that were stored before a rule existed.
    """
    filled, problems = validation.examine(manifest)
    if problems:
        raise InvalidSpec(problems)
    metadata = manifest["metadata"]
    try:
        spec = msgspec.convert(filled, Spec)
    except msgspec.ValidationError as error:
        raise InvalidSpec([Problem("spec", str(error))]) from error
    return InferenceService(
        name=metadata["name"],
        namespace=metadata.get("namespace") or "default",
        uid=metadata.get("uid") or "",
        generation=metadata.get("generation") or 0,
        spec=spec,
        raw=manifest,
    )


def is_meant(manifest: Manifest) -> bool:
    """Whether a manifest is meant to be of this kind, in any spelling or version, so that a wrong one is reported."""
    kind, version = str(manifest.get("kind", "")), str(manifest.get("apiVersion", ""))
    return kind.lower() == names.KIND.lower() or version.startswith(f"{names.GROUP}/")
