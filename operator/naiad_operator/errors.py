"""The errors in a resource's manifest, as data. It imports neither a Kubernetes client nor kopf.

Errors of the API server are in `cluster.errors`.
"""

import collections.abc
import dataclasses
import typing

from typing_extensions import override


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """One error in a manifest.

    Attributes:
        path: the field, e.g. "spec.predictor.accelerator.profile"; "" means the whole manifest.
        message: what is wrong and what to write instead.
        blocks: of a conversion: whether the result serves nothing useful until it is edited.
    """

    path: str
    message: str
    blocks: bool = False

    @override
    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class OperatorError(Exception):
    """The base of all errors about a resource."""


class InvalidSpec(OperatorError):  # noqa: N818 - reads as what happened; it is caught by this name everywhere
    """A resource that cannot be deployed as it is written.

    Args:
        problems: all errors, so that a user can fix them in one step.

    Attributes:
        reason: the reason of the condition SpecValid.
    """

    reason: typing.ClassVar[typing.Literal["InvalidSpec", "ProfileNotFound"]] = "InvalidSpec"

    def __init__(self, problems: collections.abc.Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in self.problems))


class ProfileNotFound(InvalidSpec):
    """The NaiadProfile of a service does not exist, or the operator cannot read it."""

    reason = "ProfileNotFound"
