"""A running server, and the models of these tests."""

import collections.abc
import pathlib

import pytest

import naiad
from tests.server.embed import folders


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return folders.make(tmp_path_factory.mktemp("models"))


def some(models: pathlib.Path, *names: str) -> naiad.Server:
    return naiad.Server(models, model_control_mode="explicit", load_model=[*names])


@pytest.fixture(scope="module")
def server(models: pathlib.Path) -> collections.abc.Iterator[naiad.Server]:
    """With add, waits and counts; a test leaves it as it found it."""
    with some(models, "add", "waits", "counts") as running:
        yield running
