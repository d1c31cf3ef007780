"""One real server for the tests that only ask it something; others start their own."""

import collections.abc
import pathlib

import pytest

from tests.reference.forking import switched_off
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
    """A server on those models, for the whole run; started as a whole interpreter, because tests look at its memory, and a fork maps libraries only as it uses them."""
    log = tmp_path_factory.mktemp("log") / "server.log"
    server = ServerProcess(naiad_program(), [models], log=log)
    with switched_off():
        server.start()
    try:
        yield server.wait()
    finally:
        server.stop()
