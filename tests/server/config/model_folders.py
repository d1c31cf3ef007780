"""Model folders for the tests: a config, and what lies in the version folders."""

import functools
import pathlib
from collections.abc import Mapping, Sequence

import onnx

from naiad.backends.catalog import Catalog
from naiad.config.problem import Problem
from naiad.config.resolving import resolve as resolving
from naiad.config.resolving.resolve import Resolution

Shown = tuple[int, int, str]
"""Line and column (0, 0 without a place) and the message of a problem."""


resolve = functools.partial(resolving.resolve, backends=Catalog())
"""With the server's own backends."""


def make_model(
    root: pathlib.Path,
    config: str | None = None,
    *,
    name: str = "m",
    files: Mapping[str, bytes | onnx.ModelProto] | None = None,
) -> pathlib.Path:
    """A model's folder.

    Args:
        root: where it is made.
        config: the text of config.pbtxt; None for no such file.
        name: the folder's name.
        files: path inside the folder to content; without it a python model of version 1.
    """
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    if config is not None:
        (folder / "config.pbtxt").write_text(config)
    for path, content in ({"1/model.py": b""} if files is None else files).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, bytes) else content.SerializeToString()
        target.write_bytes(data)
    return folder


def shown(problems: Sequence[Problem]) -> list[Shown]:
    """Problems as tables in tests have them."""
    return [
        (p.position.line, p.position.column, p.message) if p.position else (0, 0, p.message)
        for p in problems
    ]


def only(resolution: Resolution) -> Problem:
    """The one problem that there is."""
    assert len(resolution.problems) == 1, shown(resolution.problems)
    return resolution.problems[0]
