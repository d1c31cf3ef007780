"""The batching strategy of a model: which file it is in, and what can be wrong with it without running it (row 12.18).

`TRITON_BATCH_STRATEGY_PATH` names the file, in the model's folder; else `batchstrategy.py` is looked for in the folders of the version, the model and the backend.
A library is one for `naiad_backend.h` and runs in the server's process, if an option of the server allows it; one for Triton's C interface is refused. A strategy in
Python beside it takes precedence.
"""

import ast
import collections.abc
import importlib.util
import pathlib
import sys
from typing import Any

import msgspec

from naiad.config.document import FieldPath
from naiad.config.findings import Findings
from naiad.config.problem import Position, Problem
from naiad.core import elf
from naiad.core.file_kind import exists, is_file

PARAMETER = "TRITON_BATCH_STRATEGY_PATH"
FILE = "batchstrategy.py"
LIBRARY = "batchstrategy.so"
CLASS = "BatchStrategy"
INCLUDE = "include"

ABI = 1
ABI_SYMBOL = "naiad_batch_strategy_abi"
FUNCTIONS = ("naiad_strategy_create", "naiad_strategy_destroy", "naiad_batch_include")
INCLUDE_REQUEST = "TRITONBACKEND_ModelBatchIncludeRequest"

_FIELD: FieldPath = ("parameters", PARAMETER)
_FOLDER = "$$TRITON_MODEL_DIRECTORY"
_IN_PYTHON = f"write {FILE} beside it, with a class {CLASS} (docs/scheduling.md)"


