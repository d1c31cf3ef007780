"""What a name or an enum value that ModelConfig does not know most likely stands for, and the error message of an unknown field. Pure.

The known names come from the message descriptor itself, so that a newer definition brings its names with it; the tables hold the words that
other tools use.
"""

import collections
import collections.abc
import functools
from typing import Any

import msgspec

from naiad.config.pbtxt.spelling import closest, distance, squeeze
from naiad.core.messages import model_config_pb2

_MOST_LISTED = 12
_MOST_HOMES = 3

_FIELD_SYNONYMS: collections.abc.Mapping[str, str] = {
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
    name = closest(word, descriptor.fields_by_name, synonyms=_FIELD_SYNONYMS)
    return None if name is None else descriptor.fields_by_name[name]


def meant_value(enum_type: Any, word: str) -> str | None:
    """The enum value that a wrong name stands for: `FP32`, `float32`, `kind-gpu`, `TYPE_FLOAT32`; None without a good guess."""
    names: list[str] = [name for name in enum_type.values_by_name if not name.endswith("_INVALID")]
    prefix = _common_prefix(names)
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


def _common_prefix(names: collections.abc.Sequence[str]) -> str:
    """What all values of an enum begin with, up to its underscore: `TYPE_`, `KIND_`, or "" when they share nothing."""
    first = names[0].split("_")[0] + "_"
    return first if all(name.startswith(first) for name in names) else ""


@functools.cache
def _all_homes() -> dict[str, tuple[tuple[str, ...], ...]]:
    """For each field name the blocks that have such a field. ModelConfig holds no message inside itself, so this ends."""
    blocks: dict[str, list[tuple[str, ...]]] = collections.defaultdict(list)

    def walk(descriptor: Any, path: tuple[str, ...]) -> None:
        for field in descriptor.fields:
            if not descriptor.GetOptions().map_entry:
                blocks[field.name].append(path)
            if field.message_type is not None:
                walk(field.message_type, (*path, field.name))

    walk(model_config_pb2.ModelConfig.DESCRIPTOR, ())
    return {
        name: tuple(sorted(paths, key=lambda path: (len(path), path)))
        for name, paths in blocks.items()
    }


def homes(field_name: str) -> tuple[tuple[str, ...], ...]:
    """Every block in which a field of exactly this name exists, outermost first, as the names that lead to it.

    `max_queue_delay_microseconds` gives `("dynamic_batching",)`, `("sequence_batching", "direct")` and so on;
    `()` stands for the top level.
    """
    return _all_homes().get(field_name, ())


class UnknownField(msgspec.Struct, frozen=True, kw_only=True):
    """An explanation of an unknown field.

    Attributes:
        meant: the descriptor of the field that was surely meant, else None; its value can be read as that.
    """

    message: str
    suggestion: str
    meant: Any | None


def explain(descriptor: Any, word: str, *, block: tuple[str, ...]) -> UnknownField:
    """Explain an unknown field. `block` has the names of the blocks around it, outermost first; () at the top level."""
    message = f'unknown field "{word}" {inside(block)}'
    here = meant_field(descriptor, word)
    if here is not None and (_alike(word, here.name) or not homes(word)):
        return UnknownField(message=message, suggestion=f'did you mean "{here.name}"?', meant=here)
    elsewhere = closest(word, sorted(_all_homes()), synonyms=_FIELD_SYNONYMS)
    if elsewhere is not None:
        suggestion = _belongs(elsewhere, block, written=word)
    else:
        suggestion = _listing(descriptor, block)
    return UnknownField(message=message, suggestion=suggestion, meant=None)


def inside(block: tuple[str, ...]) -> str:
    """Where a field stands, in words."""
    if not block:
        return "at the top level of the file"
    return f'in "{block[-1]}"'


def _alike(word: str, name: str) -> bool:
    squeezed = squeeze(word)
    return _FIELD_SYNONYMS.get(squeezed) == name or distance(squeezed, squeeze(name), limit=1) <= 1


def _belongs(name: str, block: tuple[str, ...], *, written: str) -> str:
    """Where a field that exists in other blocks is to be written: the nearest of them."""
    blocks = homes(name)
    below = [path for path in blocks if path[: len(block)] == block and len(path) > len(block)]
    chosen = (below or [path for path in blocks if path != block])[:_MOST_HOMES]
    if not chosen:
        return f'did you mean "{name}"?'
    spelled = name if name == written else f'did you mean "{name}"? It'
    if chosen[0] == ():
        return f"{spelled} belongs at the top level of the file, outside {block[0]}"
    if below:
        chosen = [path[len(block) :] for path in chosen]
    shortest = min(len(path) for path in chosen)
    shown = [nested(path, name) for path in chosen if len(path) == shortest]
    return f"{spelled} belongs in {' or '.join(shown)}"


def nested(path: collections.abc.Sequence[str], name: str) -> str:
    """How a field inside blocks is written: `a { b { name: … } }`."""
    return " { ".join((*path, f"{name}: …")) + " }" * len(path)


def _listing(descriptor: Any, block: tuple[str, ...]) -> str:
    names = [field.name for field in descriptor.fields]
    if not names:
        return f"{block[-1]} takes no fields: write {block[-1]} {{ }}" if block else ""
    if len(names) > _MOST_LISTED:
        return "see the model configuration reference for the fields there are"
    return f"{inside(block)[3:]} has the fields {', '.join(names)}"
