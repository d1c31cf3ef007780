"""What `naiad check` finds in a Python model beyond its config: whether its file compiles. Nothing in it is executed."""

import collections.abc
import pathlib
import warnings

from naiad.config.document import Document
from naiad.config.model_config import ModelConfig
from naiad.config.problem import Position, Problem


def preflight(
    config: ModelConfig,
    *,
    document: Document,
    model_dir: pathlib.Path,
    versions: collections.abc.Sequence[int],
    options: collections.abc.Mapping[str, str],
    backend_file: pathlib.Path | None = None,
) -> list[Problem]:
    """See `Preflight`: the model file of each version is compiled, or that of a Python-based backend."""
    filename = config.default_model_filename
    paths = [model_dir / str(version) / filename for version in versions]
    problems = []
    for path in paths if backend_file is None else [backend_file]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about style, which does not count
                compile(path.read_bytes(), path, "exec", dont_inherit=True)
        except FileNotFoundError:
            continue  # `resolve` has reported it where that matters
        except SyntaxError as error:
            problems.append(_syntax_problem(path, error))
        except (OSError, ValueError, RecursionError, MemoryError) as error:
            text = f"the file cannot be compiled: {error}"
            problems.append(Problem(path=path, position=None, message=text))
    return problems


def _syntax_problem(path: pathlib.Path, error: SyntaxError) -> Problem:
    message = f"Python cannot read this file: {error.msg}"
    if error.lineno is None or error.text is None:
        return Problem(path=path, position=None, message=message)
    column = max(1, error.offset or 1)
    same_line = error.end_lineno == error.lineno and error.end_offset is not None
    width = (error.end_offset or 0) - column if same_line else 1
    return Problem(
        path=path,
        position=Position(error.lineno, column, max(1, width)),
        message=message,
        line_text=error.text.rstrip("\r\n"),
    )
