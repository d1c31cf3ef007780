"""What is wrong with the files of a model that is a `torch.nn.Module` in Python (row 16.17), seen without torch and without running them."""

import ast
import pathlib
import pickle
import re

from naiad.backends.pytorch import archive, storages
from naiad.backends.pytorch.archive import Kind
from naiad.errors import InferenceError, internal

_NO_CLASS = (b"type(", b"exec(", b"eval(", b"globals(")
"""What makes a class without a statement for it."""

_IMPORTED = frozenset(("torch", "typing", "math", "collections"))
"""What can be imported wherever the model can run."""

_REFUSED = re.compile(r"GLOBAL ([\w.]+)|(Unsupported (?:operand|class)[^\n.]*)")
"""What a refused pickle asks for, in torch's text, which also says how to run it all the same."""


def check_code(path: pathlib.Path, model: str) -> None:
    """Check a model.py as far as it can be seen.

    Raises:
        InferenceError: INTERNAL: no import can read it, or it surely has no class.
    """
    try:
        data = path.read_bytes()
        tree = ast.parse(data, str(path))
        compile(data, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise load_error(model, error) from error
    except (OSError, ValueError, RecursionError, MemoryError):
        return
    if any(each in data for each in _NO_CLASS):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            return
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported = [node.module or ""]
        else:
            continue
        if any(name.partition(".")[0] not in _IMPORTED for name in imported):
            return  # it may not be there, which the load says first
    raise without_class(model)


def without_class(model: str) -> InferenceError:
    """The error of a model.py that defines no module."""
    return internal(
        f"Cannot find a subclass of torch.nn.Module in model.py of model '{model}': define the class of the model there"
    )


def check_weights(path: pathlib.Path, model: str) -> None:
    """Check a file of weights.

    Raises:
        InferenceError: INTERNAL: it holds something else, or lacks bytes of them.
        OSError: it cannot be read.
    """
    kind = archive.kind_of(path)
    if kind is Kind.TORCHSCRIPT:
        raise internal(
            f"failed to load model '{model}': '{path.name}' is {kind.value}, and weights are expected beside model.py: save them by "
            f"torch.save(model.state_dict(), '{path.name}')"
        )
    if fault := storages.fault(path):
        raise internal(
            f"failed to load model '{model}': '{path.name}' is damaged: {fault}: copy it again, or save the weights again"
        )


def load_error(model: str, error: Exception) -> InferenceError:
    """The error of a load that has failed, with the reason of Python or torch in one line."""
    if isinstance(error, pickle.UnpicklingError):
        found = _REFUSED.search(str(error))
        asked = f"it asks for {found[1]}" if found and found[1] else found and found[2]
        reason = asked or "torch refuses it"
        return internal(
            f"failed to load model '{model}': 'model.pt' holds something else than weights, which may run any code and is not read: {reason}: "
            "save it by torch.save(model.state_dict(), 'model.pt')"
        )
    text = " ".join(str(error).split())
    return internal(f"failed to load model '{model}': {type(error).__name__}: {text}")
