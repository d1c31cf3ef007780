"""What configs and options have to know of a backend, without its framework: its model files, defaults, options and checks.

A backend declares one `BackendType` (`backends/plugin.py` adds how it is made). The rules of this package are given a `BackendTypes` and know
no backend by name. Light: what reads `--help` imports it.
"""

import collections.abc
import enum
import pathlib
import types
import typing
from typing import Any

import msgspec

from naiad.config.document import Document, FieldPath
from naiad.config.findings import Findings
from naiad.config.option_values import OptionValues
from naiad.config.problem import Problem
from naiad.errors import ErrorCode, InferenceError

if typing.TYPE_CHECKING:
    from naiad.config.model_config import ModelConfig

HostKind = typing.Literal["thread", "process"]

ALL_KINDS = frozenset(("KIND_CPU", "KIND_GPU", "KIND_MODEL"))


class Form(enum.Enum):
    """Whether a model file is a file, a folder of that name, or either."""

    FILE = "file"
    FOLDER = "folder"
    EITHER = "either"


class ModelFormat(msgspec.Struct, frozen=True, kw_only=True):
    """A format of model files that a backend runs.

    Attributes:
        filename: the default name of the model file in a version folder.
        platform: the platform filled in when the config gives none; "" for none.
        aliases: other platform names that mean this format.
        form: whether the file may be a folder.
        inner: the model file inside such a folder; "" when the folder itself is the model.
        telling_suffix: whether the suffix of the filename makes any file a likely model, for messages about one that is misplaced.
    """

    filename: str
    platform: str = ""
    aliases: tuple[str, ...] = ()
    form: Form = Form.FILE
    inner: str = ""
    telling_suffix: bool = True

    def is_in(self, listing: collections.abc.Mapping[str, bool]) -> bool:
        """Whether a version folder holds such a file; `listing` says of each entry whether it is a folder."""
        is_folder = listing.get(self.filename)
        if is_folder is None:
            return False
        return self.form is Form.EITHER or is_folder is (self.form is Form.FOLDER)


class CompletionError(InferenceError):
    """A config that cannot be completed.

    Args:
        field: the field of the config that it is about; () for the model file.
    """

    def __init__(
        self,
        message: str,
        *,
        field: FieldPath = (),
        suggestion: str = "",
        code: ErrorCode = ErrorCode.INVALID_ARG,
    ) -> None:
        super().__init__(code, f"{message}: {suggestion}" if suggestion else message)
        self.plain = message
        self.field = field
        self.suggestion = suggestion


Completer = collections.abc.Callable[[Any, pathlib.Path, collections.abc.Mapping[str, str]], None]
"""Fills in what the model itself knows (rows 11.49-11.51).

Takes the normalised message, which it changes in place, the folder of the highest version that will be served, and the `--backend-config`
settings of the backend. Raises InferenceError when the model cannot be read or contradicts its config; a CompletionError names the field.
"""

ModelCheck = collections.abc.Callable[[Any, pathlib.Path, Findings], None]
"""Holds a completed config (the message) against a version's model file and adds every contradiction to the findings."""


class Preflight(typing.Protocol):
    """What a load would refuse, in its words: for `naiad check`. Loads no framework and runs no model's code."""

    def __call__(
        self,
        config: "ModelConfig",
        *,
        document: Document,
        model_dir: pathlib.Path,
        versions: collections.abc.Sequence[int],
        options: collections.abc.Mapping[str, str],
        host: str,
    ) -> list[Problem]:
        """Check a model, whose config may have problems.

        Args:
            config: completed.
            document: where problems with its fields are.
            model_dir: its folder.
            versions: those that would be served, ascending.
            options: the `--backend-config` settings of the backend.
            host: where its instances run: `thread` or `process`.
        """


