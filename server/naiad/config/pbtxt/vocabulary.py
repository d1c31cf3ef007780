"""The vocabulary behind suggestions: the words that other tools use for fields, and the blocks that hold each field of ModelConfig.

The fields come from the message descriptor itself, so that a newer definition brings its names with it.
"""

import collections.abc
import functools
from typing import Any

from naiad.config.pbtxt.spelling import closest, squeeze
from naiad.core.messages import model_config_pb2

FIELD_SYNONYMS: collections.abc.Mapping[str, str] = {
    "shape": "dims",
    "size": "dims",
    "dimensions": "dims",
    "type": "data_type",
    "dtype": "data_type",
    "inputtype": "data_type",
    "layout": "format",
    "framework": "backend",
    "device": "kind",
    "devices": "gpus",
    "instances": "count",
    "maxbatch": "max_batch_size",
    "batchsize": "max_batch_size",
    "batching": "dynamic_batching",
    "batcher": "dynamic_batching",
    "maxdelay": "max_queue_delay_microseconds",
    "maxbatchdelay": "max_queue_delay_microseconds",
    "maxqueuedelayms": "max_queue_delay_microseconds",
    "maxqueuedelayus": "max_queue_delay_microseconds",
    "timeout": "default_timeout_microseconds",
    "timeoutus": "default_timeout_microseconds",
    "queuesize": "max_queue_size",
    "param": "parameters",
    "params": "parameters",
    "optimize": "optimization",
    "modelfile": "default_model_filename",
    "filename": "default_model_filename",
    "modelfilename": "default_model_filename",
    "labels": "label_filename",
    "labelfile": "label_filename",
    "version": "version_policy",
    "tags": "metric_tags",
    "cache": "response_cache",
    "warmup": "model_warmup",
    "ensemble": "ensemble_scheduling",
    "sequence": "sequence_batching",
    "decoupled": "model_transaction_policy",
}
"""Squeezed names that other tools (numpy, torch, TorchServe, KServe, JSON habits) use for a field."""

_ENUM_SYNONYMS: collections.abc.Mapping[str, str] = {
    "float": "TYPE_FP32",
    "float32": "TYPE_FP32",
    "f32": "TYPE_FP32",
    "single": "TYPE_FP32",
    "double": "TYPE_FP64",
    "float64": "TYPE_FP64",
    "f64": "TYPE_FP64",
    "half": "TYPE_FP16",
    "float16": "TYPE_FP16",
    "f16": "TYPE_FP16",
    "bfloat16": "TYPE_BF16",
    "int": "TYPE_INT32",
    "integer": "TYPE_INT32",
    "long": "TYPE_INT64",
    "short": "TYPE_INT16",
    "byte": "TYPE_UINT8",
    "char": "TYPE_INT8",
    "boolean": "TYPE_BOOL",
    "bytes": "TYPE_STRING",
    "str": "TYPE_STRING",
    "text": "TYPE_STRING",
    "object": "TYPE_STRING",
    "cuda": "KIND_GPU",
    "host": "KIND_CPU",
    "channelsfirst": "FORMAT_NCHW",
    "channelslast": "FORMAT_NHWC",
    "min": "PRIORITY_MIN",
    "max": "PRIORITY_MAX",
}


def meant_field(descriptor: Any, word: str) -> Any | None:
    """The field of a message that a misspelled name stands for; None when there is no good guess."""
    name = closest(word, descriptor.fields_by_name, synonyms=FIELD_SYNONYMS)
    return None if name is None else descriptor.fields_by_name[name]


def meant_value(enum_type: Any, word: str) -> str | None:
    """The enum value that a wrong name stands for: `FP32`, `float32`, `kind-gpu`, `TYPE_FLOAT32`; None without a good guess."""
    names: list[str] = [name for name in enum_type.values_by_name if not name.endswith("_INVALID")]
    prefix = common_prefix(names)
    full = prefix + word.replace("-", "_").upper()
    if full in names:
        return full
    bare = squeeze(word).removeprefix(squeeze(prefix))
    for part in (bare, bare.removeprefix("tensor")):
        synonym = _ENUM_SYNONYMS.get(part)
        if synonym in names:
            return synonym
    shortened = {name.removeprefix(prefix): name for name in names}
    name = closest(word, names)
    if name is not None:
        return name
    short = closest(bare, shortened)
    if short is None or short.lower().rstrip("0123456789") == bare:
        return None  # UINT may mean any of the UINT types
    return shortened[short]


def common_prefix(names: collections.abc.Sequence[str]) -> str:
    """What all values of an enum begin with, up to its underscore: `TYPE_`, `KIND_`, or "" when they share nothing."""
    first = names[0].split("_")[0] + "_"
    return first if all(name.startswith(first) for name in names) else ""


@functools.cache
def every_field_name() -> frozenset[str]:
    """The names of all fields of ModelConfig and of every block inside it."""
    names: set[str] = set()

    def walk(descriptor: Any) -> None:
        for field in descriptor.fields:
            if not descriptor.GetOptions().map_entry:
                names.add(field.name)
            if field.message_type is not None:
                walk(field.message_type)

    walk(model_config_pb2.ModelConfig.DESCRIPTOR)
    return frozenset(names)


@functools.cache
def homes(field_name: str) -> tuple[tuple[str, ...], ...]:
    """Every block in which a field of exactly this name exists, outermost first, as the names that lead to it.

    `max_queue_delay_microseconds` gives `("dynamic_batching",)`, `("sequence_batching", "direct")` and so on;
    `()` stands for the top level. ModelConfig holds no message inside itself, so this ends.
    """
    blocks: list[tuple[str, ...]] = []

    def walk(descriptor: Any, path: tuple[str, ...]) -> None:
        if field_name in descriptor.fields_by_name and not descriptor.GetOptions().map_entry:
            blocks.append(path)
        for field in descriptor.fields:
            if field.message_type is not None:
                walk(field.message_type, (*path, field.name))

    walk(model_config_pb2.ModelConfig.DESCRIPTOR, ())
    return tuple(sorted(blocks, key=lambda path: (len(path), path)))
