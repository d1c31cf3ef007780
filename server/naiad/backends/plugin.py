"""The declaration by which a backend registers: what configs need to know of it, and how it is made.

A package offers one `BackendPlugin` under the entry-point group `naiad.backends`; the entry point's name is the backend's. The module
that holds it is imported as soon as the name or the model files of a backend matter, so it imports no framework: `deferred` names what does.
"""

import collections.abc
import importlib
import typing
from typing import Any

import msgspec

from naiad.config.backend_type import BackendType

if typing.TYPE_CHECKING:
    from naiad.backends.backend import Backend
    from naiad.backends.python.api.server import Server
    from naiad.core.clock import Clock

GROUP = "naiad.backends"
"""The entry-point group."""


class BackendContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the server gives to a backend: the clock for the times in an `Execution`, and the calls that models may make to the server."""

    clock: "Clock"
    server: "Server"


class BackendPlugin(BackendType, frozen=True, kw_only=True):
    """A backend that this server can run.

    Attributes:
        make: makes the backend; called once, off the event loop, when the first model needs it.
        plans_workers: the backend implements `PlansWorkers`; otherwise its workers run `backend_runner`, and only they import the framework.
        shares_processes: the instances of a model that see the same devices run in one worker process, each in a thread of it, with what
            the model has loaded in common; otherwise each instance has a process of its own. Its models make no calls to the server.
        package: the package that it stands on, as imported; "" for none.
        extra: the extra of naiad that brings that package; "" for none.
        install: what installs that package, or what to know beside the extra.
    """

    make: "collections.abc.Callable[[BackendContext], Backend]"
    plans_workers: bool = False
    shares_processes: bool = False
    package: str = ""
    extra: str = ""
    install: str = ""


def deferred(reference: str) -> collections.abc.Callable[..., Any]:
    """A callable, named as `module:name`, whose module is imported with the first call."""
    module, _, name = reference.partition(":")

    def call(*arguments: Any, **named: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*arguments, **named)

    return call
