"""Weights files beside an ONNX model: whether onnxruntime will read them.

It follows links, and reads a file only where it ends up below the folder of the model file, or below the folder that a linked model file is really in:
a model may not name any file of the machine.
"""

import collections.abc
import os
import pathlib


def faults(model_file: pathlib.Path, names: collections.abc.Iterable[str]) -> list[str]:
    """Why weights files cannot be read, one message per file; `names` are those in the model."""
    allowed = (os.path.realpath(model_file.parent), os.path.dirname(os.path.realpath(model_file)))  # noqa: PTH120 - of text, as the line before
    messages = (_fault(model_file, name, allowed) for name in sorted(names))
    return [message for message in messages if message]


def _fault(model_file: pathlib.Path, name: str, allowed: tuple[str, ...]) -> str:
    subject = f"the weights file '{name}' that this model names"
    if pathlib.PurePath(name).is_absolute():
        return f"{subject} is an absolute path, which onnxruntime refuses: save the model again with its weights beside it"
    path = model_file.parent / name
    if not path.is_file():
        return f"{subject} is not beside it"
    real = pathlib.Path(os.path.realpath(path))
    if any(real.is_relative_to(folder) for folder in allowed):
        return ""
    return (
        f"{subject} is '{real}', outside of '{allowed[0]}': onnxruntime reads weights only below the folder of the model file: copy or hard-link the file "
        f"into that folder under a name without '..', or make {model_file.name} a link to a file in '{real.parent}' as well"
    )
