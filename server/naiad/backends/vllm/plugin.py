"""The backend `vllm`, declared: language models by the package vllm, each in the worker of a Python model. Imports no framework."""

import types

import msgspec

from naiad.backends.plugin import deferred
from naiad.backends.python.plugin import PLUGIN as PYTHON

PLUGIN = msgspec.structs.replace(
    PYTHON,
    name="vllm",
    make=deferred("naiad.backends.vllm.backend:make"),
    formats=(),
    runtime="model.py",
    options=types.MappingProxyType({}),
    options_without_effect=types.MappingProxyType({}),
    missing_file="",
    complete=deferred("naiad.backends.vllm.completion:complete"),
    completes_itself=None,
    preflight=deferred("naiad.backends.vllm.preflight:preflight"),
    takes_device_inputs=None,
)
