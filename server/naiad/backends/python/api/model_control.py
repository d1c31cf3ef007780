"""Models that load, unload and ask about other models (row 15.24)."""

from typing import Any

from naiad.backends.python.api import context
from naiad.backends.python.api.errors import TritonModelException
from naiad.backends.python.api.forked import here
from naiad.backends.python.api.response import require_text
from naiad.backends.python.api.server import NO_SERVER


def load_model(model_name: str, config: str = "", files: "dict[str, bytes] | None" = None) -> None:
    """Load a model, or load it again; returns once it is ready.

    Args:
        model_name: the model.
        config: a config as JSON in place of its own.
        files: contents by `file:<path>` in place of its folder's.

    Raises:
        TritonModelException: the server does not run with --model-control-mode=explicit, or the model does not load.
        TypeError: an argument of another type.
    """
    model_name = _text("load_model", "model_name", model_name)
    config = _text("load_model", "config", config)
    if files is not None and not isinstance(files, dict):
        raise TritonModelException(
            f"failed to load model '{model_name}', files should be a dictionary of file paths and file contents"
        )
    try:
        server, caller = _server()
        server.load_model(model_name, config, files or {}, caller=caller)
    except TritonModelException as error:
        raise TritonModelException(f"Failed to load model: {error}") from None


def unload_model(model_name: str, unload_dependents: bool = False) -> None:  # noqa: FBT001, FBT002 - as models call it
    """Unload a model; its requests in flight are finished.

    Raises:
        TritonModelException: the server does not run with --model-control-mode=explicit.
        TypeError: an argument of another type.
    """
    model_name = _text("unload_model", "model_name", model_name)
    if not isinstance(unload_dependents, bool):
        raise TypeError(
            f"unload_model(unload_dependents=…) takes a bool, not {type(unload_dependents).__name__}"
        )
    try:
        server, caller = _server()
        server.unload_model(model_name, unload_dependents=unload_dependents, caller=caller)
    except TritonModelException as error:
        raise TritonModelException(f"Failed to unload model: {error}") from None


def is_model_ready(model_name: str, model_version: str = "") -> bool:
    """Whether a model is ready for requests.

    Args:
        model_name: the model; an unknown one is not ready.
        model_version: its version; "" for the newest.

    Raises:
        TritonModelException: the version is not a number.
        TypeError: an argument of another type.
    """
    model_name = _text("is_model_ready", "model_name", model_name)
    model_version = _text("is_model_ready", "model_version", model_version)
    version = -1
    if model_version:
        try:
            version = int(model_version)
        except ValueError:
            version = -1
        if version < 0:
            raise TritonModelException(
                "Failed to check model readiness: failed to get model version from specified version string "
                f"'{model_version}', version should be an integral value > 0"
            )
    try:
        return bool(_server()[0].model_ready(model_name, version))
    except TritonModelException as error:
        raise TritonModelException(f"Failed to check model readiness: {error}") from None


def _text(function: str, what: str, value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode()
    if not isinstance(value, str):
        raise TypeError(f"{function}({what}=…) takes a str, not {type(value).__name__}")
    require_text(what, value)
    return value


def _server() -> "tuple[Any, context.Running | None]":
    running = context.running()
    return (NO_SERVER if running is None else here(running.server)), running
