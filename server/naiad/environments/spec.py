"""Decides which Python environment a model needs: the server's own, a packed one, or one that is built from a requirements.txt.

Pure, except that it checks whether files exist. `environments.py` provides the environment.
"""

import collections.abc
import dataclasses
import os.path
import pathlib

from naiad.errors import InferenceError, invalid

PACKED_PARAMETER = "EXECUTION_ENV_PATH"
"""The model's setting for a packed environment (row 15.30)."""

REQUIREMENTS_PARAMETER = "naiad.requirements"
"""The model's setting for its requirements.txt: `ignore`."""

REQUIREMENTS_FILE = "requirements.txt"
WHEEL_FOLDER = "wheels"

WHEEL_DIR_OPTION = "wheel-dir"
CACHE_OPTION = "environment-cache"
KEEP_OPTION = "environment-keep-days"
REQUIREMENTS_OPTION = "requirements"
SHARED_OPTION = "shared-requirements"
"""The file that the server makes of `SHARED_FLAG`."""
SHARED_FLAG = "--python-requirement"

_MODEL_DIRECTORY = "$$TRITON_MODEL_DIRECTORY"
_BUILD, _IGNORE = "build", "ignore"

Options = collections.abc.Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A packed environment: a folder, or a tarball of one."""

    path: pathlib.Path


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Required:
    """An environment to build.

    Attributes:
        file: the requirements.txt.
        wheels: the only folder to install from; None: the installer's own sources.
        shared: whether it is for all models that bring none of their own.
    """

    file: pathlib.Path
    wheels: pathlib.Path | None
    shared: bool = False

    @property
    def source(self) -> str:
        """Where the packages are listed, for messages."""
        return SHARED_FLAG if self.shared else str(self.file)


EnvironmentSpec = Packed | Required


def spec_of(
    model: str,
    *,
    parameters: collections.abc.Mapping[str, str],
    version_dir: pathlib.Path,
    options: Options,
    backend_dir: pathlib.Path | None = None,
) -> EnvironmentSpec | None:
    """The environment of a Python model; None for the server's own.

    A requirements.txt is looked for in the version's folder, then in the model's, as modules are (row 15.4). EXECUTION_ENV_PATH takes precedence,
    and the requirements of all models come last.

    Raises:
        InferenceError: INVALID_ARG: a setting is not valid.
    """
    model_dir = version_dir.parent
    packed = parameters.get(PACKED_PARAMETER, "")
    if packed:
        return Packed(path=_expanded(packed, model, model_dir))
    if not _wants_requirements(model, parameters, options):
        return None
    for folder in (version_dir, model_dir, *([backend_dir] if backend_dir else [])):
        file = folder / REQUIREMENTS_FILE
        if file.is_file():
            return Required(file=file, wheels=_wheels(file, model_dir, options))
    shared = options.get(SHARED_OPTION)
    if shared is None:
        return None
    named = options.get(WHEEL_DIR_OPTION, "")
    return Required(
        file=pathlib.Path(shared), wheels=pathlib.Path(named) if named else None, shared=True
    )


def refused_in_thread(model: str, spec: EnvironmentSpec) -> InferenceError:
    """The error of a model with an environment of its own that is to run in a thread of the server."""
    what = f"{PACKED_PARAMETER}={spec.path}" if isinstance(spec, Packed) else spec.source
    instead = (
        f"remove {PACKED_PARAMETER}"
        if isinstance(spec, Packed)
        else f'set the parameter {REQUIREMENTS_PARAMETER} to "{_IGNORE}" (and install what it lists where the server is)'
    )
    return cannot_load(
        model,
        f"it has an environment of its own ({what}), and a thread of the server runs in the server's environment: "
        f'set its parameter naiad.host to "process" (or --backend-config=python,host=process), or {instead}',
    )


def missing_archive(model: str, spec: Packed) -> InferenceError:
    """The error of a model whose packed environment does not exist."""
    return cannot_load(
        model,
        f"Failed to get the canonical path for {spec.path}: {PACKED_PARAMETER} names it, and it does not exist",
    )


def cannot_load(model: str, reason: str) -> InferenceError:
    """The error of a model whose environment is not available."""
    return invalid(f"unable to load model '{model}': {reason}")


def _expanded(text: str, model: str, model_dir: pathlib.Path) -> pathlib.Path:
    if _MODEL_DIRECTORY not in text:
        return pathlib.Path(text)
    folder = os.path.normpath(model_dir.absolute())
    path = os.path.normpath(text.replace(_MODEL_DIRECTORY, folder, 1))
    if path != folder and not path.startswith(folder + os.sep):
        raise cannot_load(
            model,
            f"{PACKED_PARAMETER} is '{text}', which is outside of the model's folder {folder}: put the "
            "environment into that folder, or write its absolute path",
        )
    return pathlib.Path(path)


def _wants_requirements(
    model: str, parameters: collections.abc.Mapping[str, str], options: Options
) -> bool:
    for where, word in (
        (f"its parameter {REQUIREMENTS_PARAMETER}", parameters.get(REQUIREMENTS_PARAMETER)),
        (f"--backend-config=python,{REQUIREMENTS_OPTION}", options.get(REQUIREMENTS_OPTION)),
    ):
        if word in {_BUILD, _IGNORE}:
            return word == _BUILD
        if word is not None:
            raise cannot_load(
                model,
                f"{where} is '{word}': it must be {_BUILD} (a requirements.txt beside model.py is the "
                f"model's environment: the default) or {_IGNORE}",
            )
    return True


def _wheels(file: pathlib.Path, model_dir: pathlib.Path, options: Options) -> pathlib.Path | None:
    """A folder `wheels` beside the file or in the model's folder, else that of `--backend-config`."""
    for folder in (file.parent, model_dir):
        if (folder / WHEEL_FOLDER).is_dir():
            return folder / WHEEL_FOLDER
    named = options.get(WHEEL_DIR_OPTION, "")
    return pathlib.Path(named) if named else None
