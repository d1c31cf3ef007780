"""What a framework offers to serve models, on the server's side: `Backend`.

A backend makes a `LoadedModel` of a model version (weights, sessions: what its instances share), which makes the `Instance`s that its
instance groups name (`instance.py`). All of it is blocking and is called off the event loop.
"""

import collections.abc
import pathlib
import typing
from typing import Any

import msgspec

from naiad.backends.instance import InstanceResource, InstanceSpec, LoadedModel, SecondaryDevice
from naiad.config.model_config import InstanceKind, ModelConfig


class ModelSource(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend loads; `options` are the `--backend-config` settings of this backend, global ones included."""

    config: ModelConfig
    version: int
    model_dir: pathlib.Path
    options: collections.abc.Mapping[str, str]

    @property
    def version_dir(self) -> pathlib.Path:
        """The version's folder."""
        return self.model_dir / str(self.version)


class WorkerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What runs in a worker process.

    Attributes:
        load: `module:callable`, called with `settings` in the worker; gives a `LoadedModel`, or, of a one-shot task, its result.
        settings: for JSON.
        executable: the interpreter.
        instances: those to make there, at least one, each run by a thread of its own; none for a one-shot task.
        environ: what differs in its environment variables from the server's; None takes one out.
        nice: how much lower its priority is than the server's, as the system's `nice` counts.
        host_policy: the processors and the NUMA node of the process; None for those of the server.
    """

    load: str
    settings: collections.abc.Mapping[str, Any]
    executable: str
    instances: tuple[InstanceSpec, ...] = ()
    environ: collections.abc.Mapping[str, str | None] = msgspec.field(default_factory=dict)
    nice: int = 0
    host_policy: tuple[tuple[int, ...], int | None] | None = None


@typing.runtime_checkable
class Closes(typing.Protocol):
    """What a backend offers besides `Backend` when something of it may run that has to end with the server."""

    def close(self) -> None:
        """End it. Safe to call again, from any thread; loads in progress fail."""


class Backend(typing.Protocol):
    """A framework."""

    def load(self, source: ModelSource) -> LoadedModel:
        """Load a model version.

        Raises:
            InferenceError: it cannot be loaded; the message is the reason shown in the index.
        """


@typing.runtime_checkable
class PlansWorkers(typing.Protocol):
    """What a backend offers besides `Backend` when its worker processes run code that needs less than the server; else they run `backend_runner`."""

    def worker_plan(self, source: ModelSource, spec: InstanceSpec) -> WorkerPlan:
        """How an instance runs in a worker process.

        Raises:
            InferenceError: it cannot be loaded.
        """


@typing.runtime_checkable
class ModelsComplete(typing.Protocol):
    """What a backend offers besides `Backend` when a model's own code completes its config (row 15.27)."""

    def complete(
        self, message: Any, version_dir: pathlib.Path, options: collections.abc.Mapping[str, str]
    ) -> None:
        """Run that code here. See `config.backend_type.Completer`."""

    def completion_plan(
        self, message: Any, version_dir: pathlib.Path, options: collections.abc.Mapping[str, str]
    ) -> WorkerPlan | None:
        """Run it in a worker process: `load` of the plan is a function of the settings; None when the model has no such code.

        Raises:
            InferenceError: the model contradicts its config.
        """

    def take_completion(self, message: Any, result: Any) -> None:
        """Change the config by what the function returned.

        Raises:
            InferenceError: it is not a valid config.
        """


def instance_specs(config: ModelConfig) -> list[InstanceSpec]:
    """The instances of a model, one for each place that its instance groups name (rows 11.31-11.33), in the order in which they are made.

    Names are `<group>_<k>` with k from 0 to count - 1 (row 11.32). A KIND_GPU group gives one instance for each k on each of
    its devices; those of one k share a name and differ in `device_id`, as in Triton.
    """
    return [
        InstanceSpec(
            name=f"{group.name}_{k}",
            kind=group.kind,
            device_id=device,
            resources=tuple(
                InstanceResource(each.name, each.count, each.is_global) for each in group.resources
            ),
            priority=group.priority,
            passive=group.passive,
            profiles=group.profiles,
            host_policy=group.host_policy,
            secondary_devices=tuple(
                SecondaryDevice(each.kind, each.device_id) for each in group.secondary_devices
            ),
        )
        for group in config.instance_groups
        for k in range(group.count)
        for device in (group.gpus if group.kind is InstanceKind.GPU else (0,))
    ]
