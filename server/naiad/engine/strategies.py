"""Loads the code of batching strategies into the server: each load runs the file again, as a module of its own that nothing else can import by accident.

No bytecode is written: a new file in the model's folder would be a change of the model. Blocking.
"""

import itertools
import pathlib
import sys
import types
from typing import Any

from naiad.config.checks.batch_strategy import CLASS, INCLUDE, import_advice
from naiad.config.config_json import to_json
from naiad.errors import InferenceError, invalid
from naiad.repository.plan import VersionPlan
from naiad.scheduling.strategy import StrategyModel

_numbers = itertools.count(1)


class LoadedStrategy:
    """The code of a strategy, until it is closed.

    Attributes:
        code: an object of the file's class.
    """

    def __init__(self, code: Any, module: str) -> None:
        self.code = code
        self._module = module

    def close(self) -> None:
        """Forget its module. Idempotent."""
        sys.modules.pop(self._module, None)


def load_strategy(plan: VersionPlan) -> LoadedStrategy:
    """Run the file of a version's strategy and make its object.

    Raises:
        InferenceError: INVALID_ARG: it cannot be run, or has not what is needed.
    """
    path = plan.strategy
    assert path is not None, "the version has one"
    if path.suffix == ".so":
        from naiad.engine.strategy_library import StrategyLibrary  # noqa: PLC0415 - few models have one

        return LoadedStrategy(StrategyLibrary(path, _model_of(plan)), "")
    name = f"naiad_batch_strategy_{next(_numbers)}"
    module = types.ModuleType(name)
    module.__file__ = str(path)
    module.__package__ = ""
    sys.modules[name] = module  # as dataclasses need
    try:
        return LoadedStrategy(_made(module, path, plan), name)
    except BaseException:
        del sys.modules[name]
        raise


def _made(module: types.ModuleType, path: pathlib.Path, plan: VersionPlan) -> Any:
    config = plan.config
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)  # noqa: S102 - this is what the file is for
        code = _class_of(module, path)()
        initialize = getattr(code, "initialize", None)
        if initialize is not None:
            initialize(_model_of(plan))
    except InferenceError:
        raise
    except (Exception, SystemExit) as error:
        raise invalid(
            f"the batching strategy of model '{config.name}' cannot be loaded: {path}{_line_of(error, path)}: {type(error).__name__}: {error}; "
            f"{_advice(error, path)}, and load the model again"
        ) from error
    return code


def _model_of(plan: VersionPlan) -> StrategyModel:
    config = plan.config
    return StrategyModel(
        name=config.name,
        version=plan.version,
        max_batch_size=config.max_batch_size,
        parameters=config.parameters,
        config=to_json(config.message),
    )


def _class_of(module: types.ModuleType, path: pathlib.Path) -> Any:
    kind = getattr(module, CLASS, None)
    if not callable(getattr(kind, INCLUDE, None)):
        raise invalid(f"{path} needs a class {CLASS} with a method {INCLUDE}(self, batch, request)")
    return kind


def _advice(error: BaseException, path: pathlib.Path) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return import_advice(error.name, path)
    if isinstance(error, ImportError) and not error.name:  # a relative one
        return import_advice("", path)
    return f"correct {path.name}"


def _line_of(error: BaseException, path: pathlib.Path) -> str:
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f":{error.lineno}"
    line = 0
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f":{line}" if line else ""
