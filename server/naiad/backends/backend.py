"""What a framework offers to serve models, on the server's side: `Backend`.

A backend makes a `LoadedModel` of a model version (weights, sessions: what its instances share), which makes the `Instance`s that its
instance groups name (`instance.py`). All of it is blocking and is called off the event loop.
"""

import collections.abc
import pathlib
import typing
from typing import Any

import msgspec

from naiad.backends.instance import InstanceSpec, LoadedModel
from naiad.config.model_config import ModelConfig


class ModelSource(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend loads.

    Attributes:
        config: normalised.
        version: the version number.
        model_dir: the model's folder.
        version_dir: the version's folder.
        options: `--backend-config` settings of this backend, global ones included.
    """

    config: ModelConfig
    version: int
    model_dir: pathlib.Path
    version_dir: pathlib.Path
    options: collections.abc.Mapping[str, str]


class WorkerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What runs in a worker process.

    Attributes:
        load: `module:callable`, called with `settings` in the worker; gives a `LoadedModel`, or, of a one-shot task, its result.
        settings: for JSON.
        executable: the interpreter.
        instance: the instance to make there; None for a one-shot task.
        environ: what differs in its environment variables from the server's; None takes one out.
    """

    load: str
    settings: collections.abc.Mapping[str, Any]
    executable: str
    instance: InstanceSpec | None = None
    environ: collections.abc.Mapping[str, str | None] = msgspec.field(default_factory=dict)


@typing.runtime_checkable
class Closes(typing.Protocol):
    """What a backend offers besides `Backend` when something of it may run that has to end with the server."""

    def close(self) -> None:
        """End it. Safe to call again, from any thread; loads that are under way fail."""
        ...


class Backend(typing.Protocol):
    """A framework.

    Attributes:
        name: as in the config's `backend`.
    """

    name: str

    def complete(
        self,
        message: Any,
        *,
        model_dir: pathlib.Path,
        version_dir: pathlib.Path,
        options: collections.abc.Mapping[str, str],
    ) -> None:
        """Fill in what the model itself knows (rows 11.49-11.51, 15.27).

        Args:
            message: the model_config_pb2.ModelConfig to complete, changed in place.
            model_dir: the model's folder.
            version_dir: the folder of the highest version that will be served.
            options: `--backend-config` settings of this backend.

        Raises:
            InferenceError: the model cannot be read, or contradicts its config.
        """
        ...

    def load(self, source: ModelSource) -> LoadedModel:
        """Load a model version.

        Raises:
            InferenceError: it cannot be loaded; the message is the reason shown in the index.
        """
        ...

    def worker_plan(self, source: ModelSource, spec: InstanceSpec) -> WorkerPlan:
        """How an instance runs in a worker process: by code of its own that needs less than the server, or by `backend_runner`.

        Raises:
            InferenceError: it cannot be loaded.
        """
        ...


@typing.runtime_checkable
class CompletesApart(typing.Protocol):
    """What a backend offers besides `complete` when that would run a model's own code: the same in a worker process."""

    def completion_plan(
        self,
        message: Any,
        *,
        model_dir: pathlib.Path,
        version_dir: pathlib.Path,
        options: collections.abc.Mapping[str, str],
    ) -> WorkerPlan | None:
        """What to call there: its `load` is a function of the settings; None when the model has nothing to say.

        Raises:
            InferenceError: the model contradicts its config.
        """
        ...

    def take_completion(self, message: Any, result: Any) -> None:
        """Change the config by what the function gave back.

        Raises:
            InferenceError: it is no config.
        """
        ...
