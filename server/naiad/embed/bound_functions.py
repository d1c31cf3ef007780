"""The functions that a server serves, and the repository that is made of them while it runs."""

import collections.abc
import contextlib
import os
import pathlib
import shutil
import tempfile
import uuid

from naiad.embed.function_model import forget, keep
from naiad.embed.functions import FunctionModel


class BoundFunctions:
    """By name, without two of one name."""

    def __init__(self, functions: collections.abc.Iterable[FunctionModel]) -> None:
        self._functions: dict[str, FunctionModel] = {}
        self._keys: dict[str, str] = {}
        self._folder: pathlib.Path | None = None
        if isinstance(functions, FunctionModel) or not isinstance(
            functions, collections.abc.Iterable
        ):
            raise TypeError(f"functions={functions!r}: expected a list, functions=[function]")
        for each in functions:
            self.add(each)

    def names(self) -> list[str]:
        """The names of the models."""
        return list(self._functions)

    def add(self, function: FunctionModel) -> None:
        """Add one, to the repository as well if it is there.

        Raises:
            TypeError: it is not declared by `naiad.model`.
            ValueError: there is one of this name, or its config is wrong.
        """
        if not isinstance(function, FunctionModel):
            raise TypeError(
                f"{function!r} is not a function that naiad.model declares: write @naiad.model(inputs=[…], outputs=[…]) above it"
            )
        if function.name in self._functions:
            raise ValueError(
                f"there is a function '{function.name}' already: naiad.model(name=…) gives it another name"
            )
        function.config()
        self._functions[function.name] = function
        if self._folder is not None:
            self._write(function)

    def remove(self, name: str) -> None:
        """Remove one that could not be loaded."""
        self._functions.pop(name, None)
        forget([self._keys.pop(name, "")])
        if self._folder is not None:
            shutil.rmtree(self._folder / name, ignore_errors=True)

    def forget(self) -> None:
        """This process was forked: the repository is the parent's."""
        self._folder = None
        self._keys = {}

    @contextlib.contextmanager
    def written(self) -> collections.abc.Iterator[list[str]]:
        """Make a repository of them, removed at the end, but not by a child of this process; gives its folder."""
        process = os.getpid()
        folder = pathlib.Path(tempfile.mkdtemp(prefix="naiad-functions-"))
        self._folder = folder
        try:
            for each in self._functions.values():
                self._write(each)
            yield [str(folder)]
        finally:
            if os.getpid() == process:
                self._folder = None
                forget(self._keys.values())
                self._keys.clear()
                shutil.rmtree(folder, ignore_errors=True)

    def _write(self, function: FunctionModel) -> None:
        assert self._folder is not None, "the repository is there"
        key = self._keys[function.name] = uuid.uuid4().hex
        keep(key, function)
        function.write(self._folder, key)
