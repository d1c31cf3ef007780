"""A way to load a model that is written for one test."""

import collections.abc
import pathlib
from typing import Any

import pytest

from naiad.testing import ModelUnderTest, load_model
from tests.server.testing.written import CONFIG, DOUBLE, written


@pytest.fixture
def load(tmp_path: pathlib.Path) -> collections.abc.Iterator[collections.abc.Callable[..., Any]]:
    """Writes and loads a model; closes it at the end."""
    loaded: list[ModelUnderTest] = []

    def make(code: str = DOUBLE, config: str | None = CONFIG, **more: Any) -> ModelUnderTest:
        loaded.append(load_model(written(tmp_path, code, config), **more))
        return loaded[-1]

    yield make
    for each in loaded:
        each.close()
