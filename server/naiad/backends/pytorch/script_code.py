"""What a TorchScript archive says of its model's `forward`, read from the code in it: nothing is unpickled and torch is not imported.

The archive holds the model's object as a pickle and its classes as text. The first name in the pickle is the class of the model.
"""

import ast
import contextlib
import pathlib
import pickletools
import zipfile

from naiad.backends.pytorch.naming import DICT, LIST, TENSOR, Argument, without_forward
from naiad.backends.pytorch.storages import UNREADABLE

_MOST_PICKLE = 1 << 16
"""Bytes of the pickle that are looked at: the class of the model stands at its beginning."""

_MOST_CODE = 1 << 22
"""Bytes of a class's file that are read."""


def forward_arguments(path: pathlib.Path, model: str) -> tuple[Argument, ...]:
    """The arguments of `forward` without `self`; none where the archive does not show them. Any other fault of the file is for the load to find.

    Raises:
        InferenceError: INTERNAL: the model's class is there and has no `forward`.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.partition("/")[2]: name for name in archive.namelist()}
            with archive.open(names["data.pkl"]) as file:
                module, name = _first_class(file.read(_MOST_PICKLE))
            with archive.open(names[f"code/{module.replace('.', '/')}.py"]) as file:
                code = file.read(_MOST_CODE).decode()
        methods = _methods(ast.parse(code), name)
    except (*UNREADABLE, SyntaxError):
        return ()
    for method in methods:
        if method.name == "forward":
            return tuple(Argument(each.arg, _kind(each)) for each in method.args.args[1:])
    raise without_forward(model)


def kind_of_type(text: str) -> str:
    """`TENSOR`, `LIST` or `DICT` for a type as TorchScript writes it; the text itself for any other."""
    base = text.partition("[")[0].rpartition(".")[2]
    return base if base in (TENSOR, LIST, DICT) else text


def _first_class(pickled: bytes) -> tuple[str, str]:
    """The module and the name of the first class in a pickle.

    Raises:
        LookupError: there is none.
    """
    with contextlib.suppress(ValueError):  # where the part that was read ends
        for code, argument, _ in pickletools.genops(pickled):
            if code.name == "GLOBAL" and str(argument).startswith("__torch__"):
                module, _, name = str(argument).partition(" ")
                return module, name
    raise LookupError("no class")


def _methods(tree: ast.Module, name: str) -> list[ast.FunctionDef]:
    """The methods of a class.

    Raises:
        LookupError: it is not there.
    """
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return [each for each in node.body if isinstance(each, ast.FunctionDef)]
    raise LookupError(name)


def _kind(argument: ast.arg) -> str:
    return TENSOR if argument.annotation is None else kind_of_type(ast.unparse(argument.annotation))
