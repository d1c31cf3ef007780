"""The files of a model of the backend `vllm`: the engine's arguments in model.json, its LoRA adapters in multi_lora.json.

Used by the server before it starts a worker, by `naiad check`, and by the worker, so that all of them say the same. Needs the standard library only.
"""

import ast
import difflib
import importlib.util
import json
import pathlib
from collections.abc import Collection
from typing import Any, NamedTuple

from naiad.errors import InferenceError, invalid, unavailable

ARGUMENTS_FILE = "model.json"
ADAPTERS_FILE = "multi_lora.json"

PACKAGE = "vllm"
INSTALL = (
    "pip install vllm (it brings a torch of its own, so give the model an environment: a requirements.txt beside it with a line such as "
    "vllm==0.33.0)"
)

_LARGEST_FILE = 1 << 20
_BESIDE = "./"
_PATHS = ("model", "tokenizer")
_CLASSES = ("EngineArgs", "AsyncEngineArgs")


class EngineArguments(NamedTuple):
    """What a version's folder says of its engine.

    Attributes:
        values: keyword arguments of `vllm.engine.arg_utils.AsyncEngineArgs`.
        adapters: folders of LoRA adapters by their names; empty without `enable_lora`.
    """

    values: "dict[str, Any]"
    adapters: "dict[str, str]"


class _RepeatedKeyError(ValueError):
    """A key stands twice in an object."""


def read_arguments(model: str, version_dir: pathlib.Path) -> EngineArguments:
    """Read and check the files of a version.

    Raises:
        InferenceError: INVALID_ARG: one is missing, is not JSON, or holds something else than it must; the message names file, line and key.
    """
    path = version_dir / ARGUMENTS_FILE
    values = _object_in(
        model,
        path,
        'write there the engine\'s arguments, such as {"model": "facebook/opt-125m", "gpu_memory_utilization": 0.5}',
    )
    name = values.get("model")
    if not isinstance(name, str) or not name:
        raise _wrong(
            model,
            path,
            f"'model' is {_shown(values, 'model')}: it must be the name of a model on Hugging Face, or a folder ({_BESIDE}NAME for one beside this file)",
        )
    for key in _PATHS:
        value = values.get(key)
        if isinstance(value, str) and value.startswith(_BESIDE):
            values[key] = str((version_dir / value).resolve())
    for key, value in values.items():
        # As Triton's tutorial writes booleans; as text the engine would take "false" for true.
        if isinstance(value, str) and value.lower() in {"true", "false"}:
            values[key] = value.lower() == "true"
    _check_counts(model, path, values)
    return EngineArguments(
        values, _adapters(model, version_dir) if values.get("enable_lora") else {}
    )


def check_known(
    model: str, version_dir: pathlib.Path, arguments: EngineArguments, known: Collection[str]
) -> None:
    """See that the engine has the arguments.

    Raises:
        InferenceError: INVALID_ARG: it lacks some; the message names them, and what is like them.
    """
    unknown = [key for key in arguments.values if key not in known]
    if unknown:
        raise _wrong(
            model,
            version_dir / ARGUMENTS_FILE,
            f"the installed vllm has no engine argument {_list_of(unknown, known)}",
        )


def check_devices(model: str, arguments: EngineArguments, kind: str) -> None:
    """See that an instance has the devices that its engine asks for; `kind` is CPU, GPU or MODEL.

    Raises:
        InferenceError: INVALID_ARG: an engine on several GPUs in an instance that has one, as in Triton.
    """
    values = arguments.values
    gpus = values.get("tensor_parallel_size", 1) * values.get("pipeline_parallel_size", 1)
    if gpus > 1 and kind.upper().endswith("GPU"):
        raise invalid(
            f"unable to load model '{model}': {ARGUMENTS_FILE} asks for {gpus} GPUs (tensor_parallel_size x pipeline_parallel_size), and "
            "an instance of KIND_GPU has one: write instance_group { kind: KIND_MODEL } in config.pbtxt"
        )


def check_installed(model: str) -> None:
    """See that vllm is installed where this runs, without importing it.

    Raises:
        InferenceError: UNAVAILABLE: it is not.
    """
    if importlib.util.find_spec(PACKAGE) is None:
        raise not_installed(model)


