"""The backend `vllm`, declared: language models by the package vllm, each in the worker of a Python model. Imports no framework."""

import types

import msgspec

from naiad.backends.plugin import deferred
from naiad.backends.python.plugin import PLUGIN as PYTHON

_ENGINE = "vllm's engine decides it itself: its arguments are in model.json"

PLUGIN = msgspec.structs.replace(
    PYTHON,
    name="vllm",
    make=deferred("naiad.backends.vllm.backend:make"),
    formats=(),
    runtime="model.py",
    options=types.MappingProxyType({}),
    options_without_effect=types.MappingProxyType({}),
    optimization_without_effect=types.MappingProxyType(
        dict.fromkeys(PYTHON.optimization_without_effect, _ENGINE)
    ),
    missing_file="",
    complete=deferred("naiad.backends.vllm.completion:complete"),
    completes_itself=None,
    preflight=deferred("naiad.backends.vllm.preflight:preflight"),
    takes_device_inputs=None,
)
