"""The error of a load as a problem of the config: in the same words, at the field that they are about. Pure."""

import collections.abc
import pathlib

from naiad.config.document import Document, FieldPath
from naiad.config.problem import Problem, Scope
from naiad.errors import InferenceError


def problem_of(
    error: InferenceError,
    document: Document,
    *,
    path: pathlib.Path | None = None,
    scope: Scope = Scope.ANYWHERE,
) -> Problem:
    """The problem that an error of a load is: at the parameter that it quotes, else at `path`, else at the config as a whole."""
    field = _field_quoted(error.message, document)
    if field or path is None:
        problem = document.problem(field, error.message)
    else:
        problem = Problem(path=path, position=None, message=error.message)
    return Problem(
        path=problem.path,
        position=problem.position,
        message=problem.message,
        line_text=problem.line_text,
        scope=scope,
    )


def problems_of(
    document: Document, decisions: collections.abc.Iterable[collections.abc.Callable[[], object]]
) -> list[Problem]:
    """The problems of what a load decides: one for each decision that raises InferenceError, equal ones once."""
    problems: dict[Problem, None] = {}
    for decide in decisions:
        try:
            decide()
        except InferenceError as error:
            problems[problem_of(error, document)] = None
    return list(problems)


def _field_quoted(message: str, document: Document) -> FieldPath:
    """The longest key of a parameter that stands in the message."""
    keys = [key for key in document.message.parameters if key in message]
    if keys:
        return ("parameters", max(keys, key=len))
    if "Execution Accelerator" in message or "accelerator" in message:
        return ("optimization", "execution_accelerators")
    return ()
