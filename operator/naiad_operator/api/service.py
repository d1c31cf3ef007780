"""A manifest of the resource, read into types."""

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
    """One resource, as the API server has it.

    Attributes:
        raw: the manifest as it came, status included.
    """

    name: str
    namespace: str
    uid: str
    generation: int
    spec: Spec
    raw: Manifest

    @property
    def annotations(self) -> collections.abc.Mapping[str, str]:
        """The resource's own annotations."""
        annotations: dict[str, str] = self.raw.get("metadata", {}).get("annotations") or {}
        return annotations

    @property
    def status(self) -> Manifest:
        """The status that was last written; empty before the first."""
        status: Manifest = self.raw.get("status") or {}
        return status


def parse(manifest: Manifest) -> InferenceService:
    """Read a manifest.

    Raises:
        InvalidSpec: with everything that is wrong. An API server refuses most of it when it is applied; what gets here anyway was
            stored before a rule was, or comes from a file.
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
    """Whether a manifest means to be of this kind, in whatever spelling or version, so that a wrong one is told."""
    kind, version = str(manifest.get("kind", "")), str(manifest.get("apiVersion", ""))
    return kind.lower() == names.KIND.lower() or version.startswith(f"{names.GROUP}/")
