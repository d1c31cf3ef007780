"""What loading a Python model would refuse, as far as it can be seen without running its code: for `naiad check`.

Each rule is the function that a load calls, or raises the error that it raises. Files are compiled and their imports looked up; nothing of
them is executed.
"""

import ast
import collections.abc
import importlib.util
import os
import pathlib
import sys
import warnings

from naiad.backends.backend import instance_specs
from naiad.backends.python.failures import describe
from naiad.backends.python.parameters import check_parameters, environment_of
from naiad.backends.python.worker_model import (
    check_file,
    load_error,
    without_class,
    without_execute,
)
from naiad.backends.visible_devices import seen_by
from naiad.config.document import Document
from naiad.config.model_config import ModelConfig
from naiad.config.problem import Position, Problem, Scope
from naiad.config.refused import problem_of
from naiad.core.clock import SystemClock
from naiad.core.file_kind import exists
from naiad.environments.environments import Environments
from naiad.environments.spec import EnvironmentSpec, Options, Packed, refused_in_thread
from naiad.errors import InferenceError

_CLASS, _METHOD = "TritonPythonModel", "execute"
_HARMLESS = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_PROVIDED = frozenset(("triton_python_backend_utils", "c_python_backend_utils"))


def preflight(
    config: ModelConfig,
    *,
    document: Document,
    model_dir: pathlib.Path,
    versions: collections.abc.Sequence[int],
    options: collections.abc.Mapping[str, str],
    host: str,
    backend_file: pathlib.Path | None = None,
) -> list[Problem]:
    """See `Preflight`: the settings of the model, and the environment and the code of each version."""
    problems = _settings(config, document, host)
    compiled = set[pathlib.Path]()
    for version in versions:
        version_dir = model_dir / str(version)
        path = backend_file or version_dir / config.default_model_filename
        problem, spec = _environment(
            config, document, version_dir, options, host=host, backend_file=backend_file
        )
        if problem is not None:
            problems.append(problem)
        if path not in compiled and exists(path):  # `resolve` has reported a missing one
            compiled.add(path)
            root = model_dir if backend_file is None else backend_file.parent
            problems += _code(config.name, path, root, own_environment=spec is not None)
    return list(dict.fromkeys(problems))


def _settings(config: ModelConfig, document: Document, host: str) -> list[Problem]:
    problems = []
    try:
        check_parameters(config.message)
    except InferenceError as error:
        problems.append(problem_of(error, document))
    if host == "process":
        try:
            for spec in instance_specs(config):
                seen_by(spec, model=config.name, parameters=config.parameters, environ=os.environ)
        except InferenceError as error:
            problems.append(problem_of(error, document))
    return problems


def _environment(
    config: ModelConfig,
    document: Document,
    version_dir: pathlib.Path,
    options: Options,
    *,
    host: str,
    backend_file: pathlib.Path | None,
) -> tuple[Problem | None, EnvironmentSpec | None]:
    """What is wrong with a version's environment, and which one it needs."""
    spec = None
    try:
        spec = environment_of(config.message, version_dir, options, backend_file=backend_file)
        if spec is not None:
            if host == "thread":
                raise refused_in_thread(config.name, spec)
            Environments(clock=SystemClock()).check(config.name, spec, options)
    except InferenceError as error:
        path = None if spec is None or isinstance(spec, Packed) else spec.file
        return problem_of(error, document, path=path, scope=_scope(spec, version_dir)), spec
    return None, spec


def _scope(spec: EnvironmentSpec | None, version_dir: pathlib.Path) -> Scope:
    """An environment at an absolute path that does not exist here may exist on the machine that serves."""
    if not isinstance(spec, Packed) or spec.path.exists() or not spec.path.is_absolute():
        return Scope.ANYWHERE
    inside = spec.path.is_relative_to(version_dir.parent.absolute())
    return Scope.ANYWHERE if inside else Scope.PATH


def _code(
    model: str, path: pathlib.Path, root: pathlib.Path, *, own_environment: bool
) -> list[Problem]:
    """What importing a model file would raise."""
    try:
        check_file(path, model)
        with open(path, "rb") as file:  # noqa: PTH123 - no frame of pathlib in the error, as in that of an import
            data = file.read()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about style, which does not count
            compile(data, str(path), "exec", dont_inherit=True)
            tree = ast.parse(data)
    except InferenceError as error:
        return [Problem(path=path, position=None, message=error.message)]
    except SyntaxError as error:
        return [_syntax_problem(path, error, load_error(model, describe(error, root)).message)]
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        message = load_error(model, describe(error, root)).message
        return [Problem(path=path, position=None, message=message)]
    missing = None if own_environment else _missing_import(tree, path, root)
    if missing is not None:
        return [_import_problem(model, path, *missing, data)]
    fault = _class_fault(tree, data)
    if fault is None:
        return []
    return [Problem(path=path, position=None, message=fault(path, model).message)]


def _class_fault(
    tree: ast.Module, data: bytes
) -> collections.abc.Callable[[pathlib.Path, str], InferenceError] | None:
    """The error of a file that surely lacks the class, or its method: neither may be made by other means than their names."""
    stars = any(
        isinstance(node, ast.ImportFrom) and any(name.name == "*" for name in node.names)
        for node in ast.walk(tree)
    )
    if not all(isinstance(node, _HARMLESS) or _is_plain(node) for node in tree.body):
        return None  # what runs before may raise
    if _CLASS.encode() not in data:
        return None if stars else without_class
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == _CLASS]
    if len(classes) != 1 or classes[0].bases or classes[0].decorator_list:
        return None
    return without_execute if _METHOD.encode() not in data else None


def _missing_import(
    tree: ast.Module, path: pathlib.Path, root: pathlib.Path
) -> tuple[ast.stmt, str] | None:
    """The first import at the top of a file that fails for certain in this interpreter: nothing before it can change what is importable."""
    beside = {path.parent, root}
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and not statement.level and statement.module:
            names = [statement.module]
        elif _is_plain(statement):
            continue
        else:
            return None
        for name in names:
            top = name.partition(".")[0]
            if any((folder / top).exists() or (folder / f"{top}.py").exists() for folder in beside):
                return None  # a module of the model, which may do anything
            if top in _PROVIDED or top in sys.builtin_module_names:
                continue
            if not _is_installed(top):
                return statement, top
    return None


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return True  # of modules that only the interpreter itself makes


def _is_plain(statement: ast.stmt) -> bool:
    """A docstring or an assignment of a constant."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)


def _import_problem(
    model: str, path: pathlib.Path, statement: ast.stmt, name: str, data: bytes
) -> Problem:
    line = statement.lineno
    raised = f"ModuleNotFoundError: No module named '{name}'\n\nAt:\n  {path}({line}): <module>"
    lines = data.decode("utf-8", "replace").splitlines()
    text = lines[line - 1] if line <= len(lines) else ""
    return Problem(
        path=path,
        position=Position(line, statement.col_offset + 1, max(1, len(text) - statement.col_offset)),
        message=load_error(model, raised).message,
        line_text=text,
        scope=Scope.HERE,
    )


def _syntax_problem(path: pathlib.Path, error: SyntaxError, message: str) -> Problem:
    if error.lineno is None or error.text is None:
        return Problem(path=path, position=None, message=message)
    column = max(1, error.offset or 1)
    same_line = error.end_lineno == error.lineno and error.end_offset is not None
    width = (error.end_offset or 0) - column if same_line else 1
    return Problem(
        path=path,
        position=Position(error.lineno, column, max(1, width)),
        message=message,
        line_text=error.text.rstrip("\r\n"),
    )
