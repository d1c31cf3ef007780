"""One real server for the tests that only ask it something; others start their own."""

import collections.abc
import pathlib

import pytest

from tests.reference.process import ServerProcess, naiad_program
from tests.support.http_engine import leave_out
from tests.wire import repository


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what is not for the engine of HTTP of this run."""
    leave_out(items)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The model repository."""
    return repository.make(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def server(
    models: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> collections.abc.Iterator[ServerProcess]:
    """A server on those models, for the whole run."""
    log = tmp_path_factory.mktemp("log") / "server.log"
    with ServerProcess(naiad_program(), [models], log=log) as running:
        yield running
