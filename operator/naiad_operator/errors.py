"""What can be wrong with a resource, as data: no Kubernetes client, no kopf.

Errors of the API server are `cluster/`'s own; what reaches a person is a sentence built here from facts.
"""

import collections.abc
import dataclasses

from typing_extensions import override


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a manifest.

    Attributes:
        path: the field, as a person would write it, e.g. "spec.predictor.accelerator.profile"; "" means the whole.
        message: what is wrong and what to write instead.
    """

    path: str
    message: str

    @override
    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class OperatorError(Exception):
    """Anything the operator says about a resource."""


class InvalidSpec(OperatorError):  # noqa: N818 - reads as what happened; it is caught by this name everywhere
    """A resource that cannot be carried out as it is written.

    Args:
        problems: all of them, so that a person mends the file once and not once a problem.
    """

    def __init__(self, problems: collections.abc.Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in self.problems))
