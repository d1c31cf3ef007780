"""The operations of a TensorFlow model that run before its first batch, as the file says them that the parameter TF_INIT_OPS_FILE names."""

import json
import pathlib

from naiad.errors import InferenceError, invalid


def read(version_dir: pathlib.Path, name: str, model: str) -> list[str]:
    """Their names, from a file in the version's folder or else in the model's; none without a file.

    Raises:
        InferenceError: INVALID_ARG: the file is not there, leads elsewhere, or is of another form.
    """
    if not name:
        return []
    if pathlib.PurePath(name).is_absolute() or ".." in pathlib.PurePath(name).parts:
        raise invalid(
            f"model '{model}': TF_INIT_OPS_FILE '{name}' must be a file in the model's folder"
        )
    path = next(
        (each for each in (version_dir / name, version_dir.parent / name) if each.is_file()), None
    )
    if path is None:
        raise invalid(
            f"model '{model}': unable to find '{name}' (TF_INIT_OPS_FILE) in {version_dir} or {version_dir.parent}"
        )
    try:
        operations = json.loads(path.read_text())["init_ops"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise _malformed(path, model, str(error)) from error
    if not isinstance(operations, list) or not all(isinstance(each, str) for each in operations):
        raise _malformed(path, model, "init_ops is not a list of names")
    return operations


def _malformed(path: pathlib.Path, model: str, why: str) -> InferenceError:
    return invalid(
        f"model '{model}': '{path}' is not valid ({why}): write {{\"init_ops\": [\"init\"]}}"
    )