class BackendType(msgspec.Struct, frozen=True, kw_only=True):
    """A backend, as configs and options know it.

    Attributes:
        formats: of its model files; the first is the default. None for a backend without model files.
        runtime: the `runtime` that configs get where they have none (row 11.5); "" for none.
        python_runtime: another `runtime`, with which the model is code of that name in the version folder (row 16.17); "" for none.
        supported: whether this server can run it. One that it cannot is known by name, so that messages say so.
        cpu_instances: the default count of a KIND_CPU group (row 11.31).
        chosen_file: the model file that a config's parameters choose, by its message, "" for none; None where they never do.
        instance_kinds: the kinds of instances that it can have, as in config.pbtxt.
        no_gpu: why it has no form for GPUs, so that `--gpu-fallback=cpu` counts for it on every machine; "" for all others.
        has_profiles: whether it reads an instance group's `profile` (row 11.34).
        has_secondary_devices: whether it reads an instance group's `secondary_devices` (row 11.34).
        has_files_per_gpu: whether it reads `cc_model_filenames` (row 11.7).
        options: the `--backend-config` keys whose values are checked at start.
        options_without_effect: Triton's keys that are accepted, with the reason why each has no effect.
        parameters_without_effect: Triton's `parameters` of models that are accepted, with the reason why each has no effect.
        optimization_without_effect: the fields of `optimization` that even its instances on a GPU have no use for, by names such as `cuda.graphs`, with the reason (row 11.21).
        default_host: where its instances run by default.
        missing_file: the error message of a model file that is missing, with {model} and {path}; "" to leave that to loading.
        complete: the completion that needs no framework and runs no model's code; None for none.
        completes_by_loading: whether a server completes a config from the loaded model in place of `complete`, which cannot know enough; given the message
            and the version's folder. None for never.
        check: holds configs against model files, without a framework; None for none.
        completes_itself: whether a model file may complete its config when it is loaded, by its text; None for no model of the backend.
        preflight: what `naiad check` checks besides; None for nothing.
        takes_device_inputs: whether a KIND_GPU instance of a model, by its message, takes inputs that are on its GPU; None: never.
    """

    name: str
    formats: tuple[ModelFormat, ...] = ()
    runtime: str = ""
    python_runtime: str = ""
    supported: bool = True
    cpu_instances: int = 1
    chosen_file: collections.abc.Callable[[Any], str] | None = None
    instance_kinds: frozenset[str] = ALL_KINDS
    no_gpu: str = ""
    has_profiles: bool = False
    has_secondary_devices: bool = False
    has_files_per_gpu: bool = False
    options: collections.abc.Mapping[str, OptionValues] = types.MappingProxyType({})
    options_without_effect: collections.abc.Mapping[str, str] = types.MappingProxyType({})
    parameters_without_effect: collections.abc.Mapping[str, str] = types.MappingProxyType({})
    optimization_without_effect: collections.abc.Mapping[str, str] = types.MappingProxyType({})
    default_host: HostKind = "thread"
    missing_file: str = "unable to load model '{model}': unable to find '{path}'"
    complete: Completer | None = None
    completes_by_loading: collections.abc.Callable[[Any, pathlib.Path], bool] | None = None
    check: ModelCheck | None = None
    completes_itself: collections.abc.Callable[[pathlib.Path], bool] | None = None
    preflight: Preflight | None = None
    takes_device_inputs: collections.abc.Callable[[Any], bool] | None = None

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms of its formats."""
        return tuple(entry.platform for entry in self.formats if entry.platform)

    def model_file(
        self, version_dir: pathlib.Path, filename: str, runtime: str = ""
    ) -> pathlib.Path:
        """Where a version's model file is expected; the folder itself for a backend without model files. An empty `filename` is the default.

        `runtime` is the config's: with the backend's `python_runtime` the default is the code of that name, if it is there.
        """
        if not self.formats:
            return version_dir / filename
        if runtime and runtime == self.python_runtime and not filename:
            code = version_dir / runtime
            if code.is_file():
                return code
        default = self.formats[0]
        path = version_dir / (filename or default.filename)
        return path / default.inner if default.inner and path.is_dir() else path


class BackendTypes(typing.Protocol):
    """The backends that there are."""

    def find(self, name: str) -> BackendType | None:
        """The backend of that name, supported or not."""

    def folder(self, name: str) -> pathlib.Path | None:
        """The folder of that name in `--backend-directory`, whether it is there or not; None without a directory."""

    def __iter__(self) -> collections.abc.Iterator[BackendType]:
        """All of them, in the order in which their model files decide (row 11.4). Going on may look for installed ones."""


def supported_names(backends: BackendTypes) -> list[str]:
    """The names of the backends that this server can run, sorted, for messages."""
    return sorted(entry.name for entry in backends if entry.supported)