def not_installed(model: str) -> InferenceError:
    """The error of a model whose interpreter has no vllm."""
    return unavailable(
        f"unable to load model '{model}': its package {PACKAGE} is not installed: {INSTALL}"
    )


def known_by_source() -> "frozenset[str]":
    """The engine's arguments by the source of the installed vllm, which is not imported; empty where they cannot be seen there."""
    spec = importlib.util.find_spec(PACKAGE)
    for folder in () if spec is None else spec.submodule_search_locations or ():
        try:
            tree = ast.parse((pathlib.Path(folder) / "engine" / "arg_utils.py").read_text("utf-8"))
        except (OSError, ValueError, SyntaxError, RecursionError):
            continue
        names = {
            field.target.id
            for each in tree.body
            if isinstance(each, ast.ClassDef) and each.name in _CLASSES
            for field in each.body
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        }
        if "model" in names:
            return frozenset(names)
    return frozenset()


def _adapters(model: str, version_dir: pathlib.Path) -> "dict[str, str]":
    path = version_dir / ADAPTERS_FILE
    adapters = _object_in(
        model,
        path,
        f'"enable_lora" in {ARGUMENTS_FILE} needs it: write there the folders of the adapters by name, such as {{"alpaca": "./alpaca-lora"}}',
    )
    for name, folder in adapters.items():
        if not isinstance(folder, str) or not folder:
            raise _wrong(
                model,
                path,
                f"'{name}' is {_shown(adapters, name)}: it must be the folder of a LoRA adapter",
            )
        if folder.startswith(_BESIDE):
            adapters[name] = str((version_dir / folder).resolve())
    return adapters


def _check_counts(model: str, path: pathlib.Path, values: "dict[str, Any]") -> None:
    for key in ("tensor_parallel_size", "pipeline_parallel_size"):
        value = values.get(key, 1)
        if type(value) is not int or value < 1:
            raise _wrong(
                model,
                path,
                f"'{key}' is {_shown(values, key)}: it must be a number of GPUs, 1 or more",
            )


def _object_in(model: str, path: pathlib.Path, missing: str) -> "dict[str, Any]":
    """The JSON object in a file; `missing` says what to do where it is not there."""
    try:
        size = path.stat().st_size
        if size > _LARGEST_FILE:
            raise _wrong(model, path, f"it has {size} bytes, more than {_LARGEST_FILE}")
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise _wrong(model, path, f"there is no such file: {missing}") from None
    except (OSError, ValueError) as error:
        raise _wrong(model, path, f"it cannot be read: {error}") from error
    try:
        found = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise invalid(
            f"unable to load model '{model}': {path}:{error.lineno}:{error.colno}: it is not JSON: {error.msg}"
        ) from error
    except (_RepeatedKeyError, RecursionError) as error:
        raise _wrong(model, path, str(error) or "it is nested too deeply") from error
    if not isinstance(found, dict):
        raise _wrong(model, path, f"it holds {_kind_of(found)}, not an object: {missing}")
    return found


def _unique(pairs: "list[tuple[str, Any]]") -> "dict[str, Any]":
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _RepeatedKeyError(f"it names '{twice}' twice: leave one of the two out")
    return found


def _kind_of(value: Any) -> str:
    kinds = {list: "a list", str: "a text", bool: "a boolean", int: "a number", float: "a number"}
    return kinds.get(type(value), "null")


def _shown(values: "dict[str, Any]", key: str) -> str:
    return json.dumps(values[key])[:80] if key in values else "missing"


def _list_of(unknown: "list[str]", known: Collection[str]) -> str:
    """Unknown names with what they may be meant for."""
    texts: list[str] = []
    for name in unknown:
        like = difflib.get_close_matches(name, known, n=1)
        texts.append(f"'{name}'" + (f" (did you mean '{like[0]}'?)" if like else ""))
    return ", ".join(texts)


def _wrong(model: str, path: pathlib.Path, what: str) -> InferenceError:
    return invalid(f"unable to load model '{model}': {path}: {what}")
