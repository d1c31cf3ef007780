"""TensorFlow models for tests, and instances that have loaded them."""

import pathlib
from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

from naiad.backends.backend import ModelSource
from naiad.backends.catalog import Catalog
from naiad.backends.instance import InstanceSpec
from naiad.backends.tensorflow.backend import TensorflowBackend
from naiad.config.model_config import InstanceKind, ModelConfig
from naiad.config.resolving.resolve import resolve
from naiad.core.clock import ManualClock
from tests.server.backends.configs import Instance, Loaded

_Method = TypeVar("_Method", bound=Callable[..., Any])

SPEC = InstanceSpec(name="m_0_0", kind=InstanceKind.CPU, device_id=0)


def save(model: pathlib.Path, module: tf.Module, **signatures: Any) -> pathlib.Path:
    """Write `<model>/1/model.savedmodel`; gives back `model`."""
    tf.saved_model.save(module, str(model / "1" / "model.savedmodel"), signatures=signatures)
    return model


def resolved(model: pathlib.Path, text: str = "") -> ModelConfig:
    """The config of a model, completed from its file."""
    if text:
        (model / "config.pbtxt").write_text(text)
    resolution = resolve(model, backends=Catalog())
    assert resolution.config is not None, resolution.problems
    return resolution.config


def load(model: pathlib.Path, text: str = "") -> Loaded:
    """Load version 1."""
    config = resolved(model, text)
    source = ModelSource(config=config, version=1, model_dir=model, options={})
    return Loaded(TensorflowBackend(clock=ManualClock()).load(source), config)


def instance_of(model: pathlib.Path, text: str = "") -> Instance:
    """An instance on the CPU."""
    return load(model, text).make_instance(SPEC)


def function(*specs: tf.TensorSpec) -> Callable[[_Method], _Method]:
    """Decorates a method that is a signature with these inputs."""
    decorator: Callable[[_Method], _Method] = tf.function(input_signature=specs)
    return decorator
