"""What the parameters and the files of a Python model say of how it runs: its environment, and what Triton refuses. Pure but for looking at files."""

import pathlib
from typing import Any

from naiad.environments.spec import EnvironmentSpec, Options, spec_of
from naiad.errors import invalid

_FORCE_CPU = "FORCE_CPU_ONLY_INPUT_TENSORS"


def environment_of(
    message: Any, version_dir: pathlib.Path, options: Options, *, backend_file: pathlib.Path | None
) -> EnvironmentSpec | None:
    """The environment that a version needs; None for the server's own. `backend_file`: the model.py of a Python-based backend.

    Raises:
        InferenceError: INVALID_ARG: a setting is not valid.
    """
    return spec_of(
        message.name,
        parameters={key: value.string_value for key, value in message.parameters.items()},
        version_dir=version_dir,
        backend_dir=None if backend_file is None else backend_file.parent,
        options=options,
    )


def check_parameters(message: Any) -> None:
    """Refuse what Triton refuses (row 15.31); in a thread of the server every tensor is in the host's memory anyway.

    Raises:
        InferenceError: INVALID_ARG: a parameter is not valid.
    """
    forced = message.parameters.get(_FORCE_CPU)
    if forced is not None and forced.string_value.lower() not in {"yes", "no"}:
        raise invalid(
            f"Incorrect value for {_FORCE_CPU}: '{forced.string_value}' (model '{message.name}'); "
            'it must be "yes" or "no"'
        )
