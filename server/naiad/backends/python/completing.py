"""Runs a model's `auto_complete_config` in the model's own environment: `python …/completing.py ORDER RESULT` (row 15.27).

ORDER and RESULT are JSON files: `name`, `path`, `model_dir` and `config` (text) come in; `config` (what it became), `returned` (the
type of what is no config) or `error` goes out. A process of its own, because what the model imports is not the server's.

Limits: those of `backends/runner.py`: standard library and numpy, Python 3.8.
"""

import importlib.util
import json
import pathlib
import sys
from typing import Any


def main(order_file: str, result_file: str) -> None:
    """Run."""
    _find_naiad()
    order = json.loads(pathlib.Path(order_file).read_text(encoding="utf-8"))
    pathlib.Path(result_file).write_text(json.dumps(_complete(order)), encoding="utf-8")


def _complete(order: "dict[str, str]") -> "dict[str, Any]":
    # Only now: the package was not there before.
    from naiad.backends.python.api import context  # noqa: PLC0415
    from naiad.backends.python.api.model_config import ModelConfig  # noqa: PLC0415
    from naiad.backends.python.failures import describe  # noqa: PLC0415
    from naiad.backends.python.runner import entry_class  # noqa: PLC0415
    from naiad.backends.runner import Refusal  # noqa: PLC0415

    path, folder = pathlib.Path(order["path"]), pathlib.Path(order["model_dir"])
    context.current.set(
        context.Running(model=order["name"], instance="", directory=str(path.parent))
    )
    try:
        found = entry_class(path, folder, order["name"])
    except Refusal as refusal:
        return {"error": refusal.message}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a model may raise anything
        return {"error": f"unable to load model '{order['name']}': {describe(error, folder)}"}
    completer = getattr(found, "auto_complete_config", None)
    if completer is None:
        return {"config": None}
    try:
        completed = completer(ModelConfig(order["config"]))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
        text = f"auto_complete_config failed: {describe(error, folder)}"
        return {"error": f"unable to load model '{order['name']}': {text}"}
    if not isinstance(completed, ModelConfig):
        return {"returned": "nothing" if completed is None else type(completed).__name__}
    return {"config": completed.as_dict()}


def _find_naiad() -> None:
    """Make this package importable, and nothing else of where the server is installed."""
    here = pathlib.Path(__file__).resolve()
    folder = here.parents[2]
    sys.path[:] = [each for each in sys.path if pathlib.Path(each or ".").resolve() != here.parent]
    spec = importlib.util.spec_from_file_location(
        "naiad", str(folder / "__init__.py"), submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["naiad"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    main(*sys.argv[1:])