class Wrong(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong; `path` is the file, or None for the parameter; `line` is that of the file, 0 for all of it."""

    message: str
    suggestion: str
    path: pathlib.Path | None = None
    line: int = 0


def batch_strategies(
    message: Any,
    findings: Findings,
    model_dir: pathlib.Path,
    versions: collections.abc.Iterable[int],
    backend_dir: pathlib.Path | None,
    *,
    libraries: bool = False,
) -> dict[int, pathlib.Path]:
    """The file of the strategy of each version that has one, and a problem for each that cannot be used; `libraries`: whether the server loads libraries."""
    if message.HasField("sequence_batching"):
        if PARAMETER in message.parameters:
            findings.add(
                _FIELD,
                f"{PARAMETER} cannot be specified with sequence batcher, using default batching strategy",
                "take one of them out",
            )
        return {}
    strategies: dict[int, pathlib.Path] = {}
    for version in versions:
        found = find_strategy(message, model_dir, version, backend_dir)
        if isinstance(found, pathlib.Path):
            strategies[version] = found
            found = (
                _library(found, allowed=libraries)
                if found.suffix == ".so"
                else check_strategy(found)
            )
        if found is not None:
            _add(found, findings)
    if not strategies or message.HasField("dynamic_batching"):
        return strategies
    findings.notes.append(
        "the batching strategy has no effect: without dynamic_batching each request runs alone"
    )
    return {}


def _add(wrong: Wrong, findings: Findings) -> None:
    if wrong.path is None:
        findings.add(_FIELD, wrong.message, wrong.suggestion)
        return
    problem = Problem(
        path=wrong.path,
        position=Position(line=wrong.line, column=1) if wrong.line else None,
        message=wrong.message,
        suggestion=wrong.suggestion,
        line_text=_line_text(wrong.path, wrong.line),
    )
    if problem not in findings.problems:
        findings.problems.append(problem)


def _line_text(path: pathlib.Path, line: int) -> str:
    try:
        lines = path.read_text(errors="replace").splitlines() if line else []
    except OSError:  # it is gone meanwhile
        return ""
    return lines[line - 1] if line <= len(lines) and line else ""


def find_strategy(
    message: Any, model_dir: pathlib.Path, version: int, backend_dir: pathlib.Path | None
) -> pathlib.Path | Wrong | None:
    """The file of the strategy of a version; None for a model without one."""
    if PARAMETER in message.parameters:
        return _named(message.parameters[PARAMETER].string_value, model_dir)
    folders = [model_dir / str(version), model_dir]
    if backend_dir is not None:
        folders.append(backend_dir)
    for folder in folders:
        if exists(folder / FILE):
            return folder / FILE
        if exists(folder / LIBRARY):
            return folder / LIBRARY
    return None


def check_strategy(path: pathlib.Path) -> Wrong | None:
    """What is wrong with the file of a strategy, as far as reading it says."""
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except OSError as error:
        return Wrong(path=path, message=f"unable to read '{path}': {error.strerror}", suggestion="let the server read it")  # fmt: skip
    except (SyntaxError, ValueError) as error:
        line = error.lineno or 0 if isinstance(error, SyntaxError) else 0
        return Wrong(path=path, line=line, message=f"{path.name} is not valid Python: {error}", suggestion="correct it")  # fmt: skip
    wrong = _wrong_import(tree, path)
    if wrong is not None:
        return wrong
    found = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == CLASS]
    if not found and not _assigns_class(tree):
        return Wrong(
            path=path,
            message=f"{path.name} has no class {CLASS}",
            suggestion=f"write class {CLASS} with a method {INCLUDE}(self, batch, request), which says whether a request joins the batch",
        )
    for node in found:
        methods = [each.name for each in node.body if isinstance(each, ast.FunctionDef)]
        if not node.bases and INCLUDE not in methods:
            return Wrong(
                path=path,
                line=node.lineno,
                message=f"class {CLASS} of {path.name} does not define all required custom batching functions: {INCLUDE} is missing",
                suggestion=f"add def {INCLUDE}(self, batch, request), which says whether a request joins the batch",
            )
    return None


def import_advice(name: str, path: pathlib.Path) -> str:
    """What to do where the file of a strategy imports a module that is not found; `name` is that of the module, "" of a relative import."""
    top = name.partition(".")[0]
    if not top or exists(path.parent / f"{top}.py") or exists(path.parent / top):
        return f"put the code into {path.name}: it can import packages that are installed with the server, but no file beside it"
    return (
        f"install what has '{top}' in the Python environment of the server, or take the import out"
    )


def _wrong_import(tree: ast.Module, path: pathlib.Path) -> Wrong | None:
    """The first import that will fail whatever else the file does."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""] if not node.level else [""]
        else:
            continue
        for name in names:
            if name and _is_installed(name.partition(".")[0]):
                continue
            what = f"'{name}', which is not installed" if name else "what is beside it"
            return Wrong(
                path=path,
                line=node.lineno,
                message=f"{path.name} imports {what}",
                suggestion=import_advice(name, path),
            )
    return None


def _is_installed(name: str) -> bool:
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _assigns_class(tree: ast.Module) -> bool:
    """Whether something else gives the name, such as an import."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom | ast.Import):
            if any((each.asname or each.name) == CLASS for each in node.names):
                return True
        elif isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == CLASS for target in node.targets
        ):
            return True
    return False


def _named(text: str, model_dir: pathlib.Path) -> pathlib.Path | Wrong:
    path = pathlib.Path(text.replace(_FOLDER, str(model_dir)))
    path = path if path.is_absolute() else model_dir / path
    try:
        inside = path.resolve().is_relative_to(model_dir.resolve())
    except (OSError, RuntimeError, ValueError):
        inside = False
    if not inside:
        return Wrong(
            message=f"Batching library path escapes model repository: {PARAMETER} is '{text}'",
            suggestion=f"copy the file into the model's folder and write its name, or {_FOLDER}/{FILE}",
        )
    if path.suffix == ".so":
        path = path.with_suffix(".py") if is_file(path.with_suffix(".py")) else path
    if not is_file(path):
        return Wrong(
            message=f"Batching library path not found: {path}", suggestion="put the file there"
        )
    return path


def _library(path: pathlib.Path, *, allowed: bool) -> Wrong | None:
    """What is wrong with a library, as far as its file says."""
    found, abi, why = None, None, ""
    try:
        found = elf.read(path)
        abi = elf.number(path, found, ABI_SYMBOL)
    except (OSError, elf.NoLibraryError) as error:
        why = str(error)
    if found is not None and abi is None and INCLUDE_REQUEST in found.defined:
        return Wrong(
            path=path,
            message=f"{path.name} is a batching strategy for Triton's C interface, which this server cannot load",
            suggestion=f"implement naiad_backend.h instead (docs/c-backends.md), or {_IN_PYTHON}",
        )
    if found is None or abi is None:
        why = why if found is None else f"it does not define {ABI_SYMBOL} (NAIAD_BATCH_STRATEGY)"
        return Wrong(path=path, message=f"{path.name} is not a batching strategy: {why}", suggestion=_IN_PYTHON)  # fmt: skip
    missing = [name for name in FUNCTIONS if name not in found.defined]
    if abi != ABI or missing:
        why = f"does not define {', '.join(missing)}" if missing else f"was built with version {abi} of naiad_backend.h, and this server has {ABI}"  # fmt: skip
        return Wrong(path=path, message=f"{path.name} {why}", suggestion="build it with the header of this server (docs/c-backends.md)")  # fmt: skip
    if allowed:
        return None
    return Wrong(
        path=path,
        message=f"{path.name} is a library, which would run in the server's process, where a crash of it ends the server",
        suggestion=f"start the server with --batch-strategy-libraries=true, or {_IN_PYTHON}",
    )
