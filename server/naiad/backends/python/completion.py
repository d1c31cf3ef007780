"""Asks a model for its config in the model's own environment, where what it imports is (row 15.27). See `completing.py` for the other side."""

import collections.abc
import json
import logging
import pathlib
import tempfile
from typing import Any

from naiad.backends.python import completing
from naiad.config import config_json
from naiad.environments.environments import Environments
from naiad.environments.packed import Environment
from naiad.environments.programs import ClosedError, FailedError
from naiad.errors import InferenceError, internal, invalid, unavailable

log = logging.getLogger("naiad.backends.python")


def completed_in(
    environment: Environment,
    environments: Environments,
    message: Any,
    *,
    model_dir: pathlib.Path,
    version_dir: pathlib.Path,
) -> collections.abc.Mapping[str, Any] | None:
    """What a model's `auto_complete_config` makes of its config, as JSON has it; None when the model has no such hook.

    Raises:
        InferenceError: the model cannot be imported, or its hook fails, or returns what is no config.
    """
    name = message.name
    order = {
        "name": name,
        "path": str((version_dir / (message.default_model_filename or "model.py")).absolute()),
        "model_dir": str(model_dir.absolute()),
        "config": json.dumps(config_json.to_json(message)),
    }
    with tempfile.TemporaryDirectory(prefix="naiad-") as folder:
        asked, answered = pathlib.Path(folder, "order"), pathlib.Path(folder, "result")
        asked.write_text(json.dumps(order), encoding="utf-8")
        try:
            environments.run(
                environment,
                [completing.__file__, str(asked), str(answered)],
                tell=lambda line: log.info("[%s] %s", name, line),
            )
            result = json.loads(answered.read_text(encoding="utf-8"))
        except ClosedError as error:
            raise unavailable(
                f"unable to load model '{name}': the server stops before its config is completed"
            ) from error
        except (FailedError, OSError) as error:
            said = "\n".join(error.output) if isinstance(error, FailedError) else ""
            raise internal(
                f"unable to load model '{name}': auto_complete_config could not be run with {environment.executable}: {error}\n{said}".rstrip()
            ) from error
    if "error" in result:
        raise invalid(result["error"])
    if "returned" in result:
        raise no_config(name, result["returned"])
    config: dict[str, Any] | None = result["config"]
    return config


def no_config(model: str, returned: str) -> InferenceError:
    """The error of a hook that returned something else than a config: a type's name, or "nothing"."""
    return invalid(
        f"auto_complete_config function in model '{model}' must return a valid pb.ModelConfig object; it returned {returned}: end it with "
        "`return auto_complete_model_config`"
    )
